"""The command line: one function a subcommand, each a thin call into the library.

Data goes to stdout, everything else to stderr. Heavy libraries are loaded inside the commands, so
`streambpe --help` is quick and --threads can bound Polars' own pool.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, TypeVar

import click

from streambpe import __version__
from streambpe.disk import disk_full, says_disk_full
from streambpe.errors import StreambpeError, TablesDiffer
from streambpe.system import open_output, stop_signals

if TYPE_CHECKING:
    from streambpe.config import Resources
    from streambpe.train.counting.count import CountResult
    from streambpe.train.trainer import TrainResult

F = TypeVar("F", bound=Callable[..., Any])


@contextlib.contextmanager
def _warnings_told() -> Iterator[None]:
    """The library's warnings as lines on stderr, each once; `decode`, which splits no text, says nothing of tables."""
    with warnings.catch_warnings():
        show = warnings.showwarning

        def tell(message: Any, category: type[Warning], *place: Any, **more: Any) -> None:
            if issubclass(category, TablesDiffer):
                click.echo(f"warning: {message}", err=True)
            else:
                show(message, category, *place, **more)

        warnings.simplefilter("always", TablesDiffer)
        warnings.showwarning = tell
        yield


class _Commands(click.Group):
    """Turns the library's errors into one message and an exit code, without a traceback."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            with _warnings_told():
                return super().invoke(ctx)
        except StreambpeError as error:
            click.echo(f"streambpe: {error}", err=True)
            ctx.exit(error.exit_code)
        except BrokenPipeError:
            # the reader of stdout went away (`| head`): nothing to tell, and nobody to tell it to
            _leave_stdout()
            ctx.exit(1)
        except Exception as error:
            if not says_disk_full(error):
                raise
            then = "Nothing that was there before is lost. Make room, then give the same command again."
            click.echo(f"streambpe: {disk_full(error, 'where it writes', then)}", err=True)
            _leave_stdout()
            ctx.exit(1)


def _leave_stdout() -> None:
    """What stdout still holds cannot be written: Python is not to try again when it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__)
def main() -> None:
    """Learn BPE-family tokenizer vocabularies from corpora far larger than memory.

    \b
    A RUN is a folder; everything in it can be stopped, resumed and queried with SQL.
        streambpe count RUN corpus/*.jsonl.zst
        streambpe sql RUN "SELECT * FROM chunk_frequencies LIMIT 20"
    """
    open_output()


def resource_options(command: F) -> F:
    """--memory, --threads, --temp-dir."""
    for option in (
        click.option("--temp-dir", metavar="DIR", help="Where to spill. [default: inside RUN]"),
        click.option("--threads", type=click.IntRange(1), metavar="N", help="[default: all cores]"),
        click.option(
            "--memory",
            metavar="SIZE",
            help="Bound for the whole process tree, such as 2GB. [default: a quarter of RAM]",
        ),
    ):
        command = option(command)
    return command


def open_resources(
    memory: str | None, threads: int | None, temp_dir: str | None, before: dict[str, Any] | None = None
) -> Resources:
    """The options above, applied to this process: to be called before Polars is imported.

    before: what a job had until now, of which the options not given are taken.
    """
    from dataclasses import replace

    from streambpe.config import Resources, format_size
    from streambpe.resources import keeper, prepare_allocators

    resources = Resources.from_options(memory, threads, temp_dir)
    if before:
        held = Resources.from_facts(before)
        given = {"memory_bytes": memory, "threads": threads, "temp_dir": temp_dir}
        resources = replace(held, **{key: getattr(resources, key) for key, value in given.items() if value is not None})
        if memory is None and held.memory_bytes < before["memory_bytes"]:
            click.echo(
                f"it had --memory {format_size(before['memory_bytes'])}, which this machine does not have: going on "
                f"with {format_size(held.memory_bytes)}",
                err=True,
            )
    click.get_current_context().with_resource(keeper.watching(resources.memory_bytes))
    os.environ.setdefault("POLARS_MAX_THREADS", str(resources.threads))
    prepare_allocators(resources.memory_bytes)
    return resources


def partial_option(command: F) -> F:
    """--allow-partial."""
    return click.option(
        "--allow-partial",
        is_flag=True,
        help="Also where RUN is not counted to its end; what was left out is told and recorded.",
    )(command)


def progress_option(command: F) -> F:
    """--progress."""
    return click.option(
        "--progress",
        type=click.Choice(["auto", "bar", "jsonl", "none"]),
        default="auto",
        show_default=True,
        help="On stderr; auto is a bar on a terminal, else nothing. RUN/status.json is always written.",
    )(command)


def force_option(command: F) -> F:
    """--force."""
    return click.option("--force", is_flag=True, help="Overwrite what -o names; without it that is refused.")(command)


