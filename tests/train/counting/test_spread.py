"""Counting by tasks: the same tables as by threads, whoever runs the tasks and whatever dies on the way."""

from __future__ import annotations

import gzip
import itertools
import json
import random
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from msgspec import structs

from streambpe.count_config import CountConfig
from streambpe.errors import SourceError, Stopped, UsageError, WorkerLost
from streambpe.resources import Resources
from streambpe.runners import worth
from streambpe.runners.here import Here
from streambpe.runners.runner import Attempt
from streambpe.sources.source import Source
from streambpe.sources.stretches import Stretch, cut
from streambpe.store.documents import documents_digest
from streambpe.store.job import find_work
from streambpe.store.parts import list_parts
from streambpe.store.run import Run
from streambpe.store.sequences import order_parts
from streambpe.text.patterns import Pattern, find_pattern
from streambpe.train.counting import spread
from streambpe.train.counting.count import count, count_from_iterator
from streambpe.train.counting.spread import count_runner
from streambpe.train.counting.tasks import CountShared, CountTask, count_stretches
from tests.hostile import random_text
from tests.runs import Driver, StopAfter, cli, small_blocks
from tests.samples import sample_text, written
from tests.tiers import long
from tests.train.counting.counted import THREADS, Tables, counted, write_lines

OWN = r"\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+|\s+"
LEFT_TO_REGEX = OWN + r"|\b\W"
GPT4O = find_pattern("gpt4o")
BESIDE = replace(THREADS, engine="processes")


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A source of every kind."""
    folder = tmp_path_factory.mktemp("corpus")
    texts = write_lines(folder)
    lines = (folder / "a.jsonl").read_text(encoding="utf-8")
    (folder / "c.jsonl.gz").write_bytes(gzip.compress(lines[: len(lines) // 3].rpartition("\n")[0].encode()))
    pq.write_table(pa.table({"text": texts}), folder / "d.parquet", row_group_size=len(texts) // 7)
    (folder / "e.csv").write_text(
        "id,text\n" + "".join(f'{i},"{t}"\n' for i, t in enumerate(texts[:300]) if '"' not in t)
    )
    for i in range(5):
        (folder / f"small-{i}.txt").write_text(f"small file number {i}", encoding="utf-8")
    return folder


@pytest.fixture(autouse=True)
def _many_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spread, "_LEAST_TASK", 50_000)


@pytest.fixture(scope="module")
def expected(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Tables:
    """What threads count."""
    return counted(tmp_path_factory.mktemp("threads"), corpus, THREADS)


@pytest.mark.parametrize("workers", [2, long(1), long(4)])
def test_processes_count_what_threads_count(tmp_path: Path, corpus: Path, expected: Tables, workers: int) -> None:
    assert counted(tmp_path, corpus, replace(BESIDE, threads=workers)) == expected
    assert len(list_parts(Run(tmp_path))) > 6, "there were several tasks"


@pytest.mark.long
def test_with_documents_a_pattern_of_ones_own_and_groups(tmp_path: Path, corpus: Path) -> None:
    options = {"pattern": OWN, "sequences": True, "group": ["small=**/small-*", "rows=**/*.parquet"]}
    ones = counted(tmp_path / "threads", corpus, THREADS, **options)
    assert counted(tmp_path / "tasks", corpus, BESIDE, **options) == ones


@pytest.mark.parametrize("sequences", [long(False), True])
def test_tasks_in_threads_with_many_parts_each(
    tmp_path: Path, corpus: Path, expected: Tables, monkeypatch: pytest.MonkeyPatch, sequences: bool
) -> None:
    """Small blocks, and a commit after each."""
    monkeypatch.setattr(worth.Processes, "here", lambda workers, memory, preload: Here(workers))
    small_blocks(monkeypatch, 20_000, committing=True)
    assert counted(tmp_path, corpus, BESIDE, sequences=sequences) == expected


@pytest.mark.parametrize(("place", "sequences"), [("written", False), long("begun", True), long("committed", True)])
def test_a_worker_is_killed_in_every_task(
    tmp_path: Path,
    corpus: Path,
    expected: Tables,
    monkeypatch: pytest.MonkeyPatch,
    place: str,
    sequences: bool,
) -> None:
    monkeypatch.setattr(spread, "_LEAST_TASK", 400_000)
    monkeypatch.setenv("STREAMBPE_FAILPOINT", f"attempt-0-{place}")
    assert counted(tmp_path, corpus, BESIDE, sequences=sequences) == expected


@pytest.mark.long
def test_a_task_that_no_worker_survives(tmp_path: Path, corpus: Path, expected: Tables, monkeypatch: Any) -> None:
    monkeypatch.setenv("STREAMBPE_FAILPOINT", "part-written")
    with pytest.raises(WorkerLost, match=r"counting a\.jsonl from 0.* killed by SIGKILL"):
        counted(tmp_path, corpus, replace(BESIDE, threads=1))
    monkeypatch.delenv("STREAMBPE_FAILPOINT")
    assert counted(tmp_path, corpus, BESIDE) == expected


class Zombie(threading.Thread):
    """The first attempt at a task: held where it has read something, as if it were dead, until it is released."""

    def __init__(self, task: CountTask, shared: CountShared) -> None:
        super().__init__()
        self.task, self.shared = task, shared
        self.reached, self.released = threading.Event(), threading.Event()
        self.error: BaseException | None = None

    def hold(self, done: int) -> None:
        self.reached.set()
        self.released.wait(60)

    def run(self) -> None:
        try:
            count_stretches(self.task, Attempt(0, 100 << 20, self.shared, lambda: False, self.hold))
        except BaseException as why:
            self.error = why


@pytest.mark.long
@pytest.mark.parametrize("sequences", [False, True])
def test_a_dead_worker_that_still_writes_harms_nothing(
    tmp_path: Path, corpus: Path, monkeypatch: pytest.MonkeyPatch, sequences: bool
) -> None:
    small_blocks(monkeypatch, 50_000, committing=True)
    source = corpus / "a.jsonl"
    options = {"sequences": sequences}
    ones = counted(tmp_path / "threads", source, THREADS, **options)

    class Twice(Here):
        """Runs every task twice: the first attempt wakes up when the second is done."""

        def map(self, calls: Any) -> None:
            def task(argument: CountTask, attempt: Attempt) -> Any:
                zombie = Zombie(argument, attempt.shared)
                zombie.start()
                zombie.reached.wait(60)
                done = calls.task(argument, structs.replace(attempt, number=1))
                zombie.released.set()
                zombie.join()
                assert isinstance(zombie.error, OSError), "its folder is gone"
                return done

            super().map(replace(calls, task=task))

    monkeypatch.setattr(worth.Processes, "here", lambda workers, memory, preload: Twice(workers))
    assert counted(tmp_path / "tasks", source, BESIDE, **options) == ones


@pytest.mark.long
def test_a_later_attempt_goes_on_behind_what_was_committed(tmp_path: Path, corpus: Path, monkeypatch: Any) -> None:
    small_blocks(monkeypatch, 50_000, committing=True)
    source = Source(str(corpus / "a.jsonl"), "jsonl", bytes=(corpus / "a.jsonl").stat().st_size)
    run = Run(tmp_path / "run")
    run.counts.mkdir(parents=True)
    run.change_identity()
    ones = count(tmp_path / "threads", [source], resources=THREADS)
    shared = CountShared(run.path, CountConfig())
    task = CountTask((Stretch(source),), 7)
    asked = iter([False] * 5)
    count_stretches(task, Attempt(0, 100 << 20, shared, lambda: next(asked, True), lambda done: None))
    first = list_parts(run).spans
    assert len(first) > 1
    assert "last" not in first.values("state")
    count_stretches(task, Attempt(1, 100 << 20, shared, lambda: False, lambda done: None))
    spans = list_parts(run).spans
    assert len(set(spans.stretches())) == len(spans) > len(first), "nothing twice"
    assert sum(part.total for part in list_parts(run)) == ones.corpus["chunks"]


@pytest.mark.long
def test_a_stop_is_kept_and_gone_on_from(
    tmp_path: Path, corpus: Path, expected: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It comes when the first task is done, and others are not begun."""
    stop = threading.Event()
    others = set(psutil.Process().children(recursive=True))  # of other tests' fixtures
    with monkeypatch.context() as patched:
        patched.setattr(spread, "failpoint", lambda place: stop.set())
        with pytest.raises(Stopped, match="kept"):
            counted(tmp_path, corpus, BESIDE, stop=stop)
    assert not set(psutil.Process().children(recursive=True)) - others
    assert list_parts(Run(tmp_path))
    assert counted(tmp_path, corpus, BESIDE) == expected


