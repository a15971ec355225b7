/* What a learner starts from, and taking out its words. See learn.h. */

EXPORT void learner_free(learner *all) {
    if (!all)
        return;
    learn_drop_index(all);
    void *arrays[] = {
        all->token, all->heft, all->weight, all->tokens, all->in_front, all->behind,
        all->touched, all->banned.slots, all->deleted[0].parts, all->deleted[1].parts, all->spelled.text, all->spelled.ends,
        all->spelled.numbers.slots, all->blocked.text, all->blocked.ends, all->blocked.numbers.slots,
    };
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        free(arrays[i]);
    free(all);
}

EXPORT learner *learner_new(uint64_t limit, const learn_rule *rule) {
    learner *all = calloc(1, sizeof *all);
    if (!all)
        return NULL;
    all->budget.limit = limit;
    all->rule = *rule;
    all->enough = INT64_MAX;
    if (key_counts_size(&all->banned, &all->budget, FIRST_PAIRS))
        return all;
    free(all);
    return NULL;
}

/* Add tokens that are known, base symbols first; token i is spelled text[ends[i - 1]..ends[i]]. `order` is only for
   TIES_PLACES, `kind` only if there are kinds; count, first pair and alive are only for learned ones, with deletions. */
EXPORT int learner_tokens(learner *all, int64_t many, const uint8_t *text, const uint64_t *ends, const int64_t *length,
                          const int64_t *order, const int64_t *count, const int64_t *first_pair, const uint8_t *alive,
                          const uint8_t *kind) {
    if (!learn_tokens_room(all, all->told.next_id + many))
        return all->budget.why;
    for (int64_t i = 0; i < many; i++, all->told.next_id++) {
        uint64_t begin = i ? ends[i - 1] : 0;
        int64_t id = all->told.next_id, learned = id - all->rule.first_id;
        if (!spell_room(all, &all->spelled, 1, ends[i] - begin))
            return all->budget.why;
        spell_add(&all->spelled, text + begin, ends[i] - begin, text, 0);
        all->tokens[id].length = length[i];
        if (all->rule.ties == TIES_PLACES)
            all->tokens[id].order = order[i];
        if (all->rule.kinds && kind[i] >= all->rule.kinds)
            return CORE_DAMAGED;
        if (all->rule.kinds)
            all->tokens[id].kind = kind[i];
        if (!all->rule.lives)
            continue;
        all->tokens[id].size = 1;
        all->tokens[id].alive = 1;
        if (learned < 0)
            continue;
        int64_t left = first_pair[2 * learned], right = first_pair[2 * learned + 1];
        if (left < 0 || left >= id || right < 0 || right >= id)
            return CORE_DAMAGED;
        all->tokens[id].size = all->tokens[left].size + all->tokens[right].size;
        all->tokens[id].first_pair = pair_key((int32_t)left, (int32_t)right);
        all->tokens[id].count = count[learned];
        all->tokens[id].alive = alive[learned];
        all->told.dead += !alive[learned];
    }
    return CORE_OK;
}

EXPORT int learner_block(learner *all, const uint8_t *text, int64_t length) {
    if (!spell_room(all, &all->blocked, 1, (uint64_t)length))
        return all->budget.why;
    spell_add(&all->blocked, text, (uint64_t)length, text, 0);
    return CORE_OK;
}

/* Make room for so many words and their places: one for each symbol, or with splits one for each of its base symbols
   (the separators between words come on top). */
EXPORT int learner_room(learner *all, int64_t places, int64_t words) {
    uint64_t room = 0, same = 0, needed = (uint64_t)places + (uint64_t)words + 1;
    if (needed > INT32_MAX)
        return CORE_FULL;
    if (!budget_room(&all->budget, &all->token, &room, needed, sizeof *all->token) ||
        !budget_room(&all->budget, &all->heft, &same, needed, sizeof *all->heft) ||
        !budget_room(&all->budget, &all->weight, &all->words_room, (uint64_t)words + 1, sizeof *all->weight))
        return all->budget.why;
    all->room = needed;
    all->places = 1;
    all->token[0] = SEPARATOR;
    all->heft[0] = 0;
    return CORE_OK;
}

/* The number of a weight, for which there is room. */
static int32_t number_weight(learner *all, int64_t weight) {
    int32_t *shared = weight >= 0 && weight < SHARED_WEIGHTS ? all->shared + weight : NULL;
    if (shared && *shared)
        return *shared;
    all->weight[++all->weights] = weight;
    if (shared)
        *shared = (int32_t)all->weights;
    return (int32_t)all->weights;
}

/* Add words, for which there must be room; those of fewer than `shortest` symbols are left out. */
EXPORT int learner_words(learner *all, int64_t many, const int32_t *symbols, const int64_t *offsets,
                         const int64_t *weights, int64_t shortest) {
    for (int64_t i = 0; i < many; i++) {
        if (offsets[i + 1] - offsets[i] < shortest)
            continue;
        if (all->words + 1 >= all->words_room)
            return CORE_DAMAGED;
        int32_t heft = number_weight(all, weights[i]);
        for (int64_t at = offsets[i] - offsets[0]; at < offsets[i + 1] - offsets[0]; at++) {
            int32_t id = symbols[at];
            uint32_t width = id >= 0 && id < all->told.next_id ? (all->rule.splits ? (uint32_t)all->tokens[id].size : 1) : 0;
            if (!width || all->places + width >= all->room)
                return CORE_DAMAGED;
            for (uint32_t k = 0; k < width; k++) {
                all->token[all->places + k] = COVERED;
                all->heft[all->places + k] = heft;
            }
            put_token(all, all->places, id, width);
            all->places += width;
        }
        if (all->places >= all->room)
            return CORE_DAMAGED;
        all->words++;
        all->heft[all->places] = heft;
        all->token[all->places++] = SEPARATOR;
    }
    return CORE_OK;
}

/* Write the words as they are now, from place `from` on (0 at first): as many whole words as fit into `room` symbols
   and `most` words. told: symbols, words, where to go on (0: that was all). Returns 0, or the length of the first word
   if not even that fits. */
EXPORT int64_t learner_take(const learner *all, int64_t from, int64_t room, int64_t most, int32_t *symbols,
                            int64_t *offsets, int64_t *weights, int64_t *told) {
    int64_t many = 0, words = 0, length;
    uint64_t at = (uint64_t)from + 1, next;
    offsets[0] = 0;
    for (told[2] = 0; at < all->places; at = next + 1) {
        for (next = at, length = 0; all->token[next] != SEPARATOR; next += width_at(all, next), length++)
            if (many + length < room)
                symbols[many + length] = all->token[next];
        if (many + length > room || words == most) {
            if (!words)
                return length;
            told[2] = (int64_t)at - 1;
            break;
        }
        many += length;
        weights[words++] = weight_at(all, next);
        offsets[words] = many;
    }
    told[0] = many;
    told[1] = words;
    return 0;
}

/* With deletions: how often each learned token stands. */
EXPORT void learner_token_counts(const learner *all, int64_t *count) {
    for (int64_t id = all->rule.first_id; id < all->told.next_id; id++)
        count[id - all->rule.first_id] = all->tokens[id].count;
}
