"""Settings every test shares."""

import inspect
import os
import signal
import sys
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import settings

# No deadline: a shared machine may stall for longer than any example takes.
settings.register_profile("streambpe", deadline=None)
settings.load_profile("streambpe")

# ---------------------------------------------------------------------------------------------------------
# Windows has no POSIX signals, limits, links and modes. What needs them is skipped there by what it says; kills are
# tested there by tests/ground/test_other_systems.py alone.

_POSIX = (
    "SIGKILL", "send_signal", ".kill()", "Driver(", "== -9", "kill_and_go_on(", "preexec_fn", "full_disk(", "RLIMIT",
    '"cp"', '"du"', "symlink", "chmod", "mkfifo", "/dev/", "/proc", "SIGINT", "SIGTERM", "os.fork", "pty.", "umask",
)  # fmt: skip


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """On Windows, skip what cannot be asked there."""
    if os.name != "nt":
        return
    for item in items:
        source = inspect.getsource(item.function) if isinstance(item, pytest.Function) else ""
        needs = [word for word in _POSIX if word in source]
        if needs and item.path.name != "test_other_systems.py":
            item.add_marker(pytest.mark.skip(reason=f"Windows has no {needs[0]}"))


if os.name == "nt":
    sys.modules.setdefault("resource", ModuleType("resource"))
    vars(signal).setdefault("SIGKILL", 9)
    _write_text = Path.write_text

    def write_as_it_stands(self: Path, data: str, encoding: str = "utf-8", errors: str | None = None) -> int:
        """Tests mean the characters that they write: no carriage returns come in between."""
        return _write_text(self, data, encoding, errors, newline="\n")

    Path.write_text = write_as_it_stands  # type: ignore[method-assign,assignment]
