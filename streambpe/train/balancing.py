"""--balance: the source groups of a run as the engine takes them."""

from __future__ import annotations

from collections.abc import Collection
from fractions import Fraction
from pathlib import Path

import msgspec

from streambpe.config import TrainConfig
from streambpe.errors import LimitError
from streambpe.model.eventlog import EventLog
from streambpe.model.events import Events
from streambpe.resources import Resources, format_size
from streambpe.store.chunks import range_bytes
from streambpe.store.parts import parts_by_group
from streambpe.store.weights import refuse_ungrouped, refuse_unknown_groups
from streambpe.system import compose_name
from streambpe.train.balance_texts import read_text, refuse_texts
from streambpe.train.engine.balanced import LEARNER_TOKEN_BYTES, Balance, BalancedEngine, Choices, Group
from streambpe.train.engine.in_memory import BYTES_PER_PLACE
from streambpe.train.engine.rules import EngineOptions, Words
from streambpe.train.engine.state import State
from streambpe.train.extension import encoded_chunks, encoding_bytes
from streambpe.train.fitting import engine_room, memory_for
from streambpe.train.snapshots import CHOICES
from streambpe.train.training import Start
from streambpe.train.words import ChunkCutter, training_codec, write_words

BY_BYTES = (
    "--balance without --balance-text compares groups by bytes per token: a script with more bytes per letter "
    "(Russian 2, English 1) seems to be compressed well, gets fewer merges, and may take more tokens per word than "
    "without --balance."
)


def refuse_groups(run: Path, groups: Collection[str], config: TrainConfig, resources: Resources) -> None:
    """An error if these groups cannot be balanced, or a ratio is of none of them."""
    refuse_ungrouped(run, groups, "--balance")
    refuse_unknown_groups(run, groups, "--balance-ratio", config.balance_ratios)
    refuse_texts(run, groups, config.balanced_on)
    room = LEARNER_TOKEN_BYTES * config.vocab_size * (len(groups) + len(config.balanced_on))
    learning = 0 if room <= engine_room(resources.memory_bytes) else memory_for(-(-room // BYTES_PER_PLACE))
    needed = max(learning, encoding_bytes(config.vocab_size))  # the words are encoded with what was learned
    if needed > resources.memory_bytes:
        least = -(-needed // 10**6)
        texts = " and as many texts" if config.balanced_on else ""
        raise LimitError(
            f"--balance with {len(groups)} groups{texts} and --vocab-size {config.vocab_size} takes {least} MB, "
            f"because each of them keeps all tokens separately; --memory is {format_size(resources.memory_bytes)}. "
            f"Nothing was learned. Give --memory {least}MB."
        )


class RunWords:
    """The words of a RUN after any events of a training."""

    def __init__(self, start: Start) -> None:
        self._start = start

    def together(self, events: Events) -> Words:
        """See GroupedWords."""
        folder = self._start.training.private / "words"
        return write_words(self._start.corpus.chunks, self._cut(events), folder)

    def apart(self, events: Events) -> list[Group]:
        """See GroupedWords."""
        training, corpus, config = self._start.training, self._start.corpus, self._start.training.config
        cut = self._cut(events)
        groups = []
        for i, (name, parts) in enumerate(parts_by_group(corpus.parts).items()):
            size = int(corpus.groups[name]["bytes"])
            if size:  # a group without text is never compressed badly
                words = write_words(parts, cut, training.private / f"words-{i}", 1)
                ratio = Fraction(config.balance_ratios.get(compose_name(name), "1"))
                group = Group(words, ratio / size)
                if (digest := config.balanced_on.get(compose_name(name))) is not None:
                    part = read_text(training.run, digest, range_bytes(training.resources))
                    text = write_words([part], cut, training.private / f"text-{i}", 1)
                    group = Group(words, ratio, text)
                groups.append(group)
        return groups

    def _cut(self, events: Events) -> ChunkCutter:
        """What cuts chunks into the tokens that these events make of them."""
        start = self._start
        if not len(events):
            return training_codec(start.alphabet, start.corpus.counting.unencodable).split_many
        return encoded_chunks(EventLog(start.header(None, len(events)), events))


def balanced_engine(start: Start, options: EngineOptions, known: Events, snapshot: Path | None) -> BalancedEngine:
    """The engine after these events, and what the snapshot there was then tells."""
    config = start.training.config
    tokens = [b""] * start.alphabet.first_id + list(start.alphabet.symbols)
    balance = Balance(config.balance_from, config.balance_window, Fraction(config.balance_alpha or "2"))
    before = None if snapshot is None else msgspec.json.decode((snapshot / CHOICES).read_bytes(), type=Choices)
    return BalancedEngine(RunWords(start), State(tokens, options, start.first_learned), known, balance, before)
