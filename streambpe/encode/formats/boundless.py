"""fastboundlessbpe's `.model` files: v2 written and read, v1 (the original BoundlessBPE) read.

A v2 file holds merges and deletions of words under one counter and supermerges under another, each with its
count; the parts of a deletion are not stored, only whether they are bytes or the pair that first made the token.
The order in which words and superwords came to be follows from the counts: the larger first, ties to the word.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import (
    Any,  # lines of a .model file are JSON of another program: dict[str, Any], checked where they are read
)

from streambpe.encode.encoder import Encoder
from streambpe.encode.formats.flat import lost_preparation, refuse_rules, shown, unshown
from streambpe.encode.formats.hf import named_alphabet, preset_of
from streambpe.errors import ModelError, quoted
from streambpe.model.alphabet import Alphabet, bytes_alphabet, utf8_alphabet
from streambpe.model.eventlog import (
    Event,
    EventLog,
    Header,
    Op,
    Special,
    delete_event,
    merge_event,
    supermerge_event,
)
from streambpe.model.replay import Model
from streambpe.model.vocabulary import Vocabulary
from streambpe.text.patterns import SCRIPT_SPECIFIC, SCRIPT_SPECIFIC_GPT4O
from streambpe.text.script_runs import SPACELESS

_ELIGIBLE = {"improved": r"^(?=.+\p{L})(?:\p{L}\p{M}*|[ _'\u2019])+$", "simple": r"\p{L}", None: r"\p{L}"}


def export_boundless(encoder: Encoder, path: Path) -> tuple[list[Path], list[str]]:
    """Write a v2 file; (files, what is lost)."""
    model, header = encoder.model, encoder.header
    if header.alphabet["kind"] not in ("gpt2", "bytes", "utf8", "seen"):
        raise ModelError(
            f"A .model file's base symbols are bytes, but this model's are of kind {quoted(header.alphabet['kind'])}. "
            "Nothing was written."
        )
    refuse_rules(encoder, ".model files")
    lost = lost_preparation(header.config, normalizes=False)
    if encoder.stop_ids:
        lost.append(
            f"stop words ({len(encoder.stop_ids)}): a .model file has none. They become ordinary chunks, and later "
            f"ids are smaller by {len(encoder.stop_ids)}."
        )
    if header.config.get("superwords") == "uw" or encoder.pattern.keep_gaps:
        lost.append("text that the pattern does not match: readers of .model files drop it.")
    if not encoder.pattern.expression:
        raise ModelError("A .model file needs a pattern, and this model has --pattern none. Nothing was written.")
    to_bytes, to_pair = True, True
    for event in model.events:
        if event.op is Op.DELETE:
            to_bytes &= event.into == model.vocabulary[event.id].base
            to_pair &= event.into == model.vocabulary.first_pair[event.id]
    if not to_bytes and not to_pair:
        lost.append("deletions: a .model file splits tokens into bytes or their first pair, not like this.")
    superbpe = header.config.get("superwords") == "superbpe"
    config = {
        "tau": float(header.config.get("tau") or 1.1),
        "is_super": False,
        "superbpe_mode": False,
        "blowup": to_bytes,
        "main_regex": encoder.pattern.expression,
        "script_specific_regex": encoder.pattern.script_expression,
        "script_specific_scripts": list(SPACELESS) if encoder.pattern.script_expression else None,
        "merge_pattern": _ELIGIBLE.get(header.config.get("superword_pattern"), r"\p{L}"),
    }
    kind = "word" if not encoder.has_superwords else "superbpe" if superbpe else "boundless"
    lines = [f"BoundlessBPE v2 {kind}", "vocabulary", str(len(model.model_id) - len(encoder.stop_ids))]
    supers = {event.id for event in model.events if event.op is Op.SUPERMERGE}
    supers -= {event.id for event in model.events if event.op is Op.MERGE}
    stops = set(encoder.stop_ids.values())
    listed = [log_id for log_id in model.model_id if log_id not in stops]
    lines += [f"{i} {shown(model.content(log_id))} 0 {int(log_id in supers)}" for i, log_id in enumerate(listed)]
    lines += ["special_tokens", str(len(model.special_ids))]
    if header.fixed is None:
        lines += [f"{number - len(stops)} {text}" for text, number in model.special_ids.items()]
    else:
        lines += [f"{number} {text}" for number, text in enumerate(model.special_ids, len(listed))]
    if model.alphabet.first_id or header.config.get("specials_first") or header.fixed is not None:
        lost.append("ids: a .model file starts at 0 and puts special tokens last.")
    words = [event for event in model.events if event.op is not Op.SUPERMERGE]
    lines += ["words", json.dumps(config), *_operations(model, words)]
    if encoder.has_superwords:
        joined = [event for event in model.events if event.op is Op.SUPERMERGE]
        lines += ["superwords", json.dumps({**config, "tau": 1.1, "is_super": True, "superbpe_mode": superbpe})]
        lines += _operations(model, joined)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return [path], lost


def _operations(model: Model, events: list[Event]) -> list[str]:
    merges, deletions = [], []
    for index, event in enumerate(events):
        if event.op is Op.DELETE:
            deletions.append(f"{index} {shown(model.content(event.id))}")
        else:
            left, right = (shown(model.content(part)) for part in event.pair)
            # the flag says whether some chunk became one token; loaders read it, encoders do not
            merges.append(f"{index} {left} {right} {event.n} {int(event.op is Op.SUPERMERGE)}")
    return ["merges", str(len(merges)), *merges, "deletions", str(len(deletions)), *deletions]


# Reading.


class _Lines:
    """The lines of a file, with the number of the last one read for messages."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = path
        try:
            self._lines = iter(Path(path).read_text(encoding="utf-8").split("\n"))
        except (OSError, UnicodeDecodeError) as why:
            raise ModelError(f"{path} cannot be read as a .model file: {why}.") from None
        self.number = 0

    def next(self) -> str:
        """The next line."""
        self.number += 1
        line = next(self._lines, None)
        if line is None:
            raise ModelError(f"{self.path} ends at line {self.number}, before all that it announces; it was cut off.")
        return line

    def expect(self, word: str) -> None:
        """Read a line that has to be this word."""
        line = self.next()
        if line != word:
            raise ModelError(f"{self.path} line {self.number} is {line!r:.60}, not {word!r}.")

    def table(self) -> Iterator[list[str]]:
        """Read a count, then as many lines, split at blanks."""
        for _ in range(self.count()):
            yield self.next().split(" ")

    def count(self) -> int:
        """Read a line that has to be a number."""
        line = self.next()
        try:
            return int(line)
        except ValueError:
            raise ModelError(f"{self.path} line {self.number} is {line!r:.60}, not a number.") from None


