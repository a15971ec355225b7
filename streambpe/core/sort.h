/* Sorting in place, for any kind of slots that a file of the core keeps in an array.

   SORT(name, slot type, BELOW) makes name(context, slots, n, depth_for(n)); BELOW(context, a, b) says whether slot `a`
   stands before slot `b`, with `context` whatever bytes it needs for that.

   Judge: that of the files that use it. */
#ifndef STREAMBPE_SORT_H
#define STREAMBPE_SORT_H

#include "core.h"

/* Quicksort around the middle of three; a range that is still long after about 2 log2(n) steps is left to heapsort. */
#define SORT(NAME, SLOT, BELOW)                                                                                          \
    static void NAME##_sink(const uint8_t *text, SLOT *slots, uint64_t root, uint64_t n) {                               \
        SLOT moved = slots[root];                                                                                        \
        for (uint64_t child; (child = 2 * root + 1) < n; root = child) {                                                 \
            if (child + 1 < n && BELOW(text, slots + child, slots + child + 1))                                          \
                child++;                                                                                                 \
            if (!BELOW(text, &moved, slots + child))                                                                     \
                break;                                                                                                   \
            slots[root] = slots[child];                                                                                  \
        }                                                                                                                \
        slots[root] = moved;                                                                                             \
    }                                                                                                                    \
    static void NAME(const uint8_t *text, SLOT *slots, uint64_t n, int depth) {                                          \
        SLOT other;                                                                                                      \
        for (; n > 16 && depth; depth--) {                                                                               \
            SLOT *a = slots, *b = slots + n / 2, *c = slots + n - 1;                                                     \
            SLOT pivot = BELOW(text, a, b) ? (BELOW(text, b, c) ? *b : BELOW(text, a, c) ? *c : *a)                      \
                                           : (BELOW(text, a, c) ? *a : BELOW(text, b, c) ? *c : *b);                     \
            uint64_t i = 0, j = n - 1;                                                                                   \
            for (;; i++, j--) {                                                                                          \
                while (BELOW(text, slots + i, &pivot))                                                                   \
                    i++;                                                                                                 \
                while (BELOW(text, &pivot, slots + j))                                                                   \
                    j--;                                                                                                 \
                if (i >= j)                                                                                              \
                    break;                                                                                               \
                other = slots[i];                                                                                        \
                slots[i] = slots[j];                                                                                     \
                slots[j] = other;                                                                                        \
            }                                                                                                            \
            uint64_t left = j + 1;                                                                                       \
            if (left == n)                                                                                               \
                left--;                                                                                                  \
            if (left < n - left) {                                                                                       \
                NAME(text, slots, left, depth - 1);                                                                      \
                slots += left;                                                                                           \
                n -= left;                                                                                               \
            } else {                                                                                                     \
                NAME(text, slots + left, n - left, depth - 1);                                                           \
                n = left;                                                                                                \
            }                                                                                                            \
        }                                                                                                                \
        if (n > 16) {                                                                                                    \
            for (uint64_t root = n / 2; root-- > 0;)                                                                     \
                NAME##_sink(text, slots, root, n);                                                                       \
            while (--n) {                                                                                                \
                other = slots[0];                                                                                        \
                slots[0] = slots[n];                                                                                     \
                slots[n] = other;                                                                                        \
                NAME##_sink(text, slots, 0, n);                                                                          \
            }                                                                                                            \
            return;                                                                                                      \
        }                                                                                                                \
        for (uint64_t i = 1; i < n; i++) {                                                                               \
            other = slots[i];                                                                                            \
            uint64_t j = i;                                                                                              \
            for (; j && BELOW(text, &other, slots + j - 1); j--)                                                         \
                slots[j] = slots[j - 1];                                                                                 \
            slots[j] = other;                                                                                            \
        }                                                                                                                \
    }

static inline int depth_for(uint64_t n) {
    int depth = 2;
    for (; n; n >>= 1)
        depth += 2;
    return depth;
}

#endif
