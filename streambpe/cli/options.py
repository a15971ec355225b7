"""Options that several commands share, built from the fields of the option classes (options.py)."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Sequence
from typing import Any, cast

import click
from click.core import ParameterSource
from msgspec import structs

from streambpe.cli.help import F, PanelOption
from streambpe.cli.told import say
from streambpe.cli.wrong import OneOf
from streambpe.config import LIKE_OPTION, TrainConfig
from streambpe.count_config import CountConfig, SourceOptions
from streambpe.errors import UsageError
from streambpe.options import Option, options_of, parse_amount, refuse_no_text
from streambpe.progress import MODES
from streambpe.resources import (
    JOB_OPTIONS,
    LIMIT_OPTIONS,
    PLANNING_OPTIONS,
    RESOURCE_OPTIONS,
    SMALLEST_MEMORY_BYTES,
    ResourceFacts,
    Resources,
    format_size,
    keeper,
    prepare_allocators,
)
from streambpe.text.aliases import remark_on_alias


class Amount(click.ParamType):  # type: ignore[type-arg]  # generic in newer releases of click only
    """A whole number, also as people say it: 32k is 32 000, 32Ki 32 768."""

    name = "number"

    def __init__(self, least: int, most: int | None) -> None:
        self.least, self.most = least, most

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The number; click tells what is none."""
        try:
            number: int = parse_amount(value) if isinstance(value, str) else value
        except ValueError:
            self.fail(f"{value!r} is not a whole number. Write it like 32000, 32k or 32Ki.", param, ctx)
        if number < self.least:
            self.fail(f"{value} is too small: at least {self.least}.", param, ctx)
        if self.most is not None and number > self.most:
            self.fail(f"{value} is too large: at most {self.most}.", param, ctx)
        return number


def click_option(option: Option, **more: Any) -> Callable[[F], F]:
    """The click option for an option. Its default is None, unless `more` says another; () for a list, False for a flag
    without --no-flag."""
    default = option.shown_default
    help = f"{option.help} [default: {default}]" if default else option.help
    fixed: dict[str, Any] = {"panel": option.panel, "help": help, "metavar": option.metavar, "default": None}
    if option.switch:
        fixed |= {"is_flag": True, "default": None if option.off else False}
    elif option.choices:
        fixed["type"] = OneOf(option.choices)
    elif option.least is not None:
        fixed |= {"type": Amount(option.least, option.most), "metavar": option.metavar or "N"}
    if option.many:
        fixed |= {"multiple": True, "default": ()}
    if more.get("required"):
        del fixed["default"]  # which would count as given
    names = [f"{option.flag}/{option.off}" if option.off else option.flag, *filter(None, [option.short])]
    return click.option(*names, option.name, cls=PanelOption, **{**fixed, **more})


def own_option(flag: str, help: str, panel: str = "", *, default: Any = None, **more: Any) -> Callable[[F], F]:
    """An option of a command that is no field of a class, in the last panel unless another is named. `more`: what
    Option says, and what click takes."""
    name = more.pop("name", flag.strip("-").replace("-", "_"))
    said = {field: more.pop(field) for field in Option.__struct_fields__ if field in more}
    if default is not None:
        more["default"] = default
    return click_option(Option(name, flag, help, panel, default=default, **said), **more)


TRAIN_OPTIONS, COUNT_OPTIONS, SOURCE_OPTIONS = (  # by the names that the functions know them by
    tuple(structs.replace(option, name=option.keyword) for option in options_of(holder).values())
    for holder in (TrainConfig, CountConfig, SourceOptions)
)
_BY_NAME = {option.name: option for option in (*RESOURCE_OPTIONS, *COUNT_OPTIONS, *SOURCE_OPTIONS)}


def taking(options: Sequence[Option], change: Callable[[dict[str, Any]], object]) -> Callable[[F], F]:
    """These options for a command; `change` gets all arguments before the command does, and may replace some."""

    def decorate(command: F) -> F:
        @functools.wraps(command)
        def with_changed(**given: Any) -> Any:
            change(given)
            return command(**given)

        return with_options(cast(F, with_changed), options)

    return decorate


def making_resources(options: Sequence[Option], make: Callable[..., Resources]) -> Callable[[F], F]:
    """Options that reach a command as one argument, `resources`: what is made of them."""

    def change(given: dict[str, Any]) -> None:
        given["resources"] = make(**{option.name: given.pop(option.name) for option in options})

    return taking(options, change)


def with_options(command: F, options: Sequence[Option]) -> F:
    """A command that takes these options too, which --help shows in this order."""
    for option in reversed(options):
        command = click_option(option)(command)
    return command


def open_resources(before: ResourceFacts | None = None, **limits: Any) -> Resources:
    """Apply --memory, --threads and the others to this process; to be called before Polars is imported.

    `before`: what a job had until now; options that are not given are taken from it.
    """
    resources = Resources.from_options(before, **limits)
    if before and limits["memory"] is None and resources.memory_bytes < before["memory_bytes"]:
        say(
            f"it had --memory {format_size(before['memory_bytes'])}, which this machine does not have: continuing "
            f"with {format_size(resources.memory_bytes)}",
        )
    click.get_current_context().with_resource(keeper.watching(resources.memory_bytes))
    os.environ.setdefault("POLARS_MAX_THREADS", str(resources.threads))
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # numpy's threads would spin while they wait for matrices
    prepare_allocators(resources.memory_bytes)
    return resources


