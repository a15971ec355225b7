"""Settings that all tests share."""

import gc
import inspect
import os
import shutil
import signal
import sys
from collections import Counter
from collections.abc import Callable, Generator
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any

import duckdb
import psutil
import pytest
from hypothesis import settings

from streambpe import resources
from streambpe.store import database, run
from tests.runs import cli, small_blocks
from tests.samples import CATS, written
from tests.tiers import LONG, PARTS, share

# No deadline: a shared machine may stall for longer than any example takes.
settings.register_profile("streambpe", deadline=None, max_examples=share(100), derandomize=not LONG)
settings.load_profile("streambpe")

# No power fails while tests run. Who syncs what, and when, is shown by tests/ground/test_files.py.
os.fsync = lambda handle: None

# Files of tests lie in memory, where that has room for them: it saves 8 % of the processor time.
if Path("/dev/shm").is_dir() and min(shutil.disk_usage("/dev/shm").free, psutil.virtual_memory().available) > 8 << 30:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", "/dev/shm")

# A RUN begins with empty tables, which take DuckDB some 50 ms: made once, and copied. A command in a process of its own
# makes them as users' commands do.


@cache
def _empty_tables() -> bytes:
    with TemporaryDirectory() as folder:
        file = Path(folder, "state.duckdb")
        with database.open_store(file) as con:
            database.create_schema(con)
        return file.read_bytes()


def _open_store(path: Path, **how: Any) -> duckdb.DuckDBPyConnection:
    if not path.exists():
        path.write_bytes(_empty_tables())
    return database.open_store(path, **how)


run.open_store = _open_store
run.create_schema = lambda con: database.use_training(con, "main")

# Looking at one's own memory costs a tenth of a test's time. tests/ground/test_memory.py looks as commands do.
resources.library_pages = list
resources._PSS_SHARE = 400


# ---------------------------------------------------------------------------------------------------------
# Windows has no POSIX signals, limits, links and modes. A test whose source has one of these words is skipped there.
# On Windows, only tests/ground/test_other_systems.py tests kills.

_POSIX = (
    "SIGKILL", "send_signal", ".kill()", "Driver(", "== -9", "kill_and_go_on(", "_killed(", "preexec_fn", "is_told(",
    "RLIMIT", '"cp"', '"du"', "symlink", "chmod", "mkfifo", "/dev/", "/proc", "SIGINT", "SIGTERM", "os.fork", "pty.",
    "umask",
)  # fmt: skip


@pytest.fixture
def tiny_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of a kilobyte and a part for each: what large corpora meet, in small."""
    small_blocks(monkeypatch, 1000, committing=True)


@pytest.fixture(scope="session")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `desk` is a copy of."""
    folder = tmp_path_factory.mktemp("made") / "desk"
    folder.mkdir()
    written(folder / "a.txt", CATS)
    cli("train", folder / "run", folder / "a.txt", "-s", "265", "--memory", "300MB")
    cli("train", f"{folder}/run:small", "-s", "261", "--special", "<end>", "--memory", "300MB")
    cli("export", folder / "run", "--to", "hf", "-o", folder / "tokenizer.json")
    return folder


@pytest.fixture(scope="module")
def desk(made_once: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a text, a run that learned 265 ids from it, and 261 as `small`, and a tokenizer.json; one for the
    tests of a file."""
    return Path(shutil.copytree(made_once, tmp_path_factory.mktemp("desk") / "desk"))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Thousands of tests are made, and all of them stay: nothing ever looks for garbage among them."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip on Windows what it does not have; mark `long` what is not for `make test`."""
    _leave_out_of_every(items)
    for item in items:
        source = _source(item.function) if isinstance(item, pytest.Function) and (LONG or os.name == "nt") else ""
        if os.name == "nt":
            _skip_what_windows_has_not(item, source)
        if LONG and ("seeds(" in source or hasattr(getattr(item, "function", None), "hypothesis")):
            item.add_marker(pytest.mark.long)


def _leave_out_of_every(items: list[pytest.Item]) -> None:
    """`every(3)`: the first, the fourth, the seventh ... case of a test; the others are for the next tier: `long`, or,
    where the test is long, left out."""
    seen: Counter[tuple[Path, str]] = Counter()
    left_out = set()
    for item in items:
        mark = item.get_closest_marker("every")
        if mark is not None and isinstance(item, pytest.Function):
            place = seen[item.path, item.originalname]
            seen[item.path, item.originalname] += 1
            marks = {each.name for each in [*item.function.pytestmark, *item.parent.iter_markers()]}
            if place % mark.args[0] and "long" in marks:
                left_out.add(item)
            elif place % mark.args[0]:
                item.add_marker(pytest.mark.long)
    if PARTS > 1:
        items[:] = [item for item in items if item not in left_out]


@cache
def _source(function: Callable[..., None]) -> str:
    return inspect.getsource(function)


def _skip_what_windows_has_not(item: pytest.Item, source: str) -> None:
    needs = [word for word in _POSIX if word in source]
    if needs and item.path.name != "test_other_systems.py":
        item.add_marker(pytest.mark.skip(reason=f"Windows has no {needs[0]}"))


if os.name == "nt":
    sys.modules.setdefault("resource", ModuleType("resource"))
    vars(signal).setdefault("SIGKILL", 9)
    _write_text = Path.write_text

    def write_as_it_stands(self: Path, data: str, encoding: str = "utf-8", errors: str | None = None) -> int:
        """Write exactly the characters that a test gives: line breaks get no carriage returns."""
        return _write_text(self, data, encoding, errors, newline="\n")

    Path.write_text = write_as_it_stands  # type: ignore[method-assign,assignment]
