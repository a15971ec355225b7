/* Counting all pairs, and keeping the best of them. See learn.h. Pairs are counted in a table that takes a third of
   the room. If they do not fit, they are counted in several sweeps, each for a part of them by their hash. Pairs that
   count at least the floor are kept. Then the table goes, and their places are dealt out to them. About 30 ns per
   place. */
#include "learn.h"
#include "sort.h"

#include <stdlib.h>

enum { LEAST_SLOTS = 1 << 9, AHEAD = 16 };

typedef struct {
    uint64_t key;
    int64_t n;
    uint64_t places;
} counted;

typedef struct { /* a pair at a place, before it is counted */
    uint64_t key, hash;
    int64_t n;
} waiting;

typedef struct {
    counted *slots, *kept;
    uint64_t mask, used, most; /* slots at most */
    uint64_t room, many;       /* of `kept` */
    int64_t floor, best;
} counting;

/* Close the gaps that merges left, and drop words of one token. With splits nothing moves, as parts need the places. */
static void compact(learner *all) {
    uint64_t to = 1, words = 0, begin = 1; /* of the word that is being written */
    if (all->splits)
        return;
    for (uint64_t at = 1; at < all->places;) {
        int32_t id = all->token[at];
        if (id != SEPARATOR) {
            uint32_t width = width_at(all, at);
            all->token[to] = id;
            all->word[to++] = (int32_t)words;
            at += width;
            continue;
        }
        if (to - begin < 2 && !all->keeps) {
            to = begin;
        } else {
            all->weight[words] = all->weight[all->word[at]];
            all->word[to] = (int32_t)words++;
            all->token[to++] = SEPARATOR;
            begin = to;
        }
        at++;
    }
    all->places = to;
    all->words = words;
    /* what is no longer needed goes back where that is worth a copy */
    if (to < all->room - all->room / 4) {
        int32_t *token = realloc(all->token, to * sizeof *token), *word = realloc(all->word, to * sizeof *word);
        all->token = token ? token : all->token;
        all->word = word ? word : all->word;
        all->bytes -= (all->room - to) * (sizeof *token + sizeof *word);
        all->room = to;
    }
}

/* ------------------------------------------------------------------ counting */

static void empty(counted *slots, uint64_t size) {
    for (uint64_t i = 0; i < size; i++)
        slots[i].key = NO_PAIR;
}

/* The slot of a pair in a table, free if it is not there. */
static counted *slot_in(counted *slots, uint64_t mask, uint64_t key, uint64_t hash) {
    uint64_t at = hash & mask;
    while (slots[at].key != key && slots[at].key != NO_PAIR)
        at = (at + 1) & mask;
    return slots + at;
}

/* Twice as many slots; 0 if there is no room for them. */
static int grow(learner *all, counting *now) {
    uint64_t old = now->mask + 1, size = old * 2;
    counted *slots = size <= now->most ? learn_take(all, size * sizeof *slots) : NULL;
    if (!slots)
        return 0;
    empty(slots, size);
    for (uint64_t i = 0; i < old; i++)
        if (now->slots[i].key != NO_PAIR)
            *slot_in(slots, size - 1, now->slots[i].key, mixed(now->slots[i].key)) = now->slots[i];
    learn_give(all, now->slots, old * sizeof *slots);
    now->slots = slots;
    now->mask = size - 1;
    return 1;
}

/* One place of a pair; 0 if the table is full. */
static int count_one(learner *all, counting *now, waiting one) {
    counted *pair = slot_in(now->slots, now->mask, one.key, one.hash);
    if (pair->key == NO_PAIR) {
        if ((now->used + 1) * 4 > now->mask * 3)
            return grow(all, now) && count_one(all, now, one);
        now->used++;
        *pair = (counted){one.key, 0, 0};
    }
    pair->places++;
    pair->n += one.n;
    return 1;
}

/* Count the pairs that belong to this part by their hash. Each waits a little while its slot is fetched. 0: the table
   is full. */
static int count_part(learner *all, counting *now, uint64_t part, uint64_t parts) {
    waiting ahead[AHEAD];
    uint64_t seen = 0;
    int32_t left = SEPARATOR;
    int run = 0; /* the last pair was of equal tokens, and counted */
    empty(now->slots, now->mask + 1);
    now->used = 0;
    for (uint64_t at = 1; at < all->places;) {
        int32_t right = all->token[at];
        run = left == right && !run;
        if (left >= 0 && right >= 0) {
            uint64_t key = pair_key(left, right), hash = mixed(key);
            if ((hash >> 40 & (parts - 1)) == part) {
                waiting *next = ahead + seen % AHEAD;
                if (seen++ >= AHEAD && !count_one(all, now, *next))
                    return 0;
                SOON(now->slots + (hash & now->mask));
                *next = (waiting){key, hash, all->disjoint && left == right && !run ? 0 : all->weight[all->word[at]]};
            }
        }
        left = right;
        at += right < 0 ? 1 : width_at(all, at);
    }
    for (uint64_t i = 0; i < AHEAD && i < seen; i++)
        if (!count_one(all, now, ahead[i]))
            return 0;
    all->looked += (int64_t)all->places;
    return 1;
}

