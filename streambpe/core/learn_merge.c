/* Merging a pair at all its places, splitting a deleted token, and what both do to the counts of pairs. See learn.h. */

enum { PLACES_AHEAD = 16 }; /* a place is fetched so many places before it is needed */

static inline void lose_count(learner *all, uint64_t key, int64_t n) {
    hot_pair *slot = hot_pairs_find(&all->hot, key);
    if (slot && !(slot->flags & PAIR_REFUSED))
        slot->n -= n;
}

/* Note that a pair stands at one more place and counts n more; `take_noted` takes it in. Without room, the index goes. */
static void note_place(learner *all, uint64_t key, uint64_t place, int64_t n) {
    if (!budget_room(&all->budget, &all->added, &all->added_room, all->adds + 1, sizeof *all->added)) {
        all->filled = 0;
        return;
    }
    all->added[all->adds++] = (added_pair){key, n, (uint32_t)place};
}

/* ------------------------------------------------------------------ equal neighbours, each counted once (disjoint) */

/* How many equal tokens stand in the row that ends with the token at `place`, or (run_on) begins with it. */
static uint64_t run_back(const learner *all, uint64_t place) {
    uint64_t run = 1;
    int32_t id = all->token[place];
    while (all->token[place = place_before(all, place)] == id)
        run++;
    return run;
}

static uint64_t run_on(const learner *all, uint64_t place) {
    uint64_t run = 1;
    int32_t id = all->token[place];
    while (all->token[place += width_at(all, place)] == id)
        run++;
    return run;
}

/* Take away, or add, what pairs of equal neighbours count in the words of these places; `only`: of this token, -1: of
   all. For the rare changes that can join two runs: a split, and a merge that makes a token that is alive already. */
static void recount_runs(learner *all, const uint32_t *places, uint32_t many, int32_t only, int adding) {
    uint64_t end = 0;
    for (uint32_t i = 0; i < many; i++) {
        if (places[i] < end)
            continue; /* in a word that was looked at already */
        uint64_t at = places[i];
        int64_t n = weight_at(all, at);
        while (all->token[place_before(all, at)] != SEPARATOR)
            at = place_before(all, at);
        int run = 0;
        while (all->token[at] != SEPARATOR) {
            uint64_t next = at + width_at(all, at);
            int32_t id = all->token[at];
            run = all->token[next] == id && !run;
            if (all->token[next] == id && (only < 0 || id == only)) {
                if (adding)
                    note_place(all, pair_key(id, id), at, run ? n : 0);
                else if (run)
                    lose_count(all, pair_key(id, id), n);
            }
            at = next;
        }
        end = at;
    }
}

/* ------------------------------------------------------------------ counts that rise */

static int by_pair_and_place(const void *one, const void *other) {
    const added_pair *a = one, *b = other;
    if (a->key != b->key)
        return a->key < b->key ? -1 : 1;
    return a->place < b->place ? -1 : a->place > b->place;
}

/* Put one more stretch of places in front of a list; 0 if there is no room. */
static int stand_too(learner *all, uint32_t *list, const added_pair *rows, uint64_t many) {
    uint32_t head = learn_stretch(all, many);
    if (!head)
        return 0;
    for (uint64_t i = 0; i < many; i++)
        all->arena[head + 2 + i] = rows[i].place;
    all->arena[head + 1] = (uint32_t)many;
    all->arena[head] = *list;
    *list = head;
    return 1;
}

static int rise_one(learner *all, const added_pair *rows, uint64_t many) {
    uint64_t key = rows->key;
    int32_t left = left_of(key), right = right_of(key);
    if (key & TOKEN_LIST) {
        all->tokens[right].stands.many += (uint32_t)many;
        return stand_too(all, &all->tokens[right].stands.head, rows, many);
    }
    int64_t sum = 0;
    for (uint64_t i = 0; i < many; i++)
        sum += rows[i].n;
    hot_pair *slot = hot_pairs_find(&all->hot, key);
    if (is_forbidden(all, left, right) || (slot ? slot->flags & PAIR_REFUSED : (uint32_t)is_banned(all, key)))
        return 1;
    if ((slot && !(slot->flags & PAIR_BOUND)) || (!slot && all->floor <= 1)) {
        uint32_t list = slot ? slot->head : 0;
        if (!stand_too(all, &list, rows, many) || !(slot = hot_pairs_put(&all->hot, &all->budget, key)))
            return 0;
        slot->head = list;
    } else if (!slot) {
        if (!sum)
            return 1;
        if (!(slot = hot_pairs_put(&all->hot, &all->budget, key)))
            return 0;
        slot->flags = PAIR_BOUND;
        slot->n = all->floor - 1;
    }
    slot->n = slot->n > INT64_MAX - sum ? INT64_MAX : slot->n + sum;
    return learn_push(all, slot->n, key);
}

