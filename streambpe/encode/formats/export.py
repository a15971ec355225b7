"""`export`: write a model in other programs' formats, and measure how exact the hand-over is.

The measure: texts are encoded by the exported file in its own library and by the model. A token span is
the stretch of bytes one token stands for; the share of the model's spans that the other did not find says
how far the two drift.
"""

from __future__ import annotations

import contextlib
import os
import runpy
import shutil
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import msgspec
from msgspec import structs

from streambpe.count_config import SourceOptions
from streambpe.encode.encoder import Encoder
from streambpe.encode.formats.boundless import export_boundless, import_dot_model
from streambpe.encode.formats.gguf import export_gguf
from streambpe.encode.formats.gpt2 import FILES as GPT2_FILES
from streambpe.encode.formats.gpt2 import export_gpt2, gpt2_folder, import_gpt2
from streambpe.encode.formats.hf import export_hf, import_hf, not_kept, read_json
from streambpe.encode.formats.hf_folder import Roles, export_folder, folder_files, names_folder
from streambpe.encode.formats.named import HF, TIKTOKEN, find_tokenizer_json, log_of_encoding
from streambpe.encode.formats.onto import Old
from streambpe.encode.formats.sentencepiece import export_sentencepiece, looks_like_one
from streambpe.encode.formats.tiktoken_ranks import (
    export_tiktoken,
    import_tiktoken,
    looks_like_ranks,
    read_ranks,
    snippet_of,
)
from streambpe.encode.joins import Joins, symbols_of_ids
from streambpe.encode.tokenizer import Tokenizer
from streambpe.errors import ModelError, NotKept, StreambpeError, UsageError, typed
from streambpe.files import put_in_place
from streambpe.later import need
from streambpe.model.eventlog import EventLog, Special, write_event_log
from streambpe.model.line_shapes import HEAD
from streambpe.model.parquet import read_parquet, write_parquet
from streambpe.model.replay import Model, events_for_size
from streambpe.options import several, whole_number
from streambpe.outputs import not_written, parents_made, refuse_existing, refuse_no_place
from streambpe.plurals import counted
from streambpe.progress import Meter, present_meter, reported
from streambpe.results import Result
from streambpe.sources.decode import block_text
from streambpe.sources.find import find_sources
from streambpe.sources.read import Reader
from streambpe.store.models import read_model
from streambpe.system import sync_folder
from streambpe.text.patterns import PRESETS

if TYPE_CHECKING:
    from streambpe.keywords import RoleKeywords

Written = tuple[list[Path], list[str]]  # files, what is lost


def _export_log(write: Callable[[Path, EventLog], object], encoder: Encoder, path: Path) -> Written:
    """Write a model as its own log."""
    write(path, EventLog(encoder.header, encoder.model.events))
    return [path], []


_WRITERS: dict[str, Callable[[Encoder, Path], Written]] = {
    "hf": export_hf,
    "tiktoken": export_tiktoken,
    "gpt2": export_gpt2,
    "boundless": export_boundless,
    "gguf": export_gguf,
    "sentencepiece": export_sentencepiece,
    "events": partial(_export_log, write_event_log),
    "parquet": partial(_export_log, write_parquet),
}
FORMATS = tuple(_WRITERS)
_EXAMPLES = 5


class Comparison(msgspec.Struct):
    """An exported file against the model, on some texts."""

    documents: int = 0
    documents_that_differ: int = 0
    spans: int = 0
    spans_lost: int = 0
    examples: list[str] = msgspec.field(default_factory=list)

    @property
    def exact(self) -> bool:
        """Whether all ids were equal."""
        return not self.documents_that_differ

    def add(
        self,
        ours: Sequence[int],
        theirs: Sequence[int],
        content: Callable[[int], bytes],
        their_content: Callable[[int], bytes] | None = None,
    ) -> None:
        """Compare one text's ids; `their_content`: if the other side numbers its ids differently."""
        self.documents += 1
        self.spans += len(ours)
        if list(ours) == list(theirs):
            return
        self.documents_that_differ += 1
        mine, other = list(_spans(ours, content)), list(_spans(theirs, their_content or content))
        found = {(start, end) for start, end, _ in other}
        for place, (start, end, token) in enumerate(mine):
            if (start, end) in found:
                continue
            self.spans_lost += 1
            if len(self.examples) < _EXAMPLES and (not place or mine[place - 1][:2] in found):
                around = [theirs for low, high, theirs in other if low < end and high > start]
                example = f"{_shown([token])}  there: {_shown(around)}"
                if example not in self.examples:
                    self.examples.append(example)


