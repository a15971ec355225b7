"""What a second core gains: counting and encoding on 1 and 2 threads, compared with libraries that also have threads.

    python benchmarks/scaling.py --corpus en_300.txt --corpus multi_60.txt

Counting is a whole process, from its start to its counts on disk (ours) or to the line in its log that tells the end of
counting (rustbpe and tokenizers, which cannot just count: count.py). Encoding is timed inside its process, after the
vocabulary is loaded (encode.py): lists of texts in one call, and ours from file to file as well.

    count           the documents as JSON lines, the same for everyone
    count text      ours alone: the text as a file of lines, read without JSON
    count small     ours alone: the first 5 MB, to see that a small job is not slower on more threads
    encode lists    streambpe, tuetoken and tiktoken; one vocabulary, the same ids
    encode files    ours alone: JSON lines to ids in a file

Printed at the end are each job's `gain`, the median time on one thread divided by that on more, and what it costs:
`cpu`, the processor time on more threads divided by that on one; of rustbpe and tokenizers that of the whole process,
with what follows counting. A gain means something on a quiet machine only; see the loads in the .tsv.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from pathlib import Path
from typing import NamedTuple

import encode
from corpora import prepare
from count import contenders
from harness import Contender, Table, ask, parser, run_once, scratch
from measured import RESULTS, WARM_UP, Result, Row, read

from streambpe.text.patterns import find_pattern

SMALL_MB = 5
LISTS = ("streambpe-batch", "tuetoken-batch", "tiktoken")
FILES = ("streambpe-corpus",)


class Took(NamedTuple):
    """One run of one job."""

    seconds: float
    cpu: float
    peak_mb: float
    load: float


class Job(NamedTuple):
    """Something that is run with several numbers of threads; `run` is given the number."""

    what: str
    corpus: str
    contender: str
    run: Callable[[int], Took]


def counting(arguments: argparse.Namespace, corpus: dict[str, str], what: str, work: Path) -> Iterator[Job]:
    """`count` for each trainer; what a peer takes is up to the end of its counting."""
    pattern = find_pattern(arguments.pattern).expression
    everyone = ("streambpe", "rustbpe", "tokenizers") if what == "count" else ("streambpe",)

    def run(name: str, threads: int) -> Took:
        given = argparse.Namespace(pattern=arguments.pattern, threads=threads, memory=[])
        (contender,) = (found for found in contenders(corpus, given, pattern) if found.name == name)
        return counted(contender, work)

    for name in everyone:
        if not arguments.only or name in arguments.only:
            yield Job(what, corpus["name"], name, partial(run, name))


def counted(contender: Contender, work: Path) -> Took:
    """Run one process that counts."""
    with tempfile.TemporaryDirectory(dir=work, prefix="run-") as folder:
        run = run_once(contender, Path(folder) / "out", 3600)
    if run.failed:
        sys.exit(f"{contender.name}: {run.failed}")
    return Took(run.marks.get("counted", run.figures["wall"]), run.figures["cpu"], run.figures["peak"], run.load)


def encoding(arguments: argparse.Namespace, text: str, mb: int, folder: Path) -> Iterator[Job]:
    """Lists and files to ids, by encode.py."""

    def run(name: str, threads: int) -> Took:
        os.sync()
        load = os.getloadavg()[0]
        answer = encode.measure(name, text, mb, threads, folder)
        digests.setdefault(name, answer["digest"])
        if len({digest for known, digest in digests.items() if known in LISTS}) > 1:
            sys.exit(f"the ids differ: {digests}")
        return Took(answer["wall"], answer["cpu"], answer["peak"], load)

    digests: dict[str, str] = {}
    for what, names in (("encode lists", LISTS), ("encode files", FILES)):
        for name in names:
            library = name.partition("-")[0]
            if arguments.only and library not in arguments.only:
                continue
            yield Job(what, Path(text).stem, library, partial(run, name))


def jobs(arguments: argparse.Namespace, work: Path) -> Iterator[Job]:
    """All that is to be measured."""
    for text in arguments.corpus:
        blocks = prepare(text, str(work), "blocks", arguments.mb)
        yield from counting(arguments, blocks, "count", work)
        yield from counting(arguments, prepare(text, str(work), "lines", arguments.mb), "count text", work)
    small = prepare(arguments.corpus[0], str(work), "blocks", SMALL_MB)
    yield from counting(arguments, small, "count small", work)
    for text in arguments.corpus:
        mb = min(arguments.encode_mb, Path(text).stat().st_size // 1_000_000)
        folder = work / f"scaling-{Path(text).stem}"
        if not (folder / "boundless.events.jsonl").exists():
            folder.mkdir(exist_ok=True)
            ask("encode:prepare", path=text, vocabulary="learned", folder=str(folder))
        yield from encoding(arguments, text, mb, folder)


def report(result: Result) -> list[str]:
    """Medians, and what more threads bring and cost, from the rows."""
    found: dict[str, dict[str, Row]] = {}
    for row in result.rows:
        of_job = found.setdefault(f"{row.name}, {row.cells['corpus']}, {row.cells['contender']}", {})
        of_job[row.cells["threads"]] = row
    lines = []
    for job, by_threads in found.items():
        (one, few), *more = by_threads.items()
        for threads, many in more:
            seconds, cpu = ([statistics.median(row.figures[of]) for row in (few, many)] for of in ("seconds", "cpu_s"))
            told = f"{seconds[0]:.2f} s on {one} thread, {seconds[1]:.2f} s on {threads}"
            lines.append(f"{job}: {told}; gain {seconds[0] / seconds[1]:.2f}, cpu {cpu[1] / cpu[0]:.2f}")
    return lines


def main() -> None:
    """Measure every job in turns, write results/scaling.tsv, and print what follows from it."""
    options = parser(__doc__, "pattern", "only", "runs", "no-warm-up", "name", "work", name="scaling")
    told = "a plain text; give it once for each; without it only what follows from the result is printed"
    options.add_argument("--corpus", action="append", default=[], help=told)
    options.add_argument("--mb", type=float, help="count only the first MB, to try things out")
    options.add_argument("--encode-mb", type=int, default=100, help="encode so many MB at most (default: 100)")
    options.add_argument("--threads", type=int, nargs="+", default=[1, 2], help="the first is what gains are to")
    given = options.parse_args()
    if given.corpus:
        measure(given)
    print("\n".join(report(read(RESULTS / f"{given.name}.tsv"))))


def measure(given: argparse.Namespace) -> None:
    """All jobs."""
    found = list(jobs(given, scratch(given.work)))
    about = {"pattern of counting": given.pattern, "runs": str(given.runs)}
    columns = ("job", "corpus", "contender", "threads", "run", "seconds", "cpu_s", "peak_MB", "load")
    with Table(given.name, about, columns) as table:
        for number in range(bool(given.no_warm_up), given.runs + 1):
            for job, threads in product(found, given.threads):
                took = (f"{value:.2f}" for value in job.run(threads))
                table.add(*job[:3], threads, number or WARM_UP, *took)


if __name__ == "__main__":
    main()
