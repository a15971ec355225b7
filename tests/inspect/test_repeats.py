"""`check --repeats` against a dictionary of all documents, however they were counted and wherever they stand."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path

import mmh3
import polars as pl
import pytest

from streambpe.inspect import repeats
from streambpe.inspect.check import check
from streambpe.inspect.repeats import Repeats
from streambpe.resources import Resources
from streambpe.store.exchange import merge_counts
from streambpe.train.counting.count import count, count_from_iterator
from tests.runs import cli, small_blocks

ONE = Resources(400 * 10**6, 1, engine="threads")
TEXTS = {
    "a.txt": [*(f"line {i % 40} é東" for i in range(60)), "end"],
    "b.jsonl": ["", "line 3 é東", "two\nlines", "", "mark \ufeff"],
    "c.parquet": ["two\nlines", "end", *(f"row {i}" for i in range(300)), "row 7", "cafe\u0301", "caf\u00e9"],
    "d.csv": ["row 7", "end", "alone"],
}


def write(folder: Path) -> list[str]:
    """The documents of TEXTS in four kinds of file."""
    folder.mkdir()
    (folder / "a.txt").write_bytes("\n".join(TEXTS["a.txt"]).encode())
    lines = "".join(json.dumps({"text": text}) + "\n" for text in TEXTS["b.jsonl"])
    (folder / "b.jsonl.gz").write_bytes(gzip.compress(lines.encode()))
    pl.DataFrame({"text": [*TEXTS["c.parquet"], None, None]}).write_parquet(folder / "c.parquet")
    (folder / "d.csv").write_text("id,text\n" + "".join(f'1,"{text}"\n' for text in TEXTS["d.csv"]))
    return [str(path) for path in sorted(folder.iterdir())]


def slow(files: list[str], of: int = 1) -> Repeats:
    """The slow meaning: what a dictionary holds when a document comes."""
    seen: dict[str, tuple[str, int]] = {}
    times, by_source = Counter[str](), Counter[str]()
    for path, texts in zip(files, TEXTS.values(), strict=True):
        mine = [text for text in texts if mmh3.hash64(text.encode(), signed=False)[0] * of < 2**64]
        for number, text in enumerate(mine, 1):
            times[text] += 1
            by_source[path] += text in seen
            seen.setdefault(text, (path, number))
    most = max(times.values())
    first = min(seen[text] for text, n in times.items() if n == most)
    return Repeats(times.total(), by_source.total(), dict(+by_source), most, first)


def found_in(run: Path, resources: Resources = ONE) -> Repeats:
    """What `check` finds in a run in which nothing is wrong."""
    checked = check(run, repeats=True, resources=resources)
    assert checked == []
    assert checked.repeats is not None
    return checked.repeats


@pytest.mark.parametrize("rows_at_once", [1 << 14, 7])
def test_what_a_dictionary_finds(tmp_path, monkeypatch, rows_at_once):
    """Also where a block holds few documents, and DuckDB is given few at a time."""
    small_blocks(monkeypatch, 300)
    monkeypatch.setattr(repeats, "_ROWS_AT_ONCE", rows_at_once)
    files = write(tmp_path / "in")
    want = slow(files)
    assert want.repeated > 20
    count(tmp_path / "run", files, lines=True, resources=ONE)
    assert found_in(tmp_path / "run") == want
    assert list((tmp_path / "run" / "tmp").glob("*")) == []
    count(tmp_path / "sample", files[::-1], lines=True, sample="1/2", normalize="nfc", resources=ONE)
    assert found_in(tmp_path / "sample") == slow(files, 2)


@pytest.mark.long
def test_files_that_are_one_document(tmp_path, monkeypatch):
    """In many blocks, with a mark at the front and bytes that are not UTF-8; a sample leaves some of them out."""
    small_blocks(monkeypatch, 700)
    (tmp_path / "in").mkdir()
    for name, text in {"a": "one", "b": "\ufeffone", "c": "on", "d": "", "e": "one", "f": ""}.items():
        (tmp_path / "in" / f"{name}.txt").write_bytes(text.encode() * 1 + (b" \xff more" * 900 if text else b""))
    count(tmp_path / "run", [str(tmp_path / "in")], bad_utf8="replace", resources=ONE)
    found = found_in(tmp_path / "run")
    assert (found.documents, found.repeated, found.most) == (6, 3, 3)
    assert found.first == (str(tmp_path / "in" / "a.txt"), 1)
    assert found.by_source == {str(tmp_path / "in" / f"{name}.txt"): 1 for name in "bef"}
    in_sample = mmh3.hash64(("one" + " \ufffd more" * 900).encode(), signed=False)[0] * 2 < 2**64
    count(tmp_path / "half", [str(tmp_path / "in")], bad_utf8="replace", sample="1/2", resources=ONE)
    assert found_in(tmp_path / "half").repeated == 1 + 2 * in_sample  # an empty one is in every sample


@pytest.mark.long
def test_what_is_told(tmp_path):
    """Of one source, of several, of none; what cannot be read again is named, and a changed source is a difference."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.jsonl").write_text('{"text": "the cat"}\n' * 3 + '{"text": "a dog"}\n')
    run = tmp_path / "run"
    count(run, [str(tmp_path / "in")], resources=ONE)
    told = cli("check", run, "--repeats").stderr.splitlines()
    a, b = tmp_path / "in" / "a.jsonl", tmp_path / "in" / "b.jsonl"
    assert told == [
        f"{run}: 2 of 4 documents (50.0 %) repeat an earlier one.",
        f"{run}: document 1 of {a} occurs most often: 3 times.",
        f"{run}: everything adds up.",
    ]
    b.write_text('{"text": "a dog"}\n' + '{"text": "a mouse"}\n')
    count(run, [str(tmp_path / "in")], resources=ONE)
    count_from_iterator(run, ["the cat"], resources=ONE)
    told = cli("check", run, "--repeats").stderr.splitlines()
    assert told[2] == f"{run}: the repeating ones are in {a} (2), {b} (1)."
    assert told[3].startswith(f"{run}: iterator: not compared, because only files")
    as_json = json.loads(cli("check", run, "--repeats", "--json").stdout)
    assert as_json["repeats"] == {
        "documents": 6,
        "repeated": 3,
        "by_source": {str(a): 2, str(b): 1},
        "most_often": {"source": str(a), "document": 1, "times": 3},
    }
    assert "repeats" not in json.loads(cli("check", run, "--json").stdout)
    a.write_text('{"text": "one cat"}\n' * 3 + '{"text": "a dog"}\n')
    changed = cli("check", run, "--repeats", expect=1)
    assert "is not what was counted" in changed.stdout
    assert f"{run}: no document occurs twice (2 documents were compared)." in changed.stderr
    assert f"{run}: {a}, iterator: not compared" in changed.stderr


@pytest.mark.long
def test_shards_threads_and_a_count_in_two_steps_are_told_the_same(tmp_path):
    files = write(tmp_path / "in")
    two = Resources(10**9, 2)
    count(tmp_path / "run", files[2:], resources=ONE)
    count(tmp_path / "run", files, lines=True, resources=two)
    for k in (2, 1):
        count(tmp_path / f"s{k}", files, lines=True, shard=f"{k}/2", resources=ONE)
    merge_counts(tmp_path / "all", [tmp_path / "s2", tmp_path / "s1"], resources=ONE)
    assert found_in(tmp_path / "run", two) == found_in(tmp_path / "all") == slow(files)
