"""Working out again which group was worst at every merge of a training with --balance, without the engine.

Every word of a group is encoded by the whole event log, and what each event found in it is added up:

    event        0    1    2    3         pairs that the event found in the group, times the counts of the words
    de           9    0    6    2         tokens before event 2: the group's bytes - 9 - 0
    en           4    8    1    0

From these the group that is worst before each event follows, and the event's count must be that group's number: for
every event. That no other pair of that group counted more is counted anew for some events only, evenly spread.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl

from streambpe.arrays import Int64
from streambpe.config import TrainConfig
from streambpe.errors import RunError
from streambpe.inspect.recount import Made, Replay, encode_words, pair_counts
from streambpe.model.codecs import Codec
from streambpe.model.eventlog import Event
from streambpe.model.vocabulary import Vocabulary
from streambpe.store.database import append
from streambpe.store.merge import merged_lists
from streambpe.store.parts import Part, parts_by_group
from streambpe.store.run import Run
from streambpe.store.sqlfiles import query_frame, run_sql
from streambpe.system import compose_name
from streambpe.train.balance_texts import read_text
from streambpe.train.words import word_symbols

COUNTED_ANEW = 8  # events before which all pairs of the group that chose are counted
_MOST_WRONG = 10
_EVENTS = 1 << 12  # looked at together


def check_balance(
    con: duckdb.DuckDBPyConnection,
    run: Run,
    parts: Sequence[Part],
    config: TrainConfig,
    events: Sequence[Event],
    vocabulary: Vocabulary,
    codec: Codec,
    range_bytes: int,
    place: Path,
) -> Iterator[tuple[Any, ...]]:
    """(event, what is wrong) of choices that the counts do not lead to; the first of them. `place`: a folder."""
    if not events:
        return
    groups = [(name, mine) for name, mine in parts_by_group(parts).items() if any(part.total for part in mine)]
    try:
        texts = {
            name: [read_text(run, config.balanced_on[compose_name(name)], range_bytes)[0]]
            for name, _ in groups
            if config.balanced_on
        }
    except (RunError, KeyError) as why:
        yield None, str(why)
        return
    counted = _Counted(con, config, events, vocabulary, codec, range_bytes)
    found = _Choices.of(groups, config)
    shape = (len(groups), len(events))
    pairs = np.memmap(place / "pairs.i64", np.int64, "w+", shape=shape)
    merges = np.memmap(place / "merges.i64", np.int64, "w+", shape=shape)
    for i, (name, mine) in enumerate(groups):
        size, pairs[i], merges[i] = counted.made(mine)
        if texts:
            text_size, _, merges[i] = counted.made(texts[name])
        found.start(i, size, text_size if texts else None)
    yield from _compare(groups, events, config, found, pairs, merges, counted)


def _compare(
    groups: Sequence[tuple[str, Sequence[Part]]],
    events: Sequence[Event],
    config: TrainConfig,
    found: _Choices,
    pairs: Int64,
    merges: Int64,
    counted: _Counted,
) -> Iterator[tuple[Any, ...]]:
    """See check_balance."""
    known, first = 0, counted.first_learned
    wrong = 0
    anew = set(np.linspace(0, len(events) - 1, COUNTED_ANEW).astype(int).tolist())
    for start in range(0, len(events), _EVENTS):
        columns = np.ascontiguousarray(pairs[:, start : start + _EVENTS].T).tolist()
        gone = np.ascontiguousarray(merges[:, start : start + _EVENTS].T).tolist()
        for seq, event in enumerate(events[start : start + _EVENTS], start):
            n, told = columns[seq - start], ""
            if known < config.balance_from:
                if sum(n) != event.n:
                    told = f"counts {sum(n)} in all groups, not {event.n}"
            else:
                while (worst := found.next()) is not None and n[worst] != event.n:
                    if counted.most_at(groups[worst][1], seq):
                        told = f"is of group {groups[worst][0]}, where the pair counts {n[worst]}, not {event.n}"
                        break
                    found.done.add(worst)
                if worst is None:
                    told = "no group has a pair left"
                elif not told and event.n < counted.least:
                    told = f"counts {event.n}, less than --min-frequency"
                elif not told and seq in anew:
                    told = counted.better(groups[worst][1], seq, event)
            if told:
                wrong += 1
                yield seq, told
                if wrong == _MOST_WRONG:
                    return
            known += event.id == first + known
            found.shrink(gone[seq - start])


@dataclass
class _Choices:
    """Which group is worst, by how many tokens each has."""

    shares: list[Fraction]  # a group's tokens count so much each
    window: int | None
    most: Fraction  # that a group may have of the window

    @classmethod
    def of(cls, groups: Sequence[tuple[str, object]], config: TrainConfig) -> _Choices:
        ratios = [Fraction(config.balance_ratios.get(compose_name(name), "1")) for name, _ in groups]
        window = config.balance_window
        return cls(ratios, window, Fraction(config.balance_alpha or "2") * (window or 0) / max(len(groups), 1))

    def __post_init__(self) -> None:
        self.tokens = [0] * len(self.shares)
        self.done: set[int] = set()
        self._last: deque[int] = deque(maxlen=self.window)
        self._whole: list[int] = []

    def start(self, group: int, size: int, text_size: int | None) -> None:
        """A group has so many tokens at the start; those of its text are counted if it has one."""
        if text_size is None:
            self.shares[group] /= size
        self.tokens[group] = size if text_size is None else text_size

    def shrink(self, by: Sequence[int]) -> None:
        """A merge took so many tokens of each."""
        self.tokens = [n - less for n, less in zip(self.tokens, by, strict=True)]

    def next(self) -> int | None:
        """The group that chooses; None if none is left."""
        if not self._whole:
            common = math.lcm(*(share.denominator for share in self.shares))
            self._whole = [int(share * common) for share in self.shares]
        left = [i for i in range(len(self.tokens)) if i not in self.done]
        if not left:
            return None
        costs = [n * share for n, share in zip(self.tokens, self._whole, strict=True)]
        if self.window is None:
            return max(left, key=lambda i: (costs[i], -i))
        ordered = sorted(left, key=lambda i: (-costs[i], i))
        worst = next((i for i in ordered if self._last.count(i) <= self.most), ordered[0])
        self._last.append(worst)
        return worst


class _Counted:
    """What is counted in the words of a group."""

    def __init__(
        self,
        con: duckdb.DuckDBPyConnection,
        config: TrainConfig,
        events: Sequence[Event],
        vocabulary: Vocabulary,
        codec: Codec,
        range_bytes: int,
    ) -> None:
        self._con, self._config, self._events = con, config, events
        self._tokens = vocabulary.tokens
        self._base = vocabulary.alphabet.first_id
        self.first_learned = self._base + len(vocabulary.alphabet)
        self._codec, self._at_once = codec, range_bytes // 4
        self._replay = Replay(events)
        self._disjoint = config.overlaps == "disjoint"
        self.least = max(1, config.min_frequency)

    def _words(self, parts: Sequence[Part]) -> Iterator[tuple[Int64, Int64, Int64]]:
        """(symbols, how many each word has, how often it stands)."""
        for rows in merged_lists(parts, self._at_once):
            for symbols, sizes, n in word_symbols(rows, self._codec):
                yield symbols.astype(np.int64), sizes, n

    def made(self, parts: Sequence[Part]) -> tuple[int, Int64, Int64]:
        """(symbols, pairs that each event found, merges that it made), times the counts of the words."""
        pairs, merges = np.zeros((2, len(self._events)), np.int64)
        size = 0
        for symbols, sizes, n in self._words(parts):
            size += int(np.dot(sizes, n))
            for _ in encode_words(self._replay, symbols, sizes, made=Made(pairs, merges, n)):
                pass
        return size, merges if self._disjoint else pairs, merges

    def most_at(self, parts: Sequence[Part], seq: int) -> bool:
        """Whether a pair counts enough in a group before an event."""
        return bool(self._pairs(parts, seq, self.least).height)

    def better(self, parts: Sequence[Part], seq: int, event: Event) -> str:
        """Why an event is not the best of a group; empty if it is."""
        rows = self._pairs(parts, seq, event.n).rows(named=True)
        best = min(rows, key=lambda row: (-row["n"], self._place(row["left_id"], row["right_id"])), default=None)
        if best is not None and (best["left_id"], best["right_id"], best["n"]) == (*event.pair, event.n):
            return ""
        told = "no pair counts that" if best is None else f"({best['left_id']}, {best['right_id']}) counts {best['n']}"
        return f"is ({event.pair[0]}, {event.pair[1]}), {event.n}, and {told} in the group that is worst"

    def _place(self, left: int, right: int) -> tuple[Any, Any]:
        if self._config.ties == "ids":
            return left, right
        return self._tokens[left - self._base].content, self._tokens[right - self._base].content

    def _pairs(self, parts: Sequence[Part], seq: int, least: int) -> pl.DataFrame:
        """The pairs of a group before an event that count at least so much."""
        replay = Replay(self._events[:seq])
        run_sql(self._con, "make_pair_recount")
        for symbols, sizes, n in self._words(parts):
            for tokens, word in encode_words(replay, symbols, sizes):
                append(self._con, "recounted_pairs", pair_counts(tokens, word, n, disjoint=self._disjoint))
        found = query_frame(self._con, "list_pair_recount", pair_floor=least)
        run_sql(self._con, "make_pair_recount")
        longest = self._config.max_token_length
        if longest is None:
            return found
        length = pl.Series([0] * self._base + [len(token.base) for token in self._tokens])
        both = length.gather(found["left_id"]) + length.gather(found["right_id"])
        return found.filter(both <= longest)
