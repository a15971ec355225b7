"""Counting: the table is a Counter of find-all over the documents, whatever happens on the way."""

from __future__ import annotations

import functools
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from msgspec import structs

from streambpe.arrays import MAX_COUNT
from streambpe.errors import (
    LimitError,
    RunError,
    SourceChanged,
    SourceError,
    Stopped,
    StreambpeError,
    UsageError,
)
from streambpe.inspect.check import check
from streambpe.resources import Resources
from streambpe.store.exchange import export_counts, merge_counts
from streambpe.store.parts import list_parts
from streambpe.store.run import Run
from streambpe.text.patterns import PRESETS, find_pattern
from streambpe.train.commands import train
from streambpe.train.counting import sizes
from streambpe.train.counting.count import count, count_from_iterator
from tests.hostile import random_text
from tests.oracles.splits import split_text
from tests.runs import ROOT, StopAfter, cli, killed_at, rows, small_blocks
from tests.samples import written
from tests.sources.test_sources import expected_documents, write
from tests.train.test_resume import wait_until

SMALL = Resources(256 << 20, 2)


def table_of(run: Path) -> dict[str, int]:
    return dict(rows(run, "SELECT chunk, n FROM chunk_counts"))


def tallies(texts: list[str], pattern: str = "gpt4o", **options) -> dict[str, int]:
    split = functools.partial(split_text, find_pattern(pattern, **options))
    return dict(Counter(chunk for text in texts for chunk in split(text)))


def corpus(folder: Path, seed: int = 1) -> tuple[list[Path], list[str]]:
    """Files of every format, and their documents."""
    rng = random.Random(seed)
    folder.mkdir(exist_ok=True)
    paths, documents = [], []
    for kind in ("txt", "jsonl", "csv", "parquet"):
        for suffix in ("", ".gz") if kind != "parquet" else ("",):
            texts = [random_text(rng, rng.choice([0, 30, 200])).replace("\ufeff", "") for _ in range(6)]
            texts.append("Plain words, more often: the cat and the dog. " * 20)
            paths.append(write(folder / f"{kind}.{kind}{suffix}", texts, kind))
            documents += expected_documents(texts, kind)
    return paths, documents


WAYS = [
    *({"pattern": name} for name in PRESETS),
    {"pattern": "gpt4o", "split_scripts": True},
    {"pattern": "word-level", "split_scripts": True},
    {"pattern": r"(\w+)|(?s:.)"},
    {"pattern": r"\d+|[A-Z]", "gaps": "keep"},
]


@pytest.mark.every(7)
@pytest.mark.parametrize("options", WAYS, ids=str)
def test_counts_are_a_counter_of_find_all(tmp_path, tiny_blocks, options):
    """Presets and regular expressions over every format, in many blocks and parts: the table is Python's Counter."""
    paths, documents = corpus(tmp_path / "in")
    result = count(tmp_path / "run", [str(p) for p in paths], **options, resources=SMALL)
    expected = tallies(documents, **options)
    assert table_of(tmp_path / "run") == expected
    assert result.corpus["documents"] == len(documents)
    assert result.corpus["chunks"] == sum(expected.values())
    assert result.corpus["distinct"] == len(expected)
    preset = PRESETS.get(options["pattern"])
    if preset is None or not preset.word_mark:  # its chunks are words with a mark, not stretches of the text
        assert result.corpus["bytes"] == sum(len(text.encode()) for text in documents)
    assert check(tmp_path / "run", sources=True, resources=SMALL) == []


def test_changed_content_is_refused_and_a_touched_file_is_not(tmp_path):
    """Other bytes under a counted name are refused, also of the same size; a new time stamp alone is nothing."""
    path = write(tmp_path / "a.txt", ["the cat sat"], "txt")
    table = written(tmp_path / "b.tsv", "word\t5\n")
    run = tmp_path / "run"
    count(run, [str(path)], resources=SMALL)
    before = count(run, [str(table)], counts=True, resources=SMALL).corpus
    for touched, options in ((path, {}), (table, {"counts": True})):
        os.utime(touched, ns=(1, 1))
        again = count(run, [str(touched)], resources=SMALL, **options)
        assert (again.skipped, again.corpus) == (1, before)
    for changed, content, options in (
        (path, "the dog sat", {}),
        (path, "longer than it was", {}),
        (table, "work\t5\n", {"counts": True}),
    ):
        changed.write_text(content)
        with pytest.raises(SourceChanged, match=changed.name):
            count(run, [str(changed)], resources=SMALL, **options)
    assert table_of(run) == {**tallies(["the cat sat"]), "word": 5}
    assert count(tmp_path / "run", [str(write(tmp_path / "c.txt", ["x"], "txt"))], resources=SMALL).counted == 1


