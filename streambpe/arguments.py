"""The keywords of `train` and `count`, flat and typed for editors and mypy: fields of the option classes.

    train("runs/en", ["corpus/"], vocab_size=32_000, pattern="gpt4", lines=True, memory="2GB")
    count("runs/en", ["corpus/"], pattern="gpt4", sequences=True, lines=True, memory="2GB")

A test compares these classes with TrainConfig, CountConfig, SourceOptions and Resources.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from types import UnionType
from typing import (
    Any,
    Literal,
    SupportsFloat,
    SupportsIndex,
    TypedDict,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from streambpe.config import TrainConfig
from streambpe.count_config import CountConfig, Counting, CountOptions, SourceOptions
from streambpe.errors import UsageError
from streambpe.options import options_of
from streambpe.resources import Resources


class TrainOptions(TypedDict, total=False):
    """Fields of TrainConfig: how a vocabulary is learned."""

    vocab_size: int
    encoding: Literal["bytes", "chars", "script"]
    coverage: str | float | None
    whole_characters: bool
    alphabet: Literal["gpt2", "bytes", "bytes1", "utf8", "seen"]
    ties: Literal["ids", "bytes"]
    overlaps: Literal["all", "disjoint"]
    batch: Literal["exact", "1", "paper"]
    cap_divisor: int
    max_batch: int | None
    min_frequency: int
    max_token_length: int | None
    stop_list: int
    freq_cutoff: int
    specials: Sequence[str]
    reserve: int
    count_specials: bool
    block_tokens: Sequence[str]
    weights: Mapping[str, object] | Sequence[str]
    balance: bool
    balance_ratios: Mapping[str, object] | Sequence[str]
    balance_from: int
    balance_window: int | None
    balance_alpha: str | float | None
    tau: str | float | None
    delete_to: Literal["bytes", "walk"]
    delete_test: Literal["before", "after"]
    superwords: Literal["none", "boundless", "superbpe", "uw"]
    transition: int | None
    superword_pattern: str
    stage2_pattern: str
    max_superword_words: int | None
    forbid: str | None
    token_order: Literal["latest-birth", "first-birth"]
    specials_first: bool


class ReadingOptions(TypedDict, total=False):
    """Fields of SourceOptions: how sources are read."""

    lines: bool
    text_column: str | None
    kind: Literal["auto", "txt", "lines", "jsonl", "csv", "parquet"]
    counts: bool
    stdin_name: str
    groups: Sequence[str]
    group_by: Literal["folder"] | None
    shard: str | None


class ResourceOptions(TypedDict, total=False):
    """What a job may use, as on the command line."""

    memory: str | int | None
    threads: int | None
    temp_dir: str | Path | None
    max_disk: str | int | None
    document_seconds: int | None
    engine: Literal["auto", "threads", "processes", "ray"] | None
    address: str | None


class CountKeywords(CountOptions, ReadingOptions, ResourceOptions, total=False):
    """The keywords of `count`."""


class TrainArguments(TrainOptions, CountKeywords, total=False):
    """All of them: the keywords of `train`."""

    learner: Literal["core", "tables"] | None


_RESOURCES = ("memory", "threads", "temp_dir", "max_disk", "document_seconds", "engine", "address", "learner")


def split_arguments(
    given: Mapping[str, Any], counting: Counting | Mapping[str, Any] | None, resources: Resources | None
) -> tuple[dict[str, Any], Counting, Resources]:
    """(options of learning, how to count, what may be used) of the keywords of `train`, where None and () mean nothing.

    `counting` and `resources` are the same as objects; what is said in both ways, and an unknown keyword, is an error.
    """
    homes = _homes("train", given, TrainConfig, CountConfig, SourceOptions)
    said = _said(given)
    options = {name: value for name, value in said.items() if homes.get(name) is TrainConfig}
    how = {name: value for name, value in said.items() if homes.get(name) in (CountConfig, SourceOptions)}
    if how and counting is not None:
        raise UsageError(f"{', '.join(how)} and counting: say how to count once. Leave one of the two out.")
    resources = _resources(said, resources)
    if counting is None:
        splitting = {name: how.pop(name) for name in list(how) if homes[name] is CountConfig}
        counting = Counting.of({**how, "options": splitting})
    return options, Counting.of(counting), resources


def split_count_arguments(
    given: Mapping[str, Any], options: CountOptions | None, resources: Resources | None
) -> tuple[Counting, Resources]:
    """(how to count, what may be used) of the keywords of `count`; `options` and `resources`: the same as objects."""
    homes = _homes("count", given, CountConfig, SourceOptions)
    said = _said(given)
    splitting = {name: value for name, value in said.items() if homes.get(name) is CountConfig}
    if splitting and options is not None:
        raise UsageError(f"{', '.join(splitting)} and options: say how to count once. Leave one of the two out.")
    reading = {name: value for name, value in said.items() if homes.get(name) is SourceOptions}
    return Counting.of({**reading, "options": splitting if options is None else options}), _resources(said, resources)


def _homes(function: str, given: Mapping[str, Any], *holders: type) -> dict[str, type]:
    """In which class each option is declared; an error that names a keyword that is in none."""
    homes = {name: holder for holder in holders for name in options_of(holder)}
    for name in given:
        if name not in homes and name not in _RESOURCES:
            near = get_close_matches(name, [*homes, *_RESOURCES], 1)
            raise TypeError(f"{function}() has no argument {name!r}." + (f" Is {near[0]!r} meant?" if near else ""))
        _refuse_other_type(name, given[name])
        if homes.get(name) is CountConfig:
            _refuse_no_choice(name, given[name])
    return homes


@functools.cache
def _types() -> dict[str, Any]:
    return get_type_hints(TrainArguments)


def _refuse_other_type(name: str, value: Any) -> None:
    """An error that names the argument, where deep inside something would fail that does not know it."""
    wanted = _types()[name]
    if value is not None and not _fits(value, wanted):
        said = wanted.__name__ if isinstance(wanted, type) else str(wanted).replace("collections.abc.", "")
        raise TypeError(f"{name}={value!r:.80}: {said.removesuffix(' | None')} is wanted. Nothing was changed.")


def _fits(value: Any, wanted: Any) -> bool:
    kind = get_origin(wanted)
    if kind in (Union, UnionType):
        return any(_fits(value, one) for one in get_args(wanted))
    if kind is Literal:
        return isinstance(value, str)  # which of them is checked where it is used
    if kind is Sequence:
        return isinstance(value, Iterable) and not isinstance(value, str | bytes)
    if isinstance(value, bool):  # which Python takes for a number
        return wanted in (bool, object)
    if wanted in (int, float):
        return isinstance(value, SupportsIndex if wanted is int else SupportsFloat)
    return isinstance(value, kind or wanted)


def _refuse_no_choice(name: str, value: Any) -> None:
    """The command line knows what may be chosen in how to count; here it is refused before anything is made."""
    choices = options_of(CountConfig)[name].choices
    if value is not None and choices and value not in choices:
        raise UsageError(f"{name}={value!r}: one of {', '.join(map(repr, choices))}. Nothing was changed.")


def _said(given: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in given.items() if value is not None and value != ()}


def _resources(said: Mapping[str, Any], resources: Resources | None) -> Resources:
    limits = {name: said[name] for name in _RESOURCES if name in said}
    if resources is None:
        texts = {
            name: str(limits[name])
            for name in ("memory", "temp_dir", "max_disk", "engine", "address", "learner")
            if name in limits
        }
        threads, seconds = limits.get("threads"), limits.get("document_seconds")
        return Resources.from_options(**texts, threads=threads, document_seconds=seconds)
    if limits:
        raise UsageError(f"{', '.join(limits)} and resources: say once what may be used. Leave one of the two out.")
    return resources