def _spans(ids: Iterable[int], content: Callable[[int], bytes]) -> Iterator[tuple[int, int, bytes]]:
    at = 0
    for number in ids:
        token = content(number)
        yield at, at + len(token), token
        at += len(token)


def _shown(parts: Iterable[bytes]) -> str:
    return " ".join(repr(part.decode("utf-8", "backslashreplace")) for part in parts) or "nothing"


@dataclass(frozen=True)
class ExportResult(Result):
    """One size of one export."""

    files: list[Path]
    n_vocab: int
    lost: list[str]
    unicode: str = ""  # of the splits, where the file has an expression that another program runs
    checked_by: str = ""  # which library encoded
    comparison: Comparison | None = None
    joins: Joins | None = None  # beside the old file of --onto

    @property
    def exact(self) -> bool:
        """What --strict asks for: nothing known to be lost and, where it was compared, nothing lost in fact."""
        return self.comparison.exact if self.comparison else not self.lost

    def as_json(self) -> dict[str, Any]:
        """Plain values for `export --json`."""
        return {
            "files": [str(file) for file in self.files],
            "ids": self.n_vocab,
            "lost": self.lost,
            "exact": self.exact,
            "checked_by": self.checked_by or None,
            "comparison": structs.asdict(self.comparison) if self.comparison else None,
            "joins": self.joins.as_json() if self.joins else None,
        }

    def lines(self) -> Iterator[str]:
        """What to tell the user."""
        yield f"{', '.join(map(str, self.files))}: {self.n_vocab} ids"
        for loss in self.lost:
            yield f"  lost: {loss}"
        if self.comparison is None:
            characters = f", for characters of Unicode {self.unicode}" if self.unicode else ""
            yield (
                f"  exact by construction{characters}; not compared on a text (--verify TEXT does that)"
                if not self.lost
                else ("  not exact; --verify TEXT measures by how much")
            )
            return
        c = self.comparison
        if c.exact:
            yield f"  exact: {c.spans:,} ids of {counted(c.documents, 'text')} are equal in {self.checked_by}"
        if self.joins is not None:
            yield f"  compared with the old file: {self.joins.told()}"
        if c.exact:
            return
        share = 100 * c.spans_lost / max(c.spans, 1)
        yield (
            f"  not exact: {share:.2f} % of {counted(c.spans, 'token span')} are not found by {self.checked_by}; "
            f"{c.documents_that_differ:,} of {counted(c.documents, 'text')} differ"
        )
        for example in c.examples:
            yield f"    {example}"


def cut_log(log: EventLog, vocab_size: int) -> EventLog:
    """The log of the model of this size: cut at the end of the step that reached it."""
    if log.header.config.get("batch") == "paper":
        raise UsageError(
            "A model trained with --batch paper cannot be cut: its merges are ordered by batch, and a smaller "
            "training would have other batches. Train one of that size."
        )
    try:
        events = log.events[: events_for_size(log.header, log.events, vocab_size)]
    except ValueError as why:
        raise UsageError(f"--vocab-size {vocab_size}: {why}. Nothing was written.") from None
    config = {**log.header.config, "vocab_size": vocab_size}
    ids = Model(EventLog(log.header, events)).special_ids
    specials = tuple(Special(s.text, ids[s.text]) for s in log.header.specials)
    return EventLog(replace(log.header, config=config, specials=specials), events)


