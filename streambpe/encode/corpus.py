"""Whole corpora to ids on disk: every distinct piece is encoded once, and joined back by look-up.

    reader  ->  blocks  ->  workers: cut into pieces, distinct ones, look up or encode  ->  streams of ids
                                                    ->  writer, in order: join, append, commit

    "the cat the dog"  ->  pieces the| cat| the| dog  ->  table: "the" [259]  " cat" [1042]  ...
                       ->  [259, 1042, 263, 3290]

The table of pieces is shared by all workers and emptied when it outgrows its bound. In a stream,
WHOLE is set on ids that a superword may take up, and DOCUMENT_END stands behind every document.

The output grows as OUT.part; OUT.progress.json says how much of it is certain, of which inputs. A
killed job goes on from there with the same command. The result never depends on where it was cut
into blocks, or on threads and memory.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import chain, repeat
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from streambpe.config import Resources
from streambpe.encode.bulk import Ids
from streambpe.encode.encoder import DOCUMENT_END, Encoder
from streambpe.encode.eventlog import header_line
from streambpe.encode.ragged import gather_rows, ranges
from streambpe.encode.segments import InlineSplitter, TextSplitter, cut_pieces, split_pieces
from streambpe.encode.split import engine_for, find_chunks
from streambpe.encode.split_worker import SplitProcess
from streambpe.errors import LimitError, SourceError, Stopped, UsageError
from streambpe.store.database import fsync_folder
from streambpe.store.sources import Block, Reader, Source, block_text, find_sources

if TYPE_CHECKING:
    from streambpe.encode.tokenizer import Tokenizer

Lengths = npt.NDArray[np.int64]

COMMIT_SECONDS = 5.0  # of work a kill can lose
_BASE_BYTES = 190 << 20  # resident before any block is held
_BYTES_A_BYTE = 40  # peak memory of encoding a block, for each byte of it
_MOST_BLOCK = 16 << 20
_LEAST_BLOCK = 256 << 10
_ROW_GROUP = 1 << 22  # ids in one row group of a Parquet file
DTYPES = ("auto", "uint16", "uint32", "int32", "int64")


class PieceTable:
    """Distinct pieces and their ids, grown as pieces are met; shared by the workers.

    Memory: about 150 bytes a piece and 4 an id; emptied above `most_bytes`.
    """

    def __init__(self, encoder: Encoder, most_bytes: int) -> None:
        self.encoder = encoder
        self.most_bytes = most_bytes
        self._lock = threading.Lock()
        self._clear()

    def _clear(self) -> None:
        self._numbers: dict[bytes, int] = {}
        self._flat: Ids = np.zeros(0, np.int32)
        self._starts: Lengths = np.zeros(0, np.int64)
        self._counts: Lengths = np.zeros(0, np.int64)
        self._bytes = 0

    def look_up(self, pieces: pl.Series, codes: npt.NDArray[np.int32], splitter: TextSplitter) -> Ids:
        """The ids of a sequence of pieces, given as codes into its distinct pieces."""
        values = pieces.to_list()
        with self._lock:
            if self._bytes > self.most_bytes:
                self._clear()
            numbers = self._numbers
            known = np.fromiter(map(numbers.get, values, repeat(-1)), np.int64, len(values))
            new = np.flatnonzero(known < 0)
            if len(new):
                fresh = pieces.gather(new)
                self._add(fresh, splitter)
                known[new] = np.arange(len(numbers), len(numbers) + len(new))
                numbers.update(zip(fresh.to_list(), range(len(numbers), len(numbers) + len(new)), strict=True))
            flat, starts, counts = self._flat, self._starts, self._counts
        return gather_rows(flat, starts[known], counts[known], codes)

    def _add(self, pieces: pl.Series, splitter: TextSplitter) -> None:
        flat, counts = encode_pieces(pieces, self.encoder, splitter)
        self._starts = np.concatenate([self._starts, len(self._flat) + np.cumsum(counts) - counts])
        self._counts = np.concatenate([self._counts, counts])
        self._flat = np.concatenate([self._flat, flat])
        self._bytes += 4 * len(flat) + 150 * len(pieces) + int(pieces.bin.size().sum() or 0)


def encode_pieces(pieces: pl.Series, encoder: Encoder, splitter: TextSplitter) -> tuple[Ids, Lengths]:
    """Distinct pieces -> (their ids one after another, ids of each). Model ids unless there are superwords;
    a piece that ends a document ends with DOCUMENT_END."""
    chunked = split_pieces(pieces, encoder.pattern, splitter)
    distinct, codes = chunked.distinct_chunks()
    ids, counts = encoder.encode_distinct(distinct)
    if not encoder.has_superwords:
        ids = encoder.to_model_ids(ids)
    # one more row, for the ends of documents
    ids = np.append(ids, np.int32(DOCUMENT_END))
    counts = np.append(counts, 1)
    order, chunks_of = chunked.with_ends(codes, len(distinct))
    piece_starts = np.cumsum(chunks_of) - chunks_of
    row_counts = counts[order]
    running = np.concatenate([np.zeros(1, np.int64), np.cumsum(row_counts)])
    starts = np.cumsum(counts) - counts
    flat = ids[ranges(starts[order], row_counts)]
    return flat, running[piece_starts + chunks_of] - running[piece_starts]


class _ListSplitter(InlineSplitter):
    """Many short texts at once: equal chunks are found later, with array work."""

    def split(self, texts: Sequence[str], script_runs: bool) -> tuple[list[str], Sequence[int], Sequence[int]]:
        """As `split_texts`, but that chunks are listed as often as they occur."""
        compiled = self.pattern.script_compiled if script_runs else self.pattern.compiled
        if compiled is None or self.pattern.keep_gaps or compiled.groups or self.pattern.name == "regex":
            return super().split(texts, script_runs)
        ascii_form = None if script_runs else self.pattern.for_ascii
        lists = [find_chunks(engine_for(text, compiled, ascii_form), text, False) for text in texts]
        chunks: list[str] = list(chain.from_iterable(lists))
        return chunks, range(len(chunks)), list(map(len, lists))


@dataclass
class EncodedBlock:
    """One block's ids: what is final, and what may still join with the blocks around."""

    head: Ids  # joins with what the block before left open
    body: Ids  # model ids
    tail: Ids  # may join with the block behind
    closed: bool  # whether anything in the block ends a run: else head goes on into the next block
    block: Block
    dropped: int


