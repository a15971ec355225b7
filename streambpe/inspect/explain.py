"""`explain`: why a text splits as it does, and how a token came to be. Rows, for a table or JSON.

A text:   one row per step; in each chunk the events that applied, in order, then the supermerges.

    step  event  did            n    tokens
    0            " cats"             " " "c" "a" "t" "s"
    1     12     merge "a" "t"  812  " " "c" "at" "s"

A token:  the events that made it from base symbols, in order, each with its count; and when it was deleted.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, TextIO

import numpy as np

from streambpe.encode.encoder import Encoder
from streambpe.encode.tokenizer import Tokenizer
from streambpe.errors import UsageError
from streambpe.inspect.columns import print_columns
from streambpe.model.eventlog import Event, Op
from streambpe.model.replay import merge, split
from streambpe.plurals import counted
from streambpe.results import Result
from streambpe.terminal import columns_of, wrapped
from streambpe.text.shown import shown

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
    model = encoder.model
    if what.startswith("id:") and what[3:].isdigit():
        number = int(what[3:])
        if number in model.log_id:
            return model.log_id[number]
        for text, special in model.special_ids.items():
            if special == number:
                raise UsageError(f"id {number} is the special token {text!r}: it was given, not learned.")
        raise UsageError(f"The model has no token with id {number}.")
    if (
        what.startswith("log:")
        and what[4:].isdigit()
        and 0 <= int(what[4:]) - model.vocabulary.first_id < len(model.vocabulary.tokens)
    ):
        return int(what[4:])
    wanted = encoder.codec.content(what)
    stops = set(encoder.stop_ids.values())
    for token in model.vocabulary.tokens:
        if token.content == wanted or (token.id in stops and token.content == what.encode()):
            return token.id
    return None


def explain_text(encoder: Encoder, text: str) -> Explanation:
    """One row per step, chunk by chunk, then across chunks."""
    model = encoder.model
    stops = set(encoder.stop_ids.values())
    rows: list[Row] = []
    ended: list[list[int]] = []
    chunks = encoder.split(text)
    for chunk in chunks:
        stop = encoder.encode_chunk(chunk)
        if len(stop) == 1 and stop[0] in stops:
            rows.append(_row(encoder, chunk, 0, None, "stop word", stop))
            ended.append(stop)
            continue
        sequence = encoder.codec.split(chunk)
        rows.append(_row(encoder, chunk, 0, None, "base symbols", sequence))
        last, step = -1, 0
        while (index := _next_event(encoder, sequence, last)) is not None:
            event = model.events[index]
            if event.op is Op.DELETE:
                sequence = split(sequence, event.id, event.into)
            else:
                sequence = merge(sequence, event.pair, event.id)
            last, step = index, step + 1
            rows.append(_row(encoder, chunk, step, index, _did(encoder, event), sequence))
        ended.append(sequence)
    joined, more = _joined(encoder, ended, stops)
    rows += more
    ids = encoder.to_model_ids(np.array(joined, np.int32)).tolist()
    return Explanation(
        f"{quoted(text.encode())}: {counted(len(chunks), 'chunk')}, {counted(len(ids), 'token')}, ids {ids}", rows
    )


def _next_event(encoder: Encoder, sequence: Sequence[int], last: int) -> int | None:
    model = encoder.model
    found = [i for pair in pairwise(sequence) for i in model.merges.get(pair, ()) if i > last]
    found += [i for number in sequence for i in model.deletions.get(number, ()) if i > last]
    return min(found, default=None)


def _joined(encoder: Encoder, ended: list[list[int]], stops: set[int]) -> tuple[list[int], list[Row]]:
    """(the log ids of the text, a row for each supermerge across chunks)."""
    ids: list[int] = []
    rows: list[Row] = []
    run: list[int] = []
    for chunk in [*ended, []]:
        if len(chunk) == 1 and chunk[0] not in stops:
            run.append(chunk[0])
            continue
        step = 0
        while waiting := [encoder.model.supermerges[p] for p in pairwise(run) if p in encoder.model.supermerges]:
            event = encoder.model.events[min(waiting)]
            run = merge(run, event.pair, event.id)
            step += 1
            rows.append(_row(encoder, "(across chunks)", step, min(waiting), _did(encoder, event), run))
        ids += [*run, *chunk]
        run = []
    return ids, rows


def _row(encoder: Encoder, chunk: str, step: int, index: int | None, did: str, sequence: Sequence[int]) -> Row:
    return {
        "chunk": quoted(chunk.encode()) if index is None or not chunk.startswith("(across") else chunk,
        "step": step,
        "event": index,
        "did": did,
        "n": None if index is None else encoder.model.events[index].n,
        "tokens": [_content(encoder, number) for number in sequence],
    }


def _content(encoder: Encoder, number: int) -> str:
    if number < 0:
        return str(encoder.header.unk)
    content = encoder.model.content(number)
    return quoted(content if number in encoder.stop_ids.values() else encoder.codec.text_bytes(content, "name"))


def _did(encoder: Encoder, event: Event) -> str:
    parts: Iterable[int] = event.into if event.op is Op.DELETE else event.pair
    listed = " ".join(_content(encoder, part) for part in parts)
    if event.op is Op.DELETE:
        return f"delete {_content(encoder, event.id)} -> {listed}"
    return f"{event.op} {listed}"


def explain_token(encoder: Encoder, number: int) -> Explanation:
    """The events that made the token from base symbols, and what became of it."""
    model = encoder.model
    made: dict[int, list[int]] = {}
    for index, event in enumerate(model.events):
        made.setdefault(event.id, []).append(index)
    name = _content(encoder, number)
    living = model.model_id.get(number)
    about = f"{name}: id {number}"  # mostly it is its log id, too
    if living != number:
        about = f"{name}: log id {number}, " + (f"id {living}" if living is not None else "deleted, no id")
    if number in encoder.stop_ids.values():
        return Explanation(about, [], ["A stop word: a chunk that had its id before learning began."])
    if number not in made:
        return Explanation(about, [], ["A base symbol: it is in the alphabet, and no merge made it."])
    path: set[int] = set()
    waiting = [(number, len(model.events))]
    while waiting:
        token, before = waiting.pop()
        births = [i for i in made.get(token, ()) if i < before and model.events[i].op is not Op.DELETE]
        if births and births[0] not in path:
            path.add(births[0])
            waiting += [(part, births[0]) for part in model.events[births[0]].pair]
    own = set(made[number])
    rows = [_event_row(encoder, index) for index in sorted(path | own)]
    first = next(i for i in made[number] if model.events[i].op is not Op.DELETE)
    notes = [f"{name} was learned at event {first} of {len(model.events)}, with a count of {model.events[first].n}."]
    if first < encoder.header.inherited and "extends" in encoder.header.config:
        notes.append("It is a token of the extended model, and its count comes from that model's text.")
    for index in made[number]:
        event = model.events[index]
        if event.op is Op.DELETE:
            notes.append(f"Deleted at event {index}: {event.n} occurrences were split.")
        elif index != first:
            notes.append(f"Learned again at event {index}, with a count of {event.n}.")
    return Explanation(about, rows, notes)


def _event_row(encoder: Encoder, index: int) -> Row:
    event = encoder.model.events[index]
    return {"event": index, "did": _did(encoder, event), "makes": _content(encoder, event.id), "n": event.n}


def print_explanation(found: Explanation, out: TextIO) -> None:
    """Print it as plain text, in columns as wide as they need to be."""
    out.write(wrapped(found.about, columns_of(out)) + "\n")
    if found.rows:
        names = [name for name in found.rows[0] if name != "chunk"]
        rows = [_step_of_chunk(row) if "chunk" in row else row for row in found.rows]
        print_columns([names, *([_cell(row[name]) for name in names] for row in rows)], len(names), out)
    for note in found.notes:
        out.write(wrapped(note, columns_of(out)) + "\n")


def _step_of_chunk(row: Row) -> Row:
    """The row with its chunk where it says what is done, if it is the first of the chunk."""
    if row["step"]:
        return {**row, "did": row["did"] + " (across chunks)" * (row["chunk"] == "(across chunks)")}
    return {**row, "did": row["chunk"] + ", a stop word" * (row["did"] == "stop word")}


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return " ".join(value) if isinstance(value, list) else str(value)
