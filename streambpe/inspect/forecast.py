"""The forecast of a plan: what the sample and its rehearsal took, extrapolated to the whole corpus."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypedDict

import numpy as np
import numpy.typing as npt

from streambpe.config import TrainConfig
from streambpe.inspect.rehearsal import Rehearsal
from streambpe.inspect.sample import SUBSETS
from streambpe.resources import (
    BASE_BYTES,
    LEFT_BEHIND_BYTES,
    SMALLEST_MEMORY_BYTES,
    SMALLEST_SUPERWORDS_BYTES,
    Resources,
)
from streambpe.train.counting.sizes import table_bytes
from streambpe.train.counting.worker import CHECKPOINT_SECONDS
from streambpe.train.engine.in_memory import BYTES_PER_PLACE
from streambpe.train.opening import engine_room, fits_in_memory, memory_for

_BYTES_A_CHUNK = 440  # of a worker's memory for each distinct piece of a part, at most; measured, see docs/plan.md
_BYTES_A_PLACE = 24  # of memory for each symbol while learning in memory; likewise
_EMPTY_STORE_BYTES = 1 << 20  # of state.duckdb without rows
_ROUND_MEMORY = 100 * 10**6


@dataclass(frozen=True)
class Growth:
    """Something that grows with text: after 1, 2, 4, ... SUBSETS sixteenths of the sample (means of all such parts)."""

    seen: tuple[float, ...]

    def at(self, samples: float) -> float:
        """Its value after so many times the sample: interpolated between the points seen, or extrapolated.

        With each doubling of the text it grows by a factor 2^slope; from one doubling to the next the slope falls by
        a fixed ratio, taken from the slopes seen. (In a power law the slopes do not fall.)
        """
        logs = np.log2(np.maximum(self.seen, 1e-9))
        x = math.log2(samples * SUBSETS)
        if x <= 0:
            return float(self.seen[0] * samples * SUBSETS)
        last = len(logs) - 1
        if x <= last:
            return float(2 ** np.interp(x, np.arange(len(logs)), logs))
        slopes = np.diff(logs)
        ratio = min(1.0, (slopes[-1] / slopes[0]) ** (1 / (len(slopes) - 1))) if min(slopes) > 0 else 0.0
        y, slope, left = logs[-1], float(slopes[-1]), x - last
        while left > 0:
            slope *= ratio
            y += slope * min(1.0, left)
            left -= 1.0
        return float(2**y)


@dataclass(frozen=True)
class Grown:
    """What the windows of the sample say of the corpus."""

    share: float  # of the corpus that is in the sample
    text_bytes: int  # of the sample
    documents: int
    distinct: Growth  # distinct chunks
    places: Growth  # bytes of the distinct chunks that are learned from, and one more for each
    bytes_a_chunk: float  # of memory that counting needs for each distinct chunk
    count_seconds: float  # per byte, to split text and count its chunks, on one thread
    sort_seconds: float  # per distinct chunk, to take it out of the table


class Forecast(TypedDict):
    """The fields of a Plan that are forecasts."""

    text_bytes: int
    chunks: int
    distinct: int
    places: int
    memory_bytes: int
    learns_in_memory: bool
    memory_suits_bytes: int
    disk_bytes: int
    disk_left_bytes: int
    seconds: float
    stage_seconds: dict[str, float]


def forecast(grown: Grown, rehearsed: Rehearsal, config: TrainConfig, resources: Resources) -> Forecast:
    """The fields of a Plan that are forecasts."""
    times = 1 / grown.share  # the corpus is so many times the sample
    places = round((rehearsed.batches[0]["places"] if rehearsed.batches else 0) * growth_ratio(grown.places, times))
    in_memory = fits_in_memory(places, resources.memory_bytes)
    stages = {**rehearsed.stages}
    start = max(0.0, rehearsed.seconds - sum(stages.values()))
    small, large = _Parts.of(grown, 1.0, rehearsed, resources), _Parts.of(grown, times, rehearsed, resources)
    more_distinct, more_places = growth_ratio(grown.distinct, times), growth_ratio(grown.places, times)
    for stage in stages:
        if stage == "counting":
            stages[stage] *= large.cost / small.cost
        elif stage == "folding":
            stages[stage] *= more_distinct
        elif stage == "words":
            stages[stage] *= more_places
        elif stage in _BY_TEXT:
            stages[stage] *= times
    if rehearsed.from_disk is not None and not in_memory:
        stages["learning"] = rehearsed.from_disk.stages["learning"] * more_places
    else:
        stages["learning"] = _learning_seconds(rehearsed, more_places)

    limit = resources.memory_bytes
    count_peak = rehearsed.count_peak_bytes + resources.threads * _BYTES_A_CHUNK * (large.chunks - small.chunks)
    learn_peak = rehearsed.learn_peak_bytes + _BYTES_A_PLACE * (places - places / more_places)
    if rehearsed.from_disk is not None and not in_memory:  # only the engine's memory differs
        learn_peak = BASE_BYTES + max(0, rehearsed.from_disk.learn_peak_bytes - BASE_BYTES) * more_places
    memory = max(rehearsed.count_peak_bytes, rehearsed.learn_peak_bytes, min(limit, max(count_peak, learn_peak)))

    rows = rehearsed.parts_bytes / grown.distinct.at(1)
    superwords = config.superwords != "none"
    tables = rehearsed.counted_disk_bytes - rehearsed.sequence_bytes - _EMPTY_STORE_BYTES  # grows with distinct chunks
    counted = rehearsed.counted_disk_bytes + max(0, tables) * (more_distinct - 1)
    left = rehearsed.end_disk_bytes + max(0, tables) * (more_distinct - 1) + rehearsed.sequence_bytes * (times - 1)
    learner = rehearsed.from_disk if rehearsed.from_disk is not None and not in_memory else rehearsed
    scratch = learner.peak_disk_bytes - learner.end_disk_bytes
    of_documents = min(scratch, learner.superword_bytes)  # the rest is words, events and tables
    learning_disk = left + of_documents * times + (scratch - of_documents) * more_places
    counting_disk = counted + large.number * grown.distinct.at(times * large.share) * rows
    chunks = rehearsed.corpus["chunks"] if rehearsed.corpus else 0
    return {
        "text_bytes": round(grown.text_bytes * times),
        "chunks": round(chunks * times),
        "distinct": round(grown.distinct.at(times)),
        "places": places,
        "memory_bytes": round(memory),
        "learns_in_memory": in_memory,
        "memory_suits_bytes": max(suitable_memory(places), SMALLEST_SUPERWORDS_BYTES if superwords else 0),
        "disk_bytes": round(max(learning_disk, counting_disk)),
        "disk_left_bytes": round(left),
        "seconds": round(start + sum(stages.values()), 2),
        "stage_seconds": {"start": round(start, 2), **{stage: round(took, 2) for stage, took in stages.items()}},
    }


_BY_TEXT = ("documents", "stage 2", "neighbours", "runs", "superwords")


def growth_ratio(growth: Growth, times: float) -> float:
    """Its value in `times` the sample, divided by its value in the sample."""
    return growth.at(times) / growth.at(1)


@dataclass(frozen=True)
class _Parts:
    """The parts that counting would commit for so much text."""

    number: float
    share: float  # of the text in each part
    chunks: float  # distinct chunks in each part
    cost: float  # seconds of all parts on one thread

    @classmethod
    def of(cls, grown: Grown, times: float, rehearsed: Rehearsal, resources: Resources) -> _Parts:
        """The parts for `times` the sample."""
        text = grown.text_bytes * times
        speed = grown.text_bytes / max(rehearsed.stages["counting"], 1e-3)
        size = min(text, CHECKPOINT_SECONDS * speed) / resources.threads
        most_chunks = table_bytes(resources) / max(grown.bytes_a_chunk, 1.0)
        while True:
            chunks = grown.distinct.at(size / grown.text_bytes)
            if chunks <= most_chunks or size < grown.text_bytes / SUBSETS:
                break
            size *= 0.9
        number = text / size
        return cls(number, size / text, chunks, grown.count_seconds * text + grown.sort_seconds * chunks * number)


def _learning_seconds(rehearsed: Rehearsal, more_places: float) -> float:
    """The cost of each pass and each event stays; the cost of occurrences and of counting pairs grows with places."""
    batches = rehearsed.batches
    total = float(rehearsed.stages.get("learning", 0.0))
    counted = sum(batch["seconds"] for batch in batches if batch["refills"])
    plain = [batch for batch in batches if not batch["refills"]]
    if len(plain) < 3:
        return total * more_places
    facts = np.array([[1, batch["events"], batch["executed"]] for batch in plain], np.float64)
    each = _least_squares(facts, np.array([batch["seconds"] for batch in plain]))
    grows = counted + each[2] * sum(batch["executed"] for batch in batches)
    grows = min(float(grows), total)
    return total + grows * (more_places - 1)


def _least_squares(facts: npt.NDArray[np.float64], wanted: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Least squares with coefficients that are not negative: a column with a negative one is left out."""
    kept = list(range(facts.shape[1]))
    while True:
        found = np.linalg.lstsq(facts[:, kept], wanted, rcond=None)[0]
        if len(kept) == 1 or (found >= 0).all():
            all_of_them = np.zeros(facts.shape[1])
            all_of_them[kept] = np.maximum(found, 0)
            return all_of_them
        kept.pop(int(np.argmin(found)))


def suitable_memory(places: int) -> int:
    """The least --memory, in hundreds of MB, with which all of learning happens in memory."""
    wanted = max(memory_for(places), SMALLEST_MEMORY_BYTES)
    return -(-wanted // _ROUND_MEMORY) * _ROUND_MEMORY


def memory_in_proportion(memory_bytes: int, grown: Grown) -> int:
    """The --memory with which learning from the sample goes from disk as learning from the whole corpus will."""
    room = engine_room(memory_bytes) / growth_ratio(grown.places, 1 / grown.share)
    return max(SMALLEST_MEMORY_BYTES, memory_for(round(room) // BYTES_PER_PLACE) - LEFT_BEHIND_BYTES)