def train_options(command: F) -> F:
    """How a vocabulary is learned; None means what --like sets."""
    options = [
        click.option(
            "--vocab-size",
            "-s",
            type=click.IntRange(1),
            default=32_000,
            show_default=True,
            metavar="N",
            help="Model ids in all: base symbols, stop words, learned tokens, specials, reserved.",
        ),
        click.option(
            "--like",
            type=click.Choice(["hf", "rustbpe", "kensho", "script", "batch", "picky"]),
            default="hf",
            show_default=True,
            help="Learn exactly as that trainer does; sets the knobs below. script is SCRIPT-BPE: --encoding script "
            "(or bytes with ids from 1) and, while counting, --normalize nfc --unencodable drop. picky is the first "
            "PickyBPE: --encoding chars --coverage 0.9999 --tau 0.9 and, while counting, --pattern whitespace.",
        ),
        click.option(
            "--encoding",
            type=click.Choice(["bytes", "chars", "script"]),
            help="Base symbols: bytes of UTF-8, the characters that occur, or SCRIPT's block and index, two for every "
            "character. [default: bytes]",
        ),
        click.option(
            "--coverage",
            metavar="SHARE",
            help="chars: the rarest characters, beyond this share of the text, are the special token <unk>. "
            "[default: 1]",
        ),
        click.option(
            "--whole-characters/--no-whole-characters",
            default=None,
            help="A part of a character merges with nothing but the rest of it.",
        ),
        click.option(
            "--alphabet",
            type=click.Choice(["gpt2", "bytes", "bytes1", "utf8", "seen"]),
            help="Base ids of bytes: 256 in GPT-2's order, in byte order (from 0; bytes1: from 1), 243 of UTF-8, "
            "or bytes seen.",
        ),
        click.option(
            "--ties", type=click.Choice(["ids", "bytes"]), help="Between pairs of equal count: lowest ids, or bytes."
        ),
        click.option("--overlaps", type=click.Choice(["all", "disjoint"]), help="aaa holds (a, a) twice, or once."),
        click.option(
            "--batch",
            type=click.Choice(["exact", "1", "paper"]),
            help="Many merges a pass with the result of one at a time; one at a time; BatchBPE's rule.",
        ),
        click.option(
            "--cap-divisor", type=click.IntRange(1), metavar="N", help="paper: at most 1/N of the merges left."
        ),
        click.option("--max-batch", type=click.IntRange(1), metavar="N", help="paper: at most N merges a pass."),
        click.option(
            "--min-frequency",
            type=click.IntRange(0),
            metavar="N",
            help="Stop when the best pair is rarer. [default: 1]",
        ),
        click.option("--max-token-length", type=click.IntRange(1), metavar="N", help="In base symbols."),
        click.option(
            "--tau",
            metavar="T",
            help="Delete a token when a merge takes at least this share of its occurrences (PickyBPE), such as 0.9. "
            "[default: never]",
        ),
        click.option(
            "--delete-to",
            type=click.Choice(["bytes", "walk"]),
            help="Its other occurrences become base symbols, or the living tokens it was made of. [default: bytes]",
        ),
        click.option(
            "--delete-test",
            type=click.Choice(["before", "after"]),
            help="before: merged / count before the merge >= T. after (the first PickyBPE): merged / (count after "
            "+ merged) > T. [default: before]",
        ),
        click.option(
            "--stop-list",
            type=click.IntRange(0),
            metavar="N",
            help="Give the N most frequent chunks ids of their own; they never merge.",
        ),
        click.option("--freq-cutoff", type=click.IntRange(0), metavar="N", help="Leave out chunks rarer than N."),
        click.option(
            "--special", "specials", multiple=True, metavar="TOKEN", help="A special token; may be given again."
        ),
        click.option("--reserve", type=click.IntRange(0), metavar="N", help="Ids to keep free at the end."),
        click.option(
            "--specials-first/--specials-last", default=None, help="Ids of special tokens before all others, or behind."
        ),
        click.option(
            "--token-order",
            type=click.Choice(["latest-birth", "first-birth"]),
            help="Ids of tokens that were deleted and learned again: by the last time, or the first. "
            "[default: latest-birth]",
        ),
        click.option("--block-token", "block_tokens", multiple=True, metavar="TEXT", help="Never learn this token."),
        click.option(
            "--weight",
            "weights",
            multiple=True,
            metavar="GROUP=NUMBER",
            help="Multiply the counts of a source group; of the others they count once. May be given again.",
        ),
        click.option(
            "--superwords",
            type=click.Choice(["none", "boundless", "superbpe", "uw"]),
            help="Merges across chunk borders: competing with ordinary ones by count (BoundlessBPE), or after them "
            "over whole chunks (superbpe) or over any neighbours in a chunk of --stage2-pattern (uw). [default: none]",
        ),
        click.option(
            "--transition",
            type=click.IntRange(1),
            metavar="N",
            help="superbpe, uw: tokens, specials not counted, at which superwords begin.",
        ),
        click.option(
            "--stage2-pattern",
            metavar="NAME|REGEX",
            help="uw: what cuts text from --transition on, and when encoding. [default: superbpe2]",
        ),
        click.option(
            "--superword-pattern",
            metavar="NAME|REGEX",
            help="Which chunks may join: improved (a letter behind the first character), simple (a letter), paper "
            "(ASCII letters, space, _ and '), or an expression found in the chunk. [default: improved]",
        ),
        click.option(
            "--max-superword-words", type=click.IntRange(2), metavar="N", help="No superword of more than N chunks."
        ),
        click.option("--forbid", metavar="REGEX", help="No superword in whose text this is found."),
    ]
    for option in reversed(options):
        command = option(command)
    return command


