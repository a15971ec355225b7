/* Ids to bytes: what each id stands for, laid one behind the other.

       ids 262 1042   sizes[262] = 4, sizes[1042] = 4   ->   8 bytes   " the" " cat"

   Judge: streambpe/model/replay.py, Model.decode_bytes. */

/* How many bytes the ids stand for; -1 - i if id i is not below `many`, or stands for no bytes (its size is -1). */
EXPORT int64_t decoded_size(const int32_t *sizes, int64_t many, const int64_t *ids, int64_t n) {
    int64_t whole = 0;
    for (int64_t i = 0; i < n; i++) {
        if (ids[i] < 0 || ids[i] >= many || sizes[ids[i]] < 0)
            return -1 - i;
        whole += sizes[ids[i]];
    }
    return whole;
}

/* Write the bytes of the ids: id i stands for bytes[starts[i]:starts[i] + sizes[i]]. */
EXPORT void decode_ids(const int64_t *starts, const int32_t *sizes, const uint8_t *bytes, const int64_t *ids, int64_t n,
                       uint8_t *out) {
    for (int64_t i = 0; i < n; i++) {
        size_t size = (size_t)sizes[ids[i]];
        memcpy(out, bytes + starts[ids[i]], size);
        out += size;
    }
}
