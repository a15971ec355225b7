r"""Blocks of text to blocks of ids: what each thread does when files, or many texts at once, are encoded.

b"the cat\xffthe dog\xff"   ->   262 1042 -2 262 3290 -2      (END_OF_TEXT behind every document)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import msgspec
import numpy as np
from msgspec import structs

from streambpe.core.encoding import HOLD_FIRST, HOLD_LAST, NO_LIMIT, BlockIds, Ids
from streambpe.encode.encoder import Encoder, as_utf8
from streambpe.encode.split import hashed_documents
from streambpe.resources import DOCUMENT_SECONDS
from streambpe.sources.decode import block_text, naming_documents
from streambpe.sources.not_text import TAKE_ANYWAY
from streambpe.sources.read import Reader
from streambpe.sources.source import BadUtf8, Block
from streambpe.sources.stretches import Stretch
from streambpe.text.chunker import Chunker
from streambpe.text.marks import END_MARK
from streambpe.threads import in_order

_GROUP = 1 << 20  # characters of texts that are encoded in one call
_BYTES_A_BYTE = 16  # peak memory of encoding a block, for each byte of it
_MOST_BLOCK = 2 << 20
_LEAST_BLOCK = 256 << 10


# How far sources are read: the number of one, a place in it, and whether that is in the middle of a document.
Place = tuple[int, int, bool]


class EncodedBlock(msgspec.Struct):
    """One block's ids, of how much text they are, and how many characters were left out of it."""

    ids: BlockIds
    bytes: int  # of text
    dropped: int
    hashed: list[Any] | None = None  # its documents, if asked for
    behind: Place = (0, 0, False)  # where the next block begins


def numbered_blocks(
    reader: Reader, stretches: Iterable[tuple[int, Stretch]], inside: bool
) -> Iterator[tuple[int, Block]]:
    """The blocks of stretches, each with the number of its source; `inside`: the first begins amid a document."""
    for number, stretch in stretches:
        for block in reader.blocks(stretch.source, stretch.done, stretch.stop):
            yield number, structs.replace(block, inside_document=True) if inside else block
            inside = False


class BlockEncoder:
    """Encodes blocks on `threads` threads within `room` bytes: half is for the blocks in hand, one more than threads, a
    quarter for long chunks; beside that a cache of chunks for each thread.

    hashed: also say of each document what `encode --validation` decides by.
    """

    def __init__(
        self,
        encoder: Encoder,
        bad_utf8: BadUtf8 = "replace",
        room: int = NO_LIMIT,
        threads: int = 1,
        *,
        hashed: bool = False,
        document_seconds: float = DOCUMENT_SECONDS,
    ) -> None:
        self.encoder, self.hashed, self.threads = encoder, hashed, threads
        self.pattern = replace(encoder.pattern, document_seconds=document_seconds)
        self.bad_utf8 = bad_utf8
        # SCRIPT has two symbols for a character of one byte
        a_byte = _BYTES_A_BYTE * (2 if encoder.header.alphabet["kind"] == "script" else 1)
        self._block = min(_MOST_BLOCK, max(_LEAST_BLOCK, room // 2 // (threads + 1) // a_byte))
        self._most = max(self._block, room // 2 // a_byte)  # of a document that has no border inside
        self._limit = room // 4 // threads
        self._chunker = Chunker(self.pattern)

    def blocks(
        self,
        stretches: Iterable[tuple[int, Stretch]],
        on_read: Callable[[int], None],
        inside: bool = False,
    ) -> Iterator[EncodedBlock]:
        """The blocks of stretches, in order, each stretch with the number of its source. The ids of two neighbours may
        still join: RunJoiner puts them together. `inside`: the first stretch begins amid a document."""
        reader = Reader(self.pattern, self._block, self._most, on_read=on_read, take_anyway=TAKE_ANYWAY)
        return in_order(self, numbered_blocks(reader, stretches, inside), self.threads, self.threads)

    def stream(self, text: bytes, hold: int = 0) -> tuple[BlockIds, int]:
        """As `Encoder.block`, within the memory that there is."""
        return self.encoder.block(text, hold, self._chunker, self._limit)

    def __call__(self, numbered: tuple[int, Block]) -> EncodedBlock:
        """Encode a block of the source of this number."""
        number, block = numbered
        made = self.encode(block_text(block, self.bad_utf8).text, block)
        made.behind = (number + 1, 0, False) if block.ends_source else (number, block.stop_at, block.ends_inside)
        return made

    def encode(self, text: bytes, block: Block) -> EncodedBlock:
        """Encode a block whose counting buffer was made already."""
        with naming_documents(block):
            ids, dropped = self.stream(text, HOLD_FIRST | HOLD_LAST)
        size = len(text) - text.count(END_MARK)
        return EncodedBlock(ids, size, dropped, hashed_documents(text) if self.hashed else None)


def in_groups(texts: Sequence[str]) -> list[Sequence[str]]:
    """The texts, in order, in groups of about so many characters as are encoded in one call."""
    behind = np.cumsum([0, *map(len, texts)])
    cuts = np.unique(np.searchsorted(behind, np.arange(0, behind[-1] + 1, _GROUP))).tolist()
    return [texts[start:stop] for start, stop in pairwise([*cuts, len(texts)])]


def encode_texts(encoder: Encoder, texts: Sequence[str], threads: int) -> Ids:
    """Many texts -> the stream of their ids, on as many threads. Memory: what is in hand as UTF-8, twice the result."""
    blocks, groups = BlockEncoder(encoder), in_groups(texts)

    def encode(group: Sequence[str]) -> Ids:
        return blocks.stream(END_MARK.join([*map(as_utf8, group), b""]))[0].body

    return np.concatenate(list(in_order(encode, groups, min(threads, len(groups)))))