def count_options(command: F) -> F:
    """How text becomes chunks; None means what the run has, or the default."""
    options = [
        click.option("--pattern", metavar="NAME|REGEX", help="How text is split into chunks. [default: gpt4o]"),
        click.option(
            "--gaps",
            type=click.Choice(["refuse", "keep"]),
            help="Text that a REGEX leaves unmatched. [default: refuse]",
        ),
        click.option(
            "--split-scripts/--no-split-scripts", default=None, help="Cut where the script changes, before splitting."
        ),
        click.option(
            "--sequences/--no-sequences", default=None, help="Also store the documents as chunk ids, for superwords."
        ),
        click.option(
            "--bad-utf8",
            type=click.Choice(["replace", "skip", "error"]),
            help="Invalid bytes become U+FFFD, are left out, or end the count; given by hand, also files that are "
            "mostly no UTF-8 are taken. [default: replace]",
        ),
        click.option(
            "--normalize",
            type=click.Choice(["none", "nfc"]),
            help="Unicode normalisation before splitting; nfc is that of Unicode 16.0.0. [default: none]",
        ),
        click.option(
            "--unencodable",
            type=click.Choice(["bytes", "drop", "error"]),
            help="Characters outside the SCRIPT table (unassigned in 16.0.0, private use): kept, dropped "
            "and counted, or the end of the count. [default: bytes]",
        ),
        click.option("--lines", is_flag=True, help="In text files every line is a document."),
        click.option("--text-column", metavar="NAME", help="Of jsonl, csv, parquet. [default: text]"),
        click.option(
            "--format",
            "kind",
            type=click.Choice(["auto", "txt", "lines", "jsonl", "csv", "parquet"]),
            default="auto",
            help="Of all sources, instead of judging by the file's name.",
        ),
        click.option("--counts", is_flag=True, help="The sources are tables of chunks and counts."),
        click.option("--stdin-name", default="-", metavar="NAME", help="What to call standard input."),
        click.option(
            "--group",
            "groups",
            multiple=True,
            metavar="NAME=GLOB",
            help="Keep the counts of these sources apart as group NAME, for train --weight. May be given again.",
        ),
        click.option("--group-by", type=click.Choice(["folder"]), help="Each folder's files are a group of its name."),
    ]
    for option in reversed(options):
        command = option(command)
    return command


COUNTING = ("lines", "text_column", "kind", "counts", "stdin_name", "groups", "group_by")
COUNT_CONFIG = ("pattern", "gaps", "split_scripts", "sequences", "bad_utf8", "normalize", "unencodable")


def counting_arguments(given: dict[str, Any]) -> dict[str, Any]:
    """Take the options of counting out of a command's options."""
    arguments = {name: given.pop(name) for name in COUNTING}
    arguments["options"] = {name: given.pop(name) for name in COUNT_CONFIG}
    return arguments


@contextlib.contextmanager
def stop_on_signals() -> Iterator[threading.Event]:
    """An event that Ctrl-C and SIGTERM set; the second Ctrl-C ends at once."""
    stop = threading.Event()

    def handle(number: int, _frame: FrameType | None) -> None:
        if stop.is_set():
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        stop.signal_number = number  # type: ignore[attr-defined]
        click.echo(" stopping: finishing and committing what is in hand (again to end at once)", err=True)
        stop.set()

    before = {number: signal.signal(number, handle) for number in stop_signals()}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@main.command()
@click.argument("run")
@click.argument("sources", nargs=-1, metavar="SOURCE...")
@count_options
@resource_options
@progress_option
def count(
    run: str,
    sources: tuple[str, ...],
    memory: str | None,
    threads: int | None,
    temp_dir: str | None,
    progress: str,
    **given: Any,
) -> None:
    """Count the distinct chunks of a corpus into RUN.

    \b
    SOURCE   .txt .jsonl .csv .parquet, each also .gz or .zst; a folder, a glob, - for standard
             input, FILE.jsonl:FIELD for a field of its own. A .txt file is one document.
    PATTERN  gpt4o gpt2 r50k gpt4 cl100k punct boundless ultimate1 word-level superbpe1
             superbpe2 script whitespace none, or a regular expression in quotes.

    Safe to stop and to kill at any moment: `streambpe resume RUN` goes on, and so does the same command. More
    sources can be added later; what was counted is skipped.

    \b
    example:
        streambpe count runs/en corpus/*.jsonl.zst --pattern gpt4o --memory 2GB
    """
    resources = open_resources(memory, threads, temp_dir)
    from streambpe.train.counting.count import count as count_sources

    with stop_on_signals() as stop:
        result = count_sources(
            run,
            sources,
            resources=resources,
            progress=progress,
            stop=stop,
            **counting_arguments(given),
        )
    tell_counts(run, result)


def tell_counts(run: str, result: CountResult) -> None:
    """What a count came to, on stderr."""
    from streambpe.config import format_size

    for warning in result.warnings:
        click.echo(f"warning: {warning}", err=True)
    corpus = result.corpus
    click.echo(
        f"{run}: {corpus['distinct']:,} distinct chunks, {corpus['chunks']:,} in all, from "
        f"{corpus['documents']:,} documents ({format_size(corpus['bytes'])}); {result.counted} sources counted, "
        f"{result.skipped} skipped. sha256 {corpus['sha256'][:16]}",
        err=True,
    )


@main.command()
@click.argument("run")
@click.argument("sources", nargs=-1, metavar="[SOURCE]...")
@train_options
@click.option("--name", default="main", show_default=True, metavar="NAME", help="Several trainings live in one RUN.")
@count_options
@resource_options
@progress_option
@click.option("--checkpoint-seconds", type=click.FloatRange(0), default=5.0, show_default=True, metavar="S",
              help="A kill loses at most this much work.")  # fmt: skip
@partial_option
def train(
    run: str,
    sources: tuple[str, ...],
    memory: str | None,
    threads: int | None,
    temp_dir: str | None,
    progress: str,
    checkpoint_seconds: float,
    allow_partial: bool,
    **given: Any,
) -> None:
    """Count SOURCEs into RUN and learn a vocabulary; writes RUN/model.events.jsonl.

    Without SOURCE it learns from what RUN has counted; options of counting must then be those it was counted with.
    With another --name it learns beside what was learned before. Safe to stop and to kill at any moment:
    `streambpe resume RUN` goes on. The same command with a larger --vocab-size goes on from the smaller one.

    \b
    example:
        streambpe train runs/en corpus/*.jsonl.zst --vocab-size 32000 --memory 2GB
        streambpe train runs/sw corpus/*.jsonl.zst --pattern boundless --superwords boundless -s 131072
    """
    resources = open_resources(memory, threads, temp_dir)
    counting = counting_arguments(given)
    from streambpe.train.trainer import train as learn

    with stop_on_signals() as stop:
        result = learn(
            run,
            sources,
            counting=counting,
            resources=resources,
            progress=progress,
            stop=stop,
            checkpoint_seconds=checkpoint_seconds,
            allow_partial=allow_partial,
            **given,
        )
    tell_result(result)


