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
#ifndef STREAMBPE_LEARN_H
#define STREAMBPE_LEARN_H

#include "core.h"

#include <string.h>

enum { PAIR_BOUND = 1, PAIR_REFUSED = 2, PAIR_ALLOWED = 4 };
enum { TIES_IDS = 0, TIES_BYTES = 1, TIES_PLACES = 2 };
enum { SEPARATOR = -1, COVERED = INT32_MIN };
/* what a merge makes: a token that never was, one that was deleted and comes back, or one that is alive already */
enum { TOKEN_FRESH = 0, TOKEN_BACK = 1, TOKEN_LIVING = 2 };
enum { EVENT_MERGE = 0, EVENT_DELETE = 1, EVENT_VETO = 2 };
/* why `learner_learn` returned */
enum { LEARN_DONE = 0, LEARN_NONE_LEFT = 1, LEARN_ASK = 2, LEARN_OUT = 3, LEARN_LIVING = 4, LEARN_UNFIT = 5 };

#define NO_PAIR (~(uint64_t)0)
#define TOKEN_LIST ((uint64_t)1 << 63) /* in `added`: a place of a token, not of a pair */
#define MERGE_WORDS 5                  /* numbers that a merge or a veto takes in the caller's buffer */

typedef struct {
    uint64_t key; /* left << 32 | right */
    int64_t n;
    uint32_t head; /* its list of places: a stretch of the arena, [next stretch, how many, places...]; 0: none */
    uint32_t flags;
} pair_slot;

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

typedef struct { /* byte strings by number, and the number of each */
    uint8_t *text;
    uint64_t *ends;
    int32_t *slots; /* -1: free */
    uint64_t mask, text_room, room;
    int64_t many;
} spellings;

typedef struct {
    /* the rule */
    int ties, disjoint, asks, walk, after;
    int lives;  /* tokens may be deleted */
    int splits; /* and split here, not by the caller: a token has a place for each base symbol, and nothing moves */
    int keeps;  /* words are chains of a stage: those of one token stay, though they have no pair */
    int64_t numerator, denominator, longest, at_least;
    /* words */
    int32_t *token, *word;
    int64_t *weight;
    uint64_t places, room, words, words_room;
    /* tokens */
    spellings spelled, blocked;
    int64_t *length, *order, *count;
    int32_t *size; /* in base symbols, with deletions */
    uint64_t *first_pair;
    token_places *stands; /* with splits: where a token may stand */
    uint8_t *alive, *kind;
    tally *in_front, *behind;
    int32_t *touched;
    uint64_t tokens_room;
    int64_t first_id, next_id, dead;
    /* kinds of tokens: whether two may join, and what they make (model/whole_characters.py) */
    int64_t kinds;
    uint8_t *joins, *becomes;
    /* for ties by place in one order of words and superwords, see train/superwords/interleave.py */
    int64_t *falling, steps, place, born;
    /* pairs */
    pair_slot *slots;
    uint64_t mask, used;
    uint32_t *arena;
    uint64_t arena_used, arena_room;
    heap_entry *heap;
    uint64_t heaped, heap_room;
    added_pair *added;
    uint64_t adds, added_room;
    uint64_t *banned, bans, banned_room, sorted; /* refused pairs; the first `sorted` of them are in order */
    int64_t floor, ratio; /* when pairs are counted, the floor is the best count divided by the ratio, if that fits */
    uint64_t most_hot;    /* how many pairs become hot at most, if ties allow it */
    int filled;
    int bases;         /* with splits: `stands` has lists of base symbols too */
    uint64_t distinct; /* how many distinct pairs there were when they were last counted */
    /* the deletions told last, if their tokens still stand in the words */
    int32_t *parts[2];
    int64_t pending_id[2], many_parts[2];
    uint64_t parts_room[2];
    int pending;
    /* memory, and what was done so far */
    uint64_t bytes, limit, most_bytes;
    int64_t looked, executed, refills, made; /* made: tokens by weight, two of which each merge made one */
    int why;
} learner;

/* learn_pairs.c. Where memory is refused, the result is NULL or 0, and `why` says why. */
void *learn_take(learner *all, uint64_t bytes);
void learn_give(learner *all, void *memory, uint64_t bytes);
int learn_resize(learner *all, void *array, uint64_t old, uint64_t size, uint64_t item);
int learn_room(learner *all, void *array, uint64_t *room, uint64_t needed, uint64_t item);
void learn_drop_index(learner *all);
pair_slot *learn_find(const learner *all, uint64_t key);
pair_slot *learn_put(learner *all, uint64_t key);
uint32_t learn_stretch(learner *all, uint64_t many);
int learn_push(learner *all, int64_t n, uint64_t key);
void learn_heapify(learner *all);
pair_slot *learn_best(learner *all);
void learn_pop(learner *all);
uint32_t learn_gather(learner *all, uint32_t head);
void learn_sort_places(uint32_t *places, uint64_t many);

/* learn_tokens.c */
int spell_add(learner *all, spellings *known, const uint8_t *text, uint64_t length);
int64_t spell_find(const spellings *known, const uint8_t *a, uint64_t a_size, const uint8_t *b, uint64_t b_size);
int64_t learn_known(const learner *all, int32_t left, int32_t right, const spellings *in);
int learn_tokens_room(learner *all, int64_t needed);
int learn_bear(learner *all, int32_t left, int32_t right);
int learn_bear_room(learner *all, const int64_t *pairs, int64_t many);
int learn_tie(const learner *all, uint64_t one, uint64_t other);
int learn_placed(learner *all, int32_t id, int64_t n, int fresh);
int64_t learn_parts(learner *all, int32_t id, int which);

/* learn_fill.c */
int learn_fill(learner *all, uint64_t fewest, int64_t at_most);
int learn_is_banned(const learner *all, uint64_t key);

/* learn_stands.c */
uint64_t learn_count_stands(learner *all);
int learn_stretch_stands(learner *all);
int learn_count_bound(learner *all, pair_slot *slot);
int learn_count_bounds(learner *all);

/* learn_merge.c */
int64_t learn_merge(learner *all, uint64_t key, int32_t id, int known, uint32_t head);
int learn_split(learner *all, int32_t id, const int32_t *parts, int64_t many);

static inline uint64_t pair_key(int32_t left, int32_t right) {
    return (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
}

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
    if (all->longest && all->length[left] + all->length[right] > all->longest)
        return 1;
    return all->kinds && !all->joins[all->kind[left] * all->kinds + all->kind[right]];
}

/* Put one more place into a list, which has room for it. */
static inline void put_place(learner *all, uint32_t head, uint64_t place) {
    all->arena[head + 2 + all->arena[head + 1]++] = (uint32_t)place;
}

static inline int is_learned(const learner *all, int64_t id) {
    return id >= all->first_id;
}

#endif
