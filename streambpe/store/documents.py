"""Which documents were counted, as one number: the sum of all documents' hashes mod 2^128, in any order.

A chunk's hash is MurmurHash3 (x64, 128 bits, seed 0) of its UTF-8. A document's hash is the same, with seed 1, of its
chunks' hashes, 16 bytes each, the lowest byte first. With the mmh3 package:

    sum(mmh3.hash128(b"".join(map(mmh3.mmh3_x64_128_digest, chunks)), 1) for chunks in documents) % 2**128

The stored sequences are gone through part after part: a document may go on from one part to the next.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import mmh3
import numpy as np

from streambpe.arrays import hash_rows
from streambpe.later import polars as pl
from streambpe.store.run import Run
from streambpe.store.sequences import SequencePart, reader_of_stretches
from streambpe.threads import in_order

NAME = "mmh3"
_HASH_BYTES = 16
_AT_ONCE = 1 << 18  # chunks whose hashes are laid out together


def documents_digest(run: Run, parts: Sequence[SequencePart], threads: int = 1) -> str:
    """`mmh3:` and the sum in hex. Memory: two parts for each thread, about 20 bytes per chunk in them."""
    # the last row is looked up where a document ends, and passed over
    hashed = reader_of_stretches(
        run.sequences, lambda chunks: np.pad(hash_rows(chunks.cast(pl.Binary)), ((0, 1), (0, 0)))
    )
    total, document = 0, mmh3.mmh3_x64_128(seed=1)
    nothing = document.digest()

    def end() -> None:
        nonlocal total, document
        total += int.from_bytes(document.digest(), "little")
        document = mmh3.mmh3_x64_128(seed=1)

    for part, (of_chunks, ids) in zip(parts, in_order(hashed, parts, threads), strict=True):
        if not part.follows and document.digest() != nothing:
            end()
        for start in range(0, len(ids), _AT_ONCE):
            some = ids[start : start + _AT_ONCE]
            laid_out, stops = of_chunks[some].tobytes(), np.flatnonzero(some < 0).tolist()
            begin = 0
            if stops:
                document.update(laid_out[: _HASH_BYTES * stops[0]])
                end()
                begin = stops[-1] + 1
                whole = (laid_out[_HASH_BYTES * (a + 1) : _HASH_BYTES * b] for a, b in pairwise(stops))
                total += sum(mmh3.hash128(one, 1) for one in whole)
            document.update(laid_out[_HASH_BYTES * begin :])
    if document.digest() != nothing:
        end()
    return f"{NAME}:{total % (1 << 128):032x}"