@pytest.mark.long
def test_a_document_too_large_for_a_worker_is_counted_here(tmp_path: Path) -> None:
    source = tmp_path / "large.jsonl"
    word = "abcdefgh " * 2_000_000
    source.write_text("".join(json.dumps({"text": t}) + "\n" for t in ("before", word, "behind")), encoding="utf-8")
    ones = counted(tmp_path / "threads", source, THREADS)
    assert counted(tmp_path / "tasks", source, BESIDE) == ones


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("bad.jsonl", b'{"text": "good"}\n' * 9000 + b'{"text": 7}\n' + b'{"text": "good"}\n' * 9000),
        ("none.jsonl", b"\x00\x01\xff\xfe" * 100_000),
        ("none.parquet", b"this is no Parquet file"),
        ("short.jsonl.gz", gzip.compress(b"".join(b'{"text": "%d"}\n' % (i * i) for i in range(9000)))[:-500]),
    ],
)
def test_an_error_is_the_one_that_threads_give(tmp_path: Path, name: str, data: bytes) -> None:
    (tmp_path / "good.jsonl").write_text('{"text": "good"}\n', encoding="utf-8")
    (tmp_path / name).write_bytes(data)
    told, others = [], set(psutil.Process().children(recursive=True))  # of other tests' fixtures
    for resources in (THREADS, BESIDE):
        run = tmp_path / resources.engine
        with pytest.raises(SourceError) as error:
            count(run, [str(tmp_path / "good.jsonl"), str(tmp_path / name)], resources=resources)
        told.append(str(error.value))
        assert not set(psutil.Process().children(recursive=True)) - others
        count(run, [str(tmp_path / "good.jsonl")], resources=resources)
    assert told[0] == told[1]


