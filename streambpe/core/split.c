/* Where chunks end: one function for each preset, written from its expression.

   A text is one document, or a stretch of one that begins and ends at borders which are certain (CERTAIN_BORDER in
   streambpe/text/patterns.py). Characters are told apart by a table with one 16-bit entry for each, which Python fills
   from the installed `regex` module: one bit for the category, and in the top four bits the letter of a contraction
   that the character folds to.

       gpt4o over "I'll go  now":     I'll | go | |_now        (|_ for the chunk of one blank before " now")

   Judge: the `regex` module (tests/text/test_chunker.py): all of Unicode, hostile text, every pair and triple of
   classes. */

enum {
    UPPER = 1,     /* \p{Lu} */
    TITLE = 2,     /* \p{Lt} */
    LOWER = 4,     /* \p{Ll} */
    CASELESS = 8,  /* \p{Lm} \p{Lo} */
    MARK = 16,     /* \p{M} */
    NUMBER = 32,   /* \p{N} */
    SYMBOL = 64,   /* \p{P} \p{S} */
    SPACE = 128,   /* \s but for those of BREAK */
    BREAK = 256,   /* \r \n */
    OTHER = 512,   /* none of these: controls, unassigned */
    PICTURE = 1024, /* besides its category: \p{Extended_Pictographic} */
    JOINER = 2048,  /* besides its category: U+200D */
    TAKES_SPACE = 1 << 14, INHERITED = 1 << 15, /* in the table of script_rule: bits above the number of the group */
    FOLD_SHIFT = 12
};

/* Marks: no UTF-8 text has these bytes (streambpe/text/marks.py). */
enum { RUN_END = 0xFD, SCRIPT_RUN_END = 0xFE, DOCUMENT_END = 0xFF };

/* What the split of a document remembers between its chunks; all zero but for the first two when one begins. */
typedef struct split_memo {
    int digits; /* of a number in one chunk, at most; 0: as many as the preset says (binding.py has the names) */
    const uint8_t *(*preset)(const uint16_t *, const uint8_t *, const uint8_t *, struct split_memo *);
    const uint8_t *next;    /* where a number goes on */
    int64_t units;          /* how many units of it are left there, each a digit with its marks */
    int64_t marked[3];      /* by this number's remainder: how many were left at the last unit with a mark, or 0 */
    const uint8_t *letters; /* where the stretch of letters that was looked at last ends */
    struct own_state *own;  /* of a pattern of the user's own (split_own.c) */
} split_memo;

/* The end of the chunk that begins at `p`, which stands before `end`. */
typedef const uint8_t *split_rule(const uint16_t *classes, const uint8_t *p, const uint8_t *end, split_memo *memo);
typedef split_rule *split_function;

enum { WHITESPACE = 13 }; /* the preset whose white space is no chunk, and whose words get a mark before them */

/* Where the text from `p` on ends: at the next mark, or the end of the buffer. */
static inline const uint8_t *text_end(const uint8_t *p, const uint8_t *end, int has_runs) {
    const uint8_t *mark;
    if (!has_runs)
        return (mark = memchr(p, DOCUMENT_END, (size_t)(end - p))) ? mark : end;
    while (p < end && *p < RUN_END)
        p++;
    return p;
}

enum {
    LETTER = UPPER | TITLE | LOWER | CASELESS,
    WHITE = SPACE | BREAK,
    REST = MARK | SYMBOL | OTHER,               /* [^\s\p{L}\p{N}] */
    HEAD = UPPER | TITLE | CASELESS | MARK,     /* gpt4o: what a word may begin with */
    TAIL = LOWER | CASELESS | MARK,             /* and end with */
    LEAD = SPACE | REST                         /* [^\r\n\p{L}\p{N}] */
};

typedef const uint8_t *place;
typedef const uint16_t *class_table;

/* The class of the character at `p`, and where the next one begins. */
static inline __attribute__((always_inline)) unsigned look(class_table classes, place p, place end, place *next) {
    if (*p < 0x80) {
        *next = p + 1;
        return classes[*p];
    }
    uint32_t point = utf8_point(p, end, next);
    return point < NO_POINT ? classes[point] : OTHER;
}