@reported("exporting")
def export(
    model: str | os.PathLike[str] | EventLog,
    to: str,
    output: str | os.PathLike[str],
    *,
    vocab_size: int | str | Sequence[int | str] = (),
    verify: str | None = None,
    force: bool = False,
    onto: str | os.PathLike[str] | None = None,
    progress: str = "none",
    **roles: Unpack[RoleKeywords],
) -> list[ExportResult]:
    """Write a model in one format, once for each size (none: as it is); verify: a source to compare on.

    With several sizes the size goes into the name: tok.json -> tok-8000.json, tok-16000.json. force: overwrite files
    that are there; without it nothing is written if one is. `roles`: what special tokens are for (bos, eos, ...), where
    hf writes a folder: an output that ends with a slash, or is one already. `onto`: a file of that format that was
    extended; it is written again with what is new behind it (formats/onto.py).
    """
    if to not in FORMATS:
        raise UsageError(f"--to {to}: choose one of {', '.join(FORMATS)}.")
    meter = present_meter()
    path, given, sizes = Path(output), Roles(**roles), _sizes(vocab_size)
    path = path if path.name else path.absolute()  # "." has no name
    folder = given if to == "hf" and names_folder(output) else None
    if given.given and folder is None:
        raise UsageError(
            "What special tokens are for, and a chat template, belong in a folder that transformers loads: give --to "
            f"hf and -o {path.with_suffix('')}/. Nothing was written."
        )
    old = None if onto is None else Old.of(onto, to, output)
    if old is not None:
        if given.given:
            raise UsageError(
                f"--onto {onto} cannot be combined with options for special tokens' roles or chat templates: the old "
                "files keep theirs. Nothing was written. Leave those options out."
            )
        folder = None
    many = len(sizes) > 1
    targets = [path.with_name(f"{path.stem}-{n}{path.suffix}") for n in sizes] if many else [path]
    for target in targets:
        for file in files_of(to, target, folder) if old is None or old.beside is None else old.files(target):
            refuse_existing(file, force, parents=True)
    log = model if isinstance(model, EventLog) else read_model(model)
    logs = [cut_log(log, size) for size in sizes] or [log]
    if folder is not None:
        folder.settle({special.text: special.id for special in log.header.specials})
        folder.chat_text()
    return [_export_one(one, to, target, verify, folder, old, meter) for one, target in zip(logs, targets, strict=True)]


def _sizes(given: int | str | Sequence[int | str]) -> list[int]:
    parts = given.split(",") if isinstance(given, str) else several(given)
    try:
        return [whole_number(part) for part in parts]
    except TypeError:
        raise UsageError(
            f"--vocab-size {given}: give one number, or several separated by commas, such as 8k,16k."
        ) from None


def files_of(to: str, path: Path, folder: Roles | None = None) -> list[Path]:
    """The files that an export writes. `folder`: for hf, if `path` is a folder; it is made, and those around it."""
    if folder is not None:
        if path.is_file():
            raise UsageError(f"{path} is a file, not a folder. Nothing was changed; give another name.")
        return [path / name for name in folder_files(folder)] if path.is_dir() else []
    if to == "gpt2":
        refuse_no_place(path, parents=True)
        if path.exists() and not path.is_dir():
            raise UsageError(f"{path} is a file, but gpt2 writes a folder. Nothing was changed; give another name.")
        return [path / name for name in GPT2_FILES] if path.is_dir() else []
    return [path, snippet_of(path)] if to == "tiktoken" else [path]


