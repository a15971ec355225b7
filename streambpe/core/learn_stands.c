/* With splits: where tokens stand, and counting pairs with a bound at those places. See learn.h.

   A token's list (`stands`) holds every place where it stands, and others that are out of date. Base symbols have
   lists if these fit into a quarter of the room that is left when pairs are counted. */

/* How much of the arena the lists of all tokens take. How many places each token has is left in `in_front`. */
static uint64_t learn_count_stands(learner *all) {
    uint64_t room = budget_left(&all->budget), many[2] = {0, 0};
    for (uint64_t at = 1; at < all->places; at += all->token[at] < 0 ? 1 : width_at(all, at)) {
        int32_t id = all->token[at];
        if (id >= 0) /* a stretch takes two more than its places */
            many[is_learned(all, id)] += all->in_front[id].places++ ? 1 : 3;
    }
    all->bases = many[0] * sizeof *all->arena <= room / 4;
    return many[1] + (all->bases ? many[0] : 0);
}

/* Make the lists, with nothing in them yet. */
static int learn_stretch_stands(learner *all) {
    for (int64_t id = 0; id < all->told.next_id; id++) {
        token_places *list = &all->tokens[id].stands;
        *list = (token_places){0, 0};
        if (!all->in_front[id].places || !(all->bases || is_learned(all, id)))
            continue;
        list->many = all->in_front[id].places;
        if (!(list->head = learn_stretch(all, list->many)))
            return 0;
    }
    return 1;
}

/* Give a pair its exact count; the list `head` has its places, ascending. */
static void settle(learner *all, hot_pair *slot, uint32_t head) {
    const uint32_t *places = all->arena + head + 2;
    uint64_t end = 0;
    int run = 0, equal = all->rule.disjoint && left_of(slot->key) == right_of(slot->key);
    slot->n = 0;
    for (uint32_t i = 0; i < all->arena[head + 1]; i++) {
        run = equal && places[i] == end && !run;
        end = places[i] + width_at(all, places[i]);
        if (!run)
            slot->n += weight_at(all, places[i]);
    }
    slot->head = head;
    slot->flags &= ~(uint32_t)PAIR_BOUND;
}

/* Find the places of a pair among those of its token `id`; places that are out of date leave the token's list. */
static uint64_t find_places(learner *all, uint64_t key, int32_t id, uint32_t *found) {
    int32_t left = left_of(key), right = right_of(key);
    uint64_t many = 0;
    all->told.looked += all->tokens[id].stands.many;
    all->tokens[id].stands.many = 0;
    for (uint32_t head = all->tokens[id].stands.head; head; head = all->arena[head]) {
        uint32_t *places = all->arena + head + 2, size = all->arena[head + 1], kept = 0;
        for (uint32_t i = 0; i < size; i++) {
            uint64_t place = places[i];
            if (i + 16 < size)
                SOON(all->token + places[i + 16]);
            if (all->token[place] != id)
                continue;
            places[kept++] = (uint32_t)place;
            if (id != left)
                place = place_before(all, place);
            if (all->token[place] == left && all->token[place + width_at(all, place)] == right)
                found[many++] = (uint32_t)place;
        }
        all->arena[head + 1] = kept;
        all->tokens[id].stands.many += kept;
    }
    learn_sort_places(found, many);
    uint64_t once = 0;
    for (uint64_t i = 0; i < many; i++)
        if (!once || found[once - 1] != found[i])
            found[once++] = found[i];
    return once;
}

/* Give a pair of which only a bound is known its exact count. 0 if there is no room, or if none of its tokens has a
   list: then the index has to go. */
static int learn_count_bound(learner *all, hot_pair *slot) {
    int32_t left = left_of(slot->key), right = right_of(slot->key), id = right;
    if (!all->rule.splits || (!all->bases && !is_learned(all, left) && !is_learned(all, right)))
        return 0;
    uint64_t many = all->tokens[right].stands.many, other = all->tokens[left].stands.many;
    if ((all->bases || is_learned(all, left)) && (other < many || (!all->bases && !is_learned(all, right)))) {
        id = left;
        many = other;
    }
    uint32_t head = learn_stretch(all, many);
    if (!head)
        return 0;
    many = find_places(all, slot->key, id, all->arena + head + 2);
    all->arena[head + 1] = (uint32_t)many;
    all->arena_used = head + 2 + many;
    settle(all, slot, head);
    return learn_push(all, slot->n, slot->key);
}

/* Give all pairs whose bound reaches the floor their exact counts; 0 as in learn_count_bound. */
static int learn_count_bounds(learner *all) {
    for (uint64_t i = 0; i <= all->hot.mask; i++) {
        hot_pair *slot = all->hot.slots + i;
        if (slot->key && slot->flags & PAIR_BOUND && slot->n >= all->floor && !learn_count_bound(all, slot))
            return 0;
    }
    return 1;
}
