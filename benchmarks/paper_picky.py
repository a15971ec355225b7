"""PickyBPE: tables 3 to 6 and 12, with the columns of 15, 18 and 21 for the same sizes."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Collection, Iterator
from itertools import pairwise

import regex
from paper_texts import Row, Table, Texts, learned_from, measured, occurrences, rival, trained

from streambpe.encode.encoder import Encoder
from streambpe.encode.formats.export import cut_log
from streambpe.model.eventlog import EventLog
from streambpe.model.events import Op
from streambpe.store.models import read_model
from streambpe.text.patterns import find_pattern

SIZES = (8192, 32_768)
TAUS = ("0.9", "0.8", "0.7", "0.6")
MORE = 8192  # ids beyond the largest size, to trim
PATTERN = "gpt4"
PAPER = {
    8192: {
        "added": ("2.1 %", "4.8 %", "7.6 %", "10.6 %"), "trimmed": ("1.4 %", "3.0 %", "4.8 %", "7.2 %"),
        "text": ("0.997", "0.995", "0.994", "0.992"),
        "initial": ("43.8 / 65.5 %", "41.1 / 67.5 %", "42.0 / 66.9 %", "42.1 / 64.2 %"),
        "all": ("61.5 -> 61.9 %", "62.7 %", "63.3 %", "63.6 %"), "length": ("5.38 -> 5.40", "5.44", "5.47", "5.50"),
    },
    32_768: {
        "added": ("", "", "", "about 10 %"), "trimmed": ("", "", "", ""), "text": ("0.997", "0.996", "0.994", "0.992"),
        "initial": ("46.7 / 73.3 %", "44.8 / 68.3 %", "47.5 / 68.5 %", "48.7 / 67.9 %"),
        "all": ("72.2 -> 72.8 %", "73.2 %", "73.6 %", "73.9 %"), "length": ("6.85 -> 6.88", "6.91", "6.94", "6.95"),
    },
}  # fmt: skip


def rows(texts: Texts) -> Iterator[Row]:
    """All of it."""
    run = trained(texts, "picky", "--vocab-size", str(SIZES[-1] + MORE), "--pattern", PATTERN)
    largest = read_model(run)
    logs = {tau: learned_from(run, f"tau{tau[2:]}", "--vocab-size", str(SIZES[-1]), "--tau", tau) for tau in TAUS}
    for size in SIZES:
        plain = measured(str(run), texts, size).values
        before = _contents(largest, size)
        for place, (tau, log) in enumerate(logs.items()):
            ours, after = measured(f"{run}:tau{tau[2:]}", texts, size).values, _contents(log, size)
            added, dropped = after - before, before - after
            beyond = after - _trimmed(largest, size, len(added))
            where = f"tau {tau}, {size:,} ids"
            paper = {name: told[place] for name, told in PAPER[size].items()}
            yield f"tokens exchanged, {where}", paper["added"], f"{len(added) / size:.1%} ({len(added):,})"
            what = f"tokens that plain BPE trained larger and trimmed has not, {where}"
            yield what, paper["trimmed"], f"{len(beyond) / size:.1%} ({len(beyond):,})"
            tokens = f"{ours['tokens'] / plain['tokens']:.4f}"
            yield f"tokens of the text to plain BPE, {where}", paper["text"], tokens
            initial = f"{100 * _initial(dropped):.1f} / {100 * _initial(added):.1f} %"
            yield f"word-initial of dropped / added, {where}", paper["initial"], initial
            whole = f"{100 * _initial(before):.1f} -> {100 * _initial(after):.1f} %"
            yield f"word-initial of all, {where}", paper["all"], whole
            lengths = f"{_length(before):.2f} -> {_length(after):.2f}"
            yield f"characters of a token, {where}", paper["length"], lengths
    yield from _unigram(texts, measured(str(run), texts, SIZES[-1]).values["tokens"])
    told = {"0.9": "0.998 / 0.997", "0.8": "0.998 / 0.996", "0.7": "1.000 / 0.994", "0.6": "1.005 / 0.992"}
    plain_tokens = measured(str(run), texts, SIZES[-1]).values["tokens"]
    for tau, log in logs.items():
        by_merges = _tokens_by_merges_alone(log, texts) / plain_tokens
        by_events = measured(f"{run}:tau{tau[2:]}", texts).values["tokens"] / plain_tokens
        what = f"tokens of the text: merges alone, then removed ones split / events in order, tau {tau}"
        yield what, told[tau], f"{by_merges:.4f} / {by_events:.4f}"


def _unigram(texts: Texts, plain_tokens: float) -> Iterator[Row]:
    """Its column in table 5."""
    tokens, measures = rival("Unigram", texts, SIZES[-1])
    learned = [token for token in tokens if len(token) > 1]
    where = f"Unigram of tokenizers, {SIZES[-1]:,} ids"
    yield f"tokens of the text to plain BPE, {where}", "1.143", f"{measures.values['tokens'] / plain_tokens:.4f}"
    yield f"word-initial of all, {where}", "75.6 %", f"{100 * _initial(learned):.1f} %"
    yield f"characters of a token, {where}", "7.73", f"{_length(learned):.2f}"


def _contents(log: EventLog, size: int) -> set[bytes]:
    """The learned tokens of a log cut to a size."""
    vocabulary = Encoder(log, size).model.vocabulary
    return {token.content for token in vocabulary.tokens if len(token.base) > 1 and token.id in vocabulary.living}


def _trimmed(log: EventLog, size: int, more: int) -> set[bytes]:
    """Plain BPE of so many more ids, less as many of its rarest tokens."""
    log = cut_log(log, size + more)
    contents = {token.id: token.content for token in Encoder(log).model.vocabulary.tokens}
    occurs = occurrences(log)
    kept = sorted(occurs, key=lambda token: (-occurs[token], token))[: len(occurs) - more]
    return {contents[token] for token in kept}


def _initial(tokens: Collection[bytes]) -> float:
    return sum(token.startswith(b" ") for token in tokens) / max(1, len(tokens))


def _length(tokens: Collection[bytes]) -> float:
    return statistics.fmean(len(token.decode(errors="replace")) for token in tokens)


def _tokens_by_merges_alone(log: EventLog, texts: Texts) -> int:
    """The other encoding of table 6: ordinary BPE by the rank of each merge, then what is no longer in the vocabulary
    is split as it was once joined. Chunk by chunk, in plain Python."""
    vocabulary = Encoder(log).model.vocabulary
    living = {token.content for token in vocabulary.tokens if token.id in vocabulary.living}
    contents = {token.id: token.content for token in vocabulary.tokens}
    ranks: dict[tuple[bytes, bytes], int] = {}
    parts: dict[bytes, tuple[bytes, bytes]] = {}
    for rank, event in enumerate(event for event in log.events if event.op is Op.MERGE):
        left, right = (contents[number] for number in event.pair)
        ranks.setdefault((left, right), rank)
        parts.setdefault(left + right, (left, right))
    cost: dict[bytes, int] = {}

    def pieces(token: bytes) -> int:
        """How many living tokens it is split into."""
        if token not in cost:
            cost[token] = 1 if token in living or token not in parts else sum(map(pieces, parts[token]))
        return cost[token]

    known: dict[str, int] = {}
    total = 0
    pattern = regex.compile(find_pattern(PATTERN).expression)
    for line in texts.held.open("rb"):
        for chunk in pattern.findall(json.loads(line)["text"]):
            if chunk not in known:
                known[chunk] = sum(pieces(token) for token in _by_rank(chunk.encode(), ranks))
            total += known[chunk]
    return total


def _by_rank(chunk: bytes, ranks: dict[tuple[bytes, bytes], int]) -> list[bytes]:
    tokens = [chunk[i : i + 1] for i in range(len(chunk))]
    while len(tokens) > 1:
        rank, place = min((ranks.get(pair, math.inf), i) for i, pair in enumerate(pairwise(tokens)))
        if rank == math.inf:
            break
        tokens[place : place + 2] = [tokens[place] + tokens[place + 1]]
    return tokens


TABLE = Table(
    "The paper learned from English and German together, over characters with a word mark; here English alone, over "
    "bytes with the gpt4 pattern, much of it program code, where fewer tokens begin with a space and one that is "
    "dropped is missed as often as one that is added helps.",
    rows,
)
