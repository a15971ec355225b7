"""`plan`: the sample and the growth against counting; the forecast's figures against each other. Never the time."""

from __future__ import annotations

import gzip
import json
import random
import subprocess
import sys
import tracemalloc
from dataclasses import fields, replace
from pathlib import Path
from unittest.mock import Mock

import mmh3
import polars as pl
import pytest
from backports import zstd
from msgspec import structs

from streambpe.config import TrainConfig
from streambpe.count_config import CountConfig, SourceOptions
from streambpe.errors import SourceError, Stopped, UsageError
from streambpe.inspect.forecast import Forecast, Grown, Growth
from streambpe.inspect.plan import Plan, grow, plan
from streambpe.inspect.rehearsal import Rehearsal
from streambpe.inspect.sample import SUBSETS, WINDOW_BYTES, draw_windows, writing_sample
from streambpe.resources import Resources
from streambpe.sources.find import find_sources
from streambpe.store.passes import PassRow
from streambpe.text.patterns import find_pattern
from streambpe.train.counting.count import count
from streambpe.train.fitting import memory_for
from tests.oracles.splits import split_text
from tests.runs import SMALL, Enough, StopAfter, cli, rows
from tests.samples import json_lines, written

GPT4 = find_pattern("gpt4")
OPTIONS = {"options": {"pattern": "gpt4"}}


def lines(many: int, seed: int = 0) -> list[str]:
    """Words that go on being new."""
    rng = random.Random(seed)
    return [" ".join(f"word{int(rng.paretovariate(0.6)) % 10**9}" for _ in range(12)) for _ in range(many)]


@pytest.fixture(scope="module")
def large(tmp_path_factory) -> Path:
    """Twenty windows of JSON lines, not quite."""
    path = Path(json_lines(tmp_path_factory.mktemp("large") / "x.jsonl", lines(60_000)))
    assert path.stat().st_size > 15 * WINDOW_BYTES
    return path


def test_every_byte_of_a_small_corpus_is_in_one_window(tmp_path):
    """If there are few; of an endless line, which is cut anywhere, windows are small."""
    text = written(tmp_path / "x.txt", "\n".join(lines(9000)))
    endless = written(tmp_path / "y.txt", "é" * 4 * 10**6)
    drawn = {}
    for path in (text, endless):
        windows = draw_windows(find_sources([str(path)])[0], SUBSETS * WINDOW_BYTES, GPT4)
        drawn[path] = [block.data for block, _ in windows]
    assert b"".join(drawn[text]) == text.read_bytes()
    assert len(drawn[endless]) >= SUBSETS
    assert max(map(len, drawn[endless])) <= 2 * WINDOW_BYTES


def test_files_like_those_of_the_corpus(tmp_path):
    """Every format and compression: counting the sample of a small corpus is counting the corpus. With a cut-off places
    are only of the rest."""
    texts = lines(200)
    folder = tmp_path / "in"
    folder.mkdir()
    written(folder / "a.txt", "\n".join(texts))
    as_json = "".join(json.dumps({"body": text}) + "\n" for text in texts).encode()
    (folder / "b.jsonl.gz").write_bytes(gzip.compress(as_json))
    (folder / "c.jsonl.zst").write_bytes(zstd.compress(as_json))
    (folder / "d.csv").write_text("id,body\n" + "".join(f'{i},"{text}, ""and"""\n' for i, text in enumerate(texts)))
    pl.DataFrame({"n": range(200), "body": texts}).write_parquet(folder / "e.parquet", row_group_size=50)
    sources, _ = find_sources([str(folder)], SourceOptions(text_column="body"))
    (tmp_path / "sample").mkdir()
    config = TrainConfig(freq_cutoff=3)
    files, grown = grow(sources, 10**9, GPT4, CountConfig(pattern="gpt4"), config, tmp_path / "sample")
    assert len(files) == 5
    assert grown.share == 1.0
    wanted = count(tmp_path / "run", [str(folder)], resources=SMALL, counting={**OPTIONS, "text_column": "body"}).corpus
    counted = count(tmp_path / "again", files, resources=SMALL, counting=OPTIONS).corpus
    assert counted == wanted
    assert grown.distinct.seen[-1] == wanted["distinct"]
    query = "SELECT sum(strlen(chunk) + 1)::INT FROM chunk_counts WHERE n >= 3 AND strlen(chunk) > 1"
    assert rows(tmp_path / "run", query) == [(grown.places.seen[-1],)]
    table = [source for source in sources if source.kind == "parquet"]  # of these, the documents of the sample
    half = CountConfig(pattern="gpt4", sample="1/2")
    _, grown = grow(table, 10**9, GPT4, half, config, tmp_path / "sample")
    chosen = [text for text in texts if mmh3.hash64(text.encode(), signed=False)[0] < 2**63]
    assert grown.distinct.seen[-1] == len({chunk for text in chosen for chunk in split_text(GPT4, text)})


