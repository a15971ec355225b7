"""What `export` says of a file: texts are encoded by it, in the library that it is for, and by the model.

The texts are those of battery.py, whose chunks are compared too, and those of --verify. A token span is the stretch of
bytes one token stands for; the share of the model's spans that the other did not find says how far the two drift.
"""

from __future__ import annotations

import contextlib
import json
import re
import runpy
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from itertools import accumulate, islice, pairwise
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import regex

from streambpe.count_config import SourceOptions
from streambpe.encode.formats.battery import battery
from streambpe.encode.formats.boundless import import_dot_model
from streambpe.encode.tokenizer import Tokenizer
from streambpe.errors import ModelError, PatternTooSlow, Stopped, StreambpeError, UnknownSymbol, first_line
from streambpe.later import need
from streambpe.model.eventlog import EventLog, read_event_log
from streambpe.plurals import counted
from streambpe.progress import present_meter
from streambpe.results import Result
from streambpe.sources.decode import block_text
from streambpe.sources.find import find_sources
from streambpe.sources.read import Reader
from streambpe.text.characters import CATEGORIES, FIRST_ASSIGNED, unicode_version
from streambpe.text.patterns import PRESETS
from streambpe.threads import stopped_by

Content = Callable[[int], bytes]
Find = Callable[[str, str], set[str]]  # an expression of one character, a text -> those that it finds
_EXAMPLES = 5
_AT_ONCE = 100  # texts of --verify
_SECONDS = 1  # of processor time that a text of the battery may take
_PARAGRAPH = re.compile(rb"(?s).*?\n\n|.+")
LIBRARIES = {"hf": "tokenizers", "tiktoken": "tiktoken"}
_READERS: dict[str, Callable[[Path], EventLog]] = {"events": read_event_log, "boundless": import_dot_model}


class Comparison(msgspec.Struct):
    """An exported file against the model, on some texts."""

    documents: int = 0
    documents_that_differ: int = 0
    spans: int = 0
    spans_lost: int = 0
    examples: list[str] = msgspec.field(default_factory=list)
    without_newer: int = 0  # documents that are equal only without characters that one side's Unicode has not
    reclassed: str = ""  # characters that both sides know, in different classes, which were left out of the battery

    @property
    def exact(self) -> bool:
        """Whether all ids were equal."""
        return not self.documents_that_differ

    def add(self, ours: Sequence[int], theirs: Sequence[int], content: Content, their_content: Content) -> None:
        """Compare one text's ids; `content`, `their_content`: the bytes of an id on each side."""
        self.documents += 1
        self.spans += len(ours)
        if list(ours) == list(theirs):
            return
        self.documents_that_differ += 1
        mine, other = _spans(ours, content), _spans(theirs, their_content)
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


def _spans(ids: Iterable[int], content: Content) -> list[tuple[int, int, bytes]]:
    """Where each token begins and ends."""
    tokens = [content(number) for number in ids]
    return [(end - len(token), end, token) for token, end in zip(tokens, accumulate(map(len, tokens)), strict=True)]


def _shown(parts: Iterable[bytes]) -> str:
    return " ".join(repr(part.decode("utf-8", "backslashreplace")) for part in parts) or "nothing"


class Loaded(NamedTuple):
    """An exported file, ready to encode in the library that it is for."""

    name: str  # of the library, with its version
    encode: Callable[[list[str]], list[list[int]]]
    content: Content | None = None  # of its ids, if they may differ from the model's
    split: Callable[[list[str], list[list[str]]], list[bool]] | None = None  # texts, our chunks: whether these are its
    find: Find | None = None  # by the library's own regular expressions
    written: str = ""  # what the file splits by


@dataclass(frozen=True)
class ExportResult(Result):
    """One size of one export, and what its library made of the texts of the battery, and of those of --verify."""

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
        facts = msgspec.to_builtins(self, enc_hook=str)
        told = {name: None if value == "" else value for name, value in facts.items()}
        return {"ids": told.pop("n_vocab"), "exact": self.exact, **told}

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


