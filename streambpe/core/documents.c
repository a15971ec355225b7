/* Which documents stand in a part, in one number: the hash that store/documents.py defines, over chunks by their numbers.

       ids 0 1 -1 2      the document of chunks 0 1 ends here, one that begins with chunk 2 goes on behind
       first             the sums of 0 1
       total             of the documents between the first end and the last: none here
       last              the sums of 2

   Judge: tests/core/test_documents.py, the definition in Python's integers. */
#include "core.h"

#include <string.h>

static const uint64_t LANES[2] = {0x9E3779B97F4A7C15ull, 0xD1342543DE82EF95ull};

static uint64_t mix(uint64_t x) {
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9ull;
    x = (x ^ x >> 27) * 0x94D049BB133111EBull;
    return x ^ x >> 31;
}

EXPORT void chunk_hashes(const int64_t *offsets, const uint8_t *bytes, int64_t size, uint64_t *hashes) {
    for (int64_t i = 0; i < size; i++) {
        uint64_t sum = 0, power = 1;
        for (int64_t at = offsets[i]; at < offsets[i + 1]; at++, power *= 0x100000001B3ull)
            sum += (bytes[at] + 1ull) * power;
        sum ^= sum >> 32;
        hashes[i] = sum * 0x9E3779B97F4A7C15ull + (uint64_t)(offsets[i + 1] - offsets[i]);
    }
}

/* A stretch of a document: two sums and how many chunks it has. */
typedef struct {
    uint64_t sums[2], chunks;
} stretch;

/* found[0:3] is the stretch up to the first end, found[3:6] the one behind the last, found[6] how many documents end,
   found[7:11] the hashes of those between added up, in four sums of 32 bits each, the lowest first. */
EXPORT void sum_documents(const int32_t *ids, int64_t size, const uint64_t *hashes, uint64_t *found) {
    stretch now = {{0, 0}, 0};
    uint64_t powers[2] = {1, 1}, *sums = found + 7;
    memset(found, 0, 11 * sizeof *found);
    for (int64_t i = 0; i <= size; i++) {
        if (i < size && ids[i] >= 0) {
            for (int lane = 0; lane < 2; lane++) {
                now.sums[lane] += hashes[ids[i]] * powers[lane];
                powers[lane] *= LANES[lane];
            }
            now.chunks++;
            continue;
        }
        if (!found[6])
            memcpy(found, &now, sizeof now);
        if (i == size) {
            memcpy(found + 3, &now, sizeof now);
            break;
        }
        if (found[6]++) {
            uint64_t low = mix(now.sums[0] + mix(now.chunks + 1)), high = mix(now.sums[1] ^ low);
            sums[0] += low & 0xFFFFFFFFull;
            sums[1] += low >> 32;
            sums[2] += high & 0xFFFFFFFFull;
            sums[3] += high >> 32;
        }
        memset(&now, 0, sizeof now);
        powers[0] = powers[1] = 1;
    }
}
