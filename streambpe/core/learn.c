/* The loop: the best pair, its merge, the deletions it leads to. See learn.h. */

typedef __int128 product; /* shares are compared as products of two counts */

static int refuse_pair(learner *all, uint64_t key) {
    if (!key_counts_put(&all->banned, &all->budget, key))
        return 0;
    hot_pair *slot = all->filled ? hot_pairs_find(&all->hot, key) : NULL;
    if (slot)
        slot->flags |= PAIR_REFUSED;
    return 1;
}

/* The caller's answer about a pair: never merge it, or if `allowed`, do not ask about it again. */
EXPORT int learner_answer(learner *all, int64_t left, int64_t right, int allowed) {
    uint64_t key = pair_key((int32_t)left, (int32_t)right);
    if (!allowed)
        return refuse_pair(all, key) ? CORE_OK : all->budget.why;
    hot_pair *slot = all->filled ? hot_pairs_find(&all->hot, key) : NULL;
    if (slot)
        slot->flags |= PAIR_ALLOWED;
    return CORE_OK;
}

/* Give a pair with a bound its exact count, or give up the index where there is no room. 0: there is no room, and the
   index is `fresh`, so a new one would have no more. */
static int count_bound(learner *all, hot_pair *slot, int fresh) {
    if (learn_count_bound(all, slot))
        return 1;
    all->filled &= fresh;
    return !fresh;
}

/* The pair that is to be merged next, or with key 0 the best pair, hot and with its exact count; NULL if there is none
   (`why` CORE_OK), or no room. at_most: it and those after it count at least so much. */
static hot_pair *find_hot(learner *all, uint64_t key, int64_t at_most) {
    int fresh = 0;
    all->budget.why = CORE_OK;
    for (;;) {
        if (!all->filled && !(fresh = learn_fill(all, 1, at_most)))
            return NULL;
        hot_pair *slot = key ? hot_pairs_find(&all->hot, key) : learn_best(all);
        if (slot && slot->flags & PAIR_BOUND) {
            if (!count_bound(all, slot, fresh))
                return NULL;
            continue;
        }
        if (slot && (key ? slot->n > 0 && slot->head : slot->n >= all->rule.at_least))
            return slot;
        if (key ? fresh || all->floor <= 1 : slot || all->floor <= all->rule.at_least)
            return NULL;
        all->filled = 0;
    }
}

/* Whether a token that stood `before` times is superfluous after a merge that took `made` of them. */
static int is_superfluous(const learner *all, int32_t id, int64_t before, int64_t made) {
    if (all->rule.after)
        return (product)made * all->rule.denominator > (product)all->rule.numerator * ((product)all->tokens[id].count + made);
    return (product)made * all->rule.denominator >= (product)all->rule.numerator * before;
}

/* Write the deletions that merge number `number` leads to: of each that number, the token, how often it stood, how many
   parts it is split into, and these. Returns how many numbers were written. */
static int64_t delete_after(learner *all, int32_t left, int32_t right, int32_t id, int64_t made, int64_t number,
                            int64_t *gone) {
    int32_t operand[2] = {left, right};
    int64_t before[2] = {all->tokens[left].count, all->tokens[right].count}, used = 0;
    if (is_learned(all, id))
        all->tokens[id].count += made;
    for (int i = 0; i < 2; i++)
        if (is_learned(all, operand[i]))
            all->tokens[operand[i]].count -= made;
    for (int i = 0; i < (left == right ? 1 : 2); i++) {
        int32_t token = operand[i];
        if (!is_learned(all, token) || !is_superfluous(all, token, before[i], made))
            continue;
        deletion *deleted = all->deleted + all->pending;
        all->tokens[token].alive = 0;
        int64_t many = learn_parts(all, token, deleted->parts), n = all->tokens[token].count;
        all->told.dead++;
        all->tokens[token].count = 0;
        gone[used++] = number;
        gone[used++] = token;
        gone[used++] = n;
        gone[used++] = many;
        for (int64_t part = 0; part < many; part++) {
            gone[used++] = deleted->parts[part];
            if (is_learned(all, deleted->parts[part]))
                all->tokens[deleted->parts[part]].count += n;
        }
        if (n) {
            deleted->id = token;
            deleted->many = many;
            all->pending++;
        }
    }
    return used;
}

/* Split the tokens that were deleted, in their order; 0: the caller has to split those that are left. */
static int split_deleted(learner *all) {
    while (all->pending) {
        if (!all->rule.splits || !learn_split(all, (int32_t)all->deleted[0].id, all->deleted[0].parts, all->deleted[0].many))
            return 0;
        deletion done = all->deleted[0];
        all->deleted[0] = all->deleted[1];
        all->deleted[1] = done;
        all->pending--;
    }
    return 1;
}

/* One merge with its deletions. `head`: its places, gathered; `*kind`: of the token it makes. told: how many merges
   there are in `out`, and numbers in `gone`. Below 0: an error, and nothing was done. */
