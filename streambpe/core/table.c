/* Distinct chunks of text, each with a number: how often it occurred, or its place in the order of first occurrence.

   A slot takes 24 bytes. A chunk of at most 15 bytes stands in it whole, its length in the top byte:

       " the"  ->  low 0x00 00 00 00 65 68 74 20   high 0x04 00 00 00 00 00 00 00

   A longer one stands there by its hash; its bytes lie elsewhere, in `text`, behind eight bytes of length. Nearly all
   chunks of English are short, and finding and counting one seldom touches more than one cache line. The mark that some
   words have before them is not there: it is put there when they are taken out.

   Judge: tests/text/test_chunker.py, Counter and sorted. */

#define WORD_MARK "\xE2\x96\x81"
#define LONG_CHUNK ((uint64_t)255 << 56)

enum { MARK_BYTES = 3, SHORT_BYTES = 15, LENGTH_BYTES = 8, FIRST_SLOTS = 1 << 10, FIRST_TEXT = 1 << 14 };
enum { ROWS_AHEAD = 24 }; /* a long chunk is fetched so many rows before it is written */

typedef struct {
    uint64_t low, high; /* the chunk; or its hash, and LONG_CHUNK with where it stands in `text`. `high` 0: a free slot */
    int64_t n;
} chunk_slot;

typedef struct {
    chunk_slot *slots; /* at most seven in eight are in use */
    uint64_t mask, used;
    uint8_t *text;
    uint64_t text_used, text_size;
    budget budget;
    uint64_t numbered; /* chunks numbered so far, where the number is the place of first occurrence */
    int marked;        /* every chunk is a word that has a mark before it */
} chunk_table;

/* A chunk, and what its slot has of it. */
typedef struct {
    const uint8_t *chunk;
    uint64_t length, low, high, place; /* `high` of a long one is LONG_CHUNK */
} chunk_key;

/* Of a chunk of at least eight bytes. */
static uint64_t chunk_hash(const uint8_t *chunk, uint64_t length) {
    uint64_t hash = length * 0x9E3779B97F4A7C15ull, word;
    for (; length >= 8; chunk += 8, length -= 8) {
        memcpy(&word, chunk, 8);
        hash = (hash ^ word) * 0x9FB21C651E98DF25ull;
        hash ^= hash >> 32;
    }
    memcpy(&word, chunk + length - 8, 8); /* its highest bytes are those that are left */
    word = word >> 1 >> (63 - 8 * length);
    return mixed((hash ^ word) * 0x9FB21C651E98DF25ull) | 1;
}

/* The lower bits say where a slot is looked for first. */
static inline uint64_t slot_place(uint64_t low, uint64_t high) {
    uint64_t place = (low ^ (high < LONG_CHUNK ? high : 0) * 0x9E3779B97F4A7C15ull) * 0x9FB21C651E98DF25ull;
    place = (place ^ place >> 32) * 0xBF58476D1CE4E5B9ull;
    return place ^ place >> 32;
}

static inline chunk_key long_key(const uint8_t *chunk, uint64_t length) {
    uint64_t hash = chunk_hash(chunk, length);
    return (chunk_key){chunk, length, hash, LONG_CHUNK, slot_place(hash, LONG_CHUNK)};
}

/* Up to 16 bytes as two words, zeros behind them. `end`: of the memory that may be read. */
static inline void load_bytes(uint64_t key[2], const uint8_t *bytes, uint64_t length, const uint8_t *end) {
    static const uint8_t masks[32] = {255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255};
    uint64_t mask[2];
    if (end - bytes >= 16) {
        memcpy(key, bytes, 16);
        memcpy(mask, masks + 16 - length, 16);
        key[0] &= mask[0];
        key[1] &= mask[1];
    } else {
        key[0] = key[1] = 0;
        memcpy(key, bytes, length);
    }
}

/* `end`: of the memory that may be read. */
static inline chunk_key table_key(const uint8_t *chunk, uint64_t length, const uint8_t *end) {
    uint64_t key[2];
    if (length > SHORT_BYTES)
        return long_key(chunk, length);
    load_bytes(key, chunk, length, end);
    key[1] |= length << 56;
    return (chunk_key){chunk, length, key[0], key[1], slot_place(key[0], key[1])};
}

static inline const uint8_t *long_text(const uint8_t *text, const chunk_slot *slot) {
    return text + (slot->high - LONG_CHUNK);
}

static inline uint64_t long_length(const uint8_t *text) {
    uint64_t length;
    memcpy(&length, text - LENGTH_BYTES, LENGTH_BYTES);
    return length;
}

static int is_long_slot(const chunk_table *table, const chunk_slot *slot, const chunk_key *key) {
    const uint8_t *text = long_text(table->text, slot);
    return long_length(text) == key->length && !memcmp(text, key->chunk, key->length);
}

/* The slot of a chunk, free if the chunk is not there. */
static inline chunk_slot *slot_at(const chunk_table *table, const chunk_key *key) {
    for (uint64_t at = key->place & table->mask;; at = (at + 1) & table->mask) {
        chunk_slot *slot = table->slots + at;
        if (!slot->high || (slot->low == key->low && (key->high < LONG_CHUNK ? slot->high == key->high
                                                      : slot->high >= LONG_CHUNK && is_long_slot(table, slot, key))))
            return slot;
    }
}

