"""`explain`: why a text splits as it does, and how a token came to be. Rows, for a table or JSON.

A text:   one row per step; in each chunk the events that applied, in order, then the supermerges.

    chunk    step  event  did                   n     tokens
    " cats"  0                                        " " c a t s
    " cats"  1     12     merge "a" "t"         812   " " c at s

A token:  the events that made it from base symbols, in order, each with its count; when it was deleted; and,
if the model is a RUN's, the pairs that were next in line when it was made, for tokens of words.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import polars as pl

from streambpe.core.strings import as_buffers
from streambpe.encode.bulk import BulkReplay, pair_places
from streambpe.encode.encoder import Encoder
from streambpe.encode.tokenizer import Tokenizer
from streambpe.errors import UsageError
from streambpe.inspect.asked import spill_folder
from streambpe.inspect.columns import print_columns
from streambpe.model.eventlog import Event, Op
from streambpe.model.replay import merge, split
from streambpe.model.whole_characters import merging_pairs
from streambpe.store.merge import merge_ranges
from streambpe.store.run import Run
from streambpe.store.weights import weighed_counts
from streambpe.text.shown import shown

Row = dict[str, Any]  # of a table whose columns depend on what is explained; printed and put into JSON as it is
_RIVALS = 5
_RANGE_BYTES = 4 << 20  # of chunks replayed at once: 40 bytes per symbol
_PAIRS = {"left": pl.Int32, "right": pl.Int32, "n": pl.Int64}


@dataclass
class Explanation:
    """What `explain` found: a line about it, rows of one table, further notes."""

    about: str
    rows: list[Row]
    notes: list[str] = field(default_factory=list)
    rivals: list[Row] = field(default_factory=list)

    def as_json(self) -> Row:
        """For --json."""
        return {"about": self.about, "rows": self.rows, "rivals": self.rivals, "notes": self.notes}


def quoted(content: bytes) -> str:
    """A token in quotes, where a space needs no sign."""
    return f'"{shown(content, " ")}"'


def explain(tokenizer: Tokenizer, what: str, *, as_text: bool | None = None, run: Path | None = None) -> Explanation:
    """Explain a token if `what` spells one that the model ever had (or is id:N, or log:N), else as a text.

    `as_text` True or False decides that. `run`: where the chunk counts are, for the rivals.
    """
    encoder = tokenizer.encoder
    number = None if as_text else _find_token(encoder, what)
    if number is not None:
        return explain_token(encoder, number, run)
    if as_text is False and what in encoder.model.special_ids:
        raise UsageError(
            f"{what!r} is a special token (id {encoder.model.special_ids[what]}): it was given, not learned."
        )
    if as_text is False:
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
    rows += _across(encoder, ended, stops)
    ids = encoder.named(model.join_chunks(ended))
    return Explanation(f"{quoted(text.encode())}: {len(chunks)} chunks, {len(ids)} tokens, ids {ids}", rows)


def _next_event(encoder: Encoder, sequence: Sequence[int], last: int) -> int | None:
    model = encoder.model
    found = [i for pair in pairwise(sequence) for i in model.merges.get(pair, ()) if i > last]
    found += [i for number in sequence for i in model.deletions.get(number, ()) if i > last]
    return min(found, default=None)


def _across(encoder: Encoder, ended: list[list[int]], stops: set[int]) -> list[Row]:
    rows: list[Row] = []
    run: list[int] = []
    for chunk in [*ended, []]:
        if len(chunk) == 1 and chunk[0] not in stops:
            run.append(chunk[0])
            continue
        step = 0
        while True:
            waiting = [encoder.model.supermerges[p] for p in pairwise(run) if p in encoder.model.supermerges]
            if not waiting:
                break
            event = encoder.model.events[min(waiting)]
            run = merge(run, event.pair, event.id)
            step += 1
            rows.append(_row(encoder, "(across chunks)", step, min(waiting), _did(encoder, event), run))
        run = []
    return rows


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


def explain_token(encoder: Encoder, number: int, run: Path | None = None) -> Explanation:
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
        return Explanation(about, [], ["A stop word: a chunk that was given its id before learning began."])
    if number not in made:
        return Explanation(about, [], ["A base symbol: the alphabet has it, nothing made it."])
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
    notes = [f"{name} came to be at event {first} of {len(model.events)}, by count {model.events[first].n}."]
    if first < encoder.header.inherited and "extends" in encoder.header.config:
        notes.append("It is a token of the model that was extended, and its count is of the text of that one.")
    for index in made[number]:
        event = model.events[index]
        if event.op is Op.DELETE:
            notes.append(f"Deleted at event {index}: {event.n} occurrences were split.")
        elif index != first:
            notes.append(f"Made once more at event {index}, by count {event.n}.")
    rivals: list[Row] = []
    if run is None:
        notes.append("Rivals are left out: they need the chunk counts of a RUN, and this is an event log alone.")
    elif model.events[first].op is Op.SUPERMERGE or encoder.header.config.get("superwords") == "uw":
        notes.append("Rivals are left out: the pairs of superwords, and of uw, stand in documents, not in chunks.")
    else:
        rivals = find_rivals(encoder, run, first)
    if rivals and encoder.header.config.get("balance"):
        notes.append("Rivals are counted in all groups; with --balance the count of an event is that of one group.")
    return Explanation(about, rows, notes, rivals)


def _event_row(encoder: Encoder, index: int) -> Row:
    event = encoder.model.events[index]
    return {"event": index, "did": _did(encoder, event), "makes": _content(encoder, event.id), "n": event.n}


def find_rivals(encoder: Encoder, run: Path, index: int, most: int = _RIVALS) -> list[Row]:
    """The most frequent pairs at the moment before an event, counted anew: all distinct chunks are replayed, some at a
    time, at about 0.3 us per symbol. Not for superwords, and not under uw.
    """
    config, vocabulary = encoder.header.config, encoder.model.vocabulary
    events = [event for event in encoder.model.events[:index] if event.op is not Op.SUPERMERGE]
    sizes = [0] * vocabulary.first_id + [len(token.base) for token in vocabulary.tokens]
    bulk = BulkReplay(events, encoder.n_log, sizes)
    pairs, folder = pl.DataFrame(schema=_PAIRS), Run.open(run)
    with (
        spill_folder(folder) as place,
        weighed_counts(folder, config.get("weights", {}), place / "weighed") as part,
    ):
        for frame in merge_ranges([part], _RANGE_BYTES):
            pairs = pl.concat([pairs, _pairs_in(encoder, bulk, frame)])
            pairs = pairs.group_by("left", "right").agg(pl.col("n").sum())
    longest = config.get("max_token_length")
    if longest is not None:
        length = np.array(sizes)
        fits = length[pairs["left"].to_numpy()] + length[pairs["right"].to_numpy()] <= longest
        pairs = pairs.filter(pl.Series(fits))
    first, tied = vocabulary.first_id, np.arange(encoder.n_log)
    if config.get("ties") == "bytes":
        ordered = sorted(range(encoder.n_log), key=lambda i: encoder.model.content(i) if i >= first else b"")
        tied[ordered] = np.arange(encoder.n_log)
    pairs = pairs.with_columns(
        a=pl.Series(tied[pairs["left"].to_numpy()]), b=pl.Series(tied[pairs["right"].to_numpy()])
    )
    blocked = {encoder.codec.content(token) for token in config.get("block_tokens", ())}
    rivals: list[Row] = []
    for a, b, count in pairs.sort(["n", "a", "b"], descending=[True, False, False])["left", "right", "n"].iter_rows():
        if encoder.model.content(a) + encoder.model.content(b) not in blocked:
            rivals.append({"left": _content(encoder, a), "right": _content(encoder, b), "n": count})
        if len(rivals) == most:
            break
    return rivals


def _pairs_in(encoder: Encoder, bulk: BulkReplay, frame: pl.DataFrame) -> pl.DataFrame:
    """Rows (left, right, n) of the pairs that stand in some chunks once these are replayed."""
    config = encoder.header.config
    frame = frame.filter(pl.col("n") >= config.get("freq_cutoff", 1), ~pl.col("chunk").is_in(list(encoder.stop_ids)))
    symbols, lengths = encoder.codec.split_many(*as_buffers(frame["chunk"]))
    ids, counts = bulk.replay(symbols, lengths)
    weights = np.repeat(frame["n"].to_numpy(), counts)
    at = pair_places(ids, counts, config.get("overlaps") == "disjoint")
    left, right = ids[at], ids[at + 1]
    known = (left >= 0) & (right >= 0)
    if config.get("whole_characters"):
        known[known] = merging_pairs(encoder.model.vocabulary)(left[known], right[known])
    return pl.DataFrame({"left": left[known], "right": right[known], "n": weights[at][known]}, schema=_PAIRS)


def print_explanation(found: Explanation, out: TextIO) -> None:
    """Print it as plain text, in columns as wide as they need to be."""
    out.write(found.about + "\n")
    _print_table(found.rows, out)
    for note in found.notes:
        out.write(note + "\n")
    if found.rivals:
        out.write("The most frequent pairs just before:\n")
        _print_table(found.rivals, out)


def _print_table(rows: list[Row], out: TextIO) -> None:
    if not rows:
        return
    names = list(rows[0])
    print_columns([names, *([_cell(row[name]) for name in names] for row in rows)], len(names), out)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return " ".join(value) if isinstance(value, list) else str(value)
