"""Options that several commands share, built from the fields of the option classes (options.py)."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, TypeVar

import click

from streambpe.cli.help import PanelOption
from streambpe.cli.told import say
from streambpe.config import LIKE_OPTION, TrainConfig
from streambpe.count_config import CountConfig, Counting, SourceOptions
from streambpe.options import MOST, Option, options_of, parse_amount, refuse_no_text
from streambpe.resources import RESOURCE_OPTIONS, ResourceFacts, Resources, format_size, keeper, prepare_allocators

F = TypeVar("F", bound=Callable[..., Any])


class Amount(click.ParamType):  # type: ignore[type-arg]  # generic in newer releases of click only
    """A whole number, also as people say it: 32k is 32 000, 32Ki 32 768."""

    name = "number"

    def __init__(self, least: int, most: int | None = MOST) -> None:
        self.least, self.most = least, most

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The number; click tells what is none."""
        try:
            number = parse_amount(value) if isinstance(value, str) else int(value)
        except ValueError:
            self.fail(f"{value!r} is no whole number. Write it like 32000, 32k or 32Ki.", param, ctx)
        if number < self.least:
            self.fail(f"{value} is too small: at least {self.least}.", param, ctx)
        if self.most is not None and number > self.most:
            self.fail(f"{value} is too large: at most {self.most}.", param, ctx)
        return number


