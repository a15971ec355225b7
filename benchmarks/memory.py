"""Whether --memory holds: the peak of the process tree divided by the limit, for whole commands to 32 768 ids.

    python benchmarks/memory.py --name limits --every en_30.txt --every multi_30.txt

every kind of job (count, training, both kinds of superwords, script, encode, export, report, check) at 256MB, 400MB,
512MB, 1000MB and 2000MB; superwords from 400MB on. Below 400MB report and check look at a plain training, from there on
at one with superwords. export has no --memory and is held against the same limits. Each kind is also given 1 MB less
than the least that it takes: it has to end with exit 3 and leave nothing.

    python benchmarks/memory.py --name memory-balance --balance multi_60.txt

train --balance of eight parts of the text as groups, in memory and from disk.

Peak memory is the harness's: PSS of the tree, and never less than what its largest process has resident. `said` is
`peak_memory_bytes` of status.json. Writes results/NAME.tsv; exit 1 if a ratio is above 1.05, a command
failed, or events differ between two limits. `--only TEXT` (again for each) picks rows whose name holds it.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from harness import Contender, Table, parser, run_once, scratch, streambpe, untimed

from streambpe.model.eventlog import events_digest, read_event_log
from streambpe.resources import SMALLEST_MEMORY_BYTES, SMALLEST_SUPERWORDS_BYTES

MOST = 1.05
COLUMNS = ("row", "peak_mb", "ratio", "said_mb", "wall_s", "events_sha256", "outcome")
REFUSED = "refused, exit 3"
OPTIONS = {
    "plain": (),
    "superwords": ("--pattern", "boundless", "--superwords", "boundless"),
    "uw": ("--superwords", "uw"),
    "script": ("--like", "script"),
}
EVERY_KIND = ("count", "plain", "superwords", "uw", "script", "encode", "export", "report", "check")
EVERY_LIMIT = (256, 400, 512, 1000, 2000)
BALANCE_LIMITS, BALANCE_GROUPS = (2000, 512), 8
LEAST, LEAST_SUPERWORDS = SMALLEST_MEMORY_BYTES // 10**6, SMALLEST_SUPERWORDS_BYTES // 10**6


@dataclass(frozen=True)
class Row:
    """One command under one limit."""

    kind: str
    corpus: Path
    megabytes: int

    @property
    def name(self) -> str:
        """As it stands in the table."""
        return f"{self.kind} {self.corpus.stem} {self.megabytes}MB"

    @property
    def least(self) -> int:
        """The smallest limit that its command takes, in MB."""
        return LEAST_SUPERWORDS if self.kind in ("superwords", "uw") else LEAST

    @property
    def refused(self) -> bool:
        """Whether the limit is too small, so that the command has to end at once."""
        return self.megabytes < self.least


def every_row(corpora: list[Path]) -> Iterator[Row]:
    """Every kind of job at every limit."""
    for corpus, kind in product(corpora, EVERY_KIND):
        rows = [Row(kind, corpus, limit) for limit in EVERY_LIMIT]
        if kind != "export":
            yield Row(kind, corpus, rows[0].least - 1)
        yield from (row for row in rows if not row.refused)


def balanced(corpus: Path, work: Path) -> list[str]:
    """The parts of a text as sources, with a group for each."""
    lines = corpus.read_bytes().splitlines(keepends=True)
    sources, groups = [], []
    for number in range(BALANCE_GROUPS):
        part = work / f"{corpus.stem}.group{number}.txt"
        part.write_bytes(
            b"".join(lines[len(lines) * number // BALANCE_GROUPS : len(lines) * (number + 1) // BALANCE_GROUPS])
        )
        sources.append(str(part))
        groups += ["--group", f"group{number}={part}"]
    return [*sources, *groups, "--balance"]


def trained(row: Row, work: Path) -> str:
    """A RUN of the row's corpus, with superwords where the limit is large enough for them, but not to encode with."""
    with_superwords = row.megabytes >= LEAST_SUPERWORDS and row.kind != "encode"
    kind = "superwords" if with_superwords else "plain"
    run = work / f"{row.corpus.stem}.{kind}.run"
    if not (run / "model.events.jsonl").exists():
        untimed("train", str(run), str(row.corpus), *OPTIONS[kind], "--memory", "512MB", "--vocab-size", "32768")
    return str(run)


