"""The forecast of a plan: what the sample and its rehearsal took, extrapolated to the whole corpus."""

from __future__ import annotations

import math

import msgspec
import numpy as np

from streambpe.inspect.rehearsal import COUNTING, Rehearsal
from streambpe.inspect.sample import SUBSETS
from streambpe.resources import LEFT_BEHIND_BYTES, SMALLEST_MEMORY_BYTES, Resources
from streambpe.store.merge import MERGE_FILES
from streambpe.train.counting.sizes import Sizes
from streambpe.train.counting.worker import CHECKPOINT_SECONDS
from streambpe.train.engine.in_memory import BYTES_PER_PLACE
from streambpe.train.fitting import engine_room, fits_in_memory, memory_for

_EMPTY_STORE_BYTES = 3 << 19  # of state.duckdb without rows
_ROUND_MEMORY = 100 * 10**6
_BY_TEXT = ("counting", "documents", "neighbours", "runs", "superwords")


class Growth(msgspec.Struct, frozen=True):
    """Something that grows with text: after 1, 2, 4, ... SUBSETS sixteenths of the sample (means of all such parts)."""

    seen: tuple[float, ...]

    def at(self, samples: float) -> float:
        """Its value after so many times the sample: interpolated between the points seen, or extrapolated.

        With each doubling of the text it grows by a factor 2^slope; from one doubling to the next the slope falls by
        a fixed ratio, taken from the slopes seen. (In a power law the slopes do not fall.)
        """
        logs = np.log2(np.maximum(self.seen, 1e-9))
        x, last = math.log2(samples * SUBSETS), len(logs) - 1
        y, left = float(np.interp(x, np.arange(len(logs)), logs)), x - last
        slopes = np.diff(logs)
        ratio = min(1.0, (slopes[-1] / slopes[0]) ** (1 / (len(slopes) - 1))) if min(slopes) > 0 else 0.0
        slope = float(slopes[-1])
        while left > 0:
            slope *= ratio
            y += slope * min(1.0, left)
            left -= 1.0
        return float(2**y)


class Grown(msgspec.Struct, frozen=True):
    """What the windows of the sample say of the corpus."""

    share: float  # of the corpus that is in the sample
    distinct: Growth  # distinct chunks
    places: Growth  # bytes of the distinct chunks that are learned from, and one more for each
    bytes_a_chunk: float  # of memory that counting needs for each distinct chunk


