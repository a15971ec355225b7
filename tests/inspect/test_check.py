"""`check` finds every row that was changed, deleted or added, in every derived table."""

from __future__ import annotations

import shutil
from pathlib import Path

import duckdb
import numpy as np
import polars as pl
import pytest

from streambpe.inspect.check import check
from streambpe.resources import Resources
from streambpe.store import sequences
from streambpe.store.parts import list_parts
from streambpe.store.run import Run
from streambpe.train.counting.count import count
from tests.samples import written

SMALL = Resources(300 << 20, 2)
B = "the end of it all, the end"


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """A folder with two files and a run with sequences over them, to copy."""
    folder = tmp_path_factory.mktemp("made")
    for name, text in (("a.txt", "the cat and the dog\n"), ("b.txt", B)):
        count(folder / "run", [str(written(folder / name, text))], sequences=True, resources=SMALL)
    return folder


@pytest.fixture
def counted(made, tmp_path) -> Path:
    """A run with sequences over two files."""
    return Path(shutil.copytree(made / "run", tmp_path / "run"))


CORPUS = """UPDATE run SET value = regexp_replace(value, '("{}": "?)', '\\19') WHERE key = 'corpus'"""  # begins with 9


@pytest.mark.every(4)
@pytest.mark.parametrize(
    ("table", "damage"),
    [
        ("chunk_counts", "UPDATE chunk_counts SET n = n + 1 WHERE chunk = ' the'"),
        ("chunk_counts", "UPDATE chunk_counts SET chunk = 'thy' WHERE chunk = 'the'"),
        ("chunk_counts", "DELETE FROM chunk_counts WHERE chunk = ' end'"),
        ("chunk_counts", "INSERT INTO chunk_counts VALUES ('new', 1)"),
        ("chunk_counts", "INSERT INTO chunk_counts SELECT * FROM chunk_counts WHERE chunk = 'the'"),
        ("chunk_counts", "INSERT INTO chunk_counts VALUES ('the', 0)"),
        ("sources", "UPDATE sources SET documents = 9 WHERE path LIKE '%a.txt'"),
        ("sources", "UPDATE sources SET digest = 'x' WHERE path LIKE '%b.txt'"),
        ("sources", "DELETE FROM sources WHERE path LIKE '%a.txt'"),
        ("sources", "INSERT INTO sources SELECT * REPLACE ('other' AS path) FROM sources LIMIT 1"),
        *(("corpus", CORPUS.format(fact)) for fact in ("documents", "chunks", "bytes", "distinct", "sha256")),
        ("corpus", "DELETE FROM run WHERE key = 'corpus'"),
    ],
)
def test_a_damaged_table_is_found_and_filled_again(counted, table, damage):
    """The problem names the table; counting without sources fills the tables from the committed parts."""
    with duckdb.connect(str(counted / "state.duckdb")) as con:
        con.execute(damage)
    problems = check(counted, resources=SMALL)
    assert table in {problem.table for problem in problems}, problems
    assert all(str(one).startswith(one.table) and "None" not in str(one) for one in problems)
    count(counted, [], resources=SMALL)
    assert check(counted, resources=SMALL) == []


IDS = {
    "changed": lambda ids, at: [*ids[:at], 0, *ids[at + 1 :]],
    "deleted": lambda ids, at: ids[:at] + ids[at + 1 :],
    "added": lambda ids, at: [*ids[:at], 0, *ids[at:]],
}


@pytest.mark.parametrize("damage", [*IDS, "beyond", "missing", "garbage", "no chunks", "empty"])
def test_damaged_sequences_are_found(counted, damage, monkeypatch):
    """Files as they should be with an id changed, taken out or put in, whose documents do not hold the counts; an id
    out of range, and a file that is gone or not Parquet. More files than are open at once."""
    monkeypatch.setattr(sequences, "MERGE_FILES", 2)
    path = sorted(p for p in (counted / "sequences").glob("part-*.parquet") if "chunks" not in p.name)[-1]
    chunks = path.with_name(path.name.replace(".parquet", ".chunks.parquet"))
    if damage in IDS:
        run, name = Run.open(counted), path.stem
        stretches = [span for span in list_parts(run).spans if span.part == name]
        ids = pl.read_parquet(path)["chunk_id"].to_list()
        changed = np.array(IDS[damage](ids, next(i for i, x in enumerate(ids) if x > 0)), np.int32)
        made_of = sequences.sequence_made_of(run, stretches)
        sequences.write_sequence(path.parent, name, sequences.read_chunks(path.parent, name), [changed], made_of)
    elif damage == "beyond":
        pl.DataFrame({"chunk_id": pl.Series([10_000], dtype=pl.Int32)}).write_parquet(path)
    elif damage == "garbage":
        path.write_bytes(b"nothing")
    elif damage == "empty":
        pl.read_parquet(chunks).clear().write_parquet(chunks)
    else:
        (path if damage == "missing" else chunks).unlink()
    found = [problem.what for problem in check(counted, resources=SMALL) if problem.table == "sequences"]
    if damage in IDS:
        assert all(part == "all" and documents != counts for part, _, documents, counts in found)
        assert len(found) == (2 if damage == "changed" else 1)
    else:
        assert f"{path.name} or " in str(found[0])


@pytest.mark.parametrize("text", [B.replace("all", "ALL"), B + " more", B[:-3], None])
def test_changed_source_files_are_found(made, counted, request, text):
    """Only when asked: `--sources` reads every file again. Other bytes, more, fewer, and a file that is gone."""
    path = made / "b.txt"
    request.addfinalizer(lambda: path.write_text(B))
    if text is None:
        path.unlink()
    else:
        path.write_text(text)
    assert check(counted, resources=SMALL) == []
    assert {problem.table for problem in check(counted, sources=True, resources=SMALL)} == {"source files"}
