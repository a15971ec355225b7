/* A hash table with open addressing, for any kind of slots that have a `key`; in a free one it is 0.

   HASH(name, slot type, WHERE) makes the type `name` and its functions; WHERE(key): a number whose lower bits say where
   a key stands. A table holds at most two thirds of its slots, so there is always a free one.

   The hashes have no secret key. Whoever writes a corpus can search for chunks that share a slot: a minute of search
   gives 3 MB of text that takes 4 s to count. That is left so, since it grows with what the attacker writes.

   Judge: that of the files that use it. */

/* A number whose every bit depends on every bit of the key. */
static inline uint64_t mixed(uint64_t key) {
    key ^= key >> 32;
    key *= 0x9E3779B97F4A7C15ull;
    key ^= key >> 29;
    key *= 0xBF58476D1CE4E5B9ull;
    return key ^ key >> 32;
}

/* RESIZE(name, table type, slot type, TAKEN, PLACE) makes name(table, budget, size), which makes it a table of `size`
   slots, a power of two; 0: there is no room. TAKEN(slot): whether it is no free one; PLACE(slot): as WHERE. */
#define RESIZE(NAME, TABLE, SLOT, TAKEN, PLACE)                                                                          \
    static int NAME(TABLE *table, budget *own, uint64_t size) {                                                          \
        SLOT *old = table->slots, *slots = budget_take(own, size * sizeof *slots);                                       \
        uint64_t many = old ? table->mask + 1 : 0;                                                                       \
        if (!slots)                                                                                                      \
            return 0;                                                                                                    \
        for (uint64_t i = 0, at; i < many; i++) {                                                                        \
            if (!TAKEN(old + i))                                                                                         \
                continue;                                                                                                \
            for (at = PLACE(old + i) & (size - 1); TAKEN(slots + at);)                                                   \
                at = (at + 1) & (size - 1);                                                                              \
            slots[at] = old[i];                                                                                          \
        }                                                                                                                \
        budget_give(own, old, many * sizeof *old);                                                                       \
        table->slots = slots;                                                                                            \
        table->mask = size - 1;                                                                                          \
        return 1;                                                                                                        \
    }

/* name_soon: fetch ahead what name_at needs. name_at: the slot of a key, free if the key is not there. name_find: NULL
   if it is not there. name_size: see RESIZE. name_full: one more does not fit. name_put: the slot of a key, put in with
   zeros where it is new; NULL: there is no room. */
#define HASH(NAME, SLOT, WHERE)                                                                                          \
    typedef struct {                                                                                                     \
        SLOT *slots;                                                                                                     \
        uint64_t mask, used;                                                                                             \
    } NAME;                                                                                                              \
    static inline void NAME##_soon(const NAME *table, uint64_t key) {                                                    \
        SOON(table->slots + (WHERE(key) & table->mask));                                                                 \
    }                                                                                                                    \
    static inline SLOT *NAME##_at(const NAME *table, uint64_t key) {                                                     \
        uint64_t at = WHERE(key) & table->mask;                                                                          \
        while (table->slots[at].key != key && table->slots[at].key)                                                      \
            at = (at + 1) & table->mask;                                                                                 \
        return table->slots + at;                                                                                        \
    }                                                                                                                    \
    static inline SLOT *NAME##_find(const NAME *table, uint64_t key) {                                                   \
        SLOT *slot = NAME##_at(table, key);                                                                              \
        return slot->key ? slot : NULL;                                                                                  \
    }                                                                                                                    \
    static inline int NAME##_taken(const SLOT *slot) { return slot->key != 0; }                                          \
    static inline uint64_t NAME##_where(const SLOT *slot) { return WHERE(slot->key); }                                   \
    RESIZE(NAME##_size, NAME, SLOT, NAME##_taken, NAME##_where)                                                          \
    static inline int NAME##_full(const NAME *table) { return (table->used + 1) * 3 > table->mask * 2; }                 \
    static inline SLOT *NAME##_put(NAME *table, budget *own, uint64_t key) {                                             \
        SLOT *slot = NAME##_at(table, key);                                                                              \
        if (slot->key)                                                                                                   \
            return slot;                                                                                                 \
        if (NAME##_full(table)) {                                                                                        \
            if (!NAME##_size(table, own, (table->mask + 1) * 2))                                                         \
                return NULL;                                                                                             \
            slot = NAME##_at(table, key);                                                                                \
        }                                                                                                                \
        table->used++;                                                                                                   \
        slot->key = key;                                                                                                 \
        return slot;                                                                                                     \
    }

/* A number for each key. */
typedef struct {
    uint64_t key;
    int64_t n;
} key_count;

HASH(key_counts, key_count, mixed)

/* The key of two neighbours, above 0, and the two again. */
static inline uint64_t pair_key(int32_t left, int32_t right) {
    return ((uint64_t)(uint32_t)left << 32 | (uint32_t)right) + 1;
}

static inline int32_t left_of(uint64_t key) { return (int32_t)((key - 1) >> 32); }

static inline int32_t right_of(uint64_t key) { return (int32_t)(key - 1); }
