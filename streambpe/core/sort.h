/* Sorting in place, and heaps, for any kind of slots that a file of the core keeps in an array.

   SORT(name, slot type, BELOW) makes name(context, slots, n, depth_for(n)); BELOW(context, a, b) says whether slot `a`
   stands before slot `b`, with `context` whatever it needs for that.

   HEAP(name, slot type, ABOVE) makes name_sink and name_rise, which put the slot at `at` in its place among those below
   it, or above it; ABOVE(context, a, b) says whether `a` is nearer to the top.

   Judge: that of the files that use it. */

#define HEAP(NAME, SLOT, ABOVE)                                                                                          \
    static void NAME##_sink(const void *context, SLOT *slots, uint64_t at, uint64_t n) {                                 \
        SLOT moved = slots[at];                                                                                          \
        for (uint64_t child, stop; (child = 4 * at + 1) < n; at = child) {                                               \
            stop = child + 4 < n ? child + 4 : n;                                                                        \
            for (uint64_t other = child + 1; other < stop; other++)                                                      \
                if (ABOVE(context, slots + other, slots + child))                                                        \
                    child = other;                                                                                       \
            if (!ABOVE(context, slots + child, &moved))                                                                  \
                break;                                                                                                   \
            slots[at] = slots[child];                                                                                    \
        }                                                                                                                \
        slots[at] = moved;                                                                                               \
    }                                                                                                                    \
    static inline void NAME##_rise(const void *context, SLOT *slots, uint64_t at) {                                      \
        SLOT moved = slots[at];                                                                                          \
        for (; at && ABOVE(context, &moved, slots + (at - 1) / 4); at = (at - 1) / 4)                                    \
            slots[at] = slots[(at - 1) / 4];                                                                             \
        slots[at] = moved;                                                                                               \
    }

/* Quicksort around the middle of three; a range that is still long after about 2 log2(n) steps is left to heapsort. */
#define SORT(NAME, SLOT, BELOW)                                                                                          \
    static inline int NAME##_above(const void *context, const SLOT *a, const SLOT *b) { return BELOW(context, b, a); }   \
    HEAP(NAME##_heap, SLOT, NAME##_above)                                                                                \
    static void NAME(const void *context, SLOT *slots, uint64_t n, int depth) {                                          \
        SLOT other;                                                                                                      \
        if (n > 16 && depth) {                                                                                           \
            SLOT *a = slots, *b = slots + n / 2, *c = slots + n - 1;                                                     \
            SLOT pivot = BELOW(context, a, b) ? (BELOW(context, b, c) ? *b : BELOW(context, a, c) ? *c : *a)             \
                                              : (BELOW(context, a, c) ? *a : BELOW(context, b, c) ? *c : *b);            \
            uint64_t i = 0, j = n - 1;                                                                                   \
            for (;; i++, j--) {                                                                                          \
                while (BELOW(context, slots + i, &pivot))                                                                \
                    i++;                                                                                                 \
                while (BELOW(context, &pivot, slots + j))                                                                \
                    j--;                                                                                                 \
                if (i >= j)                                                                                              \
                    break;                                                                                               \
                other = slots[i];                                                                                        \
                slots[i] = slots[j];                                                                                     \
                slots[j] = other;                                                                                        \
            }                                                                                                            \
            uint64_t left = j + 1 < n ? j + 1 : j;                                                                       \
            NAME(context, slots, left, depth - 1);                                                                       \
            NAME(context, slots + left, n - left, depth - 1);                                                            \
        } else if (n > 16) {                                                                                             \
            for (uint64_t root = n / 2; root-- > 0;)                                                                     \
                NAME##_heap_sink(context, slots, root, n);                                                               \
            while (--n) {                                                                                                \
                other = slots[0];                                                                                        \
                slots[0] = slots[n];                                                                                     \
                slots[n] = other;                                                                                        \
                NAME##_heap_sink(context, slots, 0, n);                                                                  \
            }                                                                                                            \
        } else {                                                                                                         \
            for (uint64_t i = 1; i < n; i++) {                                                                           \
                other = slots[i];                                                                                        \
                uint64_t j = i;                                                                                          \
                for (; j && BELOW(context, &other, slots + j - 1); j--)                                                  \
                    slots[j] = slots[j - 1];                                                                             \
                slots[j] = other;                                                                                        \
            }                                                                                                            \
        }                                                                                                                \
    }

static inline int depth_for(uint64_t n) {
    int depth = 2;
    for (; n; n >>= 1)
        depth += 2;
    return depth;
}
