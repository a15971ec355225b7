"""The names of a training's files in a RUN.

training main     RUN/model.events.jsonl    RUN/pending.events
training small    RUN/small.events.jsonl    RUN/small.pending.events

and, of a training that extends a model, that model: RUN/extended.jsonl, RUN/small.extended.jsonl
"""

from __future__ import annotations

import re
from pathlib import Path

from streambpe.errors import UsageError
from streambpe.store.run import Run
from streambpe.system import is_reserved_name

_LONGEST_NAME = 100  # letters: with what is put behind it, a file's name has room for 255
_SCHEMAS = ("information_schema", "pg_catalog", "temp", "system")  # DuckDB's own


def log_path(run: Run, name: str) -> Path:
    """Where the event log of a training is."""
    return run.path / ("model.events.jsonl" if name == "main" else f"{name}.events.jsonl")


def journal_path(run: Run, name: str) -> Path:
    """Where the write-ahead log of a training is, while it is not finished."""
    return run.path / ("pending.events" if name == "main" else f"{name}.pending.events")


def extended_path(run: Run, name: str) -> Path:
    """Where a training keeps the event log of the model that it extends."""
    return run.path / ("extended.jsonl" if name == "main" else f"{name}.extended.jsonl")


def check_name(name: str) -> None:
    """An error if a training's name cannot be the name of a schema and of files."""
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or name in _SCHEMAS:
        raise UsageError(f"--name {name[:100]}: use a-z, 0-9 and _, and begin with a letter.")
    if len(name) > _LONGEST_NAME:
        raise UsageError(f"--name {name[:20]}...: {len(name)} letters, but at most {_LONGEST_NAME} fit a file's name.")
    if name == "model" or is_reserved_name(name):
        whose = "the event log of training main is called" if name == "model" else "Windows reserves for a device"
        raise UsageError(f"--name {name}: that is what {whose}. Nothing was changed; give another name.")
