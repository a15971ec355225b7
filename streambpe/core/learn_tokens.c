/* Tokens: how they are spelled, how ties are decided, which are alive and what they are split into. See learn.h. */
#include "learn.h"

#include <stdlib.h>

/* ------------------------------------------------------------------ spellings */

static uint64_t hash_on(uint64_t hash, const uint8_t *text, uint64_t length) {
    for (uint64_t i = 0; i < length; i++)
        hash = (hash ^ text[i]) * 0x100000001B3ull;
    return hash;
}

static uint64_t slot_of(uint64_t hash, uint64_t mask) {
    return mixed(hash) & mask;
}

static uint64_t spelled_at(const spellings *known, int64_t number, uint64_t *length) {
    uint64_t begin = number ? known->ends[number - 1] : 0;
    *length = known->ends[number] - begin;
    return begin;
}

static void place_spelling(spellings *known, int32_t *slots, uint64_t mask, int32_t number) {
    uint64_t length, begin = spelled_at(known, number, &length);
    uint64_t at = slot_of(hash_on(0, known->text + begin, length), mask);
    for (; slots[at] >= 0; at = (at + 1) & mask) {
        uint64_t other, from = spelled_at(known, slots[at], &other);
        if (other == length && !memcmp(known->text + from, known->text + begin, length))
            break; /* of equal spellings the last one is found */
    }
    slots[at] = number;
}

static int grow_spellings(learner *all, spellings *known) {
    uint64_t size = known->slots ? (known->mask + 1) * 2 : 64;
    int32_t *slots = learn_take(all, size * sizeof *slots);
    if (!slots)
        return 0;
    memset(slots, 0xFF, size * sizeof *slots);
    for (uint64_t i = 0; known->slots && i <= known->mask; i++)
        if (known->slots[i] >= 0)
            place_spelling(known, slots, size - 1, known->slots[i]);
    if (known->slots)
        learn_give(all, known->slots, (known->mask + 1) * sizeof *slots);
    known->slots = slots;
    known->mask = size - 1;
    return 1;
}

/* Room for one more string of this length. */
static int spell_room(learner *all, spellings *known, uint64_t length) {
    uint64_t used = known->many ? known->ends[known->many - 1] : 0;
    if (!learn_room(all, &known->text, &known->text_room, used + length + 1, 1) ||
        !learn_room(all, &known->ends, &known->room, (uint64_t)known->many + 1, sizeof *known->ends))
        return 0;
    return (known->slots && ((uint64_t)known->many + 1) * 2 <= known->mask) || grow_spellings(all, known);
}

/* Add the spelling of the next number; an empty one is never found. 0 if there is no room. */
int spell_add(learner *all, spellings *known, const uint8_t *text, uint64_t length) {
    if (!spell_room(all, known, length))
        return 0;
    uint64_t used = known->many ? known->ends[known->many - 1] : 0;
    if (length)
        memcpy(known->text + used, text, length);
    known->ends[known->many++] = used + length;
    if (length)
        place_spelling(known, known->slots, known->mask, (int32_t)(known->many - 1));
    return 1;
}

/* The number that is spelled like a and b together, -1 if there is none. */
int64_t spell_find(const spellings *known, const uint8_t *a, uint64_t a_size, const uint8_t *b, uint64_t b_size) {
    if (!known->slots)
        return -1;
    uint64_t at = slot_of(hash_on(hash_on(0, a, a_size), b, b_size), known->mask);
    for (; known->slots[at] >= 0; at = (at + 1) & known->mask) {
        uint64_t length, begin = spelled_at(known, known->slots[at], &length);
        const uint8_t *text = known->text + begin;
        if (length == a_size + b_size && !memcmp(text, a, a_size) && !memcmp(text + a_size, b, b_size))
            return known->slots[at];
    }
    return -1;
}

/* The same for the spellings of two tokens. */
int64_t learn_known(const learner *all, int32_t left, int32_t right, const spellings *in) {
    uint64_t a_size, a = spelled_at(&all->spelled, left, &a_size);
    uint64_t b_size, b = spelled_at(&all->spelled, right, &b_size);
    return spell_find(in, all->spelled.text + a, a_size, all->spelled.text + b, b_size);
}

/* ------------------------------------------------------------------ ties */

static int compare_bytes(const learner *all, int32_t one, int32_t other) {
    uint64_t a_size, a = spelled_at(&all->spelled, one, &a_size);
    uint64_t b_size, b = spelled_at(&all->spelled, other, &b_size);
    int order = memcmp(all->spelled.text + a, all->spelled.text + b, a_size < b_size ? a_size : b_size);
    return order ? order : a_size < b_size ? -1 : a_size > b_size;
}

/* Less than 0 if pair `one` goes before `other` when both count the same. */
int learn_tie(const learner *all, uint64_t one, uint64_t other) {
    int32_t a = (int32_t)(one >> 32), b = (int32_t)(other >> 32);
    if (a == b)
        a = (int32_t)one, b = (int32_t)other;
    if (a == b)
        return 0;
    if (all->ties == TIES_BYTES)
        return compare_bytes(all, a, b);
    return all->order[a] < all->order[b] ? -1 : all->order[a] > all->order[b];
}

/* TIES_PLACES: give the superword that was just chosen by this count its place in the order. 1 if it was a token before
   and comes earlier now. */
int learn_placed(learner *all, int32_t id, int64_t n, int fresh) {
    if (all->ties != TIES_PLACES)
        return 0;
    int64_t low = 0, high = all->steps; /* word steps that count at least n */
    while (low < high) {
        int64_t middle = (low + high) / 2;
        if (all->falling[middle] >= n)
            low = middle + 1;
        else
            high = middle;
    }
    if (low > all->place)
        all->place = low;
    int64_t order = (all->place << 32) + ((int64_t)1 << 31) + all->born;
    if (!fresh && order >= all->order[id])
        return 0;
    all->order[id] = order;
    all->born++;
    return !fresh;
}

