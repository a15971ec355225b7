"""Which documents were counted, as one number: the sum of all documents' hashes mod 2^128, in any order.

A chunk's hash is MurmurHash3 (x64, 128 bits, seed 0) of its UTF-8. A document's hash is the same, with seed 1, of its
chunks' hashes, 16 bytes each, the lowest byte first. With the mmh3 package:

    sum(mmh3.hash128(b"".join(map(mmh3.mmh3_x64_128_digest, chunks)), 1) for chunks in documents) % 2**128

The core adds up the stored sequences, part after part: a document may go on from one part to the next.
"""

from __future__ import annotations

from collections.abc import Sequence

from streambpe.arrays import Int32
from streambpe.core.documents import DocumentSum, UInt64, chunk_hashes
from streambpe.core.strings import as_buffers
from streambpe.later import polars as pl
from streambpe.store.run import Run
from streambpe.store.sequences import OfChunks, SequencePart, read_stretch
from streambpe.threads import in_order

NAME = "mmh3"


def documents_digest(run: Run, parts: Sequence[SequencePart], threads: int = 1) -> str:
    """`mmh3:` and the sum in hex. Memory: two parts for each thread, about 20 bytes per chunk in them."""
    total = DocumentSum()
    hashes = OfChunks(run.sequences, lambda chunks: chunk_hashes(*as_buffers(chunks.cast(pl.Binary))))

    def hashed(part: SequencePart) -> tuple[Int32, UInt64]:
        """A stretch's chunks as numbers, and the hash of each chunk of its part."""
        of_chunks, ids = read_stretch(run.sequences, part, hashes)
        return ids, of_chunks

    for part, (ids, of_chunks) in zip(parts, in_order(hashed, parts, threads), strict=True):
        if not part.follows:
            total.end_document()
        total.add(ids, of_chunks)
    total.end_document()
    return f"{NAME}:{total.value % (1 << 128):032x}"
