/* The table of pairs, the lists of their places, the heap of the best. See learn.h. */

/* Forget all pairs: they are counted again when the next merge is wanted. */
static void learn_drop_index(learner *all) {
    if (all->hot.slots)
        budget_give(&all->budget, all->hot.slots, (all->hot.mask + 1) * sizeof *all->hot.slots);
    budget_give(&all->budget, all->arena, all->arena_room * sizeof *all->arena);
    budget_give(&all->budget, all->heap, all->heap_room * sizeof *all->heap);
    budget_give(&all->budget, all->added, all->added_room * sizeof *all->added);
    all->hot = (hot_pairs){0};
    all->arena = NULL;
    all->heap = NULL;
    all->added = NULL;
    all->arena_used = all->arena_room = all->heaped = all->heap_room = 0;
    all->adds = all->added_room = 0;
    all->filled = 0;
}

/* ------------------------------------------------------------------ lists of places */

/* An empty stretch with room for so many places; 0 if there is no room. */
static uint32_t learn_stretch(learner *all, uint64_t many) {
    uint64_t needed = all->arena_used + many + 2;
    if (needed > UINT32_MAX) {
        all->budget.why = CORE_FULL;
        return 0;
    }
    if (!budget_room(&all->budget, &all->arena, &all->arena_room, needed, sizeof *all->arena))
        return 0;
    uint32_t head = (uint32_t)all->arena_used;
    all->arena[head] = all->arena[head + 1] = 0;
    all->arena_used = needed;
    return head;
}

static inline int is_lower_place(const void *context, const uint32_t *a, const uint32_t *b) {
    return *a < *b;
}

SORT(sort_places, uint32_t, is_lower_place)

/* Put places in ascending order, in which they often are already. */
static void learn_sort_places(uint32_t *places, uint64_t many) {
    for (uint64_t i = 1; i < many; i++) {
        if (places[i - 1] > places[i]) {
            sort_places(NULL, places, many, depth_for(many));
            return;
        }
    }
}

/* All places of a list in one stretch, in ascending order; 0 if there is no room for it. */
static uint32_t learn_gather(learner *all, uint32_t head) {
    if (all->arena[head]) {
        uint64_t many = 0;
        for (uint32_t at = head; at; at = all->arena[at])
            many += all->arena[at + 1];
        uint32_t whole = learn_stretch(all, many);
        if (!whole)
            return 0;
        uint32_t *places = all->arena + whole + 2;
        for (uint32_t at = head; at; at = all->arena[at]) {
            memcpy(places, all->arena + at + 2, all->arena[at + 1] * sizeof *places);
            places += all->arena[at + 1];
        }
        all->arena[whole + 1] = (uint32_t)many;
        head = whole;
    }
    learn_sort_places(all->arena + head + 2, all->arena[head + 1]);
    return head;
}

/* ------------------------------------------------------------------ the heap */

/* Best first. An entry has the count from when it was put in; if its pair counts less now, learn_best sinks it. */
static inline int is_better_pair(const void *context, const heap_entry *one, const heap_entry *other) {
    const learner *all = context;
    if (one->n != other->n)
        return one->n > other->n;
    if (all->rule.ties == TIES_IDS)
        return one->key < other->key;
    return learn_tie(all, one->key, other->key) < 0;
}

HEAP(best, heap_entry, is_better_pair)

static int learn_push(learner *all, int64_t n, uint64_t key) {
    if (!budget_room(&all->budget, &all->heap, &all->heap_room, all->heaped + 1, sizeof *all->heap))
        return 0;
    all->heap[all->heaped] = (heap_entry){n, key};
    best_rise(all, all->heap, all->heaped++);
    return 1;
}

static void learn_heapify(learner *all) {
    for (uint64_t at = all->heaped / 2; at--;)
        best_sink(all, all->heap, at, all->heaped);
}

static void learn_pop(learner *all) {
    all->heap[0] = all->heap[--all->heaped];
    if (all->heaped)
        best_sink(all, all->heap, 0, all->heaped);
}

/* The best hot pair, which stays on top of the heap; NULL if none counts the floor. */
static hot_pair *learn_best(learner *all) {
    while (all->heaped) {
        heap_entry *top = all->heap;
        for (uint64_t i = 1; i <= 4 && i < all->heaped; i++) /* one of these is the next */
            hot_pairs_soon(&all->hot, all->heap[i].key);
        hot_pair *slot = hot_pairs_find(&all->hot, top->key);
        if (!slot || slot->flags & PAIR_REFUSED || slot->n < all->floor || slot->n > top->n) {
            learn_pop(all); /* a pair that rose was put in again when it rose */
        } else if (slot->n < top->n) {
            top->n = slot->n;
            best_sink(all, all->heap, 0, all->heaped);
        } else {
            return slot;
        }
    }
    return NULL;
}