def import_dot_model(path: str | os.PathLike[str]) -> EventLog:
    """A `.model` file of any of the kinds that begin with a version line."""
    lines = _Lines(path)
    first = lines.next()
    try:
        if first.startswith("BoundlessBPE v2 "):
            return _read_v2(lines, first.rsplit(" ", 1)[1])
        if first == "word v1":
            return _read_v1(lines)
        if first in ("minbpe v1", "BatchBPE v1"):
            return _read_minbpe(lines)
    except (ValueError, KeyError, IndexError) as why:
        raise ModelError(f"{path} line {lines.number} is damaged: {why!r:.200}.") from None
    raise ModelError(
        f"{path} begins with {first!r:.60}; known are `BoundlessBPE v2 word|boundless|superbpe`, `word v1`, "
        f"`minbpe v1` and `BatchBPE v1`."
    )


class _Builder:
    """Collects events by what they spell."""

    def __init__(self, alphabet: Alphabet, path: object) -> None:
        self.alphabet, self.path = alphabet, path
        self.vocabulary = Vocabulary(alphabet)
        self.events: list[Event] = []
        self._number = {symbol: alphabet.first_id + i for i, symbol in enumerate(alphabet.symbols)}

    def merge(self, left: bytes, right: bytes, n: int, above: bool) -> None:
        """Add a merge, or with `above` a supermerge."""
        for part in (left, right):
            if part not in self._number:
                raise ModelError(
                    f"{self.path}: {quoted(left)} + {quoted(right)} comes before any merge that makes {quoted(part)}."
                )
        pair = (self._number[left], self._number[right])
        number = self.vocabulary.learn(*pair)
        self._number[left + right] = number
        make = supermerge_event if above else merge_event
        self.events.append(make(*pair, number, n))

    def delete(self, content: bytes, to_bytes: bool) -> None:
        """Add a deletion; the token is split into bytes or into the pair that first made it."""
        number = self._number[content]
        into = self.vocabulary[number].base if to_bytes else self.vocabulary.first_pair[number]
        self.events.append(delete_event(number, into, 0))
        self.vocabulary.delete(number)


