/* The presets that treat apostrophes, marks, emoji and scripts in ways of their own; see split.c. */

enum { GROUPED = 4 }; /* of `digits` in the memo */

/* (?:\p{N}\p{M}*){1,3}(?=(?:(?:\p{N}\p{M}*){3})*(?:\P{N}\p{M}*|$)): threes counted from the end of the number.

   Without marks 1234567 is 1 234 567. A mark is no number, so the look-ahead may also end before one. Let u1 u2 ... be
   the units of a number, each a digit with its marks. Chunks of j = 3, 2, 1 units are tried. j holds if a multiple of
   three units is left, or if one of u(j+3), u(j+6) ... has a mark. If uj itself has one, the chunk ends before its last
   mark. With `mark` 0, marks are no part of a number: \p{N}{1,3}(?=(?:\p{N}{3})*(?:\P{N}|$)) */
static place grouped_number(class_table classes, place p, place end, unsigned mark, split_memo *memo) {
    place stops[3], next, q = p;
    int marked[3], first;
    if (p != memo->next || !memo->units) { /* a number begins: its units are counted once, not by each chunk */
        int64_t last[3] = {-1, -1, -1}, units = 0; /* by the remainder of its place: the last unit with a mark */
        for (; q < end && look(classes, q, end, &next) & NUMBER; units++)
            if ((q = run(classes, next, end, mark)) > next)
                last[units % 3] = units;
        memo->units = units;
        memset(memo->marked, 0, sizeof memo->marked);
        for (int i = 0; i < 3; i++)
            if (last[i] >= 0)
                memo->marked[(units - last[i]) % 3] = units - last[i];
    }
    int64_t left = memo->units;
    for (first = 0, q = p; first < 3 && first < left; first++) {
        look(classes, q, end, &next);
        q = stops[first] = run(classes, next, end, mark);
        marked[first] = q > next;
    }
    for (int j = first; j > 0; j--) {
        int64_t later = memo->marked[(left - j + 1) % 3];
        int holds = (left - j) % 3 == 0 || (later && later <= left - 3);
        if (!holds && !marked[j - 1])
            continue;
        memo->units = left - j;
        memo->next = next = stops[j - 1];
        if (!holds)
            do /* the last mark begins the chunk behind this one */
                next--;
            while ((*next & 0xC0) == 0x80);
        return next;
    }
    return stops[0]; /* not reached: some j leaves a multiple of three */
}

/* boundless; in ultimate1 symbols take no space before them */
static inline place boundless_or_ultimate1(class_table classes, place p, place end, int spaced, split_memo *memo) {
    place next, after, word = p;
    if (*p == ' ' && is(classes, p + 1, end, LETTER))
        word = p + 1;
    unsigned class = look(classes, word, end, &next);
    if (class & LETTER) {
        if (!memo->letters || memo->letters <= word) /* the end of a long word is looked for once, not by each chunk */
            memo->letters = run(classes, next, end, LETTER | MARK);
        place stop = memo->letters;
        place tick = NULL; /* where letters go on behind an apostrophe */
        if (stop < end && *stop == '\'')
            tick = stop + 1;
        else if (end - stop >= 3 && !memcmp(stop, "\xE2\x80\x99", 3))
            tick = stop + 3;
        if (tick && is(classes, tick, end, LETTER))
            return run(classes, tick, end, LETTER | MARK);
        if (class & UPPER) {
            place last = word; /* the last capital of the run, which begins another word if a small letter follows */
            after = word;
            while (after < end && look(classes, after, end, &next) & UPPER) {
                last = after;
                after = run(classes, next, end, MARK);
            }
            if (!is(classes, after, end, LOWER))
                return after;
            return last > word ? last : run(classes, after, end, LOWER | MARK);
        }
        return run(classes, next, end, class & LOWER ? LOWER | MARK : TITLE | CASELESS | MARK);
    }
    if (*p == '_' && is(classes, p + 1, end, LOWER))
        return run(classes, p + 1, end, LOWER | MARK);
    class = look(classes, p, end, &next);
    if (class & NUMBER)
        return grouped_number(classes, p, end, MARK, memo);
    if (spaced && *p == ' ' && is(classes, next, end, SYMBOL))
        class = SYMBOL;
    if (class & SYMBOL)
        return run(classes, next, end, SYMBOL | MARK);
    if (class & WHITE) {
        after = run(classes, p, end, SPACE);
        while (after < end && (*after == '\r' || *after == '\n'))
            after++;
        return after;
    }
    return run(classes, next, end, class & MARK ? MARK : WHITE | OTHER | MARK);
}

