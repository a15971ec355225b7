"""What `train` was asked to do, so that `resume` needs no options: RUN/job.json.

    {"last": "main", "trainings": {"main": {"sources": [...], "counting": {...}, "counted": true,
                                            "config": {...}, "resources": {...}}}}

`counted` turns true when all sources are counted: from there on `resume` reads none of them again.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from typing import Any

from streambpe.config import SourceOptions
from streambpe.disk import disk_full_explained
from streambpe.errors import RunError, StreambpeError
from streambpe.sources.find import find_sources
from streambpe.store.identity import is_known, replace_known
from streambpe.store.parts import Part, list_parts
from streambpe.store.run import Run
from streambpe.store.training_files import journal_path, log_path
from streambpe.store.unfinished import (
    Unfinished,
    Wanted,
    lost_sources,
    read_record,
    refuse_lost_record,
    refuse_unfinished,
    unfinished,
)


def read_jobs(run: Run, *, lost: bool = False) -> dict[str, Any]:
    """The file, or an empty one. `lost`: also where there was one; it is going to be written anew."""
    path = run.path / "job.json"
    if not is_known(path) and (path.exists() or not lost):
        what = "is not what was left there" if path.exists() else "is lost"
        raise RunError(
            f"{path}, which says what was asked for, {what}. Nothing was changed. Put the right one back, or remove it "
            f"and give the `train` command again: it goes on with what is there."
        )
    try:
        jobs: dict[str, Any] = json.loads(path.read_text())
    except FileNotFoundError:
        return {"last": None, "trainings": {}}
    except ValueError as why:
        raise RunError(f"{path} is damaged ({why}). Remove it and give the `train` command again.") from None
    return jobs


def write_jobs(run: Run, jobs: dict[str, Any]) -> None:
    """Replace the file; locked by the caller."""
    with disk_full_explained(run.path):
        run.number_new()
        replace_known(run.path / "job.json", json.dumps(jobs).encode())


def put_job(run: Run, name: str, job: dict[str, Any]) -> dict[str, Any]:
    """Remember a training's job as the last one; returns the file as it was before."""
    with run.lock():
        before = read_jobs(run, lost=True)
        write_jobs(run, {"last": name, "trainings": {**before["trainings"], name: job}})
    return before


def left_to_count(run: Run, parts: Sequence[Part] | None = None) -> tuple[list[Unfinished], tuple[str, ...]]:
    """(sources, runs to merge) that a run was asked to count and that are not counted to their end."""
    record = read_record(run)
    parts = list_parts(run) if parts is None else parts
    found = {source.path: source for source in _of_old_jobs(run)}
    if run.state.exists():
        refuse_lost_record(run)
        found |= {source.path: source for source in lost_sources(run, parts)}
    found |= {source.path: source for source in record.sources}
    return unfinished(found.values(), parts), record.runs


def _of_old_jobs(run: Run) -> list[Wanted]:
    """The sources of trainings that were stopped while counting by a version without RUN/counting.json."""
    found: list[Wanted] = []
    for job in read_jobs(run, lost=True)["trainings"].values():
        if job["counted"] or "allow_partial" in job:
            continue
        how = SourceOptions.of(job["counting"])
        for argument in job["sources"]:
            try:
                found += map(Wanted.of, find_sources([argument], how)[0])
            except StreambpeError:
                found.append(Wanted(argument, ""))
    return found


def refuse_half_counted(run: Run, or_else: str = "", *, given: Collection[str] = ()) -> None:
    """An error if a run is not counted to its end, as to which command ends that. `given`: paths that are counted now.

    `or_else`: what can be done instead, as the end of a sentence.
    """
    left, runs = left_to_count(run)
    refuse_unfinished(run, [source for source in left if source.path not in given], runs, or_else)


def find_work(run: Run, name: str | None) -> tuple[str | None, dict[str, Any]]:
    """(the training, its resources) that `resume` goes on with; None in place of a training: a count.

    Without a name it is what was started last. A count is later than a training that is counted, unless that
    was begun on half the counts.
    """
    record, jobs = read_record(run), read_jobs(run)
    last = jobs["trainings"].get(jobs["last"])
    if name is None and (record or last is None) and run.counts.is_dir():
        left, runs = left_to_count(run)
        counting = last is None or (last["counted"] and not (last.get("allow_partial") and _goes_on(run, jobs["last"])))
        if (left or runs) and counting:
            return None, record.resources
    chosen, job = find_job(run, name)
    return chosen, job["resources"]


def _goes_on(run: Run, name: str) -> bool:
    """Whether a training is not finished."""
    return journal_path(run, name).exists() or not log_path(run, name).exists()


def find_job(run: Run, name: str | None) -> tuple[str, dict[str, Any]]:
    """The job of a training, or of the last one; an error that names what can be resumed."""
    jobs = read_jobs(run)
    chosen = name or jobs["last"]
    if chosen is None or chosen not in jobs["trainings"]:
        known = ", ".join(jobs["trainings"])
        raise RunError(
            f"{run.path} has no training{f' {name}' if name else ''} to go on with"
            + (f"; it has {known}. " if known else ". ")
            + f"`streambpe train {run.path}` learns from its counts."
        )
    return chosen, jobs["trainings"][chosen]
