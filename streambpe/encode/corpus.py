"""Whole corpora to ids on disk.

    reader  ->  blocks  ->  threads: each block through the core (encode/blocks.py)  ->  streams of ids
                        ->  writer, in order: join what superwords reach across blocks, append, commit

The output grows as OUT.part; OUT.progress.json says how much of it is certain, and of which inputs. A
killed job goes on from there with the same command. The result never depends on where it was cut
into blocks, or on threads and memory.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from streambpe.arrays import save_array
from streambpe.core.encoding import END_OF_TEXT, Ids
from streambpe.count_config import SourceOptions
from streambpe.encode import sidecar
from streambpe.encode.blocks import BlockEncoder, EncodedBlock
from streambpe.encode.encoder import RunJoiner
from streambpe.encode.sidecar import IdsRecord, sidecar_of
from streambpe.errors import LimitError, Stopped, UsageError
from streambpe.failpoints import failpoint
from streambpe.files import put_in_place, replace_file
from streambpe.model.eventlog import header_line
from streambpe.outputs import refuse_existing, whole_output
from streambpe.progress import Meter
from streambpe.resources import BASE_BYTES, Resources
from streambpe.sources.decode import block_text
from streambpe.sources.find import find_sources
from streambpe.sources.read import Reader
from streambpe.sources.source import Block, Source
from streambpe.system import rename, sync
from streambpe.threads import stopped_by

if TYPE_CHECKING:
    from streambpe.encode.tokenizer import Tokenizer

COMMIT_SECONDS = 5.0  # of work that a kill can lose
_BYTES_A_BYTE = 16  # peak memory of encoding a block, for each byte of it
_MOST_BLOCK = 2 << 20
_LEAST_BLOCK = 256 << 10
_ROW_GROUP = 1 << 22  # ids in one row group of a Parquet file
_TAKE_ANYWAY = "say with --bad-utf8 replace or skip what becomes of its bytes, to take it all the same"


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

    job: dict[str, Any]  # compared as JSON with what another call, or another version, left
    source: int = 0  # sources before this one are done
    stop_at: int = 0  # and this one up to here
    inside: bool = False  # in the middle of a document
    ids: int = 0
    documents: int = 0
    bytes: int = 0
    dropped: int = 0
    carry: list[int] = field(default_factory=list)  # whole chunks that the next block may join with
    finishing: bool = False  # all of it is certain; OUT is being made of it, or is made already


def output_kind(path: Path) -> str:
    """Which of npy, parquet and bin the output is, by its name."""
    kind = path.suffix.removeprefix(".")
    if kind not in ("npy", "parquet", "bin"):
        raise UsageError(
            f"{path}: ids are written as .npy (numpy), .parquet (one row per document) or .bin (nothing but numbers). "
            f"Give a name with one of these endings, or leave -o out to see text."
        )
    return kind


def pick_dtype(name: str, n_vocab: int, path: Path) -> np.dtype[Any]:
    """The smallest unsigned type that holds every id, or the one asked for if it does."""
    if name not in ("auto", *sidecar.DTYPES):
        raise UsageError(f"--dtype {name}: one of auto, {', '.join(sidecar.DTYPES)}.")
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
    bad_utf8: Literal["replace", "skip", "error"] | None = None,
    resources: Resources | None = None,
    stop: threading.Event | None = None,
    meter: Meter | None = None,
    force: bool = False,
) -> EncodeResult:
    """Encode sources, in the order of their paths, into one file; a stopped job goes on.

    An output that exists is refused unless `force`; what the same job left unfinished is not.

    `.npy` and `.bin` hold all ids one after another; OUT.offsets.npy holds documents + 1 numbers: document i
    is ids[offsets[i]:offsets[i + 1]]. `.parquet` has one row per document. eot: a special token to put behind
    every document. Special tokens in the text are ordinary text. bad_utf8: None replaces bad bytes, and refuses
    sources that are mostly not UTF-8. meter: told how far it is.
    """
    path = Path(output)
    named = [s for s in sources if isinstance(s, str)]
    found, warnings = find_sources(named, SourceOptions(lines, text_column, kind))
    found += [s for s in sources if isinstance(s, Source)]
    if not found:
        raise UsageError("Nothing to encode: name at least one FILE.")
    found = [replace(source, any_bytes=bad_utf8 is not None) for source in found]
    bad_utf8 = bad_utf8 or "replace"
    chosen = pick_dtype(dtype, tokenizer.max_token_value + 1, path)
    if eot is not None and eot not in tokenizer.special_tokens:
        raise UsageError(
            f"The model has no special token {eot!r}; it has {', '.join(tokenizer.special_tokens) or 'none'}. "
            f"Leave --eot out: document boundaries are kept in {path}.offsets.npy anyway."
        )
    _refuse_overwriting(path, force)
    resources = resources or Resources.from_options()
    options = [chosen.str, eot, lines, text_column, kind, bad_utf8, output_kind(path)]
    job = _Job(tokenizer, found, path, chosen, eot, options, bad_utf8, resources, stop or threading.Event())
    return job.run(tuple(warnings), meter or Meter("encoding"))


def _refuse_overwriting(path: Path, force: bool) -> None:
    """An error if a file is in the way, unless it is unfinished output; `_Job._resume` checks of which job."""
    progress = path.with_name(path.name + ".progress.json")
    finishing = False
    with contextlib.suppress(OSError, ValueError, AttributeError):
        finishing = bool(json.loads(progress.read_text()).get("finishing"))
    refuse_existing(path, force or finishing)
    for beside in (path.with_name(path.name + ".offsets.npy"), sidecar_of(path)):
        refuse_existing(beside, force or progress.exists())


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
        self.encoder, self.tokenizer = tokenizer.encoder, tokenizer
        self.sources, self.path, self.dtype = sources, path, dtype
        self.eot, self.eot_text = None if eot is None else tokenizer.special_tokens[eot], eot
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
        # half for the blocks in hand (one more than workers), a quarter for chunks without borders inside
        room = max(resources.memory_bytes - BASE_BYTES, 64 << 20)
        share = room // 2 // (resources.threads + 1)
        # SCRIPT has two symbols for a character of one byte
        bytes_a_byte = _BYTES_A_BYTE * (2 if tokenizer.event_log.header.alphabet["kind"] == "script" else 1)
        self.block_bytes = int(min(_MOST_BLOCK, max(_LEAST_BLOCK, share // bytes_a_byte)))
        self.most_bytes = int(max(self.block_bytes, room // 2 // bytes_a_byte))
        self.chunk_bytes = room // 4 // resources.threads

    def run(self, warnings: tuple[str, ...], meter: Meter) -> EncodeResult:
        resumed = self._resume()
        if not any(source.is_stream for source in self.sources):
            meter.total = sum(source.bytes for source in self.sources)
            meter.done = meter.resumed_from = sum(source.bytes for source in self.sources[: self.state.source])
        if not self.state.finishing:
            self._encode(meter)
        meter.stage = "writing"
        self._finish()
        state = self.state
        return EncodeResult(
            self.path, state.ids, state.documents, state.bytes, self.dtype.name, resumed, state.dropped, warnings
        )

    def _encode(self, meter: Meter) -> None:
        if any(source.is_stream for source in self.sources) and self.progress_file.exists():
            raise UsageError(
                f"{self.part} is half of an encoding of standard input, which cannot be read again. Remove "
                f"{self.progress_file} and give the whole input once more."
            )
        encode = BlockEncoder(self.encoder, self.bad_utf8, self.chunk_bytes)
        try:
            with open(self.part, "ab") as ids, open(self.offsets_part, "ab") as offsets:
                if not self.state.ids and not offsets.tell():
                    offsets.write(np.zeros(1, "<i8").tobytes())
                committed = time.monotonic()
                for number, stream in self._streams(encode, meter):
                    self._write(stream, number, ids, offsets)
                    if time.monotonic() - committed > COMMIT_SECONDS or self.stop.is_set():
                        self._commit(ids, offsets)
                        committed = time.monotonic()
                    if self.stop.is_set():
                        raise Stopped(
                            f"Stopped; {self.state.documents:,} documents are kept in {self.part}. Go on with the "
                            f"same command.",
                            stopped_by(self.stop),
                        )
                self.state.finishing = True
                self._commit(ids, offsets)
        finally:
            encode.close()

    # Reading and encoding.

    def _blocks(self, meter: Meter) -> Iterator[tuple[int, Block]]:
        reader = Reader(
            self.encoder.pattern,
            self.block_bytes,
            self.most_bytes,
            on_read=meter.advance,
            take_anyway=_TAKE_ANYWAY,
        )
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

    def _streams(self, encode: BlockEncoder, meter: Meter) -> Iterator[tuple[int, EncodedBlock]]:
        """The blocks in order, encoded by the workers; at most one more is in hand than there are workers."""
        if self.resources.threads == 1:
            for number, block in self._blocks(meter):
                yield number, encode(block)
            return
        waiting: list[tuple[int, Future[EncodedBlock]]] = []
        with ThreadPoolExecutor(self.resources.threads) as pool:
            try:
                for number, block in self._blocks(meter):
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
        self._append(joiner.join(stream.ids), ids, offsets)
        state.carry = joiner.carry
        block = stream.block
        state.source, state.stop_at, state.inside = number, block.stop_at, block.ends_inside
        state.dropped += stream.dropped
        state.bytes += len(block.data) if isinstance(block.data, bytes) else sum(len(v or "") for v in block.data)
        if block.ends_source:
            state.source, state.stop_at = number + 1, 0

    def _append(self, stream: Ids, ids: IO[bytes], offsets: IO[bytes]) -> None:
        state = self.state
        # 5 6 END 7 END 8 behind 10 ids: ends 2 4, less those before them 2 3, so documents end at 12 and 13
        ends = np.flatnonzero(stream == END_OF_TEXT)
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
            sync(file.fileno())
        replace_file(self.progress_file, json.dumps(vars(self.state)).encode())

    def _resume(self) -> bool:
        """Take up a job that was stopped: its files are cut to what was certain."""
        if not self.progress_file.exists():
            for leftover in (self.part, self.offsets_part):
                leftover.unlink(missing_ok=True)
            return False
        try:
            saved = _State(**json.loads(self.progress_file.read_text(encoding="utf-8")))
        except (ValueError, TypeError) as why:
            raise UsageError(f"{self.progress_file} is damaged ({why}); remove it to begin again.") from None
        if saved.job != json.loads(json.dumps(self.state.job)):
            changed = [key for key in self.state.job if saved.job.get(key) != self.state.job[key]]
            raise UsageError(
                f"{self.part} was begun with another {', '.join(changed)}; nothing was changed. Give the command it "
                f"was begun with, or remove {self.progress_file} to begin again."
            )
        sizes = {self.part: saved.ids * self.dtype.itemsize, self.offsets_part: (saved.documents + 1) * 8}
        if saved.finishing and not self.part.exists():  # a .bin is its part, renamed
            del sizes[self.part]
        for file, size in sizes.items():
            if not file.exists() or file.stat().st_size < size:
                raise UsageError(f"{file} is shorter than {self.progress_file} says; remove that to begin again.")
            os.truncate(file, size)
        self.state = saved
        return True

    def _finish(self) -> None:
        """The parts become OUT (and what stands beside it), each under its name only when it is whole.

        After a kill all of it is done again; each step gives the same, or finds that it was done.
        """
        temporary = self.path.with_name(self.path.name + ".new")
        kind = output_kind(self.path)
        offsets = np.fromfile(self.offsets_part, "<i8")
        if kind == "bin":
            if self.part.exists():
                rename(self.part, temporary)
        elif kind == "npy":
            with open(temporary, "wb") as out, open(self.part, "rb") as ids:
                header = {"descr": self.dtype.str, "fortran_order": False, "shape": (self.state.ids,)}
                np.lib.format.write_array_header_1_0(out, header)
                shutil.copyfileobj(ids, out, 1 << 24)
        else:
            self._write_parquet(temporary, offsets)
        if kind != "parquet":
            with whole_output(self.path.with_name(self.path.name + ".offsets.npy")) as name:
                save_array(offsets, name)
            with whole_output(sidecar_of(self.path)) as name:
                name.write_bytes(self._record().as_json())
        failpoint("encoded-beside")
        if kind != "bin" or temporary.exists():
            put_in_place(temporary, self.path)
        failpoint("encoded")
        for leftover in (self.progress_file, self.part, self.offsets_part):
            leftover.unlink(missing_ok=True)

    def _record(self) -> IdsRecord:
        state = self.state
        return IdsRecord.of(self.tokenizer, self.dtype.name, state.ids, state.documents, self.eot_text)

    def _write_parquet(self, path: Path, offsets: npt.NDArray[np.int64]) -> None:
        """Row groups of whole documents, at least one each. With offsets 0 3 4 9 12 and groups of 5 ids:

        at 0: the last offset that is not above 0 + 5 is 4, of document 2: documents 0 and 1
        at 2: the last that is not above 4 + 5 is 9: document 2;  at 3: document 3
        """
        numbers = np.memmap(self.part, self.dtype, "r") if self.state.ids else np.zeros(0, self.dtype)
        ids = pa.field("ids", pa.list_(pa.from_numpy_dtype(self.dtype)))
        schema = pa.schema([ids], {sidecar.FORMAT: self._record().as_json()})
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
# text out


def encode_to_text(
    tokenizer: Tokenizer,
    sources: Sequence[str],
    *,
    how: SourceOptions = SourceOptions(),
    as_json: bool = False,
    bad_utf8: Literal["replace", "skip", "error"] | None = None,
) -> Iterator[str]:
    """A line for each document: its ids, or a JSON list of them."""
    found, _ = find_sources(sources or ["-"], how)
    reader = Reader(tokenizer.encoder.pattern, 1 << 20, 1 << 30, take_anyway=_TAKE_ANYWAY)
    for source in found:
        held: list[bytes] = []
        for block in reader.blocks(replace(source, any_bytes=bad_utf8 is not None)):
            text = block_text(block, bad_utf8 or "replace").text
            *whole, rest = text.split(b"\xff")
            for document in whole:
                ids = tokenizer.encode_ordinary((b"".join(held) + document).decode())
                held = []
                yield json.dumps(ids, separators=(",", ":")) if as_json else " ".join(map(str, ids))
            if rest:
                held.append(rest)
