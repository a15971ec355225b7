"""Every golden vector is judged: events, counts, vocabulary and encodings equal the published system's.

pytest tests/conformance                                 # the vectors of tests/golden, about two minutes
pytest tests/conformance -k picky                        # one system
STREAMBPE_GOLDEN=folder pytest tests/conformance         # other vectors of the same form
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from tests.conformance import engine
from tests.conformance.engine import ENGINE_JUDGES
from tests.conformance.golden import GOLDEN, OURS, Vector, vectors
from tests.conformance.judges import JUDGES
from tests.conformance.verdicts import Judge, Verdict

VECTORS = vectors()
DESCRIPTIVE = {
    "cases", "columns", "documents", "encodings", "engine", "event_format", "initial_vocab", "input", "note", "params",
    "patterns", "python_unicodedata", "reference", "sha256", "system", "tie_rule", "unicode",
}  # fmt: skip
JUDGED = [(judge, vector) for vector in VECTORS for judge in (*JUDGES, *ENGINE_JUDGES) if judge.may_judge(vector)]
# The reference takes seconds for these, and others of the same systems are quicker: the long tier judges them.
SLOW = {
    "superbpe_hf_swift", "script_rule_cb_swift", "script_rule_nocb_udhr6", "script_rule_cb_udhr6",
    "boundless_original_swift_t09", "boundless_twophase_swift_t09", "batchbpe_swift_s0_f1", "picky_char_swift_t06",
    "plain_hf_udhr6", "picky_kensho_swift_t09_blowup", "boundless_original_code_t11",
    "boundless_twophase_udhr6_scriptaware",
}  # fmt: skip
SLOW_FOR_ENGINE = {
    "boundless_original_swift_t09", "boundless_original_code_t11", "batchbpe_swift_s0_f1", "picky_char_udhr6_t09",
    "boundless_twophase_swift_t09", "boundless_twophase_udhr6_scriptaware",
}  # fmt: skip


def cases() -> Iterator[Any]:
    """What is judged. In `make test`: the first quick one of every system; the same in each test, as they share
    verdicts."""
    seen = set()
    for judge, vector in JUDGED:
        slow = vector.name in (SLOW_FOR_ENGINE if judge in ENGINE_JUDGES else SLOW)
        later = slow or judge.system in seen
        seen |= set() if slow else {judge.system}
        yield pytest.param(judge, vector, id=f"{vector.name}-{judge.name}", marks=pytest.mark.long if later else ())


CASES = list(cases())


@cache
def _verdict(place: int) -> Verdict:
    judge, vector = JUDGED[place]
    return judge.verdict(vector)


def verdict_of(judge: Judge, vector: Vector) -> Verdict:
    """Judge once; the tests below share the result (a vector costs seconds)."""
    return _verdict(next(i for i, (j, v) in enumerate(JUDGED) if j is judge and v is vector))


def first_difference(ours: Any, theirs: Any) -> str:
    """Where two results part, short enough to read in a test report."""
    if isinstance(ours, list) and isinstance(theirs, list):
        for place, (a, b) in enumerate(zip(ours, theirs, strict=False)):
            if a != b:
                return f"at {place} of {len(theirs)}: we say {a!r:.300}, the vector {b!r:.300}"
        return f"we have {len(ours)} entries, the vector {len(theirs)}; equal as far as both go"
    return f"we say {ours!r:.300}, the vector {theirs!r:.300}"


def test_the_golden_folder_holds_vectors():
    """A missing or misspelt folder is an error, not a pass."""
    assert VECTORS, f"no vectors (*.json, *.json.xz) in {GOLDEN}, which STREAMBPE_GOLDEN can name"


@pytest.mark.parametrize("vector", [pytest.param(v, id=v.name) for v in VECTORS])
def test_every_vector_has_a_judge(vector):
    """A vector nobody can judge is named here, never passed over."""
    assert any(judge.may_judge(vector) for judge in JUDGES), f"no judge for {vector.name} ({vector.system})"


@pytest.mark.skipif(GOLDEN != OURS, reason="another folder need not have vectors of every system")
@pytest.mark.parametrize("judge", [pytest.param(judge, id=judge.system) for judge in ENGINE_JUDGES])
def test_every_engine_judge_has_a_vector(judge):
    """A row of the table that no vector meets judges nothing."""
    assert any(judge.may_judge(vector) for vector in VECTORS)


@pytest.mark.parametrize("vector", [pytest.param(v, id=v.name) for v in VECTORS if "params" in v.data])
def test_the_engine_judges_every_system_or_says_why_not(vector):
    """A vector of a training that no row of the engine can judge is reported as skipped, with the reason."""
    asked = [judge for judge in ENGINE_JUDGES if judge.is_asked(vector)]
    assert asked, f"no engine judge for {vector.system}"
    if not any(judge.may_judge(vector) for judge in asked):
        pytest.skip("; ".join(str(judge.cannot(vector)) for judge in asked))


@pytest.mark.long
@pytest.mark.parametrize("vector", [pytest.param(v, id=v.name) for v in VECTORS])
def test_every_result_in_a_vector_is_claimed_by_the_slow_judges(vector):
    """A field that nobody compares is named; what only describes the vector is listed."""
    claimed = {claim.field.split("[")[0].split(",")[0] for judge in JUDGES if judge.may_judge(vector)
               for claim in verdict_of(judge, vector).claims}  # fmt: skip
    assert vector.data.keys() - claimed <= DESCRIPTIVE


def assert_equal(verdict: Verdict) -> None:
    """Every field claimed is equal."""
    for claim in verdict.claims:
        assert claim.ours == claim.theirs, f"{claim.field}: {first_difference(claim.ours, claim.theirs)}"


@pytest.mark.parametrize(("judge", "vector"), CASES)
def test_training_equals_the_published_system(judge, vector):
    """Events with their counts, vocabulary, stop words, batches."""
    assert_equal(verdict_of(judge, vector))


@pytest.mark.parametrize(("judge", "vector"), CASES)
def test_nothing_in_a_vector_is_left_unjudged(judge, vector):
    """A part that no judge can compare yet is reported as skipped, with what it needs."""
    verdict = verdict_of(judge, vector)
    assert verdict.claims or verdict.encode, "a judge that says nothing judges nothing"
    if verdict.not_judged is not None:
        pytest.skip(f"{vector.name}: {verdict.not_judged}")


@pytest.mark.long
@pytest.mark.parametrize(("judge", "vector"), [case for case in CASES if case.values[0] in ENGINE_JUDGES])
def test_the_learner_of_tables_equals_the_published_system(judge, vector, monkeypatch):
    """The same claims, when the other learner learns."""
    monkeypatch.setattr(engine, "RESOURCES", replace(engine.RESOURCES, learner="tables"))
    assert_equal(judge.verdict(vector))


@pytest.mark.parametrize(("judge", "vector"), [case for case in CASES if "encodings" in case.values[1].data])
def test_encodings_equal_the_published_system(judge, vector):
    """Replaying the events gives the tokens and ids the published encoder gave."""
    verdict = verdict_of(judge, vector)
    if verdict.encode is None and judge in ENGINE_JUDGES:
        pytest.skip("a part of a training encodes nothing; the reference judges the encodings")
    assert verdict.encode is not None
    assert vector.data["encodings"]
    for row in vector.data["encodings"]:
        ours = verdict.encode(row)
        for name, theirs in row.items():
            if name in ours:
                assert ours[name] == theirs, f"{name} of {row['text']!r:.60}: {first_difference(ours[name], theirs)}"
