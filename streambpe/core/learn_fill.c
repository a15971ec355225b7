/* Counting all pairs, and keeping the best of them. See learn.h. Pairs are counted in a table that takes a third of
   the room. If they do not fit, they are counted in several sweeps, each for a part of them by their hash. Pairs that
   count at least the floor are kept. Then the table goes, and their places are dealt out to them. About 30 ns per
   place. */

enum { LEAST_SLOTS = 1 << 9, COUNTED_AHEAD = 16, LEAST_HOT = 1 << 16, FEW_PLACES = 1 << 20, MOST_HOT = 1 << 20 };

typedef struct {
    uint64_t key;
    int64_t n;
    uint64_t places;
} counted_pair;

HASH(counted_pairs, counted_pair, mixed)

typedef struct { /* a pair at a place, before it is counted */
    uint64_t key;
    int64_t n;
} waiting_pair;

typedef struct {
    counted_pairs table;
    uint64_t slots; /* at most */
    counted_pair *kept;
    uint64_t room, many; /* of `kept` */
    int64_t floor, best;
    uint64_t fewest, most; /* how many become hot at least and, if ties allow it, at most */
    int64_t at_most;         /* all that count so much become hot */
} counting;

/* Close the gaps that merges left, and drop words of one token. With splits nothing moves, as parts need the places. */
static void compact(learner *all) {
    uint64_t to = 1, words = 0, begin = 1; /* of the word that is being written */
    if (all->rule.splits)
        return;
    for (uint64_t at = 1; at < all->places;) {
        int32_t id = all->token[at];
        all->token[to] = id;
        all->heft[to++] = all->heft[at];
        at += id == SEPARATOR ? 1 : width_at(all, at);
        if (id != SEPARATOR)
            continue;
        if (to - begin < 3 && !all->rule.keeps) {
            to = begin;
        } else {
            begin = to;
            words++;
        }
    }
    all->places = to;
    all->words = words;
    /* what is no longer needed goes back where that is worth a copy */
    if (to < all->room - all->room / 4) {
        int32_t *token = realloc(all->token, to * sizeof *token), *heft = realloc(all->heft, to * sizeof *heft);
        all->token = token ? token : all->token;
        all->heft = heft ? heft : all->heft;
        all->budget.bytes -= (all->room - to) * (sizeof *token + sizeof *heft);
        all->room = to;
    }
}

/* ------------------------------------------------------------------ counting */

/* One place of a pair; 0 if the table is full. */
static inline int count_one(learner *all, counting *now, waiting_pair one) {
    counted_pair *pair = counted_pairs_at(&now->table, one.key);
    if (!pair->key) {
        if (counted_pairs_full(&now->table) && now->table.mask + 1 >= now->slots)
            return 0;
        if (!(pair = counted_pairs_put(&now->table, &all->budget, one.key)))
            return 0;
    }
    pair->places++;
    pair->n += one.n;
    return 1;
}

/* Count the pairs that belong to this part by their hash. Each waits a little while its slot is fetched. 0: the table
   is full. */
static int count_part(learner *all, counting *now, uint64_t part, uint64_t parts) {
    waiting_pair ahead[COUNTED_AHEAD];
    uint64_t seen = 0;
    int32_t left = SEPARATOR;
    const int dense = !all->rule.splits; /* `compact` closed the gaps */
    int run = 0;                         /* the last pair was of equal tokens, and counted */
    memset(now->table.slots, 0, (now->table.mask + 1) * sizeof *now->table.slots);
    now->table.used = 0;
    for (uint64_t at = 1; at < all->places;) {
        int32_t right = all->token[at];
        run = left == right && !run;
        if (left >= 0 && right >= 0) {
            uint64_t key = pair_key(left, right);
            if (part_of(key, parts) == part) {
                waiting_pair *next = ahead + seen % COUNTED_AHEAD;
                if (seen++ >= COUNTED_AHEAD && !count_one(all, now, *next))
                    return 0;
                counted_pairs_soon(&now->table, key);
                *next = (waiting_pair){key, all->rule.disjoint && left == right && !run ? 0 : weight_at(all, at)};
            }
        }
        left = right;
        at += right < 0 || dense ? 1 : width_at(all, at);
    }
    for (uint64_t i = 0; i < COUNTED_AHEAD && i < seen; i++)
        if (!count_one(all, now, ahead[i]))
            return 0;
    all->told.looked += (int64_t)all->places;
    return 1;
}

