/* Distinct chunks of text, each with a number: how often it occurred, or its place in the order of first occurrence.

   Chunks of at most 7 bytes stand in a table of keys that hold them whole, their length in the top byte:

       " the"  ->  0x04 00 00 00 65 68 74 20      one slot of 16 bytes, no text elsewhere

   Longer ones stand in a second table by their hash; their bytes lie one behind the other in `text`. Four in five
   chunks of English are short, and finding and counting one touches a single cache line. The mark that some words have
   before them is in neither: it is put there when they are taken out.

   Judge: tests/text/test_chunker.py, Counter and sorted. */

#define WORD_MARK "\xE2\x96\x81"

enum { MARK_BYTES = 3, SHORT_BYTES = 7, FIRST_SLOTS = 1 << 10, FIRST_TEXT = 1 << 14 };

typedef struct {
    uint64_t key; /* a hash; when chunks are sorted, their first eight bytes */
    uint64_t at;  /* in `text` */
    int64_t n;
    uint64_t length;
} long_slot;

#define ABOVE_LOWEST_BYTE(hash) ((hash) >> 8)
HASH(long_chunks, long_slot, ABOVE_LOWEST_BYTE)

typedef struct {
    key_counts shorts;
    long_chunks longs;
    uint8_t *text;
    uint64_t text_used, text_size;
    budget budget;
    uint64_t numbered; /* chunks numbered so far, where the number is the place of first occurrence */
    int marked;        /* every chunk is a word that has a mark before it */
} chunk_table;

/* Of a chunk of more than SHORT_BYTES. */
static uint64_t chunk_hash(const uint8_t *chunk, uint64_t length) {
    uint64_t hash = length * 0x9E3779B97F4A7C15ull, word;
    for (; length >= 8; chunk += 8, length -= 8) {
        memcpy(&word, chunk, 8);
        hash = (hash ^ word) * 0x9FB21C651E98DF25ull;
        hash ^= hash >> 32;
    }
    memcpy(&word, chunk + length - 8, 8); /* its highest bytes are those that are left */
    word = word >> 1 >> (63 - 8 * length);
    return mixed((hash ^ word) * 0x9FB21C651E98DF25ull) | 1; /* 0 is for free slots; the lowest bits take no part */
}

/* The key of a chunk, a hash if it is long; 0 if it is empty. `end`: of the memory that may be read. */
static inline uint64_t table_key(const uint8_t *chunk, uint64_t length, const uint8_t *end) {
    uint64_t key = 0;
    if (length > SHORT_BYTES)
        return chunk_hash(chunk, length);
    if (end - chunk >= 8) {
        memcpy(&key, chunk, 8);
        key &= ((uint64_t)1 << 8 * length) - 1;
    } else {
        memcpy(&key, chunk, length);
    }
    return key | length << 56;
}

/* The slot of a long chunk with this hash, free if the chunk is not there. */
static inline long_slot *long_at(const chunk_table *table, uint64_t hash, const uint8_t *chunk, uint64_t length) {
    for (uint64_t at = ABOVE_LOWEST_BYTE(hash) & table->longs.mask;; at = (at + 1) & table->longs.mask) {
        long_slot *slot = table->longs.slots + at;
        if (!slot->key ||
            (slot->key == hash && slot->length == length && !memcmp(table->text + slot->at, chunk, length)))
            return slot;
    }
}

static int64_t *put_long(chunk_table *table, uint64_t hash, const uint8_t *chunk, uint64_t length, int *fresh) {
    if (long_chunks_full(&table->longs) &&
        !long_chunks_size(&table->longs, &table->budget, (table->longs.mask + 1) * 2))
        return NULL;
    if (!budget_room(&table->budget, &table->text, &table->text_size, table->text_used + length, 1))
        return NULL;
    long_slot *slot = long_at(table, hash, chunk, length);
    memcpy(table->text + table->text_used, chunk, length);
    *slot = (long_slot){hash, table->text_used, 0, length};
    table->text_used += length;
    table->longs.used++;
    *fresh = 1;
    return &slot->n;
}

/* Where the number of a chunk with this key is; a new chunk (`*fresh`) is put in with 0. NULL: the table's budget says
   why not. CORE_DAMAGED: the chunk is empty; none is, and its key would be that of a free slot. */