class RunJoiner:
    """Puts together what superwords may join across the borders of blocks; blocks come in order."""

    def __init__(self, encoder: Encoder, carry: Sequence[int] = ()) -> None:
        self.encoder = encoder
        self.carry = list(carry)  # whole chunks that the next block may join with

    def join(self, stream: EncodedBlock) -> Ids:
        """The model ids that are certain now, DOCUMENT_END behind every document."""
        head = np.concatenate([np.array(self.carry, np.int32), stream.head])
        if not stream.closed:
            self.carry = np.concatenate([head, stream.tail]).tolist()
            return np.zeros(0, np.int32)
        joined = self.encoder.to_model_ids(self.encoder.join_stream(head)) if len(head) else head
        self.carry = stream.tail.tolist()
        return np.concatenate([joined, stream.body])


class BlockEncoder:
    """What a worker does to one block."""

    def __init__(self, encoder: Encoder, table_bytes: int, bad_utf8: Literal["replace", "skip", "error"]) -> None:
        self.encoder = encoder
        self.table = PieceTable(encoder, table_bytes)
        self.bad_utf8 = bad_utf8
        self._local = threading.local()
        self._processes: list[SplitProcess] = []

    def splitter(self) -> TextSplitter:
        """Patterns without cuts run on whole documents: in a process beside each worker."""
        if self.encoder.pattern.has_cuts or self.encoder.pattern.compiled is None:
            return _ListSplitter(self.encoder.pattern)
        if not hasattr(self._local, "process"):
            pattern = self.encoder.pattern
            self._local.process = SplitProcess(
                pattern.expression, pattern.script_expression, pattern.keep_gaps, pattern.for_ascii
            )
            self._processes.append(self._local.process)
        made: SplitProcess = self._local.process
        return made

    def close(self) -> None:
        """End the processes."""
        for process in self._processes:
            process.close()

    def prepared(self, text: bytes) -> tuple[bytes, int]:
        """A counting buffer as the model reads it, and how many characters its --unencodable drop left out."""
        return self.encoder.prepare(text) if self.encoder.prepares else (text, 0)

    def stream(self, text: bytes) -> tuple[Ids, int]:
        """A counting buffer -> its stream of ids, and how many characters were left out."""
        text, dropped = self.prepared(text)
        pieces, codes = cut_pieces(text, self.encoder.pattern).encode()
        return self.table.look_up(pieces, codes, self.splitter()), dropped

    def text_of(self, block: Block) -> bytes:
        """The counting buffer of a block; in a text file whose lines are documents, empty ones are none."""
        text = block_text(block, self.bad_utf8).text
        return _without_empty_lines(text, block.inside_document) if block.source.kind == "lines" else text

    def __call__(self, block: Block) -> EncodedBlock:
        return self.encode(self.text_of(block), block)

    def encode(self, text: bytes, block: Block) -> EncodedBlock:
        """As a call, for a block whose counting buffer was made already."""
        none = np.zeros(0, np.int32)
        stream, dropped = self.stream(text) if text else (none, 0)
        if not self.encoder.has_superwords:
            return EncodedBlock(none, stream, none, True, block, dropped)
        joins = self.encoder.joinable(stream)
        stops = np.flatnonzero(~joins) + 1
        low, high = 0, len(stream)
        if block.inside_document:
            low = int(stops[0]) if len(stops) else len(stream)
        if block.ends_inside:
            high = int(stops[-1]) if len(stops) else low
        body = self.encoder.to_model_ids(self.encoder.join_stream(stream[low:high], joins[low : max(high - 1, 0)]))
        closed = bool(len(stops)) or not block.ends_inside
        return EncodedBlock(stream[:low], body, stream[high:], closed, block, dropped)


