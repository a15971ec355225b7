/* A block of words on disk: its pairs counted, its chains counted, and every chain replaced by what was made of it.

   The block is a column of tokens with -1 on either side of every word. Some pairs are links; a chain is a longest
   stretch in which every two neighbours are a link. With the links (a, b), (b, c), (c, d):

       column   -1 x a b c d -1 a b c y -1      weights 5 2
       chains   a b c d 5 · a b c 2
       made     a b c d -> P · a b c -> Q       -1 x P -1 Q y -1

   Links from number `busy` on hold chains together too, but a stretch is a chain only if at least one link in it has a
   number below `busy`. `keys` is the column itself, or its tokens in two bytes each: a chain's bytes there are its name
   in a table.

   Judge: tests/train/test_engine.py, all of learning from disk. */

typedef struct {
    const pair_table *links;
    const uint8_t *filter; /* see filter_links */
    int64_t busy;
} chain_rule;

enum { NO_LINK, IDLE_LINK, BUSY_LINK };
enum { FILTER_BITS = 19 };

static inline uint32_t bit_of(int32_t left, int32_t right) {
    return (((uint32_t)left * 0x9E3779B1u) ^ (uint32_t)right) * 0x85EBCA6Bu >> (32 - FILTER_BITS);
}

/* Set a bit for each link, among 1 << FILTER_BITS bits that are 0. A pair whose bit is 0 is no link, so most places
   need no look at the table. */
EXPORT void filter_links(const pair_table *links, uint8_t *filter) {
    for (uint64_t i = 0; i <= links->pairs.mask; i++) {
        uint64_t key = links->pairs.slots[i].key;
        uint32_t bit = bit_of(left_of(key), right_of(key));
        if (key)
            filter[bit / 8] |= (uint8_t)(1 << bit % 8);
    }
}

static int link_at(const chain_rule *rule, const int32_t *column, int64_t i) {
    if (column[i] < 0 || column[i + 1] < 0)
        return NO_LINK;
    uint32_t bit = bit_of(column[i], column[i + 1]);
    if (rule->filter[bit / 8] >> bit % 8 & 1) {
        const int64_t *number = pairs_find(rule->links, pair_key(column[i], column[i + 1]));
        if (number)
            return *number < rule->busy ? BUSY_LINK : IDLE_LINK;
    }
    return NO_LINK;
}

/* The place behind the last token of the chain that begins at place i. If no chain begins there: i, or less by as many
   places as need not be looked at again. */
static int64_t chain_end(const chain_rule *rule, const int32_t *column, int64_t i) {
    int busy = 0, link;
    int64_t end = i;
    while ((link = link_at(rule, column, end)) != NO_LINK) {
        busy |= link == BUSY_LINK;
        end++;
    }
    if (busy)
        return end + 1;
    return i - (end - i); /* no chain begins at any of these places */
}

/* Count the chains of a block. state[0:2]: the place and the word where counting goes on, at first 0 -1. */
EXPORT int count_chains(chunk_table *table, const pair_table *links, const uint8_t *filter, int64_t busy,
                        const int32_t *column, const uint8_t *keys, int wide, const int64_t *weights, int64_t size,
                        int64_t *state) {
    chain_rule rule = {links, filter, busy};
    int64_t i = state[0], word = state[1];
    while (i + 1 < size) {
        if (column[i] < 0) {
            i++, word++;
            continue;
        }
        int64_t end = chain_end(&rule, column, i);
        if (end > i) {
            chunk_key chain = table_key(keys + i * wide, (uint64_t)((end - i) * wide), keys + size * wide);
            int failed = table_add_one(table, &chain, weights[word]);
            if (failed) {
                state[0] = i, state[1] = word;
                return failed;
            }
            i = end;
        } else {
            i += i - end + 1;
        }
    }
    state[0] = i, state[1] = word;
    return CORE_OK;
}

/* Replace every chain by what was made of it, in place: chain number k (by `numbers`) by
   made[first[k] : first[k + 1] - 1]. Returns the length of the column afterwards, or an error. */
EXPORT int64_t rewrite_chains(const chunk_table *numbers, const pair_table *links, const uint8_t *filter, int64_t busy,
                              int32_t *column, const uint8_t *keys, int wide, int64_t size, const int64_t *first,
                              const int32_t *made) {
    chain_rule rule = {links, filter, busy};
    int64_t to = 0;
    for (int64_t i = 0; i < size;) {
        int64_t end = i + 1 < size && column[i] >= 0 ? chain_end(&rule, column, i) : i;
        if (end > i) {
            const int64_t *k = table_look(numbers, keys + i * wide, (uint64_t)((end - i) * wide));
            if (!k || first[*k + 1] - 1 - first[*k] > end - i)
                return CORE_DAMAGED;
            for (int64_t at = first[*k]; at < first[*k + 1] - 1; at++)
                column[to++] = made[at];
            i = end;
        } else {
            for (int64_t stop = i + (i - end) + 1; i < stop; i++)
                column[to++] = column[i];
        }
    }
    return to;
}
