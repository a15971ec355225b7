/* Learning in memory: words in, exact merges out, one at a time.

   The words stand in one array of places, -1 on either side of each. A token keeps the places of its parts: its id
   stands on the first, minus its width on the second and on the last, so that both neighbours are found without
   pointers:

       word       h e l l o               -1   h   e   l   l   o  -1
       (h, e)                             -1  256 -2   l   l   o  -1
       (256, l)                           -1  257 -3  -3   l   o  -1

   Every pair that counts at least `floor` is hot: it has its exact count, and the list of the places where it may
   begin (places that are out of date are passed over). All other pairs are cold: nothing is kept of them, they are
   only known to count less. When the best hot pair falls under the floor, all pairs are counted again, and a lower
   floor is taken (learn_fill.c).

   Six letters, abcabd x3 · bd x4, ties to the lower ids:
       (a, b) counts 6, (b, d) 7, (b, c) 3, (c, a) 3     best: (b, d), which becomes 256
       in front of the one in abcabd stands an a         (a, b) loses 3, and (a, 256) is born with 3
       (a, b) 3, (b, c) 3, (c, a) 3, (a, 256) 3          best: (a, b), which becomes 257
       behind it stands a c                              (b, c) loses its 3, and (257, c) is born with 3

   Counts of old pairs rise in two cases: a deleted token falls into its parts, or a merge spells a token that is
   alive already. A hot pair then gets more places. A cold pair is kept with a bound: the most that it could count
   (PAIR_BOUND). It is counted when its bound is the best of all, at the places of that one of its two tokens that has
   fewer.

       learn.c        the loop
       learn_merge.c  a merge, a split, what they do to counts
       learn_fill.c   counting all pairs, choosing a floor
       learn_stands.c where tokens stand, and counting pairs with a bound
       learn_pairs.c  the table of pairs, their lists, the heap
       learn_tokens.c spellings, ties, lives of tokens
       learn_words.c  what a learner starts from, words in and out

   All memory is counted against the limit. Where the limit is reached, the index is given up and made anew with a
   higher floor. If not even the best pair's places fit, the caller is told CORE_FULL; the words are then as the events
   told so far leave them.

   Judge: tests/sequential.py and tests/oracles, one merge at a time (tests/core/test_learner.py,
   tests/train/test_engine.py). */

enum { PAIR_BOUND = 1, PAIR_REFUSED = 2, PAIR_ALLOWED = 4 };
enum { TIES_IDS = 0, TIES_BYTES = 1, TIES_PLACES = 2 };
enum { SEPARATOR = -1, COVERED = INT32_MIN };
/* what a merge makes: a token that never was, one that was deleted and comes back, or one that is alive already */
enum { TOKEN_FRESH = 0, TOKEN_BACK = 1, TOKEN_LIVING = 2 };
/* why `learner_learn` returned */
enum { LEARN_DONE = 0, LEARN_NONE_LEFT = 1, LEARN_ASK = 2, LEARN_OUT = 3, LEARN_LIVING = 4, LEARN_UNFIT = 5 };
enum { MERGE_AGAIN = 1 };
enum { SHARED_WEIGHTS = 1 << 12 }; /* those below are shared by all words that have them */

#define TOKEN_LIST ((uint64_t)1 << 63) /* in `added`: a place of a token, not of a pair */
#define MERGE_WORDS 4                  /* numbers that a merge takes in the caller's buffer: left, right, id, n */

typedef struct {
    uint64_t key; /* of the pair; 0: free */
    int64_t n;
    uint32_t head; /* its list of places: a stretch of the arena, [next stretch, how many, places...]; 0: none */
    uint32_t flags;
} hot_pair;

HASH(hot_pairs, hot_pair, mixed)

typedef struct {
    int64_t n;
    uint64_t key;
} heap_entry;

typedef struct { /* a scratch number for each token */
    int64_t n;
    uint32_t places, head;
} tally;

typedef struct {
    uint64_t key;
    int64_t n;
    uint32_t place;
} added_pair;

typedef struct { /* a list like that of a pair, and how many places it holds */
    uint32_t head, many;
} token_places;

typedef struct {
    int64_t length, order; /* order: for ties by place */
    int64_t count;         /* with deletions this and the next four: how often it stands, */
    uint64_t first_pair;   /* what first made it, */
    token_places stands;   /* with splits, where it may stand, */
    int32_t size;          /* how many base symbols it has */
    uint8_t alive, kind;
} token_state;

typedef struct {
    uint32_t key; /* of the spelling's hash */
    int32_t number;
} spelling_slot;

HASH(spelling_slots, spelling_slot, mixed)