static int is_better(const uint8_t *context, const counted *a, const counted *b) {
    (void)context;
    return a->n != b->n ? a->n > b->n : a->key < b->key;
}

SORT(sort_counted, counted, is_better)

static int by_key(const void *one, const void *other) {
    uint64_t a = *(const uint64_t *)one, b = *(const uint64_t *)other;
    return a < b ? -1 : a > b;
}

/* Whether the pair was refused before pairs were counted the last time. One refused later has the flag PAIR_REFUSED. */
int learn_is_banned(const learner *all, uint64_t key) {
    return all->sorted && bsearch(&key, all->banned, all->sorted, sizeof key, by_key) != NULL;
}

/* Keep only the best half, and raise the floor above what falls out. 0 if all kept pairs tie, if fewer than `fewest`
   would be left, or if pairs that count `at_most` would fall out. */
static int raise_floor(counting *now, uint64_t fewest, int64_t at_most) {
    sort_counted(NULL, now->kept, now->many, depth_for(now->many));
    uint64_t cut = now->many / 2;
    while (cut && now->kept[cut - 1].n == now->kept[cut].n)
        cut--;
    if (!cut) {
        cut = now->many / 2;
        while (cut < now->many && now->kept[cut].n == now->kept[0].n)
            cut++;
        if (cut == now->many)
            return 0;
    }
    if (cut < fewest || now->kept[cut].n >= at_most)
        return 0;
    now->floor = now->kept[cut].n + 1;
    now->many = cut;
    return 1;
}

/* Add the pairs of the table that count at least the floor to those that are kept; 0 if there is no room. */
static int keep(learner *all, counting *now, int64_t at_most, uint64_t fewest) {
    for (uint64_t i = 0; i <= now->mask; i++) {
        const counted *pair = now->slots + i;
        if (pair->key == NO_PAIR || pair->n < now->floor || learn_is_banned(all, pair->key) ||
            is_forbidden(all, (int32_t)(pair->key >> 32), (int32_t)pair->key))
            continue;
        if (pair->n > now->best)
            now->best = pair->n;
        if (now->many == now->room && !raise_floor(now, fewest, at_most) &&
            !learn_room(all, &now->kept, &now->room, now->many + 1, sizeof *now->kept))
            return 0;
        if (pair->n >= now->floor)
            now->kept[now->many++] = *pair;
    }
    return 1;
}

/* Keep all pairs that count at least the floor, best first; 0: `why` says why not. */
static int count_all(learner *all, counting *now, uint64_t fewest, int64_t at_most) {
    uint64_t room = all->limit > all->bytes ? all->limit - all->bytes : 0, parts = 1;
    now->most = LEAST_SLOTS;
    while (now->most < all->places * 2 && now->most * 2 * sizeof *now->slots <= room / 3)
        now->most *= 2;
    uint64_t size = now->most, wanted = all->distinct + all->distinct / 2 + 1024;
    while (size > LEAST_SLOTS && size / 2 > wanted)
        size /= 2;
    now->room = room / 6 / sizeof *now->kept;
    if (now->room > all->most_hot + all->most_hot / 4)
        now->room = all->most_hot + all->most_hot / 4;
    if (now->room < 8)
        now->room = 8;
    if (now->room > all->places + 1)
        now->room = all->places + 1;
    now->mask = size - 1;
    now->slots = learn_take(all, size * sizeof *now->slots);
    now->kept = learn_take(all, now->room * sizeof *now->kept);
    if (!now->slots || !now->kept)
        return 0;
    uint64_t used = 0;
    int64_t least = now->floor;
    for (uint64_t part = 0; part < parts; part++) {
        if (!count_part(all, now, part, parts)) {
            if (now->mask + 1 < now->most || (parts *= 2) > 1 << 20) {
                all->why = CORE_FULL;
                return 0;
            }
            now->many = used = 0;
            now->floor = least;
            part = (uint64_t)-1;
            continue;
        }
        used += now->used;
        if (!keep(all, now, at_most, fewest))
            return 0;
    }
    all->distinct = used;
    sort_counted(NULL, now->kept, now->many, depth_for(now->many));
    return 1;
}

/* ------------------------------------------------------------------ choosing */

static uint64_t slots_for(uint64_t pairs) {
    uint64_t size = 256;
    while (size * 2 < pairs * 3 + 64)
        size *= 2;
    return size;
}

