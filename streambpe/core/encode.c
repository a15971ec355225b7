/* One chunk to its ids: stop word, symbols, events, names; and the cache of chunks that came before.

   The cache is made of lines of 64 bytes. A chunk of at most 15 bytes with at most 3 ids is found in one of the two halves
   of its line. Else it is encoded and put into the first half, and what was there moves to the second:

       line of " the": | " the" 262 | " cat" 1042 |     + " dog"  ->  | " dog" 3290 | " the" 262 |

   A larger one, up to 31 bytes and 7 ids, takes up all of its line.

   So the cache never grows and is never emptied, and what it holds decides nothing but time.

   Judge: streambpe/model/replay.py. */

/* One thread's encoder of a model, with a cache of `cache_bytes` and at most `limit` bytes for a long sequence. */
EXPORT encoder *encoder_new(const encode_model *model, uint64_t cache_bytes, uint64_t limit) {
    encoder *made = calloc(1, sizeof *made);
    if (!made)
        return NULL;
    made->model = *model;
    made->space.limit = limit;
    made->lines = 1;
    while (made->lines * 2 * sizeof *made->cache <= cache_bytes)
        made->lines *= 2;
    made->memory = calloc(made->lines + 1, sizeof *made->cache);
    if (made->memory) {
        uintptr_t less = sizeof *made->cache - 1; /* a line begins where one of the processor's does */
        made->cache = (cache_line *)(((uintptr_t)made->memory + less) & ~less);
        return made;
    }
    free(made);
    return NULL;
}

EXPORT void encoder_free(encoder *encoder) {
    replay_release(&encoder->space);
    free(encoder->memory);
    free(encoder);
}

/* Another limit for long sequences, as if the encoder were new. */
EXPORT void encoder_limit(encoder *encoder, uint64_t limit) {
    replay_release(&encoder->space);
    encoder->space.limit = limit;
}

/* After ENCODE_DEAD: the log id that has no model id. */
EXPORT int64_t encoder_bad(const encoder *encoder) {
    return encoder->bad;
}

/* Set the bits of all places between two characters that one of `n` tokens spans, token i being
   bytes[offsets[i]:offsets[i + 1]]. Where a token has less than two bytes of a character, for all that may be there. */
EXPORT void spanned_fill(uint64_t mask, const int64_t *offsets, const uint8_t *bytes, int64_t n, uint8_t *bits) {
    for (int64_t i = 0; i < n; i++)
        for (const uint8_t *begin = bytes + offsets[i], *end = bytes + offsets[i + 1], *p = begin + 1; p < end; p++) {
            if (*p < 0xC0 || p[-1] < 0x80)
                continue;
            uint32_t least = p - begin > 1 ? p[-2] : 0x80, most = p - begin > 1 ? least : 0xFF;
            uint32_t lowest = p + 1 < end ? p[1] : 0x80, highest = p + 1 < end ? lowest : 0xBF;
            for (uint32_t before = least; before <= most; before++)
                for (uint32_t behind = lowest; behind <= highest; behind++) {
                    uint64_t bit = spanned_bit(mask, before | (uint32_t)p[-1] << 8 | (uint32_t)*p << 16 | behind << 24);
                    bits[bit / 8] |= (uint8_t)(1 << bit % 8);
                }
        }
}

/* ----------------------------------------------------------------------------------------------------------- symbols */

/* Write the symbols of text[0:size] to `out`. Returns how many, or ENCODE_UNKNOWN; CORE_DAMAGED for one that is no id. */
static int64_t symbols_of(encoder *encoder, const uint8_t *text, int64_t size, int32_t *out) {
    const encode_model *model = &encoder->model;
    const uint8_t *p = text, *end = text + size;
    const int32_t *table = model->symbols;
    int32_t *to = out;
    const uint8_t *next;
    for (; p < end; p = next) {
        uint32_t point = *p;
        if (model->alphabet == BYTES)
            next = p + 1;
        else if ((point = utf8_point(p, end, &next)) == NO_POINT)
            point = 0xFFFD; /* no UTF-8, though the caller promised that */
        int32_t symbol = table[point], last = symbol;
        if (model->alphabet == SCRIPT && symbol) {
            *to++ = symbol;
            *to++ = last = model->indices[point];
        } else if (model->alphabet != SCRIPT && symbol >= 0) {
            *to++ = symbol;
        } else if (model->unknown == KEEP) {
            *to++ = UNKNOWN;
        } else if (model->unknown == ESCAPE) {
            for (; p < next && last < model->ids; p++)
                *to++ = last = model->escape + *p;
        } else if (model->unknown == REFUSE)
            return ENCODE_UNKNOWN;
        if (symbol >= model->ids || last >= model->ids)
            return CORE_DAMAGED;
    }
    return to - out;
}

/* Write the symbols of a chunk, with those of the mark before it if it has one. */
static int64_t symbolise(encoder *encoder, const uint8_t *chunk, uint64_t length, int marked, int32_t *out) {
    int64_t before = marked ? symbols_of(encoder, (const uint8_t *)WORD_MARK, 3, out) : 0;
    if (before < 0)
        return before;
    int64_t n = symbols_of(encoder, chunk, (int64_t)length, out + before);
    return n < 0 ? n : before + n;
}

