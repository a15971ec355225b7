/* Which documents stand in a part: MurmurHash3 (x64, 128 bits) of every chunk's bytes, and of every document.
   store/documents.py says what is hashed. A chunk's hash is 16 bytes, one block of this function, so hashing a document
   can stop after any chunk and go on in the next part.

       ids 0 1 -1 2      the document of chunks 0 1 ends here: its hash is added to the total
                         the document that begins with chunk 2 stays in `open`: nothing is added yet

   Judges: tests/core/test_documents.py, the mmh3 package. */

enum { HASHES_AHEAD = 16 }; /* hashes are fetched so many chunks before they are added */

static const uint64_t MULTIPLY[2] = {0x87C37B91114253D5ull, 0x4CF5AD432745937Full};

/* A hash under way: its two halves, and how many blocks went in. */
typedef struct {
    uint64_t half[2], blocks;
} open_hash;

/* Where a document's hash begins: seed 1, so that the hash of an empty one is not 0. A chunk's seed is 0. */
static const open_hash NO_BLOCKS = {{1, 1}, 0};

static uint64_t turned(uint64_t x, int bits) { return x << bits | x >> (64 - bits); }

static void put_first(open_hash *h, uint64_t word) { h->half[0] ^= turned(word * MULTIPLY[0], 31) * MULTIPLY[1]; }

static void put_second(open_hash *h, uint64_t word) { h->half[1] ^= turned(word * MULTIPLY[1], 33) * MULTIPLY[0]; }

static void put_block(open_hash *h, uint64_t first, uint64_t second) {
    put_first(h, first);
    h->half[0] = (turned(h->half[0], 27) + h->half[1]) * 5 + 0x52DCE729;
    put_second(h, second);
    h->half[1] = (turned(h->half[1], 31) + h->half[0]) * 5 + 0x38495AB5;
    h->blocks++;
}

static uint64_t stirred(uint64_t x) {
    x = (x ^ x >> 33) * 0xFF51AFD7ED558CCDull;
    x = (x ^ x >> 33) * 0xC4CEB9FE1A85EC53ull;
    return x ^ x >> 33;
}

static void finish_hash(const open_hash *h, uint64_t bytes, uint64_t *found) {
    uint64_t first = h->half[0] ^ bytes, second = h->half[1] ^ bytes;
    first += second;
    second += first;
    first = stirred(first);
    second = stirred(second);
    found[0] = first + second;
    found[1] = second + found[0];
}

/* Up to eight bytes as a number, the lowest first. */
static uint64_t word_of(const uint8_t *bytes, int64_t size) {
    uint64_t word = 0;
    memcpy(&word, bytes, (size_t)size);
    return word;
}

EXPORT void chunk_hashes(const int64_t *offsets, const uint8_t *bytes, int64_t size, uint64_t *hashes) {
    for (int64_t i = 0; i < size; i++) {
        const uint8_t *at = bytes + offsets[i];
        int64_t length = offsets[i + 1] - offsets[i], left = length;
        open_hash h = {{0, 0}, 0};
        for (; left >= 16; left -= 16, at += 16)
            put_block(&h, word_of(at, 8), word_of(at + 8, 8));
        if (left > 8)
            put_second(&h, word_of(at + 8, left - 8));
        if (left > 0)
            put_first(&h, word_of(at, left < 8 ? left : 8));
        finish_hash(&h, (uint64_t)length, hashes + 2 * i);
    }
}

/* open[3]: the document that goes on here, and after the call the one that goes on in the next part; 0 blocks: none.
   total[4]: hashes of the documents that end here, added up in four sums of 32 bits each, the lowest first. */
EXPORT void sum_documents(const int32_t *ids, int64_t size, const uint64_t *hashes, uint64_t *open, uint64_t *total) {
    open_hash now = NO_BLOCKS;
    if (open[2])
        now = (open_hash){{open[0], open[1]}, open[2]};
    for (int64_t i = 0; i < size; i++) {
        if (ids[i] >= 0) {
            if (i + HASHES_AHEAD < size && ids[i + HASHES_AHEAD] >= 0)
                SOON(hashes + 2 * (size_t)ids[i + HASHES_AHEAD]);
            put_block(&now, hashes[2 * (size_t)ids[i]], hashes[2 * (size_t)ids[i] + 1]);
            continue;
        }
        uint64_t found[2];
        finish_hash(&now, 16 * now.blocks, found);
        for (int half = 0; half < 2; half++) {
            total[2 * half] += found[half] & 0xFFFFFFFFull;
            total[2 * half + 1] += found[half] >> 32;
        }
        now = NO_BLOCKS;
    }
    open[0] = now.half[0];
    open[1] = now.half[1];
    open[2] = now.blocks;
}