def _without_empty_lines(text: bytes, inside_document: bool) -> bytes:
    if not inside_document:
        text = text.lstrip(b"\xff")
    elif text.startswith(b"\xff"):
        text = b"\xff" + text.lstrip(b"\xff")
    while b"\xff\xff" in text:
        text = text.replace(b"\xff\xff", b"\xff")
    return text


def encode_texts(tokenizer: Tokenizer, texts: Sequence[str], threads: int) -> list[list[int]]:
    """Many texts -> the ids of each, on all cores. Memory: about 40 bytes a byte of a 16 MB block, and the result."""
    block_encoder = BlockEncoder(tokenizer.encoder, 256 << 20, "replace")
    if not block_encoder.encoder.pattern.has_cuts:
        # whole texts are the pieces: nothing is gained by looking for equal ones
        return [tokenizer.encode_ordinary(text) for text in texts]

    def encode(group: Sequence[str]) -> list[list[int]]:
        whole = [t.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode() for t in group]
        stream, _ = block_encoder.stream(b"\xff".join(whole) + b"\xff")
        encoder = tokenizer.encoder
        if encoder.has_superwords:
            stream = encoder.to_model_ids(encoder.join_stream(stream))
        ends = np.flatnonzero(stream == DOCUMENT_END)
        numbers = stream.tolist()
        return [numbers[a + 1 : b] for a, b in zip([-1, *ends[:-1].tolist()], ends.tolist(), strict=True)]

    groups: list[list[str]] = [[]]
    size = 0
    for text in texts:
        if size > 4 << 20:
            groups.append([])
            size = 0
        groups[-1].append(text)
        size += len(text)
    if threads == 1 or len(groups) == 1:
        return [ids for group in groups for ids in encode(group)]
    with ThreadPoolExecutor(threads) as pool:
        return [ids for result in pool.map(encode, groups) for ids in result]


# ---------------------------------------------------------------------------------------------------------
# files


@dataclass(frozen=True)
class EncodeResult:
    """What `encode_corpus` wrote."""

    path: Path
    ids: int
    documents: int
    bytes: int  # of text
    dtype: str
    resumed: bool
    dropped: int = 0  # characters, by the model's --unencodable drop
    warnings: tuple[str, ...] = ()