def _read_v2(lines: _Lines, kind: str) -> EventLog:
    lines.expect("vocabulary")
    listed: list[bytes] = []
    for number, token, _count, _is_super in lines.table():
        if int(number) != len(listed):
            raise ModelError(f"{lines.path} line {lines.number}: id {number}, expected {len(listed)}.")
        listed.append(unshown(token))
    lines.expect("special_tokens")
    specials = [lines.next().split(" ", 1) for _ in range(lines.count())]
    lines.expect("words")
    config = json.loads(lines.next())
    words = _read_operations(lines)
    supers: list[tuple[int, bytes, bytes, int]] = []
    if kind != "word":
        lines.expect("superwords")
        lines.next()
        supers = [entry for entry in _read_operations(lines) if entry[2]]
    alphabet = named_alphabet(tuple(token for token in listed if len(token) == 1))
    if alphabet.symbols == utf8_alphabet().symbols:
        alphabet = utf8_alphabet()
    build = _Builder(alphabet, lines.path)
    at = 0

    def words_while(n: int) -> None:
        """Build word operations up to the first merge with a count below n; deletions belong to the merge before."""
        nonlocal at
        while at < len(words):
            _, left, right, count = words[at]
            if right and count < n:
                return
            if right:
                build.merge(left, right, count, above=False)
            else:
                build.delete(left, bool(config["blowup"]))
            at += 1

    for _, left, right, n in supers:
        words_while(n if kind == "boundless" else 0)
        build.merge(left, right, n, above=True)
    words_while(0)
    settings: dict[str, Any] = _pattern_settings(config, lines.path)
    if kind != "word":
        settings["superwords"] = kind
    if config["tau"] <= 1:
        settings["tau"] = str(config["tau"])
    log = _log(alphabet, settings, specials, build.events)
    model = Model(log)
    ours = [model.content(log_id) for log_id in model.model_id]
    for place, (mine, theirs) in enumerate(zip(ours, listed, strict=False)):
        if mine != theirs:
            raise ModelError(
                f"{lines.path} gives id {place} to {quoted(theirs)}; its merges and deletions give it to "
                f"{quoted(mine)}."
            )
    if len(ours) != len(listed):
        raise ModelError(f"{lines.path} lists {len(listed)} tokens; its merges and deletions leave {len(ours)} alive.")
    return log


def _read_operations(lines: _Lines) -> list[tuple[int, bytes, bytes, int]]:
    """(index, left, right, n) of merges and (index, token, b"", 0) of deletions, by index."""
    lines.expect("merges")
    found = [(int(index), unshown(left), unshown(right), int(n)) for index, left, right, n, _flag in lines.table()]
    lines.expect("deletions")
    found += [(int(index), unshown(token), b"", 0) for index, token in lines.table()]
    return sorted(found)


def _pattern_settings(config: dict[str, Any], path: object) -> dict[str, Any]:
    settings = _splitting(config["main_regex"])
    special = config.get("script_specific_regex")
    if special is not None:
        ours = SCRIPT_SPECIFIC_GPT4O if "/]*" in config["main_regex"] else SCRIPT_SPECIFIC
        if special != ours or set(config["script_specific_scripts"]) != set(SPACELESS):
            raise ModelError(f"{path} splits scripts by its own pattern or list; only the published ones can be read.")
        settings["split_scripts"] = True
    return settings


def _read_v1(lines: _Lines) -> EventLog:
    """The original form: one counter for all operations, and deleted tokens stay listed."""
    pattern = json.loads(lines.next())
    listed = [unshown(token) for _, token in lines.table()]
    specials = [lines.next().split(" ", 1) for _ in range(lines.count())]
    entries: list[tuple[int, str, bytes, bytes]] = []
    entries += [(int(i), "merge", unshown(left), unshown(right)) for i, left, right in lines.table()]
    entries += [(int(i), "delete", unshown(token), b"") for i, token in lines.table()]
    entries += [(int(i), "super", unshown(left), unshown(right)) for i, left, right in lines.table()]
    build = _Builder(bytes_alphabet(), lines.path)
    for _, what, left, right in sorted(entries):
        if what == "delete":
            build.delete(left, True)
        else:
            build.merge(left, right, 0, above=what == "super")
    if [token.content for token in build.vocabulary.tokens] != listed:
        raise ModelError(f"{lines.path}: its list of tokens differs from what its merges make.")
    return _log(bytes_alphabet(), _splitting(pattern) | {"superwords": "boundless"}, specials, build.events)


def _read_minbpe(lines: _Lines) -> EventLog:
    """minbpe and BatchBPE: pattern, special tokens, merges by id from 256 on. BatchBPE files lack the stop words."""
    pattern = lines.next().strip()
    specials = [lines.next().rsplit(" ", 1) for _ in range(lines.count())]
    alphabet = bytes_alphabet()
    vocabulary = Vocabulary(alphabet)
    events: list[Event] = []
    while line := lines.next():
        left, right = map(int, line.split())
        number = vocabulary.learn(left, right)
        if number != 256 + len(events):
            raise ModelError(f"{lines.path} line {lines.number} makes a token that exists; its ids cannot be kept.")
        events.append(merge_event(left, right, number, 0))
    return _log(alphabet, _splitting(pattern), [special[::-1] for special in specials], events)


def _splitting(expression: str) -> dict[str, Any]:
    """How text is split, as a header says it."""
    name, _ = preset_of(expression)
    return {"pattern": name, "gaps": "drop" if name == expression else "refuse"}


def _log(
    alphabet: Alphabet, settings: dict[str, Any], specials: Iterable[Sequence[str]], events: Sequence[Event]
) -> EventLog:
    """A log with special tokens given as (id, text)."""
    named = tuple(Special(text, int(number)) for number, text in specials)
    return EventLog(Header(alphabet.to_header(), settings, specials=named), tuple(events))
