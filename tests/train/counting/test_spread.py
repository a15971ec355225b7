"""Counting by tasks: the same tables as by threads, whoever runs the tasks and whatever dies on the way."""

from __future__ import annotations

import gzip
import itertools
import json
import random
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from streambpe.errors import SourceError, Stopped, UsageError
from streambpe.store.documents import documents_digest
from streambpe.store.parts import list_parts
from streambpe.store.run import Run
from streambpe.store.sequences import order_parts
from streambpe.text.patterns import find_pattern
from streambpe.train.counting import committer, spread, tasks
from streambpe.train.counting.count import count, count_from_iterator
from tests.driver import RESOURCES
from tests.hostile import random_text
from tests.runners.tasks import Dying, die_at, instead_of_ray
from tests.runs import Driver, StopAfter, small_blocks
from tests.samples import sample_text, written
from tests.tiers import long
from tests.train.counting.counted import THREADS, Tables, counted, write_lines
from tests.train.counting.test_count import corpus as every_kind

OWN = r"\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+|\s+"
LEFT_TO_REGEX = OWN + r"|\b\W"
GPT4O = find_pattern("gpt4o")
ON_RAY = replace(THREADS, engine="ray")
GROUPS = ["rows=**/d.parquet", "small=small"]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sources of every kind, and three that are cut."""
    folder = tmp_path_factory.mktemp("corpus")
    texts = write_lines(folder)
    pq.write_table(pa.table({"text": texts}), folder / "d.parquet", row_group_size=len(texts) // 7)
    every_kind(folder / "small")
    return folder


@pytest.fixture(autouse=True)
def _many_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    instead_of_ray(monkeypatch)
    monkeypatch.setattr(spread, "_LEAST_TASK", 50_000)


@pytest.fixture(scope="module")
def expected(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Tables:
    """What threads count."""
    return counted(tmp_path_factory.mktemp("threads"), corpus, THREADS, group=GROUPS)


@pytest.mark.long
@pytest.mark.parametrize("sequences", [long(False), True])
def test_tasks_in_threads_with_many_parts_each(
    tmp_path: Path, corpus: Path, expected: Tables, monkeypatch: pytest.MonkeyPatch, sequences: bool
) -> None:
    """Small blocks, and a commit after each."""
    small_blocks(monkeypatch, 20_000, committing=True)
    assert counted(tmp_path, corpus, ON_RAY, sequences=sequences, group=GROUPS) == expected


@pytest.mark.long
@pytest.mark.parametrize(("place", "sequences"), [("written", False), ("begun", True), ("committed", True)])
def test_a_worker_is_lost_in_every_task(
    tmp_path: Path, corpus: Path, expected: Tables, monkeypatch: pytest.MonkeyPatch, place: str, sequences: bool
) -> None:
    instead_of_ray(monkeypatch, Dying)
    die_at(monkeypatch, f"attempt-0-{place}", tasks, committer)
    assert counted(tmp_path, corpus, ON_RAY, sequences=sequences, group=GROUPS) == expected


def test_a_stop_is_kept_and_gone_on_from(tmp_path: Path, corpus: Path) -> None:
    """Progress is neither lost nor told twice."""
    source = corpus / "a.jsonl"
    with pytest.raises(Stopped, match="kept"):
        counted(tmp_path / "tasks", source, ON_RAY, stop=StopAfter(10))
    assert list_parts(Run(tmp_path / "tasks"))
    assert counted(tmp_path / "tasks", source, ON_RAY) == counted(tmp_path / "threads", source, THREADS)


@pytest.mark.long
def test_a_document_too_large_for_a_worker_is_counted_here(tmp_path: Path) -> None:
    source = tmp_path / "large.jsonl"
    word = "abcdefgh " * 2_000_000
    source.write_text("".join(json.dumps({"text": t}) + "\n" for t in ("before", word, "behind")), encoding="utf-8")
    ones = counted(tmp_path / "threads", source, THREADS)
    assert counted(tmp_path / "tasks", source, ON_RAY) == ones


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("bad.jsonl", b'{"text": "good"}\n' * 9000 + b'{"text": 7}\n' + b'{"text": "good"}\n' * 9000),
        ("none.jsonl", b"\x00\x01\xff\xfe" * 100_000),
        ("short.jsonl.gz", gzip.compress(b"".join(b'{"text": "%d"}\n' % (i * i) for i in range(9000)))[:-500]),
    ],
)
def test_an_error_is_the_one_that_threads_give(tmp_path: Path, name: str, data: bytes) -> None:
    (tmp_path / "good.jsonl").write_text('{"text": "good"}\n', encoding="utf-8")
    (tmp_path / name).write_bytes(data)
    told = []
    for resources in (THREADS, ON_RAY):
        run = tmp_path / resources.engine
        with pytest.raises(SourceError) as error:
            count(run, [str(tmp_path / "good.jsonl"), str(tmp_path / name)], resources=resources)
        told.append(str(error.value))
        count(run, [str(tmp_path / "good.jsonl")], resources=resources)
    assert told[0] == told[1]


def _hostile_csv(line_end: bytes) -> bytes:
    """Records with line breaks, commas and quotes inside quotes, a huge one, empty lines, invalid bytes."""
    odd = [b"plain", b'"quo""ted"', b'"two\nlines"', b'"three\r\n\r\nlines, and ""more"""', b'""', b"", b"\xff\xfe"]
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
    source = written(tmp_path / name, HOSTILE[name])
    options = {"pattern": pattern, "sequences": True}
    ones = counted(tmp_path / "threads", source, THREADS, **options)
    assert counted(tmp_path / "tasks", source, ON_RAY, **options) == ones
    run = Run(tmp_path / "tasks")
    threads = Run(tmp_path / "threads")
    assert documents_digest(run, order_parts(run, list_parts(run))) == documents_digest(
        threads, order_parts(threads, list_parts(threads))
    )
    whole = name in ("blank.txt", "letters.txt") or (pattern == "none" and name.endswith(".txt"))
    assert (len(list_parts(run)) == 1) == whole, "one task"


def test_an_engine_that_cannot_be_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--engine ray: iterator is a stream"):
        count_from_iterator(tmp_path / "run", ["a text"], engine="ray")
    with pytest.raises(UsageError, match="one of threads, ray"):
        count_from_iterator(tmp_path / "run", ["a text"], engine="here")  # type: ignore[arg-type]
    assert not (tmp_path / "run").exists()


@pytest.mark.long
@pytest.mark.parametrize("sequences", [False, True])
def test_memory_stays_within_the_limit(tmp_path: Path, sequences: bool) -> None:
    """By a pattern left to `regex`, which takes most. In a process of its own: this one holds what tests left."""
    text = sample_text(3, words=200_000)
    lines = [json.dumps({"text": f"{i} {t}"}) + "\n" for i in range(6) for t in text.split("\n")]
    (tmp_path / "large.jsonl").write_text("".join(lines), encoding="utf-8")
    counting = {"options": {"pattern": LEFT_TO_REGEX, "sequences": sequences}}
    driver = Driver(run=tmp_path / "run", sources=[tmp_path / "large.jsonl"], counting=counting)
    assert driver.end()[0] == 0
    assert Run(tmp_path / "run").read_status()["peak_memory_bytes"] < 1.05 * RESOURCES.memory_bytes