@main.command()
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE...")
@train_options
@count_options
@resource_options
@click.option("--sample", metavar="SIZE", default="32MB", show_default=True, help="How much to read of the files.")
@click.option("--json", "as_json", is_flag=True, help="All numbers.")
def plan(
    sources: tuple[str, ...],
    memory: str | None,
    threads: int | None,
    temp_dir: str | None,
    sample: str,
    as_json: bool,
    like: str,
    **given: Any,
) -> None:
    """Say what training on SOURCEs will cost: time, memory, disk, and which --memory suits.

    The options are those of train. A sample is counted and learned from, on this machine and with these
    options, and what that took is carried on to the whole; docs/plan.md says how. Nothing is kept.

    \b
    example:
        streambpe plan corpus/*.jsonl.zst --vocab-size 131072 --memory 2GB
    """
    from streambpe.config import TrainConfig, parse_size

    resources = open_resources(memory, threads, temp_dir)
    counting = counting_arguments(given)
    from streambpe.inspect.plan import plan as make_plan
    from streambpe.inspect.plan import print_plan

    with stop_on_signals() as stop:
        made = make_plan(
            sources,
            TrainConfig.from_options(like, **given),
            like=like,
            counting=counting,
            resources=resources,
            sample_bytes=parse_size(sample),
            stop=stop,
        )
    if as_json:
        click.echo(json.dumps(made.as_json(), ensure_ascii=False, indent=1))
    else:
        print_plan(made, sys.stdout)


@main.command()
@click.argument("run")
@click.option("--name", metavar="NAME", help="Of the training. [default: the last one that was started]")
@resource_options
@progress_option
def resume(
    run: str, name: str | None, memory: str | None, threads: int | None, temp_dir: str | None, progress: str
) -> None:
    """Go on with the last `train` or `count` of RUN after a stop, a kill or a power cut.

    It goes on with the memory and the threads it had, unless others are given.

    \b
    example:
        streambpe resume runs/en
    """
    from streambpe.store.job import find_work
    from streambpe.store.run import Run

    resources = open_resources(memory, threads, temp_dir, find_work(Run(run), name)[1])
    from streambpe.train.trainer import TrainResult
    from streambpe.train.trainer import resume as go_on

    with stop_on_signals() as stop:
        result = go_on(run, name=name, resources=resources, progress=progress, stop=stop)
    if isinstance(result, TrainResult):
        tell_result(result)
    else:
        tell_counts(run, result)


def tell_result(result: TrainResult) -> None:
    """What a training came to, on stderr."""
    for warning in result.warnings:
        click.echo(f"warning: {warning}", err=True)
    if result.uncovered and result.uncovered.n:
        click.echo(
            f"{result.uncovered.kinds:,} of the rarest characters, {result.uncovered.n:,} occurrences, are unknown "
            f"(--coverage).",
            err=True,
        )
    if result.left_out:
        click.echo(
            f"warning: learned from a part of the corpus; not or not wholly counted: {', '.join(result.left_out)}",
            err=True,
        )
    if result.skipped:
        click.echo("learned before; nothing to do.", err=True)
    if not result.reached:
        click.echo("no pair is left that counts --min-frequency: the vocabulary is smaller than asked for.", err=True)
    if not result.folded:
        click.echo(
            "the vocabulary is written; state.duckdb is held by another process, so its tables are behind: "
            "`streambpe resume` brings them up to date.",
            err=True,
        )
    if result.vetoed:
        click.echo(f"{result.vetoed} pairs vetoed by --block-token (table vetoed).", err=True)
    click.echo(f"{result.log}: {result.size:,} ids, {result.events:,} events. sha256 {result.sha256}", err=True)


@main.command("export-counts")
@click.argument("run")
@click.option("-o", "--output", required=True, metavar="FILE", help="A .parquet or .csv file.")
@click.option("--group", metavar="NAME", help="Only the counts of this source group.")
@partial_option
@force_option
def export_counts(run: str, output: str, group: str | None, allow_partial: bool, force: bool) -> None:
    """Write RUN's chunk counts as a table that `count --counts` and BatchBPE read.

    \b
    example:
        streambpe export-counts runs/en -o en-counts.parquet
    """
    from streambpe.store.exchange import export_counts as export

    rows = export(run, output, group, allow_partial=allow_partial, force=force)
    click.echo(f"{output}: {rows:,} chunks", err=True)


@main.command("merge-counts")
@click.argument("run")
@click.argument("runs", nargs=-1, required=True, metavar="OTHER...")
@resource_options
@progress_option
def merge_counts(
    run: str, runs: tuple[str, ...], memory: str | None, threads: int | None, temp_dir: str | None, progress: str
) -> None:
    """Add up the counts of OTHER runs in RUN, which is made if need be. Exact: counts only ever add.

    The runs must count with the same pattern and must not have read the same source.

    \b
    example:
        streambpe merge-counts runs/all runs/node1 runs/node2 runs/node3
    """
    from streambpe.config import format_size

    resources = open_resources(memory, threads, temp_dir)
    from streambpe.store.exchange import merge_runs

    corpus = merge_runs(run, runs, resources, progress)
    click.echo(
        f"{run}: {corpus['distinct']:,} distinct chunks, {corpus['chunks']:,} in all, from "
        f"{corpus['documents']:,} documents ({format_size(int(corpus['bytes']))}). sha256 {str(corpus['sha256'])[:16]}",
        err=True,
    )


