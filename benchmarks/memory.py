"""Whether --memory holds: the peak of the whole process tree over the limit, whole commands to 32 768 ids.

    python benchmarks/memory.py --corpus en_100.txt --corpus multi_60.txt --large en_300.txt --small multi_60.txt

    plain, script         256MB, 400MB, 512MB        encode   256MB, with the plain model of the same corpus
    superwords            400MB, 512MB; --large at 512MB      plain   the first 5 MB of --small at 300MB

    python benchmarks/memory.py --name limits --every en_30.txt --every multi_30.txt

every kind of job (count, training, both kinds of superwords, script, encode, export, report, check) at 256MB, 400MB,
512MB, 1000MB and 2000MB; superwords from 400MB on. Below 400MB report and check look at a plain training, from there on
at one with superwords. export has no --memory and is held against the same limits. Each kind is also given 1 MB less
than the least that it takes: it has to end with exit 3 and leave nothing.

    python benchmarks/memory.py --name memory-processes --workers en_100.txt

count with documents, encode, and both kinds of superwords by 2 and 4 processes (`--engine processes`) at 512MB, 1000MB,
2000MB.

    python benchmarks/memory.py --name memory-balance --balance multi_60.txt

train --balance of eight parts of the text as groups, at a limit that holds it and at one that does not: the second has
to end with exit 3, and keeps what it counted.

Peak memory is the harness's: PSS of the tree, and never less than what its largest process has resident. `said` is
`peak_memory_bytes` of status.json. Writes results/NAME.md and .tsv; exit 1 if a ratio is above 1.05, a command
failed, or events differ between two limits. `--only TEXT` (again for each) picks rows whose name holds it.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from harness import RESULTS, Contender, preamble, run_once, scratch, streambpe

from streambpe.model.eventlog import events_digest, read_event_log
from streambpe.resources import SMALLEST_MEMORY_BYTES, SMALLEST_SUPERWORDS_BYTES

MOST = 1.05
OPTIONS = {
    "plain": (),
    "superwords": ("--pattern", "boundless", "--superwords", "boundless"),
    "uw": ("--superwords", "uw"),
    "script": ("--like", "script"),
}
LIMITS = {"plain": (256, 400, 512), "script": (256, 400, 512), "superwords": (400, 512)}
EVERY_KIND = ("count", "plain", "superwords", "uw", "script", "encode", "export", "report", "check")
EVERY_LIMIT = (256, 400, 512, 1000, 2000)
WORKERS, WORKERS_KIND, WORKERS_LIMIT = (2, 4), ("count", "encode", "superwords", "uw"), (512, 1000, 2000)
BALANCE_LIMITS, BALANCE_GROUPS = (2000, 512), 8
LEAST, LEAST_SUPERWORDS = SMALLEST_MEMORY_BYTES // 10**6, SMALLEST_SUPERWORDS_BYTES // 10**6


@dataclass(frozen=True)
class Row:
    """One command under one limit."""

    kind: str
    corpus: Path
    megabytes: int
    processes: int = 0  # asked for; 0: as it comes

    @property
    def name(self) -> str:
        """As it stands in the table."""
        by = f" {self.processes} processes" if self.processes else ""
        return f"{self.kind} {self.corpus.stem} {self.megabytes}MB{by}"

    @property
    def least(self) -> int:
        """The smallest limit that its command takes, in MB."""
        return LEAST_SUPERWORDS if self.kind in ("superwords", "uw") else LEAST

    @property
    def outgrown(self) -> bool:
        """Whether the command finds out on its way that the limit is too small."""
        return self.kind == "balance" and self.megabytes < max(BALANCE_LIMITS)

    @property
    def refused(self) -> bool:
        """Whether the limit is too small, so that the command has to end at once."""
        return self.megabytes < self.least


@dataclass(frozen=True)
class Measured:
    """What a row came to."""

    row: Row
    peak: float  # MB
    said: float
    wall: float
    sha256: str
    failed: str

    @property
    def ratio(self) -> float:
        """Peak over the limit."""
        return self.peak / self.row.megabytes

    @property
    def outcome(self) -> str:
        """How the command ended."""
        outgrown = "ended on its way, exit 3" if self.row.outgrown else "done"
        return self.failed or ("refused, exit 3" if self.row.refused else outgrown)


def rows_of(corpora: list[Path], large: Path | None, small: Path | None, work: Path) -> Iterator[Row]:
    """The table, in the order it is measured."""
    for corpus in corpora:
        for kind, limits in LIMITS.items():
            for limit in limits:
                yield Row(kind, corpus, limit)
        yield Row("encode", corpus, 256)
    if small is not None:
        first = work / f"{small.stem}_5mb.txt"
        with small.open("rb") as text:
            first.write_bytes(text.read(5_000_000))
        yield Row("plain", first, 300)
    if large is not None:
        yield Row("superwords", large, 512)


def every_row(corpora: list[Path]) -> Iterator[Row]:
    """Every kind of job at every limit."""
    for corpus in corpora:
        for kind in EVERY_KIND:
            rows = [Row(kind, corpus, limit) for limit in EVERY_LIMIT]
            if kind != "export":
                yield Row(kind, corpus, rows[0].least - 1)
            yield from (row for row in rows if not row.refused)


def workers_row(corpora: list[Path]) -> Iterator[Row]:
    """What processes do, under limits that have room for some of them."""
    for corpus in corpora:
        for kind in WORKERS_KIND:
            yield from (Row(kind, corpus, limit, workers) for limit in WORKERS_LIMIT for workers in WORKERS)


def balance_row(corpora: list[Path]) -> Iterator[Row]:
    """Groups that are balanced, which are held in memory whole."""
    for corpus in corpora:
        yield from (Row("balance", corpus, limit) for limit in BALANCE_LIMITS)


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
    """A RUN of the row's corpus, with superwords where the limit is large enough for them; nobody measures that."""
    kind = "superwords" if row.megabytes >= LEAST_SUPERWORDS else "plain"
    run = work / f"{row.corpus.stem}.{kind}.run"
    if not (run / "model.events.jsonl").exists():
        options = (*OPTIONS[kind], "--memory", "512MB", "--vocab-size", "32768", "--progress", "none")
        subprocess.run(streambpe("train", str(run), str(row.corpus), *options), check=True, stderr=subprocess.DEVNULL)
    return str(run)