def command_of(row: Row, out: Path, work: Path) -> list[str]:
    """The command of a row; what it writes is `out`, with an ending."""
    limit: tuple[str, ...] = ("--memory", f"{row.megabytes}MB")
    if row.kind == "encode":
        return streambpe("encode", trained(row, work), str(row.corpus), "-o", f"{out}.npy", *limit)
    if row.kind == "count":
        return streambpe("count", str(out), str(row.corpus), "--sequences", *limit)
    if row.kind == "check":
        return streambpe("check", trained(row, work), *limit)
    if row.kind == "report":
        return streambpe("report", trained(row, work), "-o", f"{out}.html", "--text", str(row.corpus), *limit)
    if row.kind == "export":
        return streambpe("export", trained(row, work), "--to", "hf", "-o", f"{out}.json")
    if row.kind == "balance":
        options = (*balanced(row.corpus, work), *limit, "--vocab-size", "32768", "--progress", "none")
        return streambpe("train", str(out), *options)
    options = (*OPTIONS[row.kind], *limit, "--vocab-size", "32768", "--progress", "none")
    return streambpe("train", str(out), str(row.corpus), *options)


def measure(row: Row, work: Path, timeout_seconds: float) -> list[str]:
    """Run one row; its cells."""
    with tempfile.TemporaryDirectory(dir=work, prefix="run-") as place:
        out = Path(place) / "out"
        run = run_once(Contender(row.name, command_of(row, out, work)), out, timeout_seconds)
        said, sha256, outcome = 0.0, "", run.failed or "done"
        if run.failed.startswith("exit 3:") and row.refused and not list(Path(place).iterdir()):
            outcome = REFUSED
        elif row.kind in (*OPTIONS, "balance") and not run.failed:
            said = json.loads((out / "status.json").read_text())["peak_memory_bytes"] / 1e6
            sha256 = events_digest(read_event_log(out / "model.events.jsonl").events)
    peak, wall = run.figures["peak"], run.figures["wall"]
    return [row.name, f"{peak:.1f}", f"{peak / row.megabytes:.3f}", f"{said:.1f}", f"{wall:.1f}", sha256, outcome]


def main() -> None:
    """Measure, write, judge."""
    options = parser(__doc__, "name", "timeout", "work", name="memory", timeout=7200)
    options.add_argument("--every", action="append", default=[], type=Path, help="a corpus for every kind of job")
    options.add_argument("--balance", action="append", default=[], type=Path, help="a corpus for balanced groups")
    options.add_argument("--only", action="append", default=[])
    given = options.parse_args()
    work = scratch(given.work)
    rows = [*every_row(given.every)]
    rows += [Row("balance", *row) for row in product(given.balance, BALANCE_LIMITS)]
    wrong: list[str] = []
    digests: dict[tuple[str, str], str] = {}
    peak = "MB of the whole process tree, sampled; ratio: to --memory; said: peak_memory_bytes of status.json"
    with Table(given.name, {"peak": peak}, COLUMNS) as table:
        for row in rows:
            if given.only and not any(text in row.name for text in given.only):
                continue
            cells = measure(row, work, given.timeout)
            table.add(*cells)
            ratio, sha256, outcome = float(cells[2]), cells[-2], cells[-1]
            if ratio > MOST:
                wrong.append(f"{row.name}: {ratio:.2f} of the limit")
            if outcome != (REFUSED if row.refused else "done"):
                wrong.append(f"{row.name}: {outcome}")
            if sha256 and digests.setdefault((row.kind, row.corpus.name), sha256) != sha256:
                wrong.append(f"{row.name}: other events than under another limit")
    sys.exit("\n".join(wrong) or None)


if __name__ == "__main__":
    main()