class Forecast:
    """What training on the whole corpus takes: every figure of the rehearsal, times what it grows with."""

    def __init__(self, grown: Grown, rehearsed: Rehearsal, resources: Resources) -> None:
        self.text = 1 / grown.share  # the corpus is so many times the sample
        self.distinct = grown.distinct.at(self.text) / grown.distinct.at(1)
        self.places = grown.places.at(self.text) / grown.places.at(1)
        self.all_places = round((rehearsed.batches[0].places if rehearsed.batches else 0) * self.places)
        self.in_memory = fits_in_memory(self.all_places, resources.memory_bytes)
        self.learner = rehearsed  # or a second rehearsal, that learned from disk as the training will
        self._grown, self._rehearsed, self._resources = grown, rehearsed, resources

    def stage_seconds(self) -> dict[str, float]:
        """The seconds of every stage; `start` is what passes between and before them."""
        stages = self._rehearsed.stages
        factors = {**dict.fromkeys(_BY_TEXT, self.text), "folding": self.distinct, "words": self.places}
        seconds = {"start": max(0.0, self._rehearsed.seconds - sum(stages.values()))}
        seconds |= {stage: took * factors.get(stage, 1.0) for stage, took in stages.items()}
        if self.learner is self._rehearsed:
            seconds["learning"] = self._learning_seconds()
        else:
            seconds["learning"] = self.learner.stages["learning"] * self.places
        return {stage: round(took, 2) for stage, took in seconds.items()}

    def _learning_seconds(self) -> float:
        """The cost of passes and events stays; that of occurrences and of counting pairs grows with places."""
        batches = self._rehearsed.batches
        total = self._rehearsed.stages.get("learning", 0.0)
        plain = [batch for batch in batches if not batch.refills]
        if len(plain) < 3:
            return total * self.places
        slope = np.polyfit([batch.executed for batch in plain], [batch.seconds for batch in plain], 1)[0]
        counted = sum(batch.seconds for batch in batches if batch.refills)
        grows = counted + max(0.0, float(slope)) * sum(batch.executed for batch in batches)
        return total + min(grows, total) * (self.places - 1)

    def memory_bytes(self) -> int:
        """The peak. It is never foretold above --memory, unless the rehearsal went there."""
        rehearsed, learner = self._rehearsed, self.learner
        more_chunks = self._parts(self.text)[1] - self._parts(1.0)[1]
        counting = rehearsed.peak(*COUNTING) + self._resources.threads * self._grown.bytes_a_chunk * more_chunks
        # its words take most when learning begins; the tables of pairs, which come later, hardly grow with the text
        words = learner.batches[0].memory_bytes * self.places if learner.batches else 0.0
        learning = max(learner.peak("learning"), learner.peak("words") + words)
        peak = min(self._resources.memory_bytes, max(counting, learning))
        return round(max(*rehearsed.peaks.values(), *learner.peaks.values(), peak))

    def disk_bytes(self) -> tuple[int, int]:
        """(the peak, what remains at the end)."""
        rehearsed, learner = self._rehearsed, self.learner
        tables = rehearsed.counted_disk_bytes - rehearsed.sequence_bytes - rehearsed.parts_bytes - _EMPTY_STORE_BYTES
        more_counts = rehearsed.parts_bytes * (self._part_rows(self.text) / self._part_rows(1.0) - 1)
        more_counts += max(0, tables) * (self.distinct - 1)
        left = rehearsed.end_disk_bytes + more_counts + rehearsed.sequence_bytes * (self.text - 1)
        scratch = learner.peak_disk_bytes - learner.end_disk_bytes  # of documents, of words, and of the vocabulary
        learning = left + scratch + learner.superword_bytes * (self.text - 1) + learner.word_bytes * (self.places - 1)
        if not self.in_memory and all(batch.mode == "index" for batch in learner.batches):
            learning += learner.word_bytes * self.places  # rewritten beside those that a resume begins with
        return round(max(learning, rehearsed.counted_disk_bytes + more_counts)), round(left)

    def _parts(self, samples: float) -> tuple[float, float]:
        """(the parts that counting commits for so many times the sample, distinct chunks in each)."""
        speed = 1 / max(self._rehearsed.stages["counting"], 1e-3)
        size = min(samples, CHECKPOINT_SECONDS * speed) / self._resources.threads
        most_chunks = Sizes.of(self._resources).table / max(self._grown.bytes_a_chunk, 1.0)
        while size > 1 / SUBSETS and self._grown.distinct.at(size) > most_chunks:
            size *= 0.9
        return samples / size, self._grown.distinct.at(size)

    def _part_rows(self, samples: float) -> float:
        """Distinct chunks of all parts together, after MERGE_FILES of them at a time were merged."""
        number, chunks = self._parts(samples)
        merged, single = divmod(number, MERGE_FILES)
        return single * chunks + merged * self._grown.distinct.at(samples / number * MERGE_FILES)

    def less_memory(self) -> int:
        """The --memory with which learning from the sample goes from disk as learning from the whole corpus will."""
        room = engine_room(self._resources.memory_bytes) / self.places
        return max(SMALLEST_MEMORY_BYTES, memory_for(round(room) // BYTES_PER_PLACE) - LEFT_BEHIND_BYTES)

    def suitable_memory(self) -> int:
        """The least --memory, in hundreds of MB, with which all of learning happens in memory."""
        return -(-max(memory_for(self.all_places), SMALLEST_MEMORY_BYTES) // _ROUND_MEMORY) * _ROUND_MEMORY
