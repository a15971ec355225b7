"""The keywords of the functions: the options of the command line, by the names that they have there.

train("runs/en", ["corpus/"], vocab_size="32k", pattern="gpt4", special="<|end|>", lines=True, memory="2GB")
evaluate("runs/en", "held-out.txt", lines=True, memory="2GB", threads=1)
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from functools import partial
from typing import Any, NamedTuple

from streambpe.config import TrainConfig
from streambpe.count_config import CountConfig, Counting, SourceOptions
from streambpe.errors import UsageError
from streambpe.options import Option, fitting, options_of, taken
from streambpe.resources import (
    JOB_OPTIONS,
    LIMIT_OPTIONS,
    PLANNING_OPTIONS,
    RESOURCE_OPTIONS,
    ResourceFacts,
    Resources,
)

_LEARNING, _SPLITTING, _SOURCES = (
    list(options_of(holder).values()) for holder in (TrainConfig, CountConfig, SourceOptions)
)
READING_OPTIONS = [option for option in _SOURCES if option.name in ("lines", "text_column", "kind")]
_NONE: list[Option] = []
# By function: the options of learning, of splitting and of sources that it takes, and what it may use.
_TAKEN = {
    "train": (_LEARNING, _SPLITTING, _SOURCES, RESOURCE_OPTIONS),
    "plan": (_LEARNING, _SPLITTING, _SOURCES, PLANNING_OPTIONS),
    "count": (_NONE, _SPLITTING, _SOURCES, RESOURCE_OPTIONS),
    "converge": (_LEARNING, _NONE, _NONE, LIMIT_OPTIONS),
    "resume": (_NONE, _NONE, _NONE, JOB_OPTIONS),
    "encode_corpus": (_NONE, _NONE, READING_OPTIONS, PLANNING_OPTIONS),
    **dict.fromkeys(("evaluate", "report", "prune", "extend_report"), (_NONE, _NONE, READING_OPTIONS, LIMIT_OPTIONS)),
    **dict.fromkeys(("check", "sql", "merge_counts"), (_NONE, _NONE, _NONE, LIMIT_OPTIONS)),
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
            near = get_close_matches(name, known, 1)
            raise TypeError(f"{function}() has no argument {name!r}." + (f" Is {near[0]!r} meant?" if near else ""))
        number, option = known[name]
        if value is None or value == ():
            continue
        found[number][option.name] = taken(name, value, partial(fitting, option))
    learning, splitting, reading, limits = found
    for what, same, names in (("counting", counting, [*splitting, *reading]), ("resources", resources, limits)):
        if names and same is not None:
            raise UsageError(f"{', '.join(names)} and {what}: each says the same. Leave one of the two out.")
    how = {**reading, "options": splitting} if counting is None else counting
    return Arguments(learning, Counting.of(how), Resources.resumed(before, limits) if resources is None else resources)
