"""What the events of a log come to: which tokens live, with which ids, and which events merge, delete and join them.

How a text is encoded by replaying them is told in docs/event-log.md; the core does it (core/encode.h), and
tests/oracles/replay.py is the slow judge of it.

Log ids are what events speak of. Model ids, the dense numbers encoders hand out, cover the
living tokens only: base alphabet, stop words, learned tokens by latest birth, then special
tokens, then reserved places. Config may say otherwise: `"token_order": "first-birth"` numbers
by log id and `"specials_first": true` puts special tokens before the alphabet (both PickyBPE). In a log of
version 2 special tokens and reserved places have the ids that the header says, and tokens take the others in order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

import numpy as np

from streambpe.errors import EventLogError
from streambpe.model.alphabet import Alphabet
from streambpe.model.eventlog import Event, EventLog, Header, Op
from streambpe.model.events import DELETE, OPS, Events
from streambpe.model.vocabulary import Vocabulary
from streambpe.resources import uncollected

Pair = tuple[int, int]

_MERGE = OPS.index(Op.MERGE)


def merge(sequence: Sequence[int], pair: Pair, new: int) -> list[int]:
    """Replace each occurrence of pair by new, left to right without overlap: aaa -> [aa, a]."""
    result: list[int] = []
    for item in sequence:
        if result and (result[-1], item) == pair:
            result[-1] = new
        else:
            result.append(item)
    return result


def split(sequence: Sequence[int], number: int, into: Sequence[int]) -> list[int]:
    """Replace each occurrence of a deleted token by its parts."""
    result: list[int] = []
    for item in sequence:
        result.extend(into if item == number else (item,))
    return result


def steps(events: Iterable[Event]) -> Iterator[list[Event]]:
    """Group events into steps: a merge or supermerge with the deletions it caused."""
    step: list[Event] = []
    for event in events:
        if event.op is not Op.DELETE and step:
            yield step
            step = []
        step.append(event)
    if step:
        yield step


def sizes_after(header: Header, events: Iterable[Event]) -> list[int]:
    """How many model ids there are after each event: base, stop words, living, specials, reserved."""
    model = Vocabulary(Alphabet.from_header(header.alphabet), [word.content for word in header.stop_words])
    extra = len(header.specials) + header.reserved
    return [model.size + extra for _ in _replayed(model, Events.of(events))]


def why_never_cut(header: Header, events: Iterable[Event]) -> str:
    """Why there is no smaller model in a log; "" if there is."""
    if "holes" in header.config:
        return "its ids have holes (prune --keep-ids), so it cannot be cut; prune it to fewer"
    if "pruned_from" in header.config and np.any(Events.of(events).column("op") == DELETE):  # nothing else makes both
        return "prune --residues made it, so it cannot be cut; cut the model that it was made from, then prune"
    return ""


def events_for_size(
    header: Header, events: Sequence[Event], vocab_size: int, after: Sequence[int] | None = None
) -> int:
    """How many events a model of vocab_size ids keeps: up to the first finished step with that many. `after`: what
    `sizes_after` gives.

    Deletions belong to the merge that caused them, so a size that is passed in the middle of a step and
    lost again is not reached. Raises ValueError if the log never reaches vocab_size or begins above it.
    """
    size = len(header.symbols) + len(header.stop_words) + len(header.specials) + header.reserved
    if size > vocab_size:
        raise ValueError(f"the model has {size} ids before any event, so it cannot be cut to {vocab_size}")
    why = why_never_cut(header, events)
    if size == vocab_size and not header.inherited and not why:
        return 0
    after = sizes_after(header, events) if after is None else after
    if why and vocab_size == [size, *after][-1]:
        return len(events)
    if why and vocab_size <= max([size, *after]):
        raise ValueError(why)
    if header.inherited and vocab_size < after[header.inherited - 1]:
        raise ValueError(
            f"its first {after[header.inherited - 1]} ids came from another model, so it cannot be cut below them; "
            "cut that model instead"
        )
    ends = np.flatnonzero(np.append(Events.of(events).column("op"), _MERGE)[1:] != DELETE) + 1  # of steps
    for kept in ends.tolist():
        if after[kept - 1] >= vocab_size and kept >= header.inherited:
            return int(kept)
    largest = max([size, *after])
    raise ValueError(
        f"the log does not reach {vocab_size} ids (at most {largest}); train with a larger --vocab-size, or ask for "
        "fewer"
    )


def _replayed(vocabulary: Vocabulary, events: Events) -> Iterator[tuple[int, int, int, int]]:
    """Apply the events one after the other; of each that was applied (its op's place in OPS, left, right, id)."""
    learn = vocabulary.learn
    columns = (events.column(name).tolist() for name in ("op", "left", "right", "id"))
    for at, event in enumerate(zip(*columns, strict=True)):
        op, left, right, made = event
        if op == DELETE:
            into = events.into[at]
            if tuple(chain.from_iterable(vocabulary[part].base for part in into)) != vocabulary[made].base:
                raise EventLogError(
                    f"The event log contradicts itself: it splits {made} into {into!s:.80}, which is not what it was "
                    "made of. It was changed after it was written; write it again from its RUN with `streambpe "
                    "export`."
                )
            vocabulary.delete(made)
        elif (number := learn(left, right)) != made:
            raise EventLogError(
                f"The event log contradicts itself: its {OPS[op]} of {left} and {right} makes "
                f"{vocabulary[number].content!r:.80}, which has id {number} here, not {made}. It was changed after it "
                "was written; write it again from its RUN with `streambpe export`."
            )
        yield event


class Model:
    """The meaning of an event log, or of the first `vocab_size` ids of it."""

    def __init__(self, log: EventLog, vocab_size: int | None = None) -> None:
        events = Events.of(log.events)
        if vocab_size is not None:
            events = events[: events_for_size(log.header, events, vocab_size)]
        self.header = log.header
        self.events = events
        self.alphabet = Alphabet.from_header(log.header.alphabet)
        self.vocabulary = Vocabulary(self.alphabet, [word.content for word in log.header.stop_words])
        # pair -> growing event indices; nearly all have one, and a tuple is nothing that garbage is looked for in
        self.merges: dict[Pair, tuple[int, ...]] = {}
        self.deletions: dict[int, list[int]] = {}  # token -> growing event indices
        self.supermerges: dict[Pair, int] = {}  # pair -> its first event index
        made = events.column("id")
        with uncollected():
            for index, (op, left, right, number) in enumerate(_replayed(self.vocabulary, events)):
                if op == _MERGE:
                    self.merges[left, right] = (*self.merges.get((left, right), ()), index)
                elif op == DELETE:
                    self.deletions.setdefault(number, []).append(index)
                else:
                    self.supermerges.setdefault((left, right), index)
        # A deletion takes a token's id away, so a superword that spells this token does not form.
        self.supermerges = {pair: i for pair, i in self.supermerges.items() if int(made[i]) in self.vocabulary.living}
        self.model_id = self._model_ids()
        self.log_id = {model: log for log, model in self.model_id.items()}

    def _model_ids(self) -> dict[int, int]:
        """Living log id -> model id; also decides the ids of special tokens."""
        first_birth = self.header.config.get("token_order", "latest-birth") == "first-birth"
        specials_first = bool(self.header.config.get("specials_first", False))
        living = sorted(self.vocabulary.living) if first_birth else list(self.vocabulary.living)
        texts = [special.text for special in self.header.specials]
        start = self.alphabet.first_id
        self.n_vocab = len(living) + len(texts) + self.header.reserved
        if self.header.fixed is not None:
            self.special_ids = {special.text: special.id for special in self.header.specials}
            self.reserved_ids = [low + i for low, many in self.header.fixed.free for i in range(many)]
            taken = {*self.special_ids.values(), *self.reserved_ids}
            others = (number for number in range(start, start + self.n_vocab) if number not in taken)
            return dict(zip(living, others, strict=True))
        first_token = start + len(texts) if specials_first else start
        first_special = start if specials_first else start + len(living)
        self.special_ids = {text: number for number, text in enumerate(texts, first_special)}
        end = start + self.n_vocab
        self.reserved_ids = list(range(end - self.header.reserved, end))
        return {log: model for model, log in enumerate(living, first_token)}

    def content(self, log_id: int) -> bytes:
        """What a log id stands for."""
        return self.vocabulary[log_id].content
