/* Several sorted lists of chunks and counts -> one, in the order of the chunks' bytes; equal chunks are added up.

       a 2, ab 1   +   ab 5, b 1   ->   a 2, ab 6, b 1

   The lists stand in a heap, ordered by their next chunk, whose first eight bytes are compared as one number. A list is
   given as offsets (one more than chunks), bytes and counts.

   Judge: tests/core/test_chunk_lists.py: collections.Counter and sorted. */

typedef struct {
    uint64_t key; /* the next chunk's first eight bytes, the first one the highest; zeros behind the chunk's end */
    const uint8_t *chunk;
    uint64_t length;
    const int64_t *offset; /* of the next chunk */
    const int64_t *stop;
    const uint8_t *bytes;
    const int64_t *n;
} chunk_list;

static void look_at_next(chunk_list *list) {
    list->chunk = list->bytes + list->offset[0];
    list->length = (uint64_t)(list->offset[1] - list->offset[0]);
    uint64_t key = 0;
    memcpy(&key, list->chunk, list->length < 8 ? list->length : 8);
    list->key = swapped(key);
}

static inline int compare_lists(const chunk_list *a, const chunk_list *b) {
    if (a->key != b->key)
        return a->key < b->key ? -1 : 1;
    return compare_bytes(a->chunk, a->length, b->chunk, b->length);
}

static inline int is_first_list(const void *context, const chunk_list *a, const chunk_list *b) {
    return compare_lists(a, b) < 0;
}

HEAP(lists, chunk_list, is_first_list)

/* Move the first list on, or take it out. Returns how many lists are left. */
static int64_t next_chunk(chunk_list *lists, int64_t n) {
    lists[0].offset++;
    lists[0].n++;
    if (lists[0].offset == lists[0].stop)
        lists[0] = lists[--n];
    else
        look_at_next(lists);
    if (n)
        lists_sink(NULL, lists, 0, (uint64_t)n);
    return n;
}

/* Merge `many` lists: list i has sizes[i] chunks, at offsets[i], bytes[i], counts[i]. `out_offsets` (one more than
   chunks), `out_bytes` and `out_n` have room for all lists together, `heap` has 64 bytes for each list. Returns how
   many chunks were written, or an error. */
EXPORT int64_t merge_lists(int64_t many, const int64_t *sizes, const int64_t *const *offsets, const uint8_t *const *bytes,
                           const int64_t *const *counts, void *heap, int64_t *out_offsets, uint8_t *out_bytes, int64_t *out_n) {
    chunk_list *lists = heap;
    int64_t n = 0, rows = 0;
    uint64_t at = 0;
    for (int64_t i = 0; i < many; i++) {
        if (!sizes[i])
            continue;
        lists[n].offset = offsets[i];
        lists[n].stop = offsets[i] + sizes[i];
        lists[n].bytes = bytes[i];
        lists[n].n = counts[i];
        look_at_next(lists + n);
        lists_rise(NULL, lists, (uint64_t)n++);
    }
    out_offsets[0] = 0;
    while (n) {
        chunk_list found = lists[0];
        int64_t total = *found.n;
        while ((n = next_chunk(lists, n)) && !compare_lists(lists, &found)) {
            if (total > 0 && *lists[0].n > INT64_MAX - total) /* counts below 0 are taken away */
                return CORE_OVERFLOW;
            total += *lists[0].n;
        }
        memcpy(out_bytes + at, found.chunk, found.length);
        at += found.length;
        out_n[rows] = total;
        out_offsets[++rows] = (int64_t)at;
    }
    return rows;
}

/* Whether each of `size` chunks is above the one before it. */
EXPORT int chunks_in_order(const int64_t *offsets, const uint8_t *bytes, int64_t size) {
    for (int64_t i = 1; i < size; i++)
        if (compare_bytes(bytes + offsets[i - 1], (uint64_t)(offsets[i] - offsets[i - 1]), bytes + offsets[i],
                          (uint64_t)(offsets[i + 1] - offsets[i])) >= 0)
            return 0;
    return 1;
}

/* Write chunks as the digest of a corpus takes them: for each its length, bytes, count; numbers as eight bytes, the
   lowest first. */
EXPORT void lay_out_rows(const int64_t *offsets, const uint8_t *bytes, const int64_t *n, int64_t size, uint8_t *out) {
    for (int64_t i = 0; i < size; i++) {
        uint64_t length = (uint64_t)(offsets[i + 1] - offsets[i]);
        memcpy(out, &length, 8);
        memcpy(out + 8, bytes + offsets[i], length);
        memcpy(out + 8 + length, n + i, 8);
        out += length + 16;
    }
}