def test_a_source_is_cut_where_lines_and_row_groups_end(corpus: Path) -> None:
    data = (corpus / "a.jsonl").read_bytes()
    source = Source(str(corpus / "a.jsonl"), "jsonl", bytes=len(data))
    cuts = [stretch.stop for stretch in cut(source, (), 40_000, GPT4O)]
    assert len(cuts) > 10
    assert cuts[-1] is None
    assert all(data[place - 1 : place] == b"\n" for place in cuts[:-1])
    rest = list(cut(source, [(0, 100_000), (150_000, 200_000)], 40_000, GPT4O))
    assert rest[0].at == 100_000
    assert rest[0].stop is not None
    rows_ = Source(str(corpus / "d.parquet"), "parquet", bytes=(corpus / "d.parquet").stat().st_size)
    starts = _starts(corpus / "d.parquet")
    assert [s.stop for s in cut(rows_, (), 1, GPT4O)] == [*starts[1:-1], None]
    packed = Source(str(corpus / "c.jsonl.gz"), "jsonl", bytes=10**9)
    assert list(cut(packed, ((0, 10),), 1000, GPT4O)) == [Stretch(packed, ((0, 10),))]


def _hostile_csv(line_end: bytes) -> bytes:
    """Records with line breaks, commas and quotes inside quotes, a huge one, empty lines, invalid bytes."""
    odd = [
        b"plain",
        b'"quo""ted"',
        b'"two\nlines"',
        b'"three\r\n\r\nlines, and ""more"""',
        b'""',
        b"",
        b"\xff\xfe",
        "\ud55c".encode(),
    ]
    records = [b"%d,%s" % (i, odd[i % len(odd)]) for i in range(20_000)]
    records[7_000] = b'7,"' + b"large,\n" * 30_000 + b'"'
    records[9_000:9_000] = [b"", b""]
    return b"\xef\xbb\xbfid,text" + line_end + line_end.join(records)


