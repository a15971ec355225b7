"""The second stage of UW SuperBPE: the stored documents cut by a coarser pattern, read as tokens of the first stage.

    stored chunks    " by" " the" " end" " of" "202" "4"                     (--pattern)
    stage-2 chunks   " by the end of" "202" "4"                              (--stage2-pattern)
    tokens           " by" " the" " e" "nd" " of" | "202" | "4"              merges of phase one, in order

What stands between two borders is a run in which any neighbours may join, so from here on it is counted, cut and
learned from as superwords are (neighbours.py, runs.py); the symbols are tokens instead of whole chunks.

The merges of phase one are made in stage-2 chunks as if they were learned there: each has the count of its pair there
at its turn, which is 0 if earlier merges took up every place of the pair. A merge whose pair never stood there is
passed over. No chunk is replayed as a whole: it is cut between two bytes wherever no token of phase one holds these two
bytes side by side, because no merge can ever reach across. The pieces are looked up in an encoder's cache.

None of this is stored: the tokens are made again each time the documents are read. The first reading, which counts
neighbours, also counts the distinct pieces, and from them what each merge counts. The unfinished end of a part's last
document is read with the next part. That end follows from the part's own text or, if this has no certain border, from
the text before it as well; so parts can be read in any order.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import structs

from streambpe.arrays import Int32, Int64, slices
from streambpe.core.binding import Bytes, ChunkTable
from streambpe.core.encoding import BYTES, KEEP, AlphabetSymbols, EncoderCore, Tally
from streambpe.core.strings import as_buffers, gathered
from streambpe.encode.bulk import BulkReplay
from streambpe.errors import LimitError
from streambpe.later import polars as pl
from streambpe.model.alphabet import Alphabet
from streambpe.model.codecs import codec_of
from streambpe.model.eventlog import Event
from streambpe.sources.borders import find_border
from streambpe.store.sequences import SequencePart, reader_of_stretches
from streambpe.store.shards import stretches_from
from streambpe.text.chunker import Chunker, whole_documents
from streambpe.text.marks import DOCUMENT_END, END_MARK
from streambpe.text.patterns import Pattern
from streambpe.train.superwords.neighbours import PartsReader

_TAIL = 1 << 12  # chunks at a part's end in which a certain border is looked for first
_PIECES = 16 << 20  # of memory, for distinct pieces that wait to be counted
_AT_ONCE = 1 << 20  # bytes of these that are replayed together


class TokenReader(PartsReader):
    """Stored documents as tokens, with a barrier behind every stage-2 chunk. No chunk goes on in the next part."""

    effort = 4

    def __init__(
        self,
        folder: Path,
        parts: Sequence[SequencePart],
        pattern: Pattern,
        alphabet: Alphabet,
        contents: Sequence[bytes],
        words: Sequence[Event],
        *,
        disjoint: bool,
        most_bytes: int,
    ) -> None:
        """contents: of every log id of phase one; most_bytes: of a document without a certain border."""
        self.folder, self.pattern, self.disjoint, self.most_bytes = folder, pattern, disjoint, most_bytes
        self._stored = [structs.replace(part, follows=follows) for _, part, follows in stretches_from(parts, 0)]
        self.parts = [structs.replace(part, follows=False) for part in self._stored]
        self._at = {part.name: at for at, part in enumerate(self.parts)}
        self._symbol_of = codec_of(alphabet, "error").symbols.symbols
        spelled = [contents[event.id - alphabet.first_id] for event in words]
        learned = np.frombuffer(END_MARK.join([*spelled, b"", b""]), np.uint8)
        self.sticks = np.zeros((256, 256), bool)  # two bytes that some token of phase one holds side by side
        self.sticks[learned[:-1], learned[1:]] = True
        symbols = AlphabetSymbols(BYTES, KEEP, self._symbol_of)
        self._replay = BulkReplay(words, alphabet.first_id + len(contents), symbols=symbols, sticks=self.sticks)
        self._n, self._stood = np.zeros(len(words), np.int64), np.zeros(len(words), bool)
        self._pieces: ChunkTable | None = None
        self.close()

    def close(self) -> None:
        """See PartsReader."""
        chunker = Chunker(self.pattern)
        # whether the core cuts the text as it is
        self._is_plain = chunker.preset is not None and self.pattern.name != "whitespace"
        self._split = chunker.split if self._is_plain else whole_documents()
        self._replay.tables.split_by(self._split)
        self._cores: list[EncoderCore] = []  # idle ones
        self._lock = threading.Lock()
        # the chunks of a part with the mark that ends a document behind them, and a stretch as their numbers
        mark = pl.Series([END_MARK], dtype=pl.Binary)
        self._read = reader_of_stretches(self.folder, lambda chunks: as_buffers(chunks.cast(pl.Binary).append(mark)))

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | dict.fromkeys(("_read", "_lock", "_cores", "_pieces", "_split"))

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self.close()

    def counting(self) -> TokenReader:
        """See PartsReader."""
        found = copy.copy(self)
        found._n, found._stood, found._pieces = np.zeros_like(self._n), np.zeros_like(self._stood), ChunkTable(1 << 40)
        return found

    def counted(self) -> tuple[Int64, Int64]:
        """See PartsReader; of the merges whose pair stood anywhere."""
        if self._pieces is not None:
            self._count_merges(*self._pieces.take())
        places = np.flatnonzero(self._stood)[::-1]
        return -1 - places, self._n[places]

    def _count_merges(self, offsets: Int64, data: Bytes, n: Int64) -> None:
        """Add what the merges count in distinct pieces, each of which occurs n times."""
        tally = Tally(n, np.zeros_like(self._n), self.disjoint, np.zeros_like(self._stood))
        for start, stop in slices(offsets, _AT_ONCE):
            tally.weights = n[start:stop]
            some = self._symbol_of[data[offsets[start] : offsets[stop]]]
            self._replay.replay(some, np.diff(offsets[start : stop + 1]), tally)
        with self._lock:
            self._n += tally.n
            self._stood |= tally.stood

    def read(self, part: SequencePart) -> Int32:
        """See PartsReader."""
        text = self._text(self._at[part.name])
        return self._tokens(text) if text else np.empty(0, np.int32)

    def _text(self, at: int) -> bytes:
        """What is read with a part."""
        chunks, ids = self._read(self._stored[at])
        rest, border = self._rest(chunks, ids) if self._goes_on(at) else (b"", True)
        if not border:
            return b""
        own = gathered(*chunks, ids)
        return b"".join([self._left_by(at - 1), own[: len(own) - len(rest)].data])

    def _goes_on(self, at: int) -> bool:
        """Whether the last document of a part may go on in the next one."""
        return at + 1 < len(self._stored) and self._stored[at + 1].follows

    def _left_by(self, at: int) -> bytes:
        """What a part leaves for the next one: the end of its text, or all of that and some of the parts before."""
        left, border = b"", False
        while not border and at >= 0 and self._goes_on(at):
            rest, border = self._rest(*self._read(self._stored[at]))
            left = rest + left
            if len(left) > self.most_bytes:
                raise LimitError(
                    f"A document in {self._stored[at].name} has more than {self.most_bytes // 10**6} MB without a "
                    "place where --stage2-pattern certainly splits; that does not fit --memory. Everything learned so "
                    "far is kept. Give more memory, or split such documents and count again."
                )
            at -= 1
        return left

    def _rest(self, chunks: tuple[Int64, Bytes], ids: Int32) -> tuple[bytes, bool]:
        """(what stands behind the last certain border in a part's text, True), or (all of it, False)."""
        many = _TAIL
        while True:
            text = gathered(*chunks, ids[-many:]).tobytes()
            border = max(find_border(text, self.pattern), text.rfind(END_MARK) + 1)
            if border or many >= len(ids):
                return text[border:], border > 0
            many *= 16

    def _tokens(self, text: bytes) -> Int32:
        """The tokens of a text that begins and ends at borders."""
        if not self._is_plain:  # as a document for each chunk
            offsets, data, rows = Chunker(self.pattern).rows(text)
            data = np.insert(data, offsets[1:], DOCUMENT_END)
            text = gathered(offsets + np.arange(len(offsets)), data, rows[rows >= 0]).tobytes()
        if self._pieces is not None:
            with self._lock:  # other threads read other parts
                self._pieces.count(text, self._split, sticks=self.sticks)
                taken = self._pieces.take() if self._pieces.taken > _PIECES else None
            if taken is not None:
                self._count_merges(*taken)
        try:
            core = self._cores.pop()
        except IndexError:
            core = EncoderCore(self._replay.tables)
        tokens = core.block(text, 0).body
        self._cores.append(core)
        return tokens