/* Past the letters a to z, with `folds` also A to Z, as far as eight bytes can be read at a time: up to the first other
   byte, or to less than eight bytes before the end.

   Without its highest bit, a byte from 'a' on plus 1F has that bit set, and one behind 'z' has it set plus 05; none
   carries into the next byte. Bit 5 makes a capital small, and nothing else a letter. */
static inline place ascii_letters(place p, place end, int folds) {
    const uint64_t ones = 0x0101010101010101ull;
    uint64_t eight, low, others;
    for (; end - p >= 8; p += 8) {
        memcpy(&eight, p, 8);
        low = (eight | (folds ? ones * 0x20 : 0)) & ones * 0x7F;
        if ((others = (~(low + ones * 0x1F) | (low + ones * 0x05) | eight) & ones * 0x80))
            return p + __builtin_ctzll(others) / 8;
    }
    return p;
}

/* Past all characters of the classes in `set`. */
static inline __attribute__((always_inline)) place run(class_table classes, place p, place end, unsigned set) {
    place next;
    if (set & LOWER)
        p = ascii_letters(p, end, set & UPPER);
    while (p < end) {
        if (*p < 0x80) {
            if (!(classes[*p] & set))
                return p;
            p++;
        } else {
            if (!(look(classes, p, end, &next) & set))
                return p;
            p = next;
        }
    }
    return p;
}

/* Past at most `most` characters of these classes. */
static inline place run_most(class_table classes, place p, place end, unsigned set, int most) {
    place next;
    while (most-- && p < end && look(classes, p, end, &next) & set)
        p = next;
    return p;
}

static inline int is(class_table classes, place p, place end, unsigned set) {
    place next;
    return p < end && look(classes, p, end, &next) & set;
}

/* Which small ASCII letter the character at `p` is, or with `folds` folds to; 0 if it is beyond ASCII and none of
   "sdmtlvre". */
static inline int folded(class_table classes, place p, place end, int folds, place *next) {
    if (p == end)
        return 0;
    unsigned class = look(classes, p, end, next);
    if (*p < 0x80)
        return folds ? *p | 0x20 : *p;
    return folds && class >> FOLD_SHIFT ? "?sdmtlvre"[class >> FOLD_SHIFT] : 0;
}

