"""streambpe extend-report: what a vocabulary gained when it was extended (train --extend).

    id 50257   made of 262 5813        stands for " kazi", used 812 times: 812 tokens less
    bytes per token   2.91 before, 3.64 now

The parts of a new id are ids of the model that was extended: its row in an embedding matrix may begin as their mean.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Unpack

from streambpe.arguments import arguments
from streambpe.arrays import Int64
from streambpe.encode.tokenizer import Tokenizer
from streambpe.errors import UsageError
from streambpe.inspect.curves import measuring_on
from streambpe.model.eventlog import EventLog
from streambpe.model.replay import Model
from streambpe.options import several
from streambpe.progress import reported
from streambpe.resources import Resources
from streambpe.results import Result
from streambpe.store.models import read_model, run_of

if TYPE_CHECKING:
    from streambpe.keywords import ReadKeywords


@dataclass(frozen=True)
class NewId:
    """A token that was learned."""

    id: int
    text: str
    parts: list[int]  # ids that there were before
    uses: int
    saved: int  # how many tokens less the text has because of it


@dataclass(frozen=True)
class Extended(Result):
    """What came of it."""

    ids: int
    ids_before: int
    bytes_per_token: float | None  # None where there is nothing to measure
    bytes_per_token_before: float | None
    new: list[NewId]  # by id

    def best(self, many: int) -> list[NewId]:
        """Those that save most; of equal ones, the lower id."""
        return sorted(self.new, key=lambda one: (-one.saved, one.id))[:many]


@reported("measuring")
def extend_report(
    model: str | os.PathLike[str],
    *,
    text: str | Sequence[str] = (),
    resources: Resources | None = None,
    progress: str = "none",
    **options: Unpack[ReadKeywords],
) -> Extended:
    """Look at what an extended model gained, on texts, or on what its RUN has counted."""
    _, how, resources = arguments("extend_report", options, None, resources)
    texts = several(text)
    log = read_model(model)
    if not log.header.inherited or "holes" in log.header.config:  # prune --keep-ids fixes ids, too
        raise UsageError(f"{model} does not extend a model: it was not learned with --extend.")
    old = EventLog(log.header, log.events[: log.header.inherited])
    first_pattern = log.header.config.get("extends_pattern")
    if first_pattern is not None:
        config = {**log.header.config, "pattern": first_pattern, "gaps": "keep"}
        old = EventLog(replace(log.header, config=config), old.events)
    uses_of, _ = measuring_on(run_of(model), log, texts, how, resources, 2)
    before, after = (uses_of(Tokenizer(one)) for one in (old, log))  # one at a time, for the memory
    ids, ids_before = (Model(one).n_vocab for one in (log, old))
    return Extended(ids, ids_before, after.bytes_per_token, before.bytes_per_token, _new_ids(log, after.n))


def _new_ids(log: EventLog, uses: Int64) -> list[NewId]:
    """Every token that the inherited events do not make, with the inherited ones it is made of."""
    tokenizer, first = Tokenizer(log), log.header.inherited
    inherited, model_id = {event.id for event in log.events[:first]}, tokenizer.encoder.model.model_id
    parts: dict[int, list[int]] = {}
    for event in log.events[first:]:
        if event.id not in inherited and event.id not in parts:
            parts[event.id] = [one for part in event.pair for one in parts.get(part, [part])]
    ids = {model_id[number]: [model_id[part] for part in made_of] for number, made_of in parts.items()}
    used = {id_: int(uses[id_]) for id_ in ids}
    return [
        NewId(id_, tokenizer.decode([id_]), made_of, used[id_], used[id_] * (len(made_of) - 1))
        for id_, made_of in ids.items()
    ]
