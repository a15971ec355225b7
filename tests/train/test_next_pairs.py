"""While a training learns, view top_pairs says what comes next: in memory and from disk, after a kill too."""

from __future__ import annotations

import shutil
import signal
from pathlib import Path

import pytest

from streambpe.model.eventlog import Op
from streambpe.train.counting.count import count
from tests.oracles.tables import check
from tests.runs import LARGE, SMALL, Driver, change, log_of, rows
from tests.samples import prose_documents, written

FROM_DISK = {"force_scan": True, "block_places": 2000, "hot_pairs": 200}


@pytest.fixture(scope="module")
def counted(tmp_path_factory) -> Path:
    """A run with stored documents."""
    folder = tmp_path_factory.mktemp("next")
    source = written(folder / "documents.txt", "\n".join(prose_documents()))
    run = folder / "run"
    count(run, [str(source)], pattern="boundless", sequences=True, lines=True, resources=SMALL)
    return run


def go(run: Path, failpoint: str, options: dict, tuning: dict, seconds: float = 0) -> int:
    """Train with a checkpoint behind every pass, unless it says less often."""
    settings = {"checkpoint_seconds": seconds, "tuning": tuning}
    driver = Driver({"STREAMBPE_FAILPOINT": failpoint}, run=run, options=options, trainer=settings)
    return driver.end()[0]


def told(run: Path) -> tuple[int, tuple[int, int, int]]:
    """(events that the pairs are as of, the first of them), read as anybody reads them."""
    ((at,),) = rows(run, "SELECT value::BIGINT FROM facts WHERE key = 'pair_counts_at'")
    (best,) = rows(run, "SELECT left_id, right_id, n FROM top_pairs LIMIT 1")
    return at, best


WORDS = {
    "plain": {"vocab_size": 400},
    "boundless": {"vocab_size": 400, "superwords": "boundless"},
    "superbpe": {"vocab_size": 420, "superwords": "superbpe", "transition": 400, "tau": "0.7"},
}


@pytest.mark.long
@pytest.mark.parametrize(("mode", "tuning"), [("plain", FROM_DISK), ("boundless", {}), ("superbpe", FROM_DISK)])
def test_the_next_word_is_on_top(mode, tuning, counted, tmp_path):
    """Killed behind a checkpoint among the words, and killed again when it went on."""
    options, run, whole = WORDS[mode], tmp_path / "run", tmp_path / "whole"
    shutil.copytree(counted, run)
    shutil.copytree(counted, whole)
    words = {key: options[key] for key in options if key in ("tau",)} | {"vocab_size": options.get("transition", 400)}
    assert go(whole, "", words, tuning) == 0
    events = log_of(whole).events
    seen = []
    for place in ("tables-committed:3", "tables-committed:2"):
        assert go(run, place, options, tuning) == -signal.SIGKILL
        at, best = told(run)
        following = next(event for event in events[at:] if event.op is not Op.DELETE)
        assert best == (*following.pair, following.n)
        assert check(run, replay=True, resources=SMALL) == []
        seen.append(at)
    assert 0 < seen[0] < seen[1]


MODES = {
    "boundless": {"vocab_size": 700, "superwords": "boundless"},
    "superbpe": {"vocab_size": 700, "superwords": "superbpe", "transition": 500},
    "rules": {
        "vocab_size": 700, "superwords": "superbpe", "transition": 500, "tau": "0.7",
        "max_superword_words": 2, "forbid": "a.*e", "overlaps": "disjoint",
    },
    "uw": {"vocab_size": 700, "superwords": "uw", "transition": 500},
}  # fmt: skip


@pytest.mark.every(2)
@pytest.mark.long
@pytest.mark.parametrize(
    ("mode", "tuning"),
    [("superbpe", {}), ("rules", {}), ("boundless", FROM_DISK), ("uw", FROM_DISK)],
)
def test_the_next_superword_is_on_top(mode, tuning, counted, tmp_path):
    """Killed among the superwords again and again: what is told then is what the next one went on with."""
    run = shutil.copytree(counted, tmp_path / "run")
    # passes of few events
    options = MODES[mode] | ({} if tuning and mode != "boundless" else {"batch": "1"})
    tuning = {**tuning, "candidates": 4}
    assert go(run, "words-written", options, tuning, seconds=100) == -signal.SIGKILL
    words, before = len(rows(run, "FROM events")), None
    for place in ("tables-filled", "tables-committed", "tables-committed:2", "tables-committed:2"):
        assert go(run, place, options, tuning) == -signal.SIGKILL
        if place == "tables-filled":  # nothing of it was committed
            assert len(rows(run, "FROM events")) == words
            continue
        events = rows(run, "SELECT left_id, right_id, n FROM events ORDER BY seq")
        if before is not None:
            assert events[before[0]] == before[1]
        before = told(run)
        assert before[0] == len(events) > words
    assert go(run, "", options, tuning, seconds=100) == 0
    assert check(run, resources=SMALL) == []
    at, best = told(run)
    assert at == len(log_of(run).events)
    change(run, "UPDATE pair_counts SET n = n - 1 WHERE rowid = (SELECT min(rowid) FROM pair_counts)")
    assert [problem.table for problem in check(run, replay=True, resources=LARGE)] == ["main.pair_counts"]
    # learned in one go, and then more
    beside = shutil.copytree(counted, tmp_path / "beside")
    assert go(beside, "", MODES[mode], {}, seconds=100) == 0
    assert log_of(beside).events == log_of(run).events
    if mode != "boundless":  # whose next event may be one of words
        assert go(beside, "", MODES[mode] | {"vocab_size": 760}, {}, seconds=100) == 0
        following = log_of(beside).events[at]
        assert best == (*following.pair, following.n)
