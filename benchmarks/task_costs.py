"""The constants that decide whether tasks go to processes: seconds of a processor, all and what one thread does alone.

    python benchmarks/task_costs.py --corpus en_100.txt --threads 4

    encode, encode own   a MB of text                        streambpe/encode/spread.py  _ENCODE, _ENCODE_OWN
    stage 2              a place (a chunk or the end of a    streambpe/train/superwords/stage2.py  _PLACE_SECONDS
                         document)
    neighbours, chains   a place                             streambpe/train/superwords/tasks.py

`all` is processor time on one thread. `alone` is found from the wall time on N threads: it is what the model of
streambpe/runners/worth.py needs to come to that time. So N cores must be free; a busy machine makes `alone` too large.
Encoding is a whole command, less the same command on an empty text. Writes results/task-costs.tsv.
"""

from __future__ import annotations

import resource
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from corpora import prepare
from harness import parser, scratch, untimed, write_table

from streambpe.model.alphabet import Alphabet
from streambpe.model.eventlog import read_event_log
from streambpe.resources import Resources
from streambpe.runners.here import Here
from streambpe.runners.worth import Cost
from streambpe.store.parts import list_parts
from streambpe.store.run import Run
from streambpe.store.sequences import order_parts
from streambpe.store.trainings import TokenTable
from streambpe.text.eligible import text_test
from streambpe.text.patterns import find_pattern
from streambpe.train.superwords.neighbours import SymbolReader, find_eligible
from streambpe.train.superwords.runs import Kept, OpenChunks
from streambpe.train.superwords.stage2 import StageTwo
from streambpe.train.superwords.sums import Sums
from streambpe.train.superwords.tasks import collect_runs, count_neighbours
from streambpe.train.superwords.work import Crew, Work

OWN = r"(?s) ?[^\W\d_]+|."
LEAST = 20  # a neighbour's count, for chains


@dataclass(frozen=True)
class Measured:
    """One kind of work."""

    name: str
    units: float
    all: float  # seconds of a processor
    wall: float  # seconds on all threads

    def alone(self, threads: int) -> float:
        """What one thread must do alone, for the wall time to be what it was."""
        low, high = 0.0, self.all
        for _ in range(50):
            middle = (low + high) / 2
            low, high = (middle, high) if Cost(self.all, middle).in_threads(threads) < self.wall else (low, middle)
        return low

    def row(self, threads: int) -> list[str]:
        """Of the table."""
        alone = self.alone(threads)
        cells = [f"{self.all:.2f}", f"{self.wall:.2f}", f"{self.all / self.units:.3g}", f"{alone / self.units:.3g}"]
        return [self.name, f"{self.units:.0f}", *cells]


def both(name: str, units: float, threads: int, work: Callable[[int], object]) -> Measured:
    """Work on one thread, then on all."""
    began = time.process_time()
    work(1)
    spent, began = time.process_time() - began, time.perf_counter()
    work(threads)
    return Measured(name, units, spent, time.perf_counter() - began)


def encoding(name: str, run: Path, corpus: Path, place: Path, threads: int) -> Measured:
    """Encoding by threads."""
    nothing = place / "nothing.jsonl"
    nothing.write_text("")

    def seconds(text: Path, many: int) -> tuple[float, float]:
        before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        runner = ("--engine", "threads", "--threads", str(many))
        untimed("encode", str(run), str(text), "-o", str(place / "ids.npy"), *runner)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        for left in place.glob("ids*"):
            left.unlink()
        spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return spent, time.perf_counter() - began

    empty, whole = seconds(nothing, 1), seconds(corpus, 1)
    wall = seconds(corpus, threads)[1] - seconds(nothing, threads)[1]
    return Measured(name, corpus.stat().st_size / 1e6, whole[0] - empty[0], wall)


def trained(corpus: Path, run: Path, memory: str, *options: str) -> None:
    """A RUN with documents and a plain vocabulary."""
    untimed("count", str(run), str(corpus), "--sequences", "--memory", memory, *options)
    untimed("train", str(run), "--vocab-size", "16000", "--memory", memory, *options)


def asked_of_documents(folder: Path, place: Path, threads: int) -> Iterator[Measured]:
    """What superwords ask."""
    run, log = Run(folder), read_event_log(folder / "model.events.jsonl")
    parts = order_parts(run, list_parts(run))
    places = sum(part.places for part in parts)
    alphabet = Alphabet.from_header(log.header.alphabet)
    book = TokenTable.of(alphabet, [])
    book.add(log.events, 0)
    eligible = find_eligible(alphabet, book.contents, log.events, [], text_test("improved", "--superword-pattern"))

    def nobody(places: int) -> None:
        """Whom progress is told."""

    def work(name: str, many: int) -> Work:
        return Work(new(name), Resources(1 << 30, many, engine="threads"), "benchmark")

    def new(name: str) -> Path:
        shutil.rmtree(place / name, ignore_errors=True)
        (place / name).mkdir(parents=True)
        return place / name

    def reader() -> SymbolReader:
        return SymbolReader(run.sequences, parts, eligible)

    def stage_two(many: int) -> None:
        stage = StageTwo(
            run.sequences, parts, find_pattern("superbpe2", gaps="keep"), alphabet, book.contents, log.events, False,
            new("stage2"), 1 << 30,
        )  # fmt: skip
        stage.write(Crew(Here(many), 0), nobody)

    yield both("stage 2", places, threads, stage_two)
    yield both("neighbours", places, threads, lambda many: count_neighbours(reader(), work("n", many), nobody))
    sums = Sums(new("sums") / "learning.duckdb", 1 << 28, threads, None)
    files = sorted((place / "n").glob("*.parquet"))
    sums.add_up_neighbours(files, eligible.select("symbol", "chunk"), "benchmark")
    kept = Kept(sums.keys(LEAST), OpenChunks(), len(book.contents) + alphabet.first_id)
    yield both("chains", places, threads, lambda many: collect_runs(reader(), kept, "runs", work("r", many), nobody))


def main() -> None:
    """Measure, and write what came out."""
    options = parser(__doc__, "corpus", "threads", "name", "work", name="task-costs")
    options.add_argument("--memory", default="1GB")
    given = options.parse_args()
    with tempfile.TemporaryDirectory(dir=scratch(given.work), prefix="task-costs-") as folder:
        # a pattern of one's own cuts no plain text, and one document of 100 MB is refused
        place, mb = Path(folder), Path(given.corpus).stat().st_size / 1e6
        corpus = Path(prepare(given.corpus, folder, "blocks", mb)["path"])
        trained(corpus, place / "run", given.memory)
        trained(corpus, place / "own", given.memory, "--pattern", OWN)
        made = [
            encoding("encode", place / "run", corpus, place, given.threads),
            encoding("encode own", place / "own", corpus, place, given.threads),
            *asked_of_documents(place / "run", place, given.threads),
        ]
    about = {"job": f"costs of tasks, {Path(given.corpus).name}, 1 and {given.threads} threads"}
    columns = ("work", "units", "cpu_s", "wall_s", "all", "alone")
    write_table(given.name, about, columns, [one.row(given.threads) for one in made])


if __name__ == "__main__":
    main()
