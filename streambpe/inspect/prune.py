"""streambpe prune: a smaller vocabulary out of a larger one, and what that costs in tokens.

Which tokens are used least is measured on texts, or on what the model's own RUN has counted.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from streambpe.arrays import Int64
from streambpe.count_config import SourceOptions
from streambpe.encode.tokenizer import Tokenizer
from streambpe.errors import UsageError
from streambpe.inspect.curves import uses_on_chunks
from streambpe.inspect.evaluate import count_uses, no_uses
from streambpe.model.eventlog import EventLog, write_event_log
from streambpe.model.pruned import prune_log
from streambpe.outputs import refuse_existing, whole_output
from streambpe.progress import Meter
from streambpe.resources import Resources
from streambpe.sources.find import find_sources
from streambpe.store.chunks import range_bytes
from streambpe.store.models import read_model, run_of
from streambpe.store.run import Run


@dataclass(frozen=True)
class Pruned:
    """What came of it."""

    model: Path
    ids: int
    ids_before: int
    bytes_per_token: float | None  # of what it was measured on
    bytes_per_token_before: float | None

    def as_json(self) -> dict[str, Any]:
        """For --json."""
        return {**asdict(self), "model": str(self.model)}


def prune(
    model: str,
    output: str,
    size: int,
    *,
    texts: Sequence[str] = (),
    how: SourceOptions = SourceOptions(),
    id_map: str | None = None,
    keep_ids: bool = False,
    force: bool = False,
    resources: Resources | None = None,
    meter: Meter | None = None,
) -> Pruned:
    """Write the log of a model with `size` ids in use, made of the tokens of `model` that are used most.

    texts: what the uses are counted in; none: what the RUN of the model has counted. id_map: a JSON file to write, from
    old ids to new ones. keep_ids: every id stays, and those of tokens that leave are free.
    """
    resources = resources or Resources.from_options()
    for path in filter(None, (output, id_map)):
        refuse_existing(Path(path), force)
    if id_map is not None and os.path.realpath(id_map) == os.path.realpath(output):
        raise UsageError(f"-o and --map both name {output}. Nothing was written. Give the map a name of its own.")
    log = read_model(model)
    before = Uses(model, texts, how, resources, meter).of(log)
    if not before.bytes:
        raise UsageError(
            f"{' '.join(texts) or model}: there is no text, so nothing tells which tokens are used least. Nothing was "
            f"written. Give texts to measure on: --text FILE."
        )
    made, moved = prune_log(log, dict(enumerate(before.n.tolist())), size, keep_ids=keep_ids)
    after = Uses(model, texts, how, resources, meter).of(made)
    write_event_log(output, made)
    if id_map is not None:
        with whole_output(Path(id_map)) as file:
            file.write_text(json.dumps(moved) + "\n", encoding="utf-8")
    ids, ids_before = (Tokenizer.from_event_log(one).n_vocab - one.header.config.get("holes", 0) for one in (made, log))
    return Pruned(Path(output), ids, ids_before, after.bytes_per_token, before.bytes_per_token)


@dataclass(frozen=True)
class Counted:
    """How often each token is used, and in how many bytes."""

    n: Int64  # by log id
    bytes: int

    @property
    def bytes_per_token(self) -> float | None:
        """None where there is no token."""
        tokens = int(self.n.sum())
        return self.bytes / tokens if tokens else None


@dataclass(frozen=True)
class Uses:
    """What uses are counted in."""

    model: str
    texts: Sequence[str]
    how: SourceOptions
    resources: Resources
    meter: Meter | None

    def of(self, log: EventLog) -> Counted:
        """The uses of a log's tokens."""
        if not self.texts:
            return self._in_run(log)
        tokenizer = Tokenizer.from_event_log(log)
        total = no_uses(tokenizer)
        for source in find_sources(list(self.texts), self.how)[0]:
            total += count_uses(tokenizer, source, self.resources, self.meter)
        log_ids = tokenizer.encoder.model.log_id
        n = np.zeros(max(log_ids.values(), default=0) + 1, np.int64)
        for number, uses in enumerate(total.n.tolist()):
            if number in log_ids:
                n[log_ids[number]] = uses
        return Counted(n, total.bytes)

    def _in_run(self, log: EventLog) -> Counted:
        run = run_of(self.model)
        if run is None or log.header.config.get("superwords", "none") != "none":
            why = "it lies in no RUN" if run is None else "its superwords reach over the chunks of its RUN"
            raise UsageError(
                f"Which tokens {self.model} uses least is to be measured, and {why}. Nothing was written. Give texts "
                f"to measure on: --text FILE."
            )
        return Counted(*uses_on_chunks(Run.open(run), log, range_bytes(self.resources) // 4))