# For a command that only looks, one that reads sources and leaves no RUN, one whose RUN may grow large, and one that
# learns in it:
resource_options, planning_options, job_options, learning_job_options = (
    making_resources(options, open_resources)
    for options in (LIMIT_OPTIONS, PLANNING_OPTIONS, JOB_OPTIONS, RESOURCE_OPTIONS)
)
query_options = making_resources(
    [
        _BY_NAME["temp_dir"],
        structs.replace(_BY_NAME["threads"], help="The threads of the query.", told_default="2"),
        structs.replace(
            _BY_NAME["memory"], help="The memory of the query; the rest goes to disk.", told_default="256MB"
        ),
    ],
    functools.partial(open_resources, Resources(SMALLEST_MEMORY_BYTES, 2).as_facts()),
)


# What is not given is what --like sets, or what the run has:
train_options = functools.partial(with_options, options=[TRAIN_OPTIONS[0], LIKE_OPTION, *TRAIN_OPTIONS[1:]])


def _remark(given: dict[str, Any]) -> None:
    """Say what a pattern's name may be mistaken for, before anything is counted."""
    if told := remark_on_alias(given["pattern"] or ""):
        say(told)


count_options = taking([*COUNT_OPTIONS, *SOURCE_OPTIONS], _remark)


def reading_options(*names: str, panel: str = "Corpus") -> Callable[[F], F]:
    """Options of SourceOptions, for a command that only reads texts: how they are read."""
    return functools.partial(with_options, options=[structs.replace(_BY_NAME[name], panel=panel) for name in names])


def text_option(help: str, metavar: str = "FILE", **more: Any) -> Callable[[F], F]:
    """--text, which may be given again."""
    return own_option("--text", f"{help}; may be given again.", "Most used", many=True, metavar=metavar, **more)


def options_given(*names: str) -> list[str]:
    """The flags of those of these options of the present command that stand on the command line."""
    ctx = click.get_current_context()
    given = [name for name in names if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE]
    return [param.opts[-1] for param in ctx.command.params if param.name in given]


def text_only(_ctx: click.Context, param: click.Parameter, text: str | None) -> str | None:
    """The callback of a parameter that is a text: refuses what no text can hold."""
    if text is not None:
        refuse_no_text(param.opts[0] if isinstance(param, click.Option) else param.human_readable_name, text)
    return text


def _take_config(ctx: click.Context, _param: click.Parameter, path: str | None) -> None:
    if path is not None:
        from streambpe.option_file import read_options

        known = (*TRAIN_OPTIONS, LIKE_OPTION, *COUNT_OPTIONS, *SOURCE_OPTIONS, *RESOURCE_OPTIONS)
        ctx.default_map = {**(ctx.default_map or {}), **read_options(path, known)}


config_option = own_option(
    "--config",
    "Read options from a file. The command line takes precedence.",
    "Most used",
    metavar="FILE.toml",
    is_eager=True,
    expose_value=False,
    callback=_take_config,
)


as_option = own_option(
    "--as",
    "Learn new merges with everything else taken from an existing tokenizer: size, pattern, special tokens and "
    "their ids. MODEL is a model of streambpe, tokenizer.json, hf:NAME or "
    "tiktoken:NAME.",
    "Compatibility",
    name="as_model",
    metavar="MODEL",
    callback=text_only,
)

extend_option = own_option(
    "--extend",
    "Extend the vocabulary of an existing tokenizer to --vocab-size ids. All its ids stay, and so do its pattern, "
    "symbols and special tokens. MODEL as for --as (`streambpe docs extend`).",
    "Most used",
    metavar="MODEL",
    callback=text_only,
)

partial_option = own_option(
    "--allow-partial",
    "Go ahead even if RUN is not completely counted. What is left out is reported and recorded.",
    "Corpus",
    default=False,
)

force_option = own_option("--force", "Overwrite the file that -o names; else this is refused.", default=False)


line_option, progress_option = (
    own_option(
        "--progress",
        f"How to show progress on stderr; auto is a line on a terminal and nothing elsewhere.{more}",
        choices=MODES,
        default="auto",
    )
    for more in ("", " RUN/status.json is always written.")
)
json_option = own_option("--json", "Print the result as one JSON object on stdout.", name="as_json", default=False)


def form_options(**helps: str) -> Callable[[F], F]:
    """--json, --csv and so on, with their help: which one is given reaches a command as `form`; None is a table."""

    def change(given: dict[str, Any]) -> None:
        chosen = [name for name in helps if given.pop(name)]
        if len(chosen) > 1:
            raise UsageError(
                f"--{chosen[0]} and --{chosen[1]}: rows are written in one form. Leave one of the two out."
            )
        given["form"] = chosen[0] if chosen else None

    return taking([Option(name, f"--{name}", help, "", default=False) for name, help in helps.items()], change)
