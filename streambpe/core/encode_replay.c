/* The events of a model on one sequence of symbols.

   Short sequences: every place waits for an event; the smallest event is made at its first place, and the places around
   it wait anew.

   Long sequences: the places that wait for one event are a list, and events are worked off in their order, so nothing
   is searched.

       0: n a -> na   1: a na -> ana        b a n a n a
                                            event 0: places 2, 4      b a na na
                                            event 1: place 1          b ana na      (place 2 is gone, 3 waits for nothing)

   That is done in windows, so that all of it stays in the processor's caches. A window is cut at a border across which
   nothing was ever joined. A stretch between two such borders ends as the same tokens whether it is replayed alone,
   with its neighbours, or in the whole sequence. So a cut holds for the whole sequence if the stretches on its left and
   on its right, replayed together, join nothing across it. If they do, or if a window has no such border, everything is
   done again in windows four times as large.

   By rules that go backwards, the smallest event of all that can be made is next, at all its places, even if it is
   smaller than those made before. What is said of cuts holds for them too: a stretch waits until its own next event is
   the smallest of all, and until then nothing in it changes.

   Judge: streambpe/model/replay.py. */

/* Fill an empty table with pairs, all different and half of `size` at most, and the first event of each; and the bits of
   `present`, which are 0. */
EXPORT void rules_fill(rule_slot *slots, uint8_t *present, int64_t size, const int32_t *left, const int32_t *right,
                       const int32_t *event, int64_t n) {
    rule_slots pairs = {slots, (uint64_t)size - 1, 0};
    for (int64_t i = 0; i < size; i++)
        slots[i] = (rule_slot){0, NEVER};
    for (int64_t i = 0; i < n; i++) {
        rule_slot *slot = rule_slots_at(&pairs, pair_key(left[i], right[i]));
        *slot = (rule_slot){pair_key(left[i], right[i]), event[i]};
        present[UPPER_BITS(slot->key) & pairs.mask] |= (uint8_t)(1 << (MIDDLE_BITS(slot->key) & 7));
    }
}

/* ------------------------------------------------------------------------------------------------------------- short */

static inline int32_t next_at(const pair_rules *rules, const int32_t *token, int64_t at, int64_t n, int32_t from) {
    int32_t event = at + 1 < n ? pair_event(rules, token[at], token[at + 1], from) : NEVER;
    if (rules->deletion) {
        int32_t other = deletion_event(rules, token[at], from);
        if (other < event)
            return other;
    }
    return event;
}

/* Count an event when its turn comes, and note for which events the places wait: their pairs stand there. */
static void tally_turn(event_tally *tally, const int32_t *waits, int64_t n, int32_t event) {
    for (int64_t i = 0; i < n; i++) {
        if (waits[i] != NEVER)
            tally->stood[waits[i]] = 1;
        if (waits[i] == event && !tally->disjoint)
            tally->n[event] += tally->weight;
    }
}

/* Replay token[0:n] in place, at most SHORT_SEQUENCE symbols. Returns how many tokens are left. */
static int64_t replay_short(const pair_rules *rules, int32_t *token, int64_t n, event_tally *tally) {
    int32_t waits[SHORT_SEQUENCE], best = -1;
    for (int64_t i = 0; i < n; i++)
        waits[i] = next_at(rules, token, i, n, 0);
    for (;;) {
        int32_t last = best;
        int64_t at = 0;
        best = NEVER;
        for (int64_t i = 0; i < n; i++)
            if (waits[i] < best)
                best = waits[i], at = i;
        if (best == NEVER)
            return n;
        for (int64_t i = 0; rules->backwards && i < n && best < last; i++)
            if (waits[i] == last) /* an event is made at all its places before an earlier one */
                best = last, at = i;
        if (tally && best != last)
            tally_turn(tally, waits, n, best);
        if (tally && tally->disjoint)
            tally->n[best] += tally->weight;
        int64_t parts = rules->deletion ? rules->into_at[best + 1] - rules->into_at[best] : 0;
        int64_t behind = n - at - (parts ? 1 : 2), made = parts ? parts : 1;
        memmove(token + at + made, token + n - behind, (size_t)behind * sizeof *token);
        memmove(waits + at + made, waits + n - behind, (size_t)behind * sizeof *waits);
        n = at + made + behind;
        if (parts)
            memcpy(token + at, rules->into + rules->into_at[best], (size_t)parts * sizeof *token);
        else
            token[at] = rules->made[best];
        for (int64_t i = at ? at - 1 : 0; i < at + made; i++)
            waits[i] = next_at(rules, token, i, n, rules->backwards ? 0 : best + 1);
    }
}

/* -------------------------------------------------------------------------------------------------------------- long */

/* Give the memory of a space back. */
static void replay_release(replay_space *space) {
    free(space->bits);
    *space = (replay_space){.limit = space->limit, .tally = space->tally};
}

