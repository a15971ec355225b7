"""The second stage of UW SuperBPE: the stored documents cut by a coarser pattern, as tokens of the first stage.

    stored chunks    " by" " the" " end" " of" "202" "4"                     (--pattern)
    stage-2 chunks   " by the end of" "202" "4"                              (--stage2-pattern)
    tokens           " by" " the" " e" "nd" " of" | "202" | "4"              merges of phase one, in order

What stands between two borders is a run in which any neighbours may join, so from here on it is counted, cut and
learned from as superwords are (neighbours.py, runs.py); the symbols are tokens instead of whole chunks.

The merges of phase one are made in stage-2 chunks as if they were learned there: each has the count of its pair there
at its turn, which is 0 if earlier merges took up every place of the pair. A merge whose pair never stood there is
passed over. No chunk is replayed as a whole: it is cut between two bytes wherever no token of phase one holds these two
bytes side by side, because no merge can ever reach across, and each distinct piece is replayed once per part.

Every part leaves two files that appear whole or not at all: the counts of the merges, and last the tokens. The
unfinished end of its last document is left to the next part; what that is follows from the part's own text, and only
where that has no certain border from the text before. So parts are done by tasks, in threads or on Ray, each of
some parts that follow each other; it reads the part before its first one to know what that left. Places where tests
let a process die: stage2-N-begun and stage2-N-written for attempt N at a task, tokens-written.

Memory of each worker: about 40 times a part's text (8 MB when it was counted), and the rest of a document without a
certain border.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import InitVar, dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa

from streambpe.arrays import Bool, Int32, Int64, expanded
from streambpe.core.encoding import Tally
from streambpe.core.strings import as_buffers
from streambpe.encode.bulk import BulkReplay
from streambpe.errors import LimitError
from streambpe.failpoints import failpoint
from streambpe.later import polars as pl
from streambpe.model.alphabet import Alphabet
from streambpe.model.codecs import codec_of
from streambpe.model.eventlog import Event
from streambpe.runners.attempts import own_folder
from streambpe.runners.runner import Attempt, Runner
from streambpe.sources.borders import find_border
from streambpe.store.made_of import has_note, write_noted
from streambpe.store.sequences import SequencePart, reader_of_stretches
from streambpe.system import rename, sync_folder
from streambpe.text.chunker import Chunker
from streambpe.text.marks import DOCUMENT_END
from streambpe.text.patterns import Pattern
from streambpe.text.split import alarm
from streambpe.train.superwords.neighbours import BARRIER, PartsReader
from streambpe.train.superwords.work import Advance, Question, Work

_MARK = bytes([DOCUMENT_END])
_TASKS_A_WORKER = 8
_MOST_PARTS = 16  # of a task
_PLACE_BYTES = 200  # of a part's place, at the peak (226 was the most, with libraries loaded)


@dataclass
class StageTwo(Question):
    """Writes the stage-2 tokens of every part."""

    sequences: Path
    parts: Sequence[SequencePart]
    pattern: Pattern
    alphabet: InitVar[Alphabet]
    contents: InitVar[Sequence[bytes]]  # of every log id of phase one
    words: InitVar[Sequence[Event]]
    disjoint: bool
    folder: Path
    most_bytes: int  # of a document without a certain border
    made_of: str = ""  # what all parts follow from

    def __post_init__(self, alphabet: Alphabet, contents: Sequence[bytes], words: Sequence[Event]) -> None:
        self.merges = len(words)
        self.replay = BulkReplay(words, alphabet.first_id + len(contents))
        self.symbol_of = codec_of(alphabet, "error").symbols.symbols
        spelled = [contents[event.id - alphabet.first_id] for event in words]
        learned = np.frombuffer(_MARK.join([*spelled, b"", b""]), np.uint8)
        self.sticks = np.zeros((256, 256), bool)  # two bytes that some token of phase one holds side by side
        self.sticks[learned[:-1], learned[1:]] = True
        self.sticks[DOCUMENT_END, :] = self.sticks[:, DOCUMENT_END] = False

    def write(self, runner: Runner, advance: Advance) -> TokenReader:
        """Write all parts by tasks; those that are there are kept. `advance` is told how many places were read, and may
        raise."""
        size = min(max(1, len(self.parts) // (_TASKS_A_WORKER * runner.workers)), _MOST_PARTS)
        self.ask(runner, shard_tokens, pairwise([*range(0, len(self.parts), size), len(self.parts)]), advance)
        return TokenReader(self.folder, [part.name for part in self.parts])

    def describe(self, argument: tuple[int, int]) -> str:
        """A task in messages."""
        return f"stage 2 of parts {argument[0]:,} to {argument[1] - 1:,}"

    def counted(self) -> tuple[Int64, Bool]:
        """(what each merge of phase one counts in stage 2, whether its pair ever stood there)."""
        n, stood = np.zeros(self.merges, np.int64), np.zeros(self.merges, bool)
        for part in self.parts:
            counts = pl.read_parquet(self.files(part)[0], glob=False)
            n += counts["n"].to_numpy()
            stood |= counts["stood"].to_numpy()
        return n, stood

    def files(self, part: SequencePart) -> tuple[Path, Path]:
        """Counts of the merges and tokens of a part; the tokens are committed last."""
        return self.folder / f"{part.name}.counts.parquet", self.folder / f"{part.name}.parquet"

    def encode(self, chunks: pl.Series, n: Int64) -> tuple[Int32, Int64, Tally]:
        """(tokens of distinct chunks one after another, how many each has, what every merge counted in n of each).

        A chunk is cut into atoms where nothing was ever joined across; an atom is replayed once, wherever it stands:

            chunks  "ab-ab"  "-"     atoms  ab - (by number 0 1)     codes 0 1 0 1     offsets 0 2 3 5 6
            ends 5 6   atoms_before 0 3 4: the first chunk has atoms 0 to 2, the second the fourth
        """
        data = np.frombuffer("".join(chunks).encode(), np.uint8)
        ends = np.cumsum(chunks.str.len_bytes().to_numpy().astype(np.int64))
        border = np.ones(len(data) + 1, bool)
        border[1:-1] = ~self.sticks[data[:-1], data[1:]]
        border[ends] = True
        offsets = np.flatnonzero(border)
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
        coded = pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(offsets) - 1, buffers).dictionary_encode()
        atoms, codes = pl.Series(pl.from_arrow(coded.dictionary), dtype=pl.Binary), coded.indices.to_numpy()
        atoms_before = np.searchsorted(offsets, np.append(0, ends))
        weights = np.zeros(len(atoms), np.int64)
        np.add.at(weights, codes, np.repeat(n, np.diff(atoms_before)))
        text = np.frombuffer(b"".join(atoms), np.uint8)
        tally = Tally(weights, np.zeros(self.merges, np.int64), self.disjoint, np.zeros(self.merges, bool))
        sizes = atoms.bin.size().to_numpy().astype(np.int64)
        ids, many = self.replay.replay(self.symbol_of[text], sizes, tally)
        tokens = expanded(ids, many, codes)
        before = np.append(0, np.cumsum(many[codes]))
        return tokens, np.diff(before[atoms_before]), tally


class _Parts:
    """Writes parts that follow each other, for one attempt at a task."""

    def __init__(self, stage: StageTwo, place: Path) -> None:
        self.stage, self.place, self.chunker = stage, place, Chunker(stage.pattern)
        # the chunks of a part with the mark that ends a document behind them, and a stretch as their numbers
        mark = pl.Series([_MARK], dtype=pl.Binary)
        self.read = reader_of_stretches(stage.sequences, lambda chunks: chunks.cast(pl.Binary).append(mark))

    def write(self, first: int, stop: int, advance: Advance) -> None:
        """Write the parts from one number to another; those that are there are kept."""
        rest: bytes | None = None  # what the parts before left
        for at in range(first, stop):
            part = self.stage.parts[at]
            files = self.stage.files(part)
            if all(has_note(file, self.stage.made_of) for file in files):
                rest = None
            else:
                before, own = self._rest_before(at) if rest is None else rest, self._text(part)
                rest = self._left_by(before, own, at)
                text = before + own
                text = text[: len(text) - len(rest)]
                if text and not self._goes_on(at) and not text.endswith(_MARK):
                    text += _MARK
                del before, own
                self._write(text, *files)
                del text
                for target in files:
                    rename(self.place / target.name, target)
                sync_folder(self.stage.folder)
                failpoint("tokens-written")
            advance(part.places)

    def _goes_on(self, at: int) -> bool:
        """Whether the last document of a part may go on in the next one."""
        return at + 1 < len(self.stage.parts) and self.stage.parts[at + 1].follows

    def _rest_before(self, at: int) -> bytes:
        """What the parts in front of this one left for it."""
        rest = b""
        while at and self._goes_on(at - 1):
            at -= 1
            own = self._text(self.stage.parts[at])
            border = self._border(own)
            rest = own[border:] + rest
            self._refuse_long(rest, at)
            if border:
                break
        return rest

    def _left_by(self, before: bytes, own: bytes, at: int) -> bytes:
        """What a part leaves for the next one: everything behind the last certain border in its own text."""
        if not self._goes_on(at):
            return b""
        border = self._border(own)
        rest = own[border:] if border else before + own
        self._refuse_long(rest, at)
        return rest

    def _border(self, text: bytes) -> int:
        return max(find_border(text, self.stage.pattern), text.rfind(_MARK) + 1)

    def _refuse_long(self, rest: bytes, at: int) -> None:
        name, most = self.stage.parts[at].name, self.stage.most_bytes
        if len(rest) > most:
            raise LimitError(
                f"A document in {name} has more than {most // 10**6} MB without a place where --stage2-pattern "
                "certainly splits; that does not fit --memory. Everything learned so far is kept. Give more memory, "
                "or split such documents and count again."
            )

    def _text(self, part: SequencePart) -> bytes:
        """The documents of a part, each with a mark behind it."""
        pieces, ids = self.read(part)
        return bytes(as_buffers(pieces.gather(np.where(ids < 0, len(pieces) - 1, ids)))[1])

    def _write(self, text: bytes, counts: Path, target: Path) -> None:
        numbered = self.chunker.number(text)
        tokens, lengths, tally = self.stage.encode(numbered.chunks, numbered.n)
        sequence = numbered.ids[numbered.ids >= 0]
        # every chunk ends with a barrier
        padded = np.insert(tokens, np.cumsum(lengths), BARRIER)
        lengths = lengths + 1
        symbols = expanded(padded, lengths, sequence)
        made_of = self.stage.made_of
        write_noted(pl.DataFrame({"n": tally.n, "stood": tally.stood}), self.place / counts.name, made_of)
        write_noted(pl.DataFrame({"symbol": symbols}), self.place / target.name, made_of)


def stage_two_runner(parts: Sequence[SequencePart], work: Work) -> Runner:
    """Who does the second stage."""
    return work.runner(max((part.places for part in parts), default=0) * _PLACE_BYTES, work.resources.threads)


def shard_tokens(borders: tuple[int, int], attempt: Attempt) -> None:
    """Write the stage-2 tokens of the parts from one number to another; each is committed by itself."""
    stage: StageTwo = attempt.shared
    if attempt.own_process:
        alarm.turn_on()
    with own_folder(stage.attempts, f"tokens-{borders[0]}", attempt.number) as place:
        failpoint(f"stage2-{attempt.number}-begun")
        _Parts(stage, place).write(*borders, attempt.advance)
        failpoint(f"stage2-{attempt.number}-written")


class TokenReader(PartsReader):
    """The parts of a second stage as tokens, with a barrier behind every stage-2 chunk."""

    def __init__(self, folder: Path, names: Sequence[str]) -> None:
        files = [folder / f"{name}.parquet" for name in names]
        places = [pl.scan_parquet(file, glob=False).select(pl.len()).collect().item() for file in files]
        self.folder = folder
        self.parts = [SequencePart(name, n, follows=False) for name, n in zip(names, places, strict=True)]

    def read(self, part: SequencePart) -> Int32:
        """Tokens and barriers; no chunk goes on in the next part."""
        return pl.read_parquet(self.folder / f"{part.name}.parquet", glob=False)["symbol"].to_numpy()
