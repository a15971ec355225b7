"""Whole corpora to ids on disk.

    sources  ->  blocks of ids, in order, by threads (encode/blocks.py) or by tasks in processes (encode/spread.py)
             ->  join what superwords reach across blocks, append, commit

The output grows in a folder beside OUT, .OUT.streambpe.new. progress.json in it says how much is certain, of which
inputs, and what its checksums are. A killed job goes on from there with the same command. The result never depends on
where it was cut into blocks, or on threads and memory. Of a document for --validation the end is noted as a negative
number (~end); only when all is encoded are the ids divided by that, and into --shards.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack, cast

import mmh3
import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from streambpe.arguments import arguments
from streambpe.arrays import save_array, slices
from streambpe.core.encoding import END_OF_TEXT, WHOLE, TokenDead
from streambpe.encode import sidecar
from streambpe.encode.blocks import EncodedBlock, Place
from streambpe.encode.encoder import RunJoiner
from streambpe.encode.shards import MOST_SHARDS, IdsFile, index_of, index_path, shard_borders, shard_paths, shards_there
from streambpe.encode.sidecar import (
    GrowingFile,
    IdsRecord,
    damaged_output,
    files_of,
    numbers_in,
    offsets_of,
    sidecar_of,
    vocabulary_digest,
)
from streambpe.encode.split import DocumentHash, for_validation, numbers_of, parse_share, validation_path
from streambpe.encode.spread import encode_by_tasks, encode_runner, plan_tasks
from streambpe.encode.streams import begin_meter, block_encoder, found_sources
from streambpe.encode.tasks import EncodeShared
from streambpe.encode.tokenizer import Tokenizer
from streambpe.errors import LimitError, SourceUnreachable, Stopped, UsageError, meant
from streambpe.failpoints import failpoint
from streambpe.files import behind_links, own_name_for, put_in_place, remove, replace_file, unfinished
from streambpe.model.eventlog import events_digest, header_line
from streambpe.options import taken, whole_number
from streambpe.outputs import not_written, refuse_existing, whole_output
from streambpe.plurals import counted
from streambpe.progress import Meter, present_meter, reported
from streambpe.resources import Resources
from streambpe.runners.attempts import remove_place
from streambpe.sources.find import Named
from streambpe.sources.source import BadUtf8, Source
from streambpe.sources.stretches import Stretch, refuse_engine
from streambpe.store.checksums import with_sum, without_sum
from streambpe.system import remove_folder, sync
from streambpe.threads import ending_waits, stopped_by

if TYPE_CHECKING:
    from streambpe.keywords import EncodeKeywords

COMMIT_SECONDS = 5.0  # of work that a kill can lose
_ROW_GROUP = 1 << 22  # ids in one row group of a Parquet file


@dataclass(frozen=True)
class EncodeResult(IdsFile):
    """What `encode_corpus` wrote. With `validation`, the first three are about the documents for training; with
    `shards`, `path` is their index."""

    bytes: int  # of all text
    dtype: str
    resumed: bool
    dropped: int = 0  # characters, by the model's --unencodable drop
    warnings: tuple[str, ...] = ()
    validation: IdsFile | None = None
    shards: tuple[IdsFile, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """For --json."""
        return {name: value for name, value in asdict(self).items() if value or name not in ("validation", "shards")}


class _State(msgspec.Struct):
    """How much of the unfinished output is certain. Written to progress.json, with a checksum in it."""

    job: dict[str, Any]  # compared as JSON with what another call, or another version, left
    place: Place = (0, 0, False)  # where it goes on
    ids: int = 0
    documents: int = 0
    bytes: int = 0
    dropped: int = 0
    carry: list[int] = msgspec.field(default_factory=list)  # whole chunks that the next block may join with
    hashed: DocumentHash = msgspec.field(default_factory=DocumentHash)  # of a document that is not whole yet
    finishing: bool = False  # all of it is certain; OUT is being made of it, or is made already
    sums: dict[str, str] = msgspec.field(default_factory=dict)  # of each file, over what is certain

    @classmethod
    def read(cls, file: Path) -> _State | None:
        """What a job left, if it left anything; an error if it is not what was written."""
        if not file.exists():
            return None
        try:
            return msgspec.json.decode(without_sum(file.read_bytes()), type=cls)
        except ValueError:
            raise damaged_output(file, file.parent) from None

    def write(self, file: Path) -> None:
        """Replace what `read` gives."""
        replace_file(file, with_sum(msgspec.json.encode(self) + b"\n"))


def output_kind(path: Path) -> str:
    """Which of npy, parquet and bin the output is, by its name."""
    kind = path.suffix.removeprefix(".")
    if kind not in ("npy", "parquet", "bin"):
        raise UsageError(
            f"{path}: ids can be written as .npy (numpy), .parquet (one row per document) or .bin (nothing but "
            "numbers). Give a name with one of these endings, or leave -o out to print them."
        )
    return kind


def pick_dtype(name: str, n_vocab: int, path: Path) -> np.dtype[Any]:
    """The smallest unsigned type that holds every id, or the one asked for if it does."""
    if name not in ("auto", *sidecar.DTYPES):
        raise UsageError(f"--dtype {name}: choose one of auto, {', '.join(sidecar.DTYPES)}.")
    wanted = np.dtype("uint16" if n_vocab <= 1 << 16 else "uint32") if name == "auto" else np.dtype(name)
    if n_vocab - 1 > np.iinfo(wanted).max:
        raise UsageError(
            f"--dtype {name} holds numbers up to {np.iinfo(wanted).max}, and the model has ids up to {n_vocab - 1}. "
            f"{path} was not written; leave --dtype out."
        )
    return wanted.newbyteorder("<")


@reported("encoding")
def encode_corpus(
    model: Tokenizer | str | os.PathLike[str],
    sources: Named | Sequence[Named],
    output: str | os.PathLike[str],
    *,
    dtype: str = "auto",
    eot: str | None = None,
    bad_utf8: BadUtf8 | None = None,
    validation: str | float | None = None,
    shards: int | str | None = None,
    resources: Resources | None = None,
    stop: threading.Event | None = None,
    progress: str = "none",
    force: bool = False,
    **options: Unpack[EncodeKeywords],
) -> EncodeResult:
    """Encode sources, in the order of their paths, into one file; a stopped job goes on.

    An output that exists is refused unless `force`; what the same job left unfinished is not.

    `.npy` and `.bin` hold all ids one after another; OUT.offsets.npy holds documents + 1 numbers: document i
    is ids[offsets[i]:offsets[i + 1]]. `.parquet` has one row per document. eot: a special token to put behind
    every document. Special tokens in the text are ordinary text. bad_utf8: None replaces bad bytes, and refuses
    sources that are mostly not UTF-8. validation: the share of documents that go to NAME.validation.npy (.bin,
    .parquet), chosen by what they say (encode/split.py). shards: so many files of whole documents and about equally
    many ids instead of one, and an index (encode/shards.py); validation stays one file.
    """
    path, (_, how, resources) = Path(output), arguments("encode_corpus", options, None, resources)
    tokenizer = model if isinstance(model, Tokenizer) else Tokenizer(model)
    share = None if validation is None else parse_share(validation)
    many = 0 if shards is None else taken("shards", shards, whole_number)
    if shards is not None and not 1 <= many <= MOST_SHARDS:
        raise UsageError(f"--shards {shards}: a number of files from 1 to {MOST_SHARDS:,}. Nothing was written.")
    found, warnings = found_sources(sources, how, bad_utf8)
    bad_utf8 = bad_utf8 or "replace"
    chosen = pick_dtype(dtype, tokenizer.max_token_value + 1, path)
    if eot is not None and eot not in tokenizer.special_tokens:
        raise UsageError(
            f"The model has no special token {eot!r}; it has {', '.join(tokenizer.special_tokens) or 'none'}."
            f"{meant(eot, tokenizer.special_tokens)} "
            f"Leave --eot out: document boundaries are kept in {path}.offsets.npy anyway."
        )
    column = how.text_column or "text"
    facts: list[Any] = [chosen.str, eot, how.lines, column, how.kind, bad_utf8, output_kind(path)]
    facts += [] if share is None else [f"validation {share}, by the signs of the offsets"]
    facts += [f"shards {many}"] if many else []
    _refuse_overwriting(path, force, share is not None, bool(many))
    refuse_engine(found, resources)
    stop = stop or threading.Event()
    job = _Job(tokenizer, found, path, chosen, eot, facts, bad_utf8, share, many, resources, stop)
    try:
        return job.run(warnings, present_meter())
    except FileNotFoundError as why:
        if job.folder.parent.is_dir():
            raise
        raise not_written(path, why) from None


def _refuse_overwriting(path: Path, force: bool, divided: bool, sharded: bool) -> None:
    """An error if a file is in the way, unless it is unfinished output; `_Job._resume` checks of which job."""
    folder = unfinished(behind_links(path))
    try:
        begun = None if folder.is_symlink() else _State.read(folder / "progress.json")
    except OSError as why:  # the name is too long
        raise not_written(path, why) from None
    if begun is None and os.path.lexists(folder):
        raise UsageError(
            f"{folder} is in the way: an unfinished output has this name, and it is none. Nothing was changed. Move it "
            "away, or give another OUT."
        )
    outputs = shards_there(path) if sharded else files_of(path)
    for file in [*outputs, *files_of(validation_path(path))] if divided else outputs:
        refuse_existing(file, force or (begun is not None and begun.finishing))


@dataclass
class _Job:
    """One call of `encode_corpus`: encoded blocks, and a writer that keeps their order."""

    tokenizer: Tokenizer
    sources: list[Source]
    path: Path
    dtype: np.dtype[Any]
    eot_text: str | None
    options: list[Any]
    bad_utf8: BadUtf8
    share: Fraction | None
    shards: int  # 0: one file
    resources: Resources
    stop: threading.Event

    def __post_init__(self) -> None:
        tokenizer, path, share = self.tokenizer, self.path, self.share
        self.encoder = tokenizer.encoder
        self.eot = None if self.eot_text is None else tokenizer.special_tokens[self.eot_text]
        self.blocks = block_encoder(self.encoder, self.bad_utf8, self.resources, hashed=share is not None)
        self.folder = unfinished(behind_links(path))
        self.progress_file = self.folder / "progress.json"
        self.parts = self.ids, self.offsets = [GrowingFile(self.folder / name) for name in ("ids", "offsets")]
        self.tasks = self.folder / "tasks"  # what tasks encoded, until it is joined
        self.committed = 0.0
        events = self.encoder.model.events
        digest = hashlib.sha256(header_line(tokenizer.event_log.header, len(events), events_digest(events)))
        inputs = [[s.path, s.column, s.bytes, s.mtime_ns] for s in self.sources]
        facts = {"model": digest.hexdigest(), "n_vocab": tokenizer.n_vocab, "options": self.options, "inputs": inputs}
        self.state = _State(facts)

    def run(self, warnings: list[str], meter: Meter) -> EncodeResult:
        resumed = self._resume()
        begin_meter(meter, self.sources, *self.state.place[:2])
        if not self.state.finishing:
            self._encode(meter)
        meter.stage = "writing"
        return self._finish(resumed, warnings)

    def _encode(self, meter: Meter) -> None:
        state = self.state
        if any(source.is_stream for source in self.sources) and state.sums:
            raise UsageError(
                f"{self.folder} holds an unfinished encoding of standard input, which cannot be read again. Remove it "
                "and give the whole input again."
            )
        self.joiner = RunJoiner(self.encoder, state.carry)
        remove_place(self.tasks)  # what a dead command left; its workers, too, cannot add to it any more
        if not state.sums:
            self._make_folder()
        try:
            ids, offsets = self.parts
            with open(ids.path, "ab") as ids.file, open(offsets.path, "ab") as offsets.file:
                if not offsets.file.tell():
                    offsets.write(bytes(8))
                self.committed = time.monotonic()
                try:
                    with ending_waits(self.stop.is_set):
                        self._encode_left(meter)
                except SourceUnreachable:
                    if not self.stop.is_set():
                        raise
                state.finishing = not self.stop.is_set()
                self._commit()
                if not state.finishing:
                    raise Stopped(
                        f"Stopped; kept in {self.folder}: {counted(state.documents, 'document')}. Continue with the "
                        "same command.",
                        stopped_by(self.stop),
                    )
        finally:
            if not state.sums:  # nothing is certain
                remove_folder(self.folder)

    def _make_folder(self) -> None:
        """It has its name once its record is in it: a folder of this name without one is a user's."""
        made = own_name_for(self.path)
        try:
            made.mkdir()
            self.state.write(made / self.progress_file.name)
            put_in_place(made, self.folder)
        except OSError as why:
            remove(made)
            raise not_written(self.path, why) from None

    def _encode_left(self, meter: Meter) -> None:
        """What is left, until the end or a stop."""
        if self.resources.engine == "ray" and self.sources[self.state.place[0] :]:
            self._encode_on_ray(meter)
        if self.stop.is_set():
            return
        first, stop_at, inside = self.state.place
        left = [Stretch(source) for source in self.sources[first:]]
        if left and stop_at:
            left[0] = left[0].without([(0, stop_at)])
        for block in self.blocks.blocks(enumerate(left, first), meter.advance, inside):
            if self.stop.is_set():
                return
            self._append(block)

    def _encode_on_ray(self, meter: Meter) -> None:
        """Encode by tasks; what a worker cannot hold is left, and all behind it."""
        tasks, first = self.tasks.absolute(), self.state.place[0]
        runner = encode_runner(self.sources[first:], self.encoder, self.resources, tasks)
        hashed, seconds = self.share is not None, self.resources.document_seconds
        shared = EncodeShared(self.encoder, tasks, self.bad_utf8, hashed, seconds)
        plan = plan_tasks(self.sources, self.encoder.pattern, self.state.place, runner.workers)
        try:
            encode_by_tasks(runner, plan, shared, self._append, meter.advance, self.stop)
        except TokenDead as why:
            raise self.encoder.refused(why, []) from None
        begin_meter(meter, self.sources, *self.state.place[:2])

    def _append(self, block: EncodedBlock) -> None:
        """Append the ids of a block; blocks come in order. `eot` stands for each END_OF_TEXT, or nothing does.

        5 6 END 7 END 8: ends 2 4, less those before them 2 3, so documents end behind 2 and 3 ids
        """
        state = self.state
        stream = self.joiner.join(block.ids)
        ends = np.flatnonzero(stream == END_OF_TEXT)
        if self.eot is None:
            stream, behind = np.delete(stream, ends), ends - np.arange(len(ends))
        else:
            stream[ends], behind = self.eot, ends + 1
        behind = (behind + state.ids).astype("<i8")
        if block.hashed is not None and self.share is not None:
            chosen = for_validation(numbers_of(block.hashed, state.hashed), self.share)
            np.invert(behind, out=behind, where=chosen)
        self.offsets.write(behind.data)
        self.ids.write(stream.astype(self.dtype).data)
        state.ids, state.documents = state.ids + len(stream), state.documents + len(ends)
        state.place, state.bytes, state.dropped = block.behind, state.bytes + block.bytes, state.dropped + block.dropped
        if time.monotonic() - self.committed > COMMIT_SECONDS:
            self._commit()

    def _commit(self) -> None:
        for part in self.parts:
            part.file.flush()
            sync(part.file.fileno())
        self.state.carry = self.joiner.carry.tolist()
        self.state.sums = {part.path.name: part.sum.digest().hex() for part in self.parts}
        self.state.write(self.progress_file)
        self.committed = time.monotonic()

    def _resume(self) -> bool:
        """Take up a job that was stopped: its files are cut to what was certain."""
        saved = _State.read(self.progress_file)
        if saved is None or saved == _State(saved.job):
            remove_folder(self.folder)
            return False
        if saved.job != json.loads(json.dumps(self.state.job)):
            changed = [key for key in self.state.job if saved.job.get(key) != self.state.job[key]]
            raise UsageError(
                f"The output in {self.folder} was started with another {', '.join(changed)}; nothing was changed. "
                "Give the command that started it, or remove that folder to start again."
            )
        if not all(0 <= chunk - WHOLE < self.encoder.n_log for chunk in saved.carry):
            raise damaged_output(self.progress_file, self.folder)
        sizes = (saved.ids * self.dtype.itemsize, (saved.documents + 1) * 8)
        for part, size in zip(self.parts, sizes, strict=True):
            made = part is self.ids and saved.finishing and not part.path.exists()  # a .bin is its part, renamed
            part.refuse_damage(saved.sums.get(part.path.name), size, self.path if made else part.path)
        for part, size in zip(self.parts, sizes, strict=True):
            if part.path.exists():
                os.truncate(part.path, size)
        self.state = saved
        return True

    def _finish(self, resumed: bool, warnings: list[str]) -> EncodeResult:
        """The parts become OUT (and what stands beside it), each under its name only when it is whole.

        After a kill all of it is done again; each step gives the same, or finds that it was done.
        """
        offsets = np.fromfile(self.offsets.path, "<i8")
        is_validation = offsets[1:] < 0
        np.invert(offsets[1:], out=offsets[1:], where=is_validation)
        if offsets[0] or offsets[-1] != self.state.ids or (offsets[1:] < offsets[:-1]).any():
            raise damaged_output(self.offsets.path, self.folder)
        paths, borders = [self.path], [0, len(is_validation)]
        if self.shards:
            for file in shards_there(self.path):
                file.unlink(missing_ok=True)
            sizes = np.where(is_validation, 0, np.diff(offsets))
            paths, borders = shard_paths(self.path, self.shards), shard_borders(np.cumsum(sizes), self.shards)
        made = [
            self._make(path, ~is_validation[low:high], offsets[low : high + 1])
            for path, (low, high) in zip(paths, pairwise(borders), strict=True)
        ]
        training, shards = made[0], tuple(made) if self.shards else ()
        if shards:
            training = IdsFile(index_path(self.path), sum(one.ids for one in made), sum(one.documents for one in made))
            with whole_output(training.path) as name:
                name.write_bytes(index_of(self._record(training), made))
        failpoint("encoded-training")
        validation = None
        if self.share is not None:
            made.append(validation := self._make(validation_path(self.path), is_validation, offsets))
        failpoint("encoded")
        self.progress_file.unlink()
        remove_folder(self.folder)
        if len(made) > 1 and (empty := [one.path.name for one in made if not one.documents]):
            warnings.append(
                f"No document went into {len(empty):,} of {len(made):,} files ({empty[0]}): the text has "
                f"{counted(self.state.documents, 'document')}, and none is cut. --lines makes each line of a text file "
                "a document."
            )
        return EncodeResult(
            **vars(training), bytes=self.state.bytes, dtype=self.dtype.name, resumed=resumed,
            dropped=self.state.dropped, warnings=tuple(warnings), validation=validation, shards=shards,
        )  # fmt: skip

    def _chosen(
        self, chosen: npt.NDArray[np.bool_], offsets: npt.NDArray[np.int64]
    ) -> tuple[GrowingFile, npt.NDArray[np.int64]]:
        """(a file of the ids of the chosen documents, where each of these begins in it)."""
        if self.share is None and not self.shards:
            return self.ids, offsets
        numbers = numbers_in(self.ids.path, self.dtype)
        some = GrowingFile(self.folder / "chosen")
        # chosen 0 1 1 0 1: runs begin at documents 1 and 4, and end before 3 and 5
        borders = np.flatnonzero(np.diff(np.concatenate([[False], chosen, [False]]).astype(np.int8)))
        with open(some.path, "wb") as some.file:
            for begin, end in borders.reshape(-1, 2).tolist():
                some.write(numbers[offsets[begin] : offsets[end]].data)
        return some, np.concatenate([[0], np.cumsum(np.diff(offsets)[chosen])]).astype("<i8")

    def _make(self, path: Path, chosen: npt.NDArray[np.bool_], offsets: npt.NDArray[np.int64]) -> IdsFile:
        """One file of the ids of the chosen documents, with what stands beside it."""
        part, offsets = self._chosen(chosen, offsets)
        whole, kind = self.folder / "whole", output_kind(path)
        made = IdsFile(path, int(offsets[-1]), len(offsets) - 1)
        sums = {"ids_mmh3": part.sum.digest().hex(), "offsets_mmh3": mmh3.mmh3_x64_128_digest(offsets.data).hex()}
        record = self._record(made, **sums)
        if kind == "bin":
            whole = part.path
        elif kind == "parquet":
            self._write_parquet(whole, part.path, offsets, record)
        else:
            with open(whole, "wb") as out, open(part.path, "rb") as ids:
                header = {"descr": self.dtype.str, "fortran_order": False, "shape": (made.ids,)}
                np.lib.format.write_array_header_1_0(out, header)
                shutil.copyfileobj(ids, out, 1 << 24)
        if kind != "parquet":
            with whole_output(offsets_of(path)) as name:
                save_array(offsets, name)
            with whole_output(sidecar_of(path)) as name:
                name.write_bytes(record)
        failpoint("encoded-beside")
        if whole.exists():  # a .bin may be in place already
            put_in_place(whole, path)
        failpoint("encoded-file")
        return made

    def _record(self, made: IdsFile, **sums: Any) -> bytes:
        tokenizer, dtype = self.tokenizer, cast(Any, self.dtype.name)
        return IdsRecord(
            dtype=dtype, ids=made.ids, documents=made.documents, eot=self.eot_text, n_vocab=tokenizer.n_vocab,
            model_sha256=events_digest(tokenizer.event_log.events), vocabulary_sha256=vocabulary_digest(tokenizer),
            **sums,
        ).as_json()  # fmt: skip

    def _write_parquet(self, path: Path, part: Path, offsets: npt.NDArray[np.int64], record: bytes) -> None:
        """Row groups of whole documents, at least one each. With offsets 0 3 4 9 12 and groups of 5 ids:

        at 0: the last offset that is not above 0 + 5 is 4, of document 2: documents 0 and 1
        at 2: the last that is not above 4 + 5 is 9: document 2;  at 3: document 3
        """
        numbers = numbers_in(part, self.dtype)
        ids = pa.field("ids", pa.list_(pa.from_numpy_dtype(self.dtype)))
        schema = pa.schema([ids], {sidecar.FORMAT: record})
        with pq.ParquetWriter(path.absolute(), schema, compression="zstd", write_page_checksum=True) as writer:
            for at, stop in slices(offsets, _ROW_GROUP):
                low, high = int(offsets[at]), int(offsets[stop])
                if high - low >= 1 << 31:
                    raise LimitError(f"Document {at} has {high - low} ids; a Parquet list holds 2^31. Write .npy.")
                lists = pa.ListArray.from_arrays(
                    pa.array((offsets[at : stop + 1] - low).astype(np.int32)), pa.array(np.asarray(numbers[low:high]))
                )
                writer.write_table(pa.table([lists], schema=schema))
