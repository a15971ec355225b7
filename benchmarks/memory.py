"""Whether --memory holds: the peak of the whole process tree over the limit, whole commands to 32 768 ids.

    python benchmarks/memory.py --corpus en_100.txt --corpus multi_60.txt --large en_300.txt --small multi_60.txt

    plain, script         256MB, 400MB, 512MB        encode   256MB, with the plain model of the same corpus
    superwords            400MB, 512MB; --large at 512MB      plain   the first 5 MB of --small at 300MB

Peak memory is the harness's: PSS of the tree, and never less than what its largest process has resident. `said` is
`peak_memory_bytes` of status.json. Writes results/memory.md and .tsv; exit 1 if a ratio is above 1.05, a command
failed, or events differ between two limits. `--only TEXT` (again for each) picks rows whose name holds it.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from harness import RESULTS, Contender, preamble, run_once, scratch, streambpe

from streambpe.model.eventlog import events_digest, read_event_log

MOST = 1.05
OPTIONS = {
    "plain": (),
    "superwords": ("--pattern", "boundless", "--superwords", "boundless"),
    "script": ("--like", "script"),
}
LIMITS = {"plain": (256, 400, 512), "script": (256, 400, 512), "superwords": (400, 512)}


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


def measure(row: Row, work: Path, timeout_seconds: float) -> Measured:
    """Run one row; the plain model of a corpus is kept for encoding it."""
    model = work / f"{row.corpus.stem}.events.jsonl"
    limit = ("--memory", f"{row.megabytes}MB")
    with tempfile.TemporaryDirectory(dir=work, prefix="run-") as place:
        out = Path(place) / "out"
        if row.kind == "encode":
            command = streambpe("encode", str(model), str(row.corpus), "-o", str(out) + ".npy", *limit)
        else:
            options = (*OPTIONS[row.kind], *limit, "--vocab-size", "32768", "--progress", "none")
            command = streambpe("train", str(out), str(row.corpus), *options)
        run = run_once(Contender(row.name, command), out, timeout_seconds)
        said, sha256 = 0.0, ""
        if row.kind != "encode" and not run.failed:
            said = json.loads((out / "status.json").read_text())["peak_memory_bytes"] / 1e6
            sha256 = events_digest(read_event_log(out / "model.events.jsonl").events)
            if row.kind == "plain":
                shutil.copy(out / "model.events.jsonl", model)
    return Measured(row, run.figures["peak"], said, run.figures["wall"], sha256, run.failed)


def main() -> int:
    """Measure, write, judge."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--corpus", action="append", required=True, type=Path)
    options.add_argument("--large", type=Path, help="English, for superwords at 512MB")
    options.add_argument("--small", type=Path, help="many languages; the first 5 MB at 300MB")
    options.add_argument("--only", action="append", default=[])
    options.add_argument("--work")
    options.add_argument("--name", default="memory")
    options.add_argument("--timeout", type=float, default=7200)
    given = options.parse_args()
    work = scratch(given.work)
    done: list[Measured] = []
    for row in rows_of(given.corpus, given.large, given.small, work):
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
        {"peak": "MB of the whole process tree; ratio: to --memory; said: peak_memory_bytes of status.json"}
    )
    head = ("row", "peak_mb", "ratio", "said_mb", "wall_s", "events_sha256")
    cells = [
        (m.row.name, f"{m.peak:.1f}", f"{m.ratio:.3f}", f"{m.said:.1f}", f"{m.wall:.1f}", m.failed or m.sha256)
        for m in done
    ]
    table = ["\t".join(row) for row in [head, *cells]]
    (RESULTS / f"{name}.tsv").write_text("\n".join([*(f"# {line}" for line in about), *table]) + "\n")
    lines = [f"# {name}", "", *(f"- {line}" for line in about), ""]
    lines += ["| | peak, MB | ratio | said, MB | wall, s |", "|---|---|---|---|---|"]
    lines += [f"| {row[0]} | {row[1]} | {row[2]} | {row[3]} | {row[4]} |" for row in cells]
    lines += ["", *(f"**{line}**" for line in wrong(done))]
    (RESULTS / f"{name}.md").write_text("\n".join(lines).rstrip() + "\n")


if __name__ == "__main__":
    sys.exit(main())