static inline int counts_more(const void *context, const counted_pair *a, const counted_pair *b) {
    return a->n != b->n ? a->n > b->n : a->key < b->key;
}

SORT(sort_counted, counted_pair, counts_more)

/* Keep only the best half, and raise the floor above what falls out. 0 if all kept pairs tie, if fewer than `fewest`
   would be left, or if pairs that count `at_most` would fall out. */
static int raise_floor(counting *now) {
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
    if (cut < now->fewest || now->kept[cut].n >= now->at_most)
        return 0;
    if (now->kept[cut].n >= now->floor)
        now->floor = now->kept[cut].n + 1;
    now->many = cut;
    return 1;
}

/* What a pair has to count to become hot, if it is not needed otherwise: a share of the best count. In a small corpus all
   pairs are hot, so that table pair_counts has all of them. */
static int64_t lowest_hot(const learner *all, const counting *now) {
    int64_t share = all->rule.most_hot || all->places > FEW_PLACES ? now->best / all->rule.ratio : 0;
    return share < now->at_most ? share : now->at_most;
}

/* Add the pairs of the table that count at least the floor to those that are kept; 0 if there is no room. */
static int keep_best(learner *all, counting *now) {
    for (uint64_t i = 0; i <= now->table.mask; i++) {
        const counted_pair *pair = now->table.slots + i;
        if (!pair->key || pair->n < now->floor || is_banned(all, pair->key) ||
            is_forbidden(all, left_of(pair->key), right_of(pair->key)))
            continue;
        if (pair->n > now->best) {
            now->best = pair->n;
            if (now->fewest == 1 && lowest_hot(all, now) > now->floor)
                now->floor = lowest_hot(all, now);
        }
        if (now->many == now->room && !raise_floor(now) &&
            !budget_room(&all->budget, &now->kept, &now->room, now->many + 1, sizeof *now->kept))
            return 0;
        if (pair->n >= now->floor)
            now->kept[now->many++] = *pair;
    }
    return 1;
}

