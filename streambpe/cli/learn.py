"""Commands that count and learn."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import click
from msgspec import structs

from streambpe.cli.help import PanelCommand
from streambpe.cli.naming import named_run, whole_run
from streambpe.cli.options import (
    as_option,
    config_option,
    count_options,
    extend_option,
    force_option,
    job_options,
    json_option,
    learning_job_options,
    line_option,
    open_resources,
    own_option,
    partial_option,
    planning_options,
    progress_option,
    resource_options,
    text_option,
    train_options,
    with_options,
)
from streambpe.cli.signals import stop_on_signals
from streambpe.cli.told import corpus_told, say, show, tell, tell_counts, tell_sample, tell_training
from streambpe.errors import UsageError
from streambpe.plurals import counted
from streambpe.resources import JOB_OPTIONS

if TYPE_CHECKING:
    from streambpe.train.request import Request


@click.command(cls=PanelCommand)
@click.argument("run")
@click.argument("sources", nargs=-1, metavar="SOURCE...")
@count_options
@own_option(
    "--take-back",
    "Remove the counts of this source from RUN: it is counted again and subtracted. May be given again.",
    "Corpus",
    name="leaving",
    many=True,
    metavar="SOURCE",
)
@job_options
@progress_option
@json_option
def count(run: str, sources: tuple[str, ...], leaving: tuple[str, ...], as_json: bool, **given: Any) -> None:
    """Count the distinct chunks of a corpus into RUN.

    \b
    SOURCE   .txt .jsonl .csv .parquet, each also .gz or .zst; a folder, a glob,
             - for standard input, FILE.jsonl:FIELD for another field, an
             address (s3:// gs:// abfss:// hf:// https://). A .txt file is one
             document.
    PATTERN  gpt4o gpt2 r50k gpt4 cl100k punct boundless ultimate1 word-level
             superbpe1 superbpe2 script whitespace kimi-k2 deepseek-v3 none, or
             a regular expression in quotes.

    Safe to stop or kill at any moment: `streambpe resume RUN` or the same command continues. More
    sources can be added later; what was counted is skipped.

    \b
    example:
        streambpe count runs/en corpus/*.jsonl.zst --pattern gpt4o --memory 2GB
    """
    run = whole_run(run)
    from streambpe.train.counting.count import count as count_sources
    from streambpe.train.counting.take_back import take_back

    if leaving and sources:
        raise UsageError(
            f"--take-back {leaving[0]} and {sources[0]}: one command cannot both take a source out of RUN and count "
            "others into it. Nothing was changed. Give two commands, one after the other."
        )
    with stop_on_signals() as stop:
        make = functools.partial(take_back, run, leaving) if leaving else functools.partial(count_sources, run, sources)
        result = make(stop=stop, **given)
    tell_counts(run, result, as_json)


@click.command(cls=PanelCommand)
@click.argument("run")
@click.argument("sources", nargs=-1, metavar="[SOURCE]...")
@train_options
@own_option(
    "--name",
    "The name of the training; one RUN may hold several. RUN:NAME does the same. [default: main]",
    "Most used",
    metavar="NAME",
)
@count_options
@learning_job_options
@progress_option
@partial_option
@config_option
@as_option
@extend_option
@own_option(
    "--balance-text",
    "With --balance: compare the groups on these translations of one text. The worst group is "
    "the one that needs the most tokens. May be given again; every group needs one.",
    "Vocabulary",
    many=True,
    metavar="GROUP=FILE",
)
@own_option(
    "--until-bytes-per-token",
    "Stop at the smallest size at which --text has X bytes per token, or at --vocab-size.",
    "Vocabulary",
    metavar="X",
)
@own_option("--text", "The text for that. May be given again.", "Vocabulary", many=True, metavar="FILE")
@json_option
def train(run: str, sources: tuple[str, ...], name: str | None, as_json: bool, **given: Any) -> None:
    """Count SOURCEs into RUN and learn a vocabulary; writes RUN/model.events.jsonl.

    Without SOURCE, it learns from what RUN has counted; the options of counting must then be the same as before.
    Another --name adds a vocabulary to RUN. You can stop or kill it at any moment: `streambpe resume RUN` continues.
    A larger --vocab-size extends the finished vocabulary; options you leave out keep their values.

    \b
    example:
        streambpe train runs/en corpus/*.jsonl.zst --vocab-size 32000 --memory 2GB
        streambpe train runs/sw corpus/*.jsonl.zst -s 128k --superwords uw
    """
    run, name = named_run(run, name)
    from streambpe.train.commands import train as learn

    def tell_request(request: Request) -> None:
        tell_sample(request.found.sample.told)
        if request.chosen and request.extension is None:
            superwords = request.config.superwords
            say(f"--superwords {superwords} takes {request.chosen} (`streambpe docs superwords`)")

    with stop_on_signals() as stop:
        result = learn(run, sources, name=name or "main", stop=stop, on_request=tell_request, **given)
    tell_training(result, as_json)


@click.command(cls=PanelCommand)
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE...")
@train_options
@count_options
@planning_options
@config_option
@as_option
@own_option(
    "--rehearse",
    "How much of the files to read and train on. [default: 32MB]",
    "Most used",
    metavar="SIZE",
)
@own_option("--json", "Print all figures as JSON.", "Most used", name="as_json", default=False)
@line_option
def plan(sources: tuple[str, ...], as_json: bool, **given: Any) -> None:
    """Forecast what training on SOURCEs will cost: time, memory, disk, and which --memory to give.

    The options are those of train, except for groups, balance and --counts. It trains on a part of the files, on this
    machine and with these options, and extrapolates from what that took; `streambpe docs plan` says how. Nothing is
    kept.

    \b
    example:
        streambpe plan corpus/*.jsonl.zst --vocab-size 131072 --memory 2GB
    """
    from streambpe.inspect.plan import plan as make_plan
    from streambpe.inspect.plan import print_plan

    with stop_on_signals() as stop:
        made = make_plan(sources, stop=stop, tell=say, **given)
    show(as_json, made, print_plan, indent=1)


@click.command()
@click.argument("run")
@own_option("--name", "The training to resume. [default: the last one that was started]", metavar="NAME")
@functools.partial(with_options, options=[structs.replace(option, told_default="as before") for option in JOB_OPTIONS])
@progress_option
@json_option
def resume(run: str, name: str | None, progress: str, as_json: bool, **limits: Any) -> None:
    """Resume the last `train` or `count` of RUN after a stop, a kill or a power cut.

    It uses the same --memory and --threads as before, unless you give others.

    \b
    example:
        streambpe resume runs/en
    """
    from streambpe.store.job import find_work
    from streambpe.store.run import Run

    run, name = named_run(run, name)
    resources = open_resources(find_work(Run(run), name)[1], **limits)
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
@own_option("--output", "A .parquet or .csv file.", short="-o", required=True, metavar="FILE")
@partial_option
@force_option
@line_option
@json_option
def export_counts(run: str, output: str, as_json: bool, **given: Any) -> None:
    """Write RUN's chunk counts as a table that `count --counts` and BatchBPE read.

    \b
    example:
        streambpe export-counts runs/en -o en-counts.parquet
    """
    from streambpe.store.exchange import export_counts as export

    rows = export(whole_run(run), output, **given)
    tell(as_json, {"run": run, "output": output, "chunks": rows}, f"{output}: {counted(rows, 'chunk')}")


@click.command("merge-counts")
@click.argument("run")
@click.argument("runs", nargs=-1, required=True, metavar="OTHER...")
@resource_options
@progress_option
@json_option
def merge_counts(run: str, runs: tuple[str, ...], as_json: bool, **given: Any) -> None:
    """Add the counts of OTHER runs to RUN, which is created if it does not exist. The sums are exact.

    All runs must have been counted with the same pattern, and no source may be in two of them. Documents (--sequences)
    are added too: a new RUN keeps them if all the others do, and superwords can be learned from it.

    \b
    example:
        streambpe merge-counts runs/all runs/node1 runs/node2 runs/node3
    """
    from streambpe.store.exchange import merge_counts as add_up

    made = add_up(whole_run(run), list(map(whole_run, runs)), **given)
    if without := made.without_documents:
        keep = "keeps" if len(without) == 1 else "keep"
        say(f"{', '.join(without)} {keep} no documents, so {run} holds counts alone: no superwords.")
    sentence = f"{corpus_told(run, made.corpus)}. sha256 {made.corpus['sha256'][:16]}"
    tell(as_json, {"run": run, "merged": made.merged, **made.corpus}, sentence)


@click.command(cls=PanelCommand)
@click.argument("run")
@own_option(
    "--steps", "How many parts to learn from, each larger than the last.", "Most used", least=2, most=6, default=6
)
@own_option(
    "--draws",
    "How often to draw documents, which shows how much results vary.",
    "Most used",
    least=1,
    most=16,
    default=3,
)
@text_option("Measure on this SOURCE")
@own_option("--json", "Print all figures as JSON.", "Most used", name="as_json", default=False)
@train_options
@resource_options
@line_option
def converge(run: str, as_json: bool, **given: Any) -> None:
    """Find out when more text stops helping: learn from growing parts of RUN's counts and compare.

    Each line shows how much of the vocabulary is the same as with all the text, and bytes per token on held-out text:
    other documents, or --text. RUN is only read, and its sources are read again. The options are those of train, except
    for superwords, weights and balance.

    \b
    example:
        streambpe converge runs/en --vocab-size 32000
        streambpe converge runs/en --draws 5
        streambpe converge runs/multi --text held-out.txt
    """
    from streambpe.inspect.converge import converge as compare
    from streambpe.inspect.converge import print_convergence

    given["like"] = given["like"] or "hf"
    with stop_on_signals() as stop:
        found = compare(whole_run(run), stop=stop, on_step=say, **given)
    show(as_json, found, print_convergence, indent=1)
