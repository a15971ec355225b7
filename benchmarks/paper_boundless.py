"""BoundlessBPE: figures 1 to 8, and the counts of its section 3.1.

All models of one kind are one training to the largest size, cut. WordPiece and Unigram are those of tokenizers, at the
smallest size only, as they take minutes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from paper_texts import Curve, Row, Table, Texts, measured, replayed, rival, trained

from streambpe.encode.encoder import Encoder
from streambpe.model.eventlog import EventLog, read_event_log
from streambpe.model.events import Op

SIZES = (40_960, 65_536, 98_304, 131_072)
INTERVAL = 8192
TAU = 0.9
TOP = 250  # of the right-hand panels of figures 4 and 8
KINDS = {
    "plain BPE, gpt4": ["--pattern", "gpt4"],
    "plain BPE": ["--pattern", "boundless"],
    "PickyBPE": ["--pattern", "boundless", "--tau", str(TAU)],
    "BoundlessBPE": ["--pattern", "boundless", "--superwords", "boundless", "--tau", str(TAU)],
}  # all but the first with the paper's own pattern
OURS = "BoundlessBPE"


def runs(texts: Texts) -> dict[str, Path]:
    """A training of each kind to the largest size."""
    return {
        kind: trained(texts, f"boundless-{number}", "--vocab-size", str(SIZES[-1]), *options)
        for number, (kind, options) in enumerate(KINDS.items())
    }


def logs(texts: Texts) -> dict[str, EventLog]:
    """What they learned."""
    return {kind: read_event_log(run / "model.events.jsonl") for kind, run in runs(texts).items()}


def rows(texts: Texts) -> Iterator[Row]:
    """What the paper says in words and numbers."""
    models = runs(texts)
    for size in SIZES:
        at = {kind: measured(str(run), texts, size).values for kind, run in models.items()}
        ours, others = at.pop(OURS), list(at.values())
        for measure, title, told in (
            ("bytes_per_token", "bytes per token", "at least +19.7 %"),
            ("renyi", "Rényi efficiency, of ids that occur", "at least +21 %"),
            ("renyi_vocab", "Rényi efficiency, of all ids", "at least +21 %"),
        ):
            least = ours[measure] / max(other[measure] for other in others) - 1
            same = ours[measure] / at["plain BPE"][measure] - 1
            what = f"{title}, over the best baseline / over plain BPE with the same pattern, {size:,} ids"
            yield what, told, f"{least:+.1%} / {same:+.1%} ({ours[measure]:.3f})"
        used = " to ".join(f"{most(other['vocab_used_share'] for other in others):.1%}" for most in (min, max))
        told = "over 97.5 % against 82 to 95 %"
        yield f"vocabulary used, {size:,} ids", told, f"{ours['vocab_used_share']:.1%} against {used}"
        single = " / ".join(f"{at[kind]['single_token_chunks']:.1%}" for kind in ("plain BPE, gpt4", "plain BPE"))
        yield (
            f"chunks that are one token, plain BPE with gpt4 / with the paper's pattern, {size:,} ids",
            "well over 90 %",
            single,
        )
    yield from of_the_log(logs(texts)[OURS])


def of_the_log(log: EventLog) -> Iterator[Row]:
    """Merges, supermerges and deletions of the largest model."""
    events = list(log.events)
    supers = [event.op is Op.SUPERMERGE for event in events if event.op is not Op.DELETE]
    deletions = sum(event.op is Op.DELETE for event in events)
    ordinary = len(supers) - sum(supers)
    last = supers[(len(supers) // INTERVAL - 1) * INTERVAL :][:INTERVAL]
    yield "supermerges of all merges", "31.3 % (41 038)", f"{sum(supers) / len(supers):.1%} ({sum(supers):,})"
    yield f"supermerges of the last whole {INTERVAL:,} merges", "44.4 %", f"{sum(last) / len(last):.1%}"
    yield "ordinary merges", "89 778", f"{ordinary:,}, {ordinary - deletions:,} less the deleted"
    yield "deletions after ordinary merges", "1 987", f"{deletions:,}"
    every, of_words = deletions_of_supermerges(log)
    yield "deletions that supermerges would have caused", "164", f"{every:,}, {of_words:,} of them of words"
    for part, whole in (("ween", " between"),):
        share = shares_of_deletions(log).get(part.encode())
        told = "it is not deleted here" if share is None else f"{share:.4f} (deleted)"
        yield f"IoS of {part!r} when {whole!r} is made", "0.9618 (deleted)", told
    named = (" of the", " in the", " to the", " on the", " and the")
    contents = Encoder(log).model.vocabulary.tokens
    made = {token.content for token in contents}
    there = [repr(text) for text in named if text.encode() in made]
    yield "frequent supermerges that the paper names, among ours", "5 of 5", f"{len(there)} of 5"


def deletions_of_supermerges(log: EventLog) -> tuple[int, int]:
    """How many parts of supermerges occur almost only there (the rule of deletions, where the paper does not apply it),
    and how many of these are words."""
    superwords = {event.id for event in log.events if event.op is Op.SUPERMERGE}
    parts = [
        part
        for event, occurs in replayed(log)
        if event.op is Op.SUPERMERGE
        for part in set(event.pair)
        if part in occurs and event.n > TAU * occurs[part]
    ]
    return len(parts), sum(part not in superwords for part in parts)


def shares_of_deletions(log: EventLog) -> dict[bytes, float]:
    """Of each deleted token the share of it that the merge before took: its IoS."""
    contents = {token.id: token.content for token in Encoder(log).model.vocabulary.tokens}
    found, merged = {}, 0
    for event in log.events:
        if event.op is Op.DELETE:
            found[contents[event.id]] = merged / (merged + event.n)
        else:
            merged = event.n
    return found


# ---------------------------------------------------------------- curves


def sizes(texts: Texts) -> Curve:
    """Figures 1, 5, 6, 7: every baseline, every size."""
    columns = ["model and ids", "bytes per token", "Rényi, ids that occur", "Rényi, all ids", "vocabulary used, %"]
    columns += ["one-token chunks, %"]
    found = []
    for kind, run in runs(texts).items():
        for size in SIZES:
            values = measured(str(run), texts, size).values
            found.append([f"{kind}, {size:,}", *_cells(values)])
    for kind in ("WordPiece", "Unigram"):
        values = rival(kind, texts, SIZES[0])[1].values
        found.append([f"{kind} of tokenizers, {SIZES[0]:,}", *_cells(values)])
    return Curve(columns, found, "figures 1, 5, 6 and 7: bars that are not readable; in words above")


def _cells(values: dict[str, float]) -> list[str]:
    single = 100 * values["single_token_chunks"]
    used = 100 * values["vocab_used_share"]
    shown = [f"{values['bytes_per_token']:.3f}", f"{values['renyi']:.3f}", f"{values['renyi_vocab']:.3f}"]
    return [*shown, f"{used:.1f}", f"{single:.1f}"]


def merges(texts: Texts) -> Curve:
    """Figure 2: how the counts of merges fall."""
    counts = {kind: [e.n for e in log.events if e.op is not Op.DELETE] for kind, log in logs(texts).items()}
    most = min(map(len, counts.values()))
    places = sorted({1, *(round(most ** (i / 24)) for i in range(25)), *range(INTERVAL, most + 1, INTERVAL)})
    cells = [[str(place), *(f"{math.log10(n[place - 1]):.3f}" for n in counts.values())] for place in places]
    told = "falls more slowly for BoundlessBPE than for plain BPE and PickyBPE (figure 2)"
    return Curve(["merge (log10 of its count)", *counts], cells, told)


def supermerges(texts: Texts) -> Curve:
    """Figure 3."""
    supers = [event.op is Op.SUPERMERGE for event in logs(texts)[OURS].events if event.op is not Op.DELETE]
    parts = [supers[i : i + INTERVAL] for i in range(0, len(supers) - INTERVAL + 1, INTERVAL)]
    cells = [[str((i + 1) * INTERVAL), f"{100 * sum(part) / INTERVAL:.1f}"] for i, part in enumerate(parts)]
    told = "31.3 % of all and 44.4 % of the last 8 192; ordinary merges are the majority early on (figure 3)"
    return Curve(["merges", f"percent supermerges of the last {INTERVAL:,}"], cells, told)


def ranks(texts: Texts) -> Curve:
    """Figures 4 and 8: how often the tokens of a vocabulary occur, by rank."""
    sorted_n: dict[str, Any] = {}
    for size in (SIZES[0], SIZES[-1]):
        for kind, run in runs(texts).items():
            sorted_n[f"{kind}, {size:,}"] = np.sort(measured(str(run), texts, size).n)[::-1]
    places = [1, 2, 3, 5, 10, 20, 30, 50, 100, TOP, 500, 1000, 2000, 5000, 10_000, 20_000, 40_000, *SIZES[1:]]
    places = sorted({*places, 50_000, 80_000, 110_000, 120_000, 125_000, 130_000})
    cells = []
    for place in places:
        at = [n[place - 1] if place <= len(n) else None for n in sorted_n.values()]
        cells.append([str(place), *("" if n is None else f"{math.log10(n + 1):.3f}" for n in at)])
    told = "BoundlessBPE is lower among the 250 most frequent and higher in the tail (figures 4 and 8)"
    return Curve(["rank (log10(occurrences + 1) of a token)", *sorted_n], cells, told)


TABLE = Table(
    "The paper learned from 1 GB of MiniPile and measured on 5 GB; here 100 MB and 100 MB of other documents of the "
    "same kind. Much of this text is program code, whose runs of white space are one chunk for gpt4 and many for the "
    "paper's pattern: beside plain BPE with the same pattern superwords gain, beside gpt4 they do not. Code also "
    "repeats phrases whole, so that there are more supermerges, and parts of them that occur nowhere else.",
    rows,
    {"sizes": sizes, "merges": merges, "supermerges": supermerges, "ranks": ranks},
)