/* Take in the places and counts that `note_place` noted. */
static void take_noted(learner *all) {
    if (all->adds)
        qsort(all->added, all->adds, sizeof *all->added, by_pair_and_place);
    for (uint64_t i = 0, stop; i < all->adds && all->filled; i = stop) {
        for (stop = i + 1; stop < all->adds && all->added[stop].key == all->added[i].key; stop++) {
        }
        if (!rise_one(all, all->added + i, stop - i))
            all->filled = 0;
    }
    all->adds = 0;
}

/* ------------------------------------------------------------------ a merge */

static inline void count_born(learner *all, tally *one, int32_t touched, uint64_t *many, int64_t n) {
    if (!one->places++)
        all->touched[(*many)++] = touched;
    one->n += n;
}

/* Write the new token at all places where the pair still stands, from the left. The list keeps the places where the
   token was made. Returns how often that was, by weight. A token that stands nowhere else has its neighbours counted:
   `*touched` of them. For others, and in runs of equal tokens, pairs lose their counts here; else in bear_pairs. */
static int64_t rewrite_places(learner *all, uint64_t key, int32_t id, int known, uint32_t head, uint64_t *touched) {
    int32_t a = left_of(key), b = right_of(key);
    uint32_t *places = all->arena + head + 2, many = all->arena[head + 1], kept = 0;
    uint64_t end = 0; /* of the last token made */
    int64_t made = 0;
    int run = 0, loses = known == TOKEN_LIVING || all->rule.disjoint;
    for (uint64_t soon = 0; soon < (uint64_t)many + PLACES_AHEAD; soon++) {
        if (soon < many) {
            SOON(all->token + places[soon]);
            SOON(all->heft + places[soon]);
        }
        if (soon < PLACES_AHEAD)
            continue;
        uint64_t at = places[soon - PLACES_AHEAD];
        if (all->token[at] != a)
            continue;
        uint64_t second = at + width_at(all, at);
        if (all->token[second] != b)
            continue;
        uint64_t behind = second + width_at(all, second), before = place_before(all, at);
        int64_t n = weight_at(all, at);
        int32_t left = all->token[before], right = all->token[behind];
        /* if the last token made ends here, the pair across this border was lost when that token was made */
        if (loses && left >= 0 && at != end && !(left == a && a == b) &&
            !(all->rule.disjoint && left == a && run_back(all, at) & 1))
            lose_count(all, pair_key(left, a), n);
        if (loses && right >= 0 && !(right == b && a == b) &&
            !(all->rule.disjoint && right == b && run_on(all, second) & 1))
            lose_count(all, pair_key(b, right), n);
        if (known != TOKEN_LIVING) {
            int again = right == a && all->token[behind + width_at(all, behind)] == b; /* it is made behind this one too */
            run = again && !run;
            if (right >= 0)
                count_born(all, all->behind + (again ? id : right), again ? id : right, touched,
                           all->rule.disjoint && again && !run ? 0 : n);
            if (left >= 0 && at != end)
                count_born(all, all->in_front + left, ~left, touched, n);
        }
        all->token[second] = COVERED;
        put_token(all, at, id, (uint32_t)(behind - at));
        places[kept++] = (uint32_t)at;
        made += n;
        end = behind;
    }
    all->told.looked += many;
    all->told.executed += kept;
    all->arena[head + 1] = kept;
    return made;
}

