"""`export`: write a model in other programs' formats.

A format is a function: encoder, output  ->  the contents of files by their paths, what is lost. Nothing is written
before all files are made and known to have a place.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

import numpy as np

from streambpe.encode.encoder import Encoder
from streambpe.encode.formats.boundless import boundless_file
from streambpe.encode.formats.flat import Made
from streambpe.encode.formats.gguf import gguf_file
from streambpe.encode.formats.hf import hf_file
from streambpe.encode.formats.hf_folder import Roles, hf_folder, names_folder
from streambpe.encode.formats.onto import writer_onto
from streambpe.encode.formats.tiktoken_ranks import tiktoken_files
from streambpe.encode.formats.verify import LIBRARIES, ExportResult, compare_in_library
from streambpe.encode.tokenizer import Tokenizer
from streambpe.errors import ModelError, UsageError, first_line
from streambpe.model.eventlog import EventLog, Special, log_lines
from streambpe.model.replay import Model, events_for_size
from streambpe.options import several, whole_number
from streambpe.outputs import not_written, parents_made, refuse_existing, whole_output
from streambpe.progress import reported
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
    "boundless": boundless_file,
    "gguf": partial(gguf_file, Roles()),
    "events": _event_log,
    "token-bytes": _token_bytes,
}
FORMATS = tuple(_WRITERS)
NEVER_COMPARED = {"gguf": "only llama.cpp can encode with it", "token-bytes": "nothing encodes with numbers of bytes"}


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
    vocab_size: int | str | Sequence[int | str] | None = None,
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
    is_folder = names_folder(output)
    if is_folder and to != "hf":
        raise UsageError(f"{output} is a folder, not a file. Nothing was changed; give another name.")
    if to == "token-bytes" and path.suffix not in (".npy", ".json"):
        path = path.with_name(f"{path.name}.npy")
    if given != Roles() and not is_folder and to != "gguf":
        raise UsageError(
            "What special tokens are for, and a chat template, belong in a folder that transformers loads: give --to "
            f"hf and -o {path.with_suffix('')}/ (or --to gguf). Nothing was written."
        )
    why_not = _not_comparable(to, compare, verify)
    write = _WRITERS[to]
    if onto is not None:
        if given != Roles():
            raise UsageError(
                f"--onto {onto} cannot be combined with options for special tokens' roles or chat templates: the old "
                "files keep theirs. Nothing was written. Leave those options out."
            )
        write = writer_onto(onto, to, output)
    elif is_folder or to == "gguf":
        write = partial(hf_folder if is_folder else gguf_file, given)
    targets = [path.with_name(f"{path.stem}-{n}{path.suffix}") for n in sizes] if len(sizes) > 1 else [path]
    log = model if isinstance(model, EventLog) else read_model(model)
    made = []
    for one, target in zip([cut_log(log, size) for size in sizes] or [log], targets, strict=True):
        tokenizer = Tokenizer(one)
        try:
            contents, lost = write(tokenizer.encoder, target)
        except OSError as why:  # a temporary file, or one beside --onto
            raise not_written(target, why) from None
        for file in contents:
            refuse_existing(file, force, parents=True)
        result = ExportResult([*contents], tokenizer.n_vocab, [*lost], not_compared=why_not)
        if not why_not:
            result = compare_in_library(result, to, contents, tokenizer, onto is not None, verify, stop)
        made.append((contents, result))
    for contents, _ in made:
        _write(contents)
    return [result for _, result in made]


def _not_comparable(to: str, asked: bool, verify: str | None) -> str:
    """Why an export in this format is not compared; "" if it is. An error if --verify asks for it."""
    why = NEVER_COMPARED.get(to, "") if asked else "--no-compare leaves it out"
    if not why and (package := LIBRARIES.get(to)):
        try:
            import_module(package)
        except Exception as error:
            is_missing = isinstance(error, ModuleNotFoundError) and error.name == package
            more = f"{package} is installed, but does not load: {first_line(error)}"
            why = f"it needs `pip install {package}`" if is_missing else more
    if why and verify is not None:
        raise UsageError(f"--verify {verify} cannot compare this export: {why}. Nothing was written.")
    return why


def several_sizes(given: int | str | Sequence[int | str] | None) -> list[int]:
    """The numbers of --vocab-size N,N,..."""
    parts = given.split(",") if isinstance(given, str) else several(() if given is None else given)
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
