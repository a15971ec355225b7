"""Commands that count and learn."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from streambpe.cli.help import PanelCommand, PanelOption
from streambpe.cli.naming import named_run, whole_run
from streambpe.cli.options import (
    config_option,
    count_options,
    force_option,
    job_options,
    line_option,
    open_resources,
    partial_option,
    progress_option,
    resource_options,
    take_counting,
    train_options,
)
from streambpe.cli.signals import stop_on_signals
from streambpe.cli.told import json_option, tell_counts, tell_json, tell_training
from streambpe.errors import UsageError
from streambpe.progress import Meter, reporting

if TYPE_CHECKING:
    from streambpe.count_config import Counting


@click.command(cls=PanelCommand)
@click.argument("run")
@click.argument("sources", nargs=-1, metavar="SOURCE...")
@count_options
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
    progress: str,
    as_json: bool,
    **given: Any,
) -> None:
    """Count the distinct chunks of a corpus into RUN.

    \b
    SOURCE   .txt .jsonl .csv .parquet, each also .gz or .zst; a folder, a glob,
             - for standard input, FILE.jsonl:FIELD for a field of its own. A .txt
             file is one document.
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
    resources = open_resources(memory, threads, temp_dir, max_disk)
    from streambpe.train.counting.count import count as count_sources

    with stop_on_signals() as stop:
        result = count_sources(
            run,
            sources,
            resources=resources,
            progress=progress,
            stop=stop,
            **take_counting(given).as_arguments(),
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
    type=click.FloatRange(0),
    default=5.0,
    show_default=True,
    metavar="S",
    help="A kill loses at most this much work.",
)
@partial_option
@config_option
@click.option(
    "--save-config",
    cls=PanelOption,
    panel="Output",
    metavar="FILE.toml",
    help="Write all options, also those not given, to a file for --config, before anything is learned.",
)
@click.option("--force", cls=PanelOption, panel="Output", is_flag=True, help="Overwrite what --save-config names.")
@json_option
def train(
    run: str,
    sources: tuple[str, ...],
    memory: str | None,
    threads: int | None,
    temp_dir: str | None,
    max_disk: str | None,
    progress: str,
    checkpoint_seconds: float,
    allow_partial: bool,
    save_config: str | None,
    force: bool,
    as_json: bool,
    name: str | None,
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
        streambpe train runs/sw corpus/*.jsonl.zst -s 128k --pattern superbpe1 \\
            --superwords uw --transition 96k
    """
    run, name = named_run(run, name)
    resources = open_resources(memory, threads, temp_dir, max_disk)
    counting = take_counting(given)
    from streambpe.train.commands import train as learn

    _save_config(save_config, force, run, name or "main", counting, given)
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
            **given,
        )
    tell_training(result, as_json)


def _save_config(path: str | None, force: bool, run: str, name: str, counting: Counting, given: dict[str, Any]) -> None:
    """For --save-config: write the options of a command as an option file."""
    if path is None:
        if force:
            raise UsageError("--force is about a file that is there already: give its name with --save-config.")
        return
    from streambpe.config import TrainConfig
    from streambpe.outputs import refuse_existing, whole_output
    from streambpe.store.run import Run
    from streambpe.train.commands import counting_for, taken_over
    from streambpe.train.made_with import describe_options

    like = given["like"]
    asked = {key: value for key, value in given.items() if key != "like" and value not in (None, ())}
    config = TrainConfig.from_options(like or "hf", **(taken_over(Run(run), name, like) | asked))
    refuse_existing(Path(path), force)
    text = describe_options(Run(run), config, counting_for(like or "hf", config, counting))
    with whole_output(Path(path)) as file:
        file.write_text(text, encoding="utf-8")


@click.command(cls=PanelCommand)
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE...")
@train_options
@count_options
@resource_options
@config_option
@click.option(
    "--sample",
    cls=PanelOption,
    panel="Most used",
    metavar="SIZE",
    default="32MB",
    show_default=True,
    help="How much to read of the files.",
)
@click.option("--json", "as_json", cls=PanelOption, panel="Most used", is_flag=True, help="All numbers.")
@line_option
def plan(
    sources: tuple[str, ...],
    memory: str | None,
    threads: int | None,
    temp_dir: str | None,
    sample: str,
    as_json: bool,
    progress: str,
    like: str | None,
    **given: Any,
) -> None:
    """Say what training on SOURCEs will cost: time, memory, disk, and which --memory suits.

    The options are those of train. A sample is counted and learned from, on this machine and with these
    options, and what that took is carried on to the whole; docs/plan.md says how. Nothing is kept.

    \b
    example:
        streambpe plan corpus/*.jsonl.zst --vocab-size 131072 --memory 2GB
    """
    from streambpe.config import TrainConfig
    from streambpe.resources import parse_size

    resources = open_resources(memory, threads, temp_dir)
    counting = take_counting(given)
    from streambpe.inspect.plan import plan as make_plan
    from streambpe.inspect.plan import print_plan

    meter = Meter("sampling", memory_limit=resources.memory_bytes)
    with stop_on_signals() as stop, reporting(meter, progress):
        made = make_plan(
            sources,
            TrainConfig.from_options(like or "hf", **given),
            like=like or "hf",
            counting=counting,
            resources=resources,
            sample_bytes=parse_size(sample, "--sample"),
            stop=stop,
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
    resources = open_resources(memory, threads, temp_dir, max_disk, find_work(Run(run), name)[1])
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
@json_option
def export_counts(run: str, output: str, group: str | None, allow_partial: bool, force: bool, as_json: bool) -> None:
    """Write RUN's chunk counts as a table that `count --counts` and BatchBPE read.

    \b
    example:
        streambpe export-counts runs/en -o en-counts.parquet
    """
    from streambpe.store.exchange import export_counts as export

    rows = export(whole_run(run), output, group, allow_partial=allow_partial, force=force)
    if as_json:
        tell_json({"run": run, "output": output, "group": group, "chunks": rows})
    else:
        click.echo(f"{output}: {rows:,} chunks", err=True)


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

    The runs must count with the same pattern and must not have read the same source.

    \b
    example:
        streambpe merge-counts runs/all runs/node1 runs/node2 runs/node3
    """
    from streambpe.resources import format_size

    resources = open_resources(memory, threads, temp_dir)
    from streambpe.store.exchange import merge_runs

    corpus = merge_runs(whole_run(run), [whole_run(other) for other in runs], resources, progress)
    if as_json:
        tell_json({"run": run, "merged": runs, **corpus})
        return
    click.echo(
        f"{run}: {corpus['distinct']:,} distinct chunks, {corpus['chunks']:,} in all, from "
        f"{corpus['documents']:,} documents ({format_size(int(corpus['bytes']))}). sha256 {str(corpus['sha256'])[:16]}",
        err=True,
    )


@click.command(cls=PanelCommand)
@click.argument("run")
@click.option(
    "--by",
    cls=PanelOption,
    panel="Most used",
    type=click.Choice(["share", "group"]),
    default="share",
    show_default=True,
    help="Prefixes: halved again and again; or the first source group, the first two, ...",
)
@click.option(
    "--steps",
    cls=PanelOption,
    panel="Most used",
    type=click.IntRange(2, 20),
    metavar="N",
    help="For --by share. [default: 6]",
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
def converge(
    run: str,
    by: str,
    steps: int | None,
    texts: tuple[str, ...],
    as_json: bool,
    allow_partial: bool,
    memory: str | None,
    threads: int | None,
    temp_dir: str | None,
    **given: Any,
) -> None:
    """Say when more text stops mattering: learn from growing parts of RUN's counts and compare.

    A line each: how much of the vocabulary is that of all the text, and bytes per token on text held out, a
    part of the counts or --text. Nothing is counted again and RUN is only read; the options are those of train.

    \b
    example:
        streambpe converge runs/en --vocab-size 32000
        streambpe converge runs/multi --by group --text held-out.txt
    """
    from streambpe.config import TrainConfig
    from streambpe.inspect.converge import converge as compare
    from streambpe.inspect.converge import print_convergence

    resources = open_resources(memory, threads, temp_dir)
    given["like"] = given["like"] or "hf"
    config = TrainConfig.from_options(**given)
    with stop_on_signals() as stop:
        found = compare(
            whole_run(run),
            config,
            by=by,
            steps=steps,
            text=texts,
            resources=resources,
            stop=stop,
            on_step=lambda what: click.echo(f"learning from {what}", err=True),
            allow_partial=allow_partial,
            like=given["like"],
        )
    if as_json:
        click.echo(json.dumps(found.as_json(), ensure_ascii=False, indent=1))
    else:
        print_convergence(found, sys.stdout)


COMMANDS = (count, train, plan, resume, export_counts, merge_counts, converge)
