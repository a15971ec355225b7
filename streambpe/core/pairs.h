/* A table of pairs with a number each. See pairs.c. */
#ifndef STREAMBPE_PAIRS_H
#define STREAMBPE_PAIRS_H

#include "core.h"

typedef struct {
    uint64_t key; /* the pair plus 1; 0: free */
    int64_t n;
} pair_slot;

typedef struct {
    pair_slot *slots;
    uint64_t mask, used, limit; /* of memory, in bytes */
} pair_table;

static inline uint64_t key_of(int32_t left, int32_t right) {
    return ((uint64_t)(uint32_t)left << 32 | (uint32_t)right) + 1;
}

/* Add n to the number of a pair; a pair that is not there begins with 0. CORE_OK, or why not. */
int pairs_add_one(pair_table *table, uint64_t key, int64_t n);

/* A pair's number; NULL if it is not there. */
static inline const int64_t *pairs_find(const pair_table *table, uint64_t key) {
    uint64_t at = mixed(key) & table->mask;
    while (table->slots[at].key && table->slots[at].key != key)
        at = (at + 1) & table->mask;
    return table->slots[at].key ? &table->slots[at].n : NULL;
}

#endif
