"""What all importers share: files of other programs, and a list of merges made an event log with the same ids.

    a file  ->  the ids of tokens by their bytes, merges, special tokens, how text is split  ->  log_from_merges

A rule that an event log does not have is a ModelError, wherever it would give plain text other ids.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args  # JSON of another program, checked where it is read

from streambpe.encode.formats.flat import again_after_use, merged_by_rank
from streambpe.errors import ModelError, quoted
from streambpe.model.alphabet import Alphabet, bytes_alphabet, gpt2_alphabet
from streambpe.model.eventlog import Event, EventLog, FixedIds, Header, Special, delete_event
from streambpe.model.events import MergeEvent
from streambpe.model.replay import Model
from streambpe.model.vocabulary import Vocabulary
from streambpe.options import MOST_EMPTY_IDS
from streambpe.text.aliases import canonical
from streambpe.text.dialects import Dialect, Unsayable, read, translated
from streambpe.text.in_turn import in_turn
from streambpe.text.patterns import PRESETS, WITH_DIGITS, Digits, find_pattern


def read_json(file: Path) -> Any:
    """What a file of JSON holds."""
    try:
        return json.loads(file.read_bytes())
    except json.JSONDecodeError as why:
        raise ModelError(f"{file} is not JSON: line {why.lineno}, column {why.colno}: {why.msg}. Was it cut?") from None
    except (OSError, UnicodeDecodeError, RecursionError) as why:
        raise ModelError(f"{file} cannot be read: {why}.") from None


def read_text(file: Path) -> str:
    """The text of a file, its ends of lines as they are."""
    try:
        return file.read_bytes().decode()
    except (OSError, UnicodeDecodeError) as why:
        raise ModelError(f"{file} cannot be read: {why}.") from None


# How text is split.


def split_config(source: Dialect, drops: bool, path: object, *expressions: str) -> dict[str, Any]:
    """Another program's expression, or several that split in turn, as a header's config has it; `drops`: text between
    its matches is no chunk there."""
    expression = " and then by ".join(expressions)
    try:
        name, keeps = (
            preset_of(expression, source, drops) if not expressions[1:] else (in_turn(expressions, source), True)
        )
    except Unsayable as why:
        raise ModelError(
            f"{path} splits text by {expression!r:.200}, which has {why}; which may mean something else here. Nothing "
            "was written. If there is another way to write it, change the expression in a copy and give that."
        ) from None
    return named_split(name, keeps)


def named_split(name: str, keeps: bool = False) -> dict[str, Any]:
    """What `preset_of` found, as a header's config has it."""
    alike = (known.name for known in PRESETS.values() if known.expression == name and known.keep_gaps <= keeps)
    preset, _, digits = next(alike, name).partition(WITH_DIGITS)
    if preset not in PRESETS:
        return {"pattern": name, "gaps": "keep" if keeps else "drop"}
    return {"pattern": preset, "gaps": "keep" if keeps else "refuse"} | ({"digits": digits} if digits else {})


def preset_of(expression: str, source: Dialect = "regex", drops: bool = False) -> tuple[str, bool]:
    """(the name of the preset with this name or meaning, with WITH_DIGITS where numbers are cut otherwise; else the
    expression in words of the `regex` module; whether gaps are kept). `drops`: they are not, where the expression comes
    from. Unsayable where it is not understood."""
    if source != "oniguruma" and (preset := PRESETS.get(canonical(expression))):
        return preset.name, preset.keep_gaps
    try:
        meaning = read(expression, source)
    except Unsayable:
        if source != "regex":
            raise
        return expression, not drops
    ruled = [preset for preset in PRESETS.values() if preset.expression and not preset.by_rules]
    changed = [find_pattern(preset.name, digits=digits) for digits in get_args(Digits)[1:] for preset in ruled]
    for preset in (*ruled, *changed):
        if not (drops and preset.keep_gaps):
            meant = read(preset.expression, "regex"), read(preset.expression, "rust")  # its $ is just the end
            if meaning in meant:
                return preset.name, preset.keep_gaps
    made = translated(expression, source, "regex")
    return f"(?:{made})" if re.fullmatch(r"[A-Za-z][\w-]*", made) else made, not drops  # a lone word would be a preset


# Merges to events.


def named_alphabet(symbols: tuple[bytes, ...]) -> Alphabet:
    """Single bytes in id order, under the name of the alphabet they are."""
    known = {alphabet.symbols: alphabet for alphabet in (gpt2_alphabet(), bytes_alphabet())}
    return known.get(symbols) or Alphabet("seen", symbols)


