/* Distinct chunks of text, each with a number: how often it occurred, or its place in the order of first occurrence.

   Chunks of at most 7 bytes stand in a table of keys that hold them whole, their length in the top byte:

       " the"  ->  0x04 00 00 00 65 68 74 20      one slot of 16 bytes, no text elsewhere

   Longer ones stand in a second table by their hash; their bytes lie one behind the other in `text`. Four in five
   chunks of English are short, and finding and counting one touches a single cache line.

   Judge: tests/text/test_chunker.py, Counter and sorted. */
#ifndef STREAMBPE_TABLE_H
#define STREAMBPE_TABLE_H

#include "core.h"

#include <string.h>

#define SHORT_BYTES 7

typedef struct {
    uint64_t key; /* 0: free */
    int64_t n;
} short_slot;

typedef struct {
    uint64_t hash; /* 0: free */
    uint64_t at;   /* in `text` */
    int64_t n;
    uint64_t length;
} long_slot;

typedef struct {
    short_slot *shorts;
    long_slot *longs;
    uint8_t *text;
    uint64_t short_mask, short_used;
    uint64_t long_mask, long_used;
    uint64_t text_used, text_size;
    uint64_t bytes, limit; /* of memory: taken, and allowed */
    uint64_t numbered;     /* chunks numbered so far, where the number is the place of first occurrence */
} chunk_table;

/* Where a chunk's number is; a new chunk (`*fresh`) is put in with 0. NULL: `*why` says why not. CORE_DAMAGED: the chunk
   is empty; none is, and its key would be that of a free slot. */
int64_t *table_find(chunk_table *table, const uint8_t *chunk, uint64_t length, int *fresh, int *why);

/* Where a chunk's number is; NULL if the chunk is not there. Any number of threads may look at once. */
const int64_t *table_look(const chunk_table *table, const uint8_t *chunk, uint64_t length);

/* Fetch ahead what finding a chunk of more than SHORT_BYTES needs: first `step` 0 (its slot), a moment later 1 (its
   text). */
void table_soon(const chunk_table *table, const uint8_t *chunk, uint64_t length, int step);

/* Make room in `text` for `length` bytes more, so that a chunk may be put together at text + text_used. 0: `*why`. */
int table_room(chunk_table *table, uint64_t length, int *why);

static inline uint64_t short_key(const uint8_t *chunk, uint64_t length) {
    uint64_t key = 0;
    memcpy(&key, chunk, length);
    return key | length << 56;
}

#endif