def _hostile_text() -> bytes:
    """Everything that breaks splitters, bytes that are not UTF-8, and a giant line."""
    text = random_text(random.Random(5), 60_000).encode()
    return b"\xef\xbb\xbf" + text + b" \xff\xc3 bad \xe2\x82\n" + b"word " * 40_000 + text + b"\r\n  "


HOSTILE = {
    "lf.csv": _hostile_csv(b"\n"),
    "crlf.csv": _hostile_csv(b"\r\n"),
    "unpaired.csv": b"id,text\n" + b"1,a word\n" * 20_000 + b'2,5" pipe\n' * 20_000,
    "open.csv": b"id,text\n" + b"1,a word\n" * 20_000 + b'2,"never closed\n' * 3,
    "a.txt": _hostile_text(),
    "blank.txt": b" \n" * 90_000 + b"\t" * 90_000 + b"end",
    "letters.txt": "\u3042".encode() * 90_000,
    "lines.jsonl": b"\n\n".join(json.dumps({"text": "a line\n" * (i % 90)}).encode() for i in range(3000)),
}


_PATTERNS = ["gpt4o", "none", "whitespace", "script", OWN]


@pytest.mark.parametrize(
    ("name", "pattern"),
    [("lf.csv", "gpt4o"), *(long(*case) for case in list(itertools.product(HOSTILE, _PATTERNS))[1::3])],
)
def test_whatever_a_file_holds_its_stretches_are_the_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, pattern: str
) -> None:
    monkeypatch.setattr(worth.Processes, "here", lambda workers, memory, preload: Here(workers))
    source = written(tmp_path / name, HOSTILE[name])
    options = {"pattern": pattern, "sequences": True}
    ones = counted(tmp_path / "threads", source, THREADS, **options)
    assert counted(tmp_path / "tasks", source, BESIDE, **options) == ones
    run = Run(tmp_path / "tasks")
    threads = Run(tmp_path / "threads")
    assert documents_digest(run, order_parts(run, list_parts(run))) == documents_digest(
        threads, order_parts(threads, list_parts(threads))
    )
    whole = name in ("blank.txt", "letters.txt") or (pattern == "none" and name.endswith(".txt"))
    assert (len(list_parts(run)) == 1) == whole, "one task"


def _starts(path: Path) -> list[int]:
    found = [0]
    for group in range(pq.read_metadata(path).num_row_groups):
        found.append(found[-1] + pq.read_metadata(path).row_group(group).num_rows)
    return found


@pytest.mark.long
def test_who_counts_is_said_on_the_command_line(tmp_path: Path, corpus: Path, monkeypatch: Any) -> None:
    begun = []
    monkeypatch.setattr(
        worth.Processes, "here", lambda workers, memory, preload: begun.append(workers) or Here(workers)
    )
    for options in ((), ("--engine", "threads"), ("--engine", "processes", "--threads", 2)):
        run = tmp_path / str(len(options))
        cli("train", run, corpus / "a.jsonl", "--vocab-size", 300, *options)
        assert begun == [2] * (len(options) == 4)
    kept = find_work(Run(run), None)[1]
    assert kept is not None
    assert Resources.from_facts(kept).engine == "processes", "what `resume` goes on with"
    cli("resume", run, "--engine", "threads")


def test_an_engine_that_cannot_be_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--engine processes: iterator is a stream"):
        count_from_iterator(tmp_path / "run", ["a text"], engine="processes")
    with pytest.raises(UsageError, match="one of auto, threads, processes"):
        count_from_iterator(tmp_path / "run", ["a text"], engine="here")  # type: ignore[arg-type]
    assert not (tmp_path / "run").exists()
    tight = Resources(256 * 10**6, 8, engine="processes")
    assert 0 < workers_for(_files(("a.jsonl", 10**11)), find_pattern("gpt4o"), tight) < 8, "as many as have room"


