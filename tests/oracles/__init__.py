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

from tests.oracles.batch import choose_stop_words as choose_stop_words
from tests.oracles.batch import cut_off as cut_off
from tests.oracles.batch import train_batches as train_batches
from tests.oracles.original import train_boundless_original as train_boundless_original
from tests.oracles.picky import covering_alphabet as covering_alphabet
from tests.oracles.picky import marked_words as marked_words
from tests.oracles.plain import learn_plain as learn_plain
from tests.oracles.primitives import Training as Training
from tests.oracles.primitives import count_pairs as count_pairs
from tests.oracles.superwords import as_log as as_log
from tests.oracles.superwords import as_model as as_model
from tests.oracles.superwords import count_chunks as count_chunks
from tests.oracles.superwords import text_matches as text_matches
from tests.oracles.superwords import train_boundless as train_boundless
from tests.oracles.superwords import train_boundless_one_pass as train_boundless_one_pass
from tests.oracles.superwords import train_superbpe as train_superbpe
from tests.oracles.superwords import train_uw as train_uw
from tests.oracles.words import Deletions as Deletions
from tests.oracles.words import WordTrainer as WordTrainer
from tests.oracles.words import train_words as train_words
from tests.oracles.words import whole_characters_bytes as whole_characters_bytes
from tests.oracles.words import whole_characters_script as whole_characters_script
