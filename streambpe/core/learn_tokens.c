/* Tokens: how they are spelled, how ties are decided, which are alive and what they are split into. See learn.h. */

/* ------------------------------------------------------------------ spellings */

/* A hash of a spelling, above 0: that of one part, on which that of a next part may go on. */
static uint32_t hash_on(uint32_t hash, const uint8_t *text, uint64_t length) {
    for (uint64_t i = 0; i < length; i++)
        hash = (hash ^ text[i]) * 0x01000193u;
    return hash;
}

static uint64_t spelled_at(const spellings *known, int64_t number, uint64_t *length) {
    uint64_t begin = number ? known->ends[number - 1] : 0;
    *length = known->ends[number] - begin;
    return begin;
}

/* The slot of the spelling that a and b make together, which has this key; free if there is none. */
static spelling_slot *spelling_at(const spellings *known, uint32_t key, const uint8_t *a, uint64_t a_size,
                                  const uint8_t *b, uint64_t b_size) {
    for (uint64_t at = mixed(key) & known->numbers.mask;; at = (at + 1) & known->numbers.mask) {
        spelling_slot *slot = known->numbers.slots + at;
        if (!slot->key)
            return slot;
        uint64_t length, begin = spelled_at(known, slot->number, &length);
        const uint8_t *text = known->text + begin;
        if (slot->key == key && length == a_size + b_size && !memcmp(text, a, a_size) && !memcmp(text + a_size, b, b_size))
            return slot;
    }
}

/* Room for `many` more strings, of so many bytes together. */
static int spell_room(learner *all, spellings *known, uint64_t many, uint64_t bytes) {
    uint64_t used = known->many ? known->ends[known->many - 1] : 0, size = known->numbers.mask + 1;
    many += (uint64_t)known->many;
    if (!budget_room(&all->budget, &known->text, &known->text_room, used + bytes + 1, 1) ||
        !budget_room(&all->budget, &known->ends, &known->room, many, sizeof *known->ends))
        return 0;
    if (known->numbers.slots && many * 2 < size)
        return 1;
    while (size < 64 || many * 2 >= size)
        size *= 2;
    return spelling_slots_size(&known->numbers, &all->budget, size);
}

/* Add the spelling of the next number, that of a and b together, for which there is room. Of equal spellings the last
   one is found; an empty one is never found. */
static void spell_add(spellings *known, const uint8_t *a, uint64_t a_size, const uint8_t *b, uint64_t b_size) {
    uint64_t used = known->many ? known->ends[known->many - 1] : 0;
    memcpy(known->text + used, a, a_size);
    memcpy(known->text + used + a_size, b, b_size);
    known->ends[known->many] = used + a_size + b_size;
    if (a_size + b_size) {
        uint32_t key = hash_on(hash_on(0, a, a_size), b, b_size) | 1;
        *spelling_at(known, key, a, a_size, b, b_size) = (spelling_slot){key, (int32_t)known->many};
    }
    known->many++;
}

/* The number that is spelled like these two tokens together, -1 if there is none. */
static int64_t learn_known(const learner *all, int32_t left, int32_t right, const spellings *in) {
    uint64_t a_size, b_size;
    const uint8_t *a = all->spelled.text + spelled_at(&all->spelled, left, &a_size);
    const uint8_t *b = all->spelled.text + spelled_at(&all->spelled, right, &b_size);
    if (!in->numbers.slots)
        return -1;
    const spelling_slot *slot = spelling_at(in, hash_on(hash_on(0, a, a_size), b, b_size) | 1, a, a_size, b, b_size);
    return slot->key ? slot->number : -1;
}

/* ------------------------------------------------------------------ ties */

static int compare_spellings(const learner *all, int32_t one, int32_t other) {
    uint64_t a_size, a = spelled_at(&all->spelled, one, &a_size);
    uint64_t b_size, b = spelled_at(&all->spelled, other, &b_size);
    return compare_bytes(all->spelled.text + a, a_size, all->spelled.text + b, b_size);
}

