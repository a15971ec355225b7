"""Every system, slow and obvious: the judge of the fast engine, and the place to learn from.

Read in this order:

    plain.py       BPE on one page
    primitives.py  counting pairs, MERGE over a corpus, what a training is
    words.py       BPE with its knobs; deletions (PickyBPE); whole characters
    batch.py       BatchBPE: stop words, cut-off, many merges per pass
    picky.py       PickyBPE's words and alphabet
    balanced.py    parity-aware BPE: groups of words that choose in turn
    superwords.py  BoundlessBPE in two phases and in one pass; SuperBPE, both kinds
    original.py    BoundlessBPE as first published
    splits.py      what a split is: text to chunks by find-all, or by rules
    replay.py      what a log means: text to ids by replaying its events, and back

Plain Python throughout, counts are Python integers, nothing here is fast: a few thousand merges
on a few hundred kilobytes take seconds.
"""

from tests.oracles.balanced import learn_balanced
from tests.oracles.batch import BatchTraining, choose_stop_words, cut_off, train_batches
from tests.oracles.original import train_boundless_original
from tests.oracles.picky import covering_alphabet, marked_words
from tests.oracles.plain import learn_plain
from tests.oracles.primitives import Corpus, Detail, Training, count_pairs
from tests.oracles.superwords import (
    as_model,
    count_chunks,
    text_matches,
    train_boundless,
    train_boundless_one_pass,
    train_superbpe,
    train_uw,
)
from tests.oracles.words import (
    Deletions,
    WordTrainer,
    train_words,
    whole_characters_bytes,
    whole_characters_script,
)

__all__ = [
    "BatchTraining",
    "Corpus",
    "Deletions",
    "Detail",
    "Training",
    "WordTrainer",
    "as_model",
    "choose_stop_words",
    "count_chunks",
    "count_pairs",
    "covering_alphabet",
    "cut_off",
    "learn_balanced",
    "learn_plain",
    "marked_words",
    "text_matches",
    "train_batches",
    "train_boundless",
    "train_boundless_one_pass",
    "train_boundless_original",
    "train_superbpe",
    "train_uw",
    "train_words",
    "whole_characters_bytes",
    "whole_characters_script",
]
