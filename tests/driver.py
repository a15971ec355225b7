"""A count or a training for tests to signal and to kill: `python -m tests.driver JSON` (tests.runs.Driver).

It takes options that the command line does not have. It prints `ready` before anything else, `learning` at the first
pass and `done` at the end, and rests after every pass, so that a signal finds it at work.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from typing import Any

from streambpe.cli.signals import stop_on_signals
from streambpe.config import TrainConfig
from streambpe.errors import StreambpeError
from streambpe.resources import Resources, prepare_allocators
from streambpe.train import commands, trainer
from streambpe.train.counting import sizes, worker
from streambpe.train.counting.count import count
from streambpe.train.engine.rules import EngineTuning
from streambpe.train.pace import Pace
from streambpe.train.superwords import tasks

RESOURCES = Resources(400 * 10**6, 2)


class Rests:
    """Called after every pass: prints `learning` after the first, and sleeps."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.told = False

    def __call__(self, _batch: object) -> None:
        if not self.told:
            print("learning", flush=True)
        self.told = True
        time.sleep(self.seconds)


def learn(given: dict[str, Any], stop: threading.Event) -> None:
    """Train from sources if some are given, else from what the run has counted; without `options`, only count."""
    if "options" not in given:
        prepare_allocators(RESOURCES.memory_bytes)
        count(given["run"], given["sources"], resources=RESOURCES, stop=stop, counting=given["counting"])
        return
    shared = {
        "name": given.get("name", "main"), "resources": RESOURCES, "stop": stop,
        "on_batch": Rests(given.get("rest", 0.0)),
    }  # fmt: skip
    if given.get("sources"):
        commands.train(given["run"], given["sources"], counting=given["counting"], **shared, **given["options"])
        return
    config = TrainConfig.from_options(**given["options"])
    options = dict(given.get("trainer", {}))
    if "tuning" in options:
        options["tuning"] = EngineTuning(**options["tuning"])
    trainer.Trainer(given["run"], config, **shared, **options).run()


def main() -> None:
    """One count or training; it ends with the exit code that the command line would have."""
    given = json.loads(sys.argv[1])
    if "block" in given:  # many blocks and a checkpoint after each, even for a small corpus
        sizes.MOST_BLOCK = sizes.LEAST_BLOCK = given["block"]
        worker.CHECKPOINT_SECONDS = -1.0
    if "file_places" in given:  # many files of neighbours and runs, even for a small corpus
        tasks.MOST_PLACES = given["file_places"]
    if given.get("always_due"):  # a checkpoint and a snapshot after each pass
        Pace.is_due = lambda _: True  # type: ignore[method-assign]
        given["trainer"] = {**given.get("trainer", {}), "checkpoint_seconds": 0}
    print("ready", flush=True)
    with stop_on_signals() as stop:
        try:
            learn(given, stop)
        except StreambpeError as error:
            print(error, file=sys.stderr)
            sys.exit(error.exit_code)
    print("done", flush=True)


if __name__ == "__main__":
    main()
