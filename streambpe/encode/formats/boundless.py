"""fastboundlessbpe's `.model` files: v2 written and read, v1 (the original BoundlessBPE) read.

A v2 file holds merges and deletions of words under one counter and supermerges under another, each with its
count; the parts of a deletion are not stored, only whether they are bytes or the pair that first made the token.
The order in which words and superwords came to be follows from the counts: the larger first, ties to the word.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import (
    Any,  # lines of a .model file are JSON of another program: dict[str, Any], checked where they are read
)

from streambpe.encode.encoder import Encoder
from streambpe.encode.formats.flat import Made, lost_preparation, refuse_unsayable, shown, unshown
from streambpe.encode.formats.foreign import EventBuilder, named_alphabet, named_split, preset_of, read_text
from streambpe.errors import ModelError
from streambpe.model.alphabet import bytes_alphabet, utf8_alphabet
from streambpe.model.eventlog import EventLog, Header, Op, Special
from streambpe.model.events import MergeEvent, SupermergeEvent
from streambpe.model.replay import Model
from streambpe.text.patterns import SCRIPT_SPECIFIC, SCRIPT_SPECIFIC_GPT4O
from streambpe.text.script_runs import SPACELESS

_ELIGIBLE = {"improved": r"^(?=.+\p{L})(?:\p{L}\p{M}*|[ _'\u2019])+$", "simple": r"\p{L}", None: r"\p{L}"}


def boundless_file(encoder: Encoder, path: Path) -> Made:
    """A v2 file."""
    model, header = encoder.model, encoder.header
    refuse_unsayable(encoder, ".model files")
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
    deletions = [event for event in model.events if event.op is Op.DELETE]
    to_bytes = all(event.into == model.vocabulary[event.id].base for event in deletions)
    if not to_bytes and not all(event.into == model.vocabulary.first_pair[event.id] for event in deletions):
        lost.append("deletions: a .model file splits tokens into bytes or their first pair, not like this.")
    superbpe, pattern = header.config.get("superwords") == "superbpe", encoder.pattern
    config = {
        "tau": float(header.config.get("tau") or 1.1), "is_super": False, "superbpe_mode": False, "blowup": to_bytes,
        "main_regex": pattern.expression, "script_specific_regex": pattern.script_expression,
        "script_specific_scripts": list(SPACELESS) if pattern.script_expression else None,
        "merge_pattern": _ELIGIBLE.get(header.config.get("superword_pattern"), r"\p{L}"),
    }  # fmt: skip
    kind = "word" if not encoder.has_superwords else "superbpe" if superbpe else "boundless"
    lines = [f"BoundlessBPE v2 {kind}", "vocabulary", str(len(model.model_id) - len(encoder.stop_ids))]
    supers = {event.id for event in model.events if event.op is Op.SUPERMERGE}
    supers -= {event.id for event in model.events if event.op is Op.MERGE}
    stops = set(encoder.stop_ids.values())
    listed = [log_id for log_id in model.model_id if log_id not in stops]
    lines += [f"{i} {shown(model.content(log_id))} 0 {int(log_id in supers)}" for i, log_id in enumerate(listed)]
    lines += ["special_tokens", str(len(model.special_ids))]
    behind = {text: number for number, text in enumerate(model.special_ids, len(listed))}
    specials = behind if header.fixed else {text: n - len(stops) for text, n in model.special_ids.items()}
    lines += [f"{number} {text}" for text, number in specials.items()]
    if model.alphabet.first_id or header.config.get("specials_first") or header.fixed is not None:
        lost.append("ids: a .model file starts at 0 and puts special tokens last.")
    lines += ["words", json.dumps(config), *_operations(model, supers=False)]
    if encoder.has_superwords:
        lines += ["superwords", json.dumps({**config, "tau": 1.1, "is_super": True, "superbpe_mode": superbpe})]
        lines += _operations(model, supers=True)
    return Made({path: ("\n".join(lines) + "\n").encode()}, lost)


def _operations(model: Model, supers: bool) -> list[str]:
    merges, deletions = [], []
    events = (event for event in model.events if (event.op is Op.SUPERMERGE) is supers)
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
        self.path, self.number = path, 0
        self._lines = iter(read_text(Path(path)).split("\n"))

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
        for _ in range(int(self.next())):
            yield self.next().split(" ")

    def specials(self) -> list[Special]:
        """Read a count, then as many special tokens, each behind its id."""
        numbered = (self.next().split(" ", 1) for _ in range(int(self.next())))
        return [Special(text, int(number)) for number, text in numbered]


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


def _read_v2(lines: _Lines, kind: str) -> EventLog:
    lines.expect("vocabulary")
    listed: list[bytes] = []
    for number, token, _count, _is_super in lines.table():
        if int(number) != len(listed):
            raise ModelError(f"{lines.path} line {lines.number}: id {number}, expected {len(listed)}.")
        listed.append(unshown(token))
    lines.expect("special_tokens")
    specials = lines.specials()
    lines.expect("words")
    config = json.loads(lines.next())
    words = _read_operations(lines)
    supers: list[tuple[int, bytes, bytes, int]] = []
    if kind != "word":
        lines.expect("superwords")
        lines.next()
        supers = [entry for entry in _read_operations(lines) if entry[2]]
    alphabet = named_alphabet(tuple(token for token in listed if len(token) == 1))
    alphabet = utf8_alphabet() if alphabet.symbols == utf8_alphabet().symbols else alphabet
    build = EventBuilder(alphabet, lines.path)
    words.reverse()

    def words_while(n: int) -> None:
        """Build word operations up to the first merge with a count below n; deletions belong to the merge before."""
        while words and not (words[-1][2] and words[-1][3] < n):
            _, left, right, count = words.pop()
            if right:
                build.merge(left, right, count)
            else:
                build.delete(left, bool(config["blowup"]))

    for _, left, right, n in supers:
        words_while(n if kind == "boundless" else 0)
        build.merge(left, right, n, SupermergeEvent)
    words_while(0)
    settings = _pattern_settings(config, lines.path)
    settings |= {"superwords": kind} if kind != "word" else {}
    settings |= {"tau": str(config["tau"])} if config["tau"] <= 1 else {}
    log = _log(build, settings, specials)
    model = Model(log)
    ours = [model.content(log_id) for log_id in model.model_id]
    if ours != listed:
        place = next((i for i, both in enumerate(zip(ours, listed, strict=False)) if both[0] != both[1]), len(ours))
        raise ModelError(
            f"{lines.path} lists {len(listed)} tokens, and its merges and deletions leave {len(ours)} alive; from id "
            f"{place} on they differ."
        )
    return log


def _read_operations(lines: _Lines) -> list[tuple[int, bytes, bytes, int]]:
    """(index, left, right, n) of merges and (index, token, b"", 0) of deletions, by index."""
    lines.expect("merges")
    found = [(int(index), unshown(left), unshown(right), int(n)) for index, left, right, n, _flag in lines.table()]
    lines.expect("deletions")
    return sorted(found + [(int(index), unshown(token), b"", 0) for index, token in lines.table()])


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
    specials = lines.specials()
    build = EventBuilder(bytes_alphabet(), lines.path)
    kinds = ("merge", "delete", "super")
    operations = [(int(index), kind, parts) for kind in kinds for index, *parts in lines.table()]
    for _, kind, parts in sorted(operations):
        if kind == "delete":
            (content,) = parts
            build.delete(unshown(content), to_bytes=True)
        else:
            left, right = map(unshown, parts)
            build.merge(left, right, 0, SupermergeEvent if kind == "super" else MergeEvent)
    if [token.content for token in build.vocabulary.tokens] != listed:
        raise ModelError(f"{lines.path}: its list of tokens differs from what its merges make.")
    return _log(build, _splitting(pattern) | {"superwords": "boundless"}, specials)


def _read_minbpe(lines: _Lines) -> EventLog:
    """minbpe and BatchBPE: pattern, special tokens, merges by id from 256 on. BatchBPE files lack the stop words."""
    pattern = lines.next().strip()
    named = [lines.next().rsplit(" ", 1) for _ in range(int(lines.next()))]
    build = EventBuilder(bytes_alphabet(), lines.path)
    while line := lines.next():
        left, right = (build.vocabulary[int(part)].content for part in line.split())
        build.merge(left, right)
        if build.events[-1].id != 255 + len(build.events):
            raise ModelError(f"{lines.path} line {lines.number} makes a token that exists; its ids cannot be kept.")
    return _log(build, _splitting(pattern), [Special(text, int(number)) for text, number in named])


def _splitting(expression: str) -> dict[str, Any]:
    """How text is split, as a header says it."""
    return named_split(preset_of(expression)[0])


def _log(build: EventBuilder, settings: dict[str, Any], specials: Sequence[Special]) -> EventLog:
    header = Header(build.vocabulary.alphabet.to_header(), settings, specials=tuple(specials))
    return EventLog(header, tuple(build.events))
