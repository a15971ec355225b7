"""Must-haves: learning that keeps ids for some chunks, and makes them tokens near the end.

lack        of a chunk: the tokens that it is now, less one
first       one merge after the other, while there are fewer tokens than wanted, with all that chunks lack
then        the same loop over the chunks alone, each once, until each is one token; a merge is made in the words
            too, and has their count, which may be 0
last        one merge after the other again, if sharing left ids
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import chain
from typing import Any

from streambpe.model.alphabet import UNKNOWN, Alphabet
from streambpe.model.replay import merge
from tests.oracles.primitives import Training, count_pairs
from tests.oracles.symbols import symbols_of
from tests.oracles.words import Words, WordTrainer, learn


def train_must_haves(
    words: Words, alphabet: Alphabet, vocab_size: int, must: Sequence[bytes], *, min_frequency: int = 1, **rule: Any
) -> Training:
    """Like train_words."""
    trainer = WordTrainer(words, alphabet, **rule)
    training, corpus = trainer.training, trainer.training.corpus
    chunks = [symbols_of(alphabet, chunk) for chunk in dict.fromkeys(must) if chunk not in training.vocabulary.stop_ids]

    if UNKNOWN in chain.from_iterable(chunks):
        raise ValueError("a must-have has symbols outside the alphabet")

    def lack() -> int:
        return sum(len(chunk) - 1 for chunk in chunks)

    def step(pair: tuple[int, int], n: int) -> None:
        trainer.step(pair, n)
        chunks[:] = [merge(chunk, pair, training.events[-1].id) for chunk in chunks]

    while training.size + lack() < vocab_size:
        best = trainer.best()
        if best is None or best.n < min_frequency:
            break
        step(*best)
    while lack():
        counts = Counter(pair for chunk in chunks for pair in count_pairs(chunk, corpus.overlaps, corpus.allowed))
        pair = min(counts, key=lambda pair: (-counts[pair], trainer.tie_key(pair)))
        weighted = zip(corpus.sequences, corpus.weights, strict=True)
        step(pair, sum(n * list(count_pairs(word, corpus.overlaps)).count(pair) for word, n in weighted))
    if training.size > vocab_size:
        raise ValueError(f"{training.size} ids, not {vocab_size}")
    learn(trainer, vocab_size, min_frequency)
    return training
