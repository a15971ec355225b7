"""What is installed: the wheel holds sql/ and every table the package reads."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.runs import ROOT


def build(kind: str, folder: Path) -> Path:
    """A wheel, or the archive of sources, built offline."""
    pytest.importorskip("hatchling")
    command = [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return next(folder.iterdir())


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> zipfile.ZipFile:
    with zipfile.ZipFile(build("wheel", tmp_path_factory.mktemp("dist"))) as file:
        yield file


@pytest.mark.long
def test_the_wheel_holds_the_package_its_sql_and_its_pages(wheel):
    """Every module, data file and page; sql/ of the checkout is streambpe/sql/ of the wheel, byte for byte. No test."""
    names = set(wheel.namelist())
    suffixes = (".py", ".txt", ".typed", ".css", ".js", ".html")
    wanted = {str(p.relative_to(ROOT)) for p in (ROOT / "streambpe").rglob("*") if p.suffix in suffixes}
    assert any("text/data/" in name for name in wanted)
    assert wanted <= names
    assert not any(name.startswith("tests/") for name in names)
    ours = {f"streambpe/{p.relative_to(ROOT)}": p.read_bytes() for p in (ROOT / "sql").rglob("*.*")}
    theirs = {n: wheel.read(n) for n in names if n.startswith("streambpe/sql/")}
    pages = {n.removeprefix("streambpe/docs/") for n in names if re.fullmatch(r"streambpe/docs/[^/]+\.md", n)}
    assert pages == {page.name for page in (ROOT / "docs").glob("*.md")}  # `streambpe docs` shows them
    assert len(ours) > 10
    assert theirs == ours


@pytest.mark.long
def test_the_source_archive_holds_no_golden_vectors(tmp_path):
    """What is published stays small: the vectors and their judges are in clones only, every other test goes along."""
    with tarfile.open(build("sdist", tmp_path)) as file:
        names = {name.split("/", 1)[1] for name in file.getnames()}
    assert not any(name.startswith(("tests/golden", "tests/conformance")) for name in names)
    assert {"tests/ground/test_packaging.py", "streambpe/cli/main.py", "sql/schema/training.sql"} <= names


def test_the_golden_vectors_of_a_clone_are_small():
    """Under three megabytes, packed."""
    assert sum(path.stat().st_size for path in (ROOT / "tests" / "golden").rglob("*")) < 3 * 10**6


@pytest.mark.long
def test_an_unpacked_wheel_counts(wheel, tmp_path):
    """From the wheel alone, without the checkout, a count finds its SQL and its tables."""
    wheel.extractall(tmp_path / "site")
    (tmp_path / "a.txt").write_text("the cat 中文")
    code = "import streambpe as s; print(s.__file__, s.count('run', 'a.txt', split_scripts=True).corpus['chunks'])"
    env = {**os.environ, "PYTHONPATH": str(tmp_path / "site")}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, env=env)
    assert done.stdout == f"{tmp_path / 'site/streambpe/__init__.py'} 4\n", done.stderr