def compare_in_library(
    result: ExportResult,
    to: str,
    contents: dict[Path, bytes],
    tokenizer: Tokenizer,
    onto: bool,
    verify: str | None,
    stop: threading.Event | None = None,
) -> ExportResult:
    """The result with what the battery, and the texts of `verify`, become by the model and by files of these contents.
    `onto`: they extend others. ModelError if the library cannot load or run them."""
    try:
        with tempfile.TemporaryDirectory(prefix="streambpe-export-") as folder:
            files = [Path(folder) / file.name for file in contents]
            for file, content in zip(files, contents.values(), strict=True):
                file.write_bytes(content)
            there = loaded(to, files)
    except OSError as why:
        raise StreambpeError(
            f"This export cannot be compared: a copy for that cannot be written to a temporary folder ({why.strerror})."
            " Nothing was written. Make room there, name another folder in the environment variable TMPDIR, or give "
            "--no-compare."
        ) from None
    fixed, yours, left_out = Comparison(), None, 0
    hurried = Tokenizer(tokenizer.event_log)
    hurried.encoder.pattern = replace(tokenizer.encoder.pattern, document_seconds=_SECONDS)
    texts = iter(battery(tokenizer.encoder, specials=not onto))  # an old file may find some in plain text
    for some in _in_batches(texts, 20 * _AT_ONCE, stop):
        try:
            known = [text for text, ids in zip(some, _ids(hurried, some), strict=True) if ids is not None]
            left_out += len(some) - len(known)  # a model of characters may know few
            _compare(there, hurried, known, fixed, is_battery=True, split=not result.lost)
        except PatternTooSlow:
            raise ModelError(
                f"The pattern {tokenizer.encoder.pattern.expression[:200]!r} takes longer than {_SECONDS} s on one of "
                "the short texts that an export is compared on: nothing was written, and --no-compare leaves them out."
            ) from None
    if verify is not None:
        yours = Comparison()
        for some in _in_batches(documents(verify), _AT_ONCE, stop):
            _compare(there, tokenizer, some, yours, is_battery=False, split=False)
    unicode, find = "", there.find
    if find is not None and (fixed.without_newer or (yours and yours.without_newer)):
        known_versions = (version for version, point in FIRST_ASSIGNED.items() if not find(r"\p{Cn}", chr(point)))
        unicode = min(unicode_version(), next(known_versions, "14.0.0 or older"))
    return replace(
        result, checked_by=there.name, battery=fixed, comparison=yours, unicode=unicode, left_out=left_out
    )  # fmt: skip


def _in_batches(texts: Iterator[str], size: int, stop: threading.Event | None) -> Iterator[list[str]]:
    """So many texts at a time, until there are no more or it is stopped."""
    while True:
        if stop is not None and stop.is_set():
            raise Stopped("Stopped; nothing was written. Give the same command again.", stopped_by(stop))
        if not (some := list(islice(texts, size))):
            return
        yield some


def _compare(
    there: Loaded, tokenizer: Tokenizer, texts: list[str], comparison: Comparison, *, is_battery: bool, split: bool
) -> None:
    """Add what these texts become, with their chunks if `split`: not where chunks are known to differ."""

    def chunks_are_equal(texts: list[str]) -> list[bool]:
        assert there.split is not None
        return there.split(texts, [tokenizer.encoder.split(text) for text in texts])

    def encoded(texts: list[str]) -> list[tuple[list[int], list[int], bool]]:
        same_chunks = chunks_are_equal(texts) if split and there.split is not None else [True] * len(texts)
        return [*zip(tokenizer.encode_ordinary_batch(texts), there.encode(texts), same_chunks, strict=True)]

    rows, find = encoded(texts), there.find
    bad = [i for i, (mine, other, same) in enumerate(rows) if mine != other or not same]
    if bad and find is not None and there.split is not None:
        # other ids of equal chunks are no matter of Unicode
        bad = [i for i, same in zip(bad, chunks_are_equal([texts[i] for i in bad]), strict=True) if not same]
        newer, reclassed = _of_other_versions(find, there.written, [texts[i] for i in bad])
        left_out = newer | (reclassed if is_battery else set())  # in a user's text, these matter
        tried = [i for i in bad if left_out & {*texts[i]}]
        thinner = [texts[i].translate(dict.fromkeys(map(ord, left_out))) for i in tried]
        for i, row, same in zip(tried, encoded(thinner), chunks_are_equal(thinner), strict=True):
            if row[0] == row[1] and same:
                rows[i] = row
                comparison.without_newer += bool(newer & {*texts[i]})
                named = {*comparison.reclassed, *(reclassed & left_out & {*texts[i]})}
                comparison.reclassed = "".join(sorted(named))

    def content(number: int) -> bytes:
        return tokenizer.id_to_token(number) or b"?"  # an id that only the other knows, for a byte the model lacks

    for text, (mine, other, same) in zip(texts, rows, strict=True):
        comparison.add(mine, other, content, there.content or content)
        if not same and mine == other:
            comparison.documents_that_differ += 1
            comparison.examples += [f"{text[:40]!r} falls into other chunks"] * (len(comparison.examples) < _EXAMPLES)


def _ids(tokenizer: Tokenizer, texts: list[str]) -> list[list[int] | None]:
    """The ids of texts; None for one that the model refuses."""
    try:
        return [*tokenizer.encode_ordinary_batch(texts)]
    except (UnknownSymbol, ModelError):  # it is not in the alphabet, or a token that was deleted
        return [None] if len(texts) == 1 else [ids for text in texts for ids in _ids(tokenizer, [text])]


def _of_other_versions(find: Find, written: str, texts: list[str]) -> tuple[set[str], set[str]]:
    """The characters of texts that only one version of Unicode has, the library's or ours, and those that both have, in
    different classes."""
    characters = "".join(sorted(set("".join(texts))))
    names = [name for name in CATEGORIES if name not in ("Cs", "Cn")]  # surrogates are in no text
    names += ["Extended_Pictographic"] * ("Extended_Pictographic" in written)
    newer, *others = (
        find(one, characters) ^ set(regex.findall(one, characters)) for one in (rf"\p{{{n}}}" for n in ("Cn", *names))
    )
    return newer, set().union(*others) - newer


