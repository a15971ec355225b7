/* Known merges, all made in one pass over a block of words, and what they do to the counts of pairs.

   No merge uses a token that another one of them makes. Each has a rank, its place in the order of merges. Of two
   occurrences that overlap, the one of the lower rank is made; of two of the same pair ("aaa"), the left one:

       column    -1 a b c a b -1       weight 5         merges  0: (a, b) -> P    1: (b, c) -> Q
       ranks      .  0 1 . 0 .  .                       of the pair that begins at each place
       in order   0 (place 1), 0 (place 4), 1 (place 2: its b is gone)
       counts    10 and 0: what the pair counts when its turn comes
       column    -1 P c P -1
       changes   (a,b) -10 · (b,c) -5 · (c,a) -5 · (P,c) +5 · (c,P) +5

   A pair's count changes where one of its tokens changes. If of equal neighbours only every other pair counts
   (`disjoint`), others of the same row may count afterwards. So all such pairs of the word are taken away, and those
   that the merged word has are added.

   Judge: tests/core/test_sweep.py, one merge after the other over lists of Python. */

enum { FIRST = 1, SECOND = 2 }; /* mark of a new token's two parts; FIRST also marks the place of the new token */

typedef struct {
    const pair_table *ranks;
    const int32_t *made; /* by rank: the new token */
    int disjoint;
    pair_table *changes; /* or NULL */
    int64_t *order;      /* the occurrences of a word: rank << 32 | place */
    uint8_t *mark;       /* by place */
    int64_t *count, *times;
    int64_t found, executed;
} sweep;

static inline int is_earlier(const void *context, const int64_t *a, const int64_t *b) {
    return *a < *b;
}

SORT(sort_occurrences, int64_t, is_earlier)

/* Add n to the counts of those pairs of a word that the merges changed, or are going to change. */
static int add_changes(const sweep *all, const int32_t *word, const uint8_t *mark, int64_t size, int64_t n) {
    int run = 0;
    for (int64_t i = 0; all->changes && i + 1 < size; i++) {
        int equal = all->disjoint && word[i] == word[i + 1];
        run = equal && !run;
        if (equal ? !run : !mark[i] && !mark[i + 1])
            continue;
        int failed = pairs_add_one(all->changes, pair_key(word[i], word[i + 1]), n);
        if (failed)
            return failed;
    }
    return CORE_OK;
}

/* Find the occurrences of all merges in a word, and put them in the order in which they are made. */
static int64_t find_occurrences(sweep *all, const int32_t *word, int64_t size) {
    int64_t many = 0;
    for (int64_t i = 0; i + 1 < size; i++) {
        const int64_t *rank = pairs_find(all->ranks, pair_key(word[i], word[i + 1]));
        if (rank)
            all->order[many++] = *rank << 32 | i;
    }
    sort_occurrences(NULL, all->order, (uint64_t)many, depth_for((uint64_t)many));
    return many;
}

/* Mark the occurrences that are made, and count. */
static void mark_made(sweep *all, const int32_t *word, int64_t many, int64_t n) {
    for (int64_t k = 0; k < many; k++) {
        int64_t rank = all->order[k] >> 32, i = all->order[k] & INT32_MAX;
        if (all->mark[i + 1])
            continue; /* its right token went to an earlier merge */
        if (!all->mark[i]) {
            all->mark[i] = FIRST;
            all->mark[i + 1] = SECOND;
            all->times[rank] += n;
            all->executed++;
        } else if (all->disjoint || word[i - 1] != word[i] || word[i] != word[i + 1]) {
            continue; /* its left token went to one */
        } /* else it is the second (a, a) of aaa, which counts but is not made */
        all->count[rank] += n;
    }
}

/* Merge in a word, and write the result to `to`. Returns its new length, or an error. */
static int64_t merge_word(sweep *all, const int32_t *word, int64_t size, int64_t n, int32_t *to) {
    int64_t many = find_occurrences(all, word, size), kept = 0;
    all->found += many;
    if (!many) {
        memmove(to, word, (size_t)size * sizeof *to);
        return size;
    }
    memset(all->mark, 0, (size_t)size);
    mark_made(all, word, many, n);
    int failed = add_changes(all, word, all->mark, size, -n);
    for (int64_t i = 0; i < size; i++) {
        if (all->mark[i] == SECOND)
            continue;
        int32_t token = word[i];
        if (all->mark[i])
            token = all->made[*pairs_find(all->ranks, pair_key(word[i], word[i + 1]))];
        all->mark[kept] = all->mark[i];
        to[kept++] = token;
    }
    failed = failed ? failed : add_changes(all, to, all->mark, kept, n);
    return failed ? failed : kept;
}

/* Merge in a block, in place. `ranks`: the pairs with their ranks. What each counts when its turn comes is added to
   count[rank], how often it is made to times[rank]. order and mark: room for the longest word. told: occurrences found,
   and made. Returns the length of the column afterwards, or an error. */
EXPORT int64_t merge_block(const pair_table *ranks, const int32_t *made, int disjoint, pair_table *changes,
                           int32_t *column, int64_t size, const int64_t *weights, int64_t *order, uint8_t *mark,
                           int64_t *count, int64_t *times, int64_t *told) {
    sweep all = {ranks, made, disjoint, changes, order, mark, count, times, 0, 0};
    int64_t to = 1;
    for (int64_t begin = 1, word = 0; begin < size; word++) {
        int64_t end = begin;
        while (column[end] >= 0)
            end++;
        int64_t kept = merge_word(&all, column + begin, end - begin, weights[word], column + to);
        if (kept < 0)
            return kept;
        to += kept;
        column[to++] = -1;
        begin = end + 1;
    }
    told[0] = all.found;
    told[1] = all.executed;
    return to;
}
