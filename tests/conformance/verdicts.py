"""What judges share: verdicts and their claims, a row of the table of judges, and how tokens are written in vectors.

A judge learns what the vector's reference learned and states its claims: pairs of what we say
and what the vector says, field by field, and a way to encode the vector's texts. The slow
reference judges every system; a further judge (a faster engine) is a further row: it may
claim less, but whatever it claims must be equal. Every parameter comes from the vector, and one
that a judge does not look at fails.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import polars as pl

from streambpe.encode.encoder import Encoder, RunJoiner
from streambpe.model.eventlog import EventLog, Op
from streambpe.model.replay import Model
from tests.conformance.golden import Params, Vector
from tests.oracles.replay import encode_chunks, join_chunks, to_model_ids

Row = dict[str, Any]


@dataclass(frozen=True)
class Claim:
    """We say `ours` about `field`; the vector says `theirs`."""

    field: str
    ours: Any
    theirs: Any


@dataclass
class Verdict:
    """Everything a judge can say about one vector."""

    claims: list[Claim] = field(default_factory=list)
    encode: Callable[[Row], dict[str, Any]] | None = None  # a vector's text -> its "tok" and "ids"
    not_judged: str | None = None  # what was left out and why; reported, never passed over

    def claim(self, vector: Vector, name: str, ours: Any) -> None:
        """Claim a field the vector may or may not have."""
        if name in vector.data:
            self.claims.append(Claim(name, ours, vector.data[name]))


def greedy_split(params: Params) -> tuple[int, int] | None:
    """How often an n-gram has to occur and how many chunks it may have; None without that split. The two numbers stand
    in `greedy_split` or beside it, and are those of the published trainer where they do not."""
    split = params["greedy_split"]
    named = split if isinstance(split, Params) else params
    return (named.get("min_count", 15), named.get("max_ngram_len", 30)) if split else None


def tokens_hex(model: Model, log_ids: Iterable[int]) -> list[str]:
    return [model.content(number).hex() if number >= 0 else b"<UNK>".hex() for number in log_ids]


def encoder(
    model: Model, cut: Callable[[str], list[bytes]], drop_unknown: bool = False
) -> Callable[[Row], dict[str, Any]]:
    """Encode a text by replay; a token without a model id makes ids None, as the vectors write it.

    The fast encoder, chunk by chunk and in arrays, has to agree with replay on every text.
    """
    config = {**model.header.config, **({"unknown": "drop"} if drop_unknown else {})}
    fast = Encoder(EventLog(replace(model.header, config=config), tuple(model.events)))

    def encode(row: Row) -> dict[str, Any]:
        chunks = cut(row["text"])
        log_ids = encode_chunks(model, chunks, unknown="drop" if drop_unknown else None)
        texts = [chunk.decode() for chunk in chunks]
        stream, _ = fast.encode_distinct(pl.Series(texts, dtype=pl.String))
        assert join_chunks(model, map(fast.encode_chunk, texts)) == log_ids
        try:
            ids: list[int] | None = to_model_ids(model, log_ids)
        except KeyError:
            ids = None
        else:
            assert (
                RunJoiner(fast).joined(stream) if fast.has_superwords else fast.to_model_ids(stream)
            ).tolist() == ids
        return {"tok": tokens_hex(model, log_ids), "ids": ids}

    return encode


def steps(model: Model) -> list[list[Any]]:
    """Every event in order, tokens in hex: ["m" or "s", left, right, n] or ["d", token, its parts, n]."""
    kinds = {Op.MERGE: "m", Op.SUPERMERGE: "s"}
    return [
        ["d", *tokens_hex(model, [event.id]), tokens_hex(model, event.into), event.n]
        if event.op is Op.DELETE
        else [kinds[event.op], *tokens_hex(model, event.pair), event.n]
        for event in model.events
    ]


def numbered_steps(model: Model) -> list[list[Any]]:
    """Every merge, and the ids of its tokens."""
    return [[*step, *event.pair, event.id] for step, event in zip(steps(model), model.events, strict=True)]


def without_parts(found: list[list[Any]]) -> list[list[Any]]:
    """The steps, deletions as ["d", token, n]."""
    return [[*step[:2], *step[3:]] if step[0] == "d" else step for step in found]


def living(model: Model) -> list[str]:
    return tokens_hex(model, model.vocabulary.living)


def superword_flags(model: Model) -> list[list[Any]]:
    """[content, 1 if the token's latest birth was a supermerge] in model id order."""
    flags: dict[int, int] = {}
    for event in model.events:
        if event.op is Op.DELETE:
            flags.pop(event.id, None)
        else:
            flags.setdefault(event.id, int(event.op is Op.SUPERMERGE))
    return [[model.content(number).hex(), flags.get(number, 0)] for number in model.vocabulary.living]


@dataclass(frozen=True)
class Judge:
    """One row of the table: a judge of the vectors whose system (or file name) begins with `system`."""

    name: str
    system: str
    judge: Callable[[Vector], Verdict]
    cannot: Callable[[Vector], str | None] = lambda vector: None  # why this one is beyond the judge

    def is_asked(self, vector: Vector) -> bool:
        """Whether the vector is of its system."""
        return vector.system.startswith(self.system)

    def may_judge(self, vector: Vector) -> bool:
        """Whether it can say anything about the vector."""
        return self.is_asked(vector) and self.cannot(vector) is None

    def verdict(self, vector: Vector) -> Verdict:
        """What it says; a parameter of the vector that it did not look at is a claim that fails."""
        fresh = replace(vector)
        found = self.judge(fresh)
        found.claims.append(Claim("parameters that the judge passed over", fresh.params.passed_over(), []))
        return found


def equal_until(first: Sequence[Any], second: Sequence[Any]) -> int:
    """How far two lists are equal."""
    for place, (a, b) in enumerate(zip(first, second, strict=False)):
        if a != b:
            return place
    return min(len(first), len(second))


def inherited_first(inherited: list[list[str]], pairs: list[list[str]]) -> list[list[str]]:
    """The first of these pairs, as far as they are inherited ones, in their order with some left out."""
    waiting = iter(inherited)
    kept = []
    for pair in pairs:
        if pair not in waiting:  # reads on until it is found
            break
        kept.append(pair)
    return kept