class EventBuilder:
    """Collects events by what they spell. `name` begins messages."""

    def __init__(self, alphabet: Alphabet, name: object) -> None:
        self.vocabulary = Vocabulary(alphabet)
        self.events: list[Event] = []
        self._name = name
        self._number = dict(alphabet.id_of)

    def merge(self, left: bytes, right: bytes, n: int = 0, kind: type[MergeEvent] = MergeEvent) -> None:
        """Add a merge, or a supermerge."""
        if left not in self._number or right not in self._number:
            raise ModelError(
                f"{self._name}: merge {len(self.events)}, {quoted(left)} + {quoted(right)}, needs a token that does "
                "not exist yet."
            )
        pair = self._number[left], self._number[right]
        number = self._number[left + right] = self.vocabulary.learn(*pair)
        self.events.append(kind(*pair, number, n))

    def delete(self, content: bytes, to_bytes: bool) -> None:
        """Add a deletion; the token is split into bytes or into the pair that first made it."""
        number = self._number[content]
        into = self.vocabulary[number].base if to_bytes else self.vocabulary.first_pair[number]
        self.events.append(delete_event(number, into, 0))
        self.vocabulary.delete(number)


def log_from_merges(
    contents: dict[bytes, int],
    merges: list[tuple[bytes, bytes]],
    specials: dict[str, int],
    config: dict[str, Any],
    name: str,
    drop_unknown: bool = False,
    unk: str | None = None,
) -> EventLog:
    """An event log of plain merges, checked to give every token the id it has in `contents`."""
    if len(set(merges)) < len(merges):
        (left, right), _ = Counter(merges).most_common(1)[0]
        raise ModelError(
            f"{name}: the merge {quoted(left)} + {quoted(right)} occurs twice, and programs differ in which of them "
            "counts. Leave all but one out."
        )
    symbols = tuple(sorted((c for c in contents if len(c) == 1), key=contents.__getitem__))
    build = EventBuilder(named_alphabet(symbols), name)
    for left, right in merges:
        build.merge(left, right)
        if left + right not in contents:
            raise ModelError(f"{name}: the merge {quoted(left)} + {quoted(right)} makes no token of its vocabulary.")
    if again := again_after_use(build.events):
        raise ModelError(
            f"{name}: the token {quoted(build.vocabulary[again[0]].content)} is made again by a merge after one that "
            "uses it. Programs that take the first of all merges that apply go back to that one, and an event log goes "
            "through its merges once, so some texts would encode differently."
        )
    config = dict(config)
    if drop_unknown and unk is None and len(symbols) < 256:
        config["unknown"] = "drop"
    if specials and max(specials.values()) < min(contents.values(), default=0):
        config["specials_first"] = True
    ordered = sorted(specials.items(), key=lambda item: item[1])
    alphabet = build.vocabulary.alphabet.to_header()
    header = Header(alphabet, config, specials=tuple(Special(*special) for special in ordered), unk=unk)
    model = Model(EventLog(header, tuple(build.events)))
    as_they_are = model.special_ids == specials and set(model.model_id.values()) == set(contents.values())
    if not as_they_are and len(model.model_id) == len(contents):
        model = Model(EventLog(_with_fixed_ids(header, contents, specials, len(merges)), tuple(build.events)))
    ours = {model.content(log_id): number for log_id, number in model.model_id.items()}
    _refuse_other_ids(name, "token", contents, ours)
    _refuse_other_ids(name, "special token", specials, model.special_ids)
    return EventLog(model.header, tuple(build.events))


def _with_fixed_ids(header: Header, contents: dict[bytes, int], specials: dict[str, int], events: int) -> Header:
    """The header where special tokens stand between tokens, or ids are left out; unchanged if there are too many or one
    is given twice."""
    taken = {*contents.values(), *specials.values()}
    many = max(taken) + 1 - len(taken)
    if len(taken) < len(contents) + len(specials) or min(taken) < 0 or many > MOST_EMPTY_IDS:
        return header
    config = {key: value for key, value in header.config.items() if key != "specials_first"}
    free = set(range(max(taken) + 1)) - taken
    return replace(header, config=config, reserved=many, fixed=FixedIds.of(events, free))


def _refuse_other_ids(name: str, what: str, there: Mapping[Any, int], here: Mapping[Any, int]) -> None:
    for content, number in there.items():
        if here.get(content) != number:
            raise ModelError(
                f"{name}: the {what} {quoted(content)} has id {number}, but by the order of alphabet, merges and "
                f"special tokens it would be {here.get(content)}. Its ids cannot be kept in an event log."
            )


def last_merge(content: bytes, rank: int, ranks: dict[bytes, int], name: str) -> tuple[bytes, bytes]:
    """The two tokens that the ranks below `rank` make of a token's bytes."""
    symbols = [content[i : i + 1] for i in range(len(content))]
    parts = merged_by_rank(symbols, lambda left, right: ranks.get(left + right), rank)
    if len(parts) > 2:
        raise ModelError(
            f"{name}: the token {quoted(content)} (rank {rank}) is {len(parts)} tokens under the ranks below it, not "
            "two, so these ranks are not a list of merges."
        )
    return parts[0], parts[1]
