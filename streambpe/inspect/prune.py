"""streambpe prune: a smaller vocabulary out of a larger one, and what that costs in tokens.

Which tokens are used least is measured on texts, or on what the model's own RUN has counted.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from streambpe.count_config import SourceOptions
from streambpe.encode.tokenizer import Tokenizer
from streambpe.errors import UsageError
from streambpe.inspect.curves import refuse_reading_nothing, uses_in_run, uses_in_texts
from streambpe.inspect.measures import Uses
from streambpe.model.eventlog import EventLog, write_event_log
from streambpe.model.pruned import prune_log
from streambpe.model.replay import Model
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
    refuse_reading_nothing(texts, how)
    resources = resources or Resources.from_options()
    for path in filter(None, (output, id_map)):
        refuse_existing(Path(path), force)
    if id_map is not None and os.path.realpath(id_map) == os.path.realpath(output):
        raise UsageError(f"-o and --map both name {output}. Nothing was written. Give the map a name of its own.")
    log = read_model(model)
    measured = partial(uses_of, model, texts, how, resources, meter)
    before = measured(log)
    if not before.bytes:
        raise UsageError(
            f"{' '.join(texts) or model}: there is no text, so nothing tells which tokens are used least. Nothing was "
            f"written. Give texts to measure on: --text FILE."
        )
    uses = {number: int(before.n[id_]) for id_, number in Model(log).log_id.items()}
    made, moved = prune_log(log, uses, size, keep_ids=keep_ids)
    after = measured(made)
    write_event_log(output, made)
    if id_map is not None:
        with whole_output(Path(id_map)) as file:
            file.write_text(json.dumps(moved) + "\n", encoding="utf-8")
    ids, ids_before = (Tokenizer.from_event_log(one).n_vocab - one.header.config.get("holes", 0) for one in (made, log))
    return Pruned(Path(output), ids, ids_before, after.bytes_per_token, before.bytes_per_token)


def uses_of(
    model: str, texts: Sequence[str], how: SourceOptions, resources: Resources, meter: Meter | None, log: EventLog
) -> Uses:
    """How often the ids of a log are used: in texts, or without any in what the RUN of `model` has counted."""
    tokenizer = Tokenizer.from_event_log(log)
    if texts:
        return uses_in_texts(tokenizer, find_sources(list(texts), how)[0], resources, meter)
    run = run_of(model)
    if run is None or log.header.config.get("superwords", "none") != "none":
        why = "it lies in no RUN" if run is None else "its superwords reach over the chunks of its RUN"
        raise UsageError(
            f"Which tokens {model} uses least is to be measured, and {why}. Nothing was written. Give texts "
            f"to measure on: --text FILE."
        )
    return uses_in_run(tokenizer, Run.open(run), range_bytes(resources) // 4)
