"""Commands that look at a RUN or a model and change nothing."""

from __future__ import annotations

import contextlib
import json
import sys

import click

from streambpe.cli.files import opened
from streambpe.cli.naming import named_run, whole_run
from streambpe.cli.options import (
    force_option,
    line_option,
    open_resources,
    reading_options,
    resource_options,
    text_only,
)
from streambpe.cli.told import json_option, tell_json
from streambpe.count_config import SourceOptions
from streambpe.errors import StreambpeError, UsageError
from streambpe.progress import Meter, reporting


@click.command()
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

    found = look_at(Run(whole_run(run)))
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


@click.command()
@click.argument("run")
@click.option("--name", metavar="NAME", help="The training to show tokens of. [default: the one at work]")
@click.option("--every", type=click.FloatRange(0.1), default=0.5, show_default=True, metavar="S", help="Seconds.")
@click.option("--once", is_flag=True, help="Show it once; so it is done where stdout is no terminal.")
def watch(run: str, name: str | None, every: float, once: bool) -> None:
    """Watch RUN live: stage, speed, passes, memory against the limit, disk, the latest tokens.

    Waits for a run that has not begun, and ends when the run does; Ctrl-C only ends the watching. Of a finished
    run it shows how it went.

    \b
    example:
        streambpe watch runs/en
    """
    from rich.console import Console

    from streambpe.inspect.watch import watch as watch_run

    run, name = named_run(run, name)
    console = Console()
    with contextlib.suppress(KeyboardInterrupt):
        watch_run(run, console, name=name, every=every, once=once or not console.is_terminal)


@click.command()
@click.argument("run")
@click.argument("query", required=False, callback=text_only)
@click.option("--list", "listing", is_flag=True, help="Say what views and tables there are, and stop.")
@click.option("--file", "file", metavar="F", help="Read the query from a file; - is standard input.")
@click.option("--json", "form", flag_value="json", help="One JSON list of rows.")
@click.option("--jsonl", "form", flag_value="jsonl", help="A JSON object a line.")
@click.option("--csv", "form", flag_value="csv", help="Comma-separated, with a header.")
@click.option("--name", metavar="NAME", help="The training to look at; RUN:NAME says the same. [default: main]")
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
    name: str | None,
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
        streambpe sql runs/en "FROM vocabulary WHERE length > 10" -o long.parquet
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
    run, name = named_run(run, name)
    name = name or "main"
    text = _read_query(file) if file is not None else str(query)
    if output is None:
        print_query(run, text, form or "table", sys.stdout, name, files=files, resources=resources)
        return
    rows = write_query(run, text, output, name, force=force, files=files, resources=resources)
    click.echo(f"{output}: {rows:,} rows", err=True)


def _read_query(file: str) -> str:
    """The text of --file."""
    with contextlib.ExitStack() as stack:
        stream = sys.stdin.buffer if file == "-" else stack.enter_context(opened(file))
        try:
            return str(stream.read().decode())
        except UnicodeDecodeError as why:
            raise UsageError(
                f"{file} is no text in UTF-8 ({why.reason} at byte {why.start}); nothing was run."
            ) from None


@click.command()
@click.argument("run")
@click.option("--sources", "rehash", is_flag=True, help="Also read every source again and compare its digest.")
@resource_options
@line_option
@json_option
def check(
    run: str,
    rehash: bool,
    memory: str | None,
    threads: int | None,
    temp_dir: str | None,
    progress: str,
    as_json: bool,
) -> None:
    """Recount every derived table of RUN from scratch. Prints what differs; exit 1 if anything does.

    Where RUN is counting, or was stopped while counting, what is committed is checked, and what is open is said.

    \b
    example:
        streambpe check runs/en --sources
    """
    run = whole_run(run)
    resources = open_resources(memory, threads, temp_dir)
    from streambpe.inspect.check import check as run_checks
    from streambpe.inspect.check import remedies, what_is_open

    with reporting(Meter("checking", memory_limit=resources.memory_bytes), progress):
        problems = run_checks(run, rehash_sources=rehash, resources=resources)
    still_open = what_is_open(run)
    if as_json:
        differences = [{"table": problem.table, "row": problem.what} for problem in problems]
        tell_json({"run": run, "differences": differences, "open": still_open})
    else:
        for problem in problems:
            click.echo(str(problem))
    for note in still_open if not as_json else ():
        click.echo(f"{run}: {note}", err=True)
    if problems:
        raise StreambpeError(" ".join([f"{run}: {len(problems)} differences.", *remedies(run, problems)]))
    if not as_json:
        click.echo(f"{run}: {'what is committed' if still_open else 'everything'} adds up.", err=True)


