"""A smaller vocabulary out of a larger one: the learned tokens that are used least leave, all others stay.

    a b -> ab, ab c -> abc, ab d -> abd; abc used 5 times, abd 9, ab 2    one token less: without abc

Only a token that no other one is made of can leave, so every kept merge still finds its parts. The uses of one that
leaves go to its parts. What is left is a log like any other: the same merges, in the same order. Its ids are numbered
anew, or stay what they were; then those that left are free ids, as many as `holes` in its config says.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import replace
from fractions import Fraction

from msgspec import structs

from streambpe.errors import UsageError
from streambpe.model.eventlog import EventLog, FixedIds, Special
from streambpe.model.events import Event, Op, delete_event
from streambpe.model.replay import Model


def is_residue(uses: int, made: int, share: Fraction) -> bool:
    """Whether a token is left in less than a share of the places where merges make it."""
    return uses * share.denominator < made * share.numerator


def without_residues(
    log: EventLog, uses: Mapping[int, int], made: Mapping[int, int], share: Fraction
) -> tuple[EventLog, dict[int, int]]:
    """The same for a model whose learned tokens are all used in at least a share of the places where merges make them.

    made: how often merges make each log id. What is used less becomes the two parts that it is made of, where no merge
    takes it up: an event at the end of the log deletes it. The token that was learned last is looked at first, and uses
    of one that leaves are uses of its parts.
    """
    count, pairs = Counter(dict(uses)), {event.id: event for event in reversed(log.events)}
    ends: list[Event] = []
    for number in sorted(pairs, reverse=True):
        if is_residue(count[number], made[number], share):
            parts = pairs[number].pair
            ends.append(delete_event(number, parts, count[number]))
            count.update({part: parts.count(part) * count[number] for part in {*parts}})
    return _numbered(log, {event.id for event in ends}, (*log.events, *ends), lambda number: number, keep_ids=False)


def prune_log(
    log: EventLog, uses: Mapping[int, int], size: int, *, keep_ids: bool = False
) -> tuple[EventLog, dict[int, int]]:
    """(the log of a model of `size` ids, which new id each old one has). uses: how often each log id is used.

    Of equal uses the token that was learned last leaves first. `keep_ids`: nothing gets another id.
    """
    model = Model(log)
    there = model.n_vocab - log.header.config.get("holes", 0)
    too_many = there - size
    refuse_deletions(log)
    learned = {event.id for event in log.events}
    if not 0 <= too_many <= len(learned):
        least = there - len(learned)
        raise UsageError(f"--to {size}: the model has {there} ids, {least} of which were not learned. Nothing was "
                         f"written. Give a number from {least} to {there}.")  # fmt: skip
    gone = _least_used(log.events, uses, too_many)
    first = log.events[0].id if log.events else 0
    ids: dict[int, int] = {}
    for event in log.events:
        if event.id not in gone:
            ids.setdefault(event.id, first + len(ids))

    def renamed(number: int) -> int:
        return ids.get(number, number)

    events = tuple(
        structs.replace(event, id=renamed(event.id), left=renamed(event.pair[0]), right=renamed(event.pair[1]))
        for event in log.events
        if event.id not in gone
    )
    return _numbered(log, gone, events, renamed, keep_ids)


def refuse_deletions(log: EventLog) -> None:
    """An error if tokens of the model were deleted."""
    if not any(event.op is Op.DELETE for event in log.events):
        return
    if "pruned_from" in log.header.config:
        raise UsageError(
            "The model was made by `prune --residues`, so it cannot be pruned again. Nothing was written. Prune the "
            "model that it was made from."
        )
    raise UsageError(
        "The model was learned with --tau: its tokens were deleted and made again, so it cannot be pruned. "
        "Nothing was written. It can be cut to a smaller size: `streambpe export --to events --vocab-size N`."
    )


def _numbered(
    log: EventLog, gone: Set[int], events: Sequence[Event], renamed: Callable[[int], int], keep_ids: bool
) -> tuple[EventLog, dict[int, int]]:
    """What is left without some tokens, and which new id each old one has. `renamed`: the new log id of an old one."""
    model = Model(log)
    holes = log.header.config.get("holes", 0)
    config = {**log.header.config, "pruned_from": model.n_vocab}
    config.pop("extends", None)  # its events are not those that begin this log
    if keep_ids:
        config["holes"] = holes + len(gone)
        free = [*model.reserved_ids, *(model.model_id[number] for number in gone)]
        specials = tuple(Special(text, number) for text, number in model.special_ids.items())
        fixed = FixedIds.of(len(events), free)
        header = replace(log.header, config=config, specials=specials, reserved=len(free), fixed=fixed)
    else:
        config.pop("holes", None)
        if "vocab_size" in config:
            config["vocab_size"] -= len(gone) + holes
        header = replace(log.header, config=config, reserved=log.header.reserved - holes, fixed=None)
    made = Model(EventLog(header, events))
    specials = tuple(Special(special.text, made.special_ids[special.text]) for special in log.header.specials)
    moved = {old: made.model_id[renamed(number)] for old, number in model.log_id.items() if number not in gone}
    moved |= {model.special_ids[text]: number for text, number in made.special_ids.items()}
    return EventLog(replace(header, specials=specials), tuple(events)), dict(sorted(moved.items()))


def _least_used(events: Sequence[Event], uses: Mapping[int, int], many: int) -> set[int]:
    """So many learned tokens, each taken when nothing that is left is made of it."""
    makers: dict[int, list[Event]] = defaultdict(list)
    needed: Counter[int] = Counter()
    for event in events:
        makers[event.id].append(event)
        needed.update({*event.pair})
    count = Counter(dict(uses))
    free = [(count[number], -number) for number in makers if not needed[number]]
    heapq.heapify(free)
    gone: set[int] = set()
    while len(gone) < many:
        _, negative = heapq.heappop(free)
        number = -negative
        gone.add(number)
        for part in makers[number][0].pair:
            count[part] += count[number]
        for event in makers[number]:
            for part in {*event.pair}:
                needed[part] -= 1
                if not needed[part] and part in makers:
                    heapq.heappush(free, (count[part], -part))
    return gone
