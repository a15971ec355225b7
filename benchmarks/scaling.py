"""What a second core gains: counting and encoding on 1 and 2 threads, beside the libraries that have threads too.

    python benchmarks/scaling.py --corpus en_300.txt --corpus multi_60.txt

Counting is a whole process, from its start to its counts on disk (ours) or to the line in its log that tells the end of
counting (rustbpe and tokenizers, which cannot just count: count.py). Encoding is timed inside its process, after the
vocabulary is loaded (encode.py): lists of texts in one call, and ours from file to file as well.

    count           the documents as JSON lines, the same for everyone
    count text      ours alone: the text as a file of lines, read without JSON
    count small     ours alone: the first 5 MB, to see that a small job is not slower on more threads
    encode lists    streambpe, tuetoken and tiktoken; one vocabulary, the same ids
    encode files    ours alone: JSON lines to ids in a file

Column `gain` is the median time on one thread divided by that on more. `cpu` says what it costs: the processor time on
more threads divided by that on one; of rustbpe and tokenizers that of the whole process, with what follows counting.
A gain means something on a quiet machine only; see the loads in the .tsv.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import encode
from corpora import prepare
from count import DISTINCT_RUSTBPE, DISTINCT_TOKENIZERS, expression_of, peers
from harness import RESULTS, Contender, call, preamble, run_once, scratch, streambpe

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
    job = {"path": corpus["path"], "kind": corpus["kind"], "vocab_size": 256}
    job["pattern"] = expression_of(arguments.pattern)

    def ours(threads: int) -> Contender:
        lines = ["--lines"] if corpus["kind"] == "lines" else []
        options = [corpus["path"], "--pattern", arguments.pattern, "--threads", str(threads), *lines]
        return Contender("streambpe", streambpe("count", "{out}", *options))

    def rustbpe(threads: int) -> Contender:
        marks = {"counted": DISTINCT_RUSTBPE}
        return Contender("rustbpe", call("peers:train_rustbpe", **job), peers(threads), marks=marks)

    def tokenizers(threads: int) -> Contender:
        marks = {"counted": DISTINCT_TOKENIZERS}
        return Contender("tokenizers", call("peers:train_tokenizers", **job, log=True), peers(threads), marks=marks)

    for make in (ours, rustbpe, tokenizers) if what == "count" else (ours,):
        name = make(1).name
        if arguments.only and name not in arguments.only:
            continue
        yield Job(what, corpus["name"], name, lambda threads, make=make: counted(make(threads), work))


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
            yield Job(what, Path(text).stem, library, lambda threads, name=name: run(name, threads))


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
            encode.measure("prepare learned", text, 0, 1, folder)
        yield from encoding(arguments, text, mb, folder)


def table(measured: dict[tuple[str, str, str], dict[int, list[Took]]], threads: list[int]) -> list[str]:
    """The report's rows: medians, and the gain and the cost of more threads."""
    one, *more = threads
    heads = [f"{n} thread{'s' * (n > 1)}, s" for n in threads]
    heads += [f"{what} {n}" for n in more for what in ("gain", "cpu")] + [f"peak {n}, MB" for n in threads]
    lines = ["| job | corpus | | " + " | ".join(heads) + " |", "|---|---|---|" + "---|" * len(heads)]
    for (what, corpus, name), runs in measured.items():
        seconds = {n: statistics.median(took.seconds for took in runs[n]) for n in threads}
        cpu = {n: statistics.median(took.cpu for took in runs[n]) for n in threads}
        cells = [f"{seconds[n]:.2f}" for n in threads]
        for n in more:
            cells += [f"**{seconds[one] / seconds[n]:.2f}**", f"{cpu[n] / cpu[one]:.2f}"]
        cells += [f"{max(took.peak_mb for took in runs[n]):.0f}" for n in threads]
        lines.append(f"| {what} | {corpus} | {name} | " + " | ".join(cells) + " |")
    return lines


def main() -> None:
    """Measure every job in turns, write results/scaling.tsv and .md."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", action="append", required=True, help="a plain text; give it once for each")
    parser.add_argument("--mb", type=float, help="count only the first MB, to try things out")
    parser.add_argument("--encode-mb", type=int, default=100, help="encode so many MB at most (default: 100)")
    parser.add_argument("--pattern", default="gpt4", help="of counting: a preset of streambpe (default: gpt4)")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2], help="the first is what gains are to")
    parser.add_argument("--only", action="append", metavar="LIBRARY", help="give it once for each to keep")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--no-warm-up", action="store_true")
    parser.add_argument("--name", default="scaling", help="of the result files")
    parser.add_argument("--work", help="folder for prepared corpora and RUNs, on the disk to be measured")
    arguments = parser.parse_args()
    work = scratch(arguments.work)
    found = list(jobs(arguments, work))
    measured: dict[tuple[str, str, str], dict[int, list[Took]]] = {
        job[:3]: {n: [] for n in arguments.threads} for job in found
    }
    about = preamble({"pattern of counting": arguments.pattern, "runs": str(arguments.runs)})
    with (RESULTS / f"{arguments.name}.tsv").open("w") as out:
        out.writelines(f"# {line}\n" for line in about)
        out.write("job\tcorpus\tcontender\tthreads\trun\tseconds\tcpu_s\tpeak_MB\tload\n")
        for number in range(bool(arguments.no_warm_up), arguments.runs + 1):
            for job in found:
                for n in arguments.threads:
                    took = job.run(n)
                    cells = "\t".join(f"{value:.2f}" for value in took)
                    line = f"{job.what}\t{job.corpus}\t{job.contender}\t{n}\t{number or 'warm-up'}\t{cells}"
                    print(line, file=out, flush=True)
                    print(line, file=sys.stderr)
                    if number:
                        measured[job[:3]][n].append(took)
    lines = [f"# {arguments.name}", "", *(f"- {line}" for line in about), ""]
    lines += [
        "Medians. gain: time on one thread divided by time on more. cpu: processor time on more by that on one.",
        "",
    ]
    report = "\n".join([*lines, *table(measured, arguments.threads)]) + "\n"
    (RESULTS / f"{arguments.name}.md").write_text(report)
    print(report)


if __name__ == "__main__":
    main()