def test_progress_is_told_once_whatever_is_cut(tmp_path: Path, corpus: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(worth.Processes, "here", lambda workers, memory, preload: Here(workers))
    with pytest.raises(Stopped):
        count(tmp_path, [str(corpus / "a.jsonl")], resources=BESIDE, stop=StopAfter(10))
    assert sum(part.total for part in list_parts(Run(tmp_path))) > 0
    count(tmp_path, [str(corpus / name) for name in ("a.jsonl", "b.txt")], resources=BESIDE)
    status = Run(tmp_path).read_status()
    assert status["done"] == status["total"] == sum((corpus / name).stat().st_size for name in ("a.jsonl", "b.txt"))


def workers_for(files: Sequence[Source], pattern: Pattern, resources: Resources) -> int:
    """How many processes count; 0: threads."""
    found = count_runner(files, pattern, resources, None)
    return found[0].workers if found else 0


def _files(*named: tuple[str, int]) -> Sequence[Source]:
    kinds = {"jsonl": "jsonl", "txt": "txt", "gz": "jsonl"}
    return [
        Source(f"/corpus/{i}-{name}", kinds[name.split(".")[-1]], bytes=size) for i, (name, size) in enumerate(named)
    ]


@pytest.mark.parametrize(
    ("named", "threads", "memory", "own", "wanted"),
    [
        ([("a.jsonl", 5 * 10**6)], 16, 8 * 10**9, False, 0),  # starting them would take longer
        ([("a.jsonl", 10**11)], 1, 8 * 10**9, False, 0),
        ([("a.jsonl", 10**11)], 2, 8 * 10**9, False, 0),  # the lock is free enough for two
        ([("a.jsonl", 10**11)], 16, 8 * 10**9, False, 16),
        ([("a.jsonl", 10**11)], 16, 512 * 10**6, False, 0),  # no room
        ([("a.txt", 10**11)], 16, 8 * 10**9, False, 0),  # a file that cannot be cut, and hardly takes the lock
        ([("a.jsonl.gz", 10**9)] * 100, 8, 8 * 10**9, False, 8),
        ([("a.jsonl.gz", 10**11)], 8, 8 * 10**9, False, 0),
        ([("a.jsonl", 10**10)], 8, 8 * 10**9, True, 8),
        ([], 8, 8 * 10**9, True, 0),
    ],
)
def test_processes_are_taken_where_they_pay(named: Any, threads: int, memory: int, own: bool, wanted: int) -> None:
    pattern = find_pattern(LEFT_TO_REGEX if own else "gpt4o")
    assert workers_for(_files(*named), pattern, Resources(memory, threads)) == wanted
    assert workers_for(_files(*named), pattern, Resources(memory, threads, engine="threads")) == 0
    assert workers_for([Source("-", "jsonl", is_stdin=True)], pattern, Resources(memory, threads)) == 0


@pytest.mark.long
@pytest.mark.parametrize(("workers", "sequences"), [(2, False), (4, True)])
def test_the_memory_of_all_processes_stays_within_the_limit(tmp_path: Path, workers: int, sequences: bool) -> None:
    """By a pattern of one's own, which takes most. In a process of its own: this one holds what tests left."""
    text = sample_text(3, words=200_000)
    lines = [json.dumps({"text": f"{i} {t}"}) + "\n" for i in range(15) for t in text.split("\n")]
    (tmp_path / "large.jsonl").write_text("".join(lines), encoding="utf-8")
    driver = Driver(
        run=tmp_path / "run", sources=[tmp_path / "large.jsonl"], engine="processes", threads=workers,
        memory=512 * 10**6, counting={"options": {"pattern": LEFT_TO_REGEX, "sequences": sequences}},
    )  # fmt: skip
    assert driver.end()[0] == 0
    status = Run(tmp_path / "run").read_status()
    assert status["peak_memory_bytes"] < 1.05 * 512 * 10**6