static place boundless(class_table classes, place p, place end, split_memo *memo) {
    return boundless_or_ultimate1(classes, p, end, 1, memo);
}

static place ultimate1(class_table classes, place p, place end, split_memo *memo) {
    return boundless_or_ultimate1(classes, p, end, 0, memo);
}

/* --------------------------------------------------------------------- word-level, and the runs of --split-scripts */

enum { MANY = 16 }; /* symbols, blanks or line breaks in one chunk, at most */

static inline int stands(place p, place end, const char *bytes, int length) {
    return end - p >= length && !memcmp(p, bytes, (size_t)length);
}

/* Past one of the characters from F0 9F xx low to F0 9F xx high at `p`, or NULL. */
static inline place one_of(place p, place end, uint8_t third, uint8_t low, uint8_t high) {
    return stands(p, end, "\xF0\x9F", 2) && end - p >= 4 && p[2] == third && p[3] >= low && p[3] <= high ? p + 4 : NULL;
}

/* \p{Extended_Pictographic}[\U0001F3FB-\U0001F3FF]?[\uFE0F\uFE0E]? at `p`, or NULL */
static place pictograph(class_table classes, place p, place end) {
    place next, skin;
    if (p == end || !(look(classes, p, end, &next) & PICTURE))
        return NULL;
    if ((skin = one_of(next, end, 0x8F, 0xBB, 0xBF)))
        next = skin;
    return stands(next, end, "\xEF\xB8\x8F", 3) || stands(next, end, "\xEF\xB8\x8E", 3) ? next + 3 : next;
}

/* [0-9#*]\uFE0F?\u20E3 at `p`, or NULL */
static place keycap(place p, place end) {
    if ((*p < '0' || *p > '9') && *p != '#' && *p != '*')
        return NULL;
    p += stands(p + 1, end, "\xEF\xB8\x8F", 3) ? 4 : 1;
    return stands(p, end, "\xE2\x83\xA3", 3) ? p + 3 : NULL;
}

/* What word-level and spaceless match besides words or letters: keys, flags, pictures, symbols, numbers, blanks. */
static place common(class_table classes, place p, place end, split_memo *memo) {
    place next, after;
    unsigned class = look(classes, p, end, &next);
    if ((after = keycap(p, end)))
        return after;
    if ((after = one_of(p, end, 0x87, 0xA6, 0xBF)) && (after = one_of(after, end, 0x87, 0xA6, 0xBF)))
        return after;
    if ((after = pictograph(classes, p, end))) {
        for (place joined; stands(after, end, "\xE2\x80\x8D", 3) && (joined = pictograph(classes, after + 3, end));)
            after = joined;
        return after;
    }
    place first = *p == ' ' && is(classes, next, end, SYMBOL) ? next : p;
    if (is(classes, first, end, SYMBOL)) {
        for (int many = MANY; many-- && is(classes, first, end, SYMBOL);) {
            look(classes, first, end, &next);
            first = run(classes, next, end, MARK);
        }
        return first;
    }
    if (class & NUMBER)
        return grouped_number(classes, p, end, 0, memo);
    if (class & WHITE) {
        after = run_most(classes, p, end, SPACE, MANY);
        if (is(classes, after, end, BREAK))
            return run_most(classes, after, end, BREAK, MANY);
        /* [^\S\r\n]{1,16} if no visible character follows; else all blanks but the last one, or a single blank alone */
        if (after == end || is(classes, after, end, WHITE | NUMBER | OTHER | MARK))
            return after;
        for (first = p; look(classes, first, end, &next), next < after;)
            first = next;
        return first > p ? first : next;
    }
    return run(classes, next, end, WHITE | OTHER | MARK);
}

