"""benchmarks/graphemes.py has a learner of its own, because a merge of clusters depends on its place."""

from __future__ import annotations

from collections import Counter
from itertools import accumulate

import pytest
import regex

from streambpe.model.alphabet import bytes_alphabet
from streambpe.text.patterns import find_pattern
from tests import oracles
from tests.samples import natural_text

TEXT = (
    natural_text(3, 3000) + "हिन्दी में कितने किताब की किसी தமிழ் மொழியில் e\u0301te\u0301 👍🏽👍🏽 👩\u200d👩\u200d👧 ❤️ " * 5
)


@pytest.mark.parametrize(("unit", "rule"), [("", None), (r"(?s).", oracles.whole_characters_bytes)])
def test_it_learns_what_the_slow_reference_learns(benchmark, unit, rule):
    """With units of which a merge is the same everywhere."""
    chunks = Counter(find_pattern("gpt4o").compiled.findall(TEXT))
    words = {chunk.encode(): n for chunk, n in chunks.items()}
    expected = oracles.train_words(words, bytes_alphabet(), 330, ties="bytes", may_merge=rule)
    found = benchmark("graphemes").learn(chunks, 330, unit)
    tokens = [[expected.vocabulary[number].content for number in word] for word in expected.corpus.sequences]
    assert list(found.values()) == tokens


def test_no_token_has_a_part_of_a_cluster_and_more(benchmark):
    """Each is in one cluster, or made of whole ones; some clusters are tokens, and some tokens are several."""
    chunks, whole, several = Counter(find_pattern("gpt4o").compiled.findall(TEXT)), 0, 0
    for chunk, tokens in benchmark("graphemes").learn(chunks, 400, r"\X").items():
        clusters = [len(cluster.encode()) for cluster in regex.findall(r"\X", chunk)]
        edges, ends = {0, *accumulate(clusters)}, list(accumulate(map(len, tokens)))
        for begin, end in zip([0, *ends], ends, strict=False):
            inside = sum(begin < edge < end for edge in edges)
            assert not inside or {begin, end} <= edges
            several += bool(inside)
            whole += not inside and {begin, end} <= edges and end - begin > 4
    assert whole
    assert several
