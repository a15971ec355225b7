/* The table of pairs, the lists of their places, the heap of the best. See learn.h. */
#include "learn.h"
#include "sort.h"

#include <stdlib.h>

enum { FIRST_SLOTS = 1 << 8 };

void *learn_take(learner *all, uint64_t bytes) {
    if (bytes > all->limit || all->bytes > all->limit - bytes) {
        all->why = CORE_FULL;
        return NULL;
    }
    void *memory = malloc(bytes ? bytes : 1);
    if (!memory) {
        all->why = CORE_NO_MEMORY;
        return NULL;
    }
    all->bytes += bytes;
    if (all->bytes > all->most_bytes)
        all->most_bytes = all->bytes;
    return memory;
}

void learn_give(learner *all, void *memory, uint64_t bytes) {
    if (!memory)
        return;
    free(memory);
    all->bytes -= bytes;
}

/* Make the array that `array` points to one of `size` items; it has `old` items so far. 0: there is no room. */
int learn_resize(learner *all, void *array, uint64_t old, uint64_t size, uint64_t item) {
    void *before, *larger = learn_take(all, size * item);
    if (!larger)
        return 0;
    memcpy(&before, array, sizeof before);
    if (before)
        memcpy(larger, before, old * item);
    learn_give(all, before, old * item);
    memcpy(array, &larger, sizeof larger);
    return 1;
}

/* Make room for `needed` items in an array that has room for `*room`: twice as much if the limit allows. */
int learn_room(learner *all, void *array, uint64_t *room, uint64_t needed, uint64_t item) {
    if (needed <= *room)
        return 1;
    uint64_t size = *room * 2 > needed ? *room * 2 : needed;
    if (!learn_resize(all, array, *room, size, item)) {
        size = needed + (needed >> 4);
        if (!learn_resize(all, array, *room, size, item))
            return 0;
    }
    *room = size;
    return 1;
}

/* Forget all pairs: they are counted again when the next merge is wanted. */
void learn_drop_index(learner *all) {
    if (all->slots)
        learn_give(all, all->slots, (all->mask + 1) * sizeof *all->slots);
    learn_give(all, all->arena, all->arena_room * sizeof *all->arena);
    learn_give(all, all->heap, all->heap_room * sizeof *all->heap);
    learn_give(all, all->added, all->added_room * sizeof *all->added);
    all->slots = NULL;
    all->arena = NULL;
    all->heap = NULL;
    all->added = NULL;
    all->used = all->mask = all->arena_used = all->arena_room = all->heaped = all->heap_room = 0;
    all->adds = all->added_room = 0;
    all->filled = 0;
}

/* ------------------------------------------------------------------ the table */

pair_slot *learn_find(const learner *all, uint64_t key) {
    for (uint64_t at = mixed(key) & all->mask;; at = (at + 1) & all->mask) {
        if (all->slots[at].key == key)
            return all->slots + at;
        if (all->slots[at].key == NO_PAIR)
            return NULL;
    }
}

static int grow_slots(learner *all) {
    uint64_t size = all->slots ? (all->mask + 1) * 2 : FIRST_SLOTS;
    pair_slot *slots = learn_take(all, size * sizeof *slots);
    if (!slots)
        return 0;
    for (uint64_t i = 0; i < size; i++)
        slots[i].key = NO_PAIR;
    if (all->slots) {
        for (uint64_t i = 0; i <= all->mask; i++) {
            if (all->slots[i].key == NO_PAIR)
                continue;
            uint64_t at = mixed(all->slots[i].key) & (size - 1);
            while (slots[at].key != NO_PAIR)
                at = (at + 1) & (size - 1);
            slots[at] = all->slots[i];
        }
        learn_give(all, all->slots, (all->mask + 1) * sizeof *slots);
    }
    all->slots = slots;
    all->mask = size - 1;
    return 1;
}