/* A pair of the new token becomes hot if it counts enough. */
static int bear_pair(learner *all, uint64_t key, tally *one, int known) {
    if (is_forbidden(all, left_of(key), right_of(key)))
        return 1;
    if (known == TOKEN_BACK) { /* a pair that was hot in the token's earlier life stays hot */
        const hot_pair *slot = hot_pairs_find(&all->hot, key);
        if (slot ? slot->flags & PAIR_REFUSED : one->n < all->floor || is_banned(all, key))
            return 1;
    } else if (one->n < all->floor) {
        return 1;
    }
    uint32_t head = learn_stretch(all, one->places);
    hot_pair *slot = head ? hot_pairs_put(&all->hot, &all->budget, key) : NULL;
    if (!slot)
        return 0;
    *slot = (hot_pair){key, one->n, head, 0};
    one->head = head;
    return learn_push(all, one->n, key);
}

/* Pairs of a token that stands nowhere else, as they were counted: pairs of its parts lose as much, and the places of
   those that become hot are kept. */
static void bear_pairs(learner *all, uint64_t key, int32_t id, int known, uint32_t head, uint64_t touched) {
    uint32_t many = all->arena[head + 1], lists = 0; /* lists: above 0 if there is one */
    int32_t a = left_of(key), b = right_of(key);
    for (uint64_t i = 0; i < touched; i++) {
        int32_t other = all->touched[i];
        tally *one = other < 0 ? all->in_front + ~other : all->behind + other;
        if (!all->rule.disjoint)
            lose_count(all, other < 0 ? pair_key(~other, a) : pair_key(b, other == id ? a : other), one->n);
        if (all->filled && !bear_pair(all, other < 0 ? pair_key(~other, id) : pair_key(id, other), one, known))
            all->filled = 0;
        lists |= one->head;
    }
    const uint32_t *places = all->arena + head + 2;
    uint64_t end = 0;
    for (uint32_t i = 0; lists && i < many; i++) {
        uint64_t at = places[i], behind = at + width_at(all, at), before = place_before(all, at);
        int32_t left = all->token[before], right = all->token[behind];
        uint32_t list;
        if (right >= 0 && (list = all->behind[right].head))
            put_place(all, list, at);
        if (left >= 0 && at != end && (list = all->in_front[left].head))
            put_place(all, list, before);
        end = behind;
    }
    for (uint64_t i = 0; i < touched; i++)
        *(all->touched[i] < 0 ? all->in_front + ~all->touched[i] : all->behind + all->touched[i]) = (tally){0, 0, 0};
}

/* Add to the pairs of a token that was alive already what its new places count. */
static void add_pairs(learner *all, int32_t id, uint32_t head) {
    const uint32_t *places = all->arena + head + 2;
    uint64_t end = 0;
    for (uint32_t i = 0; i < all->arena[head + 1]; i++) {
        uint64_t at = places[i], behind = at + width_at(all, at), before = place_before(all, at);
        int64_t n = weight_at(all, at);
        int32_t left = all->token[before], right = all->token[behind];
        if (right >= 0 && !(all->rule.disjoint && right == id))
            note_place(all, pair_key(id, right), at, n);
        if (left >= 0 && at != end && !(all->rule.disjoint && left == id))
            note_place(all, pair_key(left, id), before, n);
        end = behind;
    }
    if (all->rule.disjoint)
        recount_runs(all, places, all->arena[head + 1], id, 1);
}

/* Leave in a list only places where `left` stands now, with `right` behind it unless that is -1; each place once. */
static void drop_stale(learner *all, uint32_t head, int32_t left, int32_t right) {
    uint32_t *places = all->arena + head + 2, many = all->arena[head + 1], kept = 0, last = 0;
    for (uint32_t i = 0; i < many; i++) {
        uint32_t at = places[i];
        if (at != last && all->token[at] == left && (right < 0 || all->token[at + width_at(all, at)] == right))
            places[kept++] = last = at;
    }
    all->arena[head + 1] = kept;
}

/* Merge a pair into the token `id` (`known`: TOKEN_FRESH, ...) at all places of a list that learn_gather made. Returns
   how often, by weight. Words and tokens are right whatever happens; an index without room is given up (filled = 0). */
