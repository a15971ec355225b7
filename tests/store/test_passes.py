"""Passes and vetoes as lines of a journal."""

from __future__ import annotations

from pathlib import Path

import pytest

from streambpe.model.events import Events, merge_event
from streambpe.store.journal import Journal
from streambpe.store.passes import PassRow


def test_a_commit_that_failed_is_made_again_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The disk was full for a moment: what was written of the lines goes, and the next commit writes each once."""
    journal = Journal.start(tmp_path / "pending.events", {"config": {}})
    journal.save()
    journal.add_pass(Events.of([merge_event(97, 99, 256, 5)]), PassRow(mode="index", seconds=0.25, hot_pairs=3))
    before = journal.path.read_bytes()

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("streambpe.store.journal.sync", full)
        with pytest.raises(OSError, match="No space left"):
            journal.commit()
    assert journal.path.read_bytes() == before
    journal.commit()
    again = Journal.read(journal.path)
    assert (again.batches, list(again.events)) == (journal.batches, list(journal.events))