@main.command()
@click.argument("run")
@click.option("--json", "as_json", is_flag=True, help="As RUN/status.json has it, and the disk.")
def status(run: str, as_json: bool) -> None:
    """Say what RUN is doing, or did last. Reads one small file; never disturbs the run.

    The time left is a range: at the fastest and at the slowest of the speeds seen since the start and of late.

    \b
    example:
        streambpe status runs/en --json
    """
    from streambpe.inspect.status import describe_more, describe_run, look_at
    from streambpe.progress import describe
    from streambpe.store.run import Run

    found = look_at(Run(run))
    if as_json:
        click.echo(json.dumps(found))
    else:
        click.echo(
            f"{describe_run(run, found)}: {found['stage']}, {found['state']} ({found['updated']}): {describe(found)}"
        )
        for line in describe_more(found):
            click.echo(f"  {line}")
        if found.get("message"):
            click.echo(found["message"])


@main.command()
@click.argument("run")
@click.option("--name", metavar="NAME", help="The training to show tokens of. [default: the one at work]")
@click.option("--every", type=click.FloatRange(0.1), default=0.5, show_default=True, metavar="S", help="Seconds.")
@click.option("--once", is_flag=True, help="Show it once; so it is done where stdout is no terminal.")
def watch(run: str, name: str | None, every: float, once: bool) -> None:
    """Watch RUN live: stage, speed, passes, memory against the limit, disk, the latest tokens.

    Ends when the run does; Ctrl-C only ends the watching. Of a finished run it shows how it went.

    \b
    example:
        streambpe watch runs/en
    """
    from rich.console import Console

    from streambpe.inspect.watch import watch as watch_run

    console = Console()
    with contextlib.suppress(KeyboardInterrupt):
        watch_run(run, console, name=name, every=every, once=once or not console.is_terminal)


@main.command()
@click.argument("run")
@click.argument("query", required=False)
@click.option("--list", "listing", is_flag=True, help="Say what views and tables there are, and stop.")
@click.option("--file", "file", metavar="F", help="Read the query from a file; - is standard input.")
@click.option("--json", "form", flag_value="json", help="One JSON list of rows.")
@click.option("--jsonl", "form", flag_value="jsonl", help="A JSON object a line.")
@click.option("--csv", "form", flag_value="csv", help="Comma-separated, with a header.")
@click.option("--name", default="main", show_default=True, metavar="NAME", help="The training to look at.")
@click.option("-o", "--output", metavar="OUT", help="Write the rows to a .csv, .json, .jsonl or .parquet file.")
@force_option
@click.option("--files", is_flag=True, help="Let statements read and write files (read_csv, COPY, ATTACH).")
@click.option("--temp-dir", metavar="DIR", help="Where to spill. [default: inside RUN]")
@click.option("--threads", type=click.IntRange(1), default=2, show_default=True, metavar="N", help="Of the query.")
@click.option(
    "--memory", default="256MB", show_default=True, metavar="SIZE", help="Of the query; beyond it, it spills."
)
def sql(
    run: str,
    query: str | None,
    listing: bool,
    file: str | None,
    form: str | None,
    name: str,
    output: str | None,
    force: bool,
    files: bool,
    memory: str,
    threads: int,
    temp_dir: str | None,
) -> None:
    """Run a query on RUN's tables, read-only, also while it learns.

    QUERY is SQL in quotes, or just the name of a view or table. docs/cookbook.md answers twenty
    questions with a query each.

    Only statements that read may run, and they see nothing but RUN's tables: no file, no network. -o writes
    the rows to a file. --files allows other statements and other files; RUN is never changed.

    \b
    example:
        streambpe sql runs/en --list
        streambpe sql runs/en merge_curve --csv
        streambpe sql runs/en "SELECT chunk, n FROM chunk_frequencies LIMIT 10"
        streambpe sql runs/en "FROM vocabulary WHERE length > 10" --name other -o long.parquet
    """
    resources = open_resources(memory, threads, temp_dir)
    from streambpe.inspect.query import print_names, print_query, write_query

    if output is None and force:
        raise click.UsageError("--force is about a file that is there already: give its name with -o")
    if output is not None and (listing or form not in (None, output.rpartition(".")[2])):
        raise click.UsageError("-o takes a query, and the form from its name: leave --list, --json, --jsonl, --csv out")
    if listing:
        print_names(form or "table", sys.stdout)
        return
    if (query is None) == (file is None):
        raise click.UsageError(
            'give one query in quotes, such as "SELECT * FROM source_files", or --file F; --list says what there is'
        )
    if query is None:
        query = _read_query(file)
    if output is None:
        print_query(run, query, form or "table", sys.stdout, name, files=files, resources=resources)
        return
    rows = write_query(run, query, output, name, force=force, files=files, resources=resources)
    click.echo(f"{output}: {rows:,} rows", err=True)


def _read_query(file: str | None) -> str:
    """The text of --file."""
    from streambpe.errors import UsageError

    with contextlib.ExitStack() as stack:
        stream = sys.stdin.buffer if file == "-" else stack.enter_context(_opened(file))
        try:
            return str(stream.read().decode())
        except UnicodeDecodeError as why:
            raise UsageError(
                f"{file} is no text in UTF-8 ({why.reason} at byte {why.start}); nothing was run."
            ) from None


