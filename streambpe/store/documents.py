"""Which documents were counted, in one number: the sum mod 2^128 of every document's hash, in whatever order.

    h(chunk)     mod 2^64: the sum of (byte + 1) x 0x100000001b3^place, xored with its own upper half,
                 times 0x9e3779b97f4a7c15 plus the chunk's length
    p(document)  mod 2^64: the sum of h(chunk) x P^place, for each of two P
    hash         low = mix(p1 + mix(chunks + 1)), high = mix(p2 ^ low); mix as splitmix64 ends

All of it is array work on the stored sequences. A document that goes on in the next part is added up from its pieces.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from streambpe.encode.segments import as_buffers
from streambpe.store.run import Run
from streambpe.store.sequences import END_OF_DOCUMENT, SequencePart, read_sequence
from streambpe.threads import in_order

UInt64 = npt.NDArray[np.uint64]
_PRIME = 0x100000001B3
_MIX = 0x9E3779B97F4A7C15
_LANES = (0x9E3779B97F4A7C15, 0xD1342543DE82EF95)
_LOW = (1 << 64) - 1
_SLICE = 1 << 16  # places at a time, so that all but the sums stays in cache


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
        return _sum_of_hashes(*(np.array([n], np.uint64) for n in (*self.sums, self.chunks)))


@dataclass(frozen=True)
class _Summed:
    """The documents of one part: those that end behind its first document, and its two ends."""

    first: _Stretch  # up to the first end, or to the end of the part
    ends: bool  # a document ends here
    total: int
    last: _Stretch  # behind the last end


def documents_digest(run: Run, parts: Sequence[SequencePart], threads: int = 1) -> str:
    """The sum in hex. Memory: for each thread one part, about 20 bytes a chunk of it."""
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
    hashes = np.append(_chunk_hashes(chunks), np.uint64(0))  # the last one is what END_OF_DOCUMENT = -1 looks up
    ends = np.flatnonzero(ids == END_OF_DOCUMENT)
    starts, stops = np.append(0, ends + 1), np.append(ends, len(ids))
    before = np.zeros((2, len(ids) + 1), np.uint64)  # of a lane: the sum of h x P^place over all places in front
    for at in range(0, len(ids), _SLICE):
        values = hashes[ids[at : at + _SLICE]]
        for lane, powers, sums in zip(_LANES, _POWERS, before, strict=True):
            terms = values * powers[: len(values)]
            np.cumsum(terms, out=terms)
            terms *= np.uint64(pow(lane, at, 1 << 64))
            np.add(terms, sums[at], out=sums[at + 1 : at + 1 + len(terms)])
    found = before[:, stops] - before[:, starts]
    for lane, powers, sums in zip(_LANES, _BACK, found, strict=True):
        back = np.array([pow(lane, -at, 1 << 64) for at in range(0, len(ids) + 1, _SLICE)], np.uint64)
        sums *= back[starts // _SLICE] * powers[starts % _SLICE]
    many = (stops - starts).astype(np.uint64)
    first, last = (_Stretch((int(found[0, i]), int(found[1, i])), int(many[i])) for i in (0, -1))
    return _Summed(first, bool(len(ends)), _sum_of_hashes(found[0, 1:-1], found[1, 1:-1], many[1:-1]), last)


def _powers(base: int) -> UInt64:
    """base^0, base^1, ... mod 2^64 for the places of a slice."""
    powers = np.full(_SLICE, base, np.uint64)
    powers[0] = 1
    return np.cumprod(powers, dtype=np.uint64)


_POWERS = [_powers(lane) for lane in _LANES]
_BACK = [_powers(pow(lane, -1, 1 << 64)) for lane in _LANES]


def _sum_of_hashes(first: UInt64, second: UInt64, chunks: UInt64) -> int:
    low = _mix(first + _mix(chunks + np.uint64(1)))
    high = _mix(second ^ low)
    words = [int((lane >> np.uint64(shift) & np.uint64(0xFFFFFFFF)).sum()) for lane in (low, high) for shift in (0, 32)]
    return sum(word << (32 * i) for i, word in enumerate(words))


def _mix(x: UInt64) -> UInt64:
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: UInt64 = x ^ (x >> np.uint64(31))
    return mixed


def _chunk_hashes(chunks: pl.Series) -> UInt64:
    offsets, text = as_buffers(chunks.cast(pl.Binary))
    lengths, data = np.diff(offsets), text.astype(np.uint64)
    powers = np.ones(int(lengths.max(initial=0)) + 1, np.uint64)
    powers[1:] = _PRIME
    np.cumprod(powers, out=powers)
    data += np.uint64(1)
    data *= powers[np.arange(len(data)) - np.repeat(offsets[:-1], lengths)]
    sums: UInt64 = np.add.reduceat(data, offsets[:-1]) if len(data) else np.zeros(0, np.uint64)
    sums ^= sums >> np.uint64(32)
    sums *= np.uint64(_MIX)
    sums += lengths.astype(np.uint64)
    return sums
