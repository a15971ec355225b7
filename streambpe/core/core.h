/* What the loops of the core share. Each function says what it returns; negative numbers are these errors. */
#ifndef STREAMBPE_CORE_H
#define STREAMBPE_CORE_H

#include <stddef.h>
#include <stdint.h>

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
    CORE_CLASS = -5     /* a character whose class is not known yet: the caller looks it up and calls again */
};

/* Ask the processor to fetch an address that is read soon. */
#if defined(__GNUC__)
#define SOON(address) __builtin_prefetch(address)
#else
#define SOON(address) (void)(address)
#endif

/* A number whose every bit depends on every bit of the key: where it stands in a table. */
static inline uint64_t mixed(uint64_t key) {
    key ^= key >> 32;
    key *= 0x9E3779B97F4A7C15ull;
    key ^= key >> 29;
    key *= 0xBF58476D1CE4E5B9ull;
    return key ^ key >> 32;
}

#endif
