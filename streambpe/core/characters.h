/* How the splits walk over text: past one character, or past all that follow of some classes. Only they include it. */
#ifndef STREAMBPE_CHARACTERS_H
#define STREAMBPE_CHARACTERS_H

#include "split.h"

#include <string.h>

enum {
    LETTER = UPPER | TITLE | LOWER | CASELESS,
    WHITE = SPACE | BREAK,
    REST = MARK | SYMBOL | OTHER,               /* [^\s\p{L}\p{N}] */
    HEAD = UPPER | TITLE | CASELESS | MARK,     /* gpt4o: what a word may begin with */
    TAIL = LOWER | CASELESS | MARK,             /* and end with */
    LEAD = SPACE | REST                         /* [^\r\n\p{L}\p{N}] */
};

typedef const uint8_t *place;
typedef const uint16_t *table;

/* The class of the character at `p`, and where the next one begins. Text is valid UTF-8; if not, nothing beyond `end`
   is read. */
static inline unsigned look(table classes, place p, place end, place *next) {
    unsigned byte = *p;
    if (byte < 0x80) {
        *next = p + 1;
        return classes[byte];
    }
    unsigned length = byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
    if ((size_t)(end - p) < length) {
        *next = end;
        return OTHER;
    }
    unsigned point;
    if (length == 2)
        point = (byte & 31) << 6 | (p[1] & 63);
    else if (length == 3)
        point = (byte & 15) << 12 | (p[1] & 63) << 6 | (p[2] & 63);
    else
        point = (byte & 7) << 18 | (p[1] & 63) << 12 | (p[2] & 63) << 6 | (p[3] & 63);
    *next = p + length;
    return point < 0x110000 ? classes[point] : OTHER;
}

/* Past all characters of the classes in `set`. */
static inline place run(table classes, place p, place end, unsigned set) {
    place next;
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
static inline place run_most(table classes, place p, place end, unsigned set, int most) {
    place next;
    while (most-- && p < end && look(classes, p, end, &next) & set)
        p = next;
    return p;
}

static inline int is(table classes, place p, place end, unsigned set) {
    place next;
    return p < end && look(classes, p, end, &next) & set;
}

/* Presets that stand in a file of their own. */
split_rule boundless, ultimate1, word_level, spaceless, spaceless_gpt4o, script_rule, whitespace;

/* What gpt4o matches besides words. */
place gpt4o_rest(table classes, place p, place end);

#endif