@contextlib.contextmanager
def _written_aside(path: Path) -> Iterator[Path]:
    """The same name in a folder beside `path`; what was written there moves to its place when all of it is written.

    A kill leaves the folder behind; the same command begins it again.
    """
    place = path.absolute().with_name(f".{path.name}.streambpe-export")
    try:
        with contextlib.ExitStack() as stack:
            stack.enter_context(parents_made(path))
            if place.exists():
                shutil.rmtree(place)
            stack.callback(shutil.rmtree, place, ignore_errors=True)
            place.mkdir()
            yield place / path.name
            for file in sorted(file for file in place.rglob("*") if file.is_file()):
                target = path.parent / file.relative_to(place)
                target.parent.mkdir(exist_ok=True)
                put_in_place(file, target)
            sync_folder(path.absolute().parent)  # gpt2 makes a folder in it
    except OSError as why:
        raise not_written(path, why) from None


def _export_one(
    log: EventLog, to: str, path: Path, verify: str | None, folder: Roles | None, old: Old | None, meter: Meter
) -> ExportResult:
    tokenizer = Tokenizer(log)
    lost: list[str] = []
    with _written_aside(path) as aside:
        if old is not None:
            files = old.write(tokenizer.encoder, aside)
        elif folder is not None:
            files, lost = export_folder(tokenizer.encoder, aside, folder)
        else:
            files, lost = _WRITERS[to](tokenizer.encoder, aside)
        files = [path.parent / file.relative_to(aside.parent) for file in files]
    pattern = tokenizer.encoder.pattern
    runs_expression = to in ("hf", "tiktoken") and pattern.expression and not pattern.by_rules
    result = ExportResult(files, tokenizer.n_vocab, lost, pattern.unicode if runs_expression else "")
    if verify is not None:
        result = _verified(result, to, tokenizer, old, documents(verify, meter))
    return result


def _verified(
    result: ExportResult, to: str, tokenizer: Tokenizer, old: Old | None, texts: Iterable[str]
) -> ExportResult:
    """Encode texts by the model and by the exported file; by the file of --onto, too."""
    encode, their_content, checked_by = _reader(to, result.files)
    comparison, joins = Comparison(), None if old is None else Joins()
    if old is not None:
        encode_old, sizes = _old_reader(to, old, result.files), symbols_of_ids(tokenizer.encoder.model)

    def content(number: int) -> bytes:
        try:
            return tokenizer.decode_single_token_bytes(number)
        except KeyError:
            return b"?"  # an id that only the other knows, for a byte the model lacks

    for text in texts:
        theirs = encode(text)
        comparison.add(tokenizer.encode_ordinary(text), theirs, content, their_content)
        if joins is not None:
            joins.add(encode_old(text), theirs, sizes)
    return replace(result, checked_by=checked_by, comparison=comparison, joins=joins)


def documents(source: str, meter: Meter | None = None, how: SourceOptions = SourceOptions()) -> Iterator[str]:
    """The documents of a source; a .txt file is cut into paragraphs, so that examples and counts say more."""
    found, _ = find_sources([source], how, in_part=True)
    meter = meter or Meter("verifying")
    meter.begin("verifying", sum(one.bytes for one in found))
    reader = Reader(PRESETS["none"], 1 << 20, 1 << 30, on_read=meter.advance)
    for one in found:
        for block in reader.blocks(one):
            for document in block_text(block, "replace").text.split(b"\xff"):
                parts = document.split(b"\n\n") if one.kind == "txt" else [document]
                for i, part in enumerate(parts):
                    text = part + b"\n\n" if i < len(parts) - 1 else part
                    if text:
                        yield text.decode()


def _reader(to: str, files: list[Path]) -> tuple[Callable[[str], list[int]], Callable[[int], bytes] | None, str]:
    """(text -> ids as the exported file encodes it; id -> bytes, if its ids may differ; the library that encodes)."""
    if to == "gguf":
        raise UsageError(
            f"{files[0]} was written, but only llama.cpp can encode with it: leave out --verify, and compare there."
        )
    library = {"tiktoken": "tiktoken", "hf": "tokenizers", "gpt2": "tokenizers", "sentencepiece": "sentencepiece"}
    if to not in library:
        by = "streambpe, which read the file again"
        if to != "boundless":
            return Tokenizer(files[0]).encode_ordinary, None, by
        back = Tokenizer(import_dot_model(files[0]))
        return back.encode_ordinary, back.decode_single_token_bytes, f"{by} (fastboundlessbpe was not run)"
    package = need(library[to], "--verify", " The files were written.")
    if to == "tiktoken":
        return runpy.run_path(str(files[1]))["encoding"].encode_ordinary, None, library[to]
    if to == "sentencepiece":
        return package.SentencePieceProcessor(model_file=str(files[0])).encode, None, library[to]
    loaded = _tokenizers(to, files, package)
    return lambda text: list(loaded.encode(text, add_special_tokens=False).ids), None, library[to]