/* Room for so many places and events. */
static int replay_reserve(replay_space *space, const pair_rules *rules, int64_t places) {
    if (places <= space->places && rules->events <= space->events)
        return CORE_OK;
    if (places < space->places)
        places = space->places;
    int64_t events = rules->events > space->events ? rules->events : space->events, words = events / 64 + 1;
    int64_t summary = words / 64 + 1;
    uint64_t bytes = (uint64_t)places * (11 * 4 + 1) + (uint64_t)(events + 1) * 4 + (uint64_t)(words + summary) * 8;
    replay_release(space);
    if (bytes > space->limit || places >= INT32_MAX / 2)
        return CORE_FULL;
    if (!(space->bits = calloc(1, bytes))) /* all others behind it */
        return CORE_NO_MEMORY;
    space->summary = space->bits + words;
    space->token = (int32_t *)(space->summary + summary);
    space->next = space->token + places;
    space->previous = space->next + places;
    space->stretch = space->previous + places;
    space->fresh = space->stretch + places;
    space->waits = space->fresh + places;
    space->after = space->waits + 2 * places;
    space->before = space->after + 2 * places;
    space->heads = space->before + 2 * places;
    space->crossed = (uint8_t *)(space->heads + events + 1);
    memset(space->heads, 0xFF, (size_t)(events + 1) * sizeof *space->heads);
    space->places = places, space->events = events;
    return CORE_OK;
}

static inline void wait_for(replay_space *space, int64_t node, int32_t event) {
    space->waits[node] = event;
    if (event == NEVER)
        return;
    int32_t head = space->heads[event];
    space->after[node] = head;
    space->before[node] = -1;
    if (head >= 0)
        space->before[head] = (int32_t)node;
    else {
        space->bits[event >> 6] |= (uint64_t)1 << (event & 63);
        space->summary[event >> 12] |= (uint64_t)1 << (event >> 6 & 63);
    }
    space->heads[event] = (int32_t)node;
}

static inline void wait_no_more(replay_space *space, int64_t node) {
    int32_t event = space->waits[node];
    if (event == NEVER)
        return;
    int32_t before = space->before[node], after = space->after[node];
    if (before >= 0)
        space->after[before] = after;
    else
        space->heads[event] = after;
    if (after >= 0)
        space->before[after] = before;
    space->waits[node] = NEVER;
}

/* The pair that begins at a place waits for its first event from `from` on. */
static inline void wait_at(replay_space *space, const pair_rules *rules, int32_t at, int32_t n, int32_t from) {
    int32_t next = space->next[at];
    wait_for(space, at, next < n ? pair_event(rules, space->token[at], space->token[next], from) : NEVER);
}

static inline void join_at(replay_space *space, const pair_rules *rules, int32_t at, int32_t n, int32_t event) {
    int32_t right = space->next[at], after = space->next[right], left = space->previous[at];
    int32_t from = rules->backwards ? 0 : event + 1;
    int64_t deletions = space->places;
    wait_no_more(space, at);
    wait_no_more(space, right);
    if (left >= 0)
        wait_no_more(space, left);
    if (space->tally)
        space->fresh[space->tally->made++] = at;
    space->token[at] = rules->made[event];
    space->crossed[right] = 1;
    space->next[at] = after;
    if (after < n)
        space->previous[after] = at;
    wait_at(space, rules, at, n, from);
    if (left >= 0)
        wait_at(space, rules, left, n, from);
    if (rules->deletion) {
        wait_no_more(space, deletions + at);
        wait_no_more(space, deletions + right);
        wait_for(space, deletions + at, deletion_event(rules, space->token[at], event + 1));
    }
}

static void split_at(replay_space *space, const pair_rules *rules, int32_t at, int32_t n, int32_t event) {
    int32_t after = space->next[at], left = space->previous[at], last = left, here = at;
    const int32_t *part = rules->into + rules->into_at[event], *end = rules->into + rules->into_at[event + 1];
    wait_no_more(space, at);
    wait_no_more(space, space->places + at);
    for (; part < end; part++) {
        space->token[here] = *part;
        space->previous[here] = last;
        if (last >= 0)
            space->next[last] = here;
        last = here;
        here += rules->sizes[*part];
    }
    space->next[last] = after;
    if (after < n)
        space->previous[after] = last;
    for (here = at; here != after; here = space->next[here]) {
        wait_at(space, rules, here, n, event + 1);
        wait_for(space, space->places + here, deletion_event(rules, space->token[here], event + 1));
    }
    if (left >= 0) {
        wait_no_more(space, left);
        wait_at(space, rules, left, n, event + 1);
    }
}

static inline void stands_at(const replay_space *space, int32_t at) {
    if (at >= 0 && space->waits[at] != NEVER)
        space->tally->stood[space->waits[at]] = 1;
}

/* An event was made at the places in `fresh`, and only now is it known which pairs it left there. */
static void tally_event(replay_space *space, int32_t event) {
    event_tally *tally = space->tally;
    tally->n[event] += tally->made * tally->weight;
    for (int64_t i = 0; i < tally->made; i++) {
        stands_at(space, space->fresh[i]);
        stands_at(space, space->previous[space->fresh[i]]);
    }
    tally->made = 0;
}

/* Make one event at all places that wait for it. In a run of one token beside itself, every second pair is joined, from
   the left. */
