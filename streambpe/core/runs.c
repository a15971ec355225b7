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

/* Sort the runs by their hashes, and runs of equal hash by their bytes. Returns how many there are. This uses up the
   table: only runs_bytes, runs_some and freeing are left. */
EXPORT int64_t sort_all_runs(chunk_table *table) {
    return (int64_t)sorted_chunks(table, 0);
}

/* How many bytes the sorted runs have from number `first` on, up to before number `stop`. */
EXPORT int64_t runs_bytes(const chunk_table *table, int64_t first, int64_t stop) {
    int64_t bytes = 0;
    for (int64_t i = first; i < stop; i++)
        bytes += long_length(long_text(table->text, table->slots + i));
    return bytes;
}

/* Write sorted runs from number `first` on, up to before number `stop`. `by`: a number below 2^63 for each run, which
   never falls; `ends`: where each run ends in `bytes`; `n`: counts. */
EXPORT void runs_some(const chunk_table *table, int64_t first, int64_t stop, int64_t *by, int64_t *ends, uint8_t *bytes,
                      int64_t *n) {
    for (int64_t i = 0, at = 0; first + i < stop; i++) {
        const chunk_slot *slot = table->slots + first + i;
        if (first + i + PAIRS_AHEAD < stop)
            SOON(long_text(table->text, slot + PAIRS_AHEAD));
        const uint8_t *run = long_text(table->text, slot);
        uint64_t length = long_length(run);
        memcpy(bytes + at, run, length);
        at += length;
        by[i] = (int64_t)(slot->low >> 1);
        ends[i] = at;
        n[i] = slot->n;
    }
}
