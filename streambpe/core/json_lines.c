/* One field of JSON lines to documents: its text with every escape undone, and FF behind it.

       {"id": 7, "text": "the c\u0061t"}
       {"text": null}
       {"text": "a\tdog", "of": ["x"]}        ->  the cat FF a    dog FF     2 documents, 1 null

   Only lines that leave no doubt are taken: one object of JSON (or of what Python writes, which has NaN and Infinity),
   not deep, whose field is a string of whole characters, or null. At the first other line this stops, and Python reads
   that line, or says what is wrong with it (sources/json_lines.py). Nothing is refused here.

   Judge: json, in tests/sources/test_json_lines.py. */

enum { DEEPEST = 32 }; /* places where to go on are NULL where it is in doubt */

static place past_blanks(place p, place end) {
    while (p < end && (*p == ' ' || *p == '\t' || *p == '\r'))
        p++;
    return p;
}

/* The next byte of a string that is not simply itself: a quote, a backslash, a control; or the end. With `to`, what is
   passed is written there: as many bytes as are read, of which there is always room. */
static place past_plain(place p, place end, uint8_t **to) {
    const uint64_t ones = 0x0101010101010101ull, high = 0x8080808080808080ull;
    uint8_t *out = to ? *to : NULL;
    while (end - p >= 8) {
        uint64_t eight;
        memcpy(&eight, p, 8);
        uint64_t quote = eight ^ ones * '"', slash = eight ^ ones * '\\';
        uint64_t stops = (((quote - ones) & ~quote) | ((slash - ones) & ~slash) | ((eight - ones * 0x20) & ~eight)) & high;
        int many = stops ? __builtin_ctzll(stops) / 8 : 8;
        if (out)
            memcpy(out, &eight, 8), out += many;
        p += many;
        if (stops)
            break;
    }
    while (p < end && *p != '"' && *p != '\\' && *p >= 0x20) {
        if (out)
            *out++ = *p;
        p++;
    }
    if (to)
        *to = out;
    return p;
}

/* Four hexadecimal digits; -1 if they are not. */
static int32_t hexadecimal(place p, place end) {
    int32_t value = 0;
    if (end - p < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        uint8_t c = p[i], letter = c | 0x20;
        if (c >= '0' && c <= '9')
            value = value * 16 + (c - '0');
        else if (letter >= 'a' && letter <= 'f')
            value = value * 16 + (letter - 'a' + 10);
        else
            return -1;
    }
    return value;
}

/* Behind an escape; `p` stands at its backslash. With `to`, the character is written there, and half of one is a
   doubt; a string that nobody asks for may hold halves. */
static place past_escape(place p, place end, uint8_t **to) {
    static const uint8_t meant[256] = {['"'] = '"',  ['\\'] = '\\', ['/'] = '/',  ['b'] = '\b',
                                       ['f'] = '\f', ['n'] = '\n',  ['r'] = '\r', ['t'] = '\t'};
    if (end - p < 2)
        return NULL;
    if (p[1] != 'u') {
        if (!meant[p[1]])
            return NULL;
        if (to)
            *(*to)++ = meant[p[1]];
        return p + 2;
    }
    int32_t code = hexadecimal(p + 2, end);
    if (code < 0)
        return NULL;
    p += 6;
    if (!to)
        return p;
    if (code >= 0xD800 && code < 0xE000) {
        int32_t second = code < 0xDC00 && end - p >= 6 && p[0] == '\\' && p[1] == 'u' ? hexadecimal(p + 2, end) : -1;
        if (second < 0xDC00 || second >= 0xE000)
            return NULL;
        code = 0x10000 + ((code - 0xD800) << 10) + (second - 0xDC00);
        p += 6;
    }
    *to = utf8_put(*to, (uint32_t)code);
    return p;
}

/* Behind a string; `p` stands at its first quote. With `to`, its text is written there. */
static place past_string(place p, place end, uint8_t **to) {
    p++;
    for (;;) {
        p = past_plain(p, end, to);
        if (p == end || *p < 0x20)
            return NULL;
        if (*p == '"')
            return p + 1;
        p = past_escape(p, end, to);
        if (!p)
            return NULL;
    }
}

static place past_digits(place p, place end) {
    if (p == end || *p < '0' || *p > '9')
        return NULL;
    while (p < end && *p >= '0' && *p <= '9')
        p++;
    return p;
}

static place past_word(place p, place end, const char *word) {
    size_t size = strlen(word);
    return (size_t)(end - p) >= size && !memcmp(p, word, size) ? p + size : NULL;
}

