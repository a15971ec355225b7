/* Distinct chunks of text with a number each: how often they occurred, or their place in the order of first occurrence.

   Chunks of at most 7 bytes stand in a table of keys that hold them whole, their length in the top byte:

       " the"  ->  0x04 00 00 00 65 68 74 20      one slot of 16 bytes, no text elsewhere

   Longer ones stand in a second table by their hash; their bytes lie one behind the other in `text`. Four in five chunks
   of English are short, and a slot of theirs is found and counted in one line of cache.

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
    uint32_t length;
} long_slot;

typedef struct {
    short_slot *shorts;
    long_slot *longs;
    uint8_t *text;
    uint64_t short_mask, short_used;
    uint64_t long_mask, long_used;
    uint64_t text_used, text_size;
    uint64_t bytes, limit; /* of memory: taken, and allowed */
    uint64_t numbered;     /* chunks that have a number, when it is their place */
} chunk_table;

/* The place of a chunk's number, made with 0 if the chunk is new (`*fresh`); NULL: `*why` says why not. */
int64_t *table_find(chunk_table *table, const uint8_t *chunk, uint64_t length, int *fresh, int *why);

/* The place of a chunk's number; NULL if the chunk is not there. Any number of threads may look at once. */
const int64_t *table_look(const chunk_table *table, const uint8_t *chunk, uint64_t length);

/* A chunk of more than SHORT_BYTES is asked for soon: first `step` 0, a moment later 1, then the functions above. */
void table_soon(const chunk_table *table, const uint8_t *chunk, uint64_t length, int step);

/* Whether `text` has room for so many bytes more, or gets it: a chunk may be put together at text + text_used. */
int table_room(chunk_table *table, uint64_t length, int *why);

static inline uint64_t short_key(const uint8_t *chunk, uint64_t length) {
    uint64_t key = 0;
    memcpy(&key, chunk, length);
    return key | length << 56;
}

#endif