def test_a_source_keeps_its_format_and_field(tmp_path):
    """Counted as one thing, a file is not skipped as if it had been counted as another."""
    path = written(tmp_path / "a.jsonl", '{"text": "one", "body": "two"}\n')
    run = tmp_path / "run"
    count(run, [str(path)], resources=SMALL)
    with pytest.raises(UsageError, match=r"a\.jsonl was counted"):
        count(run, [str(path)], format="txt", resources=SMALL)
    with pytest.raises(UsageError, match=r"a\.jsonl was counted"):
        count(run, [f"{path}:body"], resources=SMALL)


# Ended before the end


@pytest.mark.parametrize("ends", ["error", "stop", "late stop"])
def test_what_was_counted_before_the_end_is_kept_and_going_on_is_exact(tmp_path, tiny_blocks, ends):
    """A damaged source ends the count with its name, a stop with how to go on; the same command, the source mended,
    gives the unbroken result."""
    paths, documents = corpus(tmp_path / "in")
    run, names, bad, whole = tmp_path / "run", [str(p) for p in paths], paths[3], paths[3].read_bytes()
    if ends == "error":
        bad.write_bytes(b"this is no gzip file")
        for _ in range(2):
            with pytest.raises(SourceError, match=bad.name):
                count(run, names, resources=SMALL)
    else:
        with pytest.raises(Stopped, match="streambpe resume"):
            count(run, names, resources=SMALL, stop=StopAfter(6 if ends == "stop" else 12))
    assert 0 < sum(part.total for part in list_parts(Run(run))) < sum(tallies(documents).values())
    bad.write_bytes(whole)
    count(run, names, resources=SMALL)
    assert table_of(run) == tallies(documents)


# Bad input


def test_a_corpus_without_text_is_refused(tmp_path):
    """Empty files, empty iterators and null-only columns: an error that names them; beside text they are only told."""
    run = tmp_path / "run"
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.txt").write_bytes(b"")
    (tmp_path / "in" / "b.jsonl").write_bytes(b'{"text": null}\n')
    for _ in range(2):
        with pytest.raises(SourceError, match=r"no text: .*a\.txt, .*b\.jsonl"):
            count(run, [str(tmp_path / "in")], sequences=True, resources=SMALL)
    with pytest.raises(SourceError, match="no text: iterator"):
        count_from_iterator(run, [], resources=SMALL)
    assert check(run, resources=SMALL) == []
    with pytest.raises(RunError, match="holds no text"):
        train(run, vocab_size=300, resources=SMALL)
    (tmp_path / "in" / "c.txt").write_bytes(b"")
    (tmp_path / "in" / "d.txt").write_bytes(b"some words")
    result = count(run, [str(tmp_path / "in")], resources=SMALL)
    assert result.corpus["chunks"] == 2
    assert result.warnings == (f"no text is in {tmp_path / 'in' / 'c.txt'}.",)
    assert train(run, vocab_size=260, resources=SMALL).size == 260


@pytest.mark.long
def test_a_chunk_of_fifty_megabytes_is_counted_or_refused(tmp_path):
    """One chunk of 50 MB among ordinary text is counted right; with less memory it is refused by name."""
    path = written(tmp_path / "a.txt", b"x " + b"a" * 50_000_000 + b" y" * 10_000_000)
    with pytest.raises(LimitError, match="the limit is"):
        count(tmp_path / "run", [str(path)], resources=Resources(500_000_000, 2))
    count(tmp_path / "run", [str(path)], resources=Resources(1_320_000_000, 2))
    assert table_of(tmp_path / "run") == {"x": 1, " " + "a" * 50_000_000: 1, " y": 10_000_000}


