"""`explain`: why a text splits as it does, and how a token came to be. Rows, for a table or JSON.

A text:   one row per step; in each chunk the events that applied, in order, then the supermerges.

    step  event  did            n    tokens
    0            " cats"             " " "c" "a" "t" "s"
    1     12     merge "a" "t"  812  " " "c" "at" "s"

A token:  the events that made it from base symbols, in order, each with its count; and when it was deleted.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, TextIO

import numpy as np

from streambpe.encode.encoder import Encoder
from streambpe.encode.tokenizer import Tokenizer
from streambpe.errors import UsageError
from streambpe.inspect.columns import print_columns
from streambpe.model.eventlog import Event, Op
from streambpe.model.replay import Model, merge, split
from streambpe.plurals import counted
from streambpe.results import Result
from streambpe.terminal import columns_of, wrapped
from streambpe.text.shown import shown

_ACROSS = "(across chunks)"
_FindNext = Callable[[Model, Sequence[int], int], int | None]  # the event that applies next; behind the last one
Row = dict[str, Any]  # of a table whose columns depend on what is explained; printed and put into JSON as it is


@dataclass(frozen=True)
class Explanation(Result):
    """What `explain` found: a line about it, rows of a table, further notes."""

    about: str
    rows: list[Row]
    notes: list[str] = field(default_factory=list)


def quoted(content: bytes) -> str:
    """A token in quotes, where a space needs no sign."""
    return f'"{shown(content, " ")}"'


def explain(model: Tokenizer | str | os.PathLike[str], what: str, *, token: bool | None = None) -> Explanation:
    """Explain a token if `what` spells one that the model ever had (or is id:N, or log:N), else as a text.

    `token` True or False decides that.
    """
    encoder = (model if isinstance(model, Tokenizer) else Tokenizer(model)).encoder
    number = None if token is False else _find_token(encoder, what)
    if number is not None:
        return explain_token(encoder, number)
    if token and what in encoder.model.special_ids:
        raise UsageError(
            f"{what!r} is a special token (id {encoder.model.special_ids[what]}): it was given, not learned."
        )
    if token:
        raise UsageError(f"The model never had a token {what!r}. Leave --token out to see how the text splits.")
    return explain_text(encoder, what)


def _find_token(encoder: Encoder, what: str) -> int | None:
    """The log id of the token that is meant; None if the model never had one like it."""
    model, (kind, _, number) = encoder.model, what.partition(":")
    if kind == "id" and number.isdigit():
        for text, special in model.special_ids.items():
            if special == int(number):
                raise UsageError(f"id {special} is the special token {text!r}: it was given, not learned.")
        if int(number) not in model.log_id:
            raise UsageError(f"The model has no token with id {int(number)}.")
        return model.log_id[int(number)]
    first = model.vocabulary.first_id
    if kind == "log" and number.isdigit() and first <= int(number) < first + len(model.vocabulary.tokens):
        return int(number)
    wanted, stops = encoder.codec.content(what), set(encoder.stop_ids.values())
    for token in model.vocabulary.tokens:
        if token.content == wanted or (token.id in stops and token.content == what.encode()):
            return token.id
    return None


def explain_text(encoder: Encoder, text: str) -> Explanation:
    """One row per step, chunk by chunk, then across chunks."""
    stops, chunks = set(encoder.stop_ids.values()), encoder.split(text)
    rows: list[Row] = []
    ids: list[int] = []
    run: list[int] = []  # tokens that are whole chunks: supermerges may join them
    joined: list[Row] = []
    for chunk in [*chunks, None]:
        sequence: list[int] = []
        if chunk is not None:
            shown, sequence = quoted(chunk.encode()), encoder.encode_chunk(chunk)
            if len(sequence) == 1 and sequence[0] in stops:
                rows.append(_row(encoder, shown, 0, "stop word", sequence))
            else:
                sequence = encoder.codec.split(chunk)
                rows.append(_row(encoder, shown, 0, "base symbols", sequence))
                sequence = _apply(encoder, sequence, _next_in_chunk, shown, rows)
                if len(sequence) == 1:
                    run += sequence
                    continue
        run = _apply(encoder, run, _next_across, _ACROSS, joined)
        ids += [*run, *sequence]
        run = []
    named = encoder.to_model_ids(np.array(ids, np.int32)).tolist()
    about = f"{quoted(text.encode())}: {counted(len(chunks), 'chunk')}, {counted(len(named), 'token')}, ids {named}"
    return Explanation(about, [*rows, *joined])


def _next_in_chunk(model: Model, sequence: Sequence[int], last: int) -> int | None:
    found = [i for pair in pairwise(sequence) for i in model.merges.get(pair, ()) if i > last]
    found += [i for number in sequence for i in model.deletions.get(number, ()) if i > last]
    return min(found, default=None)


def _next_across(model: Model, sequence: Sequence[int], _: int) -> int | None:
    return min((model.supermerges[pair] for pair in pairwise(sequence) if pair in model.supermerges), default=None)


def _apply(encoder: Encoder, sequence: list[int], find_next: _FindNext, chunk: str, rows: list[Row]) -> list[int]:
    """What is left when one event after the other was applied; a row is added for each."""
    step, last = 0, -1
    while (index := find_next(encoder.model, sequence, last)) is not None:
        event = encoder.model.events[index]
        if event.op is Op.DELETE:
            sequence = split(sequence, event.id, event.into)
        else:
            sequence = merge(sequence, event.pair, event.id)
        step, last = step + 1, index
        rows.append(_row(encoder, chunk, step, _did(encoder, event), sequence, index))
    return sequence


def _row(encoder: Encoder, chunk: str, step: int, did: str, sequence: Sequence[int], event: int | None = None) -> Row:
    n = None if event is None else encoder.model.events[event].n
    tokens = [_content(encoder, number) for number in sequence]
    return {"chunk": chunk, "step": step, "event": event, "did": did, "n": n, "tokens": tokens}


def _content(encoder: Encoder, number: int) -> str:
    if number < 0:
        return str(encoder.header.unk)
    content = encoder.model.content(number)
    return quoted(content if number in encoder.stop_ids.values() else encoder.codec.text_bytes(content, "name"))


def _did(encoder: Encoder, event: Event) -> str:
    parts = " ".join(_content(encoder, part) for part in (event.into if event.op is Op.DELETE else event.pair))
    return f"delete {_content(encoder, event.id)} -> {parts}" if event.op is Op.DELETE else f"{event.op} {parts}"


def explain_token(encoder: Encoder, number: int) -> Explanation:
    """The events that made the token from base symbols, and what became of it."""
    model, events = encoder.model, encoder.model.events
    made: dict[int, list[int]] = {}
    for index, event in enumerate(events):
        made.setdefault(event.id, []).append(index)
    name, living = _content(encoder, number), model.model_id.get(number)
    about = f"{name}: id {number}"  # mostly it is its log id, too
    if living != number:
        about = f"{name}: log id {number}, " + (f"id {living}" if living is not None else "deleted, no id")
    if number in encoder.stop_ids.values():
        return Explanation(about, [], ["A stop word: a chunk that had its id before learning began."])
    if number not in made:
        return Explanation(about, [], ["A base symbol: it is in the alphabet, and no merge made it."])
    path: set[int] = set()
    waiting = [(number, len(events))]
    while waiting:
        token, before = waiting.pop()
        births = [i for i in made.get(token, ()) if i < before and events[i].op is not Op.DELETE]
        if births and births[0] not in path:
            path.add(births[0])
            waiting += [(part, births[0]) for part in events[births[0]].pair]
    rows: list[Row] = [
        {"event": i, "did": _did(encoder, event), "makes": _content(encoder, event.id), "n": event.n}
        for i, event in ((i, events[i]) for i in sorted(path.union(made[number])))
    ]
    first = next(i for i in made[number] if events[i].op is not Op.DELETE)
    notes = [f"{name} was learned at event {first} of {len(events)}, with a count of {events[first].n}."]
    if first < encoder.header.inherited and "extends" in encoder.header.config:
        notes.append("It is a token of the extended model, and its count comes from that model's text.")
    for index in made[number]:
        if events[index].op is Op.DELETE:
            notes.append(f"Deleted at event {index}: {events[index].n} occurrences were split.")
        elif index != first:
            notes.append(f"Learned again at event {index}, with a count of {events[index].n}.")
    return Explanation(about, rows, notes)


def print_explanation(found: Explanation, out: TextIO) -> None:
    """Print it as plain text, in columns as wide as they need to be."""
    out.write(wrapped(found.about, columns_of(out)) + "\n")
    if found.rows:
        names = [name for name in found.rows[0] if name != "chunk"]
        print_columns([names, *([_cell(row, name) for name in names] for row in found.rows)], len(names), out)
    for note in found.notes:
        out.write(wrapped(note, columns_of(out)) + "\n")


def _cell(row: Row, name: str) -> str:
    """A figure as text. The first row of a chunk says which chunk it is, in the place of what is done."""
    value, chunk = row[name], row.get("chunk")
    if name == "did" and chunk == _ACROSS:
        return f"{value} {chunk}"
    if name == "did" and chunk and not row["step"]:
        return str(chunk) + ", a stop word" * bool(value == "stop word")
    if value is None:
        return ""
    return " ".join(value) if isinstance(value, list) else str(value)