@dataclass
class _State:
    """How much of OUT.part is certain. Written to OUT.progress.json."""

    job: dict[str, Any]
    source: int = 0  # sources before this one are done
    stop_at: int = 0  # and this one up to here
    inside: bool = False  # in the middle of a document
    ids: int = 0
    documents: int = 0
    bytes: int = 0
    dropped: int = 0
    carry: list[int] = field(default_factory=list)  # whole chunks that the next block may join with


def output_kind(path: Path) -> str:
    """npy, parquet or bin, by the name."""
    kind = path.suffix.removeprefix(".")
    if kind not in ("npy", "parquet", "bin"):
        raise UsageError(
            f"{path}: ids are written as .npy (numpy), .parquet (a row a document) or .bin (nothing but numbers). "
            f"Give a name with one of these endings, or leave -o out to see text."
        )
    return kind


def pick_dtype(name: str, n_vocab: int, path: Path) -> np.dtype[Any]:
    """The smallest unsigned type that holds every id, or the one asked for if it does."""
    if name not in DTYPES:
        raise UsageError(f"--dtype {name}: one of {', '.join(DTYPES)}.")
    wanted = np.dtype("uint16" if n_vocab <= 1 << 16 else "uint32") if name == "auto" else np.dtype(name)
    if n_vocab - 1 > np.iinfo(wanted).max:
        raise UsageError(
            f"--dtype {name} holds numbers up to {np.iinfo(wanted).max}, and the model has ids up to {n_vocab - 1}. "
            f"{path} was not written; leave --dtype out."
        )
    return wanted.newbyteorder("<")