@main.command()
@click.argument("run")
@click.option("--sources", "rehash", is_flag=True, help="Also read every source again and compare its digest.")
@resource_options
def check(run: str, rehash: bool, memory: str | None, threads: int | None, temp_dir: str | None) -> None:
    """Recount every derived table of RUN from scratch. Prints what differs; exit 1 if anything does.

    Where RUN is counting, or was stopped while counting, what is committed is checked, and what is open is said.

    \b
    example:
        streambpe check runs/en --sources
    """
    resources = open_resources(memory, threads, temp_dir)
    from streambpe.inspect.check import FOLDED, what_is_open
    from streambpe.inspect.check import check as run_checks

    problems = run_checks(run, rehash_sources=rehash, resources=resources)
    for problem in problems:
        click.echo(str(problem))
    for note in (still_open := what_is_open(run)):
        click.echo(f"{run}: {note}", err=True)
    if problems:
        remedies = {
            f"`streambpe count {run}` folds the tables again." * any(p.table in FOLDED for p in problems),
            "A part in counts/ that differs is moved away; its sources are then counted again."
            * any(p.table == "counts" for p in problems),
            "Tables of a training (NAME.TABLE) are made anew when its event log is removed and it is trained again; "
            "the counts are kept." * any("." in p.table for p in problems),
        }
        raise StreambpeError(" ".join([f"{run}: {len(problems)} differences.", *sorted(filter(None, remedies))]))
    click.echo(f"{run}: {'what is committed' if still_open else 'everything'} adds up.", err=True)


# ---------------------------------------------------------------------------------------------------------
# encode, decode, export, import, explain


@main.command()
@click.argument("model")
@click.argument("files", nargs=-1, metavar="[FILE...]")
@click.option("-o", "--output", metavar="OUT", help="A .npy, .parquet or .bin file. [default: lines on stdout]")
@click.option(
    "--dtype",
    type=click.Choice(["auto", "uint16", "uint32", "int32", "int64"]),
    default="auto",
    show_default=True,
    help="Of the numbers in OUT; auto is uint16 up to 65 536 ids, else uint32.",
)
@click.option("--eot", metavar="TOKEN", help="A special token to put behind every document of OUT.")
@click.option("--json", "as_json", is_flag=True, help="On stdout: a JSON list a line instead of numbers.")
@click.option("--lines", is_flag=True, help="In text files every line is a document.")
@click.option("--text-column", default="text", show_default=True, metavar="NAME", help="Of jsonl, csv and parquet.")
@click.option(
    "--format",
    "kind",
    type=click.Choice(["auto", "txt", "lines", "jsonl", "csv", "parquet"]),
    default="auto",
    help="Of all files, instead of judging by the file's name.",
)
@click.option(
    "--bad-utf8",
    type=click.Choice(["replace", "skip", "error"]),
    help="Invalid bytes become U+FFFD, are left out, or end the job; given by hand, also files that are mostly no "
    "UTF-8 are taken. [default: replace]",
)
@force_option
@resource_options
def encode(
    model: str,
    files: tuple[str, ...],
    output: str | None,
    dtype: str,
    eot: str | None,
    as_json: bool,
    lines: bool,
    text_column: str,
    kind: str,
    bad_utf8: Any,
    force: bool,
    memory: str | None,
    threads: int | None,
    temp_dir: str | None,
) -> None:
    """Encode FILEs (standard input if none is given) with MODEL.

    \b
    MODEL    an event log, a RUN, or RUN:NAME
    FILE     as SOURCE of `count`; special tokens in the text are ordinary text

    With -o, ids of all documents go into one file, one after another in the order of the files' paths;
    OUT.offsets.npy says where each document begins (a .parquet file has a row a document), OUT.json of
    what kind the numbers are and of which model. Safe to stop and to kill: the same command goes on.
    Without -o, one line a document.

    \b
    example:
        streambpe encode runs/en corpus/*.jsonl.zst -o ids.npy
        echo "Hello world" | streambpe encode runs/en
    """
    resources = open_resources(memory, threads, temp_dir)
    from streambpe.encode.corpus import encode_corpus, encode_to_text
    from streambpe.encode.tokenizer import Tokenizer

    if output is None and (eot is not None or dtype != "auto" or force):
        raise click.UsageError("--eot, --dtype and --force are about a file: give its name with -o")
    if output is None and (memory or temp_dir):
        raise click.UsageError("--memory and --temp-dir are about encoding to a file: give its name with -o")
    if output is not None and as_json:
        raise click.UsageError("--json is about lines on stdout; a file's form is in its name. Leave --json or -o out")
    tokenizer = Tokenizer.load(model)
    if output is None:
        how = {"lines": lines, "text_column": text_column, "kind": kind, "bad_utf8": bad_utf8}
        for line in encode_to_text(tokenizer, files, as_json=as_json, **how):
            click.echo(line)
        return
    with stop_on_signals() as stop:
        result = encode_corpus(
            tokenizer,
            files or ("-",),
            output,
            dtype=dtype,
            eot=eot,
            lines=lines,
            text_column=text_column,
            kind=kind,
            bad_utf8=bad_utf8,
            resources=resources,
            stop=stop,
            force=force,
        )
    for warning in result.warnings:
        click.echo(f"warning: {warning}", err=True)
    if result.dropped:
        click.echo(
            f"warning: {result.dropped:,} characters outside the SCRIPT table were left out, as in training", err=True
        )
    click.echo(f"{result.path}: {result.ids:,} ids ({result.dtype}) of {result.documents:,} documents", err=True)