/* How many of the kept pairs become hot: down to a share of the best count, as far as they fit. 0: none, or no room. */
static uint64_t choose(learner *all, const counting *now, uint64_t stands, uint64_t fewest, int64_t at_most) {
    uint64_t room = all->limit > all->bytes ? all->limit - all->bytes : 0;
    int64_t low = now->best / all->ratio < at_most ? now->best / all->ratio : at_most;
    uint64_t places = stands + 64, many = 0;
    while (many < now->many) {
        int64_t n = now->kept[many].n;
        uint64_t stop = many;
        for (; stop < now->many && now->kept[stop].n == n; stop++) /* pairs that tie become hot together */
            places += now->kept[stop].places + 2;
        uint64_t needed = slots_for(stop) * sizeof(pair_slot) + stop * sizeof(heap_entry) + places * sizeof(uint32_t);
        int must = many < fewest || n >= at_most;
        if (needed > room - room / 16 || places > UINT32_MAX) /* places are numbered in 32 bits */
            break;
        if (!must && (n < low || stop > all->most_hot || needed > room / 2))
            break;
        many = stop;
    }
    if (many < now->many && (many < fewest || now->kept[many].n >= at_most || !many)) {
        all->why = CORE_FULL;
        return 0;
    }
    return many;
}

static int deal_out(learner *all, const counting *now, uint64_t many, uint64_t stands) {
    uint64_t places = stands + 64;
    for (uint64_t i = 0; i < many; i++)
        places += now->kept[i].places + 2;
    uint64_t room = all->limit > all->bytes ? all->limit - all->bytes : 0;
    uint64_t tables = slots_for(many) * sizeof(pair_slot) + many * sizeof(heap_entry);
    /* room to grow: pages that are not touched take no memory */
    uint64_t spare = room > tables + places * 4 ? (room - tables - places * 4) / 4 : 0;
    all->arena_room = places + (spare / 2 < places + (1 << 16) ? spare / 2 : places + (1 << 16));
    if (all->arena_room > UINT32_MAX)
        all->arena_room = places > UINT32_MAX ? places : UINT32_MAX;
    if (!(all->arena = learn_take(all, all->arena_room * sizeof *all->arena))) {
        all->arena_room = 0;
        return 0;
    }
    all->arena_used = 1; /* 0 stands for no list */
    uint64_t size = slots_for(many);
    if (!(all->slots = learn_take(all, size * sizeof *all->slots)))
        return 0;
    all->mask = size - 1;
    for (uint64_t i = 0; i < size; i++)
        all->slots[i].key = NO_PAIR;
    if (!learn_room(all, &all->heap, &all->heap_room, many, sizeof *all->heap))
        return 0;
    for (uint64_t i = 0; i < many; i++) {
        uint32_t head = learn_stretch(all, now->kept[i].places);
        pair_slot *slot = head ? learn_put(all, now->kept[i].key) : NULL;
        if (!slot)
            return 0;
        *slot = (pair_slot){now->kept[i].key, now->kept[i].n, head, 0};
        all->heap[all->heaped++] = (heap_entry){now->kept[i].n, now->kept[i].key};
    }
    learn_heapify(all);
    return !all->splits || learn_stretch_stands(all);
}

static void place_all(learner *all) {
    uint64_t before = 0;
    for (uint64_t at = 1; at < all->places;) {
        int32_t id = all->token[at];
        if (id < 0) {
            before = 0;
            at++;
            continue;
        }
        if (before) {
            const pair_slot *slot = learn_find(all, pair_key(all->token[before], id));
            if (slot && slot->head)
                put_place(all, slot->head, before);
        }
        if (all->splits && all->stands[id].head)
            put_place(all, all->stands[id].head, at);
        before = at;
        at += width_at(all, at);
    }
    all->looked += (int64_t)all->places;
}

/* Count all pairs and make those hot that count enough: at least `fewest` pairs if there are so many, and all that
   count `at_most` or more. 0: `why` says why not. */
int learn_fill(learner *all, uint64_t fewest, int64_t at_most) {
    counting now = {0};
    learn_drop_index(all);
    compact(all);
    if (all->bans)
        qsort(all->banned, all->bans, sizeof *all->banned, by_key);
    all->sorted = all->bans;
    uint64_t stands = 0;
    now.floor = at_most < all->at_least ? at_most : all->at_least;
    int done = count_all(all, &now, fewest, at_most);
    learn_give(all, now.slots, (now.mask + 1) * sizeof *now.slots);
    if (done && all->splits)
        stands = learn_count_stands(all);
    uint64_t many = done ? choose(all, &now, stands, fewest, at_most) : 0;
    done = done && (many || !now.many) && deal_out(all, &now, many, stands);
    all->floor = many < now.many ? now.kept[many].n + 1 : now.floor;
    learn_give(all, now.kept, now.room * sizeof *now.kept);
    if (all->splits)
        for (int64_t id = 0; id < all->next_id; id++)
            all->in_front[id].places = 0;
    if (!done) {
        learn_drop_index(all);
        return 0;
    }
    place_all(all);
    all->filled = 1;
    all->refills++;
    return 1;
}
