"""What `train` was asked to do, so that `resume` needs no options: RUN/job.json.

    {"last": "main", "trainings": {"main": {"sources": [...], "counting": {...}, "counted": true,
                                            "config": {...}, "resources": {...}}}}

`counted` turns true when all sources are counted: from there on `resume` reads none of them again.
"""

from __future__ import annotations

import json
from typing import Any

from streambpe.errors import RunError
from streambpe.store.run import Run, replace_file


def read_jobs(run: Run) -> dict[str, Any]:
    """The file, or an empty one."""
    try:
        jobs: dict[str, Any] = json.loads((run.path / "job.json").read_text())
    except FileNotFoundError:
        return {"last": None, "trainings": {}}
    except ValueError as why:
        raise RunError(
            f"{run.path}/job.json is damaged ({why}). Remove it and give the `train` command again."
        ) from None
    return jobs


def write_jobs(run: Run, jobs: dict[str, Any]) -> None:
    """Replace the file; locked by the caller."""
    replace_file(run.path / "job.json", json.dumps(jobs).encode())


def put_job(run: Run, name: str, job: dict[str, Any]) -> dict[str, Any]:
    """Remember a training's job as the last one; returns the file as it was before."""
    with run.lock():
        before = read_jobs(run)
        write_jobs(run, {"last": name, "trainings": {**before["trainings"], name: job}})
    return before


def find_job(run: Run, name: str | None) -> tuple[str, dict[str, Any]]:
    """The job of a training, or of the last one; an error that names what can be resumed."""
    jobs = read_jobs(run)
    chosen = name or jobs["last"]
    if chosen is None or chosen not in jobs["trainings"]:
        known = ", ".join(jobs["trainings"])
        raise RunError(
            f"{run.path} has no training{f' {name}' if name else ''} to go on with"
            + (f"; it has {known}. " if known else ". ")
            + f"`streambpe train {run.path}` learns from its counts; an unfinished count goes on with the same "
            f"`streambpe count` command."
        )
    return chosen, jobs["trainings"][chosen]
