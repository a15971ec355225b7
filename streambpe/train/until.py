"""train --until-bytes-per-token: the smallest size at which a text becomes so few tokens.

    merges      0     1     2    ...  4 813 ...      learned up to --vocab-size, and thrown away again
    text      1.00  1.09  1.17   ...   4.201 ...     what it has after each of them (encode/grown.py): 4.2 is reached

Then the vocabulary of this size is learned as if it had been asked for. Bytes per token only grow with merges inside
chunks, so nothing else is allowed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from streambpe.config import MOST_DECIMALS, TrainConfig, decimal_text
from streambpe.count_config import Counting
from streambpe.encode.encoder import Encoder
from streambpe.encode.grown import GrownUses
from streambpe.errors import UsageError
from streambpe.model.eventlog import EventLog
from streambpe.model.events import Events
from streambpe.model.replay import sizes_after
from streambpe.progress import Meter
from streambpe.resources import release_memory
from streambpe.sources.find import find_sources, from_anywhere
from streambpe.store.chunks import range_bytes
from streambpe.store.merge import merged_lists
from streambpe.store.parts import Part
from streambpe.train.balance_texts import counted_texts
from streambpe.train.beginning import open_journal
from streambpe.train.engine.rules import EngineTuning
from streambpe.train.opening import open_engine
from streambpe.train.training import Corpus, Start, Training

if TYPE_CHECKING:
    import threading

_MOST = 10**6  # bytes per token


def wanted_until(
    target: float | str | None, texts: Sequence[str], config: TrainConfig, how: Counting
) -> tuple[str, ...]:
    """The bytes per token to be reached and the texts, as a job keeps them; an error if they cannot be."""
    if target is None or not texts:
        raise UsageError("--until-bytes-per-token X and --text FILE belong together: give both, or leave both out.")
    wanted = decimal_text("--until-bytes-per-token", target, "above 0", _MOST, MOST_DECIMALS, "4.2")
    for given, what in (
        (config.superwords != "none", f"--superwords {config.superwords}"), (config.tau is not None, "--tau"),
        (config.batch == "paper", "--batch paper"), (bool(config.must), "--must"),
    ):  # fmt: skip
        if given:
            raise UsageError(f"--until-bytes-per-token {target}: with {what} a smaller training is not the beginning "
                             f"of a larger one, or bytes per token also fall. Nothing was changed. Leave one of the "
                             f"two out, or choose a size from `streambpe sizes`.")  # fmt: skip
    find_sources(texts, how, in_part=True)
    return wanted, *map(from_anywhere, texts)


def size_until(
    wanted: Sequence[str], training: Training, corpus: Corpus, tuning: EngineTuning, meter: Meter,
    stop: threading.Event,
) -> tuple[int, str]:  # fmt: skip
    """The --vocab-size of the smallest vocabulary that reaches what is wanted, and what to tell if none does."""
    target, texts, resources = Fraction(wanted[0]), wanted[1:], training.resources
    start = Start.of(training, corpus)
    journal, at_once, book = open_journal(training, corpus), range_bytes(resources) // 4, start.book()
    book.add(journal.words, 0)
    with counted_texts(training.run, {"": texts}, Counting(), resources, "--text") as counted:
        parts = counted.parts[""]
        size = sum(part.spans.total("text_bytes") for part in parts)
        with contextlib.closing(open_engine(start, journal, tuning, meter)) as engine:
            events = Events.of(journal.words)
            meter.stage, meter.total = "learning", start.goal.words
            for batch in engine.batches(start.goal.words - book.learned):
                events.extend(batch.events)
                meter.done = len(events)
                if stop.is_set():
                    raise training.stopped(len(journal.events), stop)
        release_memory()  # the encoder takes it
        for tokens, ids in _grown(start, events, parts, at_once):
            if size >= target * tokens:
                return ids, ""
    return ids, (f"--until-bytes-per-token {wanted[0]} is not reached with {ids} ids: the text has "
                 f"{size / max(tokens, 1):.3f}.")  # fmt: skip


def _grown(start: Start, events: Events, parts: Sequence[Part], at_once: int) -> list[tuple[int, int]]:
    """(tokens of the text, --vocab-size) of every size that the events reach, the smallest first."""
    log = EventLog(start.header(None, 0), events)
    grown = GrownUses(Encoder(log))
    for rows in merged_lists(parts, at_once):
        grown.add(rows.frame())
    beside = len(log.header.specials) + log.header.reserved
    after = np.array([len(start) + beside, *sizes_after(log.header, events)])
    new = np.flatnonzero(np.diff(after, prepend=0) > 0)  # a training ends where its last token is new
    new = new[new >= start.brought]
    ids = after[new] - (0 if start.training.config.count_specials else beside)
    return list(zip(grown.tokens[new].tolist(), ids.tolist(), strict=True))
