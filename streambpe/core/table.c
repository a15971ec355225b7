#include "table.h"

#include "sort.h"

#include <stdlib.h>

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "The keys of short chunks are laid out for machines whose lowest byte comes first."
#endif

enum { FIRST_SLOTS = 1 << 10, FIRST_TEXT = 1 << 14 };

static uint64_t hash_of(const uint8_t *chunk, uint64_t length) {
    uint64_t hash = length * 0x9E3779B97F4A7C15ull, word;
    for (; length >= 8; chunk += 8, length -= 8) {
        memcpy(&word, chunk, 8);
        hash = (hash ^ word) * 0x9FB21C651E98DF25ull;
        hash ^= hash >> 32;
    }
    word = 0;
    memcpy(&word, chunk, length);
    return mixed((hash ^ word) * 0x9FB21C651E98DF25ull) | 1; /* 0 is for free slots; the lowest bits take no part */
}

/* Take `bytes` of memory more, zeroed, if the limit allows. */
static void *take(chunk_table *table, uint64_t bytes, int *why) {
    if (table->bytes + bytes > table->limit) {
        *why = CORE_FULL;
        return NULL;
    }
    void *memory = calloc(1, bytes);
    if (!memory)
        *why = CORE_NO_MEMORY;
    else
        table->bytes += bytes;
    return memory;
}

static void give_back(chunk_table *table, void *memory, uint64_t bytes) {
    free(memory);
    table->bytes -= bytes;
}

static int grow_shorts(chunk_table *table, int *why) {
    uint64_t mask = table->short_mask * 2 + 1;
    short_slot *slots = take(table, (mask + 1) * sizeof *slots, why);
    if (!slots)
        return 0;
    for (uint64_t i = 0; i <= table->short_mask; i++) {
        if (!table->shorts[i].key)
            continue;
        uint64_t at = mixed(table->shorts[i].key) & mask;
        while (slots[at].key)
            at = (at + 1) & mask;
        slots[at] = table->shorts[i];
    }
    give_back(table, table->shorts, (table->short_mask + 1) * sizeof *slots);
    table->shorts = slots;
    table->short_mask = mask;
    return 1;
}

static int grow_longs(chunk_table *table, int *why) {
    uint64_t mask = table->long_mask * 2 + 1;
    long_slot *slots = take(table, (mask + 1) * sizeof *slots, why);
    if (!slots)
        return 0;
    for (uint64_t i = 0; i <= table->long_mask; i++) {
        if (!table->longs[i].hash)
            continue;
        uint64_t at = table->longs[i].hash >> 8 & mask;
        while (slots[at].hash)
            at = (at + 1) & mask;
        slots[at] = table->longs[i];
    }
    give_back(table, table->longs, (table->long_mask + 1) * sizeof *slots);
    table->longs = slots;
    table->long_mask = mask;
    return 1;
}

static int grow_text(chunk_table *table, uint64_t needed, int *why) {
    uint64_t size = table->text_size + table->text_size / 2;
    if (size < table->text_used + needed)
        size = table->text_used + needed;
    if (table->bytes + size - table->text_size > table->limit) {
        *why = CORE_FULL;
        return 0;
    }
    uint8_t *text = realloc(table->text, size);
    if (!text) {
        *why = CORE_NO_MEMORY;
        return 0;
    }
    table->bytes += size - table->text_size;
    table->text = text;
    table->text_size = size;
    return 1;
}

int table_room(chunk_table *table, uint64_t length, int *why) {
    return table->text_used + length <= table->text_size || grow_text(table, length, why);
}

static int64_t *find_short(chunk_table *table, uint64_t key, int *fresh, int *why) {
    if ((table->short_used + 1) * 3 > table->short_mask * 2 && !grow_shorts(table, why))
        return NULL;
    uint64_t at = mixed(key) & table->short_mask;
    while (table->shorts[at].key != key) {
        if (!table->shorts[at].key) {
            table->shorts[at].key = key;
            table->short_used++;
            *fresh = 1;
            break;
        }
        at = (at + 1) & table->short_mask;
    }
    return &table->shorts[at].n;
}

int64_t *table_find(chunk_table *table, const uint8_t *chunk, uint64_t length, int *fresh, int *why) {
    *fresh = 0;
    if (!length) {
        *why = CORE_DAMAGED;
        return NULL;
    }
    if (length <= SHORT_BYTES)
        return find_short(table, short_key(chunk, length), fresh, why);
    if ((table->long_used + 1) * 3 > table->long_mask * 2 && !grow_longs(table, why))
        return NULL;
    uint64_t hash = hash_of(chunk, length), at = hash >> 8 & table->long_mask;
    for (;; at = (at + 1) & table->long_mask) {
        long_slot *slot = table->longs + at;
        if (!slot->hash) {
            if (!table_room(table, length, why))
                return NULL;
            memmove(table->text + table->text_used, chunk, length);
            *slot = (long_slot){hash, table->text_used, 0, length};
            table->text_used += length;
            table->long_used++;
            *fresh = 1;
            return &slot->n;
        }
        if (slot->hash == hash && slot->length == length && !memcmp(table->text + slot->at, chunk, length))
            return &slot->n;
    }
}