class Seconds(click.ParamType):  # type: ignore[type-arg]
    """A time: 5, or 0.5."""

    name = "seconds"

    def __init__(self, least: float) -> None:
        self.least = least

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The seconds; click tells what is no number."""
        try:
            seconds = float(value)
        except ValueError:
            self.fail(f"{value!r} is no number of seconds. Write it like 5 or 0.5.", param, ctx)
        if not self.least <= seconds < float("inf"):
            self.fail(f"{value}: a number of seconds, at least {self.least:g}.", param, ctx)
        return seconds


def click_option(option: Option, **other: Any) -> Callable[[F], F]:
    """The click option for an option. Its default is None; () for a list, False for a flag without --no-flag."""
    default = option.shown_default
    help = f"{option.help} [default: {default}]" if default else option.help
    more: dict[str, Any] = {"panel": option.panel, "help": help, "metavar": option.metavar, "default": None}
    if option.switch:
        name = f"{option.flag}/{option.off}" if option.off else option.flag
        more |= {"is_flag": True, "default": None if option.off else False}
    else:
        name = option.flag
        if option.choices:
            more["type"] = click.Choice(option.choices)
        elif option.least is not None:
            more["type"] = Amount(option.least, option.most)
        if option.many:
            more |= {"multiple": True, "default": ()}
    names = [name, option.short] if option.short else [name]
    return click.option(*names, option.name, cls=PanelOption, **{**more, **other})


def _with(command: F, options: Iterable[Option]) -> F:
    for option in reversed(list(options)):
        command = click_option(option)(command)
    return command


*JOB_OPTIONS, LEARNER_OPTION = RESOURCE_OPTIONS
TRAIN_OPTIONS = tuple(options_of(TrainConfig).values())
COUNT_OPTIONS = tuple(options_of(CountConfig).values())
SOURCE_OPTIONS = tuple(options_of(SourceOptions).values())


def resource_options(command: F) -> F:
    """--memory, --threads, --temp-dir."""
    return _with(command, [o for o in RESOURCE_OPTIONS if o.name in ("memory", "threads", "temp_dir")])


def planning_options(command: F) -> F:
    """All but --max-disk, for a command that reads sources and leaves no RUN."""
    return _with(command, [option for option in JOB_OPTIONS if option.name != "max_disk"])


def job_options(command: F) -> F:
    """All of them, for a command whose RUN may grow large."""
    return _with(command, JOB_OPTIONS)


def train_options(command: F) -> F:
    """Options of how a vocabulary is learned; None means what --like sets."""
    size, *others = TRAIN_OPTIONS
    command = click_option(LIKE_OPTION)(_with(command, others))
    return click_option(size)(command)


def count_options(command: F) -> F:
    """Options of how text becomes chunks; None means what the run has, or the default."""
    return _with(command, [*COUNT_OPTIONS, *SOURCE_OPTIONS])


def config_option(command: F) -> F:
    """--config: options from a file; those of the command line override them."""
    known = (*TRAIN_OPTIONS, LIKE_OPTION, *COUNT_OPTIONS, *SOURCE_OPTIONS, *RESOURCE_OPTIONS)

    def take(ctx: click.Context, _param: click.Parameter, path: str | None) -> None:
        if path is not None:
            from streambpe.option_file import read_options

            ctx.default_map = {**(ctx.default_map or {}), **read_options(path, known)}

    return click.option(
        "--config",
        cls=PanelOption,
        panel="Most used",
        metavar="FILE.toml",
        is_eager=True,
        expose_value=False,
        callback=take,
        help="Take options from a file; those given here go over it.",
    )(command)


def as_option(command: F) -> F:
    """--as: options from a model; those of the command line and of --config override them."""

    def take(ctx: click.Context, _param: click.Parameter, model: str | None) -> str | None:
        if model is not None:
            refuse_no_text("--as", model)
            from streambpe.train.as_model import options_as, told_options

            options = options_as(model)
            ctx.default_map = {**options, **(ctx.default_map or {})}
            say(f"--as {model} stands for {told_options(options)}")
        return model

    return click.option(
        "--as",
        "as_model",
        cls=PanelOption,
        panel="Compatibility",
        metavar="MODEL",
        is_eager=True,
        callback=take,
        help="Learn anew with everything of an existing tokenizer but its merges: size, pattern, special tokens and "
        "their places. A model of streambpe, tokenizer.json, the folder of vocab.json and merges.txt, hf:NAME or "
        "tiktoken:NAME.",
    )(command)


def extend_option(command: F) -> F:
    """--extend: a model that learning goes on from."""

    def take(_ctx: click.Context, _param: click.Parameter, model: str | None) -> str | None:
        if model is not None:
            refuse_no_text("--extend", model)
        return model

    return click.option(
        "--extend",
        cls=PanelOption,
        panel="Most used",
        metavar="MODEL",
        callback=take,
        help="Go on from the vocabulary of an existing tokenizer, which keeps all its ids; --vocab-size says how many "
        "there are to be in all. MODEL as for --as; pattern, symbols and special tokens are its own "
        "(`streambpe docs extend`).",
    )(command)


def balance_text_option(command: F) -> F:
    """--balance-text: texts that the groups are measured on."""
    return click.option(
        "--balance-text",
        "balance_texts",
        cls=PanelOption,
        panel="Vocabulary",
        metavar="GROUP=FILE",
        multiple=True,
        help="With --balance: measure the groups on these texts, which say the same in each; worst is the group that "
        "needs most tokens. May be given again; every group needs one.",
    )(command)


def reading_options(*names: str, panel: str = "Corpus") -> Callable[[F], F]:
    """The options of SourceOptions and CountConfig that are named, for a command that only reads texts."""
    known = {option.name: option for option in (*SOURCE_OPTIONS, *COUNT_OPTIONS)}
    return lambda command: _with(command, [replace(known[name], panel=panel) for name in names])


def open_resources(
    memory: str | None,
    threads: int | None,
    temp_dir: str | None,
    max_disk: str | None = None,
    document_seconds: int | None = None,
    engine: str | None = None,
    address: str | None = None,
    before: ResourceFacts | None = None,
) -> Resources:
    """Apply the options of `resource_options` to this process; to be called before Polars is imported.

    `before`: what a job had until now; options that are not given are taken from it.
    """
    going_on = engine or (before.get("engine") if before else None)
    resources = Resources.from_options(memory, threads, temp_dir, max_disk, document_seconds, going_on, address)
    if before:
        held = Resources.from_facts(before)
        given: dict[str, object] = {"memory_bytes": memory, "threads": threads, "temp_dir": temp_dir}
        given |= {"max_disk_bytes": max_disk, "document_seconds": document_seconds}
        given |= {"engine": engine, "address": address}
        taken = [key for key, value in given.items() if value is not None] + ["address"] * (going_on != "ray")
        resources = replace(held, **{key: getattr(resources, key) for key in taken})
        if memory is None and held.memory_bytes < before["memory_bytes"]:
            say(
                f"it had --memory {format_size(before['memory_bytes'])}, which this machine does not have: going on "
                f"with {format_size(held.memory_bytes)}",
            )
    click.get_current_context().with_resource(keeper.watching(resources.memory_bytes))
    os.environ.setdefault("POLARS_MAX_THREADS", str(resources.threads))
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # numpy's threads would spin while they wait for matrices
    prepare_allocators(resources.memory_bytes)
    return resources


def text_only(_ctx: click.Context, param: click.Parameter, text: str | None) -> str | None:
    """The callback of an argument that is a text: refuses what no text can hold."""
    if text is not None:
        refuse_no_text(param.human_readable_name, text)
    return text


def partial_option(command: F) -> F:
    """--allow-partial."""
    return click.option(
        "--allow-partial",
        cls=PanelOption,
        panel="Corpus",
        is_flag=True,
        help="Also where RUN is not counted to its end; what was left out is told and recorded.",
    )(command)


def progress_option(command: F) -> F:
    """--progress, for a command that writes RUN/status.json too."""
    return _progress_option(" RUN/status.json is always written.")(command)


def line_option(command: F) -> F:
    """--progress, for a command that writes no status.json."""
    return _progress_option("")(command)


def _progress_option(more: str) -> Callable[[F], F]:
    return click.option(
        "--progress",
        cls=PanelOption,
        panel="Output",
        type=click.Choice(["auto", "bar", "jsonl", "none"]),
        default="auto",
        show_default=True,
        help=f"On stderr; auto is a line on a terminal, else nothing.{more}",
    )


def force_option(command: F) -> F:
    """--force."""
    return click.option(
        "--force",
        cls=PanelOption,
        panel="Output",
        is_flag=True,
        help="Overwrite what -o names; without it that is refused.",
    )(command)


def take_counting(given: dict[str, Any]) -> Counting:
    """Take the options of counting out of a command's options."""
    options = {option.name: given.pop(option.name) for option in COUNT_OPTIONS}
    return Counting.of({"options": options} | {option.name: given.pop(option.name) for option in SOURCE_OPTIONS})
