/* Where chunks end: one function for each preset, written from its expression.

   A text is one document, or a stretch of one that begins and ends at borders which are certain
   (streambpe/text/cuts.py). Characters are told apart by a table with one 16-bit entry for each, which Python fills
   from the installed `regex` module: one bit for the category, and in the top four bits the letter of a contraction
   that the character folds to.

       gpt4o over "I'll go  now":     I'll | go | |_now        (|_ for the chunk of one blank before " now")

   Judge: the `regex` module (tests/text/test_chunker.py): all of Unicode, hostile text, every pair and triple of
   classes. */
#ifndef STREAMBPE_SPLIT_H
#define STREAMBPE_SPLIT_H

#include "core.h"

#include <string.h>

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

/* What the split of a document remembers between its chunks; all zero when one begins. */
typedef struct {
    const uint8_t *next;    /* where a number goes on */
    int64_t units;          /* how many units of it are left there, each a digit with its marks */
    int64_t marked[3];      /* by this number's remainder: how many were left at the last unit with a mark, or 0 */
    const uint8_t *letters; /* where the stretch of letters that was looked at last ends */
} split_memo;

/* The end of the chunk that begins at `p`, which stands before `end`. */
typedef const uint8_t *split_rule(const uint16_t *classes, const uint8_t *p, const uint8_t *end, split_memo *memo);
typedef split_rule *split_function;

enum { WHITESPACE = 13 }; /* the preset whose white space is no chunk, and whose words get a mark before them */

/* The class of the character at `p`. */
unsigned character_class(const uint16_t *classes, const uint8_t *p, const uint8_t *end);

/* Where the text from `p` on ends: at the next mark, or the end of the buffer. */
static inline const uint8_t *text_end(const uint8_t *p, const uint8_t *end, int has_runs) {
    const uint8_t *mark;
    if (!has_runs)
        return (mark = memchr(p, DOCUMENT_END, (size_t)(end - p))) ? mark : end;
    while (p < end && *p < RUN_END)
        p++;
    return p;
}

/* The function of a preset by its number (binding.py has the names), or NULL. */
split_function split_preset(int preset);

/* Set to 1 the pages (one byte for 256 code points) that the text needs and that are 0 so far. Returns how many. */
EXPORT int64_t pages_needed(const uint8_t *text, int64_t size, uint8_t *pages);

#endif
