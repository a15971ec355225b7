/* Two sorted lists of chunks and counts -> one, in the order of the chunks' bytes; equal chunks are added up.

       a 2, ab 1   +   ab 5, b 1   ->   a 2, ab 6, b 1

   A list is given as offsets (one more than chunks), bytes and counts.

   Judge: tests/core/test_chunk_lists.py: collections.Counter and sorted. */

typedef struct {
    const int64_t *offsets;
    const uint8_t *bytes;
    const int64_t *n;
    int64_t size;
} chunk_list;

static inline int compare_next(const chunk_list *a, int64_t i, const chunk_list *b, int64_t j) {
    return compare_bytes(a->bytes + a->offsets[i], (uint64_t)(a->offsets[i + 1] - a->offsets[i]), b->bytes + b->offsets[j],
                         (uint64_t)(b->offsets[j + 1] - b->offsets[j]));
}

/* Merge two lists; in each, a chunk may stand several times, too. The outputs have room for both together. Returns how
   many chunks were written, or an error. */
EXPORT int64_t merge_lists(const chunk_list *a, const chunk_list *b, int64_t *offsets, uint8_t *bytes, int64_t *n) {
    const chunk_list out = {offsets, bytes, n, 0};
    int64_t i = 0, j = 0, rows = 0;
    offsets[0] = 0;
    while (i < a->size || j < b->size) {
        int is_a = j == b->size || (i < a->size && compare_next(a, i, b, j) < 0);
        const chunk_list *from = is_a ? a : b;
        int64_t at = is_a ? i++ : j++, length = from->offsets[at + 1] - from->offsets[at];
        if (rows && !compare_next(&out, rows - 1, from, at)) {
            if (n[rows - 1] > 0 && from->n[at] > INT64_MAX - n[rows - 1]) /* counts below 0 are taken away */
                return CORE_OVERFLOW;
            n[rows - 1] += from->n[at];
            continue;
        }
        memcpy(bytes + offsets[rows], from->bytes + from->offsets[at], (size_t)length);
        n[rows] = from->n[at];
        offsets[rows + 1] = offsets[rows] + length;
        rows++;
    }
    return rows;
}

/* Whether each of `size` chunks is above the one before it. */
EXPORT int chunks_in_order(const int64_t *offsets, const uint8_t *bytes, int64_t size) {
    for (int64_t i = 1; i < size; i++)
        if (compare_bytes(bytes + offsets[i - 1], (uint64_t)(offsets[i] - offsets[i - 1]), bytes + offsets[i],
                          (uint64_t)(offsets[i + 1] - offsets[i])) >= 0)
            return 0;
    return 1;
}

/* Write chunks as the digest of a corpus takes them: for each its length, bytes, count; numbers as eight bytes, the
   lowest first. */
EXPORT void lay_out_rows(const int64_t *offsets, const uint8_t *bytes, const int64_t *n, int64_t size, uint8_t *out) {
    for (int64_t i = 0; i < size; i++) {
        uint64_t length = (uint64_t)(offsets[i + 1] - offsets[i]);
        memcpy(out, &length, 8);
        memcpy(out + 8, bytes + offsets[i], length);
        memcpy(out + 8 + length, n + i, 8);
        out += length + 16;
    }
}

/* Write rows one after another: row i is bytes[offsets[i]:offsets[i + 1]], for i below `size`; -1 is the last row. */
EXPORT void gather_rows(const int64_t *offsets, int64_t size, const uint8_t *bytes, const int32_t *rows, int64_t n,
                        uint8_t *out) {
    for (int64_t i = 0; i < n; i++) {
        int64_t row = rows[i] < 0 ? size - 1 : rows[i], length = offsets[row + 1] - offsets[row];
        memcpy(out, bytes + offsets[row], (size_t)length);
        out += length;
    }
}
