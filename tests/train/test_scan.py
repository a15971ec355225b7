"""Words in memory and in blocks on disk are rewritten alike."""

from __future__ import annotations

import random
from itertools import pairwise

import numpy as np

from streambpe.core.learner import Learner, Rule
from streambpe.model.replay import merge
from streambpe.train.engine.column import read_column, write_column
from streambpe.train.engine.scan import Links, ScanColumn
from tests.sequential import count_pairs, engine_words, hard_words
from tests.tiers import seeds


def in_memory(symbols, offsets, weights, *, keeps=False, known=()) -> Learner:
    """A learner of these words, with bytes as base symbols."""
    learner = Learner(Rule(keeps=keeps, first_id=256, ratio=1 << 40), 1 << 24)
    tokens = [*(bytes([i]) for i in range(256)), *known]
    learner.add_tokens(tokens, np.ones(len(tokens), np.int64))
    learner.make_room(int(offsets[-1]), len(weights))
    learner.add_words(symbols, offsets, weights, 1 if keeps else 2)
    return learner


def columns(words, tmp_path, block=12):
    """The same words in memory and as a scan over small blocks."""
    flat = engine_words(words)
    scan = ScanColumn(tmp_path, disjoint=False, threads=2)
    for at in range(0, len(words), max(1, block // 6)):
        stop = min(len(words), at + max(1, block // 6))
        scan.append(*write_column(flat.symbols, flat.offsets[at : stop + 1], flat.weights[at:stop]))
    return in_memory(flat.symbols, flat.offsets, flat.weights), scan


def words_of(parts):
    """Words as lists with weights."""
    return [
        (symbols[start:stop].tolist(), n)
        for symbols, offsets, weights in parts
        for (start, stop), n in zip(pairwise(offsets), weights.tolist(), strict=True)
    ]


def test_merging_rewrites_the_words_as_merge_does(tmp_path):
    """Merged in memory, and on disk by way of a digest, three times over, the words are those MERGE gives. From disk
    those that have become one token are gone."""
    for seed in seeds(320):
        words = [(list(word), n) for word, n in hard_words(random.Random(seed))]
        memory, scan = columns(words, tmp_path / str(seed))
        want = [(word, n) for word, n in words if len(word) > 1]
        known = []
        for new in (256, 257, 258):
            if not want:
                break
            count = count_pairs(want, "all")
            pair = min(count, key=lambda pair: (-count[pair], pair))
            left, right = np.array([pair[0]]), np.array([pair[1]])
            links = Links(left, right, 0, [], None)
            digest = scan.digest(links, new, 1000)
            assert digest is not None
            part = in_memory(*read_column(digest.column, digest.weights), keeps=True, known=known)
            for learner in (memory, part):
                assert learner.apply(np.array([pair]), 1).n.tolist() == [count[pair]]
            scan.rewrite(digest, part.words())
            want = [(merged, n) for word, n in want if len(merged := merge(word, pair, new)) > 1]
            assert [(word, n) for word, n in words_of(memory.words()) if len(word) > 1] == want
            assert words_of(scan.current_words()) == want
            known.append(b"%d" % new)
