/* Pairs of symbols that stand side by side, counted.

       symbols  7 8 . 7 8 9       (. is a barrier, any number below 0)
       counted  7+8 2 · 8+9 1

   A pair is one number with its left symbol in the upper half; the pairs stand in a hash table with open addressing.

   Judge: tests/core/test_pairs.py, Counter and a loop in Python. */

enum { FIRST_PAIRS = 1 << 4, PAIRS_AHEAD = 24 }; /* a pair's slot is fetched so many places before it is needed */

typedef struct {
    key_counts pairs;
    budget budget;
} pair_table;

EXPORT pair_table *pairs_new(uint64_t limit) {
    pair_table *table = calloc(1, sizeof *table);
    if (!table)
        return NULL;
    table->budget.limit = UINT64_MAX; /* the first slots are there whatever the limit */
    if (key_counts_size(&table->pairs, &table->budget, FIRST_PAIRS)) {
        table->budget.limit = limit;
        return table;
    }
    free(table);
    return NULL;
}

EXPORT void pairs_free(pair_table *table) {
    free(table->pairs.slots);
    free(table);
}

/* Forget all pairs, and keep the memory. */
EXPORT void pairs_clear(pair_table *table) {
    memset(table->pairs.slots, 0, (table->pairs.mask + 1) * sizeof *table->pairs.slots);
    table->pairs.used = 0;
}

EXPORT int64_t pairs_size(const pair_table *table) {
    return (int64_t)table->pairs.used;
}

/* Add n to the number of a pair; a pair that is not there begins with 0. CORE_OK, or why not. */
static inline int pairs_add_one(pair_table *table, uint64_t key, int64_t n) {
    key_count *slot = key_counts_put(&table->pairs, &table->budget, key);
    if (!slot)
        return table->budget.why;
    if (n > 0 && slot->n > INT64_MAX - n)
        return CORE_OVERFLOW;
    slot->n += n;
    return CORE_OK;
}

/* A pair's number; NULL if it is not there. */
static inline const int64_t *pairs_find(const pair_table *table, uint64_t key) {
    const key_count *slot = key_counts_find(&table->pairs, key);
    return slot ? &slot->n : NULL;
}

/* Count the pairs of a column from place state[0] on, each with the weight of its word; a number below 0 stands before
   each word. `weights` NULL: each counts 1. In a run of equal tokens only every other pair counts, if `disjoint`.
   state[0:3]: the place, the word and the run where counting goes on, at first 0 -1 0. CORE_FULL: nothing is lost. */
EXPORT int column_pairs(pair_table *table, const int32_t *column, int64_t size, const int64_t *weights, int disjoint,
                        int64_t *state) {
    for (; state[0] + 1 < size; ++state[0]) {
        int32_t left = column[state[0]], right = column[state[0] + 1];
        int64_t next = state[0] + PAIRS_AHEAD;
        if (next + 1 < size)
            key_counts_soon(&table->pairs, pair_key(column[next], column[next + 1]));
        if (left < 0)
            state[1]++;
        int64_t run = left >= 0 && left == right ? state[2] + 1 : 0;
        if (left >= 0 && right >= 0 && !(disjoint && run && run % 2 == 0)) {
            int failed = pairs_add_one(table, pair_key(left, right), weights ? weights[state[1]] : 1);
            if (failed)
                return failed;
        }
        state[2] = run;
    }
    return CORE_OK;
}

/* Which of `parts` (a power of two) a pair belongs to, by bits of its hash that do not say where it stands. */
static uint64_t part_of(uint64_t key, uint64_t parts) {
    return mixed(key) >> 40 & (parts - 1);
}

/* Add pairs that were counted elsewhere, or with `n` NULL just put them in. Keys, and counts, stand `step` numbers
   apart; only pairs that belong to part `part` of `parts` are added. */
EXPORT int pairs_add(pair_table *table, const int64_t *keys, const int64_t *n, int64_t step, int64_t size, int64_t part,
                     int64_t parts, int64_t *at) {
    for (; *at < size; ++*at) {
        uint64_t key = (uint64_t)keys[*at * step] + 1;
        if (part_of(key, (uint64_t)parts) != (uint64_t)part)
            continue;
        int failed = pairs_add_one(table, key, n ? n[*at * step] : 0);
        if (failed)
            return failed;
    }
    return CORE_OK;
}

/* Write all pairs and their counts, ascending. This uses up the table: it can only be freed afterwards. */
EXPORT void pairs_sorted(pair_table *table, int64_t *keys, int64_t *n) {
    uint64_t used = sorted_keys(&table->pairs);
    for (uint64_t i = 0; i < used; i++) {
        keys[i] = (int64_t)(table->pairs.slots[i].key - 1);
        n[i] = table->pairs.slots[i].n;
    }
}

/* Where the rows of each part begin among those of all pairs that count at least `least`. Returns how many rows there
   are. */
EXPORT int64_t pairs_starts(const pair_table *table, int64_t least, int64_t parts, int64_t *starts) {
    int64_t rows = 0;
    memset(starts, 0, (size_t)parts * sizeof *starts);
    for (uint64_t i = 0; i <= table->pairs.mask; i++)
        if (table->pairs.slots[i].key && table->pairs.slots[i].n >= least)
            starts[part_of(table->pairs.slots[i].key, (uint64_t)parts)]++;
    for (int64_t part = 0; part < parts; part++) {
        int64_t size = starts[part];
        starts[part] = rows;
        rows += size;
    }
    return rows;
}

/* Write these pairs as rows (key, count), those of part 0 first. ends[p]: at first, where part p begins; then, where it
   ends. Three pairs, the second in part 0, the others in part 1:

       ends 0 1   ->   1 3        rows  key2 n2 · key1 n1 · key3 n3 */
EXPORT void pairs_parted(const pair_table *table, int64_t least, int64_t parts, int64_t *ends, int64_t *rows) {
    for (uint64_t i = 0; i <= table->pairs.mask; i++) {
        const key_count *slot = table->pairs.slots + i;
        if (!slot->key || slot->n < least)
            continue;
        int64_t row = ends[part_of(slot->key, (uint64_t)parts)]++;
        rows[2 * row] = (int64_t)(slot->key - 1);
        rows[2 * row + 1] = slot->n;
    }
}
