"""Die at a named place, as in a power cut; the tests of resuming use this.

    STREAMBPE_FAILPOINT=part-written:3 streambpe count ...    # killed when it gets there for the third time

Places of counting: run-made, sequence-written, part-written, part-committed, merge-committed, fold-filled,
fold-committed; each stands right before or right after a rename or a commit. Those of a training are in
train/trainer.py and train/superwords/phase.py. Besides, `boundary` stands before every fsync, every rename and every
commit to a database, wherever they are: its numbers lead through every state that a kill can leave on disk
(tests/kills.py).
"""

from __future__ import annotations

import itertools
import os
import signal

_passed = itertools.count(1)


def die() -> None:
    """End this process at once, as a power cut would; nothing is written, closed or printed."""
    os.kill(os.getpid(), getattr(signal, "SIGKILL", 9))  # on Windows any number ends a process


def failpoint(name: str) -> None:
    """End this process by SIGKILL if the environment asks for it here; else do nothing."""
    asked = os.environ.get("STREAMBPE_FAILPOINT")
    if asked and asked.split(":")[0] == name and next(_passed) >= int(asked.partition(":")[2] or 1):
        die()