/* Words as in gpt4o, but joiners are part of them, only U+0020 may lead one, and any small letters may follow behind an
   apostrophe. */
static place word_level(class_table classes, place p, place end, split_memo *memo) {
    place word = cased_word(classes, *p == ' ' ? p + 1 : p, end, JOINER);
    if (!word)
        return common(classes, p, end, memo);
    place tick = word < end && *word == '\'' ? word + 1 : stands(word, end, "\xE2\x80\x99", 3) ? word + 3 : NULL;
    return tick && is(classes, tick, end, TAIL) ? run(classes, tick, end, TAIL) : word;
}

/* Past a chunk of one letter with its marks,  ?\p{L}\p{M}* , or NULL. */
static inline place one_letter(class_table classes, place p, place end) {
    place next, letter = *p == ' ' ? p + 1 : p;
    if (!is(classes, letter, end, LETTER))
        return NULL;
    look(classes, letter, end, &next);
    return run(classes, next, end, MARK);
}

static place spaceless(class_table classes, place p, place end, split_memo *memo) {
    place letter = one_letter(classes, p, end);
    return letter ? letter : common(classes, p, end, memo);
}

static place spaceless_gpt4o(class_table classes, place p, place end, split_memo *memo) {
    place letter = one_letter(classes, p, end);
    return letter ? letter : no_word(classes, p, end, 1);
}

/* ------------------------------------------------------------------------------------------------------ without regex

   script (streambpe/text/script_rules.py): an entry of its table says which group a character belongs to, whether it
   always goes on with the chunk before it (INHERITED), and whether its group takes a space before it. A chunk goes on
   while the group is the same; a single space at its beginning goes with the group behind it if that takes one. */

static place script_rule(class_table groups, place p, place end, split_memo *memo) {
    place next, q;
    unsigned key = look(groups, p, end, &q), other;
    if (*p == ' ' && q < end && (other = look(groups, q, end, &next)) & TAKES_SPACE)
        key = other, q = next;
    if (key == groups['a']) /* the group of all ASCII letters */
        q = ascii_letters(q, end, 1);
    while (q < end && ((other = look(groups, q, end, &next)) & INHERITED || other == key))
        q = next;
    return q;
}

/* Words, and the white space between them, which is never counted (streambpe/text/whitespace.py). */
static place whitespace(class_table spaces, place p, place end, split_memo *memo) {
    place next;
    unsigned class = look(spaces, p, end, &next);
    return run(spaces, next, end, class & WHITE ? WHITE : (unsigned)~WHITE);
}

/* --digits: as the preset in the memo, but for numbers. Cold: so that the compiler builds the presets as without it. */
static __attribute__((cold)) place cut_digits(class_table classes, place p, place end, split_memo *memo) {
    split_function preset = memo->preset;
    place number = *p == ' ' && preset == gpt2 ? p + 1 : p, next;
    unsigned mark = preset == boundless || preset == ultimate1 ? MARK : 0;
    if (!is(classes, number, end, NUMBER) || ((preset == word_level || preset == spaceless) && keycap(p, end)))
        return preset(classes, p, end, memo);
    if (memo->digits == GROUPED)
        return grouped_number(classes, number, end, mark, memo);
    for (int most = memo->digits; most-- && is(classes, number, end, NUMBER);) {
        look(classes, number, end, &next);
        number = mark ? run(classes, next, end, mark) : next;
    }
    return number;
}

/* The function of a preset by its number (binding.py has the names), or NULL. */
static split_function split_preset(int preset) {
    static const split_function presets[] = {gpt2,       gpt4,        cl100k,    punct,           gpt4o,
                                             superbpe1,  boundless,   ultimate1, superbpe2,       word_level,
                                             spaceless,  spaceless_gpt4o, script_rule, whitespace, none,
                                             own};
    return preset >= 0 && preset < (int)(sizeof presets / sizeof *presets) ? presets[preset] : NULL;
}
