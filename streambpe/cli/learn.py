"""Commands that count and learn."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from streambpe.cli.help import PanelCommand, PanelOption
from streambpe.cli.naming import named_run, whole_run
from streambpe.cli.options import (
    LEARNER_OPTION,
    Amount,
    Seconds,
    as_option,
    balance_text_option,
    click_option,
    config_option,
    count_options,
    extend_option,
    force_option,
    job_options,
    line_option,
    open_resources,
    partial_option,
    planning_options,
    progress_option,
    resource_options,
    take_counting,
    train_options,
)
from streambpe.cli.signals import stop_on_signals
from streambpe.cli.told import json_option, say, tell_counts, tell_json, tell_training
from streambpe.errors import UsageError
from streambpe.plurals import counted
from streambpe.progress import Meter, reporting

if TYPE_CHECKING:
    from streambpe.count_config import Counting


@click.command(cls=PanelCommand)
@click.argument("run")
@click.argument("sources", nargs=-1, metavar="SOURCE...")
@count_options
@click.option(
    "--take-back",
    "leaving",
    cls=PanelOption,
    panel="Corpus",
    metavar="SOURCE",
    multiple=True,
    help="Take the counts of this source out of RUN: it is counted again and subtracted. May be given again.",
)
@job_options
@progress_option
@json_option
def count(
    run: str,
    sources: tuple[str, ...],
    memory: str | None,
    threads: int | None,
    temp_dir: str | None,
    max_disk: str | None,
    document_seconds: int | None,
    engine: str | None,
    address: str | None,
    progress: str,
    as_json: bool,
    leaving: tuple[str, ...],
    **given: Any,
) -> None:
    """Count the distinct chunks of a corpus into RUN.

    \b
    SOURCE   .txt .jsonl .csv .parquet, each also .gz or .zst; a folder, a glob,
             - for standard input, FILE.jsonl:FIELD for a field of its own, an
             address (s3:// gs:// abfss:// hf:// https://). A .txt file is one
             document.
    PATTERN  gpt4o gpt2 r50k gpt4 cl100k punct boundless ultimate1 word-level
             superbpe1 superbpe2 script whitespace none, or a regular expression
             in quotes.

    Safe to stop and to kill at any moment: `streambpe resume RUN` goes on, and so does the same command. More
    sources can be added later; what was counted is skipped.

    \b
    example:
        streambpe count runs/en corpus/*.jsonl.zst --pattern gpt4o --memory 2GB
    """
    run = whole_run(run)
    resources = open_resources(memory, threads, temp_dir, max_disk, document_seconds, engine, address)
    from streambpe.train.counting.count import count as count_sources
    from streambpe.train.counting.take_back import take_back

    if leaving and sources:
        raise UsageError(
            f"--take-back {leaving[0]} and {sources[0]}: one command takes sources out of RUN, another counts more "
            f"into it. Nothing was changed. Give them one after another."
        )
    counting = take_counting(given)
    with stop_on_signals() as stop:
        if leaving:
            result = take_back(run, leaving, asked=counting, resources=resources, progress=progress, stop=stop)
            tell_counts(run, result, as_json)
            return
        result = count_sources(
            run,
            sources,
            resources=resources,
            progress=progress,
            stop=stop,
            **counting.as_arguments(),
        )
    tell_counts(run, result, as_json)


@click.command(cls=PanelCommand)
@click.argument("run")
@click.argument("sources", nargs=-1, metavar="[SOURCE]...")
@train_options
@click.option(
    "--name",
    cls=PanelOption,
    panel="Most used",
    metavar="NAME",
    help="Several trainings live in one RUN; RUN:NAME says the same. [default: main]",
)
@count_options
@job_options
@progress_option
@click.option(
    "--checkpoint-seconds",
    cls=PanelOption,
    panel="Resources",
    type=Seconds(0),
    default=5.0,
    show_default=True,
    metavar="S",
    help="A kill loses at most this much work.",
)
@partial_option
@config_option
@as_option
@extend_option
@balance_text_option
@click.option(
    "--save-config",
    cls=PanelOption,
    panel="Output",
    metavar="FILE.toml",
    help="Write all options, also those not given, to a file for --config, before anything is learned.",
)
@click.option("--force", cls=PanelOption, panel="Output", is_flag=True, help="Overwrite what --save-config names.")
@click_option(LEARNER_OPTION)
@json_option
def train(
    run: str,
    sources: tuple[str, ...],
    memory: str | None,
    threads: int | None,
    temp_dir: str | None,
    max_disk: str | None,
    document_seconds: int | None,
    engine: str | None,
    address: str | None,
    learner: str | None,
    progress: str,
    checkpoint_seconds: float,
    allow_partial: bool,
    save_config: str | None,
    force: bool,
    as_json: bool,
    name: str | None,
    as_model: str | None,
    extend: str | None,
    balance_texts: tuple[str, ...],
    **given: Any,
) -> None:
    """Count SOURCEs into RUN and learn a vocabulary; writes RUN/model.events.jsonl.

    Without SOURCE it learns from what RUN has counted; options of counting must then be those it was counted with.
    With another --name it learns beside what was learned before. Safe to stop and to kill at any moment:
    `streambpe resume RUN` goes on. With a larger --vocab-size it goes on from the smaller one; options that are not
    given are then those it was started with.

    \b
    example:
        streambpe train runs/en corpus/*.jsonl.zst --vocab-size 32000 --memory 2GB
        streambpe train runs/sw corpus/*.jsonl.zst -s 128k --superwords uw
    """
    run, name = named_run(run, name)
    _refuse_both(as_model, given["like"])
    _refuse_beside_extend(extend, as_model, given["like"], save_config)
    _refuse_beside_texts(balance_texts, save_config)
    resources = open_resources(memory, threads, temp_dir, max_disk, document_seconds, engine, address)
    resources = replace(resources, learner=learner or "core")
    counting = take_counting(given)
    from streambpe.train.commands import train as learn

    _save_config(save_config, force, run, name or "main", counting, given)
    if extend is None:
        _tell_superwords(run, name or "main", counting, given)
    with stop_on_signals() as stop:
        result = learn(
            run,
            sources,
            name=name or "main",
            counting=counting,
            resources=resources,
            progress=progress,
            stop=stop,
            checkpoint_seconds=checkpoint_seconds,
            allow_partial=allow_partial,
            extend=extend,
            balance_texts=balance_texts,
            **given,
        )
    tell_training(result, as_json)


def _refuse_beside_extend(extend: str | None, as_model: str | None, like: str | None, save_config: str | None) -> None:
    """--extend takes everything from its model."""
    given = {"--as": as_model, "--like": like, "--save-config": save_config}
    other = next((f"{flag} {value}" for flag, value in given.items() if value is not None), None)
    if extend is None or other is None:
        return
    if save_config is not None and as_model is None and like is None:
        raise UsageError(
            f"--extend {extend} and {other}: an option file holds no model. Leave --save-config out; RUN/train.toml "
            f"has the options when the training is done."
        )
    raise UsageError(f"--extend {extend} and {other}: each sets what is not given. Leave one of the two out.")


def _refuse_beside_texts(texts: tuple[str, ...], save_config: str | None) -> None:
    """An option file holds no texts."""
    if texts and save_config is not None:
        raise UsageError(
            f"--balance-text {texts[0]} and --save-config {save_config}: an option file holds no text. Leave "
            f"--save-config out; RUN/train.toml has the options when the training is done."
        )


def _refuse_both(as_model: str | None, like: str | None) -> None:
    """--as and --like both say how everything is that is not given."""
    if as_model is not None and like is not None:
        raise UsageError(f"--as {as_model} and --like {like}: each sets what is not given. Leave one of the two out.")


def _save_config(path: str | None, force: bool, run: str, name: str, counting: Counting, given: dict[str, Any]) -> None:
    """For --save-config: write the options of a command as an option file."""
    if path is None:
        if force:
            raise UsageError("--force is about a file that is there already: give its name with --save-config.")
        return
    from streambpe.config import TrainConfig
    from streambpe.outputs import refuse_existing, whole_output
    from streambpe.store.run import Run
    from streambpe.train.commands import counting_for
    from streambpe.train.made_with import describe_options

    like = given["like"]
    config = TrainConfig.from_options(like or "hf", **_learning_asked(run, name, given))
    refuse_existing(Path(path), force)
    text = describe_options(Run(run), config, counting_for(like or "hf", config, counting, Run(run)))
    with whole_output(Path(path)) as file:
        file.write_text(text, encoding="utf-8")


def _learning_asked(run: str, name: str, given: dict[str, Any]) -> dict[str, Any]:
    """The options of learning that are given, on top of those that the training was started with."""
    from streambpe.store.run import Run
    from streambpe.train.commands import taken_over

    asked = {key: value for key, value in given.items() if key != "like" and value not in (None, ())}
    return taken_over(Run(run), name, given["like"]) | asked


def _tell_superwords(run: str, name: str, counting: Counting, given: dict[str, Any]) -> None:
    """Say which options --superwords sets because they are not given."""
    from streambpe.store.run import Run
    from streambpe.train.commands import superwords_told

    chosen = superwords_told(Run(run), given["like"], _learning_asked(run, name, given), counting)
    if chosen:
        say(f"--superwords {given['superwords']} takes {chosen} (`streambpe docs superwords`)")


@click.command(cls=PanelCommand)
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE...")
@train_options
@count_options
@planning_options
@config_option
@as_option
@click.option(
    "--rehearse",
    cls=PanelOption,
    panel="Most used",
    metavar="SIZE",
    default="32MB",
    show_default=True,
    help="How much of the files to read and train on.",
)
@click.option("--json", "as_json", cls=PanelOption, panel="Most used", is_flag=True, help="All numbers.")
@line_option
def plan(
    sources: tuple[str, ...],
    memory: str | None,
    threads: int | None,
    temp_dir: str | None,
    document_seconds: int | None,
    engine: str | None,
    address: str | None,
    rehearse: str,
    as_json: bool,
    progress: str,
    like: str | None,
    as_model: str | None,
    **given: Any,
) -> None:
    """Say what training on SOURCEs will cost: time, memory, disk, and which --memory suits.

    The options are those of train. A part of the files is counted and learned from, on this machine and with these
    options, and what that took is carried on to the whole; `streambpe docs plan` says how. Nothing is kept.

    \b
    example:
        streambpe plan corpus/*.jsonl.zst --vocab-size 131072 --memory 2GB
    """
    from streambpe.config import TrainConfig
    from streambpe.idle import refuse_idle_options
    from streambpe.resources import parse_size

    _refuse_both(as_model, like)
    resources = open_resources(memory, threads, temp_dir, None, document_seconds, engine, address)
    counting = take_counting(given)
    from streambpe.inspect.plan import plan as make_plan
    from streambpe.inspect.plan import print_plan

    meter = Meter("sampling", memory_limit=resources.memory_bytes)
    config = TrainConfig.from_options(like or "hf", **given)
    refuse_idle_options(config, given)
    with stop_on_signals() as stop, reporting(meter, progress):
        made = make_plan(
            sources,
            config,
            like=like or "hf",
            counting=counting,
            resources=resources,
            rehearse_bytes=parse_size(rehearse, "--rehearse"),
            stop=stop,
            meter=meter,
        )
    if as_json:
        click.echo(json.dumps(made.as_json(), ensure_ascii=False, indent=1))
    else:
        print_plan(made, sys.stdout)


@click.command()
@click.argument("run")
@click.option("--name", metavar="NAME", help="Of the training. [default: the last one that was started]")
@job_options
@progress_option
@json_option
def resume(
    run: str,
    name: str | None,
    memory: str | None,
    threads: int | None,
    temp_dir: str | None,
    max_disk: str | None,
    document_seconds: int | None,
    engine: str | None,
    address: str | None,
    progress: str,
    as_json: bool,
) -> None:
    """Go on with the last `train` or `count` of RUN after a stop, a kill or a power cut.

    It goes on with the memory and the threads it had, unless others are given.

    \b
    example:
        streambpe resume runs/en
    """
    from streambpe.store.job import find_work
    from streambpe.store.run import Run

    run, name = named_run(run, name)
    resources = open_resources(
        memory, threads, temp_dir, max_disk, document_seconds, engine, address, find_work(Run(run), name)[1]
    )
    from streambpe.train.commands import resume as go_on
    from streambpe.train.training import TrainResult

    with stop_on_signals() as stop:
        result = go_on(run, name=name, resources=resources, progress=progress, stop=stop)
    if isinstance(result, TrainResult):
        tell_training(result, as_json)
    else:
        tell_counts(run, result, as_json)


@click.command("export-counts")
@click.argument("run")
@click.option("-o", "--output", required=True, metavar="FILE", help="A .parquet or .csv file.")
@click.option("--group", metavar="NAME", help="Only the counts of this source group.")
@partial_option
@force_option
@line_option
@json_option
def export_counts(
    run: str, output: str, group: str | None, allow_partial: bool, force: bool, progress: str, as_json: bool
) -> None:
    """Write RUN's chunk counts as a table that `count --counts` and BatchBPE read.

    \b
    example:
        streambpe export-counts runs/en -o en-counts.parquet
    """
    from streambpe.store.exchange import export_counts as export

    with reporting(Meter("exporting"), progress) as meter:
        rows = export(whole_run(run), output, group, allow_partial=allow_partial, force=force, meter=meter)
    if as_json:
        tell_json({"run": run, "output": output, "group": group, "chunks": rows})
    else:
        say(f"{output}: {counted(rows, 'chunk')}")


@click.command("merge-counts")
@click.argument("run")
@click.argument("runs", nargs=-1, required=True, metavar="OTHER...")
@resource_options
@progress_option
@json_option
def merge_counts(
    run: str,
    runs: tuple[str, ...],
    memory: str | None,
    threads: int | None,
    temp_dir: str | None,
    progress: str,
    as_json: bool,
) -> None:
    """Add up the counts of OTHER runs in RUN, which is made if need be. Exact: counts only ever add.

    The runs must count with the same pattern and must not have read the same source. Documents (--sequences) are
    added too: a new RUN keeps them if all others do, and superwords are learned from it as from one run.

    \b
    example:
        streambpe merge-counts runs/all runs/node1 runs/node2 runs/node3
    """
    from streambpe.resources import format_size

    resources = open_resources(memory, threads, temp_dir)
    from streambpe.store.exchange import merge_runs, without_documents

    target, others = whole_run(run), [whole_run(other) for other in runs]
    corpus = merge_runs(target, others, resources, progress)
    if without := without_documents(target, others):
        keep = "keeps" if len(without) == 1 else "keep"
        say(f"{', '.join(without)} {keep} no documents, so {run} holds counts alone: no superwords.")
    if as_json:
        tell_json({"run": run, "merged": runs, **corpus})
        return
    say(
        f"{run}: {counted(int(corpus['distinct']), 'distinct chunk')}, {corpus['chunks']:,} in all, from "
        f"{counted(int(corpus['documents']), 'document')} ({format_size(int(corpus['bytes']))}). "
        f"sha256 {str(corpus['sha256'])[:16]}",
    )


@click.command(cls=PanelCommand)
@click.argument("run")
@click.option(
    "--by",
    cls=PanelOption,
    panel="Most used",
    type=click.Choice(["documents", "share", "group"]),
    default="documents",
    show_default=True,
    help="Prefixes of documents, whose sources are read again; of chunks, halved again and again; or the first source "
    "group, the first two, ...",
)
@click.option(
    "--steps",
    cls=PanelOption,
    panel="Most used",
    type=Amount(2, 20),
    metavar="N",
    help="For --by documents and share. [default: 6]",
)
@click.option(
    "--draws",
    cls=PanelOption,
    panel="Most used",
    type=click.IntRange(1, 16),
    metavar="N",
    help="For --by documents: how often to draw, for the spread. [default: 3]",
)
@click.option(
    "--text",
    "texts",
    cls=PanelOption,
    panel="Most used",
    multiple=True,
    metavar="FILE",
    help="Measure on this SOURCE; may be given again.",
)
@click.option("--json", "as_json", cls=PanelOption, panel="Most used", is_flag=True, help="All numbers.")
@train_options
@partial_option
@resource_options
@line_option
def converge(
    run: str,
    by: str,
    steps: int | None,
    draws: int | None,
    texts: tuple[str, ...],
    as_json: bool,
    allow_partial: bool,
    memory: str | None,
    threads: int | None,
    temp_dir: str | None,
    progress: str,
    **given: Any,
) -> None:
    """Say when more text stops mattering: learn from growing parts of RUN's counts and compare.

    A line each: how much of the vocabulary is that of all the text, and bytes per token on text held out, a
    part of the counts or --text. RUN is only read; the options are those of train. --by documents draws whole
    documents and tells the spread of every figure; chunks alone (--by share) make all texts look more alike.

    \b
    example:
        streambpe converge runs/en --vocab-size 32000
        streambpe converge runs/en --draws 5
        streambpe converge runs/multi --by group --text held-out.txt
    """
    from streambpe.config import TrainConfig
    from streambpe.idle import refuse_idle_options
    from streambpe.inspect.converge import converge as compare
    from streambpe.inspect.converge import print_convergence

    resources = open_resources(memory, threads, temp_dir)
    given["like"] = given["like"] or "hf"
    config = TrainConfig.from_options(**given)
    refuse_idle_options(config, given)
    meter = Meter("drawing prefixes", memory_limit=resources.memory_bytes)
    with stop_on_signals() as stop, reporting(meter, progress):
        found = compare(
            whole_run(run),
            config,
            by=by,
            steps=steps,
            draws=draws,
            text=texts,
            resources=resources,
            stop=stop,
            on_step=lambda what: say(f"learning from {what}"),
            allow_partial=allow_partial,
            like=given["like"],
            meter=meter,
        )
    if as_json:
        click.echo(json.dumps(found.as_json(), ensure_ascii=False, indent=1))
    else:
        print_convergence(found, sys.stdout)


COMMANDS = (count, train, plan, resume, export_counts, merge_counts, converge)
