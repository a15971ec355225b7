"""The keywords of the functions: the options of the command line, by the names that they have there.

train("runs/en", ["corpus/"], vocab_size="32k", pattern="gpt4", special="<|end|>", lines=True, memory="2GB")
evaluate("runs/en", "held-out.txt", lines=True, memory="2GB", threads=1)
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, ParamSpec, TypeVar

from streambpe.config import TrainConfig
from streambpe.count_config import CountConfig, Counting, SourceOptions
from streambpe.errors import StreambpeError, UsageError, meant
from streambpe.options import Option, fitting, options_of, taken
from streambpe.resources import (
    JOB_OPTIONS,
    LIMIT_OPTIONS,
    PLANNING_OPTIONS,
    RESOURCE_OPTIONS,
    ResourceFacts,
    Resources,
)

P = ParamSpec("P")
R = TypeVar("R")
_LEARNING, _SPLITTING, _SOURCES = (
    list(options_of(holder).values()) for holder in (TrainConfig, CountConfig, SourceOptions)
)
READING_OPTIONS = [option for option in _SOURCES if option.name in ("lines", "text_column", "kind")]
# By function: the options of learning, of splitting and of sources that it takes, and what it may use.
_TAKEN: dict[str, tuple[list[Option], ...]] = {
    "train": (_LEARNING, _SPLITTING, _SOURCES, RESOURCE_OPTIONS),
    "plan": (_LEARNING, _SPLITTING, _SOURCES, PLANNING_OPTIONS),
    **dict.fromkeys(("count", "take_back"), ([], _SPLITTING, _SOURCES, RESOURCE_OPTIONS)),
    "converge": (_LEARNING, [], [], LIMIT_OPTIONS),
    "resume": ([], [], [], JOB_OPTIONS),
    "encode_corpus": ([], [], READING_OPTIONS, PLANNING_OPTIONS),
    **dict.fromkeys(
        ("evaluate", "sizes", "report", "prune", "extend_report"), ([], [], READING_OPTIONS, LIMIT_OPTIONS)
    ),
    **dict.fromkeys(("check", "sql", "merge_counts"), ([], [], [], LIMIT_OPTIONS)),
}


class Arguments(NamedTuple):
    """What the keywords of a function say."""

    learning: dict[str, Any]  # by the names of fields of TrainConfig
    how: Counting  # how texts are read and counted
    resources: Resources


def arguments(
    function: str,
    given: Mapping[str, Any],
    counting: SourceOptions | Mapping[str, Any] | None = None,
    resources: Resources | None = None,
    before: ResourceFacts | None = None,
) -> Arguments:
    """What the keywords of a function say; None and () say nothing. An error names the keyword that is wrong.

    `counting` and `resources` are the same as objects: what is said in both ways is an error. `before`: what the job
    might use until now.
    """
    parts = _TAKEN[function]
    known = {option.keyword: (number, option) for number, part in enumerate(parts) for option in part}
    found: list[dict[str, Any]] = [{} for _ in parts]
    for name, value in given.items():
        if name not in known:
            raise TypeError(f"{function}() has no argument {name!r}.{meant(repr(name), map(repr, known))}")
        number, option = known[name]
        if value is None or value == ():
            continue
        found[number][option.name] = taken(name, value, functools.partial(fitting, option))
    learning, splitting, reading, limits = found
    for what, same, names in (("counting", counting, [*splitting, *reading]), ("resources", resources, limits)):
        if names and same is not None:
            raise UsageError(f"{', '.join(names)} and {what}: both say the same. Leave one of the two out.")
    how = {**reading, "options": splitting} if counting is None else counting
    return Arguments(
        learning, Counting.of(how), Resources.from_options(before, **limits) if resources is None else resources
    )


_NAMES = {"-o": "output", "--as": "as_model", "--no-playground": "playground=False", "--force": "force=True"} | {
    option.off: f"{option.keyword}=False" for option in (*_LEARNING, *_SPLITTING, *_SOURCES) if option.off
}
_CHOICES = {option.flag: option.choices for option in (*_LEARNING, *_SPLITTING, *_SOURCES, *RESOURCE_OPTIONS)}
_VALUE = r"""'[^']*'|"[^"]*"|[^\s,;()]*[^\s,;:.()]"""
_FLAG = re.compile(
    rf"`[^`]*`|streambpe [a-z]+ .*$|(?<![\w-])(--[a-z][a-z0-9-]*|-o\b)(?: ({_VALUE})(?=(:\s|:$| is not )?))?", re.M
)
_SURELY = re.compile(r"""['"\d-].*|[A-Z]+""")


def in_python(message: str) -> str:
    """A message about options with the names of arguments: `superwords='uww': one of` for --superwords uww: one of.

    The word behind an option is its value if a colon follows, or if it is a number, quoted, or one of the option's
    choices. What stands in backticks, and a command to be typed, stay.
    """

    def named(found: re.Match[str]) -> str:
        flag, value, then = found.groups()
        if flag is None:
            return found[0]
        name = _NAMES.get(flag, flag.strip("-").replace("-", "_"))
        if not value:
            return name
        if value == "out" or not (then or value in _CHOICES.get(flag, ()) or _SURELY.fullmatch(value)):
            return f"{name} {value}"
        bare = value.strip("'\"")
        return f"{name}={value if re.fullmatch('-?[0-9.]+|[A-Z]+', value) else repr(bare)}"

    return _FLAG.sub(named, message)


def spoken(function: Callable[P, R]) -> Callable[P, R]:
    """A public function: its errors name arguments, where those of the command line name options."""

    @functools.wraps(function)
    def called(*args: P.args, **given: P.kwargs) -> R:
        try:
            return function(*args, **given)
        except StreambpeError as error:
            error.args = tuple(map(in_python, error.args))
            raise

    called.__module__ = "streambpe.api"  # where pickle finds it
    return called
