"""Passes and vetoes as lines of a journal."""

from __future__ import annotations

from pathlib import Path

from streambpe.model.events import merge_event
from streambpe.store.journal import Journal
from streambpe.store.passes import PASS_COLUMNS, pass_carried_over


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


def test_a_pass_of_an_older_journal_is_completed(tmp_path: Path):
    """Journals of superwords once said neither how many events a pass has nor what its floor was."""
    path = tmp_path / "supermerges.events"
    path.write_bytes(
        b'{"op":"training","journal":"j","begins":0,"superwords":"boundless"}\n'
        b'{"op":"supermerge","left":256,"right":257,"id":300,"n":9}\n'
        b'{"op":"batch","batch":0,"first_seq":0,"seconds":1.5,"merges":1,"floor":2}\n'
        b'{"op":"supermerge","left":256,"right":258,"id":301,"n":8}\n'
        b'{"op":"supermerge","left":256,"right":259,"id":302,"n":8}\n'
        b'{"op":"batch","batch":1,"first_seq":1,"seconds":0.5,"merges":2,"floor":2}\n'
    )
    passes = Journal.read(path).batches
    assert [(one["first_seq"], one["events"], one["seconds"]) for one in passes] == [(0, 1, 1.5), (1, 2, 0.5)]
    assert all(tuple(one) == PASS_COLUMNS for one in passes)