@contextlib.contextmanager
def _refused_by(name: str) -> Iterator[None]:
    """A library's own words for what it cannot load or run. A panic of Rust is no Exception."""
    try:
        yield
    except (StreambpeError, OSError, MemoryError):
        raise
    except BaseException as why:
        if not isinstance(why, Exception) and type(why).__name__ != "PanicException":
            raise
        raise ModelError(
            f"{name} cannot use what would be written: {first_line(why)}. Nothing was written. Use --no-compare to "
            "write it all the same, --to events, or train with another --pattern."
        ) from None


def loaded(to: str, files: list[Path]) -> Loaded:
    """The files of an export in the library that they are for; special tokens in a text are ordinary text."""
    if to in _READERS:
        back, by = Tokenizer(_READERS[to](files[0])), "streambpe, which read the file again"
        if to != "boundless":
            return Loaded(by, back.encode_ordinary_batch)
        by = f"{by} (fastboundlessbpe was not run)"
        return Loaded(by, lambda texts: [ids or [] for ids in _ids(back, texts)], back.decode_single_token_bytes)
    package = LIBRARIES[to]
    name, library = f"{package} {version(package)}", need(package, "Comparing", " Nothing was written.")
    with _refused_by(name):
        if to == "tiktoken":
            there = runpy.run_path(str(files[1]))["encoding"]
            return _in_tiktoken(name, there)
        there = library.Tokenizer.from_file(str(files[0]))
        there.no_truncation()
        there.no_padding()
        there.encode_special_tokens = True
        there.model._resize_cache(0)  # what it holds is never given back: 8 MB for each file that is compared
        return _in_tokenizers(name, library, there)


def _in_tokenizers(name: str, library: Any, there: Any) -> Loaded:
    @_refused_by(name)
    def encode(texts: list[str]) -> list[list[int]]:
        return [encoding.ids for encoding in there.encode_batch_fast(texts, add_special_tokens=False)]

    def find(expression: str, text: str) -> set[str]:
        step = library.pre_tokenizers.Split(library.Regex(expression), "removed", invert=True)
        return set("".join(piece for piece, _ in step.pre_tokenize_str(text)))

    @_refused_by(name)
    def split(texts: list[str], chunks: list[list[str]]) -> list[bool]:
        if there.normalizer is not None:
            texts = [there.normalizer.normalize_str(text) for text in texts]
        places = ([place for _, place in there.pre_tokenizer.pre_tokenize_str(text)] for text in texts)
        return [[text[a:b] for a, b in p] == ours for text, p, ours in zip(texts, places, chunks, strict=True)]

    step = json.dumps(json.loads(there.to_str())["pre_tokenizer"])
    by_expression = step != "null" and '"Metaspace"' not in step
    return Loaded(name, encode, None, split if by_expression else None, find, step)


def _in_tiktoken(name: str, there: Any) -> Loaded:
    def other(expression: str, ranks: dict[bytes, int]) -> Any:
        return type(there)("other", pat_str=expression, mergeable_ranks=ranks, special_tokens={})

    def find(expression: str, text: str) -> set[str]:
        by_byte = other(expression, {bytes([byte]): byte for byte in range(256)})
        return set(by_byte.decode(by_byte.encode_ordinary(text)))

    @_refused_by(name)
    def split(texts: list[str], chunks: list[list[str]]) -> list[bool]:
        """If chunks are tokens, and so is what two neighbours come to, other chunks have other ids."""
        each = (made.encode() for some in chunks for made in (*some, *map("".join, pairwise(some))))
        tokens = dict.fromkeys([*(bytes([byte]) for byte in range(256)), *each])
        ranks = {token: rank for rank, token in enumerate(tokens)}
        theirs = map(other(there._pat_str, ranks).encode_ordinary, texts)  # a thread for each short text costs more
        return [[ranks[c.encode()] for c in some] == ids for some, ids in zip(chunks, theirs, strict=True)]

    return Loaded(name, _refused_by(name)(there.encode_ordinary_batch), None, split, find, there._pat_str)


def documents(source: str) -> Iterator[str]:
    """The documents of a source; a .txt file is cut into paragraphs, so that examples and counts say more."""
    found, _ = find_sources([source], SourceOptions(), in_part=True)
    meter = present_meter()
    meter.begin("verifying", sum(one.bytes for one in found))
    reader = Reader(PRESETS["none"], 1 << 20, 1 << 30, on_read=meter.advance)
    for one in found:
        for block in reader.blocks(one):
            for document in block_text(block, "replace").text.split(b"\xff"):
                parts = _PARAGRAPH.findall(document) if one.kind == "txt" else [document]
                yield from (part.decode() for part in parts if part)
