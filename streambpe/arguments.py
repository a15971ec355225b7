"""The keywords of the functions: the options of the command line, by the names that they have there.

train("runs/en", ["corpus/"], vocab_size="32k", pattern="gpt4", special="<|end|>", lines=True, memory="2GB")
evaluate("runs/en", "held-out.txt", lines=True, memory="2GB", threads=1)
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, ParamSpec, TypeVar

from streambpe.config import LIKE_OPTION, TrainConfig
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
    **dict.fromkeys(("evaluate", "report", "prune", "extend_report"), ([], [], READING_OPTIONS, LIMIT_OPTIONS)),
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
    return Arguments(learning, Counting.of(how), Resources.resumed(before, limits) if resources is None else resources)


_KNOWN = {option.key: option for option in (*_LEARNING, *_SPLITTING, *_SOURCES, *RESOURCE_OPTIONS, LIKE_OPTION)}
_OFF = {option.off: f"{option.keyword}={option.default is not False}" for option in _KNOWN.values() if option.off}
_OFF["--no-playground"] = "playground=False"
_SWITCHES = {key for key, option in _KNOWN.items() if option.switch} | {
    "add-bos", "add-eos", "allow-partial", "files", "force", "keep-ids", "playground", "replay", "sources"
}  # fmt: skip
_VALUE = r"""'[^']*'|"[^"]*"|[^\s'",;()]*[^\s'",;:().]"""
_FLAG = re.compile(
    rf"`[^`]*`|streambpe [a-z]+ .*$|(?<![\w-])(--[a-z][a-z0-9-]*|-o\b)(?: ({_VALUE})(?=(:| is )?))?", re.M
)
_SURELY = re.compile(r"""['"].*|[\d.,]+\w*|1/\w+|[A-Z=]+""")  # a value, whatever the option
_WORDS = {"and", "are", "for", "has", "in", "is", "none", "of", "or", "out", "says", "so", "that", "to", "with"}


def in_python(message: str) -> str:
    """A message about options as it is said in Python: `superwords='uww'` for --superwords uww.

    What stands in backticks, and a command to be typed, stay as they are.
    """
    return _FLAG.sub(_in_python, message)


def _in_python(found: re.Match[str]) -> str:
    flag, value, then = found.groups()
    if flag is None:
        return found.group()
    key = flag.removeprefix("--")
    name = {"-o": "output", "as": "as_model"}.get(key) or key.replace("-", "_")
    rest = f" {value}" if value else ""
    if flag in _OFF or key in _SWITCHES:
        return _OFF.get(flag, f"{name}=True") + rest
    if value is None or value in _WORDS:
        return name + rest
    begins = found.start() == 0 and then  # `--threads 0: from 1 to ...`
    of_words = key in ("by", "pattern", "to") or (key in _KNOWN and value in _KNOWN[key].choices)
    if not (begins or of_words or _SURELY.fullmatch(value)):
        return name + rest
    said = value if re.fullmatch("[A-Z]+|-?[0-9.]+", value) else repr(value.strip("'\""))
    return f"{name}={said}"


def spoken(function: Callable[P, R]) -> Callable[P, R]:
    """A public function: its errors name arguments, where those of the command line name options."""

    @functools.wraps(function)
    def called(*args: P.args, **given: P.kwargs) -> R:
        try:
            return function(*args, **given)
        except StreambpeError as error:
            error.args = tuple(in_python(part) if isinstance(part, str) else part for part in error.args)
            raise

    called.__module__ = "streambpe.api"  # where pickle finds it
    return called