def command_of(row: Row, model: Path, out: Path, work: Path) -> list[str]:
    """The command of a row; what it writes is `out`, with an ending."""
    limit: tuple[str, ...] = ("--memory", f"{row.megabytes}MB")
    if row.processes:
        limit += ("--engine", "processes", "--threads", str(row.processes))
    if row.kind == "encode":
        known = trained(row, work) if row.processes else str(model)
        return streambpe("encode", known, str(row.corpus), "-o", f"{out}.npy", *limit)
    if row.kind == "count":
        return streambpe("count", str(out), str(row.corpus), "--sequences", *limit)
    if row.kind == "check":
        return streambpe("check", trained(row, work), *limit)
    if row.kind == "report":
        return streambpe("report", trained(row, work), "-o", f"{out}.html", *limit)
    if row.kind == "export":
        return streambpe("export", trained(row, work), "--to", "hf", "-o", f"{out}.json")
    if row.kind == "balance":
        options = (*balanced(row.corpus, work), *limit, "--vocab-size", "32768", "--progress", "none")
        return streambpe("train", str(out), *options)
    options = (*OPTIONS[row.kind], *limit, "--vocab-size", "32768", "--progress", "none")
    return streambpe("train", str(out), str(row.corpus), *options)


def measure(row: Row, work: Path, timeout_seconds: float) -> Measured:
    """Run one row; the plain model of a corpus is kept for encoding it."""
    model = work / f"{row.corpus.stem}.events.jsonl"
    with tempfile.TemporaryDirectory(dir=work, prefix="run-") as place:
        out = Path(place) / "out"
        run = run_once(Contender(row.name, command_of(row, model, out, work)), out, timeout_seconds)
        said, sha256 = 0.0, ""
        if row.refused:
            left = "; it left something" if list(Path(place).iterdir()) else ""
            run.failed = "" if run.failed.startswith("exit 3:") and not left else f"not refused: {run.failed}{left}"
        elif row.outgrown:
            run.failed = "" if run.failed.startswith("exit 3:") else f"did not end with exit 3: {run.failed}"
        elif row.kind in (*OPTIONS, "balance") and not run.failed:
            said = json.loads((out / "status.json").read_text())["peak_memory_bytes"] / 1e6
            sha256 = events_digest(read_event_log(out / "model.events.jsonl").events)
            if row.kind == "plain":
                shutil.copy(out / "model.events.jsonl", model)
    return Measured(row, run.figures["peak"], said, run.figures["wall"], sha256, run.failed)


