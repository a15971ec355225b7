/* Ids to bytes: what each id stands for, laid one behind the other.

       ids 262 1042   sizes[262] = 4, sizes[1042] = 4   ->   8 bytes   " the" " cat"

   Judge: streambpe/model/replay.py, Model.decode_bytes. */

/* Id i stands for bytes[starts[i]:starts[i] + sizes[i]]. Returns how many bytes the ids stand for; -1 if one of them is
   not below `many`, or stands for none (its size is -1). `out`: NULL, or where the bytes are written to. */
EXPORT int64_t decode_ids(const int32_t *sizes, const int64_t *starts, const uint8_t *bytes, int64_t many,
                          const int64_t *ids, int64_t n, uint8_t *out) {
    int64_t whole = 0;
    for (int64_t i = 0; i < n; i++) {
        if (ids[i] < 0 || ids[i] >= many || sizes[ids[i]] < 0)
            return -1;
        if (out)
            memcpy(out + whole, bytes + starts[ids[i]], (size_t)sizes[ids[i]]);
        whole += sizes[ids[i]];
    }
    return whole;
}
