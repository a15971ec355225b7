"""`import`: which reader a file made elsewhere has, and what it says of files that nobody reads."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path

from streambpe.encode.formats.boundless import import_dot_model
from streambpe.encode.formats.foreign import read_json
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
    """A vocabulary made elsewhere as an event log: tokenizer.json, tiktoken ranks, a .model file; or by name, `hf:NAME`
    and `tiktoken:NAME`.

    pattern and specials are for tiktoken ranks, which carry neither; for others they are refused, or ignored with
    `if_needed`. Whatever trips a reader over values of another kind than it looks for is damage.
    """
    name, file = str(path), Path(path)
    if name.startswith(TIKTOKEN):
        return log_of_encoding(name)
    if name.startswith(HF):
        file = find_tokenizer_json(name)
    reader = _reader_of(file, _head(file, name))
    if reader is not None and not if_needed and (specials or pattern):
        raise UsageError(f"--pattern and --special are for tiktoken ranks; {name} has its own. Leave them out.")
    try:
        if reader is not None:
            return reader(file)
        if pattern is not None:
            return import_tiktoken(file, pattern, tuple(specials))
    except StreambpeError:
        raise
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as why:
        raise ModelError(
            f"{name} is damaged, or was changed by hand: what it holds is not what files that begin like it hold "
            f"({why!r:.200}). Nothing was written; import a whole copy of it."
        ) from None
    raise UsageError(
        f"{name} looks like tiktoken ranks, which have no pattern. Say how text is split, for example with --pattern "
        "cl100k."
    )


def takes_pattern(path: str | os.PathLike[str]) -> bool:
    """Whether a tokenizer is of a kind that carries no pattern: tiktoken ranks; what is not there is told later."""
    if str(path).startswith((HF, TIKTOKEN)):
        return False
    return not os.path.isfile(path) or looks_like_ranks(_head(Path(path), str(path)))


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
        elif (file / "merges.txt").is_file():
            instead = f" {_of_two(file)}"
        raise ModelError(f"{name} cannot be read: {why.strerror}.{instead}") from None
    if head.startswith(HEAD):
        raise UsageError(f"{name} is an event log of streambpe, and needs no import: give it as MODEL.")
    return head


def _of_two(folder: Path) -> str:
    """What to do with GPT-2's pair of files, which have no pattern."""
    return (
        "vocab.json and merges.txt become a tokenizer.json, which can be read, in transformers: "
        f"`AutoTokenizer.from_pretrained({str(folder)!r}).save_pretrained({str(folder)!r})`."
    )


def is_sentencepiece(path: str | os.PathLike[str]) -> bool:
    """Whether there is a file that begins as a .model of sentencepiece."""
    return os.path.isfile(path) and _is_pieces(_head(Path(path), str(path)))


def _is_pieces(head: bytes) -> bool:
    """Such a file begins with a piece, and that with its text."""
    return len(head) > 2 and head[0] == head[2] == 0x0A and head[1] != 0x0A


def _reader_of(file: Path, head: bytes) -> Callable[[Path], EventLog] | None:
    """What reads a file that begins so; None for ranks, and an error for what nobody reads."""
    is_ranks = looks_like_ranks(head)
    if head.startswith(b"#version") or file.name == "vocab.json":
        raise ModelError(f"{file} is not read: {_of_two(file.parent)}")
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
    if head.lstrip().startswith(b"{"):
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
        "(byte-level BPE), tiktoken ranks, .model files (fastboundlessbpe, BoundlessBPE, minbpe, BatchBPE), hf:NAME "
        "and tiktoken:NAME."
    )


def _import_json(file: Path) -> EventLog:
    """A tokenizer.json."""
    document = read_json(file)
    log = import_hf(file, document)
    for what in not_kept(document):
        warnings.warn(f"{file}: an event log cannot store {what}.", NotKept, stacklevel=2)
    return log
