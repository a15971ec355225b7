"""What `train` was asked to do, so that `resume` needs no options: "jobs" in RUN/run.json.

    {"last": "main", "trainings": {"main": {"sources": [...], "counting": {...}, "counted": true,
                                            "config": {...}, "resources": {...}}}}

`counted` turns true when all sources are counted: from then on `resume` reads none of them again. It has the
shape of the classes Jobs and Job: msgspec checks what it reads against them.
"""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import msgspec

from streambpe.config import TrainConfig
from streambpe.count_config import CountConfig, Counting
from streambpe.disk import disk_full_explained
from streambpe.errors import RunError, typed
from streambpe.options import options_of
from streambpe.resources import ResourceFacts
from streambpe.store.identity import read_identity
from streambpe.store.run import Run
from streambpe.store.training_files import journal_path, log_path
from streambpe.store.unfinished import left_to_count, read_record

CHECKPOINT_SECONDS = 5.0


class Job(msgspec.Struct, frozen=True):
    """A training, as it was asked for."""

    sources: tuple[str, ...]
    streams: tuple[str, ...]  # sources that only the program which gave them can give again
    counting: Counting
    counted: bool
    config: TrainConfig
    resources: ResourceFacts
    checkpoint_seconds: float = CHECKPOINT_SECONDS
    allow_partial: bool = False
    until: tuple[str, ...] = ()  # bytes per token, and the texts of --until-bytes-per-token


class Jobs(msgspec.Struct, frozen=True):
    """What all trainings of a run were asked to do."""

    last: str | None = None
    trainings: dict[str, Job] = msgspec.field(default_factory=dict)


def read_jobs(run: Run) -> Jobs:
    """What run.json says of trainings."""
    identity = read_identity(run.path)
    if identity is None:
        return Jobs()
    try:
        jobs = msgspec.convert(identity.jobs, Jobs)
        _refuse_unknown_options(run.path, identity.jobs.get("trainings", {}))
        return jobs
    except (msgspec.ValidationError, UnicodeEncodeError) as why:
        raise RunError(
            f"{run.path}: this streambpe cannot read how it was started ({why}). Nothing was changed. Use the "
            "streambpe that started it."
        ) from None


def _refuse_unknown_options(folder: Path, trainings: dict[str, Any]) -> None:
    """msgspec ignores fields that the class does not have; but without one of its options a training would differ."""
    for name, job in trainings.items():
        unknown = job["config"].keys() - {field.name for field in fields(TrainConfig)}
        unknown |= job.get("counting", {}).get("options", {}).keys() - options_of(CountConfig).keys()
        if unknown:
            raise RunError(
                f"{folder}: training {name} was started with {', '.join(sorted(unknown))}, which this streambpe does "
                "not know. Nothing was changed. Use the streambpe that started it, or a newer one."
            )


def write_jobs(run: Run, jobs: Jobs) -> None:
    """Replace what run.json says of trainings. Locked by the caller."""
    with disk_full_explained(run.path):
        run.change_identity(jobs=msgspec.to_builtins(jobs))


def put_job(run: Run, name: str, job: Job) -> Jobs:
    """Remember a training's job as the last one; returns what was remembered before. Locked by the caller."""
    before = read_jobs(run)
    write_jobs(run, Jobs(name, {**before.trainings, name: job}))
    return before


def find_work(run: Run, name: str | None) -> tuple[str | None, ResourceFacts | None]:
    """(training, its resources if known) that `resume` goes on with; None as the training means a count.

    Without a name it is what was started last. An unfinished count is taken to be later than a training that has
    counted its sources, unless that training was begun on half the counts.
    """
    if run.path.is_file():
        run.refuse_missing()
    record, jobs = read_record(run), read_jobs(run)
    last = jobs.trainings[jobs.last] if jobs.last is not None else None
    if name is None and run.counts.is_dir():
        learning = last is not None and (not last.counted or (last.allow_partial and _goes_on(run, str(jobs.last))))
        behind = bool(record) and last is None  # all is counted, and a kill came before the tables were filled
        if not learning and (behind or left_to_count(run)):
            return None, record.resources
    chosen, job = find_job(run, name)
    return chosen, job.resources


def _goes_on(run: Run, name: str) -> bool:
    """Whether a training is not finished."""
    return journal_path(run, name).exists() or not log_path(run, name).exists()


def find_job(run: Run, name: str | None) -> tuple[str, Job]:
    """The job of a training, or of the last one; without it, an error that names what can be resumed."""
    jobs = read_jobs(run)
    chosen = name or jobs.last
    if chosen is None or chosen not in jobs.trainings:
        known = ", ".join(jobs.trainings)
        if not known and not run.state.exists():
            raise RunError(
                f"{run.path} has no training to resume: it is not a RUN, or was stopped before anything was started. "
                "Give its first command again."
            )
        raise RunError(
            f"{run.path} has no training{f' {name}' if name else ''} to resume"
            + (f"; it has {known}. " if known else ". ")
            + f"`streambpe train {typed(run.path)}` learns from its counts."
        )
    return chosen, jobs.trainings[chosen]
