"""Who would answer the questions about documents that are not counted yet: for `plan`."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from streambpe.arrays import Int32
from streambpe.config import TrainConfig
from streambpe.resources import Resources
from streambpe.runners.processes import Processes
from streambpe.store.sequences import SequencePart
from streambpe.train.superwords.neighbours import PartsReader
from streambpe.train.superwords.phase import TOKEN_BYTES, room_of
from streambpe.train.superwords.runs import OpenChunks
from streambpe.train.superwords.stage2 import stage_two_crew
from streambpe.train.superwords.tasks import (
    NEIGHBOUR_SECONDS,
    RUN_SECONDS,
    RunShards,
    neighbour_shards,
)
from streambpe.train.superwords.work import Work

_PART_BYTES = 8 << 20  # of text, in one stretch


class _Imagined(PartsReader):
    """Documents of which only the size is known."""

    def __init__(self, parts: list[SequencePart]) -> None:
        self.parts = parts

    def read(self, part: SequencePart) -> Int32:
        """Nothing."""
        return np.empty(0, np.int32)


def processes_for(config: TrainConfig, places: int, text_bytes: int, resources: Resources) -> dict[str, int]:
    """How many processes would answer each question; those that this process answers are left out. `places`: chunks
    and ends of documents. On Ray every question is answered there, which goes without saying."""
    if resources.engine == "ray":
        return {}
    many = max(1, text_bytes // _PART_BYTES)
    parts = [SequencePart(f"part-{i}", places // many, follows=True) for i in range(many)]
    room = room_of(resources.memory_bytes, TOKEN_BYTES * config.vocab_size)
    work = Work(Path("nowhere"), room, resources.threads, "", resources.engine)
    reader = _Imagined(parts)
    runs = RunShards("runs", work.folder, "", reader, "runs", np.empty(0, np.int64), OpenChunks(), 1)
    crews = {
        "stage 2": stage_two_crew(parts, work) if config.superwords == "uw" else None,
        "neighbours": neighbour_shards(reader, work.folder, "").crew(work, NEIGHBOUR_SECONDS),
        "chains": runs.crew(work, RUN_SECONDS),
    }
    return {name: crew.runner.workers for name, crew in crews.items() if crew and isinstance(crew.runner, Processes)}