def main() -> int:
    """Measure, write, judge."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--corpus", action="append", default=[], type=Path)
    options.add_argument("--every", action="append", default=[], type=Path, help="a corpus for every kind of job")
    options.add_argument("--workers", action="append", default=[], type=Path, help="a corpus for processes")
    options.add_argument("--balance", action="append", default=[], type=Path, help="a corpus for balanced groups")
    options.add_argument("--large", type=Path, help="English, for superwords at 512MB")
    options.add_argument("--small", type=Path, help="many languages; the first 5 MB at 300MB")
    options.add_argument("--only", action="append", default=[])
    options.add_argument("--work")
    options.add_argument("--name", default="memory")
    options.add_argument("--timeout", type=float, default=7200)
    given = options.parse_args()
    work = scratch(given.work)
    done: list[Measured] = []
    rows = [*rows_of(given.corpus, given.large, given.small, work), *every_row(given.every)]
    for row in [*rows, *workers_row(given.workers), *balance_row(given.balance)]:
        if given.only and not any(text in row.name for text in given.only):
            continue
        done.append(measure(row, work, given.timeout))
        write(done, given.name)
        last = done[-1]
        print(f"{row.name}: {last.peak:.0f} MB, {last.ratio:.2f} {last.failed}", file=sys.stderr, flush=True)
    return 0 if done and not wrong(done) else 1


def wrong(done: list[Measured]) -> list[str]:
    """What does not hold."""
    said = [f"{m.row.name}: {m.ratio:.2f} of the limit" for m in done if m.ratio > MOST]
    said += [f"{m.row.name} failed: {m.failed}" for m in done if m.failed]
    digests: dict[tuple[str, str], set[str]] = {}
    for m in done:
        if m.sha256:
            digests.setdefault((m.row.kind, m.row.corpus.name), set()).add(m.sha256)
    said += [
        f"{kind} {corpus}: other events under another limit" for (kind, corpus), d in digests.items() if len(d) > 1
    ]
    return said


def write(done: list[Measured], name: str) -> None:
    """results/NAME.md and .tsv, after every row."""
    RESULTS.mkdir(exist_ok=True)
    about = preamble(
        {
            "peak": "MB of the whole process tree, sampled; ratio: to --memory; said: peak_memory_bytes of status.json",
            "hard limit": "none: a control group would charge what is sampled here",
        }
    )
    head = ("row", "peak_mb", "ratio", "said_mb", "wall_s", "events_sha256", "outcome")
    cells = [
        (m.row.name, f"{m.peak:.1f}", f"{m.ratio:.3f}", f"{m.said:.1f}", f"{m.wall:.1f}", m.sha256, m.outcome)
        for m in done
    ]
    table = ["\t".join(row) for row in [head, *cells]]
    (RESULTS / f"{name}.tsv").write_text("\n".join([*(f"# {line}" for line in about), *table]) + "\n")
    lines = [f"# {name}", "", *(f"- {line}" for line in about), ""]
    lines += ["| | peak, MB | ratio | said, MB | wall, s | outcome |", "|---|---|---|---|---|---|"]
    lines += [f"| {row[0]} | {row[1]} | {row[2]} | {row[3]} | {row[4]} | {row[6]} |" for row in cells]
    lines += ["", *(f"**{line}**" for line in wrong(done))]
    (RESULTS / f"{name}.md").write_text("\n".join(lines).rstrip() + "\n")


if __name__ == "__main__":
    sys.exit(main())
