"""A checkout whose core is built with the sanitizers: what is out of bounds, or undefined, ends the process."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.runs import ROOT

SANITIZED = ("-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=undefined")


def load_hook() -> Any:
    """The module that builds the core."""
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    assert spec is not None
    assert spec.loader is not None
    hook = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hook)
    return hook


def checkout(target: Path) -> Path:
    """What a build reads, without what it leaves behind."""
    ignored = shutil.ignore_patterns("_core.*", "__pycache__")
    for name in ("streambpe", "sql", "docs"):
        shutil.copytree(ROOT / name, target / name, ignore=ignored)
    for name in ("hatch_build.py", "pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, target / name)
    return target


def build_sanitized(place: Path) -> dict[str, str] | None:
    """Make it in an empty folder. The environment in which it is used; None if this system's compiler has no
    sanitizers."""
    command = load_hook().system_compiler()
    libraries = [
        subprocess.run([*command, f"-print-file-name={name}"], capture_output=True, text=True).stdout.strip()
        for name in ("libasan.so", "libstdc++.so.6")  # the second: else the first does not see what DuckDB throws
        if command
    ]
    if not libraries or not all(Path(library).is_absolute() for library in libraries):
        return None
    checkout(place)
    subprocess.run([sys.executable, "hatch_build.py", *SANITIZED], cwd=place, check=True, capture_output=True)
    shutil.copytree(ROOT / "tests", place / "tests")
    # each string in memory of its own: Python lays short ones side by side, where reading beyond one goes unseen
    own = {"PYTHONMALLOC": "malloc", "ASAN_OPTIONS": "detect_leaks=0:malloc_context_size=5"}
    return {**os.environ, **own, "LD_PRELOAD": " ".join(libraries), "PYTHONPATH": str(place)}
