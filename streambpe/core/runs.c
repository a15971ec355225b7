/* A text of symbols cut into runs, each distinct run counted.

   A run is a longest stretch of two or more symbols whose neighbours are all kept together. With 7 8 and 8 9 kept:

       symbols  7 8 9 5 7 8 . 7 8      (. is a barrier, any number below 0)
       runs     [7 8 9] 1 · [7 8] 2

   The table of chunks holds a run as the bytes of its symbols, which are eight or more.

   Judge: tests/core/test_runs.py, a loop in Python. */

typedef struct {
    const pair_table *pairs;
    const uint8_t *open_right, *open_left; /* by symbol: 1 if it is kept together with whatever stands on that side */
    int64_t asked;                         /* up to this place, pairs were fetched ahead */
} kept_pairs;

static int is_kept(const kept_pairs *kept, int32_t left, int32_t right) {
    return right >= 0 &&
           (kept->open_right[left] || kept->open_left[right] || pairs_find(kept->pairs, pair_key(left, right)));
}

/* The place behind the run that begins at place i; i + 1 if only one symbol or a barrier stands there. */
static int64_t run_end(kept_pairs *kept, const int32_t *symbols, int64_t i, int64_t size) {
    if (symbols[i++] < 0)
        return i;
    for (;; i++) {
        if (kept->asked < i)
            kept->asked = i;
        for (; kept->asked < i + PAIRS_AHEAD && kept->asked < size; kept->asked++) {
            int32_t left = symbols[kept->asked - 1], right = symbols[kept->asked];
            if (left >= 0 && right >= 0)
                key_counts_soon(&kept->pairs->pairs, pair_key(left, right));
        }
        if (i >= size || !is_kept(kept, symbols[i - 1], symbols[i]))
            return i;
    }
}

/* How many of the first symbols are in one run with the symbol `before`, which stands in front of them. */
EXPORT int64_t run_goes_on(const pair_table *pairs, const uint8_t *open_right, const uint8_t *open_left, int32_t before,
                           const int32_t *symbols, int64_t size) {
    kept_pairs kept = {pairs, open_right, open_left, 0};
    return before >= 0 && size && is_kept(&kept, before, symbols[0]) ? run_end(&kept, symbols, 0, size) : 0;
}

/* Count the runs of a text. `*at`: the place where counting goes on, at first 0. `open_end`: the text goes on behind its
   end, so a run that reaches the end is not counted, and `*at` says where that run begins. CORE_FULL: nothing is lost. */
EXPORT int count_runs(chunk_table *table, const pair_table *pairs, const uint8_t *open_right, const uint8_t *open_left,
                      const int32_t *symbols, int64_t size, int open_end, int64_t *at) {
    kept_pairs kept = {pairs, open_right, open_left, 0};
    chunk_key waiting[WAITING];
    int n = 0;
    int64_t i = *at, many = 0;
    for (;;) {
        int64_t end = i < size ? run_end(&kept, symbols, i, size) : 0;
        int ended = i >= size || (open_end && end == size && symbols[i] >= 0);
        if (!ended && end > i + 1) {
            waiting[n] = long_key((const uint8_t *)(symbols + i), (uint64_t)(end - i) * 4);
            table_soon(table, waiting + n++);
        }
        if (ended || n == WAITING) {
            int done = count_waiting(table, waiting, n, &many, NULL);
            if (done < n) {
                *at = (const int32_t *)waiting[done].chunk - symbols;
                return table->budget.why;
            }
            n = 0;
        }
        if (ended)
            break;
        i = end;
    }
    *at = i;
    return CORE_OK;
}