# Iterators


def test_iterators_go_on_behind_what_was_counted(tmp_path, tiny_blocks):
    """Called again with the same documents nothing is added; with more, the new ones; with others, it is refused. An
    exception of the user's own comes through."""
    texts = [f"document {i} of some words " * 5 for i in range(100)]
    run = tmp_path / "run"

    def failing():
        yield from texts[:70]
        raise OSError("the network is gone")

    for attempt, stop in enumerate((40, 40, 100, 100)):
        if attempt == 2:
            with pytest.raises(OSError, match="network"):
                count_from_iterator(run, failing(), resources=SMALL)
        result = count_from_iterator(run, texts[:stop], resources=SMALL)
        assert result.corpus["documents"] == stop
        assert table_of(run) == tallies(texts[:stop])
    with pytest.raises(SourceChanged, match="has changed"):
        count_from_iterator(run, ["other", *texts[1:]], resources=SMALL)
    with pytest.raises(SourceError, match="gave 10 documents"):
        count_from_iterator(run, texts[:10], resources=SMALL)
    count_from_iterator(run, ["other"], source_name="second", resources=SMALL)
    assert table_of(run) == tallies([*texts, "other"])


# Count tables, export, merge


@pytest.mark.long
def test_a_count_table_becomes_parts_of_a_bounded_size(tmp_path, monkeypatch):
    """Each covers rows of its own; only the last says that the table ends with it. After a kill between two of them, or
    when one is lost, just the missing rows are counted. Every seventh chunk stands in each of them."""
    of = sizes.Sizes.of
    monkeypatch.setattr(sizes.Sizes, "of", lambda resources: structs.replace(of(resources), rows=1))
    run, expected = Run(tmp_path / "run"), Counter[str]()
    rows = [(f"w{i % 10_000 if i % 7 == 0 else i}", i % 5) for i in range(40_000)]
    table = written(tmp_path / "a.csv", "chunk,count\n" + "".join(f"{chunk},{n}\n" for chunk, n in rows))
    for chunk, n in rows:
        expected[chunk] += n
    with killed_at("part-committed:2"):
        count(run.path, [str(table)], counts=True, resources=SMALL)
    assert len(list_parts(run)) == 2
    for _ in range(2):
        count(run.path, [str(table)], counts=True, resources=SMALL)
        assert table_of(run.path) == +expected
        assert check(run.path) == []
        spans = sorted((s.start_at, s.stop_at, s.state) for s in list_parts(run).spans)
        assert spans == [(0, 16_384, "part"), (16_384, 32_768, "part"), (32_768, 40_000, "last")]
        list_parts(run)[1].path.unlink()


def test_a_table_of_another_pattern_is_refused(tmp_path):
    """A BatchBPE table names its pattern in the last row; another than the run's is refused, nothing is added."""
    for name, pattern, fits in (("a", PRESETS["gpt4"].expression, True), ("b", PRESETS["gpt2"].expression, False)):
        path = written(tmp_path / f"{name}.csv", "chunk,count\nthe,5\n" + '"' + pattern.replace('"', '""') + '",0\n')
        if fits:
            count(tmp_path / "run", [str(path)], counts=True, pattern="gpt4", resources=SMALL)
        else:
            with pytest.raises(UsageError, match="pattern"):
                count(tmp_path / "run", [str(path)], counts=True, resources=SMALL)
    assert table_of(tmp_path / "run") == {"the": 5}


def test_counts_beyond_64_bits_are_refused(tmp_path):
    """Near 2^62 counts are exact; a table that would pass 2^63-1 is refused before it is added, and one whose chunks
    could be counted, but not their bytes."""
    run = tmp_path / "run"
    half = 2**62 - 1
    for name, row in {"0": f"t\t{half}", "1": f"t\t{half}", "more": "t\t3", "bytes": f"the\t{2**62}"}.items():
        (tmp_path / f"{name}.tsv").write_text(row + "\n")
    with pytest.raises(StreambpeError, match="bytes, more than a 64-bit count"):
        count(run, [str(tmp_path / "bytes.tsv")], counts=True, resources=SMALL)
    for i in range(2):
        result = count(run, [str(tmp_path / f"{i}.tsv")], counts=True, resources=SMALL)
        assert result.corpus["chunks"] == result.corpus["bytes"] == half * (i + 1)
    with pytest.raises(StreambpeError, match=str(MAX_COUNT)):
        count(run, [str(tmp_path / "more.tsv")], counts=True, resources=SMALL)
    assert table_of(run) == {"t": 2 * half}
    assert check(run, resources=SMALL) == [], "the run is as it was before"
    (tmp_path / "one.tsv").write_text("t\t1\n")
    assert count(run, [str(tmp_path / "one.tsv")], counts=True, resources=SMALL).corpus["chunks"] == 2**63 - 1


