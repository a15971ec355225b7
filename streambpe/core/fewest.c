/* The fewest tokens that make a sequence of symbols: the shortest path from its begin to its end.

   least[end] is that of the symbols up to a place, 1 more than where the last token begins:

       a b c d     tokens ab, bcd, single symbols     least 0 1 1 2 2        a|bcd, though merges may make ab|c|d

   Judge: tests/inspect/test_fewest.py, every way to cut. */

/* Sequence i has counts[i] symbols of `wide` bytes each. tokens: those of several symbols; lengths: theirs, each once,
   the longest first; a symbol alone is always a token. least: room for one more than the longest sequence has. */
EXPORT void fewest_tokens(const chunk_table *tokens, const int64_t *lengths, int64_t many, int64_t wide,
                          const uint8_t *symbols, const int64_t *counts, int64_t n, int64_t *least, int64_t *fewest) {
    for (int64_t i = 0; i < n; symbols += counts[i] * wide, i++) {
        least[0] = 0;
        for (int64_t end = 1; end <= counts[i]; end++) {
            least[end] = least[end - 1] + 1;
            for (int64_t k = 0; k < many; k++) {
                int64_t begin = end - lengths[k];
                if (begin >= 0 && least[begin] + 1 < least[end] &&
                    table_look(tokens, symbols + begin * wide, (uint64_t)(lengths[k] * wide)))
                    least[end] = least[begin] + 1;
            }
        }
        fewest[i] = least[counts[i]];
    }
}
