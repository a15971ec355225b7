"""`import`: which reader a file made elsewhere has, and what it says of files that nobody reads."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from streambpe.encode.formats.boundless import import_dot_model
from streambpe.encode.formats.foreign import read_json
from streambpe.encode.formats.gpt2 import FILES as GPT2_FILES
from streambpe.encode.formats.gpt2 import gpt2_folder, import_gpt2
from streambpe.encode.formats.hf import import_hf, not_kept
from streambpe.encode.formats.named import HF, TIKTOKEN, find_tokenizer_json, log_of_encoding
from streambpe.encode.formats.tiktoken_ranks import import_tiktoken, looks_like_ranks
from streambpe.encode.tokenizer import Tokenizer
from streambpe.errors import ModelError, NotKept, StreambpeError, UsageError, typed
from streambpe.model.eventlog import EventLog, log_lines
from streambpe.model.line_shapes import HEAD
from streambpe.options import several
from streambpe.outputs import refuse_existing, whole_output
from streambpe.progress import reported

_DOT_MODELS = (b"BoundlessBPE v2", b"word v1", b"minbpe v1", b"BatchBPE v1")


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
    with whole_output(Path(output)) as log:
        log.write_bytes(b"".join(log_lines(tokenizer.event_log)[0]))
    return tokenizer


def import_file(
    path: str | os.PathLike[str], *, pattern: str | None = None, specials: Sequence[str] = (), if_needed: bool = False
) -> EventLog:
    """A vocabulary made elsewhere as an event log: tokenizer.json, GPT-2's two files, tiktoken ranks, a .model file,
    research JSON; or by name, `hf:NAME` and `tiktoken:NAME`.

    pattern and specials are for tiktoken ranks, which carry neither, and pattern for GPT-2's files; for others they are
    refused, or ignored with `if_needed`.
    """
    name, file = str(path), Path(path)
    if name.startswith(TIKTOKEN):
        return log_of_encoding(name)
    by_name = name.startswith(HF)
    file = find_tokenizer_json(name) if by_name else file
    folder = None if by_name else gpt2_folder(file)
    reader = partial(import_gpt2, pattern=pattern) if folder is not None else _reader_of(file, _head(file, name))
    if reader is not None and not if_needed and (specials or (pattern and folder is None)):
        raise UsageError(
            f"--special is for tiktoken ranks, and --pattern for these and GPT-2's files; {name} has its own. Leave "
            "them out."
        )
    if reader is None:
        if pattern is None:
            raise UsageError(
                f"{name} looks like tiktoken ranks, which have no pattern. Say how text is split, for example with "
                "--pattern cl100k."
            )
        reader = partial(import_tiktoken, pattern=pattern, specials=tuple(specials))
    return _read(reader, folder or file, name)


def takes_pattern(path: str | os.PathLike[str]) -> bool:
    """Whether a tokenizer is of a kind that carries no pattern: tiktoken ranks, or GPT-2's files."""
    if str(path).startswith((HF, TIKTOKEN)):
        return False
    file = Path(path)
    if not file.is_file() or gpt2_folder(file) is not None:
        return True  # what is not there is told when it is read
    with file.open("rb") as opened:
        return looks_like_ranks(opened.read(512))


def _head(file: Path, name: str) -> bytes:
    """How a file begins; an error if there is nothing to read, or something that needs no import."""
    try:
        with open(file, "rb") as opened:
            head = opened.read(512)
    except OSError as why:
        instead = ""
        if (file / "state.duckdb").is_file():
            instead = " It is a RUN: give it as MODEL."
        elif (file / "tokenizer.json").is_file():
            instead = f" `{typed(f'hf:{file}')}` reads the tokenizer.json in it."
        raise ModelError(f"{name} cannot be read: {why.strerror}.{instead}") from None
    if head.startswith(HEAD):
        raise UsageError(f"{name} is an event log of streambpe, and needs no import: give it as MODEL.")
    return head


def is_sentencepiece(path: str | os.PathLike[str]) -> bool:
    """Whether there is a file that begins as a .model of sentencepiece."""
    try:
        with open(path, "rb") as file:
            return _is_pieces(file.read(3))
    except (OSError, ValueError):
        return False


def _is_pieces(head: bytes) -> bool:
    """Such a file begins with a piece, and that with its text."""
    return len(head) > 2 and head[0] == head[2] == 0x0A and head[1] != 0x0A


def _reader_of(file: Path, head: bytes) -> Callable[[Path], EventLog] | None:
    """What reads a file that begins so; None for ranks, and an error for what nobody reads."""
    is_ranks = looks_like_ranks(head)
    if file.name == GPT2_FILES[1] and head.startswith(b"#version"):
        raise ModelError(f"{file}: {GPT2_FILES[0]}, which has the ids, is missing beside it.")
    if head.startswith(b"GGUF"):
        raise ModelError(
            f"{file} is a gguf file, which streambpe cannot read. Import the tokenizer.json it was made from."
        )
    if _is_pieces(head):
        raise ModelError(
            f"{file} is a .model of sentencepiece. An event log cannot hold it: its ids have another order, and it "
            f"changes text before it splits it. `evaluate --tokenizer {typed(file)}` measures it."
        )
    if (file.suffix == ".model" and not is_ranks) or head.startswith(_DOT_MODELS):
        return import_dot_model
    if head.lstrip().startswith(b"{") or head.startswith(b"\x1f\x8b"):
        return _import_json
    if is_ranks:
        return None
    looks = "is empty"
    if b"\0" in head:
        looks = f"is not text, and begins with {head[:8]!r}"
    elif head:
        first = head.lstrip()[:40].decode("utf-8", "replace").splitlines()[0]
        looks = f"is text that begins with {first!r}"
    raise ModelError(
        f"{file} is not a tokenizer that streambpe can read: it {looks}. It reads tokenizer.json of Hugging Face "
        "(byte-level BPE), vocab.json with merges.txt as of GPT-2, tiktoken ranks, .model files (fastboundlessbpe, "
        "BoundlessBPE, minbpe, BatchBPE), hf:NAME and tiktoken:NAME."
    )


def _import_json(file: Path) -> EventLog:
    """A tokenizer.json, gzipped or not."""
    document = read_json(file)
    if file.name == GPT2_FILES[0] and all(type(number) is int for number in document.values()):
        raise ModelError(f"{file}: {GPT2_FILES[1]}, which has the merges, is missing beside it.")
    log = import_hf(file, document)
    for what in not_kept(document):
        warnings.warn(f"{file}: an event log cannot store {what}.", NotKept, stacklevel=2)
    return log


def _read(reader: Callable[[Path], EventLog], file: Path, name: str) -> EventLog:
    """What a reader makes of a file; whatever trips it over values of another kind than it looks for is damage."""
    try:
        return reader(file)
    except StreambpeError:
        raise
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as why:
        raise ModelError(
            f"{name} is damaged, or was changed by hand: what it holds is not what files that begin like it hold "
            f"({why!r:.200}). Nothing was written; import a whole copy of it."
        ) from None