def _tokenizers(to: str, files: list[Path], package: Any) -> Any:
    """A file of hf or gpt2 as the library `tokenizers` has it; special tokens in the text are ordinary text."""
    if to == "gpt2":
        loaded = package.Tokenizer(package.models.BPE.from_file(str(files[0]), str(files[1])))
        loaded.pre_tokenizer = package.pre_tokenizers.ByteLevel(add_prefix_space=False)
        return loaded
    loaded = package.Tokenizer.from_file(str(files[0]))
    loaded.no_truncation()
    loaded.no_padding()
    loaded.encode_special_tokens = True
    return loaded


def _old_reader(to: str, old: Old, files: list[Path]) -> Callable[[str], list[int]]:
    """Text -> ids as the file of --onto encodes it."""
    if to == "tiktoken":
        new = runpy.run_path(str(files[1]))["encoding"]  # which has asked for the library
        made = type(new)("old", pat_str=new._pat_str, mergeable_ranks=read_ranks(old.file), special_tokens={})
        encode: Callable[[str], list[int]] = made.encode_ordinary
        return encode
    return _reader(to, old.read_from)[0]


def import_file(
    path: str | os.PathLike[str], *, pattern: str | None = None, specials: Sequence[str] = (), if_needed: bool = False
) -> EventLog:
    """A vocabulary made elsewhere as an event log: tokenizer.json, GPT-2's two files, tiktoken ranks, a .model file,
    research JSON; or by name, `hf:NAME` and `tiktoken:NAME`.

    pattern and specials are for tiktoken ranks, which carry neither, and pattern for GPT-2's files; for others they are
    refused, or ignored with `if_needed`.
    """
    file = Path(path)
    if str(path).startswith(TIKTOKEN):
        return log_of_encoding(str(path))
    if str(path).startswith(HF):
        file = find_tokenizer_json(str(path))
    elif (folder := gpt2_folder(file)) is not None:
        if specials and not if_needed:
            raise UsageError(
                f"--special is for tiktoken ranks, which have none; {folder / GPT2_FILES[0]} has its own. Leave it out."
            )
        return _read(lambda place: import_gpt2(place, pattern), folder, path)
    try:
        with open(file, "rb") as opened:
            head = opened.read(512)
    except OSError as why:
        raise ModelError(f"{path} cannot be read: {why.strerror}.{_folder(file)}") from None
    if file.name == GPT2_FILES[1] and head.startswith(b"#version"):
        raise ModelError(f"{path}: {GPT2_FILES[0]}, which has the ids, is missing beside it.")
    if head.startswith(HEAD):
        raise UsageError(f"{path} is an event log of streambpe, and needs no import: give it as MODEL.")
    if head.startswith(b"GGUF"):
        raise ModelError(
            f"{path} is a gguf file, which streambpe cannot read. Import the tokenizer.json it was made from."
        )
    if looks_like_one(head):
        raise ModelError(
            f"{path} is a .model of sentencepiece. An event log cannot hold it: its ids have another order, and it "
            f"changes text before it splits it. `evaluate --tokenizer {typed(path)}` measures it."
        )
    reader = _reader_of(file, head)
    if reader is not None:
        if (pattern or specials) and not if_needed:
            raise UsageError(
                f"--pattern and --special are for tiktoken ranks, which have neither; {path} has its own. Leave them "
                "out."
            )
        return _read(reader, file, path)
    if not looks_like_ranks(head):
        raise ModelError(
            f"{path} is not a tokenizer that streambpe can read: it {_looks(head)}. It reads tokenizer.json of "
            "Hugging Face (byte-level BPE), vocab.json with merges.txt as of GPT-2, tiktoken ranks, .model files "
            "(fastboundlessbpe, BoundlessBPE, minbpe, BatchBPE), Parquet twins of event logs, hf:NAME and "
            "tiktoken:NAME."
        )
    if pattern is None:
        raise UsageError(
            f"{path} looks like tiktoken ranks, which have no pattern. Say how text is split, for example with "
            "--pattern cl100k."
        )
    return import_tiktoken(file, pattern, tuple(specials))


