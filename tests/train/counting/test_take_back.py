"""`count RUN --take-back SOURCE`: the counts are as if the source had never been counted."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from msgspec import structs

from streambpe.errors import CountUnfinished, RunError, SourceChanged, SourceError, Stopped, UsageError
from streambpe.inspect.check import check
from streambpe.resources import Resources
from streambpe.store.exchange import export_counts, merge_counts
from streambpe.store.groups import read_groups
from streambpe.store.parts import list_parts
from streambpe.store.run import Run
from streambpe.store.unfinished import read_record
from streambpe.train.commands import resume, train
from streambpe.train.counting.count import count, count_from_iterator, resume_count
from streambpe.train.counting.sizes import Sizes
from streambpe.train.counting.take_back import take_back
from tests.runs import SMALL, StopAfter, cli, cli_killed, rows, small_blocks
from tests.samples import natural_text, written
from tests.tiers import seeds
from tests.train.counting.test_count import corpus as every_kind
from tests.train.counting.test_ordered_parts import chunks_in_order

ONE = Resources(400 * 10**6, 1)


@pytest.fixture
def corpus(tmp_path, monkeypatch) -> dict[str, Path]:
    """A source of each kind, of several blocks each."""
    small_blocks(monkeypatch, 2000)
    found = {path.name: path for path in every_kind(tmp_path / "corpus")[0]}
    found["txt.txt"].write_bytes(found["txt.txt"].read_bytes() + "\N{BYTE ORDER MARK}é".encode() + b"\xff\xfe bad")
    return found


def exported(run: Path) -> bytes:
    """All counts of a run, and what it says of itself."""
    target = run.with_suffix(".csv")
    export_counts(run, target, force=True)
    facts = Run(run).facts()
    return target.read_bytes() + facts["corpus"].encode() + json.dumps(read_groups(Run(run))).encode()


def test_as_if_it_had_never_been_counted(tmp_path, corpus):
    """In one part with others, and of a group of its own."""
    how = {"group": ["one=*/txt.txt"], "group_by": "folder", "resources": ONE}
    name, *others = (str(corpus[name]) for name in ("txt.txt", *corpus.keys() - {"txt.txt"}))
    count(tmp_path / "all", [name, *others], **how)
    count(tmp_path / "without", others, **how)
    assert take_back(tmp_path / "all", [name], resources=ONE).taken_back == (name,)
    assert exported(tmp_path / "all") == exported(tmp_path / "without")
    assert rows(tmp_path / "all", "SELECT count(*) FROM sources WHERE path LIKE '%/txt.txt'") == [(0,)]
    (noted,) = json.loads(Run(tmp_path / "all").facts()["taken_back"])
    assert noted["path"] == name
    assert noted["text_bytes"] > 1000
    assert check(tmp_path / "all", resources=ONE) == []
    count(tmp_path / "all", [name], **how)
    count(tmp_path / "without", [name], **how)
    assert exported(tmp_path / "all") == exported(tmp_path / "without")


@pytest.mark.long
def test_in_any_order_and_of_merged_parts(tmp_path, corpus):
    """Some counted, some merged from another RUN, some taken back, by chance."""
    names = list(corpus.values())
    for seed in seeds(9):
        rng = random.Random(seed)
        rng.shuffle(names)
        cut = rng.randrange(1, len(names))
        one, two, run = (tmp_path / f"{what}{seed}" for what in ("one", "two", "run"))
        count(one, list(map(str, names[:cut])), resources=ONE)
        count(two, list(map(str, names[cut:])), resources=SMALL)
        merge_counts(run, [two, one], resources=SMALL)
        gone = rng.sample(names, rng.randrange(1, len(names) - 1))
        take_back(run, list(map(str, gone)), resources=ONE)
        kept = tmp_path / f"kept{seed}"
        count(kept, [str(path) for path in names if path not in gone], resources=SMALL)
        assert exported(run) == exported(kept), seed
        assert check(run, resources=ONE) == [], seed


def test_a_table_of_counts(tmp_path, corpus):
    """Its rows are subtracted."""
    count(tmp_path / "other", [str(corpus["txt.txt"])], resources=ONE)
    export_counts(tmp_path / "other", tmp_path / "table.parquet")
    for name in ("all", "without"):
        count(tmp_path / name, [str(corpus["txt.txt.gz"])], resources=ONE)
    count(tmp_path / "all", [str(tmp_path / "table.parquet")], counts=True, resources=ONE)
    merge_counts(tmp_path / "sum", [tmp_path / "all"], resources=ONE)  # in one part with the text
    take_back(tmp_path / "sum", [str(tmp_path / "table.parquet")], resources=ONE)
    assert exported(tmp_path / "sum") == exported(tmp_path / "without")


KILLS = ["counted", "recorded", "committed", "removed", "noted"]


@pytest.mark.long
@pytest.mark.parametrize("place", [*(f"take-back-{place}" for place in KILLS), "boundary:5", "boundary:15"])
def test_killed_and_given_again(tmp_path, corpus, place):
    """The same command, or `resume` where it had begun to subtract, ends it; nothing else is counted before. Documents
    too."""
    run, gone, kept = tmp_path / "run", corpus["txt.txt"], corpus["txt.txt.gz"]
    how = {"pattern": "boundless", "sequences": True, "resources": ONE}
    count(tmp_path / "without", [str(kept)], **how)
    if place == "take-back-removed":  # a part of its own: counted after the other
        count(run, [str(kept)], **how)
    count(run, [str(kept), str(gone)], **how)
    before = exported(run)
    cli_killed(place, "count", run, "--take-back", gone, "--memory", "400MB", "--threads", 1)
    if read_record(Run(run)).leaving:
        with pytest.raises(CountUnfinished, match=r"only a part of it is taken back.*--take-back"):
            count(run, [str(corpus["jsonl.jsonl"])], resources=ONE)
        with pytest.raises(CountUnfinished, match="only a part of it is taken back"):
            train(run, vocab_size=300, resources=ONE)
        with pytest.raises(CountUnfinished, match=r"only a part of it is taken back.*--take-back"):
            take_back(run, [str(kept)], resources=ONE)
        assert resume_count(run, resources=ONE).taken_back == (str(gone),)
    else:
        assert exported(run) == before or place == "take-back-removed"
        take_back(run, [str(gone)], resources=ONE)
    assert exported(run) == exported(tmp_path / "without")
    assert chunks_in_order(run) == chunks_in_order(tmp_path / "without")
    assert check(run, resources=ONE) == []
    assert not (run / "tmp").exists()
    assert not read_record(Run(run))
    again = take_back(run, [str(gone)], resources=ONE)
    assert again.warnings == (f"{gone} was taken back before.",)
    assert again.taken_back == ()


def test_a_source_that_an_error_ended(tmp_path, corpus):
    """What was counted of it before the bad line leaves; the run is whole again."""
    bad = written(tmp_path / "bad.jsonl", corpus["jsonl.jsonl"].read_bytes() * 3 + b"{\n")
    count(tmp_path / "without", [str(corpus["txt.txt.gz"])], resources=ONE)
    count(tmp_path / "run", [str(corpus["txt.txt.gz"])], resources=ONE)
    with pytest.raises(SourceError, match=r"bad\.jsonl"):
        count(tmp_path / "run", [str(bad)], resources=ONE)
    assert str(bad) in list_parts(Run(tmp_path / "run")).by_path
    take_back(tmp_path / "run", [str(bad)], resources=ONE)
    assert exported(tmp_path / "run") == exported(tmp_path / "without")
    assert "counting" not in {path.stem for path in (tmp_path / "run").iterdir()}
    train(tmp_path / "run", vocab_size=300, resources=ONE)
    assert resume(tmp_path / "run", resources=ONE).skipped


def test_what_is_refused(tmp_path, corpus):
    """Each in one sentence, and nothing changes."""
    run, gone, kept = tmp_path / "run", corpus["txt.txt"], corpus["txt.txt.gz"]
    count(run, [str(kept), str(gone)], resources=ONE)
    count_from_iterator(run, ["some text"], source_name="texts", resources=ONE)
    before = exported(run)
    old = gone.read_bytes()
    for changed in (old.replace(b"e", b"i"), old + b"more"):
        gone.write_bytes(changed)
        with pytest.raises(SourceChanged, match="no longer what was counted"):
            take_back(run, [str(gone)], resources=ONE)
    gone.write_bytes(old)
    for sources, error, told in (
        ([corpus["jsonl.jsonl"]], UsageError, "not counted it"),
        ([tmp_path / "nowhere.txt"], SourceError, "cannot be read"),
        (["texts"], UsageError, "cannot be read again"),
        ([gone.parent, "texts"], UsageError, "counted nothing else"),
    ):
        with pytest.raises(error, match=told):
            take_back(run, list(map(str, sources)), resources=ONE)
    with pytest.raises(Stopped, match="is as it was before"):
        take_back(run, [str(gone)], resources=ONE, stop=StopAfter(1))
    cli("count", run, kept, "--take-back", gone, expect=2)
    assert exported(run) == before
    with Run(run).lock(), Run(run).writing() as con:
        con.execute("UPDATE chunk_counts SET n = n + 1 WHERE chunk = ' the'")
    with pytest.raises(RunError, match="was edited"):
        take_back(run, [str(gone)], resources=ONE)


@pytest.mark.long
def test_a_source_that_begins_in_a_part_of_others_and_ends_in_its_own(tmp_path, monkeypatch):
    """Its front is in the part to be counted again, and nothing in between is missing. It was counted to its end then,
    and refused because the counts were others."""
    small_blocks(monkeypatch, 2000)
    first, second = (str(written(tmp_path / name, natural_text(i, 9000))) for i, name in enumerate(("a.txt", "b.txt")))
    count(tmp_path / "without", [first], resources=ONE)
    for size in range(6_000, 60_000, 3_000):  # of the table, until it is full inside the second
        sizes = structs.replace(Sizes.of(ONE), table=size)
        with monkeypatch.context() as patch:
            patch.setattr(Sizes, "of", lambda resources, sizes=sizes: sizes)
            run = tmp_path / f"run-{size}"
            count(run, [first, second], resources=ONE)
            parts = [part.spans.values("path") for part in list_parts(Run(run))]
            if [first, second] not in parts or [second] not in parts:
                continue
            take_back(run, [second], resources=ONE)
        assert exported(run) == exported(tmp_path / "without")
        return
    raise AssertionError("no table was full inside the second")
