/* What the loops of the core share. Each function says what it returns; negative numbers are these errors. */

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "Keys of short chunks, and rows of a digest, are laid out for machines whose lowest byte comes first."
#endif

#ifdef _WIN32
#define EXPORT __declspec(dllexport)
#else
#define EXPORT __attribute__((visibility("default")))
#endif

enum {
    CORE_OK = 0,
    CORE_FULL = -1,     /* the memory that the caller allowed is used up; what is in hand is kept */
    CORE_NO_MEMORY = -2, /* the system gave none */
    CORE_OVERFLOW = -3, /* a count would not fit 64 bits */
    CORE_DAMAGED = -4,  /* the caller gave input that it had promised not to give */
    CORE_CLASS = -5,    /* a character whose class is not known yet: the caller looks it up and calls again */
    CORE_SLOW = -6      /* a pattern of the user's own takes more steps, or more room, than it may */
};

/* Ask the processor to fetch an address that is read soon. */
#define SOON(address) __builtin_prefetch(address)

/* Memory in bytes: taken, allowed, and the most that was taken at a time. Where it is refused, `why` says why. */
typedef struct {
    uint64_t bytes, limit, most;
    int why;
} budget;

static inline uint64_t budget_left(const budget *own) {
    return own->limit > own->bytes ? own->limit - own->bytes : 0;
}

/* New memory, zeroed; NULL: there is none. */
static void *budget_take(budget *own, uint64_t bytes) {
    if (bytes > budget_left(own)) {
        own->why = CORE_FULL;
        return NULL;
    }
    void *memory = calloc(1, bytes ? bytes : 1);
    if (!memory) {
        own->why = CORE_NO_MEMORY;
        return NULL;
    }
    own->bytes += bytes;
    if (own->bytes > own->most)
        own->most = own->bytes;
    return memory;
}

static void budget_give(budget *own, void *memory, uint64_t bytes) {
    free(memory);
    if (memory)
        own->bytes -= bytes;
}

/* Make room for `needed` items in an array that has room for `*room`: twice as much if the limit allows. New items are
   zeros. 0: there is no room. */
static int budget_room(budget *own, void *array, uint64_t *room, uint64_t needed, uint64_t item) {
    if (needed <= *room)
        return 1;
    uint64_t size = *room * 2 > needed ? *room * 2 : needed;
    void *before, *larger = budget_take(own, size * item);
    if (!larger) {
        size = needed + (needed >> 4);
        larger = budget_take(own, size * item);
    }
    if (!larger)
        return 0;
    memcpy(&before, array, sizeof before);
    if (before)
        memcpy(larger, before, *room * item);
    budget_give(own, before, *room * item);
    memcpy(array, &larger, sizeof larger);
    *room = size;
    return 1;
}
