/* The fewest tokens that make a sequence of symbols: the shortest path from its beginning to its end.

   least[end] is that of the symbols up to a place, 1 more than where the last token begins:

       a b c d     tokens ab, bcd, single symbols     least 0 1 1 2 2        a|bcd, though merges may make ab|c|d

   Judge: tests/inspect/test_fewest.py, every way to cut. */

/* By its first two symbols, at which lengths a token may be worth looking for. */
static inline uint64_t lengths_from(const uint64_t *begun, const uint8_t *symbols, int64_t wide) {
    uint64_t two = 0;
    memcpy(&two, symbols, (size_t)(2 * wide));
    return begun[two * 0x9E3779B97F4A7C15ull >> 48];
}

/* Sequence i has counts[i] symbols of `wide` bytes each. tokens: those of several symbols; lengths: theirs, each once,
   the shortest first; a symbol alone is always a token. begun: by hash of two symbols, a bit for each length of tokens
   that begin so, 63 for all from there on. least: room for one more than the longest sequence has. */
EXPORT void fewest_tokens(const chunk_table *tokens, const uint64_t *begun, const int64_t *lengths, int64_t many,
                          int64_t wide, const uint8_t *symbols, const int64_t *counts, int64_t n, int64_t *least,
                          int64_t *fewest) {
    for (int64_t i = 0; i < n; symbols += counts[i] * wide, i++) {
        int64_t size = counts[i];
        for (int64_t end = 0; end <= size; end++)
            least[end] = end;
        for (int64_t at = 0; at < size; at++) {
            const uint8_t *begin = symbols + at * wide;
            uint64_t mask = at + 1 < size ? lengths_from(begun, begin, wide) : 0;
            int64_t more = least[at] + 1;
            if (more < least[at + 1])
                least[at + 1] = more;
            for (int64_t k = 0; mask && k < many && at + lengths[k] <= size; k++)
                if (mask >> (lengths[k] < 63 ? lengths[k] : 63) & 1 && more < least[at + lengths[k]] &&
                    table_look(tokens, begin, (uint64_t)(lengths[k] * wide)))
                    least[at + lengths[k]] = more;
        }
        fewest[i] = least[size];
    }
}