static int merge_pair(learner *all, uint64_t key, int64_t n, uint32_t head, int64_t *out, int64_t *gone, int64_t *told,
                      int *kind) {
    int32_t left = left_of(key), right = right_of(key);
    int64_t known = learn_known(all, left, right, &all->spelled);
    int which = known < 0 ? TOKEN_FRESH : TOKEN_LIVING;
    if (all->rule.lives) { /* room for the parts, before anything is changed */
        uint64_t most = 2 * ((uint64_t)all->tokens[left].size + (uint64_t)all->tokens[right].size + 2);
        for (int i = 0; i < 2; i++)
            if (!budget_room(&all->budget, &all->deleted[i].parts, &all->deleted[i].room, most, sizeof *all->deleted[i].parts))
                return all->budget.why;
    }
    if (known < 0) {
        known = all->told.next_id;
        if (!learn_bear(all, left, right))
            return all->budget.why;
    } else if (all->rule.lives && is_learned(all, known) && !all->tokens[known].alive) {
        which = TOKEN_BACK;
        all->tokens[known].alive = 1;
        all->told.dead--;
    }
    int32_t id = (int32_t)known;
    int earlier = learn_placed(all, id, n, which == TOKEN_FRESH);
    int64_t made = learn_merge(all, key, id, which, head);
    all->told.made += made;
    if (earlier && all->filled)
        learn_heapify(all);
    const int64_t merge[MERGE_WORDS] = {left, right, id, n};
    memcpy(out + MERGE_WORDS * told[0]++, merge, sizeof merge);
    if (all->rule.lives)
        told[1] += delete_after(all, left, right, id, made, told[0], gone + told[1]);
    *kind = which;
    return CORE_OK;
}

/* Merge a hot pair, given with its exact count. MERGE_AGAIN: the index was made anew, where it stands elsewhere. `tries`:
   how often that was for want of room. */
static int merge_hot(learner *all, const hot_pair *slot, int64_t *out, int64_t *gone, int64_t *told, int *kind,
                     int *tries) {
    uint64_t key = slot->key;
    int64_t n = slot->n;
    uint32_t head = learn_gather(all, slot->head);
    if (!head) /* counted anew, its places are in one stretch */
        return learn_fill(all, 1, INT64_MAX) ? MERGE_AGAIN : all->budget.why;
    int why = merge_pair(all, key, n, head, out, gone, told, kind);
    if (why == CORE_FULL && !(*tries)++) { /* a new index leaves more room */
        all->filled = 0;
        return MERGE_AGAIN;
    }
    if (!why)
        *tries = 0;
    return why;
}

/* Merge until there are `merges`, until `enough` tokens are alive, until `work` places were looked at, until the first
   pair counts less than `first` or another one less than `least`, or until another reason in LEARN_... to return. Errors
   are below 0; all that is told has been done. told: merges in `out`; numbers in `gone`, see delete_after. */
EXPORT int learner_learn(learner *all, int64_t merges, int64_t enough, int64_t work, int64_t first, int64_t least,
                         int64_t *out, int64_t room, int64_t *gone, int64_t gone_room, int64_t *told) {
    int64_t began = all->told.looked;
    int tries = 0;
    all->enough = enough;
    told[0] = told[1] = 0;
    for (;;) {
        if (!split_deleted(all))
            return LEARN_UNFIT;
        if (told[0] >= merges || living_tokens(all) >= enough || (told[0] && all->told.looked - began >= work))
            return LEARN_DONE;
        hot_pair *best = find_hot(all, 0, INT64_MAX);
        if (!best)
            return all->budget.why ? all->budget.why : LEARN_NONE_LEFT;
        if (best->n < (told[0] ? least : first))
            return LEARN_DONE;
        int32_t left = left_of(best->key), right = right_of(best->key);
        if (all->rule.asks && !(best->flags & PAIR_ALLOWED))
            return LEARN_ASK;
        if (learn_known(all, left, right, &all->blocked) >= 0)
            return LEARN_ASK;
        int64_t parts = all->rule.lives ? (int64_t)all->tokens[left].size + all->tokens[right].size : 0;
        if (told[0] * MERGE_WORDS + MERGE_WORDS > room || told[1] + 8 + parts > gone_room)
            return LEARN_OUT;
        int kind = TOKEN_FRESH, why = merge_hot(all, best, out, gone, told, &kind, &tries);
        if (why < 0)
            return why;
        /* the token stands outside of these chains too, or a superword is spelled like a chunk: the caller looks */
        if (kind == TOKEN_LIVING && (all->rule.keeps || !all->rule.lives) && !all->pending)
            return LEARN_LIVING;
    }
}

static int are_tokens(const learner *all, int64_t left, int64_t right) {
    return left >= 0 && right >= 0 && left < all->told.next_id && right < all->told.next_id;
}

/* Merge these pairs in this order, whatever else counts more; all are found before the first is merged, none of them
   merges what another one made, and each is told with its count from before the first merge. None counts less than
   `at_most`, but for those that are nowhere in the words: their tokens are made, and nothing is told. `heads` and `out`
   have room for all. Not for models with deletions. */