static inline int64_t *table_find(chunk_table *table, const uint8_t *chunk, uint64_t length, uint64_t key, int *fresh) {
    uint64_t used = table->shorts.used;
    if (length - 1 < SHORT_BYTES) {
        key_count *slot = key_counts_put(&table->shorts, &table->budget, key);
        *fresh = table->shorts.used > used;
        return slot ? &slot->n : NULL;
    }
    *fresh = 0;
    if (!length) {
        table->budget.why = CORE_DAMAGED;
        return NULL;
    }
    long_slot *slot = long_at(table, key, chunk, length);
    return slot->key ? &slot->n : put_long(table, key, chunk, length, fresh);
}

/* Add `more` to the number of a chunk with this key. CORE_OK, or why not. */
static inline int table_add_one(chunk_table *table, const uint8_t *chunk, uint64_t length, uint64_t key, int64_t more) {
    int fresh;
    int64_t *n = table_find(table, chunk, length, key, &fresh);
    if (!n)
        return table->budget.why;
    if (more > INT64_MAX - *n)
        return CORE_OVERFLOW;
    *n += more;
    return CORE_OK;
}

/* Where a chunk's number is; NULL if the chunk is not there. Any number of threads may look at once. */
static const int64_t *table_look(const chunk_table *table, const uint8_t *chunk, uint64_t length) {
    uint64_t key = table_key(chunk, length, chunk + length);
    if (length <= SHORT_BYTES) {
        const key_count *slot = key_counts_find(&table->shorts, key);
        return slot ? &slot->n : NULL;
    }
    const long_slot *slot = long_at(table, key, chunk, length);
    return slot->key ? &slot->n : NULL;
}

/* Fetch ahead the slot of a chunk with this key; a moment later, its text if it is a long one. */
static inline void table_soon(const chunk_table *table, uint64_t length, uint64_t key) {
    if (length > SHORT_BYTES)
        long_chunks_soon(&table->longs, key);
    else
        key_counts_soon(&table->shorts, key);
}

static inline void table_text_soon(const chunk_table *table, uint64_t length, uint64_t key) {
    const long_slot *slot = table->longs.slots + (ABOVE_LOWEST_BYTE(key) & table->longs.mask);
    if (length > SHORT_BYTES && slot->key == key)
        SOON(table->text + slot->at);
}

/* Chunks wait until the memory that finding them needs is fetched; then they are counted in their order. */
enum { WAITING = 64 };

typedef struct {
    const uint8_t *chunk; /* NULL: a document ends here */
    uint64_t length, key;
    int64_t more;
} waiting_chunk;

/* Count or, with `ids`, number what waits. Returns how many of them are done; the table's budget says why not all. */
static int count_waiting(chunk_table *table, const waiting_chunk *waiting, int n, int64_t *many, int32_t *ids) {
    for (int i = 0; i < n; i++)
        table_text_soon(table, waiting[i].length, waiting[i].key);
    for (int i = 0; i < n; i++) {
        int fresh;
        if (!waiting[i].chunk) {
            ids[(*many)++] = -1;
            continue;
        }
        int64_t *number = table_find(table, waiting[i].chunk, waiting[i].length, waiting[i].key, &fresh);
        if (!number)
            return i;
        if (ids) {
            if (fresh)
                *number = (int64_t)table->numbered++;
            ids[*many] = (int32_t)*number;
        } else if (waiting[i].more > INT64_MAX - *number) {
            table->budget.why = CORE_OVERFLOW;
            return i;
        } else {
            *number += waiting[i].more;
        }
        ++*many;
    }
    return n;
}

EXPORT void table_free(chunk_table *table) {
    free(table->shorts.slots);
    free(table->longs.slots);
    free(table->text);
    free(table);
}

/* A table that takes at most `limit` bytes, at least 64 KB; NULL if there is no memory. */
EXPORT chunk_table *table_new(uint64_t limit) {
    chunk_table *table = calloc(1, sizeof *table);
    if (!table)
        return NULL;
    table->budget.limit = limit;
    if (key_counts_size(&table->shorts, &table->budget, FIRST_SLOTS) &&
        long_chunks_size(&table->longs, &table->budget, FIRST_SLOTS) &&
        budget_room(&table->budget, &table->text, &table->text_size, FIRST_TEXT, 1))
        return table;
    table_free(table);
    return NULL;
}

