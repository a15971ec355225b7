"""Finding a model and reading what its header says about splitting text.

A MODEL is an event log (`.jsonl`), a RUN (its `model.events.jsonl`; `RUN:main` says the same), or
`RUN:NAME` (its `NAME.events.jsonl`).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from streambpe.errors import ModelError, typed
from streambpe.model.eventlog import EventLog, read_event_log
from streambpe.store.identity import refuse_other_log
from streambpe.store.run import Run
from streambpe.store.training_files import log_path
from streambpe.text.patterns import Pattern, find_pattern


def find_log(model: str | os.PathLike[str]) -> Path:
    """The event log behind a MODEL argument."""
    path = Path(model)
    if path.is_dir():
        return _log_of_run(path, "main")
    if path.exists():
        return path
    run, colon, name = str(model).rpartition(":")
    if colon and Path(run).is_dir():
        return _log_of_run(Path(run), name)
    raise ModelError(f"There is no model {model}: give an event log, a RUN, or RUN:NAME of an existing RUN.")


def _log_of_run(run: Path, name: str) -> Path:
    log = log_path(Run(run), name)
    if log.is_file():
        return log
    others = sorted(p.name.removesuffix(".events.jsonl") for p in run.glob("*.events.jsonl"))
    others = ["main" if other == "model" else other for other in others]
    if others:
        raise ModelError(
            f"{run} has no model {name!r}; it has {', '.join(others)}. Write {run}:{others[0]}, for example."
        )
    raise ModelError(
        f"{run} has no {log.name}: no training was finished there. `streambpe train {typed(run)}` learns one, "
        f"`streambpe status {typed(run)}` shows how far it is."
    )


def run_of(model: str | os.PathLike[str]) -> Run | None:
    """The RUN a MODEL argument names, or None if it is a log alone."""
    folder = find_log(model).parent
    return Run.open(folder) if (folder / "state.duckdb").is_file() else None


def read_model(model: str | os.PathLike[str]) -> EventLog:
    """Read and check the event log of a MODEL."""
    path = find_log(model)
    refuse_other_log(path)
    _refuse_what_is_no_log(path)
    return read_event_log(path)


def _refuse_what_is_no_log(path: Path) -> None:
    """An error if a file does not begin as an event log does, even a damaged one."""
    with path.open("rb") as file:
        line = file.readline(1 << 10).strip()
    if line and (line == b"{" or not line.startswith(b"{")):
        raise ModelError(
            f"{path} is not a model: neither an event log nor a RUN. To turn a vocabulary of another program into an "
            f"event log, use `streambpe import {typed(path)} -o NAME.events.jsonl`."
        )


def encoding_pattern(config: Mapping[str, Any]) -> Pattern:
    """The pattern that text is split with before encoding.

    A `uw` model learned under two patterns; its merges are replayed under the second alone, `stage2_pattern` in the
    header. The text that this pattern does not match (most text, under superbpe2) becomes chunks too.
    """
    name = config.get("pattern", "none")
    gaps = config.get("gaps")
    if config.get("superwords") == "uw":
        name, gaps = config.get("stage2_pattern", "superbpe2"), "keep"
    # A pattern that training accepted is not checked again: `gaps` says what becomes of text that it does not match.
    gaps = "keep" if gaps == "keep" else "drop"
    prepared = config.get("normalize", "none") != "none" or config.get("unencodable", "bytes") == "drop"
    return find_pattern(
        name,
        gaps=gaps,
        split_scripts=bool(config.get("split_scripts", False)),
        digits=config.get("digits", "keep"),
        prepared=prepared,
    )