/* Less than 0 if pair `one` goes before `other` when both count the same. */
static int learn_tie(const learner *all, uint64_t one, uint64_t other) {
    int32_t a = left_of(one), b = left_of(other);
    if (a == b)
        a = right_of(one), b = right_of(other);
    if (a == b)
        return 0;
    if (all->rule.ties == TIES_BYTES)
        return compare_spellings(all, a, b);
    return all->tokens[a].order < all->tokens[b].order ? -1 : all->tokens[a].order > all->tokens[b].order;
}

/* TIES_PLACES: give the superword that was just chosen by this count its place in the order. 1 if it was a token before
   and comes earlier now. */
static int learn_placed(learner *all, int32_t id, int64_t n, int fresh) {
    if (all->rule.ties != TIES_PLACES)
        return 0;
    int64_t low = 0, high = all->rule.steps; /* word steps that count at least n */
    while (low < high) {
        int64_t middle = (low + high) / 2;
        if (all->rule.falling[middle] >= n)
            low = middle + 1;
        else
            high = middle;
    }
    if (low > all->rule.place)
        all->rule.place = low;
    int64_t order = (all->rule.place << 32) + ((int64_t)1 << 31) + all->rule.born;
    if (!fresh && order >= all->tokens[id].order)
        return 0;
    all->tokens[id].order = order;
    all->rule.born++;
    return !fresh;
}

/* ------------------------------------------------------------------ tokens */

/* Room for so many tokens. */
static int learn_tokens_room(learner *all, int64_t many) {
    uint64_t needed = (uint64_t)many;
    return budget_room(&all->budget, &all->tokens, &all->tokens_room, needed, sizeof *all->tokens) &&
           budget_room(&all->budget, &all->in_front, &all->front_room, needed, sizeof *all->in_front) &&
           budget_room(&all->budget, &all->behind, &all->behind_room, needed, sizeof *all->behind) &&
           budget_room(&all->budget, &all->touched, &all->touched_room, 2 * needed, sizeof *all->touched);
}

/* Make room for the tokens that these pairs would make, so that none of them is refused half way. */
static int learn_bear_room(learner *all, const int64_t *pairs, int64_t many) {
    uint64_t text = 0, length;
    for (int64_t i = 0; i < 2 * many; i++, text += length)
        spelled_at(&all->spelled, pairs[i], &length);
    return learn_tokens_room(all, all->told.next_id + many) && spell_room(all, &all->spelled, (uint64_t)many, text);
}

/* Add a new token, made of these two; its number is next_id - 1 afterwards. */
static int learn_bear(learner *all, int32_t left, int32_t right) {
    uint64_t a_size, a = spelled_at(&all->spelled, left, &a_size);
    uint64_t b_size, b = spelled_at(&all->spelled, right, &b_size);
    if (all->told.next_id == INT32_MAX) {
        all->budget.why = CORE_OVERFLOW;
        return 0;
    }
    if (!learn_tokens_room(all, all->told.next_id + 1) || !spell_room(all, &all->spelled, 1, a_size + b_size))
        return 0;
    spell_add(&all->spelled, all->spelled.text + a, a_size, all->spelled.text + b, b_size);
    int64_t id = all->told.next_id++;
    all->tokens[id].length = all->tokens[left].length + all->tokens[right].length;
    if (all->rule.kinds)
        all->tokens[id].kind = all->rule.becomes[all->tokens[left].kind * all->rule.kinds + all->tokens[right].kind];
    if (all->rule.lives) {
        all->tokens[id].size = all->tokens[left].size + all->tokens[right].size;
        all->tokens[id].first_pair = pair_key(left, right);
        all->tokens[id].alive = 1;
        all->tokens[id].count = 0;
        if (all->rule.splits)
            all->tokens[id].stands = (token_places){0, 0};
    }
    return 1;
}

/* Write the parts that a token which just died is split into; there is room for twice its size and two more. How many. */
static int64_t learn_parts(const learner *all, int32_t id, int32_t *parts) {
    int32_t *stack = parts + all->tokens[id].size + 1;
    int64_t many = 0, waiting = 0;
    stack[waiting++] = id;
    while (waiting) {
        int32_t part = stack[--waiting];
        if (!is_learned(all, part) || (all->rule.walk && all->tokens[part].alive)) {
            parts[many++] = part;
        } else {
            stack[waiting++] = right_of(all->tokens[part].first_pair);
            stack[waiting++] = left_of(all->tokens[part].first_pair);
        }
    }
    return many;
}
