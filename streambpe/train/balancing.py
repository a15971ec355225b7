"""--balance: the source groups of a run as the engine takes them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from fractions import Fraction
from pathlib import Path

from streambpe.config import TrainConfig
from streambpe.store.chunks import range_bytes
from streambpe.store.parts import parts_by_group
from streambpe.store.weights import refuse_ungrouped, refuse_unknown_groups
from streambpe.system import compose_name
from streambpe.train.balance_texts import read_text, refuse_texts
from streambpe.train.engine.balanced import Balance, BalancedEngine, Group
from streambpe.train.engine.rules import EngineOptions
from streambpe.train.training import Start
from streambpe.train.words import WordFiles, training_codec, write_words

BY_BYTES = (
    "--balance without --balance-text compares groups by bytes per token: a script with more bytes per letter "
    "(Russian 2, English 1) seems to be compressed well, gets fewer merges, and may take more tokens per word than "
    "without --balance."
)


def refuse_groups(run: Path, groups: Collection[str], config: TrainConfig) -> None:
    """An error if these groups cannot be balanced, or a ratio is of none of them."""
    refuse_ungrouped(run, groups, "--balance")
    refuse_unknown_groups(run, groups, "--balance-ratio", config.balance_ratios)
    refuse_texts(run, groups, config.balanced_on)


def balanced_engine(
    start: Start, files: WordFiles, base_tokens: Sequence[bytes], options: EngineOptions
) -> BalancedEngine:
    """The engine before the first event. `files`: the words of all groups together."""
    training, corpus, config = start.training, start.corpus, start.training.config
    cut = training_codec(start.alphabet, corpus.counting.unencodable).split_many
    groups = []
    for i, (name, parts) in enumerate(parts_by_group(corpus.parts).items()):
        size = int(corpus.groups[name]["bytes"])
        if size:  # a group without text is never compressed badly
            words = write_words(parts, cut, training.private / f"words-{i}")
            ratio = Fraction(config.balance_ratios.get(compose_name(name), "1"))
            group = Group(name, words.open(), size, ratio / size)
            if (digest := config.balanced_on.get(compose_name(name))) is not None:
                part, size = read_text(training.run, digest, range_bytes(training.resources))
                text = write_words([part], cut, training.private / f"text-{i}")
                group = Group(name, words.open(), size, ratio, text.open())
            groups.append(group)
    balance = Balance(groups, config.balance_from, config.balance_window, Fraction(config.balance_alpha or "2"))
    return BalancedEngine(files.open(), base_tokens, options, first_id=start.first_learned, balance=balance)
