"""How much of --memory an engine gets, and how much it takes."""

from __future__ import annotations

from streambpe.resources import BASE_BYTES, LEFT_BEHIND_BYTES, TRANSIENT_SHARE
from streambpe.store.trainings import FOLD_BYTES
from streambpe.train.engine.engine import LEAST_BYTES
from streambpe.train.engine.in_memory import BYTES_PER_PLACE


def engine_room(memory_bytes: int) -> int:
    """The least that --memory leaves to the engine, whatever counting left behind."""
    base = BASE_BYTES + LEFT_BEHIND_BYTES
    return max(memory_bytes - base - FOLD_BYTES - memory_bytes // TRANSIENT_SHARE, LEAST_BYTES)


def fits_in_memory(places: int, memory_bytes: int) -> bool:
    """Whether so many places (symbols + words) are learned from in memory from the start, not from disk first."""
    return places * BYTES_PER_PLACE <= engine_room(memory_bytes)


def memory_for(places: int) -> int:
    """The --memory with which so many places fit in one piece."""
    room = places * BYTES_PER_PLACE + BASE_BYTES + LEFT_BEHIND_BYTES + FOLD_BYTES
    return room * TRANSIENT_SHARE // (TRANSIENT_SHARE - 1)
