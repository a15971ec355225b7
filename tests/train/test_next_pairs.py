"""While a training learns, view top_pairs says what comes next: in memory and from disk, after a kill too."""

from __future__ import annotations

import shutil
import signal
from pathlib import Path

import pytest

from streambpe.inspect.check import check
from streambpe.model.eventlog import Op
from streambpe.train.counting.count import count
from streambpe.train.pace import Pace
from tests.runs import SMALL, Driver, log_of, rows
from tests.samples import prose_documents

FROM_DISK = {"force_scan": True, "block_places": 2000, "hot_pairs": 200}


@pytest.fixture(scope="module")
def counted(tmp_path_factory) -> Path:
    """A run with stored documents."""
    folder = tmp_path_factory.mktemp("next")
    source = folder / "documents.txt"
    source.write_text("\n".join(prose_documents()))
    run = folder / "run"
    count(run, [str(source)], options={"pattern": "boundless", "sequences": True}, lines=True, resources=SMALL)
    return run


def go(run: Path, failpoint: str, options: dict, tuning: dict) -> int:
    """Train with a checkpoint behind every pass."""
    driver = Driver(
        {"STREAMBPE_FAILPOINT": failpoint},
        run=run,
        options=options,
        trainer={"checkpoint_seconds": 0, "tuning": tuning},
    )
    return driver.end()[0]


def told(run: Path) -> tuple[int, tuple[int, int, int]]:
    """(events that the pairs are as of, the first of them), read as anybody reads them."""
    ((at,),) = rows(run, "SELECT value::BIGINT FROM facts WHERE key = 'pair_counts_at'")
    (best,) = rows(run, "SELECT left_id, right_id, n FROM top_pairs LIMIT 1")
    return at, best


@pytest.mark.parametrize("tuning", [{}, FROM_DISK], ids=["memory", "disk"])
@pytest.mark.parametrize(
    "options",
    [
        {"vocab_size": 400},
        {"vocab_size": 400, "superwords": "boundless"},
        {"vocab_size": 420, "superwords": "superbpe", "transition": 400, "tau": "0.7"},
    ],
    ids=["plain", "boundless", "superbpe"],
)
def test_the_next_word_is_on_top(options, tuning, counted, tmp_path):
    """Killed behind a checkpoint among the words, and killed again when it went on."""
    run, whole = tmp_path / "run", tmp_path / "whole"
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
        assert check(run, resources=SMALL) == []
        seen.append(at)
    assert 0 < seen[0] < seen[1]


def test_work_beside_learning_is_paced(monkeypatch):
    """Not sooner than the seconds it was given, and for a twentieth of the time."""
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    pace, always = Pace(5.0), Pace(0.0)
    assert always.is_due()
    now[0] += 4.9
    assert not pace.is_due()
    now[0] += 0.1
    assert pace.is_due()
    with pace.timed():
        now[0] += 2.0
    now[0] += 39.9
    assert not pace.is_due()
    now[0] += 0.1
    assert pace.is_due()
