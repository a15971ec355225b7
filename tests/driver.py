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
from streambpe.store.run import Run
from streambpe.train.counting import sizes, worker
from streambpe.train.counting.count import count
from streambpe.train.engine.rules import EngineTuning
from streambpe.train.superwords import tasks
from streambpe.train.trainer import Trainer
from streambpe.train.training import Training

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
    """Train from what the run has counted; without `options`, only count."""
    if "options" not in given:
        prepare_allocators(RESOURCES.memory_bytes)
        count(given["run"], given["sources"], resources=RESOURCES, stop=stop, counting=given["counting"])
        return
    config, how = TrainConfig.from_options(**given["options"]), dict(given.get("trainer", {}))
    if "tuning" in how:
        how["tuning"] = EngineTuning(**how["tuning"])
    rests = Rests(given.get("rest", 0.0))
    training = Training(Run.open(given["run"]), config, how.pop("name", "main"), RESOURCES)
    Trainer(training, stop=stop, on_batch=rests, **how).run()


def main() -> None:
    """One count or training; it ends with the exit code that the command line would have."""
    given = json.loads(sys.argv[1])
    if "block" in given:  # many blocks and a checkpoint after each, even for a small corpus
        sizes.MOST_BLOCK = sizes.LEAST_BLOCK = given["block"]
        worker.CHECKPOINT_SECONDS = -1.0
    if "file_places" in given:  # many files of neighbours and runs, even for a small corpus
        tasks.MOST_PLACES = given["file_places"]
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
