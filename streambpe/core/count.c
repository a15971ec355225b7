/* Text to counts of its chunks, or to their numbers in order.

   A buffer holds documents, each ended by the byte FF, or one stretch of a document without that byte. Inside a
   document, runs of one script may end with FD, or with FE if they are split by a preset of their own:

       the cat FF the dog FF      ->  "the" 2, " cat" 1, " dog" 1
                                  ->  0 1 -1 0 2 -1      (numbers by first occurrence; -1 ends a document)

   Counting stops where the table is full, and goes on from there when it is called with another table.

   Judge: tests/text/test_chunker.py, which counts what the `regex` module finds. */

#ifndef CORE_DIGEST
#define CORE_DIGEST ""
#define CORE_PROTOTYPES ""
#endif

/* The digest of the sources that this library was made of. */
EXPORT const char *core_digest(void) {
    return CORE_DIGEST;
}

/* The functions that are exported, with the kinds of their results and arguments (hatch_build.py). */
EXPORT const char *core_prototypes(void) {
    return CORE_PROTOTYPES;
}

/* Set to 1 the pages (one byte for 256 code points) that the text needs and that are 0 so far. Returns how many. */
EXPORT int64_t pages_needed(const uint8_t *text, int64_t size, uint8_t *pages) {
    int64_t needed = 0;
    const uint8_t *p = text, *end = text + size;
    while (p < end) {
        uint64_t eight;
        while (end - p >= 8 && (memcpy(&eight, p, 8), !(eight & 0x8080808080808080ull)))
            p += 8;
        while (p < end && *p < 0x80)
            p++;
        if (p == end)
            break;
        uint32_t page = utf8_point(p, end, &p) >> 8;
        if (page < NO_POINT >> 8 && !pages[page])
            pages[page] = 1, needed++;
    }
    return needed;
}

/* Lines -> documents: every line break becomes FF, and empty lines are left out. `inside`: the data begins inside a
   document, which ends at the first line break. Writes at most `size` bytes; returns how many. */
EXPORT int64_t lines_as_documents(const uint8_t *data, int64_t size, int inside, uint8_t *out) {
    const uint8_t *p = data, *end = data + size;
    uint8_t *to = out;
    while (p < end) {
        const uint8_t *stop = memchr(p, '\n', (size_t)(end - p));
        size_t length = (size_t)((stop ? stop : end) - p);
        memcpy(to, p, length);
        to += length;
        if (stop && (length || inside))
            *to++ = DOCUMENT_END;
        inside = 0;
        p += length + (stop != NULL);
    }
    return to - out;
}

/* A word with a mark put before it, laid where the table would keep it; NULL: there is no room. */
static const uint8_t *marked_word(chunk_table *table, const uint8_t *word, uint64_t length) {
    if (!table_room(table, length + 3))
        return NULL;
    uint8_t *made = table->text + table->text_used;
    memcpy(made, WORD_MARK, 3);
    memcpy(made + 3, word, length);
    return made;
}

enum { MARKED_BYTES = 29 };

/* The key of a word with a mark put before it; 0 if the word is longer than MARKED_BYTES. `end`: of the memory that may
   be read. */
static inline uint64_t marked_key(const uint8_t *word, uint64_t length, const uint8_t *end) {
    uint8_t made[3 + MARKED_BYTES] = WORD_MARK;
    if (length > MARKED_BYTES)
        return 0;
    memcpy(made + 3, word, end - word >= MARKED_BYTES ? MARKED_BYTES : length);
    return table_key(made, length + 3, made + sizeof made);
}

/* Chunks wait until the memory that finding them needs is fetched; then they are counted in their order. */
enum { WAITING = 64 };

typedef struct {
    const uint8_t *chunk; /* NULL: a document ends here */
    uint64_t length, key; /* with the mark that a word gets before it */
} waiting_chunk;

/* Count or, with `ids`, number what waits; `marked`: each is a word that gets a mark before it. Returns how many of them
   are done. */
static int count_waiting(chunk_table *table, const waiting_chunk *waiting, int n, int marked, int64_t *many, int32_t *ids) {
    for (int i = 0; i < n; i++)
        table_text_soon(table, waiting[i].length, waiting[i].key);
    for (int i = 0; i < n; i++) {
        waiting_chunk next = waiting[i];
        int fresh;
        if (!next.chunk) {
            ids[(*many)++] = -1;
            continue;
        }
        if (marked && next.length > SHORT_BYTES) {
            if (!(next.chunk = marked_word(table, next.chunk, next.length - 3)))
                return i;
            if (!next.key)
                next.key = chunk_hash(next.chunk, next.length);
        }
        int64_t *number = table_find(table, next.chunk, next.length, next.key, &fresh);
        if (!number)
            return i;
        if (!ids) {
            ++*number;
            ++*many;
        } else {
            if (fresh)
                *number = (int64_t)table->numbered++;
            ids[(*many)++] = (int32_t)*number;
        }
    }
    return n;
}

/* Count or, with `ids`, number the chunks of text[*at:size]. `special`: the preset of runs that end with FE, or -1.

   `*at` is moved past what was done; `*many` goes up by the chunks counted, or by the places of `ids` written. CORE_OK
   at the end; else an error, with `*at` before the chunk that found no place. */
EXPORT int scan_text(chunk_table *table, const uint16_t *classes, int preset, int special, const uint8_t *text,
                     int64_t size, int64_t *at, int64_t *many, int32_t *ids) {
    split_function usual = split_preset(preset), other = special < 0 ? usual : split_preset(special);
    const uint8_t *p = text + *at, *end = text + size, *stop = NULL;
    int marked = preset == WHITESPACE;
    split_function split = usual;
    split_memo memo;
    if (!usual || !other)
        return CORE_DAMAGED;
    while (p < end) {
        waiting_chunk waiting[WAITING];
        int n = 0, done;
        while (n < WAITING && p < end) {
            if (!stop) {
                stop = text_end(p, end, special >= 0);
                split = stop < end && *stop == SCRIPT_RUN_END ? other : usual;
                memo = (split_memo){0};
            }
            if (p < stop) {
                const uint8_t *chunk = p;
                p = split(classes, chunk, stop, &memo);
                if (marked && is(classes, chunk, stop, SPACE))
                    continue;
                uint64_t length = (uint64_t)(p - chunk);
                uint64_t key = marked ? marked_key(chunk, length, end) : table_key(chunk, length, end);
                length += marked ? 3 : 0;
                table_soon(table, length, key);
                waiting[n++] = (waiting_chunk){chunk, length, key};
            } else {
                if (*stop == DOCUMENT_END && ids)
                    waiting[n++] = (waiting_chunk){0};
                p = stop + 1;
                stop = NULL;
            }
        }
        done = count_waiting(table, waiting, n, marked, many, ids);
        *at = (done < n ? waiting[done].chunk : p) - text;
        if (done < n)
            return table->budget.why;
    }
    return CORE_OK;
}

/* Add chunks that were found elsewhere: chunk i is bytes[offsets[i]:offsets[i + 1]] and counts n[i]; `*at` is the first
   one that is not added yet. */
EXPORT int table_add(chunk_table *table, const int64_t *offsets, const uint8_t *bytes, const int64_t *n, int64_t size,
                     int64_t *at) {
    for (; *at < size; ++*at) {
        const uint8_t *chunk = bytes + offsets[*at];
        uint64_t length = (uint64_t)(offsets[*at + 1] - offsets[*at]);
        int failed = table_add_one(table, chunk, length, table_key(chunk, length, bytes + offsets[size]), n[*at]);
        if (failed)
            return failed;
    }
    return CORE_OK;
}
