"""--tau in the tables: the view of what was deleted."""

from __future__ import annotations

import pytest

from streambpe.model.replay import Model
from streambpe.train.commands import train
from tests.runs import SMALL, log_of, rows, text_run
from tests.samples import natural_text


def test_the_view_tells_of_every_deletion(tmp_path):
    """What went, for what, how much of it, and whether it came back; dead tokens are in no other view."""
    run = text_run(tmp_path / "run", natural_text(9, 20_000))
    train(run, vocab_size=600, tau="0.7", stop_list=2, freq_cutoff=2, resources=SMALL)
    told = rows(run, "SELECT seq, id, split, merged, share, for_id, returned FROM deletions ORDER BY seq")
    events = log_of(run).events
    assert len(told) == sum(event.op == "delete" for event in events) > 20
    assert any(row[-1] for row in told), "some came back"
    for seq, number, split, merged, share, made, returned in told:
        cause = max(i for i in range(seq) if events[i].op == "merge")
        assert (events[seq].id, events[seq].n) == (number, split)
        assert (events[cause].id, events[cause].n) == (made, merged)
        if share is not None:
            assert share == pytest.approx(merged / (merged + split))
        later = [i for i in range(seq + 1, len(events)) if events[i].op == "merge" and events[i].id == number]
        assert returned == (later[0] if later else None)
    living = sorted(Model(log_of(run)).vocabulary.living)
    assert [number for (number,) in rows(run, "SELECT id FROM vocabulary")] == living
    assert len(living) == 600