@click.command()
@click.argument("run")
@click.option("-o", "--output", default="report.html", show_default=True, metavar="FILE", help="The page to write.")
@click.option("--name", metavar="NAME", help="The training it is about; RUN:NAME says the same. [default: main]")
@click.option("--text", "texts", multiple=True, metavar="FILE", help="Measure on this SOURCE; may be given again.")
@reading_options("lines", "text_column")
@click.option("--force", is_flag=True, help="Overwrite a file that is no page of report; a page is replaced anyway.")
@resource_options
@line_option
@json_option
def report(
    run: str,
    output: str,
    name: str | None,
    texts: tuple[str, ...],
    lines: bool,
    text_column: str | None,
    force: bool,
    memory: str | None,
    threads: int | None,
    temp_dir: str | None,
    progress: str,
    as_json: bool,
) -> None:
    """Write one page about RUN: merge counts, token frequencies, compression, Renyi efficiency, speed, and more.

    The page is one file that fetches nothing. How the vocabulary fares as it grows is measured on the chunks
    of RUN, or on --text, which models with superwords need.

    \b
    example:
        streambpe report runs/en -o report.html
        streambpe report runs/en --name boundless --text held-out.txt
    """
    run, name = named_run(run, name)
    name = name or "main"
    resources = open_resources(memory, threads, temp_dir)
    from streambpe.inspect.page import report as write_report

    with reporting(Meter("measuring", memory_limit=resources.memory_bytes), progress):
        facts = write_report(
            run, output, name=name, texts=texts, resources=resources, force=force, how=SourceOptions(lines, text_column)
        )
    if as_json:
        tell_json({"run": run, "training": name, "page": output, "events": facts["events"]})
    else:
        click.echo(f"{output}: {facts['events']:,} events of {run}, training {name}", err=True)


@click.command()
@click.argument("models", nargs=-1, metavar="MODEL...")
@click.option("--text", "texts", multiple=True, required=True, metavar="FILE", help="A SOURCE; may be given again.")
@click.option(
    "--by", type=click.Choice(["source", "group"]), help="Also a row for each file or group, with its parity."
)
@click.option(
    "--group", "groups", multiple=True, metavar="NAME=GLOB", help="These texts are one group, for --by group."
)
@click.option("--group-by", type=click.Choice(["folder"]), help="Each folder's files are a group, for --by group.")
@click.option(
    "--tokenizer", "rivals", multiple=True, metavar="FILE", help="Made elsewhere: FILE, hf:NAME, tiktoken:NAME."
)
@click.option("--pattern", metavar="NAME|REGEX", help="For tiktoken ranks given as --tokenizer, which carry none.")
@reading_options("lines", "text_column")
@click.option("--json", "form", flag_value="json", help="One JSON list.")
@click.option("--csv", "form", flag_value="csv", help="Comma-separated, with a header.")
@resource_options
@line_option
def evaluate(
    models: tuple[str, ...],
    texts: tuple[str, ...],
    by: str | None,
    groups: tuple[str, ...],
    group_by: str | None,
    rivals: tuple[str, ...],
    pattern: str | None,
    lines: bool,
    text_column: str | None,
    form: str | None,
    memory: str | None,
    threads: int | None,
    temp_dir: str | None,
    progress: str,
) -> None:
    """Measure MODELs on texts: bytes per token, Renyi efficiency, vocabulary used, and more.

    \b
    MODEL    an event log, a RUN, or RUN:NAME; the measures: docs/evaluate.md

    With --by source, parity is a file's tokens beside those of the first file: what a language pays, if the
    files say the same in several languages. --by group adds up files first.

    \b
    example:
        streambpe evaluate runs/en runs/en:small --text held-out.txt
        streambpe evaluate runs/multi --text flores/en.txt --text 'flores/*.txt' \\
            --by source --tokenizer tokenizer.json
        streambpe evaluate runs/multi --text 'flores/*/*.txt' --by group \\
            --group-by folder
    """
    resources = open_resources(memory, threads, temp_dir)
    from streambpe.inspect.evaluate import evaluate as evaluate_models
    from streambpe.inspect.evaluate import print_evaluations

    with reporting(Meter("evaluating", memory_limit=resources.memory_bytes), progress) as meter:
        found = evaluate_models(
            models,
            texts,
            by=by,
            groups=groups,
            group_by=group_by,
            rivals=rivals,
            pattern=pattern,
            resources=resources,
            how=SourceOptions(lines, text_column),
            meter=meter,
        )
    print_evaluations(found, form or "table", sys.stdout, by or "source")


@click.command()
@click.argument("model")
@click.argument("what", metavar="TOKEN_OR_TEXT", callback=text_only)
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


@click.command()
@click.argument("here", metavar="MODEL")
@click.argument("there", metavar="OTHER")
@click.option("--csv", "form", flag_value="csv", help="Every token that differs, comma-separated, with a header.")
@click.option("--json", "form", flag_value="json", help="The same as one JSON object.")
def diff(here: str, there: str, form: str | None) -> None:
    """Compare two vocabularies: tokens only in MODEL, only in OTHER, and those with other ids.

    \b
    example:
        streambpe diff runs/en runs/en:small
        streambpe diff runs/en theirs.events.jsonl --csv
    """
    from streambpe.inspect.difference import difference, print_difference

    found = difference(here, there)
    if form == "json":
        tell_json(found.as_json())
    else:
        print_difference(found, form or "table", sys.stdout)


COMMANDS = (status, watch, sql, check, report, evaluate, explain, diff)
