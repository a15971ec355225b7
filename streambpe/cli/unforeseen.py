"""Errors that nobody foresaw: the traceback goes into a file, the user gets a sentence and what to do."""

from __future__ import annotations

import contextlib
import platform
import tempfile
import traceback
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from streambpe import __version__
from streambpe.errors import shortened, typed

UNFORESEEN = 70  # exit code: a defect of this program, as sysexits.h has it
_WRITE_A_RUN = ("count", "merge-counts", "resume", "train")


def unforeseen(error: BaseException, given: Sequence[str]) -> str:
    """What is said of an error that no other message is for. `given`: the words behind `streambpe`."""
    places = (place for word in given[1:] for place in (word, word.rpartition(":")[0]) if place)
    run = next((Path(place) for place in places if _is_run(place)), None) if given[0] in _WRITE_A_RUN else None
    place = _written(error, given, run)
    kept = (
        f"What was counted and learned is kept in {run}: give the same command again, or `streambpe resume "
        f"{typed(run)}`."
        if run
        else "No RUN was being written."
    )
    where = f"The traceback is in {place}" if place else "".join(traceback.format_exception(error))
    said = shortened(f"{type(error).__name__}: {error}".splitlines()[0])
    return f"this is a bug in streambpe, not in its input ({said}). {kept} {where}: please report it."


def _is_run(word: str) -> bool:
    with contextlib.suppress(OSError, ValueError):  # a query may be too long for a name, or hold what no name can
        return any((Path(word) / name).exists() for name in ("run.json", "state.duckdb"))
    return False


def _written(error: BaseException, given: Sequence[str], run: Path | None) -> Path | None:
    """The file that holds the traceback; None if none can be written."""
    now = datetime.now(UTC)
    name = f"traceback-{now:%Y%m%d-%H%M%S-%f}.txt"
    text = (
        f"streambpe {__version__}, Python {platform.python_version()}, {platform.platform()}, {now:%Y-%m-%d %H:%M}\n"
        f"streambpe {' '.join(given)}\n\n{''.join(traceback.format_exception(error))}"
    )
    for folder in ([run] if run else []) + [Path(tempfile.gettempdir())]:
        with contextlib.suppress(OSError):
            (folder / name).write_text(text, encoding="utf-8", errors="backslashreplace")
            return folder / name
    return None
