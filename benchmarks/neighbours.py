"""Adding up more neighbours of chunks, for superwords, than memory could hold as rows.

    python benchmarks/neighbours.py --million 150 --memory 128MB --work /big/disk

Writes files as counting the neighbours of a large corpus leaves them (counts with a long tail), then does with them
what a training does: adds them up, looks up the counts at some ranks (`superbpe`), and lists those that reach a
threshold. Writes the processor seconds of each step, and the peak memory of this process so far.
100 GB of English would have about 150 million distinct neighbours.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import re
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from harness import Table, parser, scratch

from streambpe.resources import parse_size
from streambpe.train.superwords.sums import Sums

SYMBOLS = 60_000  # tokens that are whole chunks
LEFT_AT_ONCE = 1000
RANKS = [3 * 131_072 * 4**step for step in range(6)]  # as `superbpe` asks for 131 072 supermerges


def write_files(place: Path, rows: int, files: int) -> None:
    """Files of pairs (key = left << 32 | right, n), ascending, all distinct in their file."""
    schema = pa.schema([("key", pa.int64()), ("n", pa.int64())])
    each = rows // files // SYMBOLS
    for number in range(files):
        draw = np.random.default_rng(number)
        with pq.ParquetWriter(place / f"neighbours-{number}.parquet", schema, compression="zstd") as out:
            for first in range(0, SYMBOLS, LEFT_AT_ONCE):
                left = np.repeat(np.arange(first, first + LEFT_AT_ONCE), each)
                right = np.sort(draw.integers(0, SYMBOLS, (LEFT_AT_ONCE, each)), axis=1) + np.arange(each)
                n = draw.zipf(1.6, len(left)).clip(max=10**7)
                keys = (left << 32) | right.reshape(-1)
                out.write_table(pa.table([keys, n], schema=schema), row_group_size=1 << 16)


def peak_mb() -> int:
    """The most that this process had resident. On Linux by its own memory map: what getrusage tells begins with the
    memory of the process that started this one."""
    with contextlib.suppress(OSError):
        found = re.search(r"^VmHWM:\s*(\d+) kB", Path("/proc/self/status").read_text(), re.MULTILINE)
        if found:
            return int(found[1]) >> 10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10


def main() -> None:
    """Measure, and write what came out."""
    options = parser(__doc__, "name", "work", name="neighbours")
    options.add_argument("--million", type=float, default=20, help="rows in all files together")
    options.add_argument("--files", type=int, default=8, help="files that they are in")
    options.add_argument("--memory", default="64MB", help="of DuckDB's buffers")
    options.add_argument("--least", type=int, default=300, help="the threshold")
    given = options.parse_args()
    with tempfile.TemporaryDirectory(dir=scratch(given.work), prefix="neighbours-") as folder:
        place = Path(folder)
        # another process writes, so that its memory is not counted
        writer = multiprocessing.Process(target=write_files, args=(place, round(given.million * 1e6), given.files))
        writer.start()
        writer.join()
        files = sorted(place.glob("*.parquet"))
        megabytes = sum(path.stat().st_size for path in files) >> 20
        sums = Sums(place / "sum" / "neighbours.parquet", parse_size(given.memory), 2, place)
        sums.path.parent.mkdir()
        steps: dict[str, Callable[[], object]] = {
            "add_up": lambda: sums.add_up_neighbours(files, "benchmark"),
            "counts_at": lambda: sums.counts_at(RANKS, 1),
            "keys": lambda: len(sums.keys(given.least)),
        }
        about = {"job": f"{given.million:g} million neighbours in {given.files} files, {megabytes} MB"}
        with Table(given.name, about, ("step", "cpu_s", "peak_MB", "disk_MB", "found")) as table:
            table.add("before", "", peak_mb(), megabytes, "")
            for what, step in steps.items():
                began = time.process_time()
                found = step()
                told = " ".join(map(str, found)) if isinstance(found, list) else found or ""
                spent, size = time.process_time() - began, sums.path.stat().st_size >> 20
                table.add(what, f"{spent:.1f}", peak_mb(), size, told)


if __name__ == "__main__":
    main()
