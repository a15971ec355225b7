"""RUN and RUN:NAME on the command line."""

from __future__ import annotations

from pathlib import Path

import click

from streambpe.errors import UsageError, typed
from streambpe.text.shown import harmless


def named_run(run: str, name: str | None) -> tuple[str, str | None]:
    """(RUN, the training): RUN:NAME says both, as it does for a MODEL; `name` is what --name says."""
    if not run:  # as a path it would be the present folder
        raise UsageError(
            "RUN is empty, perhaps a shell variable that is not set. Nothing was done. Name a folder; '.' is the "
            "current one."
        )
    folder, colon, of_run = run.rpartition(":")
    if not colon or Path(run).exists() or not Path(folder).is_dir():
        return run, name
    if name not in (None, of_run):
        raise UsageError(f"{run} and --name {name} name two trainings. Nothing was done; leave one of them out.")
    return folder, of_run


def refuse_swapped(place: str, other: str) -> None:
    """Refuse what can only have been meant the other way round: the first word names nothing, the second a model."""
    folder = Path(other.rpartition(":")[0] or other)
    if Path(place).exists() or not any((where / "run.json").is_file() for where in (Path(other), folder)):
        return
    command = click.get_current_context().info_name
    raise UsageError(
        f"There is no {harmless(place)}, and {other} is a RUN, which comes first. Nothing was done. Did you mean "
        f"`streambpe {command} {typed(other)} {typed(place)}`?"
    )


def whole_run(run: str) -> str:
    """RUN, for a command that is about all of it."""
    folder, name = named_run(run, None)
    if name is not None:
        command = click.get_current_context().info_name
        raise UsageError(
            f"{run} names a training, and {command} is about the whole RUN. Nothing was done. Did you mean `streambpe "
            f"{command} {typed(folder)}`?"
        )
    return run
