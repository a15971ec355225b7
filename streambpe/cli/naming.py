"""RUN and RUN:NAME on the command line."""

from __future__ import annotations

from pathlib import Path

import click

from streambpe.errors import UsageError


def named_run(run: str, name: str | None) -> tuple[str, str | None]:
    """(RUN, the training): RUN:NAME says both, as it does for a MODEL; `name` is what --name says."""
    folder, colon, of_run = run.rpartition(":")
    if not colon or Path(run).exists() or not Path(folder).is_dir():
        return run, name
    if name not in (None, of_run):
        raise UsageError(f"{run} and --name {name} name two trainings. Nothing was done; leave one of them out.")
    return folder, of_run


def whole_run(run: str) -> str:
    """RUN, for a command that is about all of it."""
    folder, name = named_run(run, None)
    if name is not None:
        command = click.get_current_context().info_name
        raise UsageError(
            f"{run} names a training, and {command} is about the whole RUN. Nothing was done. Is this meant: "
            f"`streambpe {command} {folder}`?"
        )
    return run
