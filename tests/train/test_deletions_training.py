"""--tau from the command to the tables: learned, killed, resumed, checked, queried."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from streambpe.errors import ResumeMismatch
from streambpe.model.eventlog import read_event_log
from streambpe.model.replay import Model
from streambpe.train.commands import train
from tests.oracles.tables import check
from tests.runs import SMALL, by_keyword, change, cli, rows, text_run
from tests.samples import natural_text

SIZE = 700
OPTIONS = {"vocab_size": SIZE, "tau": "0.7", "stop_list": 2, "block_tokens": ("an",), "freq_cutoff": 2}


@pytest.fixture(scope="module")
def counted(tmp_path_factory) -> Path:
    """A counted run, 60 KB of text."""
    return text_run(tmp_path_factory.mktemp("counted") / "run", natural_text(9, 60_000))


@pytest.fixture(scope="module")
def trained(counted, tmp_path_factory) -> Path:
    """The same with a vocabulary that lost tokens on the way."""
    run = shutil.copytree(counted, tmp_path_factory.mktemp("trained") / "run")
    result = train(run, resources=SMALL, checkpoint_seconds=0, **by_keyword(OPTIONS))  # tables after every pass
    assert (result.reached, result.size) == (True, SIZE)
    return run


def test_check_finds_every_row_right_and_a_wrong_one(trained, tmp_path):
    """tokens.died, pair_counts and token_counts are those of a recount; a token declared alive is found."""
    assert check(trained, resources=SMALL) == []
    assert rows(trained, "SELECT count(*) > 0 FROM deletions JOIN vocabulary USING (id)") == [(True,)], "some came back"
    run = shutil.copytree(trained, tmp_path / "run")
    change(run, "UPDATE tokens SET died = NULL WHERE id = (SELECT min(id) FROM tokens WHERE died IS NOT NULL)")
    assert {problem.table for problem in check(run, resources=SMALL)} == {"main.tokens"}


@pytest.mark.long
def test_the_view_tells_of_every_deletion(trained):
    """What went, for what, how much of it, and whether it came back; dead tokens are in no other view."""
    told = rows(trained, "SELECT seq, id, split, merged, share, for_id, returned FROM deletions ORDER BY seq")
    events = read_event_log(trained / "model.events.jsonl").events
    assert len(told) == sum(event.op == "delete" for event in events) > 20
    for seq, number, split, merged, share, made, returned in told:
        cause = max(i for i in range(seq) if events[i].op == "merge")
        assert (events[seq].id, events[seq].n) == (number, split)
        assert (events[cause].id, events[cause].n) == (made, merged)
        if share is not None:
            assert share == pytest.approx(merged / (merged + split))
        later = [i for i in range(seq + 1, len(events)) if events[i].op == "merge" and events[i].id == number]
        assert returned == (later[0] if later else None)
    ((living,),) = rows(trained, "SELECT count(*) FROM vocabulary")
    assert living == SIZE
    model = Model(read_event_log(trained / "model.events.jsonl"))
    assert [number for (number,) in rows(trained, "SELECT id FROM vocabulary")] == sorted(model.vocabulary.living)


def test_another_tau_is_another_training(trained):
    """Refused under the same name, learned under another."""
    with pytest.raises(ResumeMismatch, match=r"--tau 0\.7, not 0\.8"):
        train(trained, resources=SMALL, **by_keyword(OPTIONS | {"tau": "0.8"}))
    cli("train", trained, "--vocab-size", SIZE, "--tau", "0.9", "--name", "other", "--delete-to", "walk")
    assert rows(trained, "SELECT count(*) > 0 FROM other.events WHERE op = 'delete'") == [(True,)]
