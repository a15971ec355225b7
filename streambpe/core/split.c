#include "characters.h"

unsigned character_class(table classes, place p, place end) {
    place next;
    return look(classes, p, end, &next);
}

/* Which small ASCII letter the character at `p` is, or with `folds` folds to; 0 if it is beyond ASCII and none of
   "sdmtlvre". */
static inline int folded(table classes, place p, place end, int folds, place *next) {
    if (p == end)
        return 0;
    unsigned class = look(classes, p, end, next);
    if (*p < 0x80)
        return folds ? *p | 0x20 : *p;
    return folds && class >> FOLD_SHIFT ? "?sdmtlvre"[class >> FOLD_SHIFT] : 0;
}

/* Past 's 't 'm 'd 'll 've 're at the apostrophe `p`, or NULL. */
static place contraction(table classes, place p, place end, int folds) {
    place after, last;
    int first = folded(classes, p + 1, end, folds, &after);
    if (!first)
        return NULL;
    if (first == 's' || first == 't' || first == 'm' || first == 'd')
        return after;
    if (first != 'l' && first != 'v' && first != 'r')
        return NULL;
    int second = folded(classes, after, end, folds, &last);
    return second == (first == 'l' ? 'l' : 'e') ? last : NULL;
}

/* White space: \s+(?!\S)|\s+ ; of several characters, the last one goes with what follows them. */
static place white(table classes, place p, place end) {
    place last = p, next;
    for (place q = p; q < end && look(classes, q, end, &next) & WHITE; q = next)
        last = q;
    look(classes, last, end, &next);
    return next == end || last == p ? next : last;
}

/* White space, up to its last line break if it has one: \s*[\r\n]+|\s+(?!\S)|\s+ */
static place white_lines(table classes, place p, place end) {
    place stop = run(classes, p, end, WHITE);
    for (place q = stop; q > p; q--) /* \n and \r are single bytes that are part of no other character */
        if (q[-1] == '\n' || q[-1] == '\r')
            return q;
    return white(classes, p, end);
}

/* '(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+ */
static place gpt2(table classes, place p, place end, split_memo *memo) {
    place start = p, next;
    (void)memo;
    if (*p == '\'' && (next = contraction(classes, p, end, 0)))
        return next;
    if (*p == ' ' && p + 1 < end)
        p++;
    unsigned class = look(classes, p, end, &next);
    if (class & LETTER)
        return run(classes, next, end, LETTER);
    if (class & NUMBER)
        return run(classes, next, end, NUMBER);
    if (class & REST)
        return run(classes, next, end, REST);
    return white(classes, start, end);
}

/* gpt4 and cl100k from their second branch on; `to_end`: \s++$ comes before \s*[\r\n] */
static inline place gpt4_or_cl100k(table classes, place p, place end, int to_end) {
    place next, after;
    if (*p == '\'' && (next = contraction(classes, p, end, 1)))
        return next;
    unsigned class = look(classes, p, end, &next);
    if (class & LETTER)
        return run(classes, next, end, LETTER);
    if (class & NUMBER)
        return run_most(classes, next, end, NUMBER, 2);
    if (class & LEAD && is(classes, next, end, LETTER))
        return run(classes, next, end, LETTER);
    if (*p == ' ' && next < end && look(classes, next, end, &after) & REST)
        class = REST;
    if (class & REST) {
        p = run(classes, next, end, REST);
        while (p < end && (*p == '\r' || *p == '\n'))
            p++;
        return p;
    }
    if (to_end && run(classes, p, end, WHITE) == end)
        return end;
    return white_lines(classes, p, end);
}

static place gpt4(table classes, place p, place end, split_memo *memo) {
    (void)memo;
    return gpt4_or_cl100k(classes, p, end, 0);
}

static place cl100k(table classes, place p, place end, split_memo *memo) {
    (void)memo;
    return gpt4_or_cl100k(classes, p, end, 1);
}

/*  ?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+ */
static place punct(table classes, place p, place end, split_memo *memo) {
    (void)memo;
    place start = p, next;
    unsigned class = look(classes, p, end, &next);
    if (class & NUMBER)
        return run_most(classes, next, end, NUMBER, 2);
    if (*p == ' ' && is(classes, next, end, LETTER | REST))
        class = look(classes, next, end, &next);
    if (class & LETTER)
        return run(classes, next, end, LETTER);
    if (class & REST) {
        p = run(classes, next, end, REST);
        while (p < end && (*p == '\r' || *p == '\n'))
            p++;
        return p;
    }
    return white_lines(classes, start, end);
}