/* ------------------------------------------------------------------------------------------------------------- chunk */

/* The log id of the chunk if it is a stop word, or -1. */
static int32_t stop_word(const encode_model *model, const uint8_t *chunk, uint64_t length, int marked) {
    const chunk_table *words = marked ? model->marked_stops : model->stops;
    const int64_t *id = words ? table_look(words, chunk, length) : NULL;
    return id ? (int32_t)*id : -1;
}

/* Turn log ids into model ids. */
static int name_ids(encoder *encoder, int32_t *ids, int64_t n) {
    const encode_model *model = &encoder->model;
    for (int64_t i = 0; model->names && i < n; i++) {
        int32_t name = ids[i] < 0 ? model->unknown_name : model->names[ids[i]];
        if (name < 0) {
            encoder->bad = ids[i];
            return ENCODE_DEAD;
        }
        ids[i] = name;
    }
    return CORE_OK;
}

static int64_t encode_anew(encoder *encoder, const uint8_t *chunk, uint64_t length, int marked, int32_t *out, int *whole) {
    const encode_model *model = &encoder->model;
    int32_t stop = stop_word(model, chunk, length, marked);
    int64_t n = 1;
    *whole = 0;
    if (stop >= model->ids)
        return CORE_DAMAGED;
    if (stop >= 0)
        out[0] = stop;
    else {
        n = symbolise(encoder, chunk, length, marked, out);
        if (n > 1 && n <= SHORT_SEQUENCE)
            n = replay_short(&model->chunk, out, n, NULL);
        else if (n > 1) {
            int64_t window = model->window, symbols = n;
            for (; (n = replay_long(&encoder->space, &model->chunk, out, symbols, window)) == ENCODE_AGAIN; window *= 4)
                symbolise(encoder, chunk, length, marked, out);
        }
        if (n < 0)
            return n;
        *whole = n == 1 && out[0] >= 0;
    }
    if (model->side)
        return n;
    int error = name_ids(encoder, out, n);
    return error ? error : n;
}

/* ------------------------------------------------------------------------------------------------------------- cache */

static inline int same_key(const uint64_t a[2], const uint64_t b[2]) {
    return !((a[0] ^ b[0]) | (a[1] ^ b[1]));
}

/* Whether the chunk takes up all of its line. */
static inline int line_has(const cache_line *line, const chunk_look *look) {
    const uint64_t *key = line->one.key;
    if (!same_key(key, look->key))
        return 0;
    return look->length <= SMALL_BYTES ? !(key[2] | key[3]) : same_key(key + 2, look->key + 2);
}

/* Encode a chunk that the cache does not have, and keep its ids there if they fit. */
static int64_t encode_and_keep(encoder *encoder, const chunk_look *look, int32_t *out, int *whole) {
    cache_line *line = look->line;
    int64_t n = encode_anew(encoder, look->chunk, look->length, look->marked, out, whole);
    if (!line || n < 1 || n > CACHED_IDS)
        return n;
    int32_t kept = (int32_t)n + (*whole ? CACHED_WHOLE : 0);
    if (look->length <= SMALL_BYTES && n <= SMALL_IDS) {
        int is_one = !line->two[0].n || (line->two[0].key[1] >> 56 & 127) > SMALL_BYTES;
        line->two[1] = is_one ? (small_chunk){.n = 0} : line->two[0];
        memcpy(line->two[0].key, look->key, sizeof line->two[0].key);
        memcpy(line->two[0].ids, out, sizeof line->two[0].ids);
        line->two[0].n = kept;
    } else {
        memset(line->one.key, 0, sizeof line->one.key);
        memcpy(line->one.key, look->key, look->length > SMALL_BYTES ? 32 : 16);
        memcpy(line->one.ids, out, sizeof line->one.ids);
        memcpy(line->one.others, out + 4, sizeof line->one.others);
        line->one.n = kept;
    }
    return n;
}

/* Write the ids of a chunk, log or model ids as the cache keeps them. Returns how many, or an error. `out` has room for
   the chunk's symbols, and for CACHED_IDS at least. */
static inline int64_t chunk_ids(encoder *encoder, const chunk_look *look, int32_t *out, int *whole) {
    const cache_line *line = look->line;
    int32_t n = 0;
    *whole = 0;
    if (!line) {
        if (!look->length)
            return 0;
    } else if (look->length <= SMALL_BYTES) {
        if (same_key(line->two[0].key, look->key)) {
            memcpy(out, line->two[0].ids, sizeof line->two[0].ids);
            n = line->two[0].n;
        } else if (same_key(line->two[1].key, look->key)) {
            memcpy(out, line->two[1].ids, sizeof line->two[1].ids);
            n = line->two[1].n;
        }
    }
    if (!n && line && line_has(line, look)) {
        memcpy(out, line->one.ids, sizeof line->one.ids);
        memcpy(out + 4, line->one.others, sizeof line->one.others);
        n = line->one.n;
    }
    if (!n)
        return encode_and_keep(encoder, look, out, whole);
    *whole = n >= CACHED_WHOLE;
    return n & (CACHED_WHOLE - 1);
}
