"""`check` finds every row that was changed, deleted or added, in every derived table."""

from __future__ import annotations

import shutil
from pathlib import Path

import duckdb
import polars as pl
import pytest

from streambpe.inspect.check import check
from streambpe.resources import Resources
from streambpe.train.counting.count import count

SMALL = Resources(300 << 20, 2)


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """A folder with two files and a run with sequences over them, to copy."""
    folder = tmp_path_factory.mktemp("made")
    for name, text in (("a", "the cat and the dog\n"), ("b", "the end of it all, the end")):
        (folder / f"{name}.txt").write_text(text)
        count(folder / "run", [str(folder / f"{name}.txt")], sequences=True, resources=SMALL)
    return folder


@pytest.fixture
def counted(made, tmp_path) -> Path:
    """A run with sequences over two files."""
    return Path(shutil.copytree(made / "run", tmp_path / "run"))


@pytest.mark.long
def test_a_good_run_has_no_problems(counted):
    """Nothing is found where nothing is wrong, and nothing is written."""
    before = (counted / "state.duckdb").read_bytes()
    assert check(counted, sources=True, resources=SMALL) == []
    assert (counted / "state.duckdb").read_bytes() == before


@pytest.mark.every(2)
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
        (
            "corpus",
            """UPDATE run SET value = replace(value, '"documents": 2', '"documents": 3') WHERE key = 'corpus'""",
        ),
        (
            "corpus",
            """UPDATE run SET value = regexp_replace(value, '"sha256": "..', '"sha256": "zz') WHERE key = 'corpus'""",
        ),
        ("corpus", """UPDATE run SET value = replace(value, '"chunks": ', '"chunks": 1') WHERE key = 'corpus'"""),
        ("corpus", """UPDATE run SET value = replace(value, '"bytes": ', '"bytes": 1') WHERE key = 'corpus'"""),
        ("corpus", """UPDATE run SET value = replace(value, '"distinct": ', '"distinct": 1') WHERE key = 'corpus'"""),
        ("corpus", "DELETE FROM run WHERE key = 'corpus'"),
    ],
)
def test_a_damaged_table_is_found_and_filled_again(counted, table, damage):
    """The problem names the table; counting without sources fills the tables from the committed parts."""
    with duckdb.connect(str(counted / "state.duckdb")) as con:
        con.execute(damage)
    problems = check(counted, resources=SMALL)
    assert table in {problem.table for problem in problems}, problems
    assert all(str(problem).startswith(problem.table) for problem in problems)
    assert not any("None" in str(problem) for problem in problems)
    count(counted, [], resources=SMALL)
    assert check(counted, resources=SMALL) == []


@pytest.mark.long
@pytest.mark.parametrize(
    "damage", ["changed", "deleted", "added", "beyond", "missing", "garbage", "no chunks", "empty"]
)
def test_damaged_sequences_are_found(counted, damage):
    """An id changed, taken out, put in, out of range, and a file that is gone or not Parquet."""
    path = sorted(p for p in (counted / "sequences").glob("part-*.parquet") if "chunks" not in p.name)[-1]
    ids = pl.read_parquet(path)["chunk_id"].to_list()
    first = next(i for i, x in enumerate(ids) if x > 0)
    if damage == "changed":
        ids[first] = 0
    elif damage == "deleted":
        del ids[first]
    elif damage == "added":
        ids.insert(first, 0)
    elif damage == "beyond":
        ids[first] = 10_000
    if damage == "missing":
        path.unlink()
    elif damage == "garbage":
        path.write_bytes(b"nothing")
    elif damage == "empty":
        chunks = path.with_name(path.name.replace(".parquet", ".chunks.parquet"))
        pl.read_parquet(chunks).clear().write_parquet(chunks)
    elif damage == "no chunks":
        path.with_name(path.name.replace(".parquet", ".chunks.parquet")).unlink()
    else:
        pl.DataFrame({"chunk_id": pl.Series(ids, dtype=pl.Int32)}).write_parquet(path)
    found = [str(problem.what) for problem in check(counted, resources=SMALL) if problem.table == "sequences"]
    assert found
    if damage in ("missing", "garbage", "no chunks"):
        assert f"{path.name} or " in found[0]


@pytest.mark.long
@pytest.mark.parametrize("change", ["other bytes", "longer", "shorter", "gone"])
def test_changed_source_files_are_found(made, counted, request, change):
    """Only when asked: `--sources` reads every file again."""
    path = made / "b.txt"
    whole = path.read_text()
    request.addfinalizer(lambda: path.write_text(whole))
    if change == "gone":
        path.unlink()
    else:
        path.write_text(
            {"other bytes": whole.replace("all", "ALL"), "longer": whole + " more", "shorter": whole[:-3]}[change]
        )
    assert check(counted, resources=SMALL) == []
    assert {problem.table for problem in check(counted, sources=True, resources=SMALL)} == {"source files"}