/* The words of gpt4o from where their lead ends:  HEAD*TAIL+ , else  HEAD+TAIL* ; or NULL.

   HEAD* is greedy, and hands back what TAIL+ needs: of "ABm" (m a mark or a letter without case) nothing, TAIL takes
   the m; of "ABmCD" the chunk ends behind m. Without any such character in the run, it is the second form: all of
   "ABCD". */
static inline place cased_word(table classes, place p, place end) {
    place after_tail = NULL, next, q = p;
    unsigned class = 0;
    while (q < end && (class = look(classes, q, end, &next)) & HEAD) {
        if (class & TAIL)
            after_tail = next;
        q = next;
    }
    if (q < end && class & LOWER)
        return run(classes, q, end, TAIL);
    if (after_tail)
        return after_tail;
    return q > p ? q : NULL;
}

/* Whether the first form of a word, HEAD*TAIL+, matches at `p`. */
static inline int has_tail(table classes, place p, place end) {
    place next;
    unsigned class;
    for (; p < end && (class = look(classes, p, end, &next)) & (HEAD | LOWER); p = next)
        if (class & TAIL)
            return 1;
    return 0;
}

/* What gpt4o has besides words: \p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+ */
place gpt4o_rest(table classes, place p, place end) {
    place next;
    unsigned class = look(classes, p, end, &next);
    if (class & NUMBER)
        return run_most(classes, next, end, NUMBER, 2);
    if (*p == ' ' && is(classes, next, end, REST))
        class = REST;
    if (class & REST) {
        p = run(classes, next, end, REST);
        while (p < end && (*p == '\r' || *p == '\n' || *p == '/'))
            p++;
        return p;
    }
    return white_lines(classes, p, end);
}

/* gpt4o, and superbpe1, which is gpt4o without contractions */
static inline place gpt4o_or_superbpe1(table classes, place p, place end, int contracts) {
    place next, word = NULL;
    unsigned class = look(classes, p, end, &next);
    if (class & LETTER)
        word = cased_word(classes, p, end);
    else if (class & LEAD) {
        /* a mark leads a word if HEAD*TAIL+ matches behind it; else it is a word by itself, as a mark is a tail */
        if (class & MARK)
            word = has_tail(classes, next, end) ? cased_word(classes, next, end) : next;
        else
            word = cased_word(classes, next, end);
    }
    if (word) {
        place suffix;
        if (contracts && word < end && *word == '\'' && (suffix = contraction(classes, word, end, 1)))
            return suffix;
        return word;
    }
    return gpt4o_rest(classes, p, end);
}

static place gpt4o(table classes, place p, place end, split_memo *memo) {
    (void)memo;
    return gpt4o_or_superbpe1(classes, p, end, 1);
}

static place superbpe1(table classes, place p, place end, split_memo *memo) {
    (void)memo;
    return gpt4o_or_superbpe1(classes, p, end, 0);
}

/* Past a match of \p{N}{1,3}| ?[^\s\p{L}\p{N}]{2,}[\r\n/]*| +(?!\S) at `p`, or NULL. */
static place superbpe2_match(table classes, place p, place end) {
    place next, after;
    unsigned class = look(classes, p, end, &next);
    if (class & NUMBER)
        return run_most(classes, next, end, NUMBER, 2);
    place first = *p == ' ' ? p + 1 : p;
    if (is(classes, first, end, REST)) {
        look(classes, first, end, &after);
        if (is(classes, after, end, REST)) {
            p = run(classes, after, end, REST);
            while (p < end && (*p == '\r' || *p == '\n' || *p == '/'))
                p++;
            return p;
        }
    }
    if (*p != ' ')
        return NULL;
    for (after = p; after < end && *after == ' ';)
        after++;
    if (after == end || is(classes, after, end, WHITE))
        return after;
    return after - p > 1 ? after - 1 : NULL;
}

/* Chunks are the matches of superbpe2, and what lies between two of them. */
static place superbpe2(table classes, place p, place end, split_memo *memo) {
    (void)memo;
    place stop = superbpe2_match(classes, p, end);
    if (stop)
        return stop;
    do
        look(classes, p, end, &p);
    while (p < end && !superbpe2_match(classes, p, end));
    return p;
}

static place none(table classes, place p, place end, split_memo *memo) {
    (void)classes, (void)p, (void)memo;
    return end;
}

split_function split_preset(int preset) {
    static const split_function presets[] = {gpt2,       gpt4,        cl100k,    punct,           gpt4o,
                                             superbpe1,  boundless,   ultimate1, superbpe2,       word_level,
                                             spaceless,  spaceless_gpt4o, script_rule, whitespace, none};
    return preset >= 0 && preset < (int)(sizeof presets / sizeof *presets) ? presets[preset] : NULL;
}
