"""Which documents were counted, in one number: the sum mod 2^128 of every document's hash, in whatever order.

    h(chunk)     mod 2^64: the sum of (byte + 1) x 0x100000001b3^place, xored with its own upper half,
                 times 0x9e3779b97f4a7c15 plus the chunk's length
    p(document)  mod 2^64: the sum of h(chunk) x P^place, for each of two P
    hash         low = mix(p1 + mix(chunks + 1)), high = mix(p2 ^ low); mix as splitmix64 ends

The core adds up the stored sequences. A document that goes on in the next part is added up from its pieces here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from streambpe.core.documents import chunk_hashes, sum_documents
from streambpe.core.strings import as_buffers
from streambpe.later import polars as pl
from streambpe.store.run import Run
from streambpe.store.sequences import SequencePart, read_sequence
from streambpe.threads import in_order

_LANES = (0x9E3779B97F4A7C15, 0xD1342543DE82EF95)
_LOW = (1 << 64) - 1


@dataclass
class _Stretch:
    """A document, or a piece of one: its sums, and how many chunks it has."""

    sums: tuple[int, int] = (0, 0)
    chunks: int = 0

    def followed_by(self, other: _Stretch) -> _Stretch:
        """Both as one."""
        first, second = (
            (mine + theirs * pow(lane, self.chunks, 1 << 64)) & _LOW
            for lane, mine, theirs in zip(_LANES, self.sums, other.sums, strict=True)
        )
        return _Stretch((first, second), self.chunks + other.chunks)

    def hash(self) -> int:
        """Of a whole document."""
        low = _mix((self.sums[0] + _mix(self.chunks + 1)) & _LOW)
        return low | _mix(self.sums[1] ^ low) << 64


@dataclass(frozen=True)
class _Summed:
    """The documents of one part: those that end behind its first document, and its two ends."""

    first: _Stretch  # up to the first end, or to the end of the part
    ends: bool  # a document ends here
    total: int
    last: _Stretch  # behind the last end


def documents_digest(run: Run, parts: Sequence[SequencePart], threads: int = 1) -> str:
    """The sum in hex. Memory: for each thread one part, about 20 bytes per chunk of it."""
    total = 0
    open_document: _Stretch | None = None  # begun in the parts before
    for part, summed in zip(parts, in_order(lambda part: _sum_part(run, part), parts, threads), strict=True):
        if not part.follows and open_document is not None:
            total += open_document.hash()
            open_document = None
        first = summed.first if open_document is None else open_document.followed_by(summed.first)
        if summed.ends:
            total += first.hash() + summed.total
            first = summed.last
        open_document = first if first.chunks else None
    if open_document is not None:
        total += open_document.hash()
    return f"{total % (1 << 128):032x}"


def _sum_part(run: Run, part: SequencePart) -> _Summed:
    chunks, ids = read_sequence(run.sequences, part.name)
    found = sum_documents(ids, chunk_hashes(*as_buffers(chunks.cast(pl.Binary))))
    first, last = (_Stretch((found[i], found[i + 1]), found[i + 2]) for i in (0, 3))
    return _Summed(first, bool(found[6]), sum(word << (32 * i) for i, word in enumerate(found[7:])), last)


def _mix(x: int) -> int:
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & _LOW
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & _LOW
    return x ^ (x >> 31)
