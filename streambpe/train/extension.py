"""train --extend MODEL: learning goes on from an existing vocabulary, on other text.

    MODEL            event log, RUN:NAME, tokenizer.json, ...: 50 257 ids
    words            every chunk of the new corpus as tokens of MODEL                 (train/words.py)
    engine           those tokens are its base tokens; the first new one is 50 257    (train/opening.py)
    event log        the events of MODEL, and behind them the new ones; version 2 of the format

A chunk that MODEL encodes is what replaying its merges in order leaves of it, so the words are what they would be if
all of it had been learned from this text; nothing has to be replayed. From the same text with the same options the
events equal those of one training to the larger size.

The event log of MODEL is kept in the RUN (extended.jsonl) from before anything is counted, so that a training that was
stopped or killed goes on without MODEL, and TrainConfig.extends is the sha256 of that file.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from streambpe.arrays import Int64
from streambpe.config import TrainConfig
from streambpe.core.strings import as_strings
from streambpe.count_config import Counting
from streambpe.encode.encoder import Encoder
from streambpe.errors import EventLogError, LimitError, ModelError, RunError, UsageError, typed
from streambpe.files import content_of
from streambpe.model.alphabet import BYTE_KINDS, Alphabet
from streambpe.model.eventlog import EventLog, FixedIds, Op, Special, log_lines, read_event_lines
from streambpe.model.events import Events
from streambpe.model.replay import Model
from streambpe.plurals import counted
from streambpe.resources import BASE_BYTES, Resources, format_size
from streambpe.store.models import encoding_pattern
from streambpe.store.run import Run
from streambpe.store.training_files import extended_path
from streambpe.store.trainings import TokenTable
from streambpe.text.patterns import Pattern
from streambpe.train.as_model import SPLITTING, flag_of, model_log, options_as, with_options

# What belongs to MODEL: options that must not be given beside --extend unless they say the same.
OF_MODEL = (
    "encoding", "coverage", "alphabet", "stop_list", "specials", "reserve", "token_order", "specials_first",
)  # fmt: skip
_STARTING_ANEW = ("must", "batch", "cap_divisor", "max_batch", "tau", "delete_to", "delete_test", "superwords",
                  "transition", "superword_pattern", "stage2_pattern", "max_superword_words", "forbid", "token_order",
                  "specials_first")  # fmt: skip


# What says how superwords are joined where whole chunks, or words and then superwords, are learned in one training.
_ONE_TRAINING = ("transition", "superword_pattern", "max_superword_words", "forbid")

TOKEN_BYTES = 1600  # of a token of the model, at most, while the model encodes
_BESIDE = 32 << 20  # of chunks and what is read of them, then


def encoding_bytes(tokens: int) -> int:
    """The --memory that encoding chunks with so many tokens takes."""
    return BASE_BYTES + _BESIDE + TOKEN_BYTES * tokens


def refuse_too_little_memory(resources: Resources, name: str, tokens: int) -> None:
    """An error if a model with so many tokens does not fit --memory."""
    needed = encoding_bytes(tokens)
    if needed > resources.memory_bytes:
        least = -(-needed // 10**6)
        raise LimitError(
            f"{name} has {counted(tokens, 'merge')}, and encoding with it takes {least} MB; --memory is "
            f"{format_size(resources.memory_bytes)}. Nothing was changed. Give --memory {least}MB."
        )


@dataclass(frozen=True)
class Extension:
    """A model that is extended."""

    name: str  # for messages
    log: EventLog

    @classmethod
    def of(cls, model: str | os.PathLike[str] | EventLog) -> Extension:
        """Read a MODEL; an error if learning cannot go on from it."""
        log, name = model_log(model), "the model" if isinstance(model, EventLog) else str(model)
        ops = {event.op for event in log.events}
        if Op.DELETE in ops:
            raise ModelError(
                f"{name} was learned with deletions: some of its ids change when more tokens are learned, so they "
                "cannot all stay. Nothing was changed."
            )
        if Op.SUPERMERGE in ops:
            raise ModelError(
                f"{name} has superwords of whole chunks (boundless or superbpe): words learned after them would have "
                "to be counted together with them. Nothing was changed. Only vocabularies without superwords, or "
                "with --superwords uw, can be extended."
            )
        return cls(name, log)

    @classmethod
    def kept(cls, run: Run, name: str, digest: str) -> Extension:
        """The model that a training of a RUN extends, as it is kept there."""
        path = extended_path(run, name)
        data = content_of(path) or b""
        if hashlib.sha256(data).hexdigest() != digest:
            what = "has changed" if data else "is lost"
            raise RunError(
                f"{path}, the extended model, {what}. Nothing was changed. Put the right one back, or give the "
                f"`streambpe train {typed(run.path)}` command again with --extend MODEL."
            )
        try:
            log = read_event_lines(data.split(b"\n")[:-1], str(path))
        except EventLogError as why:
            raise RunError(f"{why}.") from None
        return cls(str(path), replace(log, events=Events.of(log.events)))

    @cached_property
    def lines(self) -> bytes:
        """The event log."""
        return b"".join(log_lines(self.log)[0])

    def options(self, learning: Mapping[str, Any], counting: Counting) -> tuple[dict[str, Any], Counting]:
        """(options of learning, how to count): the model's, where they are not given. An error if one is given that
        belongs to the model, and differs."""
        options = options_as(self.log)
        del options["vocab_size"]  # as it was asked for: learning may have ended before
        if (kind := self.log.header.alphabet["kind"]) in ("chars", "script"):
            options["encoding"] = kind
            options.pop("alphabet", None)
        options = {name: value for name, value in options.items() if name not in _STARTING_ANEW}
        pattern = encoding_pattern(self.log.header.config)
        if self.log.header.config.get("superwords") == "uw":  # a list of merges that is used with the second pattern
            options |= {"pattern": self.log.header.config["stage2_pattern"], "gaps": "keep"}
        elif self.log.header.config.get("gaps") == "drop" and not pattern.keep_gaps:
            options["gaps"] = "drop"  # what MODEL leaves out is left out here
        if learning.get("superwords") == "uw":
            learning, changed = self._second_stage(learning, options, pattern)
            options |= changed
        for name, value in learning.items():
            if name in OF_MODEL and value != options.get(name, TrainConfig.__dataclass_fields__[name].default):
                self._refuse(name, value, options.get(name))
        for name, value in counting.options.items():
            if name in SPLITTING and name in options and value != options[name]:
                self._refuse(name, value, options[name])
        extends = hashlib.sha256(self.lines).hexdigest()
        both, counting = with_options(options, {**learning, "extends": extends}, counting)
        wanted, size = both.get("vocab_size"), Model(self.log).n_vocab
        uncounted = 0 if both.get("count_specials", True) else len(self.log.header.specials) + self.log.header.reserved
        if wanted is not None and wanted <= size - uncounted:
            raise UsageError(
                f"--vocab-size {wanted}: {self.name} has {size} ids already, all of which stay. Nothing was changed. "
                "Give a larger number, which includes these."
            )
        return both, counting

    def _second_stage(
        self, learning: Mapping[str, Any], options: Mapping[str, Any], pattern: Pattern
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """--superwords uw: (options of learning, options in place of the model's). All merges of the model are made in
        text that is cut by the second pattern alone, and BPE goes on there: another pattern is all that changes."""
        for name in _ONE_TRAINING:
            if learning.get(name) is not None:
                raise UsageError(
                    f"{flag_of(name)} with --superwords uw and --extend {self.name}: no words are learned before the "
                    "superwords. Nothing was changed. Leave it out. To learn words first, extend the model by words, "
                    "then extend the result with --superwords uw."
                )
        for refused, why in (
            (self.log.header.alphabet["kind"] not in BYTE_KINDS, "its symbols are not bytes"),
            (self.log.header.stop_words, "its stop words are chunks of its own pattern"),
            (options.get("split_scripts") or pattern.by_rules, "it does not split text by an expression alone"),
            (options.get("gaps") == "drop", "it leaves out text that its pattern does not match"),
        ):
            if refused:
                raise ModelError(f"--superwords uw with --extend {self.name}: {why}. Nothing was changed.")
        second = learning.get("stage2_pattern") or TrainConfig.stage2_pattern
        left = {name: value for name, value in learning.items() if name not in ("superwords", "stage2_pattern")}
        return left | {"extends_pattern": options["pattern"]}, {"pattern": second, "gaps": "keep"}

    def _refuse(self, name: str, given: Any, held: Any) -> None:
        flag, shown = flag_of(name), " ".join(given) if isinstance(given, tuple | list) else given
        has = f"it has {flag} {' '.join(held) if isinstance(held, tuple | list) else held}" if held else "it has none"
        raise UsageError(
            f"{flag} {shown} with --extend {self.name}: that is fixed by the model, and {has}. Nothing was changed. "
            "Leave the option out."
        )

    def refuse_other_specials(self, config: TrainConfig) -> None:
        """An error if the options made other special tokens than the model has."""
        header = self.log.header
        if config.specials != tuple(special.text for special in header.specials) or config.unk != header.unk:
            raise ModelError(
                f"{self.name} has characters as symbols and the unknown token {header.unk!r}; only models with <unk>, "
                "in any case, can be extended. Nothing was changed."
            )

    # ------------------------------------------------------------------ what a training has from it

    @property
    def stop_words(self) -> list[str]:
        """The model's stop words."""
        return [word.content.decode() for word in self.log.header.stop_words]

    @cached_property
    def ids(self) -> tuple[tuple[Special, ...], FixedIds]:
        """(the model's special tokens with the ids they have, the ids that stay): for the header of what is learned."""
        model = Model(self.log)
        specials = tuple(Special(special.text, model.special_ids[special.text]) for special in self.log.header.specials)
        return specials, FixedIds.of(len(self.log.events), model.reserved_ids)

    def base_tokens(self) -> tuple[list[bytes], list[int]]:
        """(what each id stands for, how many symbols it has), as the engine takes it."""
        alphabet = Alphabet.from_header(self.log.header.alphabet)
        book = TokenTable.of(alphabet, [word.content for word in self.log.header.stop_words])
        book.add(self.log.events, 0)
        contents = book.symbols()
        lengths = [1] * len(contents)
        for event in self.log.events:
            left, right = event.pair
            lengths[event.id] = lengths[left] + lengths[right]
        return contents, lengths


def encoded_chunks(log: EventLog) -> Callable[[Int64, Any], tuple[Any, Any]]:
    """What gives chunks as tokens of a model, as a codec gives them as base symbols: (ids of all chunks, how many each
    has); -1 is a symbol outside the alphabet."""
    encoder = Encoder(log)
    return lambda offsets, data: encoder.encode_distinct(as_strings(offsets, data))