/* Past 's 't 'm 'd 'll 've 're at the apostrophe `p`, or NULL. */
static place contraction(class_table classes, place p, place end, int folds) {
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
static place white(class_table classes, place p, place end) {
    place last = p, next;
    for (place q = p; q < end && look(classes, q, end, &next) & WHITE; q = next)
        last = q;
    look(classes, last, end, &next);
    return next == end || last == p ? next : last;
}

/* White space, up to its last line break if it has one: \s*[\r\n]+|\s+(?!\S)|\s+ */
static place white_lines(class_table classes, place p, place end) {
    place stop = run(classes, p, end, WHITE);
    for (place q = stop; q > p; q--) /* \n and \r are single bytes that are part of no other character */
        if (q[-1] == '\n' || q[-1] == '\r')
            return q;
    return white(classes, p, end);
}

/* [^\s\p{L}\p{N}]*[\r\n]* , or with `slash` [^\s\p{L}\p{N}]*[\r\n/]* */
static inline place symbols(class_table classes, place p, place end, int slash) {
    p = run(classes, p, end, REST);
    while (p < end && (*p == '\r' || *p == '\n' || (slash && *p == '/')))
        p++;
    return p;
}

/* What there is besides words: \p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+ */
static inline place no_word(class_table classes, place p, place end, int slash) {
    place next;
    unsigned class = look(classes, p, end, &next);
    if (class & NUMBER)
        return run_most(classes, next, end, NUMBER, 2);
    if (class & REST || (*p == ' ' && is(classes, next, end, REST)))
        return symbols(classes, next, end, slash);
    return white_lines(classes, p, end);
}

/* '(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+ */
static place gpt2(class_table classes, place p, place end, split_memo *memo) {
    place start = p, next;
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
static inline place gpt4_or_cl100k(class_table classes, place p, place end, int to_end) {
    place next;
    if (*p == '\'' && (next = contraction(classes, p, end, 1)))
        return next;
    unsigned class = look(classes, p, end, &next);
    if (class & LETTER)
        return run(classes, next, end, LETTER);
    if (class & LEAD && is(classes, next, end, LETTER))
        return run(classes, next, end, LETTER);
    if (to_end && run(classes, p, end, WHITE) == end)
        return end;
    return no_word(classes, p, end, 0);
}

static place gpt4(class_table classes, place p, place end, split_memo *memo) {
    return gpt4_or_cl100k(classes, p, end, 0);
}

static place cl100k(class_table classes, place p, place end, split_memo *memo) {
    return gpt4_or_cl100k(classes, p, end, 1);
}

/*  ?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+ */
static place punct(class_table classes, place p, place end, split_memo *memo) {
    place word = *p == ' ' ? p + 1 : p;
    if (is(classes, word, end, LETTER))
        return run(classes, word, end, LETTER);
    return no_word(classes, p, end, 0);
}

/* The words of gpt4o from where their lead ends:  HEAD*TAIL+ , else  HEAD+TAIL* ; or NULL. Characters of `joiner` are
   part of both.

   HEAD* is greedy, and hands back what TAIL+ needs: of "ABm" (m a mark or a letter without case) nothing, TAIL takes
   the m; of "ABmCD" the chunk ends behind m. Without any such character in the run, it is the second form: all of
   "ABCD". */
static inline place cased_word(class_table classes, place p, place end, unsigned joiner) {
    place after_tail = NULL, next, q = p;
    unsigned class = 0;
    while (q < end && (class = look(classes, q, end, &next)) & (HEAD | joiner)) {
        if (class & (TAIL | joiner))
            after_tail = next;
        q = next;
    }
    if (q < end && class & LOWER)
        return run(classes, q, end, TAIL | joiner);
    if (after_tail)
        return after_tail;
    return q > p ? q : NULL;
}

/* Whether the first form of a word, HEAD*TAIL+, matches at `p`. */
static inline int has_tail(class_table classes, place p, place end) {
    place next;
    unsigned class;
    for (; p < end && (class = look(classes, p, end, &next)) & (HEAD | LOWER); p = next)
        if (class & TAIL)
            return 1;
    return 0;
}

/* gpt4o, and superbpe1, which is gpt4o without contractions */
static inline place gpt4o_or_superbpe1(class_table classes, place p, place end, int contracts) {
    place next, word = NULL;
    unsigned class = look(classes, p, end, &next);
    if (class & LETTER)
        word = cased_word(classes, p, end, 0);
    else if (class & LEAD) {
        /* a mark leads a word if HEAD*TAIL+ matches behind it; else it is a word by itself, as a mark is a tail */
        if (class & MARK)
            word = has_tail(classes, next, end) ? cased_word(classes, next, end, 0) : next;
        else
            word = cased_word(classes, next, end, 0);
    }
    if (word) {
        place suffix;
        if (contracts && word < end && *word == '\'' && (suffix = contraction(classes, word, end, 1)))
            return suffix;
        return word;
    }
    return no_word(classes, p, end, 1);
}

static place gpt4o(class_table classes, place p, place end, split_memo *memo) {
    return gpt4o_or_superbpe1(classes, p, end, 1);
}

static place superbpe1(class_table classes, place p, place end, split_memo *memo) {
    return gpt4o_or_superbpe1(classes, p, end, 0);
}

/* Past a match of \p{N}{1,3}| ?[^\s\p{L}\p{N}]{2,}[\r\n/]*| +(?!\S) at `p`, or NULL. */
static place superbpe2_match(class_table classes, place p, place end) {
    place next, after;
    unsigned class = look(classes, p, end, &next);
    if (class & NUMBER)
        return run_most(classes, next, end, NUMBER, 2);
    place first = *p == ' ' ? p + 1 : p;
    if (is(classes, first, end, REST)) {
        look(classes, first, end, &after);
        if (is(classes, after, end, REST))
            return symbols(classes, after, end, 1);
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
static place superbpe2(class_table classes, place p, place end, split_memo *memo) {
    place stop = superbpe2_match(classes, p, end);
    if (stop)
        return stop;
    do {
        look(classes, p, end, &p);
        p = run(classes, p, end, LETTER); /* nothing matches before a letter */
    } while (p < end && !superbpe2_match(classes, p, end));
    return p;
}

static place none(class_table classes, place p, place end, split_memo *memo) {
    return end;
}
