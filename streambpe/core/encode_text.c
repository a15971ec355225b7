/* Documents to a stream of ids.

   A buffer is as in count.c: FF ends a document, FD or FE a run of one script. In the stream of ids, END_OF_TEXT stands
   behind every document:

       the cat FF the dog FF   ->   262 1042 -2 262 3290 -2

   A chunk of characters beyond ASCII is looked up in parts, cut wherever no token spans two of its characters: Chinese has
   few chunks that come twice, and few words that do not.

   Superwords: chunks that are one token each stay open as a run while the next may join the last; then the run is
   replayed by the rules of superwords. The first run of a block may have begun in the block before, and the last may go
   on in the block behind. With `hold` those two are given as log ids with WHOLE set; they are joined when both sides are
   known:

       |in|the|   |end|of|x|   ->   head in the (hold 1),  body "end of"  x

   Judge: streambpe/model/replay.py. */

enum { HOLD_FIRST = 1, HOLD_LAST = 2 };

/* Where a stream is written to. */
typedef struct {
    encoder *encoder;
    int32_t *out;
    int64_t n;
    int64_t run;   /* where the open run begins, or -1 */
    int64_t head;  /* ids of the run that is held at the front */
    int first;     /* nothing has ended a run yet, and the first run is held */
} writer;

static void hold_from(writer *to, int64_t from) {
    for (int64_t i = from; i < to->n; i++)
        to->out[i] |= WHOLE;
}

/* End the open run, if there is one: nothing joins across this place. */
static int end_run(writer *to) {
    int64_t run = to->run, first = to->first;
    to->first = 0;
    to->run = -1;
    if (run < 0)
        return CORE_OK;
    if (first) {
        hold_from(to, run);
        to->head = to->n;
        return CORE_OK;
    }
    const encode_model *model = &to->encoder->model;
    int64_t n = replay(&to->encoder->space, &model->super, to->out + run, to->n - run, model->window);
    if (n < 0)
        return (int)n;
    to->n = run + n;
    return name_ids(to->encoder, to->out + run, n);
}

/* Whether some superword holds these two side by side. */
static inline int borders(const encode_model *model, int32_t left, int32_t right) {
    return model->side[left] & 1 && model->side[right] & 2 && rule_slots_find(&model->borders.pairs, pair_key(left, right));
}

/* Take in a chunk whose `n` ids stand behind the stream. `whole`: it is one token that a superword may take up. */
static inline int put_chunk(writer *to, int64_t n, int whole) {
    const encode_model *model = &to->encoder->model;
    int error;
    if (!model->side) {
        to->n += n;
        return CORE_OK;
    }
    if (whole && to->run >= 0 && borders(model, to->out[to->n - 1], to->out[to->n])) {
        to->n++;
        return CORE_OK;
    }
    int64_t was = to->n;
    if (was || !whole) { /* the first chunk of all begins the run that may be held */
        if ((error = end_run(to)))
            return error;
        if (to->n < was)
            memmove(to->out + to->n, to->out + was, (size_t)n * sizeof *to->out);
    }
    was = to->n;
    to->n += n;
    if (whole) {
        to->run = was;
        return CORE_OK;
    }
    return name_ids(to->encoder, to->out + was, n);
}

static inline int put_end(writer *to) {
    int error = end_run(to);
    to->out[to->n++] = END_OF_TEXT;
    return error;
}

/* End the stream. parts: how many ids are held at the front, where those held at the end begin, whether anything ended
   a run. */
static int64_t end_stream(writer *to, int held, int64_t *parts) {
    int error = CORE_OK;
    int64_t last = to->n, closed = !to->first || !(held & HOLD_LAST);
    if (to->run >= 0 && held & HOLD_LAST) {
        if (to->first)
            to->head = to->n;
        else
            last = to->run;
        hold_from(to, to->run);
        to->run = -1;
    } else if (to->run >= 0) {
        error = end_run(to);
        last = to->n;
    }
    if (parts)
        parts[0] = to->head, parts[1] = last, parts[2] = closed;
    return error ? error : to->n;
}

/* So many chunks are split before the first is looked up, so that the cache's memory is fetched meanwhile. */
enum { CHUNKS_AHEAD = 32 };

/* Encode a buffer to out[0:], which has room for all its symbols, every END_OF_TEXT and CACHED_IDS more. Returns
   how many ids, or an error. CORE_CLASS: the text needs more pages of classes. They are marked as known now, and the
   caller must fill them before the next call. */
