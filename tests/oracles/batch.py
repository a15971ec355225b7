"""BatchBPE's rule: many merges per pass, chosen together, applied together.

Count once, rank the pairs, and accept from the top those that cannot get into each other's
way; the result is close to plain BPE but not equal to it, because counts belong to the
start of the batch. With the ranking (t,h) (h,e) (i,n) (e,r):

    (t,h) accepted: t was first, h was last
    (h,e) refused:  h was already last in this batch, "the" would be ambiguous
                    (refused or not, now h was first and e was last)
    (i,n) accepted; (e,r) refused: e was last

How many are ranked: half of what is still wanted (cap_divisor 2), never more than there are
tokens. Stop words are the commonest chunks, taken out before training and given ids of
their own; rare chunks are cut off after that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from streambpe.model.alphabet import Alphabet
from streambpe.model.eventlog import merge_event
from streambpe.model.replay import Pair
from streambpe.model.vocabulary import Vocabulary
from tests.oracles.primitives import (
    Corpus,
    Detail,
    Overlaps,
    Ties,
    Training,
    count_pairs,
    tie_key,
)
from tests.oracles.symbols import symbols_of


def choose_stop_words(
    counts: Mapping[bytes, int], wanted: int, ties: Literal["bytes", "first-seen"] = "bytes"
) -> list[bytes]:
    """At most `wanted` of the 2 * wanted commonest chunks: those of more than one character."""
    order = sorted(counts) if ties == "bytes" else list(counts)
    commonest = sorted(order, key=lambda chunk: -counts[chunk])[: 2 * wanted]
    return [chunk for chunk in commonest if len(chunk.decode(errors="replace")) > 1][:wanted]


def cut_off(counts: Mapping[bytes, int], least: int) -> dict[bytes, int]:
    """The chunks that occur at least `least` times."""
    return {chunk: n for chunk, n in counts.items() if n >= least}


@dataclass
class BatchTraining(Training):
    """A training that also knows its batches."""

    batch_sizes: list[int] = field(default_factory=list)  # merges accepted, per batch


def train_batches(
    chunk_counts: Mapping[bytes, int],
    alphabet: Alphabet,
    vocab_size: int,
    *,
    ties: Ties = "first-seen",
    overlaps: Overlaps = "disjoint",
    cap_divisor: int = 2,
    max_batch_size: int = 0,
    stop_words: Sequence[bytes] = (),
    other_ids: int = 0,
) -> BatchTraining:
    """Learn in batches until vocab_size ids are alive or no pair is left.

    chunk_counts: after the cut-off; a stop word among them is left out here.
    max_batch_size 0: as many as are still wanted.
    """
    vocabulary = Vocabulary(alphabet, stop_words)
    words = [(symbols_of(alphabet, chunk), n) for chunk, n in chunk_counts.items() if chunk not in vocabulary.stop_ids]
    training = BatchTraining(vocabulary, Corpus(words, overlaps), other_ids=other_ids)
    while training.size < vocab_size:
        wanted = vocab_size - training.size
        cap = max(1, min(wanted // cap_divisor, vocabulary.size, max_batch_size or wanted))
        ranked = _rank(training.corpus, ties, vocabulary)[:cap]
        if not ranked:
            return training
        batch = _accept(ranked)
        token_counts = training.corpus.token_counts.copy()
        table: dict[Pair, int] = {}
        for pair, n in batch:
            table[pair] = vocabulary.learn(*pair)
            detail = Detail(token_counts[pair[0]], token_counts[pair[1]], n, False)
            training.record(merge_event(*pair, table[pair], n), detail)
        _apply(training.corpus, table)
        training.batch_sizes.append(len(batch))
    training.target_reached = True
    return training


def _rank(corpus: Corpus, ties: Ties, vocabulary: Vocabulary) -> list[tuple[Pair, int]]:
    """All pairs, best first, counted anew; the order of counting is the order of first appearance."""
    counts: Counter[Pair] = Counter()
    for sequence, weight in zip(corpus.sequences, corpus.weights, strict=True):
        for pair in count_pairs(sequence, corpus.overlaps):
            counts[pair] += weight
    key = tie_key(ties, vocabulary)
    order = list(counts) if key is None else sorted(counts, key=key)  # type: ignore[arg-type]
    return [(pair, counts[pair]) for pair in sorted(order, key=lambda pair: -counts[pair])]


def _accept(ranked: list[tuple[Pair, int]]) -> list[tuple[Pair, int]]:
    """The pairs that no earlier pair of the batch could have changed (module docstring)."""
    firsts: set[int] = set()
    lasts: set[int] = set()
    accepted = []
    for (left, right), n in ranked:
        if left not in lasts and right not in firsts:
            accepted.append(((left, right), n))
        firsts.add(left)
        lasts.add(right)
    return accepted


def _apply(corpus: Corpus, table: dict[Pair, int]) -> None:
    """One pass, left to right: a pair in the table becomes its id and is not merged again in this pass."""
    for word, sequence in enumerate(list(corpus.sequences)):
        rewritten = []
        i = 0
        while i < len(sequence):
            new = table.get((sequence[i], sequence[i + 1])) if i + 1 < len(sequence) else None
            rewritten.append(sequence[i] if new is None else new)
            i += 1 if new is None else 2
        if len(rewritten) < len(sequence):
            corpus.rewrite(word, rewritten)