const int64_t *table_look(const chunk_table *table, const uint8_t *chunk, uint64_t length) {
    uint64_t at;
    if (length <= SHORT_BYTES) {
        uint64_t key = short_key(chunk, length);
        for (at = mixed(key) & table->short_mask; table->shorts[at].key; at = (at + 1) & table->short_mask)
            if (table->shorts[at].key == key)
                return &table->shorts[at].n;
        return NULL;
    }
    uint64_t hash = hash_of(chunk, length);
    for (at = hash >> 8 & table->long_mask; table->longs[at].hash; at = (at + 1) & table->long_mask) {
        const long_slot *slot = table->longs + at;
        if (slot->hash == hash && slot->length == length && !memcmp(table->text + slot->at, chunk, length))
            return &slot->n;
    }
    return NULL;
}

void table_soon(const chunk_table *table, const uint8_t *chunk, uint64_t length, int step) {
    const long_slot *slot = table->longs + (hash_of(chunk, length) >> 8 & table->long_mask);
    if (step)
        SOON(table->text + slot->at);
    else
        SOON(slot);
}

/* A table that takes at most `limit` bytes, at least 64 KB; NULL if there is no memory. */
EXPORT chunk_table *table_new(uint64_t limit) {
    chunk_table *table = calloc(1, sizeof *table);
    int why;
    if (!table)
        return NULL;
    table->limit = limit;
    table->short_mask = table->long_mask = FIRST_SLOTS - 1;
    table->shorts = take(table, FIRST_SLOTS * sizeof *table->shorts, &why);
    table->longs = take(table, FIRST_SLOTS * sizeof *table->longs, &why);
    table->text = take(table, FIRST_TEXT, &why);
    table->text_size = FIRST_TEXT;
    if (table->shorts && table->longs && table->text)
        return table;
    free(table->shorts);
    free(table->longs);
    free(table->text);
    free(table);
    return NULL;
}

EXPORT void table_free(chunk_table *table) {
    free(table->shorts);
    free(table->longs);
    free(table->text);
    free(table);
}

/* How many bytes of memory the table takes. */
EXPORT uint64_t table_bytes(const chunk_table *table) {
    return table->bytes;
}

/* How many chunks are in the table; `*text`: how many bytes they have together. */
EXPORT uint64_t table_size(const chunk_table *table, uint64_t *text) {
    *text = table->text_used;
    for (uint64_t i = 0; i <= table->short_mask; i++)
        *text += table->shorts[i].key >> 56;
    return table->short_used + table->long_used;
}

/* ------------------------------------------------------------------------------- all chunks in the order of their
   bytes

   This is done in place: the slots in use move to the front and are sorted there. Each holds the first eight bytes of
   its chunk as one number, which compares as those bytes do. */

static uint64_t swapped(uint64_t key) {
    key = (key & 0x00FF00FF00FF00FFull) << 8 | (key >> 8 & 0x00FF00FF00FF00FFull);
    key = (key & 0x0000FFFF0000FFFFull) << 16 | (key >> 16 & 0x0000FFFF0000FFFFull);
    return key << 32 | key >> 32;
}

static int short_below(const uint8_t *text, const short_slot *a, const short_slot *b) {
    (void)text;
    return a->key < b->key; /* the length is in the lowest byte, so "a" stands before "a\0" */
}

static int long_below(const uint8_t *text, const long_slot *a, const long_slot *b) {
    if (a->hash != b->hash)
        return a->hash < b->hash;
    uint64_t shorter = a->length < b->length ? a->length : b->length;
    int order = memcmp(text + a->at, text + b->at, shorter);
    return order ? order < 0 : a->length < b->length;
}

SORT(sort_shorts, short_slot, short_below)
SORT(sort_longs, long_slot, long_below)

/* Write all chunks in the order of their bytes: offsets (one more than chunks), bytes, numbers; table_size says how
   many. This uses up the table: it can only be freed afterwards. */
EXPORT void table_sorted(chunk_table *table, int64_t *offsets, uint8_t *bytes, int64_t *numbers) {
    uint64_t n = 0;
    for (uint64_t i = 0; i <= table->short_mask; i++)
        if (table->shorts[i].key)
            table->shorts[n++] = (short_slot){swapped(table->shorts[i].key), table->shorts[i].n};
    sort_shorts(table->text, table->shorts, n, depth_for(n));
    n = 0;
    for (uint64_t i = 0; i <= table->long_mask; i++) {
        if (!table->longs[i].hash)
            continue;
        long_slot slot = table->longs[i];
        memcpy(&slot.hash, table->text + slot.at, 8);
        slot.hash = swapped(slot.hash);
        table->longs[n++] = slot;
    }
    sort_longs(table->text, table->longs, n, depth_for(n));
    const short_slot *s = table->shorts, *last_short = s + table->short_used;
    const long_slot *l = table->longs, *last_long = l + table->long_used;
    uint64_t at = 0;
    *offsets++ = 0;
    while (s < last_short || l < last_long) {
        /* the short chunk goes first if its bytes (at most seven) are below those of the long one, or begin it */
        uint64_t length, key = s < last_short ? s->key >> 8 << 8 : 0, size = s < last_short ? s->key & 255 : 0;
        if (s < last_short && (l == last_long || key <= (l->hash & ~(uint64_t)0 << (64 - 8 * size)))) {
            length = size;
            for (uint64_t i = 0; i < length; i++)
                bytes[at + i] = (uint8_t)(key >> (56 - 8 * i));
            *numbers++ = s++->n;
        } else {
            length = l->length;
            memcpy(bytes + at, table->text + l->at, length);
            *numbers++ = l++->n;
        }
        at += length;
        *offsets++ = (int64_t)at;
    }
}