@pytest.mark.long
@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_exported_counts_come_back_exactly(tmp_path, suffix):
    """Exported and read again, hostile chunks and large counts are the same table and the same digest."""
    paths, _ = corpus(tmp_path / "in")
    (tmp_path / "big.tsv").write_text("t\t4611686018427387904\n")
    count(tmp_path / "a", [str(p) for p in paths], resources=SMALL)
    before = count(tmp_path / "a", [str(tmp_path / "big.tsv")], counts=True, resources=SMALL).corpus
    out = tmp_path / f"counts.{suffix}"
    assert export_counts(tmp_path / "a", out) == before["distinct"]
    after = count(tmp_path / "b", [str(out)], counts=True, resources=SMALL).corpus
    assert table_of(tmp_path / "b") == table_of(tmp_path / "a")
    assert after["sha256"] == before["sha256"]
    if suffix == "parquet":
        assert after == before
    with pytest.raises(UsageError, match="pattern"):
        count(tmp_path / "c", [str(out)], counts=True, pattern="gpt2", resources=SMALL)


@pytest.mark.long
def test_runs_that_do_not_add_up_are_refused(tmp_path, monkeypatch):
    """Another pattern, a sum beyond 64 bits, or a source that was counted in other blocks: refused, and the target is
    as it was."""
    names = [str(path) for path in corpus(tmp_path / "in")[0]]
    for name, pattern, n in (("a", "gpt4o", 2**62), ("b", "gpt4o", 2**62), ("c", "gpt2", 1)):
        (tmp_path / f"{name}.tsv").write_text(f"t\t{n}\n")
        count(tmp_path / name, [str(tmp_path / f"{name}.tsv")], counts=True, pattern=pattern, resources=SMALL)
    count(tmp_path / "a", names, resources=SMALL)
    small_blocks(monkeypatch, 1000)
    count(tmp_path / "blocks", names[1:2], resources=SMALL)
    merge_counts(tmp_path / "all", [tmp_path / "a"], resources=SMALL)
    before = table_of(tmp_path / "all")
    for other, told in (("b", str(MAX_COUNT)), ("c", "pattern gpt2"), ("blocks", "twice")):
        with pytest.raises(StreambpeError, match=told):
            merge_counts(tmp_path / "all", [tmp_path / other], resources=SMALL)
    assert table_of(tmp_path / "all") == before


@pytest.mark.long
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signals_end_with_their_code_and_the_command(tmp_path, number, code):
    """Ctrl-C and SIGTERM commit, print how to go on, exit 130 and 143; going on gives the unbroken digest."""
    run, text = tmp_path / "run", "".join(f"line {i} of the stream\n" for i in range(60_000))
    given = ["count", run, "-", "--memory", "300MB", "--progress", "none", "--lines"]
    command = [sys.executable, "-m", "streambpe", *map(str, given)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT) as child:
        assert child.stdin is not None
        child.stdin.write(text[: len(text) // 2])
        child.stdin.flush()
        wait_until((run / "status.json").exists)
        child.send_signal(number)
        time.sleep(0.3)
        _, message = child.communicate(timeout=60)
    assert child.returncode == code, message
    assert "giving the stream again, with the same command" in message
    assert "Traceback" not in message
    cli(*given, input=text)
    unbroken = count(tmp_path / "unbroken", [str(written(tmp_path / "a.txt", text))], lines=True, resources=SMALL)
    assert json.loads(Run(run).facts()["corpus"]) == unbroken.corpus
