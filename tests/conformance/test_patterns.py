"""The presets are the published expressions, and the counting route splits the published cases as they were split.

pytest tests/conformance/test_patterns.py
"""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import pytest

from streambpe.text.patterns import PRESETS, SCRIPT_SPECIFIC, SCRIPT_SPECIFIC_GPT4O, Pattern, find_pattern
from tests.conformance.golden import folder_of, read_packed
from tests.hostile import buffer_of, fast_documents
from tests.oracles.splits import split_text

PUBLISHED = {
    "gpt2": "gpt2",
    "gpt4": "gpt4_classic",
    "cl100k": "tiktoken_cl100k_current",
    "r50k": "tiktoken_r50k_current",
    "gpt4o": "gpt4o",
    "punct": "punct_paper",
    "ultimate1": "ultimate_v1 (= fast ULTIMATE_PATTERN)",
    "boundless": "ultimate2 (boundlessbpe ULTIMATE_PATTERN)",
    "word-level": "word_level",
    "superbpe1": "superbpe_stage1",
    "superbpe2": "superbpe_stage2 (needs gaps: isolated split)",
}
SCRIPT_AWARE = {
    "gpt4o": "gpt4o + script_specific_gpt4o (fast default script-aware)",
    "word-level": "word_level + script_specific",
}


@cache
def table() -> dict[str, Any]:
    return json.loads(read_packed(folder_of("pretokenization.json"), "pretokenization.json"))


def split_both_ways(pattern: Pattern, cases: list[str]) -> list[list[str]]:
    """By definition, after showing that the counting route agrees."""
    by_definition = [split_text(pattern, text) for text in cases]
    assert fast_documents(buffer_of(*cases), pattern) == by_definition
    return by_definition


ELSEWHERE = ("none", "kimi-k2", "deepseek-v3")  # the last two: tests/encode/test_patterns_elsewhere.py


@pytest.mark.parametrize("name", [name for name, p in PRESETS.items() if name not in ELSEWHERE and not p.by_rules])
def test_expressions_are_the_published_ones(name):
    """Character for character, so that exports name the pattern that others know; no preset is left out."""
    assert PRESETS[name].expression == table()["patterns"][PUBLISHED[name]]


def test_script_expressions_are_the_published_ones():
    """Those for runs of scripts without spaces."""
    patterns = table()["patterns"]
    assert patterns["script_specific"] == SCRIPT_SPECIFIC
    assert patterns["script_specific_gpt4o"] == SCRIPT_SPECIFIC_GPT4O


@pytest.mark.parametrize("name", list(PUBLISHED))
def test_published_cases(name):
    """Each case has the published pieces, in the definition and in the counting route."""
    data, pattern = table(), PRESETS[name]
    found = split_both_ways(pattern, data["cases"])
    if pattern.keep_gaps:  # published without its gaps
        found = [pattern.compiled.findall(text) for text in data["cases"]]
    assert found == data["pieces"][PUBLISHED[name]]


@pytest.mark.parametrize("name", list(SCRIPT_AWARE))
def test_published_script_aware_cases(name):
    """The same with script runs cut first."""
    found = split_both_ways(find_pattern(name, split_scripts=True), table()["cases"])
    assert found == table()["script_aware"][SCRIPT_AWARE[name]]
