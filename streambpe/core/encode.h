/* Chunks to ids: the events of a model replayed, a chunk's ids remembered, superwords joined.

   An event merges two neighbours or splits a token again. Inside a chunk, events happen in the order in which they were
   learned. Each happens at every place where it can, left to right, and none comes back after its turn:

       events  0: a b -> ab    1: ab c -> abc    2: delete ab -> a b
       abcabb      a b c a b b   -0->   ab c ab b   -1->   abc ab b   -2->   abc a b b

   Then superwords: neighbouring chunks that are one token each join by the same rule ("in the" -> one token).

   encode_replay.c   a sequence of symbols to its tokens
   encode.c          a chunk to symbols and ids, and the cache of chunks
   encode_text.c     documents to ids: splitting, superwords, what stays open at the ends of a block
   decode.c          ids to bytes

   Threads share only what is never written. Judge: streambpe/model/replay.py (tests/encode/test_encode_core.py). */

enum {
    ENCODE_UNKNOWN = -6, /* the text holds a symbol that the model's alphabet does not have */
    ENCODE_DEAD = -7,    /* a chunk ended in a token that has no model id: encoder_bad says which */
    ENCODE_AGAIN = -8    /* a window was too small (never leaves the core) */
};

#define NEVER INT32_MAX /* an event behind all others */

enum { UNKNOWN = -1, END_OF_TEXT = -2, WHOLE = 1 << 30 }; /* in a stream of ids: streambpe/encode/encoder.py */

typedef struct {
    uint64_t key;  /* of the pair; 0: free */
    int32_t event; /* the first that joins them; NEVER in a free slot */
} rule_slot;

#define UPPER_BITS(key) ((key) * 0x9E3779B97F4A7C15ull >> 32)
#define MIDDLE_BITS(key) ((key) * 0x9E3779B97F4A7C15ull >> 29)
HASH(rule_slots, rule_slot, UPPER_BITS)

/* The events of one kind; all arrays are the caller's. */
typedef struct {
    rule_slots pairs;        /* at most half of the slots are in use */
    const uint8_t *present;  /* eight bits for each slot; 0: no pair with this hash is here, as most that are asked for */
    const int32_t *made;     /* event -> the token that it makes */
    const int32_t *later;    /* event -> the next event of the same pair or token; NULL: no event has one */
    const int32_t *deletion; /* id -> the first event that splits it, or NEVER; NULL: nothing is split */
    const int64_t *into_at;  /* event -> its parts: into[into_at[event]:into_at[event + 1]] */
    const int32_t *into;
    const int32_t *sizes; /* id -> how many base symbols it has; only asked for parts */
    int64_t events; /* how many */
    int64_t backwards; /* of superwords: an earlier event may follow a later one, see encode_replay.c */
} pair_rules;

/* A model as the encoder reads it (core/encoding.py fills it); all arrays are the caller's. */
typedef struct {
    pair_rules chunk, super, borders; /* borders: pairs of whole chunks that some superword holds side by side */
    const int32_t *symbols;           /* byte or code point -> its symbol; SCRIPT: its block, 0 if it has none */
    const int32_t *indices;           /* SCRIPT: a code point's place in its block */
    const int32_t *names;             /* log id -> model id, negative if it has none; NULL: log ids are wanted */
    const uint8_t *side;              /* log id -> 1: left of a border, 2: right of one; NULL: no superwords */
    const chunk_table *stops, *marked_stops; /* stop words and their log ids; the same without the mark before them */
    const uint16_t *classes;                 /* of the split, as in split.c */
    const uint8_t *spanned; /* a bit for each place between characters that a token spans, see spanned_bit; or NULL */
    uint64_t spanned_mask;  /* one less than how many bits there are */
    const uint8_t *sticks;  /* NULL; or as in scan_text: chunks are cut so, and END_OF_TEXT stands behind each */
    int64_t window; /* symbols of a long sequence that are replayed together */
    int64_t ids;               /* how many log ids there are: every symbol is one of them */
    int64_t alphabet, unknown; /* of the enums below */
    int64_t escape;            /* SCRIPT: the symbol of byte 0, for characters without a block */
    int64_t unknown_name;      /* what UNKNOWN is called */
    int64_t preset, special, digits; /* of scan_text; preset -1: the caller splits */
} encode_model;

enum { BYTES, CHARACTERS, SCRIPT };
enum { REFUSE, DROP, KEEP, ESCAPE }; /* a symbol outside the alphabet: an error, nothing, UNKNOWN, its bytes */

/* How often the events of a model were made, asked for while sequences are replayed. */
typedef struct {
    int64_t *n;       /* of events: the places of its pair at its turn, each `weight` times */
    uint8_t *stood;   /* of events: 1 if its pair stood anywhere before its turn or at it */
    int64_t weight;   /* of the sequence */
    int64_t disjoint; /* "aaa" holds (a, a) once, else twice */
    int64_t made;     /* how many places of one event stand in `fresh` */
} event_tally;

/* Memory to replay a sequence that is too long to be searched again and again. */
typedef struct {
    int32_t *token, *next, *previous; /* of places; a token stands at its first place */
    int32_t *waits;                   /* of nodes: the event that a node waits for, or NEVER */
    int32_t *after, *before;          /* of nodes: others that wait for the same event */
    uint8_t *crossed;                 /* of places: something was joined over its left border */
    int32_t *stretch, *fresh;         /* symbols around a border */
    int32_t *heads;                   /* of events: the first node that waits for it, or -1 */
    uint64_t *bits, *summary;         /* of events with a node; of words of `bits` */
    int64_t places, events;           /* how many there is room for; a place has two nodes: its pair, its deletion */
    uint64_t limit;
    event_tally *tally; /* NULL: nobody asks */
} replay_space;