/* ------------------------------------------------------------------ tokens */

/* Room for tokens up to this number. */
int learn_tokens_room(learner *all, int64_t needed) {
    if ((uint64_t)needed <= all->tokens_room)
        return 1;
    uint64_t old = all->tokens_room, size = old * 2 > (uint64_t)needed ? old * 2 : (uint64_t)needed + 256;
    uint64_t least = (uint64_t)needed + (uint64_t)needed / 16;
    struct {
        void *array;
        uint64_t item;
        int wanted;
    } every[] = {
        {&all->length, sizeof *all->length, 1},
        {&all->order, sizeof *all->order, all->ties == TIES_PLACES},
        {&all->in_front, sizeof *all->in_front, 1},
        {&all->behind, sizeof *all->behind, 1},
        {&all->touched, 2 * sizeof *all->touched, 1},
        {&all->count, sizeof *all->count, all->lives},
        {&all->size, sizeof *all->size, all->lives},
        {&all->first_pair, sizeof *all->first_pair, all->lives},
        {&all->stands, sizeof *all->stands, all->splits},
        {&all->alive, sizeof *all->alive, all->lives},
        {&all->kind, sizeof *all->kind, all->kinds > 0},
    };
    uint64_t each = 0, widest = 0, spare = all->limit > all->bytes ? all->limit - all->bytes : 0;
    for (size_t i = 0; i < sizeof every / sizeof *every; i++)
        if (every[i].wanted) {
            each += every[i].item;
            widest = every[i].item > widest ? every[i].item : widest;
        }
    /* arrays are copied one after another, so at most one of the old is there beside the new */
    if (size > least && (size - old) * each + old * widest > spare)
        size = least;
    if ((size - old) * each + old * widest > spare) { /* all or none */
        all->why = CORE_FULL;
        return 0;
    }
    for (size_t i = 0; i < sizeof every / sizeof *every; i++) {
        if (!every[i].wanted)
            continue;
        if (!learn_resize(all, every[i].array, old, size, every[i].item))
            return 0;
        uint8_t *array;
        memcpy(&array, every[i].array, sizeof array);
        memset(array + old * every[i].item, 0, (size - old) * every[i].item);
    }
    all->tokens_room = size;
    return 1;
}

/* Make room for the tokens that these pairs would make, so that none of them is refused half way. */
int learn_bear_room(learner *all, const int64_t *pairs, int64_t many) {
    uint64_t text = all->spelled.many ? all->spelled.ends[all->spelled.many - 1] : 0, length;
    for (int64_t i = 0; i < 2 * many; i++, text += length)
        spelled_at(&all->spelled, pairs[i], &length);
    spellings *known = &all->spelled;
    if (!learn_tokens_room(all, all->next_id + many) ||
        !learn_room(all, &known->text, &known->text_room, text, 1) ||
        !learn_room(all, &known->ends, &known->room, (uint64_t)(known->many + many + 1), sizeof *known->ends))
        return 0;
    while ((uint64_t)(known->many + many + 1) * 2 > known->mask)
        if (!grow_spellings(all, known))
            return 0;
    return 1;
}

/* Add a new token, made of these two; its number is next_id - 1 afterwards. */
int learn_bear(learner *all, int32_t left, int32_t right) {
    uint64_t a_size, a = spelled_at(&all->spelled, left, &a_size);
    uint64_t b_size, b = spelled_at(&all->spelled, right, &b_size);
    spellings *known = &all->spelled;
    if (all->next_id == INT32_MAX) {
        all->why = CORE_OVERFLOW;
        return 0;
    }
    if (!learn_tokens_room(all, all->next_id + 1) || !spell_room(all, known, a_size + b_size))
        return 0;
    uint64_t used = known->ends[known->many - 1];
    memcpy(known->text + used, known->text + a, a_size);
    memcpy(known->text + used + a_size, known->text + b, b_size);
    known->ends[known->many++] = used + a_size + b_size;
    int64_t id = all->next_id++;
    place_spelling(known, known->slots, known->mask, (int32_t)id);
    all->length[id] = all->length[left] + all->length[right];
    if (all->kinds)
        all->kind[id] = all->becomes[all->kind[left] * all->kinds + all->kind[right]];
    if (all->lives) {
        all->size[id] = all->size[left] + all->size[right];
        all->first_pair[id] = pair_key(left, right);
        all->alive[id] = 1;
        all->count[id] = 0;
        if (all->splits)
            all->stands[id] = (token_places){0, 0};
    }
    return 1;
}

/* Write the parts that a token which just died is split into to all->parts[which]. How many, -1 if there is no room. */
int64_t learn_parts(learner *all, int32_t id, int which) {
    uint64_t most = (uint64_t)all->size[id] + 1;
    if (!learn_room(all, &all->parts[which], &all->parts_room[which], 2 * most, sizeof *all->parts[which]))
        return -1;
    int32_t *parts = all->parts[which], *stack = parts + most;
    int64_t many = 0, waiting = 0;
    stack[waiting++] = id;
    while (waiting) {
        int32_t part = stack[--waiting];
        if (!is_learned(all, part) || (all->walk && all->alive[part])) {
            parts[many++] = part;
        } else {
            stack[waiting++] = (int32_t)all->first_pair[part];
            stack[waiting++] = (int32_t)(all->first_pair[part] >> 32);
        }
    }
    return many;
}
