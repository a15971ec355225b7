"""train --as MODEL: everything of an existing tokenizer but its merges, as options of a new training.

tokenizer.json of GPT-2  ->  vocab_size 50257, pattern gpt2, specials ("<|endoftext|>",)
a model learned here     ->  all its options, except the weights of its own source groups
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from streambpe.config import BALANCE_FIELDS, TrainConfig
from streambpe.count_config import CountConfig, Counting
from streambpe.errors import ModelError, UsageError, typed
from streambpe.model.eventlog import EventLog
from streambpe.model.line_shapes import HEAD
from streambpe.model.replay import Model
from streambpe.options import Option, options_of
from streambpe.store.models import read_model

SPLITTING = ("pattern", "gaps", "split_scripts", "digits", "normalize", "unencodable")  # how text becomes chunks
_OF_ITS_TEXT = {"weights", "alpha", "extends", "extends_pattern", "balance", *BALANCE_FIELDS}
_KNOWN: dict[str, Option] = {**options_of(TrainConfig), **options_of(CountConfig)}


def options_as(model: str | os.PathLike[str] | EventLog) -> dict[str, Any]:
    """The options, by the names of their fields. MODEL: an event log, RUN, RUN:NAME, or another program's file."""
    log, name = model_log(model), "The model" if isinstance(model, EventLog) else model
    header, config = log.header, log.header.config
    if "pattern" not in config:
        raise ModelError(f"{name} does not say how text is split, so nothing can be learned like it.")
    splitting = {name: config[name] for name in SPLITTING if name in config}
    if splitting.get("gaps") == "drop":  # text that no vocabulary has seen is not left out in silence
        splitting["gaps"] = "refuse"
    texts, reserve = tuple(special.text for special in header.specials), header.reserved
    if "vocab_size" in config:  # learned here
        all_options = config_of_log(log).as_options()
        learning = {name: value for name, value in all_options.items() if name not in _OF_ITS_TEXT}
    else:
        size = Model(log).n_vocab
        learning = {"vocab_size": size, "alphabet": header.alphabet["kind"], "specials": texts, "reserve": reserve}
        if config.get("specials_first") and texts:
            learning["specials_first"] = True
    changed = {
        name: value
        for name, value in learning.items()
        if value is not None and (name == "vocab_size" or value != _KNOWN[name].default)
    }
    return changed | splitting


def config_of_log(log: EventLog) -> TrainConfig:
    """The options of a training that is done."""
    header = log.header
    return TrainConfig.of_facts(header.config, [special.text for special in header.specials], header.reserved)


def with_options(
    options: Mapping[str, Any], learning: Mapping[str, Any], counting: Counting
) -> tuple[dict[str, Any], Counting]:
    """(options of learning, how to count): a model's options, where they are not given."""
    learned = {name: value for name, value in options.items() if name not in SPLITTING}
    splitting = {name: value for name, value in options.items() if name in SPLITTING}
    return learned | dict(learning), replace(counting, options=splitting | dict(counting.options))


def refuse_together(given: Mapping[str, object]) -> None:
    """Refuse two of the options that set what is not given."""
    words = [f"{flag} {value}" if isinstance(value, str | Path) else flag for flag, value in given.items() if value]
    if len(words) > 1:
        raise UsageError(f"{words[0]} and {words[1]}: each sets what is not given. Leave one of the two out.")


def model_log(model: str | os.PathLike[str] | EventLog) -> EventLog:
    """A MODEL of our own, or else a file of another program or a name (encode/formats/named.py)."""
    # a tenth of all that a training loads, which learning from text alone does without
    from streambpe.encode.formats.imports import import_file
    from streambpe.encode.formats.named import HF, TIKTOKEN

    if isinstance(model, EventLog):
        return model
    path = Path(model)
    if path.is_dir() and (path / "tokenizer.json").is_file() and not (path / "state.duckdb").exists():
        return import_file(path / "tokenizer.json")
    is_log = path.is_dir() or path.name.endswith(".jsonl") or not path.exists()
    if not str(model).startswith((HF, TIKTOKEN)) and (is_log or _begins_as_log(path)):
        return read_model(model)
    try:
        return import_file(model)
    except UsageError:  # ranks carry no pattern
        raise ModelError(
            f"{model} is not a tokenizer that says how text is split. If it holds tiktoken ranks: `streambpe import "
            f"{typed(model)} --pattern PATTERN -o ranks.events.jsonl`, and give that file. Nothing was changed."
        ) from None


def _begins_as_log(path: Path) -> bool:
    """Whether a file is an event log, whatever its name."""
    with path.open("rb") as file:
        return file.read(len(HEAD)) == HEAD


def flag_of(name: str) -> str:
    """The option that sets a field."""
    return _KNOWN[name].flag