typedef struct { /* byte strings by number, and the number of each */
    uint8_t *text;
    uint64_t *ends;
    spelling_slots numbers;
    uint64_t text_room, room;
    int64_t many;
} spellings;

typedef struct { /* a deleted token, and the parts that it is split into */
    int64_t id, many;
    int32_t *parts;
    uint64_t room;
} deletion;

typedef struct { /* the rule; core/learner.py fills it */
    int64_t ties, disjoint, asks;
    int64_t lives; /* tokens may be deleted */
    int64_t walk, after, numerator, denominator, longest, at_least, first_id;
    int64_t place, born; /* for ties by place in one order of words and superwords, see train/superwords/interleave.py */
    int64_t splits; /* and split here, not by the caller: a token has a place for each base symbol, and nothing moves */
    int64_t keeps;  /* words are chains of a stage: those of one token stay, though they have no pair */
    uint64_t most_hot; /* how many pairs become hot at most, if ties allow it; 0: by how many tokens are wanted */
    int64_t ratio;    /* when pairs are counted, the floor is the best count divided by the ratio, if that fits */
    /* the caller's arrays: kinds of tokens, whether two may join, and what they make (model/whole_characters.py) */
    int64_t kinds;
    const uint8_t *joins, *becomes;
    int64_t steps; /* for ties by place: how many word steps there are, and the lowest count up to each */
    const int64_t *falling;
} learn_rule;

typedef struct { /* figures, for the caller's records and limits */
    int64_t bytes, most_bytes, places, words, floor, hot, looked, executed, refills, pending, next_id, dead;
    int64_t made; /* tokens by weight, two of which each merge made one */
} learn_figures;

typedef struct {
    learn_rule rule;
    learn_figures told; /* those that only count what was done, and next_id and dead */
    budget budget;
    /* words: a token at each place, and which weight its word has; words of one weight share it, so that it is near */
    int32_t *token, *heft, shared[SHARED_WEIGHTS];
    int64_t *weight;
    uint64_t places, room, words, words_room, weights;
    /* tokens */
    spellings spelled, blocked;
    token_state *tokens;
    tally *in_front, *behind;
    int32_t *touched;
    uint64_t tokens_room, front_room, behind_room, touched_room;
    /* pairs */
    hot_pairs hot;
    uint32_t *arena;
    uint64_t arena_used, arena_room;
    heap_entry *heap;
    uint64_t heaped, heap_room;
    added_pair *added;
    uint64_t adds, added_room;
    key_counts banned; /* refused pairs */
    int64_t floor;
    int64_t enough;    /* learned tokens that the caller wants alive */
    int filled;
    int bases;         /* with splits: `stands` has lists of base symbols too */
    uint64_t distinct; /* how many distinct pairs there were when they were last counted */
    /* the deletions told last, if their tokens still stand in the words */
    deletion deleted[2];
    int pending;
} learner;

/* How many places the token that begins here takes. */
static inline uint32_t width_at(const learner *all, uint64_t place) {
    int32_t code = all->token[place + 1];
    return code < SEPARATOR ? (uint32_t)-code : 1;
}

/* Where the token in front of this place begins, or the separator. */
static inline uint64_t place_before(const learner *all, uint64_t place) {
    int32_t code = all->token[place - 1];
    return code < SEPARATOR ? place - (uint32_t)-code : place - 1;
}

static inline void put_token(learner *all, uint64_t place, int32_t id, uint32_t width) {
    all->token[place] = id;
    if (width > 1)
        all->token[place + 1] = all->token[place + width - 1] = -(int32_t)width;
}

/* Whether the rule forbids a pair, by what its tokens are. */
static inline int is_forbidden(const learner *all, int32_t left, int32_t right) {
    if (all->rule.longest && all->tokens[left].length + all->tokens[right].length > all->rule.longest)
        return 1;
    return all->rule.kinds && !all->rule.joins[all->tokens[left].kind * all->rule.kinds + all->tokens[right].kind];
}

/* Whether the pair was refused for good. */
static inline int is_banned(const learner *all, uint64_t key) {
    return key_counts_find(&all->banned, key) != NULL;
}

/* How often the word of this place stands. */
static inline int64_t weight_at(const learner *all, uint64_t place) {
    return all->weight[all->heft[place]];
}

/* Put one more place into a list, which has room for it. */
static inline void put_place(learner *all, uint32_t head, uint64_t place) {
    all->arena[head + 2 + all->arena[head + 1]++] = (uint32_t)place;
}

static inline int is_learned(const learner *all, int64_t id) {
    return id >= all->rule.first_id;
}

static int64_t living_tokens(const learner *all) {
    return all->told.next_id - all->rule.first_id - all->told.dead;
}