/* The slot of a pair, made with count 0 if there is none. NULL: there is no room. */
pair_slot *learn_put(learner *all, uint64_t key) {
    if ((!all->slots || (all->used + 1) * 3 > all->mask * 2) && !grow_slots(all))
        return NULL;
    uint64_t at = mixed(key) & all->mask;
    while (all->slots[at].key != key) {
        if (all->slots[at].key == NO_PAIR) {
            all->slots[at] = (pair_slot){key, 0, 0, 0};
            all->used++;
            break;
        }
        at = (at + 1) & all->mask;
    }
    return all->slots + at;
}

/* ------------------------------------------------------------------ lists of places */

/* An empty stretch with room for so many places; 0 if there is no room. */
uint32_t learn_stretch(learner *all, uint64_t many) {
    uint64_t needed = all->arena_used + many + 2;
    if (needed > UINT32_MAX) {
        all->why = CORE_FULL;
        return 0;
    }
    if (needed > all->arena_room) {
        uint64_t room = all->arena_room + all->arena_room / 2;
        if (room > UINT32_MAX)
            room = UINT32_MAX;
        if (room < needed)
            room = needed;
        uint32_t *arena = learn_take(all, room * sizeof *arena);
        if (!arena)
            return 0;
        memcpy(arena, all->arena, all->arena_used * sizeof *arena);
        learn_give(all, all->arena, all->arena_room * sizeof *arena);
        all->arena = arena;
        all->arena_room = room;
    }
    uint32_t head = (uint32_t)all->arena_used;
    all->arena[head] = all->arena[head + 1] = 0;
    all->arena_used = needed;
    return head;
}

static inline int is_lower(const uint8_t *context, const uint32_t *a, const uint32_t *b) {
    (void)context;
    return *a < *b;
}

SORT(sort_places, uint32_t, is_lower)

/* Put places in ascending order, in which they often are already. */
void learn_sort_places(uint32_t *places, uint64_t many) {
    for (uint64_t i = 1; i < many; i++) {
        if (places[i - 1] > places[i]) {
            sort_places(NULL, places, many, depth_for(many));
            return;
        }
    }
}

/* All places of a list in one stretch, in ascending order; 0 if there is no room for it. */
uint32_t learn_gather(learner *all, uint32_t head) {
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
static inline int better(const learner *all, const heap_entry *one, const heap_entry *other) {
    if (one->n != other->n)
        return one->n > other->n;
    if (all->ties == TIES_IDS)
        return one->key < other->key;
    return learn_tie(all, one->key, other->key) < 0;
}

static void sink(learner *all, uint64_t at) {
    heap_entry *heap = all->heap, entry = heap[at];
    for (;;) {
        uint64_t child = 2 * at + 1;
        if (child >= all->heaped)
            break;
        if (child + 1 < all->heaped && better(all, heap + child + 1, heap + child))
            child++;
        if (!better(all, heap + child, &entry))
            break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = entry;
}

int learn_push(learner *all, int64_t n, uint64_t key) {
    if (!learn_room(all, &all->heap, &all->heap_room, all->heaped + 1, sizeof *all->heap))
        return 0;
    heap_entry entry = {n, key};
    uint64_t at = all->heaped++;
    while (at) {
        uint64_t parent = (at - 1) / 2;
        if (!better(all, &entry, all->heap + parent))
            break;
        all->heap[at] = all->heap[parent];
        at = parent;
    }
    all->heap[at] = entry;
    return 1;
}

void learn_heapify(learner *all) {
    for (uint64_t at = all->heaped / 2; at--;)
        sink(all, at);
}

void learn_pop(learner *all) {
    all->heap[0] = all->heap[--all->heaped];
    if (all->heaped)
        sink(all, 0);
}

/* The best hot pair, which stays on top of the heap; NULL if none counts the floor. */
pair_slot *learn_best(learner *all) {
    while (all->heaped) {
        heap_entry *top = all->heap;
        pair_slot *slot = learn_find(all, top->key);
        if (!slot || slot->flags & PAIR_REFUSED || slot->n < all->floor || slot->n > top->n) {
            learn_pop(all); /* a pair that rose was put in again when it rose */
        } else if (slot->n < top->n) {
            top->n = slot->n;
            sink(all, 0);
        } else {
            return slot;
        }
    }
    return NULL;
}
