"""No file grows too long to be read, and docs/code.md says of every long one why it is one."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def lengths(*suffixes: str) -> dict[str, int]:
    """Lines of each file of the package."""
    files = (path for path in (ROOT / "streambpe").rglob("*") if path.suffix in suffixes)
    return {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8").count("\n") for path in files}


def test_no_file_is_too_long():
    assert {name for name, lines in lengths(".py").items() if lines > 600} == set()
    assert {name for name, lines in lengths(".c", ".h").items() if lines > 500} == set()


def test_every_file_above_400_lines_has_its_reason():
    """And the table names nothing that is not there."""
    named = set(re.findall(r"^\| `(streambpe/[^`]+)`", (ROOT / "docs/code.md").read_text(encoding="utf-8"), re.M))
    known = lengths(".py", ".c", ".h")
    assert {name for name, lines in known.items() if lines > 400} <= named <= set(known)
