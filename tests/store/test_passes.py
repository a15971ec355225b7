"""Passes and vetoes as lines of a journal."""

from __future__ import annotations

from pathlib import Path

from streambpe.model.events import merge_event
from streambpe.store.journal import Journal
from streambpe.store.passes import pass_carried_over


def test_passes_and_vetoes_come_back_as_they_were(tmp_path: Path):
    """What a journal is given is what is read again, without the field that says which line it is."""
    journal = Journal.start(tmp_path / "pending.events", {"config": {}})
    journal.save()
    journal.add_veto(97, 98, 7)
    journal.add_event(merge_event(97, 99, 256, 5))
    journal.add_batch({**pass_carried_over(1), "mode": "index", "seconds": 0.25, "pair_floor": 3})
    journal.commit()
    again = Journal.read(journal.path)
    assert again.batches == journal.batches
    assert again.vetoes == [{"seq": 0, "left": 97, "right": 98, "n": 7}] == journal.vetoes