def test_too_many_chunks_are_followed_by_a_part_of_them(tmp_path, monkeypatch):
    """`plan --memory 256MB` of SCRIPT held all chunks of its sample sixteen times: 1.49 of the limit."""
    path = written(tmp_path / "x.txt", "\n".join(f"word{number} other{number // 3}" for number in range(30_000)))
    sources, words = find_sources([str(path)])[0], find_pattern("whitespace")
    found = []
    for most in (10**6, 20_000):
        monkeypatch.setattr("streambpe.inspect.plan._MOST_FOLLOWED", most)
        found.append(grow(sources, 10**9, words, CountConfig(pattern="whitespace"), TrainConfig(), tmp_path)[1])
    exact, part = found
    assert part.distinct.seen != exact.distinct.seen
    assert part.distinct.seen == pytest.approx(exact.distinct.seen, rel=0.1)
    assert part.places.seen == pytest.approx(exact.places.seen, rel=0.1)


def test_growth_goes_on():
    """A power law exactly; one that slows down further below it; nothing new, nothing more."""
    law = Growth(tuple(100 * k**0.6 for k in (1, 2, 4, 8, 16)))
    assert law.at(10) == pytest.approx(100 * 160**0.6)
    assert law.at(3 / 16) == pytest.approx(100 * 3**0.6, rel=0.01)
    slows = Growth(tuple(100 * k**b for k, b in ((1, 0.6), (2, 0.6), (4, 0.58), (8, 0.56), (16, 0.54))))
    assert slows.seen[-1] < slows.at(10) < slows.seen[-1] * 10**0.54
    assert Growth((5.0,) * 5).at(100) == pytest.approx(5)


def test_a_corpus_as_small_as_its_sample(tmp_path, monkeypatch):
    """It is refused unless asked for, since training hardly takes longer; a quarter of it is enough with superwords.
    What is sampled whole is known exactly; the figures belong together; nothing is left behind."""
    source = written(tmp_path / "x.txt", "\n".join(lines(3000)))
    refused = cli("plan", source, "--vocab-size", 300, "--json", expect=2).stderr
    assert "Nothing was planned. Train, or plan all the same with --rehearse 32MB." in refused
    monkeypatch.setattr("streambpe.inspect.plan._LEAST_BYTES", 3 * source.stat().st_size)
    tell = Mock(side_effect=Enough)  # the plan ends there
    for superwords, ends in (("none", UsageError), ("superbpe", Enough)):
        with pytest.raises(ends):
            plan([str(source)], vocab_size=300, resources=SMALL, superwords=superwords, tell=tell)
    tell.assert_called_once_with("reading 228 KB of 228 KB, and training on it")
    (tmp_path / "tmp").mkdir()
    resources = replace(SMALL, temp_dir=tmp_path / "tmp")
    made = plan([str(source)], vocab_size=400, counting=OPTIONS, resources=resources, rehearse="32MB")
    corpus = count(tmp_path / "run", [str(source)], resources=SMALL, counting=OPTIONS).corpus
    assert (made.sources, made.source_bytes, made.read_share) == (1, source.stat().st_size, 1.0)
    assert [made.text_bytes, made.chunks, made.distinct] == [corpus[key] for key in ("bytes", "chunks", "distinct")]
    query = "SELECT sum(strlen(chunk) + 1)::BIGINT FROM chunk_counts WHERE strlen(chunk) > 1"
    ((places,),) = rows(tmp_path / "run", query)
    assert abs(made.places - places) <= 2
    assert made.seconds == pytest.approx(sum(made.stage_seconds.values()), abs=0.1)
    assert set(made.stage_seconds) >= {"start", "counting", "folding", "words", "learning", "writing"}
    assert made.disk_bytes >= made.disk_left_bytes > 0
    assert made.learns_in_memory
    assert made.memory_suits_bytes >= memory_for(made.places)
    assert list((tmp_path / "tmp").iterdir()) == []


@pytest.mark.long
def test_the_command(tmp_path, large):
    """As lines and as JSON; what does not hang on the machine is the same both times."""
    options = (large, "--vocab-size", 400, "--pattern", "gpt4", "--rehearse", "1MB", "--memory", "256MB")
    shown = cli("plan", *options).stdout.splitlines()
    assert [line.split()[0] for line in shown[:6]] == ["corpus", "chunks", "time", "memory", "disk", "suits"]
    made = json.loads(cli("plan", *options, "--json").stdout)
    assert list(made) == [f.name for f in fields(Plan)]
    assert f"{made['distinct']:,} distinct" in shown[1]
    assert f"{made['read_share']:.1%} of it read" in shown[0]
    corpus = count(tmp_path / "run", [str(large)], resources=SMALL, counting=OPTIONS).corpus
    assert made["distinct"] == pytest.approx(corpus["distinct"], rel=0.1)
    assert made["text_bytes"] == pytest.approx(corpus["bytes"], rel=0.05)


