/* Patterns of the user's own, as programs: what find-all does with an expression (streambpe/text/program.py makes them).

   A program is tried step by step at one place. Where two ways are open, the one that comes later is put down with its
   place, and taken up when a step fails; so the first match is found that the expression prefers. Characters are known
   by the sets of the program that hold them, one bit for each.

       \s+(?!\S)|\s over "a   b":   TIMES takes three blanks, where (?!\S) fails; one step back it holds: two blanks

   Judge: the `regex` module (tests/text/test_program.py). */

enum { ONE, TIMES, EITHER, GO, OPEN, CLOSE, FAIL, BACK, AT, DONE };
enum { AT_START, AT_END, AT_LAST_LINE };
enum { MOST_WAYS = 1 << 21, FIRST_WAYS = 64 }; /* 64 MB of them in a thread, at most */

typedef struct own_step {
    int64_t op, a, b;
    uint64_t set, other; /* of sets: what a character has to be in; of EITHER, what each way may begin with */
} own_step;

/* A way that is left: at step `at`, from any place between `low` and `p` where a repetition may end earlier. `fence`:
   what is put down behind it is given up when the part in brackets has matched; `at` is then NULL, or where to go on if
   it does not match. */
typedef struct own_way {
    const own_step *at;
    place p, low;
    int fence;
} own_way;

typedef struct own_state {
    const own_step *program;
    const uint64_t *sets; /* of each kind of character */
    int64_t steps, left;  /* that it may take for a text, and has left */
    int gaps, is_gap;     /* whether what it leaves is a chunk; whether this is such a one */
    int skips;            /* whether some chunks are none */
    place start;          /* of the text */
    own_way *ways;
    int64_t used, room;
} own_state;

/* Past the fence that was put down last; what was put down since is given up. */
static own_way *last_fence(own_state *state) {
    while (!state->ways[--state->used].fence) {
    }
    return state->ways + state->used;
}

/* Put a way down. 0: there is no room. */
static int put_way(own_state *state, own_way way) {
    if (state->used == state->room) {
        int64_t room = state->room ? 2 * state->room : FIRST_WAYS;
        own_way *ways = room > MOST_WAYS ? NULL : realloc(state->ways, (size_t)room * sizeof *ways);
        if (!ways)
            return 0;
        state->ways = ways;
        state->room = room;
    }
    state->ways[state->used++] = way;
    return 1;
}

static inline place one_back(place p) {
    do
        p--;
    while ((*p & 0xC0) == 0x80);
    return p;
}

/* Where the match at `p` ends; NULL: there is none, or no steps or no room are left. */
static place own_match(class_table kinds, place p, place end, own_state *state) {
    const own_step *step = state->program;
    const uint64_t *sets = state->sets;
    place next = p, low;
    state->used = 0;
    for (;;) {
        int failed = 0, room = 1;
        uint64_t here;
        if (--state->left < 0)
            return NULL;
        switch (step->op) {
        case ONE:
            if (!(failed = p == end || !(sets[look(kinds, p, end, &next)] & step->set)))
                p = next, step++;
            break;
        case TIMES: /* at least a, at most b; set `other`: as many as there are, and no fewer later */
            low = step->a ? NULL : p;
            int64_t n = 0;
            for (; n < step->b && p < end && sets[look(kinds, p, end, &next)] & step->set; p = next)
                if (++n == step->a)
                    low = next;
            state->left -= n;
            if (!(failed = !low)) {
                room = step->other || p == low || put_way(state, (own_way){step + 1, p, low, 0});
                step++;
            }
            break;
        case EITHER:
            here = p < end ? sets[look(kinds, p, end, &next)] : (uint64_t)1 << 63;
            if (here & step->set) {
                room = !(here & step->other) || put_way(state, (own_way){state->program + step->b, p, p, 0});
                step = state->program + step->a;
            } else if (!(failed = !(here & step->other)))
                step = state->program + step->b;
            break;
        case GO:
            step = state->program + step->a;
            break;
        case OPEN: /* a: where to go on if what is in brackets does not match; 0: nowhere */
            room = put_way(state, (own_way){step->a ? state->program + step->a : NULL, p, p, 1});
            step++;
            break;
        case CLOSE: /* a: it was only looked at */
            low = last_fence(state)->p;
            p = step->a ? low : p;
            step++;
            break;
        case FAIL:
            last_fence(state);
            failed = 1;
            break;
        case BACK:
            for (int64_t n = step->a; n-- && !failed;)
                if (!(failed = p == state->start))
                    p = one_back(p);
            step++;
            break;
        case AT:
            failed = !(step->a == AT_START ? p == state->start
                                           : p == end || (step->a == AT_LAST_LINE && *p == '\n' && p + 1 == end));
            step++;
            break;
        default:
            return p;
        }
        if (!room)
            state->left = -1;
        while (failed) {
            if (!state->used)
                return NULL;
            own_way *way = state->ways + state->used - 1;
            if (way->p > way->low)
                way->p = one_back(way->p);
            p = way->p;
            step = way->at;
            state->used -= p == way->low;
            failed = !step;
        }
    }
}

/* A text begins at `p`, or goes on there. */
static __attribute__((noinline)) void begin_own(own_state *state, place p, place text) {
    state->left = state->steps;
    while (p > text && p[-1] < RUN_END)
        p--;
    state->start = p;
}

/* A match at `p`; or what lies before the next one, which is no chunk if the program leaves it out. */
static place own(class_table kinds, place p, place end, split_memo *memo) {
    own_state *state = memo->own;
    place stop = own_match(kinds, p, end, state);
    state->is_gap = !stop;
    if (stop)
        return stop;
    do
        look(kinds, p, end, &p);
    while (p < end && state->left >= 0 && !own_match(kinds, p, end, state));
    return p;
}
