"""export --verify: texts are encoded by the exported file, in its own library, and by the model.

A token span is the stretch of bytes one token stands for; the share of the model's spans that the other did not find
says how far the two drift.
"""

from __future__ import annotations

import re
import runpy
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from streambpe.count_config import SourceOptions
from streambpe.encode.formats.boundless import import_dot_model
from streambpe.encode.formats.onto import Old
from streambpe.encode.formats.tiktoken_ranks import read_ranks
from streambpe.encode.joins import Joins, symbols_of_ids
from streambpe.encode.tokenizer import Tokenizer
from streambpe.errors import UsageError
from streambpe.later import need
from streambpe.progress import Meter
from streambpe.sources.decode import block_text
from streambpe.sources.find import find_sources
from streambpe.sources.read import Reader
from streambpe.text.patterns import PRESETS

Encode = Callable[[str], Sequence[int]]
_EXAMPLES = 5
_PARAGRAPH = re.compile(rb"(?s).*?\n\n|.+")
_LIBRARIES = {"hf": "tokenizers", "gpt2": "tokenizers", "tiktoken": "tiktoken", "sentencepiece": "sentencepiece"}


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
        mine, other = _spans(ours, content), _spans(theirs, their_content or content)
        found = {(start, end) for start, end, _ in other}
        lost = {place for place, (start, end, _) in enumerate(mine) if (start, end) not in found}
        self.spans_lost += len(lost)
        for place in sorted(place for place in lost if place - 1 not in lost):
            if len(self.examples) == _EXAMPLES:
                break
            start, end, token = mine[place]
            around = [theirs for low, high, theirs in other if low < end and high > start]
            example = f"{_shown([token])}  there: {_shown(around)}"
            if example not in self.examples:
                self.examples.append(example)


def _spans(ids: Iterable[int], content: Callable[[int], bytes]) -> list[tuple[int, int, bytes]]:
    """Where each token begins and ends."""
    tokens = [content(number) for number in ids]
    return [(end - len(token), end, token) for token, end in zip(tokens, accumulate(map(len, tokens)), strict=True)]


def _shown(parts: Iterable[bytes]) -> str:
    return " ".join(repr(part.decode("utf-8", "backslashreplace")) for part in parts) or "nothing"


class Verified(NamedTuple):
    """What --verify found."""

    checked_by: str  # which library encoded
    comparison: Comparison
    joins: Joins | None  # beside the old file of --onto


def verify(to: str, files: list[Path], tokenizer: Tokenizer, old: Old | None, texts: Iterable[str]) -> Verified:
    """Encode texts by the model and by the exported file; by the file of --onto, too."""
    there = loaded(to, files)
    verified = Verified(there.name, Comparison(), None if old is None else Joins())
    if old is not None:
        encode_old, sizes = _old_encoder(old, files), symbols_of_ids(tokenizer.encoder.model)

    def content(number: int) -> bytes:
        return tokenizer.id_to_token(number) or b"?"  # an id that only the other knows, for a byte the model lacks

    for text in texts:
        theirs = there.encode(text)
        verified.comparison.add(tokenizer.encode_ordinary(text), theirs, content, there.content)
        if verified.joins is not None:
            verified.joins.add(encode_old(text), theirs, sizes)
    return verified


class Loaded(NamedTuple):
    """An exported file, ready to encode."""

    name: str  # of the library
    encode: Encode
    content: Callable[[int], bytes] | None = None  # of its ids, if they may differ from the model's


def loaded(to: str, files: list[Path]) -> Loaded:
    """The files of an export in the library that they are for; special tokens in a text are ordinary text."""
    if to == "gguf":
        raise UsageError(
            f"{files[0]} was written, but only llama.cpp can encode with it: leave out --verify, and compare there."
        )
    if to not in _LIBRARIES:
        by = "streambpe, which read the file again"
        if to != "boundless":
            return Loaded(by, Tokenizer(files[0]).encode_ordinary)
        back = Tokenizer(import_dot_model(files[0]))
        by = f"{by} (fastboundlessbpe was not run)"
        return Loaded(by, back.encode_ordinary, back.decode_single_token_bytes)
    library = need(_LIBRARIES[to], "--verify", " The files were written.")
    if to == "tiktoken":
        return Loaded(_LIBRARIES[to], runpy.run_path(str(files[1]))["encoding"].encode_ordinary)
    if to == "sentencepiece":
        return Loaded(_LIBRARIES[to], library.SentencePieceProcessor(model_file=str(files[0])).encode)
    if to == "gpt2":
        there = library.Tokenizer(library.models.BPE.from_file(*map(str, files)))
        there.pre_tokenizer = library.pre_tokenizers.ByteLevel(add_prefix_space=False)
    else:
        there = library.Tokenizer.from_file(str(files[0]))
        there.no_truncation()
        there.no_padding()
        there.encode_special_tokens = True
    return Loaded(_LIBRARIES[to], lambda text: list(there.encode(text, add_special_tokens=False).ids))


def _old_encoder(old: Old, files: list[Path]) -> Encode:
    """Text -> ids as the file of --onto encodes it."""
    if old.to != "tiktoken":
        return loaded(old.to, old.files).encode
    new: Any = runpy.run_path(str(files[1]))["encoding"]  # which has asked for the library
    made = type(new)("old", pat_str=new._pat_str, mergeable_ranks=read_ranks(old.file), special_tokens={})
    encode: Encode = made.encode_ordinary
    return encode


def documents(source: str, meter: Meter | None = None, how: SourceOptions = SourceOptions()) -> Iterator[str]:
    """The documents of a source; a .txt file is cut into paragraphs, so that examples and counts say more."""
    found, _ = find_sources([source], how, in_part=True)
    meter = meter or Meter("verifying")
    meter.begin("verifying", sum(one.bytes for one in found))
    reader = Reader(PRESETS["none"], 1 << 20, 1 << 30, on_read=meter.advance)
    for one in found:
        for block in reader.blocks(one):
            for document in block_text(block, "replace").text.split(b"\xff"):
                parts = _PARAGRAPH.findall(document) if one.kind == "txt" else [document]
                yield from (part.decode() for part in parts if part)