@main.command()
@click.argument("model")
@click.argument("file", required=False)
@click.option(
    "--dtype",
    type=click.Choice(["auto", "uint16", "uint32", "int32", "int64"]),
    default="auto",
    help="Of the numbers in a .bin file. [default: what FILE.json says]",
)
def decode(model: str, file: str | None, dtype: str) -> None:
    """Print the text behind ids: lines of numbers or JSON lists (standard input if no FILE is given), or a
    .npy, .parquet or .bin file that `encode` wrote.

    Each document ends with a line feed, unless it ends with one itself. Bytes come out as they are.

    \b
    example:
        echo "Hello world" | streambpe encode runs/en | streambpe decode runs/en
        streambpe decode runs/en ids.npy | head
    """
    from streambpe.encode.decode import decode_array, decode_file
    from streambpe.encode.sidecar import another_model
    from streambpe.encode.tokenizer import Tokenizer

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TablesDiffer)  # nothing is split here
        tokenizer = Tokenizer.load(model)
    if file is not None and Path(file).suffix in (".npy", ".parquet", ".bin"):
        documents = decode_array(tokenizer, Path(file), dtype)
        told = another_model(tokenizer, Path(file))
        if told:
            click.echo(f"warning: {told}", err=True)
    else:
        if dtype != "auto":
            raise click.UsageError("--dtype is about a .bin file; text says itself what its numbers are")
        with contextlib.ExitStack() as stack:
            stream = sys.stdin.buffer if file in (None, "-") else stack.enter_context(_opened(file))
            for document in decode_file(tokenizer, stream, file or "standard input"):
                click.echo(document, nl=not document.endswith(b"\n"))
        return
    for document in documents:
        click.echo(document, nl=not document.endswith(b"\n"))


def _opened(file: str | None) -> Any:
    from streambpe.errors import SourceError

    try:
        return open(str(file), "rb")
    except OSError as why:
        raise SourceError(f"{file} cannot be read: {why.strerror}.") from None


@main.command()
@click.argument("model")
@click.option(
    "--to",
    type=click.Choice(["hf", "tiktoken", "gpt2", "boundless", "gguf", "events", "parquet"]),
    required=True,
    help="The format.",
)
@click.option("-o", "--output", required=True, metavar="PATH", help="The file; for gpt2 a folder.")
@click.option("--vocab-size", metavar="N[,N...]", help="Cut smaller vocabularies; several get the size in their name.")
@click.option("--verify", metavar="TEXT", help="A SOURCE to encode both ways; prints how far the two are apart.")
@click.option("--strict", is_flag=True, help="Exit 4 unless the export is exact.")
@force_option
def export(
    model: str, to: str, output: str, vocab_size: str | None, verify: str | None, strict: bool, force: bool
) -> None:
    """Write MODEL for other programs, and say what they cannot hold.

    \b
    hf         tokenizer.json, for tokenizers and transformers
    tiktoken   ranks, and a Python file that makes the Encoding
    gpt2       vocab.json and merges.txt in the folder PATH
    boundless  a .model file, version 2, for fastboundlessbpe
    gguf       vocabulary metadata for llama.cpp; needs `pip install gguf`
    events     the event log; parquet: the same as a table

    Plain BPE without stop words and uw models are exact in hf. Of the others the best form that can be said
    is written, and what is lost is printed.

    \b
    example:
        streambpe export runs/en --to hf -o tokenizer.json --verify held-out.txt --strict
        streambpe export runs/en --to tiktoken -o en.tiktoken --vocab-size 8000,16000
    """
    from streambpe.encode.formats.export import export as export_model
    from streambpe.errors import NotExact, UsageError

    try:
        sizes = [int(size) for size in vocab_size.split(",")] if vocab_size else []
    except ValueError:
        raise UsageError(f"--vocab-size {vocab_size}: one number, or several with commas between.") from None
    results = export_model(model, to, output, vocab_sizes=sizes, verify=verify, force=force)
    for result in results:
        for line in result.lines():
            click.echo(line, err=True)
    if strict and not all(result.exact for result in results):
        raise NotExact(f"{output} is not exact. It was written all the same; see above for what is lost.")


@main.command("import")
@click.argument("file")
@click.option("-o", "--output", required=True, metavar="LOG", help="The event log to write, as MODEL.events.jsonl.")
@click.option("--pattern", metavar="NAME|REGEX", help="For tiktoken ranks, which carry none.")
@click.option("--special", "specials", multiple=True, metavar="TOKEN", help="Likewise; ids follow the last rank.")
@force_option
def import_(file: str, output: str, pattern: str | None, specials: tuple[str, ...], force: bool) -> None:
    """Read a vocabulary made elsewhere into an event log, with the same ids.

    FILE is a Hugging Face tokenizer.json (byte-level BPE), tiktoken ranks, a .model file of fastboundlessbpe,
    BoundlessBPE, minbpe or BatchBPE, a JSON file of PickyBPE or SCRIPT-BPE (over bytes), or the Parquet twin of
    an event log. What an event log cannot say is
    refused, never dropped.

    \b
    example:
        streambpe import tokenizer.json -o theirs.events.jsonl
        streambpe import cl100k_base.tiktoken --pattern cl100k --special "<|endoftext|>" -o cl100k.events.jsonl
    """
    from streambpe.encode.formats.export import import_file
    from streambpe.encode.tokenizer import Tokenizer
    from streambpe.model.eventlog import write_event_log
    from streambpe.outputs import refuse_existing

    refuse_existing(Path(output), force)
    log = import_file(file, pattern=pattern, specials=specials)
    tokenizer = Tokenizer.from_event_log(log)
    write_event_log(output, log)
    click.echo(f"{output}: {tokenizer.n_vocab:,} ids, {len(log.events):,} events", err=True)