@reported("importing")
def import_model(
    file: str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    pattern: str | None = None,
    special: str | Sequence[str] = (),
    force: bool = False,
    progress: str = "none",
) -> Tokenizer:
    """Read a vocabulary made elsewhere, as `import_file` does, and write its event log; returns its tokenizer."""
    refuse_existing(Path(output), force)
    tokenizer = Tokenizer(import_file(file, pattern=pattern, specials=several(special)))
    write_event_log(output, tokenizer.event_log)
    return tokenizer


def _reader_of(file: Path, head: bytes) -> Callable[[Path], EventLog] | None:
    """What reads a file that begins so; None for ranks, and for what nobody reads."""
    if head.startswith(b"PAR1"):
        return read_parquet
    if (file.suffix == ".model" and not looks_like_ranks(head)) or head.startswith(
        (b"BoundlessBPE v2", b"word v1", b"minbpe v1", b"BatchBPE v1")
    ):
        return import_dot_model
    return _import_json if head.lstrip().startswith(b"{") or head.startswith(b"\x1f\x8b") else None


def takes_pattern(path: str | os.PathLike[str]) -> bool:
    """Whether a tokenizer is of a kind that carries no pattern: tiktoken ranks, or GPT-2's files."""
    if str(path).startswith((HF, TIKTOKEN)):
        return False
    file = Path(path)
    if not file.is_file() or gpt2_folder(file) is not None:
        return True  # what is not there is told when it is read
    with file.open("rb") as opened:
        return looks_like_ranks(opened.read(512))


def _folder(path: Path) -> str:
    """What to give instead of a folder."""
    if (path / "state.duckdb").is_file():
        return " It is a RUN: give it as MODEL."
    if (path / "tokenizer.json").is_file():
        return f" `{typed(f'hf:{path}')}` reads the tokenizer.json in it."
    return ""


def _looks(head: bytes) -> str:
    """What a file that nobody reads looks like, for a message."""
    if not head:
        return "is empty"
    if b"\0" in head:
        return f"is not text, and begins with {head[:8]!r}"
    return f"is text that begins with {head.lstrip()[:40].decode('utf-8', 'replace').splitlines()[0]!r}"


def _read(reader: Callable[[Path], EventLog], file: Path, path: str | os.PathLike[str]) -> EventLog:
    """What a reader makes of a file; whatever trips it over values of another kind than it looks for is damage."""
    try:
        return reader(file)
    except StreambpeError:
        raise
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as why:
        raise ModelError(
            f"{path} is damaged, or was changed by hand: what it holds is not what files that begin like it hold "
            f"({why!r:.200}). Nothing was written; import a whole copy of it."
        ) from None


def _import_json(file: Path) -> EventLog:
    """A tokenizer.json, gzipped or not."""
    document = read_json(file)
    if file.name == GPT2_FILES[0] and all(type(number) is int for number in document.values()):
        raise ModelError(f"{file}: {GPT2_FILES[1]}, which has the merges, is missing beside it.")
    log = import_hf(file, document)
    for what in not_kept(document):
        warnings.warn(f"{file}: an event log cannot store {what}.", NotKept, stacklevel=2)
    return log