static inline int is_taken(const chunk_slot *slot) { return slot->high != 0; }

static inline uint64_t place_of(const chunk_slot *slot) { return slot_place(slot->low, slot->high); }

RESIZE(table_slots, chunk_table, chunk_slot, is_taken, place_of)

/* The slot of a new chunk. NULL: the table's budget says why not. CORE_DAMAGED: the chunk is empty; none is, and its key
   would be that of a free slot. */
static chunk_slot *put_slot(chunk_table *table, const chunk_key *key) {
    uint64_t at = table->text_used + LENGTH_BYTES;
    if (!key->length) {
        table->budget.why = CORE_DAMAGED;
        return NULL;
    }
    if (key->high >= LONG_CHUNK &&
        !budget_room(&table->budget, &table->text, &table->text_size, at + key->length, 1))
        return NULL;
    if ((table->used + 1) * 8 > (table->mask + 1) * 7 && !table_slots(table, &table->budget, (table->mask + 1) * 2))
        return NULL;
    chunk_slot *slot = slot_at(table, key);
    *slot = (chunk_slot){key->low, key->high, 0};
    if (key->high >= LONG_CHUNK) {
        slot->high += at;
        memcpy(table->text + at - LENGTH_BYTES, &key->length, LENGTH_BYTES);
        memcpy(table->text + at, key->chunk, key->length);
        table->text_used = at + key->length;
    }
    table->used++;
    return slot;
}

/* Where the number of a chunk is; a new chunk (`*fresh`) is put in with 0. NULL: see put_slot. */
static inline int64_t *table_find(chunk_table *table, const chunk_key *key, int *fresh) {
    chunk_slot *slot = slot_at(table, key);
    *fresh = !slot->high;
    if (*fresh && !(slot = put_slot(table, key)))
        return NULL;
    return &slot->n;
}

/* Add `more` to the number of a chunk. CORE_OK, or why not. */
static inline int table_add_one(chunk_table *table, const chunk_key *key, int64_t more) {
    int fresh;
    int64_t *n = table_find(table, key, &fresh);
    if (!n)
        return table->budget.why;
    if (more > INT64_MAX - *n)
        return CORE_OVERFLOW;
    *n += more;
    return CORE_OK;
}

/* Where a chunk's number is; NULL if the chunk is not there. Any number of threads may look at once. */
static const int64_t *table_look(const chunk_table *table, const uint8_t *chunk, uint64_t length) {
    chunk_key key = table_key(chunk, length, chunk + length);
    const chunk_slot *slot = slot_at(table, &key);
    return slot->high ? &slot->n : NULL;
}

/* Fetch ahead the slot of a chunk; a moment later, its text if it is a long one. */
static inline void table_soon(const chunk_table *table, const chunk_key *key) {
    const chunk_slot *slot = table->slots + (key->place & table->mask);
    SOON(slot);
    SOON(&slot->n);
}

static inline void table_text_soon(const chunk_table *table, const chunk_key *key) {
    const chunk_slot *slot = table->slots + (key->place & table->mask);
    if (key->high >= LONG_CHUNK && slot->low == key->low && slot->high >= LONG_CHUNK)
        SOON(long_text(table->text, slot));
}

/* Chunks wait until the memory that finding them needs is fetched; then they are counted in their order. */
enum { WAITING = 64 };

/* Count or, with `ids`, number what waits; a chunk that is NULL stands for the end of a document. Returns how many of
   them are done; the table's budget says why not all. */
static int count_waiting(chunk_table *table, const chunk_key *waiting, int n, int64_t *many, int32_t *ids) {
    for (int i = 0; i < n; i++)
        table_text_soon(table, waiting + i);
    for (int i = 0; i < n; i++) {
        int fresh;
        if (!waiting[i].chunk) {
            ids[(*many)++] = -1;
            continue;
        }
        int64_t *number = table_find(table, waiting + i, &fresh);
        if (!number)
            return i;
        if (ids) {
            if (fresh)
                *number = (int64_t)table->numbered++;
            ids[*many] = (int32_t)*number;
        } else if (*number == INT64_MAX) {
            table->budget.why = CORE_OVERFLOW;
            return i;
        } else {
            ++*number;
        }
        ++*many;
    }
    return n;
}

EXPORT void table_free(chunk_table *table) {
    free(table->slots);
    free(table->text);
    free(table);
}

/* A table that takes at most `limit` bytes, at least 64 KB; NULL if there is no memory. */
EXPORT chunk_table *table_new(uint64_t limit) {
    chunk_table *table = calloc(1, sizeof *table);
    if (!table)
        return NULL;
    table->budget.limit = limit;
    if (table_slots(table, &table->budget, FIRST_SLOTS) &&
        budget_room(&table->budget, &table->text, &table->text_size, FIRST_TEXT, 1))
        return table;
    table_free(table);
    return NULL;
}

/* How many bytes of memory the table takes. */
EXPORT uint64_t table_bytes(const chunk_table *table) {
    return table->budget.bytes;
}