@main.command()
@click.argument("run")
@click.option("-o", "--output", default="report.html", show_default=True, metavar="FILE", help="The page to write.")
@click.option("--name", default="main", show_default=True, metavar="NAME", help="The training it is about.")
@click.option("--text", "texts", multiple=True, metavar="FILE", help="Measure on this SOURCE; may be given again.")
@click.option("--lines", is_flag=True, help="In text files every line is a document.")
@click.option("--text-column", metavar="NAME", help="Of jsonl, csv and parquet. [default: text]")
@click.option("--force", is_flag=True, help="Overwrite a file that is no page of report; a page is replaced anyway.")
@resource_options
def report(
    run: str,
    output: str,
    name: str,
    texts: tuple[str, ...],
    lines: bool,
    text_column: str | None,
    force: bool,
    memory: str | None,
    threads: int | None,
    temp_dir: str | None,
) -> None:
    """Write one page about RUN: merge counts, token frequencies, compression, Renyi efficiency, speed, and more.

    The page is one file that fetches nothing. How the vocabulary fares as it grows is measured on the chunks
    of RUN, or on --text, which models with superwords need.

    \b
    example:
        streambpe report runs/en -o report.html
        streambpe report runs/en --name boundless --text held-out.txt
    """
    resources = open_resources(memory, threads, temp_dir)
    from streambpe.inspect.page import report as write_report

    facts = write_report(
        run, output, name=name, texts=texts, resources=resources, force=force, lines=lines, text_column=text_column
    )
    click.echo(f"{output}: {facts['events']:,} events of {run}, training {name}", err=True)


@main.command()
@click.argument("models", nargs=-1, metavar="MODEL...")
@click.option("--text", "texts", multiple=True, required=True, metavar="FILE", help="A SOURCE; may be given again.")
@click.option(
    "--by", type=click.Choice(["source", "group"]), help="Also a row for each file or group, with its parity."
)
@click.option(
    "--group", "groups", multiple=True, metavar="NAME=GLOB", help="These texts are one group, for --by group."
)
@click.option("--group-by", type=click.Choice(["folder"]), help="Each folder's files are a group, for --by group.")
@click.option("--tokenizer", "rivals", multiple=True, metavar="FILE", help="A vocabulary made elsewhere (see import).")
@click.option("--pattern", metavar="NAME|REGEX", help="For tiktoken ranks given as --tokenizer, which carry none.")
@click.option("--lines", is_flag=True, help="In text files every line is a document.")
@click.option("--text-column", default="text", show_default=True, metavar="NAME", help="Of jsonl, csv and parquet.")
@click.option("--json", "form", flag_value="json", help="One JSON list.")
@click.option("--csv", "form", flag_value="csv", help="Comma-separated, with a header.")
@resource_options
def evaluate(
    models: tuple[str, ...],
    texts: tuple[str, ...],
    by: str | None,
    groups: tuple[str, ...],
    group_by: str | None,
    rivals: tuple[str, ...],
    pattern: str | None,
    lines: bool,
    text_column: str,
    form: str | None,
    memory: str | None,
    threads: int | None,
    temp_dir: str | None,
) -> None:
    """Measure MODELs on texts: bytes per token, Renyi efficiency, vocabulary used, and more.

    \b
    MODEL    an event log, a RUN, or RUN:NAME; docs/evaluate.md says what every measure is

    With --by source, parity is a file's tokens beside those of the first file: what a language pays, if the
    files say the same in several languages. --by group adds up files first.

    \b
    example:
        streambpe evaluate runs/en runs/en:small --text held-out.txt
        streambpe evaluate runs/multi --text flores/en.txt --text 'flores/*.txt' --by source --tokenizer tokenizer.json
        streambpe evaluate runs/multi --text 'flores/*/*.txt' --by group --group-by folder
    """
    resources = open_resources(memory, threads, temp_dir)
    from streambpe.inspect.evaluate import evaluate as evaluate_models
    from streambpe.inspect.evaluate import print_evaluations

    found = evaluate_models(
        models,
        texts,
        by=by,
        groups=groups,
        group_by=group_by,
        rivals=rivals,
        pattern=pattern,
        resources=resources,
        lines=lines,
        text_column=text_column,
    )
    print_evaluations(found, form or "table", sys.stdout, by or "source")


@main.command()
@click.argument("run")
@click.option("--by", type=click.Choice(["share", "group"]), default="share", show_default=True,
              help="Prefixes: halved again and again; or the first source group, the first two, ...")  # fmt: skip
@click.option("--steps", type=click.IntRange(2, 20), metavar="N", help="For --by share. [default: 6]")
@click.option("--text", "texts", multiple=True, metavar="FILE", help="Measure on this SOURCE; may be given again.")
@click.option("--json", "as_json", is_flag=True, help="All numbers.")
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
    config = TrainConfig.from_options(**given)
    with stop_on_signals() as stop:
        found = compare(
            run,
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


@main.command()
@click.argument("model")
@click.argument("what", metavar="TOKEN_OR_TEXT")
@click.option("--token/--text", "as_token", default=None, help="Settle what is meant. [default: a token if it is one]")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
def explain(model: str, what: str, as_token: bool | None, as_json: bool) -> None:
    """Show how a text splits, step by step, or how a token (its text, id:N, or log:N for a log id) was made.

    A token's rivals, the pairs that were next in line, are shown if MODEL is a RUN: they are counted anew
    from its chunks, those of a superword from its stored documents.

    \b
    example:
        streambpe explain runs/en " the"
        streambpe explain runs/en "unbelievable things" --json
    """
    from streambpe.encode.tokenizer import Tokenizer
    from streambpe.inspect.explain import explain as explain_model
    from streambpe.inspect.explain import print_explanation
    from streambpe.store.models import run_of

    as_text = None if as_token is None else not as_token
    found = explain_model(Tokenizer.load(model), what, as_text=as_text, run=run_of(model))
    if as_json:
        click.echo(json.dumps(found.as_json(), ensure_ascii=False))
    else:
        print_explanation(found, sys.stdout)


if __name__ == "__main__":
    main()