static int64_t learn_merge(learner *all, uint64_t key, int32_t id, int known, uint32_t head) {
    if (known == TOKEN_LIVING && all->rule.disjoint) {
        drop_stale(all, head, left_of(key), right_of(key));
        recount_runs(all, all->arena + head + 2, all->arena[head + 1], id, 0);
    }
    uint64_t touched = 0;
    int64_t made = rewrite_places(all, key, id, known, head, &touched);
    if (known == TOKEN_LIVING)
        add_pairs(all, id, head);
    else
        bear_pairs(all, key, id, known, head, touched);
    hot_pair *slot = hot_pairs_find(&all->hot, key);
    if (slot) {
        slot->n = 0;
        slot->head = 0;
        slot->flags &= ~(uint32_t)PAIR_BOUND;
    }
    if (all->rule.splits && (all->bases || is_learned(all, id))) { /* the list becomes one of the token */
        all->arena[head] = all->tokens[id].stands.head;
        all->tokens[id].stands.head = head;
        all->tokens[id].stands.many += all->arena[head + 1];
    }
    take_noted(all);
    return made;
}

/* ------------------------------------------------------------------ a split */

/* Split a deleted token into its parts wherever it stands. 0: somewhere the parts need more places than it has, or
   there is no memory for an index; nothing was done. */
static int learn_split(learner *all, int32_t id, const int32_t *parts, int64_t many) {
    if (!all->filled && !learn_fill(all, 1, INT64_MAX))
        return 0;
    if (!all->tokens[id].stands.head)
        return 1;
    uint32_t head = learn_gather(all, all->tokens[id].stands.head);
    if (!head) { /* once pairs are counted anew, its places are in one stretch */
        if (!learn_fill(all, 1, INT64_MAX))
            return 0;
        head = all->tokens[id].stands.head;
        if (!head)
            return 1;
    }
    all->tokens[id].stands.head = head;
    drop_stale(all, head, id, -1);
    const uint32_t *places = all->arena + head + 2;
    uint32_t found = all->arena[head + 1];
    uint64_t size = 0, end = 0;
    for (int64_t i = 0; i < many; i++)
        size += (uint64_t)all->tokens[parts[i]].size;
    for (uint32_t i = 0; i < found; i++)
        if (width_at(all, places[i]) != size)
            return 0;
    if (all->rule.disjoint)
        recount_runs(all, places, found, -1, 0);
    for (uint32_t i = 0; i < found; i++) {
        uint64_t at = places[i], behind = at + size, before = place_before(all, at);
        int64_t n = weight_at(all, at);
        int32_t left = all->token[before], right = all->token[behind];
        if (left >= 0 && at != end) /* else `left` is a part of a token just split, which took the pair away */
            lose_count(all, pair_key(left, id), n);
        if (right >= 0 && !(all->rule.disjoint && right == id))
            lose_count(all, pair_key(id, right), n);
        for (int64_t part = 0; part < many; part++) {
            put_token(all, at, parts[part], (uint32_t)all->tokens[parts[part]].size);
            at += (uint64_t)all->tokens[parts[part]].size;
        }
        end = behind;
    }
    end = 0;
    for (uint32_t i = 0; i < found; i++) {
        uint64_t at = places[i], behind = at + size, before = place_before(all, at);
        int64_t n = weight_at(all, at);
        if (at == end)
            before = 0; /* the pair across this border was added from its left side */
        for (int64_t part = 0; part <= many; part++) {
            int32_t left = before ? all->token[before] : SEPARATOR, right = all->token[at];
            if (left >= 0 && right >= 0 && !(all->rule.disjoint && left == right))
                note_place(all, pair_key(left, right), before, n);
            if (part < many && (all->bases || is_learned(all, right)))
                note_place(all, TOKEN_LIST | pair_key(0, right), at, 0);
            before = at;
            if (part < many)
                at += width_at(all, at);
        }
        end = behind;
    }
    if (all->rule.disjoint)
        recount_runs(all, places, found, -1, 1);
    all->tokens[id].stands = (token_places){0, 0};
    all->told.looked += found;
    all->told.executed += found;
    take_noted(all);
    return 1;
}