/* How many chunks are in the table. */
EXPORT int64_t table_size(const chunk_table *table) {
    return (int64_t)table->used;
}

/* ------------------------------------------------------------------------------------------ all chunks in some order

   This is done in place: the slots in use move to the front and are sorted there. For the order of their bytes, `low`
   holds the first eight bytes of the chunk as a number which compares as those bytes do. */

/* Below 0, 0 or above 0: chunk a stands before b in the order of bytes, is equal to it, or stands behind it. */
static inline int compare_bytes(const uint8_t *a, uint64_t a_size, const uint8_t *b, uint64_t b_size) {
    int order = memcmp(a, b, a_size < b_size ? a_size : b_size);
    return order ? order : (a_size > b_size) - (a_size < b_size);
}

static inline int is_lower_key(const void *context, const key_count *a, const key_count *b) {
    (void)context;
    return a->key < b->key;
}

/* The bytes behind the first eight as such a number. The length is in the lowest byte, so "a" stands before "a\0", and
   behind both a long chunk that begins like them. */
static inline uint64_t later_bytes(const uint8_t *text, uint64_t high) {
    if (high >= LONG_CHUNK) {
        memcpy(&high, text + (high - LONG_CHUNK) + 8, 8);
        high |= LONG_CHUNK;
    }
    return __builtin_bswap64(high);
}

static inline int is_lower_chunk(const void *text, const chunk_slot *a, const chunk_slot *b) {
    if (a->low != b->low)
        return a->low < b->low;
    if (a->high < LONG_CHUNK || b->high < LONG_CHUNK)
        return later_bytes(text, a->high) < later_bytes(text, b->high);
    const uint8_t *first = long_text(text, a), *second = long_text(text, b);
    return compare_bytes(first, long_length(first), second, long_length(second)) < 0;
}

SORT(sort_keys, key_count, is_lower_key)
SORT(sort_chunks, chunk_slot, is_lower_chunk)

/* The counts of a table moved to its front and sorted by their keys. How many there are. This uses up the table. */
static uint64_t sorted_keys(key_counts *counts) {
    uint64_t n = 0;
    for (uint64_t i = 0; i <= counts->mask; i++)
        if (counts->slots[i].key)
            counts->slots[n++] = counts->slots[i];
    sort_keys(NULL, counts->slots, n, depth_for(n));
    return n;
}

/* The same for all chunks of a table, in the order of their bytes; or of what they stand by, and then of their bytes where
   both are long. This uses up the table: only table_span, table_rows and freeing are left. */
EXPORT int64_t table_sort(chunk_table *table, int by_bytes) {
    uint64_t n = 0;
    for (uint64_t i = 0; i <= table->mask; i++) {
        chunk_slot slot = table->slots[i];
        if (!slot.high)
            continue;
        if (by_bytes) {
            if (slot.high >= LONG_CHUNK)
                memcpy(&slot.low, long_text(table->text, &slot), 8);
            slot.low = __builtin_bswap64(slot.low);
        }
        table->slots[n++] = slot;
    }
    sort_chunks(table->text, table->slots, n, depth_for(n));
    return (int64_t)n;
}

/* How many bytes the sorted chunks have from number `first` on, up to before number `stop`. */
EXPORT int64_t table_span(const chunk_table *table, int64_t first, int64_t stop) {
    uint64_t bytes = table->marked ? MARK_BYTES * (uint64_t)(stop - first) : 0;
    for (int64_t i = first; i < stop; i++) {
        const chunk_slot *slot = table->slots + i;
        bytes += slot->high < LONG_CHUNK ? slot->high >> 56 : long_length(long_text(table->text, slot));
    }
    return (int64_t)bytes;
}

/* Write these chunks: offsets (one more than chunks), bytes, numbers. `by`: NULL, or for chunks that are not sorted by
   their bytes, and are long: a number below 2^63 for each, which never falls. */
EXPORT void table_rows(const chunk_table *table, int64_t first, int64_t stop, int64_t *by, int64_t *offsets,
                       uint8_t *bytes, int64_t *numbers) {
    uint64_t at = 0;
    *offsets = 0;
    for (int64_t i = 0; first + i < stop; i++) {
        const chunk_slot *slot = table->slots + first + i;
        uint64_t key[2] = {__builtin_bswap64(slot->low), slot->high}, length = slot->high >> 56;
        const uint8_t *chunk = (const uint8_t *)key;
        if (first + i + ROWS_AHEAD < stop && slot[ROWS_AHEAD].high >= LONG_CHUNK)
            SOON(long_text(table->text, slot + ROWS_AHEAD));
        if (slot->high >= LONG_CHUNK) {
            chunk = long_text(table->text, slot);
            length = long_length(chunk);
        }
        if (table->marked) {
            memcpy(bytes + at, WORD_MARK, MARK_BYTES);
            at += MARK_BYTES;
        }
        memcpy(bytes + at, chunk, length);
        at += length;
        if (by)
            by[i] = (int64_t)(slot->low >> 1);
        offsets[i + 1] = (int64_t)at;
        numbers[i] = slot->n;
    }
}
