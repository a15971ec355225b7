"""Adding up as tasks: each adds up one range of neighbours or runs, over all files, and leaves one file.

    sum_range   neighbours   rows (key, n)   sum-neighbours-0-51539607551.parquet
                runs         rows (run, n)   sum-runs-0-1152921504606846975.parquet

DuckDB spreads a sum over the threads of this process, so on one machine processes add up only if they are asked for
(`--engine processes`). A range's rows fit the memory of a task. Places where tests let a process die: those of
answers.py.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from streambpe.runners.runner import Attempt
from streambpe.runners.worth import Cost
from streambpe.store.database import open_store
from streambpe.store.made_of import fingerprint
from streambpe.store.sqlfiles import query_batches
from streambpe.train.superwords.answers import Answers, Stretch
from streambpe.train.superwords.work import Crew, Work

# of each kind: what adds it up, and what comes out
_SUMS = {
    "neighbours": ("learning/sum_range", pa.schema([("key", pa.int64()), ("n", pa.int64())])),
    "runs": ("learning/sum_runs", pa.schema([("run", pa.large_binary()), ("n", pa.int64())])),
}
LEAST_BYTES = 32 << 20  # of DuckDB's buffers
_DUCKDB_BYTES = 96 << 20  # of a worker, besides its buffers
_ROW_SECONDS = 4.5e-7  # of a processor: docs/scale.md


@dataclass(frozen=True)
class RangeSums(Answers):
    """What all tasks of one sum have in common."""

    files: Sequence[Path]
    temp_dir: Path | None

    @classmethod
    def of(cls, kind: str, files: Sequence[Path], work: Work, temp_dir: Path | None) -> RangeSums:
        """The sum of these files."""
        made_of = fingerprint(work.made_of, *(path.name for path in files))
        return cls(kind, work.folder.absolute() / "sums", made_of, [path.absolute() for path in files], temp_dir)

    @property
    def place(self) -> str:
        """See Answers."""
        return "sum"

    @property
    def stem(self) -> str:
        """See Answers."""
        return f"sum-{self.kind}"

    @property
    def title(self) -> str:
        """See Answers."""
        return f"adding up {self.kind} from"

    def answer(self, ranges: Sequence[tuple[int, int]], crew: Crew) -> list[Path]:
        """Have all ranges added up."""
        return self.answered(sum_range, ranges, crew)


def sum_crew(rows: int, work: Work, least: int = LEAST_BYTES) -> Crew | None:
    """Who adds up so many rows by tasks, with at least such buffers in each; None: the threads of this process."""
    return work.crew(Cost(rows * _ROW_SECONDS, 0.0), rows, _DUCKDB_BYTES + max(2 * LEAST_BYTES, least), __name__)


def buffer_bytes(crew: Crew) -> int:
    """Of DuckDB in each task."""
    return max(crew.memory_bytes - _DUCKDB_BYTES, LEAST_BYTES)


def sum_range(task: Stretch, attempt: Attempt) -> None:
    """Add up one range."""
    sums: RangeSums = attempt.shared
    memory_bytes = max(attempt.memory_bytes - _DUCKDB_BYTES, LEAST_BYTES)
    listed = [str(path) for path in sums.files]
    statement, schema = _SUMS[sums.kind]
    con = open_store(":memory:", memory_bytes=memory_bytes, threads=1, temp_dir=sums.temp_dir)
    with contextlib.closing(con), sums.writing(task, attempt, schema, "lz4") as out:
        for batch in query_batches(con, statement, files=listed, low=task.start, high=task.stop):
            out.write_table(pa.Table.from_batches([batch]).cast(schema))