def encode_corpus(
    tokenizer: Tokenizer,
    sources: Sequence[str | Source],
    output: str | os.PathLike[str],
    *,
    dtype: str = "auto",
    eot: str | None = None,
    lines: bool = False,
    text_column: str = "text",
    kind: str = "auto",
    bad_utf8: Literal["replace", "skip", "error"] = "replace",
    resources: Resources | None = None,
    stop: threading.Event | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> EncodeResult:
    """Encode sources, in the order of their paths, into one file; a stopped job goes on.

    `.npy` and `.bin` hold all ids one after another; OUT.offsets.npy holds documents + 1 numbers, document i
    being ids[offsets[i]:offsets[i + 1]]. `.parquet` has a row a document. eot: a special token to put behind
    every document. Special tokens in the text are ordinary text.
    """
    path = Path(output)
    named = [s for s in sources if isinstance(s, str)]
    found, warnings = find_sources(named, lines=lines, text_column=text_column, kind=kind)
    found += [s for s in sources if isinstance(s, Source)]
    if not found:
        raise UsageError("Nothing to encode: name at least one FILE.")
    chosen = pick_dtype(dtype, tokenizer.max_token_value + 1, path)
    if eot is not None and eot not in tokenizer.special_tokens:
        raise UsageError(
            f"The model has no special token {eot!r}; it has {', '.join(tokenizer.special_tokens) or 'none'}. "
            f"Leave --eot out: document boundaries are kept in {path}.offsets.npy anyway."
        )
    if not path.parent.is_dir():
        raise UsageError(f"{path.parent} is no folder; make it first.")
    resources = resources or Resources.from_options()
    options = [chosen.str, eot, lines, text_column, kind, bad_utf8, output_kind(path)]
    job = _Job(tokenizer, found, path, chosen, eot, options, bad_utf8, resources, stop or threading.Event())
    return job.run(tuple(warnings), on_progress)


class _Job:
    """One call of `encode_corpus`: a reader, workers, and a writer that keeps their order."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        sources: list[Source],
        path: Path,
        dtype: np.dtype[Any],
        eot: str | None,
        options: list[Any],
        bad_utf8: Literal["replace", "skip", "error"],
        resources: Resources,
        stop: threading.Event,
    ) -> None:
        self.encoder = tokenizer.encoder
        self.sources, self.path, self.dtype = sources, path, dtype
        self.eot = None if eot is None else tokenizer.special_tokens[eot]
        self.bad_utf8, self.resources, self.stop = bad_utf8, resources, stop
        self.part = path.with_name(path.name + ".part")
        self.offsets_part = path.with_name(path.name + ".offsets.part")
        self.progress_file = path.with_name(path.name + ".progress.json")
        model = tokenizer.event_log
        digest = hashlib.sha256(header_line(model.header, len(self.encoder.model.events), ""))
        digest.update(repr([(e.op, e.pair if e.left is not None else e.into, e.id) for e in model.events]).encode())
        inputs = [[s.path, s.column, s.bytes, s.mtime_ns] for s in sources]
        facts = {"model": digest.hexdigest(), "n_vocab": tokenizer.n_vocab, "options": options, "inputs": inputs}
        self.state = _State(facts)
        # half for the blocks in hand (one more than workers), a quarter for the table of pieces
        room = max(resources.memory_bytes - _BASE_BYTES, 64 << 20)
        share = room // 2 // (resources.threads + 1)
        # SCRIPT has two symbols for a character of one byte
        bytes_a_byte = _BYTES_A_BYTE * (2 if tokenizer.event_log.header.alphabet["kind"] == "script" else 1)
        self.block_bytes = int(min(_MOST_BLOCK, max(_LEAST_BLOCK, share // bytes_a_byte)))
        self.most_bytes = int(max(self.block_bytes, room // 2 // bytes_a_byte))
        self.table_bytes = room // 4

    def run(self, warnings: tuple[str, ...], on_progress: Callable[[int, int], None] | None) -> EncodeResult:
        resumed = self._resume()
        if any(source.is_stream for source in self.sources) and self.progress_file.exists():
            raise UsageError(
                f"{self.part} is half of an encoding of standard input, which cannot be read again. Remove "
                f"{self.progress_file} and give the whole input once more."
            )
        encode = BlockEncoder(self.encoder, self.table_bytes, self.bad_utf8)
        try:
            with open(self.part, "ab") as ids, open(self.offsets_part, "ab") as offsets:
                if not self.state.ids and not offsets.tell():
                    offsets.write(np.zeros(1, "<i8").tobytes())
                committed = time.monotonic()
                for number, stream in self._streams(encode):
                    self._write(stream, number, ids, offsets)
                    if on_progress:
                        on_progress(self.state.bytes, sum(source.bytes for source in self.sources))
                    if time.monotonic() - committed > COMMIT_SECONDS or self.stop.is_set():
                        self._commit(ids, offsets)
                        committed = time.monotonic()
                    if self.stop.is_set():
                        raise Stopped(
                            f"Stopped; {self.state.documents:,} documents are kept in {self.part}. Go on with the "
                            f"same command.",
                            getattr(self.stop, "signal_number", signal.SIGINT),
                        )
                self._commit(ids, offsets)
        finally:
            encode.close()
        self._finish()
        state = self.state
        return EncodeResult(
            self.path, state.ids, state.documents, state.bytes, self.dtype.name, resumed, state.dropped, warnings
        )

    # Reading and encoding.

    def _blocks(self) -> Iterator[tuple[int, Block]]:
        reader = Reader(self.encoder.pattern, self.block_bytes, self.most_bytes)
        inside = self.state.inside
        for number, source in enumerate(self.sources):
            if number < self.state.source:
                continue
            done = [(0, self.state.stop_at)] if number == self.state.source and self.state.stop_at else []
            for block in reader.blocks(source, done):
                # a reader that begins in the middle does not know what came before
                yield number, replace(block, inside_document=inside)
                inside = block.ends_inside
            inside = False

    def _streams(self, encode: BlockEncoder) -> Iterator[tuple[int, EncodedBlock]]:
        """Blocks encoded by the workers, in order, at most one more in hand than there are workers."""
        if self.resources.threads == 1:
            for number, block in self._blocks():
                yield number, encode(block)
            return
        waiting: list[tuple[int, Future[EncodedBlock]]] = []
        with ThreadPoolExecutor(self.resources.threads) as pool:
            try:
                for number, block in self._blocks():
                    waiting.append((number, pool.submit(encode, block)))
                    if len(waiting) > self.resources.threads:
                        first, future = waiting.pop(0)
                        yield first, future.result()
                while waiting:
                    first, future = waiting.pop(0)
                    yield first, future.result()
            finally:
                for _, future in waiting:
                    future.cancel()

    # Writing.

    def _write(self, stream: EncodedBlock, number: int, ids: IO[bytes], offsets: IO[bytes]) -> None:
        state = self.state
        joiner = RunJoiner(self.encoder, state.carry)
        self._append(joiner.join(stream), ids, offsets)
        state.carry = joiner.carry
        block = stream.block
        state.source, state.stop_at, state.inside = number, block.stop_at, block.ends_inside
        state.dropped += stream.dropped
        state.bytes += len(block.data) if isinstance(block.data, bytes) else sum(len(v or "") for v in block.data)
        if block.ends_source:
            state.source, state.stop_at = number + 1, 0

    def _append(self, stream: Ids, ids: IO[bytes], offsets: IO[bytes]) -> None:
        state = self.state
        ends = np.flatnonzero(stream == DOCUMENT_END)
        if self.eot is None:
            offsets.write((ends - np.arange(len(ends)) + state.ids).astype("<i8").tobytes())
            stream = np.delete(stream, ends)
        else:
            offsets.write((ends + 1 + state.ids).astype("<i8").tobytes())
            stream[ends] = self.eot
        ids.write(stream.astype(self.dtype).tobytes())
        state.ids += len(stream)
        state.documents += len(ends)

    def _commit(self, ids: IO[bytes], offsets: IO[bytes]) -> None:
        for file in (ids, offsets):
            file.flush()
            os.fsync(file.fileno())
        temporary = self.progress_file.with_name(self.progress_file.name + ".new")
        with open(temporary, "w") as out:
            json.dump(vars(self.state), out)
            out.flush()
            os.fsync(out.fileno())
        os.replace(temporary, self.progress_file)

    def _resume(self) -> bool:
        """Take up a job that was stopped: its files are cut to what was certain."""
        if not self.progress_file.exists():
            for leftover in (self.part, self.offsets_part):
                leftover.unlink(missing_ok=True)
            return False
        try:
            saved = _State(**json.loads(self.progress_file.read_text()))
        except (ValueError, TypeError) as why:
            raise UsageError(f"{self.progress_file} is damaged ({why}); remove it to begin again.") from None
        if saved.job != json.loads(json.dumps(self.state.job)):
            changed = [key for key in self.state.job if saved.job.get(key) != self.state.job[key]]
            raise UsageError(
                f"{self.part} was begun with another {', '.join(changed)}; nothing was changed. Give the command it "
                f"was begun with, or remove {self.progress_file} to begin again."
            )
        sizes = {self.part: saved.ids * self.dtype.itemsize, self.offsets_part: (saved.documents + 1) * 8}
        for file, size in sizes.items():
            if not file.exists() or file.stat().st_size < size:
                raise UsageError(f"{file} is shorter than {self.progress_file} says; remove that to begin again.")
            os.truncate(file, size)
        self.state = saved
        return True

    def _finish(self) -> None:
        """The parts become OUT (and OUT.offsets.npy), each under its name only when it is whole."""
        temporary = self.path.with_name(self.path.name + ".new")
        kind = output_kind(self.path)
        offsets = np.fromfile(self.offsets_part, "<i8")
        if kind == "bin":
            os.replace(self.part, temporary)
        elif kind == "npy":
            with open(temporary, "wb") as out, open(self.part, "rb") as ids:
                header = {"descr": self.dtype.str, "fortran_order": False, "shape": (self.state.ids,)}
                np.lib.format.write_array_header_1_0(out, header)
                shutil.copyfileobj(ids, out, 1 << 24)
                out.flush()
                os.fsync(out.fileno())
        else:
            self._write_parquet(temporary, offsets)
        if kind != "parquet":
            offsets_file = self.path.with_name(self.path.name + ".offsets.npy")
            with open(offsets_file, "wb") as out:
                np.save(out, offsets)
                out.flush()
                os.fsync(out.fileno())
        os.replace(temporary, self.path)
        fsync_folder(self.path.parent)
        for leftover in (self.progress_file, self.part, self.offsets_part):
            leftover.unlink(missing_ok=True)

    def _write_parquet(self, path: Path, offsets: npt.NDArray[np.int64]) -> None:
        numbers = np.memmap(self.part, self.dtype, "r") if self.state.ids else np.zeros(0, self.dtype)
        schema = pa.schema([pa.field("ids", pa.list_(pa.from_numpy_dtype(self.dtype)))])
        with pq.ParquetWriter(path, schema, compression="zstd") as writer:
            at = 0
            while at < len(offsets) - 1:
                stop = int(np.searchsorted(offsets, offsets[at] + _ROW_GROUP, side="right")) - 1
                stop = min(max(stop, at + 1), len(offsets) - 1)
                low, high = int(offsets[at]), int(offsets[stop])
                if high - low >= 1 << 31:
                    raise LimitError(f"Document {at} has {high - low} ids; a Parquet list holds 2^31. Write .npy.")
                lists = pa.ListArray.from_arrays(
                    pa.array((offsets[at : stop + 1] - low).astype(np.int32)), pa.array(np.asarray(numbers[low:high]))
                )
                writer.write_table(pa.table([lists], schema=schema))
                at = stop


# ---------------------------------------------------------------------------------------------------------
# text out, text in


def encode_to_text(
    tokenizer: Tokenizer,
    sources: Sequence[str],
    *,
    as_json: bool = False,
    bad_utf8: Literal["replace", "skip", "error"] = "replace",
    **how: Any,
) -> Iterator[str]:
    """A line for each document: its ids, or a JSON list of them."""
    found, _ = find_sources(sources or ["-"], **how)
    reader = Reader(tokenizer.encoder.pattern, 1 << 20, 1 << 30)
    for source in found:
        held: list[bytes] = []
        for block in reader.blocks(source):
            text = block_text(block, bad_utf8).text
            if source.kind == "lines":
                text = _without_empty_lines(text, block.inside_document)
            *whole, rest = text.split(b"\xff")
            for document in whole:
                ids = tokenizer.encode_ordinary((b"".join(held) + document).decode())
                held = []
                yield json.dumps(ids, separators=(",", ":")) if as_json else " ".join(map(str, ids))
            if rest:
                held.append(rest)


def decode_file(tokenizer: Tokenizer, lines: Iterable[bytes], name: str) -> Iterator[bytes]:
    """The bytes of each line of ids: numbers between blanks, or a JSON list."""
    for number, line in enumerate(lines, 1):
        try:
            ids = json.loads(line) if line.lstrip().startswith(b"[") else [int(word) for word in line.split()]
            yield tokenizer.decode_document(ids)
        except (ValueError, TypeError):
            raise SourceError(f"{name} line {number} is no list of ids: {line[:40]!r}.") from None
        except KeyError as error:
            raise SourceError(f"{name} line {number}: {error.args[0]}.") from None


def decode_array(tokenizer: Tokenizer, path: Path, dtype: str) -> Iterator[bytes]:
    """The bytes of each document of a .npy, .parquet or .bin file that `encode` wrote; all in one without offsets."""
    kind = output_kind(path)
    try:
        if kind == "parquet":
            with pq.ParquetFile(path) as file:
                for batch in file.iter_batches(1024, columns=["ids"]):
                    for ids in batch.column(0):
                        yield _decoded(tokenizer, ids.as_py(), path)
            return
        if kind == "npy":
            numbers = np.load(path, mmap_mode="r", allow_pickle=False)
        else:
            numbers = np.memmap(path, pick_dtype(dtype, tokenizer.max_token_value + 1, path), "r")
        offsets_file = path.with_name(path.name + ".offsets.npy")
        offsets = np.load(offsets_file, allow_pickle=False) if offsets_file.exists() else np.array([0, len(numbers)])
    except (OSError, ValueError, pa.ArrowException) as why:
        raise SourceError(f"{path} cannot be read: {str(why).splitlines()[0]}") from None
    for low, high in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True):
        yield _decoded(tokenizer, numbers[low:high].tolist(), path)


def _decoded(tokenizer: Tokenizer, ids: list[int], path: Path) -> bytes:
    try:
        return tokenizer.decode_document(ids)
    except KeyError as error:
        with contextlib.suppress(IndexError):
            raise SourceError(f"{path}: {error.args[0]}. Was it encoded with another model?") from None
        raise
