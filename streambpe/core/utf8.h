/* The one decoder of UTF-8, and the one encoder. */

enum { NO_POINT = 0x110000 };

/* The code point of the character at `p`, and where the next one begins. Text is valid UTF-8; what is not, is NO_POINT,
   and nothing beyond `end` is read. */
static inline uint32_t utf8_point(const uint8_t *p, const uint8_t *end, const uint8_t **next) {
    uint32_t byte = *p, point;
    size_t length = byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : byte < 0xF8 ? 4 : 1;
    if ((size_t)(end - p) < length) {
        *next = end;
        return NO_POINT;
    }
    *next = p + length;
    if (length == 1)
        return byte < 0x80 ? byte : NO_POINT;
    if (length == 2)
        return (byte & 31) << 6 | (p[1] & 63);
    if (length == 3)
        return (byte & 15) << 12 | (p[1] & 63) << 6 | (p[2] & 63);
    point = (byte & 7) << 18 | (p[1] & 63) << 12 | (p[2] & 63) << 6 | (p[3] & 63);
    return point < NO_POINT ? point : NO_POINT;
}

/* Write a code point. Where the next one goes. */
static inline uint8_t *utf8_put(uint8_t *to, uint32_t point) {
    static const uint8_t lead[4] = {0, 0xC0, 0xE0, 0xF0};
    int more = (point >= 0x80) + (point >= 0x800) + (point >= 0x10000);
    *to++ = (uint8_t)(lead[more] | point >> 6 * more);
    while (more--)
        *to++ = (uint8_t)(0x80 | (point >> 6 * more & 63));
    return to;
}
