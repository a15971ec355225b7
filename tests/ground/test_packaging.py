"""What is installed: the wheel holds sql/ and every table the package reads."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> zipfile.ZipFile:
    """The wheel, built offline."""
    if importlib.util.find_spec("hatchling") is None:
        pytest.skip("hatchling is not installed, so no wheel can be built here")
    out = tmp_path_factory.mktemp("dist")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(out)],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    with zipfile.ZipFile(next(out.glob("*.whl"))) as file:
        yield file


@pytest.mark.long
def test_the_wheel_holds_the_package_its_sql_and_its_pages(wheel):
    """Every module, data file and page; sql/ of the checkout is streambpe/sql/ of the wheel, byte for byte. No test."""
    names = set(wheel.namelist())
    wanted = {
        str(p.relative_to(ROOT))
        for p in (ROOT / "streambpe").rglob("*")
        if p.suffix in (".py", ".txt", ".typed", ".css", ".js", ".html")
    }
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
    if importlib.util.find_spec("hatchling") is None:
        pytest.skip("hatchling is not installed, so no archive can be built here")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (archive,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as file:
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
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); import streambpe;"
        "assert streambpe.__file__.startswith(sys.argv[1]);"
        "from streambpe.train.counting.count import count;"
        "print(count(sys.argv[2], [sys.argv[3]], split_scripts=True).corpus['chunks'])"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "site"), str(tmp_path / "run"), str(tmp_path / "a.txt")]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert (done.returncode, done.stdout) == (0, "4\n"), done.stderr