/* How many bytes of memory the table takes. */
EXPORT uint64_t table_bytes(const chunk_table *table) {
    return table->budget.bytes;
}

/* How many chunks are in the table; `*text`: how many bytes they have together. */
EXPORT uint64_t table_size(const chunk_table *table, uint64_t *text) {
    *text = table->text_used;
    for (uint64_t i = 0; i <= table->shorts.mask; i++)
        *text += table->shorts.slots[i].key >> 56;
    *text += table->marked ? MARK_BYTES * (table->shorts.used + table->longs.used) : 0;
    return table->shorts.used + table->longs.used;
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

/* Below 0, 0 or above 0: chunk a stands before b in the order of bytes, is equal to it, or stands behind it. */
static inline int compare_bytes(const uint8_t *a, uint64_t a_size, const uint8_t *b, uint64_t b_size) {
    int order = memcmp(a, b, a_size < b_size ? a_size : b_size);
    return order ? order : (a_size > b_size) - (a_size < b_size);
}

/* Of a short chunk the length is in the lowest byte, so "a" stands before "a\0". */
static inline int is_lower_key(const void *context, const key_count *a, const key_count *b) {
    (void)context;
    return a->key < b->key;
}

static inline int is_lower_chunk(const void *text, const long_slot *a, const long_slot *b) {
    if (a->key != b->key)
        return a->key < b->key;
    return compare_bytes((const uint8_t *)text + a->at, a->length, (const uint8_t *)text + b->at, b->length) < 0;
}

SORT(sort_keys, key_count, is_lower_key)
SORT(sort_chunks, long_slot, is_lower_chunk)

/* The counts of a table moved to its front and sorted by their keys. How many there are. This uses up the table. */
static uint64_t sorted_keys(key_counts *counts) {
    uint64_t n = 0;
    for (uint64_t i = 0; i <= counts->mask; i++)
        if (counts->slots[i].key)
            counts->slots[n++] = counts->slots[i];
    sort_keys(NULL, counts->slots, n, depth_for(n));
    return n;
}

/* The same for long chunks, by their hashes and then their bytes, or with `first` by their bytes alone. */
static uint64_t sorted_chunks(chunk_table *table, int first) {
    uint64_t n = 0;
    for (uint64_t i = 0; i <= table->longs.mask; i++) {
        long_slot slot = table->longs.slots[i];
        if (!slot.key)
            continue;
        if (first) {
            memcpy(&slot.key, table->text + slot.at, 8);
            slot.key = swapped(slot.key);
        }
        table->longs.slots[n++] = slot;
    }
    sort_chunks(table->text, table->longs.slots, n, depth_for(n));
    return n;
}

/* Write all chunks in the order of their bytes: offsets (one more than chunks), bytes, numbers; table_size says how
   many. This uses up the table: it can only be freed afterwards. */
EXPORT void table_sorted(chunk_table *table, int64_t *offsets, uint8_t *bytes, int64_t *numbers) {
    for (uint64_t i = 0; i <= table->shorts.mask; i++)
        table->shorts.slots[i].key = swapped(table->shorts.slots[i].key);
    const key_count *s = table->shorts.slots, *last_short = s + sorted_keys(&table->shorts);
    const long_slot *l = table->longs.slots, *last_long = l + sorted_chunks(table, 1);
    uint64_t at = 0;
    *offsets++ = 0;
    while (s < last_short || l < last_long) {
        if (table->marked) {
            memcpy(bytes + at, WORD_MARK, MARK_BYTES);
            at += MARK_BYTES;
        }
        /* the short chunk goes first if its bytes (at most seven) are below those of the long one, or begin it */
        uint64_t length, key = s < last_short ? s->key >> 8 << 8 : 0, size = s < last_short ? s->key & 255 : 0;
        if (s < last_short && (l == last_long || key <= (l->key & ~(uint64_t)0 << (64 - 8 * size)))) {
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
