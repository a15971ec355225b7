"""`export`: write a model in other programs' formats.

A format is a function: encoder, output  ->  the contents of files by their paths, what is lost. Nothing is written
before all files are made and known to have a place.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
from msgspec import structs

from streambpe.encode.encoder import Encoder
from streambpe.encode.formats.boundless import boundless_file
from streambpe.encode.formats.flat import Made
from streambpe.encode.formats.gguf import gguf_file
from streambpe.encode.formats.gpt2 import FILES as GPT2_FILES
from streambpe.encode.formats.gpt2 import gpt2_files
from streambpe.encode.formats.hf import hf_file
from streambpe.encode.formats.hf_folder import Roles, hf_folder, names_folder
from streambpe.encode.formats.onto import Old
from streambpe.encode.formats.tiktoken_ranks import tiktoken_files
from streambpe.encode.formats.verify import LIBRARIES, Comparison, compared, first_line
from streambpe.encode.tokenizer import Tokenizer
from streambpe.errors import ModelError, StreambpeError, UsageError
from streambpe.model.eventlog import EventLog, Special, log_lines
from streambpe.model.replay import Model, events_for_size
from streambpe.options import several, whole_number
from streambpe.outputs import not_written, parents_made, refuse_existing, refuse_no_place, whole_output
from streambpe.plurals import counted
from streambpe.progress import present_meter, reported
from streambpe.results import Result
from streambpe.store.models import read_model

if TYPE_CHECKING:
    from streambpe.keywords import RoleKeywords


def _event_log(encoder: Encoder, path: Path) -> Made:
    return Made({path: b"".join(log_lines(EventLog(encoder.header, encoder.model.events))[0])})


def _token_bytes(encoder: Encoder, path: Path) -> Made:
    """How many bytes each id stands for; 0: none, or it is special."""
    model, header = encoder.model, encoder.header
    if header.alphabet["kind"] == "script":
        raise ModelError(
            "A token of SCRIPT may hold half of a character, which has no bytes of its own. Nothing was written. Train "
            "with another --encoding."
        )
    sizes = np.zeros(model.alphabet.first_id + model.n_vocab, np.int32)
    for log_id, number in model.model_id.items():
        sizes[number] = len(model.content(log_id))
    array = io.BytesIO()
    np.save(array, sizes)
    lost = ["characters that the model does not know have 0 bytes"] * (header.unk is not None)
    if header.config.get("pattern") == "whitespace":
        lost.append("the mark before a word has 3 bytes, whatever white space stands there")
    numbers = (json.dumps(sizes.tolist()) + "\n").encode()
    return Made({path.with_suffix(".npy"): array.getvalue(), path.with_suffix(".json"): numbers}, lost)


_WRITERS: dict[str, Callable[[Encoder, Path], Made]] = {
    "hf": hf_file,
    "tiktoken": tiktoken_files,
    "gpt2": gpt2_files,
    "boundless": boundless_file,
    "gguf": partial(gguf_file, Roles()),
    "events": _event_log,
    "token-bytes": _token_bytes,
}
FORMATS = tuple(_WRITERS)
NEVER_COMPARED = {"gguf": "only llama.cpp can encode with it", "token-bytes": "nothing encodes with numbers of bytes"}


@dataclass(frozen=True)
class ExportResult(Result):
    """One size of one export."""

    files: list[Path]
    n_vocab: int
    lost: list[str]
    not_compared: str = ""  # why
    checked_by: str = ""  # which library encoded
    battery: Comparison | None = None
    comparison: Comparison | None = None  # of --verify
    unicode: str = ""  # the version up to which texts are equal, if not all are
    left_out: int = 0  # texts that the model refuses: with characters that it does not know, for example

    @property
    def exact(self) -> bool:
        """What --strict asks for: nothing is known to be lost, and all that was compared is equal."""
        return self.battery is not None and not self.lost and self._equal

    @property
    def _equal(self) -> bool:
        return all(found.exact for found in (self.battery, self.comparison) if found)

    def as_json(self) -> dict[str, Any]:
        """Plain values for `export --json`."""
        return {
            "files": [str(file) for file in self.files],
            "ids": self.n_vocab,
            "lost": self.lost,
            "exact": self.exact,
            "unicode": self.unicode or None,
            "left_out": self.left_out,
            "not_compared": self.not_compared or None,
            "checked_by": self.checked_by or None,
            "battery": structs.asdict(self.battery) if self.battery else None,
            "comparison": structs.asdict(self.comparison) if self.comparison else None,
        }

    def lines(self) -> Iterator[str]:
        """What to tell the user."""
        yield f"{', '.join(map(str, self.files))}: {self.n_vocab} ids"
        yield from (f"  lost: {loss}" for loss in self.lost)
        b, c, by = self.battery, self.comparison, self.checked_by
        if b is None:
            yield f"  not compared: {self.not_compared}"
            return
        if self._equal:
            newer, other = b.without_newer + (c.without_newer if c else 0), b.reclassed
            up_to = f"for characters of Unicode {self.unicode}, " if newer else ""
            without = [f"{newer:,} of them without newer characters"] * bool(newer)
            points = ", ".join(f"U+{ord(one):04X}" for one in other)
            without += [f"without {points}, which two versions of Unicode class differently"] * bool(other)
            apart = f" ({'; '.join(without)})" if without else ""
            same = f"{counted(b.documents + (c.documents if c else 0), 'text')} gave the same ids in {by}"
            yield f"  {'not exact for every text, as said above' if self.lost else 'exact'}: {up_to}{same}{apart}"
        if self.left_out:
            yield f"  {counted(self.left_out, 'text')} left out: the model refuses them"
        if not b.exact:
            more = "" if c else "; --verify TEXT measures it on yours"
            yield f"  not exact: {b.documents_that_differ:,} of {b.documents:,} hostile texts differ in {by}{more}"
        if c and not c.exact:
            share = f"{100 * c.spans_lost / max(c.spans, 1):.2f} %"
            share = f"{c.spans_lost:,}" if share == "0.00 %" else share
            yield (
                f"  not exact: {share} of {counted(c.spans, 'token span')} are not found by {by}; "
                f"{c.documents_that_differ:,} of {counted(c.documents, 'text')} differ"
            )
        yield from (f"    {example}" for example in (c if c and not c.exact else b).examples)


def kept_events(log: EventLog, vocab_size: int, after: Sequence[int] | None = None) -> int:
    """How many events the model of this size keeps, up to the end of the step that reached it; an error if it cannot be
    cut so. `after`: what `sizes_after` gives."""
    if log.header.config.get("batch") == "paper":
        raise UsageError(
            "A model trained with --batch paper cannot be cut: its merges are ordered by batch, and a smaller "
            "training would have other batches. Train one of that size."
        )
    try:
        return events_for_size(log.header, log.events, vocab_size, after)
    except ValueError as why:
        raise UsageError(f"--vocab-size {vocab_size}: {why}. Nothing was written.") from None


def cut_log(log: EventLog, vocab_size: int) -> EventLog:
    """The log of the model of this size."""
    events = log.events[: kept_events(log, vocab_size)]
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
    compare: bool = True,
    force: bool = False,
    onto: str | os.PathLike[str] | None = None,
    stop: threading.Event | None = None,
    progress: str = "none",
    **roles: Unpack[RoleKeywords],
) -> list[ExportResult]:
    """Write a model in one format, once for each size (none: as it is), compared in the library that it is for, where
    that is installed; verify: a source to compare on, too.

    With several sizes the size goes into the name: tok.json -> tok-8000.json, tok-16000.json. force: overwrite files
    that are there; without it nothing is written if one is. `roles`: what special tokens are for (bos, eos, ...), for
    gguf, and where hf writes a folder: an output that ends with a slash, or is one already. `onto`: a file of that
    format that was extended; it is written again with what is new behind it (formats/onto.py).
    """
    if to not in FORMATS:
        raise UsageError(f"--to {to}: choose one of {', '.join(FORMATS)}.")
    path, given, sizes = Path(output), Roles(**roles), several_sizes(vocab_size)
    path = path if path.name else path.absolute()  # "." has no name
    is_folder = to == "hf" and names_folder(output)
    if names_folder(output) and to not in ("hf", "gpt2"):
        raise UsageError(f"{output} is a folder, not a file. Nothing was changed; give another name.")
    if to == "token-bytes" and path.suffix not in (".npy", ".json"):
        path = path.with_name(f"{path.name}.npy")
    if given != Roles() and not is_folder and to != "gguf":
        raise UsageError(
            "What special tokens are for, and a chat template, belong in a folder that transformers loads: give --to "
            f"hf and -o {path.with_suffix('')}/ (or --to gguf). Nothing was written."
        )
    why_not = _not_comparable(to, compare, verify)
    old = None if onto is None else Old.of(onto, to, output)
    if old is not None and given != Roles():
        raise UsageError(
            f"--onto {onto} cannot be combined with options for special tokens' roles or chat templates: the old "
            "files keep theirs. Nothing was written. Leave those options out."
        )
    write = old.extended if old is not None else _WRITERS[to]
    if old is None and (is_folder or to == "gguf"):
        write = partial(hf_folder if is_folder else gguf_file, given)
    targets = [path.with_name(f"{path.stem}-{n}{path.suffix}") for n in sizes] if len(sizes) > 1 else [path]
    for target in targets:
        if not is_folder and to != "gpt2":
            refuse_existing(target, force, parents=True)
            continue
        refuse_no_place(target, parents=True)
        if target.is_file():
            raise UsageError(f"{target} is a file, not a folder. Nothing was changed; give another name.")
        for name in GPT2_FILES if to == "gpt2" else ["tokenizer.json"]:  # others once it is known what is written
            refuse_existing(target / name, force, parents=True)
    log = model if isinstance(model, EventLog) else read_model(model)
    logs = [cut_log(log, size) for size in sizes] or [log]
    made = []
    for one, target in zip(logs, targets, strict=True):
        encoder = Encoder(one)
        try:
            contents, lost = write(encoder, target)
        except OSError as why:  # a temporary file, or one beside --onto
            raise not_written(target, why) from None
        result = ExportResult([*contents], encoder.model.n_vocab, [*lost], not_compared=why_not)
        if not why_not:
            result = _compared(to, contents, result, Tokenizer(one), old is not None, verify, stop)
        made.append((contents, result))
    for file in [file for contents, _ in made for file in contents]:
        refuse_existing(file, force, parents=True)
    for contents, _ in made:
        _write(contents)
    return [result for _, result in made]


def _not_comparable(to: str, asked: bool, verify: str | None) -> str:
    """Why an export in this format is not compared; "" if it is. An error if --verify asks for it."""
    package = LIBRARIES.get(to)
    why = ""
    if not asked:
        why = "--no-compare leaves it out"
    elif to in NEVER_COMPARED:
        why = NEVER_COMPARED[to]
    elif package and find_spec(package) is None:
        why = f"it needs `pip install {package}`"
    elif package:
        try:
            import_module(package)
        except Exception as error:
            why = f"{package} is installed, but does not load: {first_line(error)}"
    if why and verify is not None:
        raise UsageError(f"--verify {verify} cannot compare this export: {why}. Nothing was written.")
    return why


def _compared(
    to: str,
    contents: dict[Path, bytes],
    result: ExportResult,
    by: Tokenizer,
    onto: bool,
    verify: str | None,
    stop: threading.Event | None,
) -> ExportResult:
    """The result with what the library makes of the files, which are written to a folder of their own for that."""
    with contextlib.ExitStack() as cleaning:
        try:
            folder = Path(cleaning.enter_context(tempfile.TemporaryDirectory(prefix="streambpe-export-")))
            files = [folder / file.name for file in contents]
            for file, content in zip(files, contents.values(), strict=True):
                file.write_bytes(content)
        except OSError as error:
            why = f"a copy for that cannot be written to a temporary folder ({error.strerror})"
            if verify is not None:
                raise StreambpeError(
                    f"--verify {verify} cannot compare this export: {why}. Nothing was written. Make room there, or "
                    "name another folder in the environment variable TMPDIR."
                ) from None
            return replace(result, not_compared=why)
        found = compared(to, files, by, bool(result.lost), onto, verify, present_meter(), stop)
        return replace(result, **structs.asdict(found))


def several_sizes(given: int | str | Sequence[int | str]) -> list[int]:
    """The numbers of --vocab-size N,N,..."""
    parts = given.split(",") if isinstance(given, str) else several(given)
    try:
        return [whole_number(part) for part in parts]
    except TypeError:
        raise UsageError(
            f"--vocab-size {given}: give one number, or several separated by commas, such as 8k,16k."
        ) from None


def _write(files: dict[Path, bytes]) -> None:
    """Write the files, and the folders around them. Those of before are replaced when all new ones are on disk."""
    with contextlib.ExitStack() as stack:
        for file, content in files.items():
            try:
                stack.enter_context(parents_made(file))
                stack.enter_context(whole_output(file)).write_bytes(content)
            except OSError as why:
                raise not_written(file, why) from None