static place past_number(place p, place end) {
    if (*p == '-')
        p++;
    if (p < end && *p == 'I')
        return past_word(p, end, "Infinity");
    p = p < end && *p == '0' ? p + 1 : past_digits(p, end);
    if (p && p < end && *p == '.')
        p = past_digits(p + 1, end);
    if (p && p < end && (*p | 0x20) == 'e') {
        p++;
        if (p < end && (*p == '+' || *p == '-'))
            p++;
        p = past_digits(p, end);
    }
    return p;
}

/* The field that is asked for: its name, where its text is written to, and what it was. */
typedef struct {
    const uint8_t *name;
    size_t size;
    uint8_t *to;
    enum { FIELD_MISSING, FIELD_STRING, FIELD_NULL, FIELD_OTHER } kind;
} field;

static place past_members(place p, place end, int depth, field *wanted);

/* Behind a value that nobody asks for, inside so many objects and lists. */
static place past_value(place p, place end, int depth) {
    if (p == end || depth > DEEPEST)
        return NULL;
    switch (*p) {
    case '"':
        return past_string(p, end, NULL);
    case 't':
        return past_word(p, end, "true");
    case 'f':
        return past_word(p, end, "false");
    case 'n':
        return past_word(p, end, "null");
    case 'N':
        return past_word(p, end, "NaN");
    case '{':
    case '[':
        return past_members(p, end, depth, NULL);
    default:
        return past_number(p, end);
    }
}

/* Whether the string that begins at the quote `p` and ends before `behind` is the name of the field; below 0: in doubt.
   Escapes are undone behind what is written, where they are forgotten again. */
static int is_field(place p, place behind, const field *wanted) {
    const uint8_t *name = p + 1;
    size_t size = (size_t)(behind - 1 - name);
    if (memchr(name, '\\', size)) {
        uint8_t *undone = wanted->to;
        if (!past_string(p, behind, &undone))
            return -1;
        name = wanted->to;
        size = (size_t)(undone - name);
    }
    return size == wanted->size && !memcmp(name, wanted->name, size);
}

/* Behind the object or list whose bracket stands at `p`. The last of several members of the wanted name is the field. */
static place past_members(place p, place end, int depth, field *wanted) {
    int is_object = *p == '{', is_it = 0;
    uint8_t last = is_object ? '}' : ']', *begin = wanted ? wanted->to : NULL;
    p = past_blanks(p + 1, end);
    if (p < end && *p == last)
        return p + 1;
    for (;;) {
        if (is_object) {
            place behind = p < end && *p == '"' ? past_string(p, end, NULL) : NULL;
            if (!behind || (is_it = wanted ? is_field(p, behind, wanted) : 0) < 0)
                return NULL;
            p = past_blanks(behind, end);
            if (p == end || *p != ':')
                return NULL;
            p = past_blanks(p + 1, end);
        }
        if (is_it) {
            wanted->kind = p == end || *p != '"' ? (p < end && *p == 'n' ? FIELD_NULL : FIELD_OTHER) : FIELD_STRING;
            wanted->to = begin;
        }
        p = is_it && wanted->kind == FIELD_STRING ? past_string(p, end, &wanted->to) : past_value(p, end, depth + 1);
        if (!p)
            return NULL;
        p = past_blanks(p, end);
        if (p == end || (*p != ',' && *p != last))
            return NULL;
        if (*p++ == last)
            return p;
        p = past_blanks(p, end);
    }
}

/* The field of the lines of data[done[0]:size] as documents, written to out[done[1]:] (which has room for as many bytes
   as `data`). `done` is moved on: the place in `data` and in `out`, documents, nulls. It stops at the end, or at the
   beginning of a line in doubt. */
EXPORT void json_lines(const uint8_t *data, int64_t size, const uint8_t *name, int64_t name_size, uint8_t *out,
                       int64_t *done) {
    place p = data + done[0], last = data + size;
    uint8_t *to = out + done[1];
    while (p < last) {
        place end = memchr(p, '\n', (size_t)(last - p)), at;
        field wanted = {name, (size_t)name_size, to, FIELD_MISSING};
        if (!end)
            end = last;
        at = past_blanks(p, end);
        if (at < end) {
            if (*at != '{' || !(at = past_members(at, end, 0, &wanted)) || past_blanks(at, end) != end ||
                (wanted.kind != FIELD_STRING && wanted.kind != FIELD_NULL))
                break;
            if (wanted.kind == FIELD_STRING) {
                *wanted.to++ = DOCUMENT_END;
                to = wanted.to;
            }
            done[wanted.kind == FIELD_STRING ? 2 : 3]++;
        }
        p = end < last ? end + 1 : end;
    }
    done[0] = p - data;
    done[1] = to - out;
}
