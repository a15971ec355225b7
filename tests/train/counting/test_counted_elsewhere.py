"""The programs in examples/ that count with DuckDB, Dask, Spark and datatrove."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from streambpe.inspect.check import check
from streambpe.resources import Resources
from streambpe.store.exchange import merge_counts
from streambpe.store.run import Run
from streambpe.train.counting.count import count_from_iterator
from tests.runs import cli, rows

EXAMPLES = Path(__file__).parents[3] / "examples"
pytestmark = pytest.mark.skipif(not EXAMPLES.exists(), reason="an sdist has no examples")
ONE = Resources(400 * 10**6, 1)


def corpus_of(folder: Path, **files: list[str]) -> None:
    """Write files of documents that the examples read."""
    (folder / "corpus").mkdir()
    for name, texts in files.items():
        lines = (json.dumps({"text": text, "id": str(number)}) + "\n" for number, text in enumerate(texts))
        (folder / "corpus" / f"{name}.jsonl").write_text("".join(lines), encoding="utf-8")


def content(run: Path) -> tuple[Any, ...]:
    corpus = json.loads(Run(run).facts()["corpus"])
    return corpus["sha256"], corpus["documents"], rows(run, "SELECT * FROM chunk_counts ORDER BY chunk")


@pytest.mark.parametrize(
    "package", ["duckdb", *(pytest.param(name, marks=pytest.mark.long) for name in ("dask", "spark"))]
)
def test_a_table_made_by_another_system_is_what_a_count_would_make(package: str, tmp_path: Path) -> None:
    needed = {"spark": "pyspark"}.get(package, package)
    if importlib.util.find_spec(needed) is None or (package == "spark" and not shutil.which("java")):
        pytest.skip(f"{needed} is not here, or no Java")
    corpus_of(tmp_path, a=["one two\n\n two 22", "\u00e9\u6771  \U0001f600'"], b=["", "two\u00a0  "])
    program = EXAMPLES / f"count_with_{package}.py"
    subprocess.run([sys.executable, str(program)], cwd=tmp_path, check=True, capture_output=True)
    (expression,) = re.findall(r'r"(.*)"', program.read_text(encoding="utf-8"))
    tables = sorted(tmp_path.glob("counts*.parquet")) or sorted((tmp_path / "counts").glob("*.parquet"))
    cli("count", tmp_path / "elsewhere", *tables, "--counts", "--pattern", expression)
    cli("count", tmp_path / "here", tmp_path / "corpus", "--pattern", expression)
    elsewhere, here = (content(tmp_path / name) for name in ("elsewhere", "here"))
    assert (elsewhere[0], elsewhere[2]) == (here[0], here[2])


@pytest.mark.long
@pytest.mark.skipif(
    importlib.util.find_spec("datatrove") is None, reason="datatrove is not here: make test-long installs it"
)
def test_the_ranks_of_the_example_add_up_to_what_one_machine_counts(tmp_path: Path) -> None:
    """A rank of two documents, a rank of one, and none of those that the filter leaves out; run twice, counted once."""
    longer = ["one document of \u00e9\u6771 words", "and another one, longer", "one document of b's words"]
    corpus_of(tmp_path, a=[longer[0], "too short", longer[1]], b=longer[2:])
    for _ in range(2):
        shutil.rmtree(tmp_path / "logs", ignore_errors=True)  # datatrove passes over ranks that its logs call done
        subprocess.run(
            [sys.executable, str(EXAMPLES / "count_with_datatrove.py")], cwd=tmp_path, check=True, capture_output=True
        )
    parts = sorted((tmp_path / "runs").iterdir())
    assert [part.name for part in parts] == ["part-00000-of-00002", "part-00001-of-00002"]
    merge_counts(tmp_path / "all", parts, resources=ONE)
    count_from_iterator(tmp_path / "one", longer, resources=ONE)
    assert content(tmp_path / "all") == content(tmp_path / "one")
    assert check(tmp_path / "all", resources=ONE) == []