EXPORT int64_t encode_text(encoder *encoder, const uint8_t *text, int64_t size, int held, int32_t *out, int64_t *parts) {
    const encode_model *model = &encoder->model;
    split_function usual = split_preset(model->preset), other = model->special < 0 ? usual : split_preset(model->special);
    const uint8_t *p = text, *end = text + size;
    writer to = {encoder, out, 0, -1, 0, held & HOLD_FIRST && model->side};
    chunk_look looks[CHUNKS_AHEAD];
    int marked = model->preset == WHITESPACE, error = CORE_OK, whole;
    if (!usual || !other)
        return CORE_DAMAGED;
    if (pages_needed(text, size, encoder->pages))
        return CORE_CLASS;
    while (p < end) {
        const uint8_t *stop = text_end(p, end, model->special >= 0);
        split_function split = stop < end && *stop == SCRIPT_RUN_END ? other : usual;
        split_memo memo = {.digits = model->digits, .preset = split};
        split = model->digits ? cut_digits : split;
        const uint8_t *chunk = p, *after = p; /* of the chunk that is looked up in parts */
        while (p < stop) {
            int many = 0;
            while (p < stop && many < CHUNKS_AHEAD) {
                if (p == after)
                    after = split(model->classes, chunk = p, stop, &memo);
                const uint8_t *cut = model->sticks ? piece_end(model->sticks, p, after) : part_end(model, p, after);
                if (!marked || !is(model->classes, p, stop, SPACE)) {
                    chunk_at(encoder, p, (uint64_t)(cut - p), end, marked && p == chunk, looks + many);
                    looks[many].ends = model->sticks && cut == after;
                    looks[many++].part = cut < after || p > chunk;
                }
                p = cut;
            }
            for (int i = 0; i < many; i++) {
                int64_t n = chunk_ids(encoder, looks + i, out + to.n, &whole);
                if (n < 0 || (n = put_chunk(&to, n, whole && !looks[i].part)) < 0)
                    return n;
                if (looks[i].ends)
                    to.out[to.n++] = END_OF_TEXT;
            }
        }
        if (stop < end && *stop == DOCUMENT_END && !model->sticks && (error = put_end(&to)))
            return error;
        p = stop + (stop < end);
    }
    return end_stream(&to, held, parts);
}

/* Encode each chunk by itself; nothing is joined. Its ids follow those of the chunk before, and counts[i] says how many
   chunk i has. With superwords they are log ids, and WHOLE is set on a token that a superword may take up. */
EXPORT int64_t encode_chunks(encoder *encoder, const int64_t *offsets, const uint8_t *bytes, int64_t n, int32_t *out,
                             int64_t *counts) {
    int64_t written = 0;
    for (int64_t i = 0; i < n; i++) {
        int whole;
        chunk_look look;
        chunk_at(encoder, bytes + offsets[i], (uint64_t)(offsets[i + 1] - offsets[i]), bytes + offsets[n], 0, &look);
        counts[i] = chunk_ids(encoder, &look, out + written, &whole);
        if (counts[i] < 0)
            return counts[i];
        if (whole && encoder->model.side)
            out[written] |= WHOLE;
        written += counts[i];
    }
    return written;
}

/* Replay sequences of symbols in place. counts[i]: how many symbols sequence i has, and afterwards how many log ids.
   tally: NULL, or what counts the events, each sequence weights[i] times; for models without deletions. */
EXPORT int64_t encode_symbols(encoder *encoder, int32_t *symbols, int64_t *counts, int64_t n, event_tally *tally,
                              const int64_t *weights) {
    int64_t read = 0, written = 0;
    const pair_rules *rules = &encoder->model.chunk;
    for (int64_t i = 0; i < n; i++) {
        int64_t size = counts[i], made;
        if (written < read)
            memmove(symbols + written, symbols + read, (size_t)size * sizeof *symbols);
        for (int64_t j = written; j < written + size; j++)
            if (symbols[j] >= encoder->model.ids)
                return CORE_DAMAGED;
        if (tally)
            tally->weight = weights[i];
        if (tally && size > SHORT_SEQUENCE) {
            encoder->space.tally = tally;
            made = replay_long(&encoder->space, rules, symbols + written, size, size);
            encoder->space.tally = NULL;
        } else if (tally)
            made = replay_short(rules, symbols + written, size, tally);
        else
            made = replay(&encoder->space, rules, symbols + written, size, encoder->model.window);
        if (made < 0)
            return made;
        read += size;
        written += counts[i] = made;
    }
    return written;
}

/* Join the superwords of a stream of log ids, where WHOLE is set on those that superwords may take up, and write model
   ids; `held` and `parts` as in encode_text. */
EXPORT int64_t encode_joined(encoder *encoder, const int32_t *stream, int64_t n, int held, int32_t *out, int64_t *parts) {
    writer to = {encoder, out, 0, -1, 0, held & HOLD_FIRST && encoder->model.side};
    for (int64_t i = 0; i < n; i++) {
        int32_t id = stream[i];
        int whole = id >= WHOLE, error;
        if (id >= (whole ? WHOLE : 0) + encoder->model.ids)
            return CORE_DAMAGED;
        if (id == END_OF_TEXT)
            error = put_end(&to);
        else {
            out[to.n] = whole ? id - WHOLE : id;
            error = put_chunk(&to, 1, whole);
        }
        if (error)
            return error;
    }
    return end_stream(&to, held, parts);
}