EXPORT int learner_apply(learner *all, const int64_t *pairs, int64_t many, int64_t at_most, uint32_t *heads,
                         int64_t *out, int64_t *told) {
    int living = 0;
    told[0] = told[1] = 0;
    for (int64_t i = 0; i < many; i++)
        if (!are_tokens(all, pairs[2 * i], pairs[2 * i + 1]))
            return CORE_DAMAGED;
    if (!learn_bear_room(all, pairs, many)) {
        learn_drop_index(all); /* a new one leaves more room */
        if (!learn_bear_room(all, pairs, many))
            return all->budget.why;
    }
    for (int64_t i = 0; i < 2 * many; i++) { /* each is found twice: none after the first time takes a new index */
        int64_t which = i % many;
        uint64_t key = pair_key((int32_t)pairs[2 * which], (int32_t)pairs[2 * which + 1]);
        const hot_pair *slot = find_hot(all, key, at_most);
        if (!slot && all->budget.why)
            return all->budget.why;
        heads[which] = 0;
        if (!slot || i < many)
            continue;
        out[MERGE_WORDS * which + 3] = slot->n;
        if (!(heads[which] = learn_gather(all, slot->head))) { /* counted anew, every list is one stretch */
            if (!learn_fill(all, 1, at_most))
                return all->budget.why;
            i = many - 1;
        }
    }
    for (int64_t i = 0; i < many; i++) {
        int32_t left = (int32_t)pairs[2 * i], right = (int32_t)pairs[2 * i + 1];
        if (!heads[i]) {
            if (learn_known(all, left, right, &all->spelled) < 0 && !learn_bear(all, left, right))
                return all->budget.why;
            continue;
        }
        int kind, why = merge_pair(all, pair_key(left, right), out[MERGE_WORDS * i + 3], heads[i], out, NULL, told, &kind);
        if (why)
            return why;
        living |= kind == TOKEN_LIVING;
    }
    if (living && many > 1) /* a pair that was merged here may stand somewhere again because of a later merge */
        all->filled = 0;
    return LEARN_DONE;
}

/* Write the best pairs, best first, as (left, right, count, flags). Returns how many. With `force`, that is fewer than
   `most` only if there are no more; without it, only hot pairs are written. */
EXPORT int64_t learner_best(learner *all, int64_t most, int force, int64_t *out) {
    for (int again = 0;; again++) {
        int64_t found = 0;
        if (!find_hot(all, 0, INT64_MAX) && all->budget.why)
            return all->budget.why;
        while (found < most) {
            hot_pair *slot = learn_best(all);
            if (!slot || slot->n < all->rule.at_least)
                break;
            if (slot->flags & PAIR_BOUND) {
                if (!learn_count_bound(all, slot)) {
                    all->filled = 0;
                    break;
                }
                continue;
            }
            int32_t left = left_of(slot->key), right = right_of(slot->key);
            learn_pop(all);
            if (found && out[4 * found - 4] == left && out[4 * found - 3] == right)
                continue; /* it was in the heap twice */
            out[4 * found] = left;
            out[4 * found + 1] = right;
            out[4 * found + 2] = slot->n;
            out[4 * found + 3] = slot->flags;
            found++;
        }
        for (int64_t i = 0; i < found && all->filled; i++)
            if (!learn_push(all, out[4 * i + 2], pair_key((int32_t)out[4 * i], (int32_t)out[4 * i + 1])))
                all->filled = 0;
        if (found == most || !force || again || (all->filled && all->floor <= all->rule.at_least))
            return found;
        if (!learn_fill(all, (uint64_t)most, INT64_MAX))
            return all->budget.why;
    }
}

/* Write all hot pairs with exact counts as (left, right, count), at most `room`. Returns how many there are in all. */
EXPORT int64_t learner_hot(learner *all, int64_t room, int64_t *out) {
    int64_t found = 0;
    all->budget.why = CORE_OK;
    if (!all->filled && !learn_fill(all, 1, INT64_MAX))
        return all->budget.why;
    if (!learn_count_bounds(all) && !learn_fill(all, 1, INT64_MAX))
        return all->budget.why;
    for (uint64_t i = 0; i <= all->hot.mask; i++) {
        const hot_pair *slot = all->hot.slots + i;
        if (!slot->key || slot->flags & (PAIR_REFUSED | PAIR_BOUND) || slot->n < all->floor)
            continue;
        if (found < room) {
            out[3 * found] = left_of(slot->key);
            out[3 * found + 1] = right_of(slot->key);
            out[3 * found + 2] = slot->n;
        }
        found++;
    }
    return found;
}

EXPORT void learner_told(const learner *all, learn_figures *told) {
    *told = all->told;
    told->bytes = (int64_t)all->budget.bytes;
    told->most_bytes = (int64_t)all->budget.most;
    told->places = (int64_t)all->places;
    told->words = (int64_t)all->words;
    told->floor = all->filled ? all->floor : 0;
    told->hot = all->filled ? (int64_t)all->hot.used : 0;
    told->pending = all->pending;
}
