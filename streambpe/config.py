"""Options, with units in their names. `CountConfig` can change a result; `Resources` never does."""

from __future__ import annotations

import os
import re
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import psutil

from streambpe.errors import LimitError, RunMismatch, UsageError

# What Python, numpy, Polars, pyarrow and DuckDB take before any work: 110 MB resident, plus DuckDB's
# and the allocators' floor. Below this nothing useful is left.
SMALLEST_MEMORY_BYTES = 256 << 20
_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "KI": 2**10, "MI": 2**20, "GI": 2**30, "TI": 2**40}


def parse_size(text: str) -> int:
    """Bytes: "500MB", "2GB", "1.5GiB", "1000000". KB, MB, GB are powers of ten, as DuckDB has them."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?I?)B?\s*", text.upper())
    if not match:
        raise UsageError(f"{text!r} is no size. Write it like 500MB, 2GB or 1.5GiB.")
    return int(float(match.group(1)) * _UNITS[match.group(2)])


def format_size(n: float) -> str:
    """A size as people write it: "1.5 GB"."""
    for unit in ("B", "KB", "MB", "GB"):
        if n < 1000:
            return f"{n:.0f} {unit}" if unit in ("B", "KB") else f"{n:.1f} {unit}"
        n /= 1000
    return f"{n:.2f} TB"


@dataclass(frozen=True)
class CountConfig:
    """How text becomes chunks. Fixed when a run is made: all its sources are counted alike."""

    pattern: str = "gpt4o"
    gaps: str = "refuse"
    split_scripts: bool = False
    bad_utf8: str = "replace"
    sequences: bool = False
    normalize: str = "none"
    unencodable: str = "bytes"

    @property
    def prepares(self) -> bool:
        """Whether text is changed before it is split (encode/prepare.py)."""
        return self.normalize != "none" or self.unencodable == "drop"

    def as_facts(self) -> dict[str, Any]:
        """For table run."""
        return asdict(self)


def reconcile(saved: dict[str, Any], asked: dict[str, Any], run: Path) -> CountConfig:
    """The options of an existing run; those asked for now (None: not asked) must agree with them."""
    saved = asdict(CountConfig()) | saved  # a run made before an option existed has its default
    for f in fields(CountConfig):
        wanted = asked.get(f.name)
        if wanted is not None and wanted != saved[f.name]:
            flag = "--" + f.name.replace("_", "-")
            raise RunMismatch(
                f"{run} counts with {flag} {_shown(saved[f.name])}, not {_shown(wanted)}; nothing was changed. "
                f"Leave the option out to add to this run, or count into another RUN."
            )
    return CountConfig(**{f.name: saved[f.name] for f in fields(CountConfig)})


def _shown(value: Any) -> str:
    return {True: "on", False: "off"}.get(value, str(value)) if isinstance(value, bool) else str(value)


@dataclass(frozen=True)
class Resources:
    """What a job may use. Never changes a result."""

    memory_bytes: int
    threads: int
    temp_dir: Path | None = None

    @classmethod
    def from_options(
        cls, memory: str | None = None, threads: int | None = None, temp_dir: str | None = None
    ) -> Resources:
        """Defaults: a quarter of the memory this process may use, and all its cores."""
        memory_bytes = parse_size(memory) if memory else max(available_memory() // 4, SMALLEST_MEMORY_BYTES)
        if memory_bytes < SMALLEST_MEMORY_BYTES:
            raise LimitError(
                f"--memory {memory} is too small: {format_size(SMALLEST_MEMORY_BYTES)} is the least that works. "
                f"Nothing was changed."
            )
        count = threads or len(os.sched_getaffinity(0))
        if count < 1:
            raise UsageError(f"--threads {threads}: at least 1.")
        return cls(memory_bytes, count, Path(temp_dir) if temp_dir else None)


def available_memory() -> int:
    """Bytes of RAM, or of the control group's limit if that is smaller."""
    limit = psutil.virtual_memory().total
    for name in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            limit = min(limit, int(Path(name).read_text()))
        except (OSError, ValueError):
            continue
    return int(limit)