def test_what_is_drawn_from_a_compressed_file_is_not_held(tmp_path):
    """`plan --memory 256MB` of 100 MB that zstd made 23 MB of took 404 MB: all of the text was held, and copied."""
    path = written(tmp_path / "x.txt.zst", zstd.compress(b"all of it is held\n" * 10**6))
    (source,), copy = find_sources([str(path)])[0], tmp_path / "copy"
    tracemalloc.start()
    with writing_sample(source, copy) as write:
        for block, _ in draw_windows([source], 10**9, GPT4):
            write(block)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 6 * 10**6
    assert zstd.decompress(copy.read_bytes()) == zstd.decompress(path.read_bytes())


@pytest.mark.long
def test_the_rehearsal_does_not_stand_beside_what_the_sample_took(large):
    """`plan --memory 256MB` took 342 MB: the rehearsal's own, and 144 MB of a process that only waited for it."""
    code = """
import os, sys
from streambpe.resources import Resources, prepare_allocators
prepare_allocators(256 * 10**6)
from streambpe.inspect import plan
from streambpe.system import anonymous_bytes
def rehearse(*given, **more):
    print(anonymous_bytes(os.getpid()) - before)
    sys.exit()
plan.train_on_it = rehearse
before = anonymous_bytes(os.getpid())
plan.plan([sys.argv[1]], resources=Resources(256 * 10**6, 2), rehearse="32MB")
"""
    told = subprocess.run([sys.executable, "-c", code, str(large)], capture_output=True, text=True, check=True)
    assert int(told.stdout) < 25 * 10**6


@pytest.mark.long
def test_superwords_are_rehearsed_with_documents(tmp_path):
    """Documents are stored, and the forecast says that it is rough."""
    source = written(tmp_path / "x.txt", "\n".join(lines(500)))
    how = {**OPTIONS, "lines": True}
    made = plan([str(source)], vocab_size=400, superwords="boundless", counting=how, resources=SMALL, rehearse="32MB")
    assert {"neighbours", "runs", "superwords"} <= set(made.stage_seconds)
    assert any("rough" in note for note in made.notes)


def test_learning_from_disk_is_foretold():
    """With little memory the rehearsal gets less by as much, and its time is carried on in proportion."""
    grown = Grown(0.1, *(Growth(tuple(100 * k**0.5 for k in (1, 2, 4, 8, 16))),) * 2, 20.0)
    batch = PassRow(events=10, seconds=1.0, executed=10, places=20_000_000, memory_bytes=3 * 10**8)
    told = Rehearsal(
        seconds=4.0, stages={"counting": 1.0, "learning": 2.0}, batches=[batch],
        peak_disk_bytes=30, end_disk_bytes=10, word_bytes=10, peaks={"words": 10**8, "learning": 2 * 10**8},
    )  # fmt: skip
    little, much = Resources(10**9, 2), Resources(8 * 10**9, 2)
    slow, fast = (Forecast(grown, told, given) for given in (little, much))
    slow.learner = structs.replace(
        told,
        stages={"learning": 5.0},
        peaks={"words": 10**8, "learning": 9 * 10**8},
        peak_disk_bytes=100,
        end_disk_bytes=10,
    )
    assert (slow.in_memory, fast.in_memory) == (False, True)
    assert slow.stage_seconds()["learning"] == pytest.approx(5 * 10**0.5, abs=0.01)
    assert slow.memory_bytes() == little.memory_bytes
    assert fast.memory_bytes() == pytest.approx(10**8 + 3 * 10**8 * 10**0.5, rel=1e-6)
    assert slow.disk_bytes() > fast.disk_bytes()
    assert little.memory_bytes < slow.suitable_memory() == fast.suitable_memory()
    assert slow.less_memory() < little.memory_bytes


def test_what_cannot_be_planned_is_said(tmp_path):
    """No text, a bad line, a stream, a table, weights, options that train refuses; a stop."""
    bad, text = '{"text": "a"}\nnot json\n', str(tmp_path / "x.txt")
    for name, content in (("empty.txt", ""), ("bad.jsonl", bad), ("x.txt", "some text")):
        written(tmp_path / name, content)
    for source, options, why in (
        ("empty.txt", {}, "hold no text"),
        ("bad.jsonl", {}, "line 2 is not JSON"),
        ("x.txt", {"counting": {"counts": True}}, "--counts"),
        ("x.txt", {"weight": ["de=2"]}, "--weight"),
        ("x.txt", {"resources": replace(SMALL, temp_dir=tmp_path / "gone")}, "is no folder"),
        ("x.txt", {"stop": StopAfter(0)}, "keeps nothing"),
        ("-", {}, "Standard input can be read only once"),
    ):
        given = source if source == "-" else str(tmp_path / source)
        with pytest.raises((UsageError, SourceError, Stopped), match=why):
            plan([given], **{"resources": SMALL, "rehearse": "32MB", **options})
    assert "SOURCE is missing" in cli("plan", expect=2).stderr
    assert "--vocab-size 5" in cli("plan", text, "-s", 5, expect=2).stderr