enum { SHORT_SEQUENCE = 48 }; /* up to so many symbols, the next event is found by looking at all of them */

enum { SMALL_BYTES = 15, SMALL_IDS = 3, CACHED_BYTES = 31, CACHED_IDS = 7, CACHED_WHOLE = 64 };

/* A chunk of few bytes and few ids. */
typedef struct {
    uint64_t key[2];        /* the chunk, zeros behind it; its length in the top byte, 128 more if it has a mark */
    int32_t ids[SMALL_IDS]; /* model ids, unless superwords want log ids */
    int32_t n;              /* how many; CACHED_WHOLE more if a superword may take the chunk up */
} small_chunk;

/* A line of the processor's cache: two such chunks, or one that is larger. Which, shows by numbers that are 0 in one of
   the two only: `one.n` ends where the second of two has its length; and if `one` has few bytes, its key ends, in zeros,
   where the first of two has n. */
typedef union {
    small_chunk two[2];
    struct {
        uint64_t key[4]; /* 15 bytes and the length as above, then 16 bytes */
        int32_t others[CACHED_IDS - 4], n, ids[4];
    } one;
} cache_line;

typedef struct {
    encode_model model;
    replay_space space;
    cache_line *cache;
    uint64_t lines; /* a power of two */
    void *memory;   /* of the cache */
    uint8_t pages[0x1100]; /* of the classes: 1 if known */
    int64_t bad;
} encoder;

/* The first event from `from` on that joins the pair, or NEVER. */
static inline int32_t pair_event(const pair_rules *rules, int32_t left, int32_t right, int32_t from) {
    uint64_t key = pair_key(left, right);
    if (!(rules->present[UPPER_BITS(key) & rules->pairs.mask] >> (MIDDLE_BITS(key) & 7) & 1))
        return NEVER;
    int32_t event = rule_slots_at(&rules->pairs, key)->event;
    while (event < from)
        event = rules->later ? rules->later[event] : NEVER;
    return event;
}

/* The first event from `from` on that splits the token, or NEVER; only asked if the model has deletions. */
static inline int32_t deletion_event(const pair_rules *rules, int32_t token, int32_t from) {
    int32_t event = token < 0 ? NEVER : rules->deletion[token];
    while (event < from)
        event = rules->later[event];
    return event;
}

/* A chunk, or a part of one, and where the cache would have it. */
typedef struct {
    const uint8_t *chunk;
    uint64_t length, key[4]; /* two words of a chunk of at most SMALL_BYTES */
    cache_line *line; /* NULL: the chunk is too long */
    int marked;       /* U+2581 stands before it */
    int part;         /* it is no whole chunk */
    int ends;         /* END_OF_TEXT stands behind it */
} chunk_look;

/* Where a place between two characters beyond ASCII has its bit: by the four bytes around it, two of each character. */
static inline uint64_t spanned_bit(uint64_t mask, uint32_t around) {
    return ((around * 0x9E3779B97F4A7C15ull) >> 32) & mask;
}

/* Where the first part of a chunk ends: at the first place between two characters that no token of the model spans.
   Nothing is ever joined across it, so both sides become what they become alone. */
static inline const uint8_t *part_end(const encode_model *model, const uint8_t *p, const uint8_t *end) {
    if (!model->spanned || end - p < 4 || p[1] < 0x80)
        return end;
    for (const uint8_t *q = p + 2; q + 1 < end; q++) {
        if (*q < 0xC0 || q[-1] < 0x80)
            continue;
        uint32_t around;
        memcpy(&around, q - 2, 4);
        uint64_t bit = spanned_bit(model->spanned_mask, around);
        if (!(model->spanned[bit / 8] >> bit % 8 & 1))
            return q;
    }
    return end;
}

/* Where the cache would have a chunk; the processor is asked to fetch it. */
static inline void chunk_at(const encoder *encoder, const uint8_t *chunk, uint64_t length, const uint8_t *end, int marked,
                            chunk_look *look) {
    look->chunk = chunk;
    look->length = length;
    look->marked = marked;
    look->line = NULL;
    if (length - 1 >= CACHED_BYTES)
        return;
    load_bytes(look->key, chunk, length < SMALL_BYTES ? length : SMALL_BYTES, end);
    look->key[1] |= (length | (uint64_t)marked << 7) << 56;
    uint64_t hash = (look->key[0] ^ look->key[1] >> 29) * 0x9E3779B97F4A7C15ull ^ look->key[1] * 0xBF58476D1CE4E5B9ull;
    if (length > SMALL_BYTES) {
        load_bytes(look->key + 2, chunk + SMALL_BYTES, length - SMALL_BYTES, end);
        hash += look->key[2] * 0x94D049BB133111EBull ^ look->key[3] * 0x9FB21C651E98DF25ull;
    }
    hash ^= hash >> 32;
    look->line = encoder->cache + (hash * 0x9E3779B97F4A7C15ull >> 20 & (encoder->lines - 1));
    SOON(look->line);
}
