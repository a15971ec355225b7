/* Text to counts of its chunks, or to their numbers in order.

   A buffer holds documents, each ended by the byte FF, or one stretch of a document without that byte. Inside a
   document, runs of one script may end with FD, or with FE if they are split by a preset of their own:

       the cat FF the dog FF      ->  "the" 2, " cat" 1, " dog" 1
                                  ->  0 1 -1 0 2 -1      (numbers by first occurrence; -1 ends a document)

   With `sticks`, pieces are counted: chunks are cut between any two bytes that do not stick. With the bytes that stick in
   the tokens "th" "he" " c" "at":

       the cat FF                 ->  "the" 1, " c" 1, "at" 1

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
    const uint8_t *end = text + size, *next;
    int64_t needed = 0;
    for (int64_t at = 0; at < size; at += 8) {
        uint64_t eight = 0;
        if (size - at >= 8)
            memcpy(&eight, text + at, 8);
        else
            memcpy(&eight, text + at, (size_t)(size - at));
        /* bytes whose two highest bits are set begin a character beyond ASCII */
        for (uint64_t leads = eight & eight << 1 & 0x8080808080808080ull; leads; leads &= leads - 1) {
            uint32_t page = utf8_point(text + at + __builtin_ctzll(leads) / 8, end, &next) >> 8;
            if (page < NO_POINT >> 8 && !pages[page])
                pages[page] = 1, needed++;
        }
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

/* The end of the last whole record in data[:size], which begins with one: behind a line feed outside of quotes; 0 if
   there is none. Quotes mean what Python's csv reader takes them for: text unless they stand at the front of a field. */
EXPORT int64_t csv_records_end(const uint8_t *data, int64_t size) {
    enum { FRONT, FIELD, QUOTED, QUOTE_IN_QUOTED } state = FRONT;
    int64_t end = 0;
    for (int64_t at = 0; at < size; at++) {
        uint8_t c = data[at];
        if (state == QUOTED)
            state = c == '"' ? QUOTE_IN_QUOTED : QUOTED;
        else if (c == '"' && state != FIELD)
            state = QUOTED;
        else
            state = c == ',' || c == '\n' || c == '\r' ? FRONT : FIELD;
        if (c == '\n' && state == FRONT)
            end = at + 1;
    }
    return end;
}

/* Where the piece ends that begins at `p`, in a chunk that goes on to `end`. */
static inline place piece_end(const uint8_t *sticks, place p, place end) {
    for (p++; p < end && sticks[p[-1] << 8 | *p]; p++)
        ;
    return p;
}

/* Count or, with `ids`, number the chunks of text[*at:size]. `special`: the preset of runs that end with FE, or -1;
   `digits`: of a number in one chunk (split.c). `program`: NULL, or a pattern of the user's own (split_own.c), with the
   sets of each kind of character; it may take `steps` for a text, and `gaps` says whether what it leaves is a chunk.
   `sticks`: NULL, or 1 at `a << 8 | b` where a piece may hold byte a before byte b.

   `*at` is moved past what was done; `*many` goes up by the chunks counted, or by the places of `ids` written. CORE_OK
   at the end; else an error, with `*at` before the chunk that found no place. */
EXPORT int scan_text(chunk_table *table, const uint16_t *classes, int preset, int special, int digits,
                     const own_step *program, const uint64_t *sets, int64_t steps, int gaps, const uint8_t *sticks,
                     const uint8_t *text, int64_t size, int64_t *at, int64_t *many, int32_t *ids) {
    split_function usual = split_preset(preset), other = special < 0 ? usual : split_preset(special);
    const uint8_t *p = text + *at, *end = text + size, *stop = NULL, *after = p; /* `after`: the end of the chunk at p */
    split_function split = usual;
    own_state state = {program, sets, steps, 0, gaps, .skips = preset == WHITESPACE || program};
    split_memo memo;
    int error = CORE_OK;
    if (!usual || !other)
        return CORE_DAMAGED;
    table->marked = preset == WHITESPACE;
    while (p < end && !error) {
        chunk_key waiting[WAITING];
        int n = 0, done;
        while (n < WAITING && p < end) {
            if (!stop) {
                stop = text_end(p, end, special >= 0);
                split = stop < end && *stop == SCRIPT_RUN_END ? other : usual;
                memo = (split_memo){.digits = digits, .preset = split, .own = &state};
                if (state.program)
                    begin_own(&state, p, text);
                split = digits ? cut_digits : split;
            }
            if (p < stop) {
                const uint8_t *piece = p;
                if (p >= after) {
                    after = split(classes, p, stop, &memo);
                    if (state.left < 0) {
                        error = CORE_SLOW;
                        break;
                    }
                    if (state.skips && (state.program ? state.is_gap && !state.gaps : is(classes, p, stop, SPACE))) {
                        p = after;
                        continue;
                    }
                }
                p = sticks ? piece_end(sticks, p, after) : after;
                waiting[n] = table_key(piece, (uint64_t)(p - piece), end);
                table_soon(table, waiting + n++);
            } else {
                if (*stop == DOCUMENT_END && ids)
                    waiting[n++] = (chunk_key){0};
                p = stop + 1;
                stop = NULL;
            }
        }
        done = count_waiting(table, waiting, n, many, ids);
        *at = (done < n ? waiting[done].chunk : p) - text;
        if (done < n)
            error = table->budget.why;
    }
    free(state.ways);
    return error;
}

/* Add chunks that were found elsewhere: chunk i is bytes[offsets[i]:offsets[i + 1]] and counts n[i]; `*at` is the first
   one that is not added yet. */
EXPORT int table_add(chunk_table *table, const int64_t *offsets, const uint8_t *bytes, const int64_t *n, int64_t size,
                     int64_t *at) {
    for (; *at < size; ++*at) {
        const uint8_t *chunk = bytes + offsets[*at];
        uint64_t length = (uint64_t)(offsets[*at + 1] - offsets[*at]);
        chunk_key key = table_key(chunk, length, bytes + offsets[size]);
        int failed = table_add_one(table, &key, n[*at]);
        if (failed)
            return failed;
    }
    return CORE_OK;
}