static void work_off(replay_space *space, const pair_rules *rules, int32_t n, int32_t event) {
    int32_t node, right;
    while ((node = space->heads[event]) >= 0) {
        if (node >= space->places) {
            split_at(space, rules, (int32_t)(node - space->places), n, event);
            continue;
        }
        int32_t same = space->token[node];
        if (space->token[space->next[node]] != same) {
            join_at(space, rules, node, n, event);
            continue;
        }
        while (space->previous[node] >= 0 && space->token[space->previous[node]] == same)
            node = space->previous[node];
        if (space->tally && !space->tally->disjoint) { /* of the pairs in a run, every second one is joined */
            int64_t longer = 0;
            for (right = space->next[node]; right < n && space->token[right] == same; right = space->next[right])
                longer++;
            space->tally->n[event] += longer / 2 * space->tally->weight;
        }
        do {
            join_at(space, rules, node, n, event);
            node = space->next[node];
            right = node < n ? space->next[node] : n;
        } while (right < n && space->token[node] == same && space->token[right] == same);
    }
}

/* Make all events on space->token[0:n]. */
static void work_off_all(replay_space *space, const pair_rules *rules, int32_t n) {
    for (int32_t i = 0; i < n; i++)
        space->next[i] = i + 1, space->previous[i] = i - 1, space->crossed[i] = 0;
    for (int32_t i = n; i-- > 0;)
        wait_at(space, rules, i, n, 0);
    if (rules->deletion)
        for (int32_t i = n; i-- > 0;)
            wait_for(space, space->places + i, deletion_event(rules, space->token[i], 0));
    for (int32_t i = 0; space->tally && i < n; i++)
        stands_at(space, i);
    for (int64_t high = 0; high <= rules->events >> 12;) {
        if (!space->summary[high]) {
            high++;
            continue;
        }
        int64_t word = high << 6 | __builtin_ctzll(space->summary[high]);
        if (!space->bits[word]) {
            space->summary[high] &= ~((uint64_t)1 << (word & 63));
            continue;
        }
        int bit = __builtin_ctzll(space->bits[word]);
        work_off(space, rules, n, (int32_t)(word << 6 | bit));
        if (space->tally)
            tally_event(space, (int32_t)(word << 6 | bit));
        space->bits[word] &= ~((uint64_t)1 << bit);
        if (rules->backwards)
            high = 0;
    }
}

enum { KEPT_PLACES = 1 << 16 }; /* larger space is given back when a sequence is done */

/* Replay any number of symbols, `window` of them at a time. Returns how many tokens are left, or an error. ENCODE_AGAIN:
   the tokens are lost, lay them out anew and take a window four times as large. */
static int64_t replay_long(replay_space *space, const pair_rules *rules, int32_t *token, int64_t n, int64_t window) {
    int64_t at = 0, written = 0, left = 0; /* `left`: symbols of the last stretch before `at`, in space->stretch */
    int error = replay_reserve(space, rules, n <= window ? n : 2 * window);
    if (error)
        return error;
    while (at < n) {
        int64_t size = n - at < window ? n - at : window, stop = size, first, last;
        memcpy(space->token, token + at, (size_t)size * sizeof *token);
        work_off_all(space, rules, (int32_t)size);
        if (at + size < n) {
            for (stop = size - size / 8; stop > size / 2 && space->crossed[stop]; stop--)
                ;
            if (stop <= size / 2)
                return ENCODE_AGAIN;
        }
        for (first = 1; first < stop && space->crossed[first]; first++)
            ;
        for (last = stop - 1; last > 0 && space->crossed[last]; last--)
            ;
        memcpy(space->stretch + left, token + at, (size_t)first * sizeof *token);
        memcpy(space->fresh, token + at + last, (size_t)(stop - last) * sizeof *token);
        for (int64_t p = 0; p < stop; p = space->next[p])
            token[written++] = space->token[p];
        if (at) {
            memcpy(space->token, space->stretch, (size_t)(left + first) * sizeof *token);
            work_off_all(space, rules, (int32_t)(left + first));
            if (space->crossed[left])
                return ENCODE_AGAIN;
        }
        left = stop - last;
        memcpy(space->stretch, space->fresh, (size_t)left * sizeof *token);
        at += stop;
    }
    if (space->places > KEPT_PLACES)
        replay_release(space);
    return written;
}

/* Replay any number of symbols; a copy of them is kept while a window may turn out too small. */
static int64_t replay(replay_space *space, const pair_rules *rules, int32_t *token, int64_t n, int64_t window) {
    if (n < 2)
        return n;
    if (n <= SHORT_SEQUENCE)
        return replay_short(rules, token, n, NULL);
    uint64_t bytes = (uint64_t)n * sizeof *token;
    int32_t *copy = NULL;
    int64_t made;
    if (n > window) {
        if (bytes > space->limit)
            return CORE_FULL;
        if (!(copy = malloc(bytes)))
            return CORE_NO_MEMORY;
        memcpy(copy, token, bytes);
    }
    for (; (made = replay_long(space, rules, token, n, window)) == ENCODE_AGAIN; window *= 4)
        memcpy(token, copy, bytes); /* there is a copy: what fits one window is never done again */
    free(copy);
    return made;
}
