"""The keywords of the functions: the options of the command line, by the names of their fields.

train("runs/en", ["corpus/"], vocab_size=32_000, pattern="gpt4", lines=True, memory="2GB")
count("runs/en", ["corpus/"], pattern="gpt4", sequences=True, lines=True, memory="2GB")
evaluate("runs/en", "held-out.txt", lines=True, memory="2GB", threads=1)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from streambpe.config import TrainConfig
from streambpe.count_config import CountConfig, Counting, SourceOptions
from streambpe.errors import UsageError, meant
from streambpe.options import Option, fitting, options_of
from streambpe.resources import LIMIT_OPTIONS, RESOURCE_OPTIONS, ResourceFacts, Resources

_LEARNING, _SPLITTING, _READING = (
    list(options_of(holder).values()) for holder in (TrainConfig, CountConfig, SourceOptions)
)
READING_OPTIONS = [option for option in _READING if option.name in ("lines", "text_column", "kind")]


def split_arguments(
    given: Mapping[str, Any],
    counting: Counting | Mapping[str, Any] | None,
    resources: Resources | None,
    function: str = "train",
    limiting: list[Option] = RESOURCE_OPTIONS,
) -> tuple[dict[str, Any], Counting, Resources]:
    """(options of learning, how to count, what may be used) of the keywords of a function; None and () mean nothing.

    `counting` and `resources` are the same as objects; what is said in both ways, and an unknown keyword, is an error.
    """
    learning, splitting, reading, limits = _split(function, given, _LEARNING, _SPLITTING, _READING, limiting)
    _refuse_twice({**splitting, **reading}, counting, "counting: say only once how to count")
    how = {**reading, "options": splitting} if counting is None else counting
    return learning, Counting.of(how), _resources(limits, resources)


def split_count_arguments(
    given: Mapping[str, Any], options: Mapping[str, Any] | None, resources: Resources | None
) -> tuple[Counting, Resources]:
    """(how to count, what may be used) of the keywords of `count`; `options` and `resources`: the same as objects."""
    splitting, reading, limits = _split("count", given, _SPLITTING, _READING, RESOURCE_OPTIONS)
    _refuse_twice(splitting, options, "options: say only once how to count")
    how = Counting.of({**reading, "options": splitting if options is None else options})
    return how, _resources(limits, resources)


def split_learning_arguments(
    function: str, given: Mapping[str, Any], config: TrainConfig | None, like: str, resources: Resources | None
) -> tuple[TrainConfig, Resources]:
    """(options of learning, what may be used) of the keywords of a function that counts nothing."""
    learning, limits = _split(function, given, _LEARNING, LIMIT_OPTIONS)
    return config_of(learning, config, like), _resources(limits, resources)


def config_of(learning: Mapping[str, Any], config: TrainConfig | None, like: str) -> TrainConfig:
    """The options of learning; `config`: the same as an object."""
    _refuse_twice(learning, config, "config: say only once how to learn")
    return TrainConfig.from_options(like, **learning) if config is None else config


def split_reading_arguments(
    function: str, given: Mapping[str, Any], how: SourceOptions | None, resources: Resources | None
) -> tuple[SourceOptions, Resources]:
    """(how texts are read, what may be used) of the keywords of a function that reads; `how`, `resources`: the same."""
    reading, limits = _split(function, given, READING_OPTIONS, LIMIT_OPTIONS)
    _refuse_twice(reading, how, "how: say only once how the texts are read")
    return SourceOptions(**reading) if how is None else how, _resources(limits, resources)


def split_limits(
    function: str,
    given: Mapping[str, Any],
    resources: Resources | None,
    options: list[Option] = LIMIT_OPTIONS,
    before: ResourceFacts | None = None,
) -> Resources:
    """What a function may use, of keywords that are these `options` alone; `before`: what its job had until now."""
    (limits,) = _split(function, given, options)
    return _resources(limits, resources, before)


def _split(function: str, given: Mapping[str, Any], *parts: list[Option]) -> list[dict[str, Any]]:
    """The keywords that say something, by the part that their option is in; an error that names one that is in none."""
    known = {option.name: (number, option) for number, part in enumerate(parts) for option in part}
    found: list[dict[str, Any]] = [{} for _ in parts]
    for name, value in given.items():
        if name not in known:
            raise TypeError(f"{function}() has no argument {name!r}.{meant(repr(name), map(repr, known))}")
        number, option = known[name]
        if value is None or value == ():
            continue
        try:
            found[number][name] = fitting(option, value)
        except TypeError as wanted:
            raise TypeError(f"{name}={value!r:.80}: {wanted} is expected. Nothing was changed.") from None
    return found


def _refuse_twice(given: Mapping[str, Any], same: object, what: str) -> None:
    if given and same is not None:
        raise UsageError(f"{', '.join(given)} and {what}. Leave one of the two out.")


def _resources(
    limits: Mapping[str, Any], resources: Resources | None, before: ResourceFacts | None = None
) -> Resources:
    _refuse_twice(limits, resources, "resources: say only once what may be used")
    return Resources.resumed(before, limits) if resources is None else resources