/* Keep all pairs that count at least the floor, best first; 0: `why` says why not. */
static int count_all(learner *all, counting *now) {
    uint64_t room = budget_left(&all->budget), parts = 1;
    now->slots = LEAST_SLOTS;
    while (now->slots < all->places * 2 && now->slots * 2 * sizeof *now->table.slots <= room / 3)
        now->slots *= 2;
    uint64_t size = now->slots, wanted = all->distinct + all->distinct / 2 + 1024;
    while (size > LEAST_SLOTS && size / 2 > wanted)
        size /= 2;
    now->room = room / 6 / sizeof *now->kept;
    if (now->room > now->most + now->most / 4)
        now->room = now->most + now->most / 4;
    if (now->room < 8)
        now->room = 8;
    if (now->room > all->places + 1)
        now->room = all->places + 1;
    now->kept = budget_take(&all->budget, now->room * sizeof *now->kept);
    if (!now->kept || !counted_pairs_size(&now->table, &all->budget, size))
        return 0;
    uint64_t used = 0;
    int64_t least = now->floor;
    for (uint64_t part = 0; part < parts; part++) {
        if (!count_part(all, now, part, parts)) {
            if (now->table.mask + 1 < now->slots || (parts *= 2) > 1 << 20) {
                all->budget.why = CORE_FULL;
                return 0;
            }
            now->many = used = 0;
            now->floor = least;
            part = (uint64_t)-1;
            continue;
        }
        used += now->table.used;
        if (!keep_best(all, now))
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
static uint64_t choose_hot(learner *all, const counting *now, uint64_t stands) {
    uint64_t room = budget_left(&all->budget), places = stands + 64, many = 0;
    int64_t low = lowest_hot(all, now);
    while (many < now->many) {
        int64_t n = now->kept[many].n;
        uint64_t stop = many;
        for (; stop < now->many && now->kept[stop].n == n; stop++) /* pairs that tie become hot together */
            places += now->kept[stop].places + 2;
        uint64_t needed = slots_for(stop) * sizeof(hot_pair) + stop * sizeof(heap_entry) + places * sizeof(uint32_t);
        int must = many < now->fewest || n >= now->at_most;
        if (needed > room - room / 16 || places > UINT32_MAX) /* places are numbered in 32 bits */
            break;
        if (!must && (n < low || stop > now->most || needed > room / 2))
            break;
        many = stop;
    }
    if (many < now->many && (many < now->fewest || now->kept[many].n >= now->at_most || !many)) {
        all->budget.why = CORE_FULL;
        return 0;
    }
    return many;
}

static int deal_out(learner *all, const counting *now, uint64_t many, uint64_t stands) {
    uint64_t places = stands + 64;
    for (uint64_t i = 0; i < many; i++)
        places += now->kept[i].places + 2;
    uint64_t room = budget_left(&all->budget);
    uint64_t tables = slots_for(many) * sizeof(hot_pair) + many * sizeof(heap_entry);
    /* room to grow: pages that are not touched take no memory */
    uint64_t spare = room > tables + places * 4 ? (room - tables - places * 4) / 4 : 0;
    all->arena_room = places + (spare / 2 < places + (1 << 16) ? spare / 2 : places + (1 << 16));
    if (all->arena_room > UINT32_MAX)
        all->arena_room = places > UINT32_MAX ? places : UINT32_MAX;
    if (!(all->arena = budget_take(&all->budget, all->arena_room * sizeof *all->arena))) {
        all->arena_room = 0;
        return 0;
    }
    all->arena_used = 1; /* 0 stands for no list */
    if (!hot_pairs_size(&all->hot, &all->budget, slots_for(many)) ||
        !budget_room(&all->budget, &all->heap, &all->heap_room, many, sizeof *all->heap))
        return 0;
    for (uint64_t i = 0; i < many; i++) {
        uint32_t head = learn_stretch(all, now->kept[i].places);
        hot_pair *slot = head ? hot_pairs_put(&all->hot, &all->budget, now->kept[i].key) : NULL;
        if (!slot)
            return 0;
        *slot = (hot_pair){now->kept[i].key, now->kept[i].n, head, 0};
        all->heap[all->heaped++] = (heap_entry){now->kept[i].n, now->kept[i].key};
    }
    learn_heapify(all);
    return !all->rule.splits || learn_stretch_stands(all);
}

static void place_all(learner *all) {
    const int dense = !all->rule.splits;
    uint64_t before = 0;
    for (uint64_t at = 1; at < all->places;) {
        int32_t id = all->token[at];
        if (id < 0) {
            before = 0;
            at++;
            continue;
        }
        if (before) {
            const hot_pair *slot = hot_pairs_find(&all->hot, pair_key(all->token[before], id));
            if (slot && slot->head)
                put_place(all, slot->head, before);
        }
        if (!dense && all->tokens[id].stands.head)
            put_place(all, all->tokens[id].stands.head, at);
        before = at;
        at += dense ? 1 : width_at(all, at);
    }
    all->told.looked += (int64_t)all->places;
}

/* Count all pairs and make those hot that count enough: at least `fewest` pairs if there are so many, and all that
   count `at_most` or more. 0: `why` says why not. */
static int learn_fill(learner *all, uint64_t fewest, int64_t at_most) {
    counting now = {.fewest = fewest, .at_most = at_most};
    learn_drop_index(all);
    compact(all);
    uint64_t stands = 0;
    now.floor = at_most < all->rule.at_least ? at_most : all->rule.at_least;
    int64_t wanted = all->enough - living_tokens(all); /* about as many pairs are merged as become hot */
    now.most = all->rule.most_hot;
    if (!now.most)
        now.most = wanted < LEAST_HOT / 2 ? LEAST_HOT : wanted < MOST_HOT / 2 ? 2 * (uint64_t)wanted : MOST_HOT;
    int done = count_all(all, &now);
    budget_give(&all->budget, now.table.slots, (now.table.mask + 1) * sizeof *now.table.slots);
    if (done && all->rule.splits)
        stands = learn_count_stands(all);
    uint64_t many = done ? choose_hot(all, &now, stands) : 0;
    done = done && (many || !now.many) && deal_out(all, &now, many, stands);
    all->floor = many < now.many && now.kept[many].n >= now.floor ? now.kept[many].n + 1 : now.floor;
    budget_give(&all->budget, now.kept, now.room * sizeof *now.kept);
    if (all->rule.splits)
        for (int64_t id = 0; id < all->told.next_id; id++)
            all->in_front[id].places = 0;
    if (!done) {
        learn_drop_index(all);
        return 0;
    }
    place_all(all);
    all->filled = 1;
    all->told.refills++;
    return 1;
}
