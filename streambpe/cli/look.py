"""Commands that look at a RUN or a model and change nothing."""

from __future__ import annotations

import contextlib
import functools
import io
import json
import sys
from typing import TYPE_CHECKING, Any

import click

from streambpe.cli.naming import named_run, refuse_swapped, whole_run
from streambpe.cli.options import (
    force_option,
    form_options,
    json_option,
    line_option,
    own_option,
    query_options,
    reading_options,
    resource_options,
    text_only,
    text_option,
)
from streambpe.cli.told import beside_data, say, show, tell, tell_json
from streambpe.errors import StreambpeError, UsageError
from streambpe.plurals import counted
from streambpe.progress import Meter, reporting
from streambpe.terminal import columns_of

if TYPE_CHECKING:
    from streambpe.resources import Resources


@click.command()
@click.argument("run")
@own_option("--json", "Print RUN/status.json, with the sizes on disk.", name="as_json", default=False)
def status(run: str, as_json: bool) -> None:
    """Show what RUN is doing, or did last. Reads one small file and never disturbs the run.

    The time left is a range: one end is for the average speed so far, the other for the recent speed.

    \b
    example:
        streambpe status runs/en --json
    """
    from streambpe.inspect.status import status as look_at
    from streambpe.inspect.status import status_rows

    found = look_at(whole_run(run))
    if as_json:
        click.echo(json.dumps(found.as_json()))
    else:
        say(f"{run}{found.title} ({found.updated})", on_stdout=True)
        for name, text in status_rows(found).items():
            say(f"  {name:10}{text}", on_stdout=True, hang=10)
        if message := found.facts.get("message"):
            say(message, on_stdout=True)


@click.command()
@click.argument("run")
@own_option("--name", "The training whose tokens to show. [default: the one that is running]", metavar="NAME")
def watch(run: str, name: str | None) -> None:
    """Watch RUN live: stage, speed, passes, memory against the limit, disk, the latest tokens.

    Waits for a run that has not begun, and ends when the run does. Ctrl-C ends only the watching. For a
    finished run, it shows how the run went. Where stdout is not a terminal, it prints one view.

    \b
    example:
        streambpe watch runs/en
    """
    from rich.console import Console

    from streambpe.inspect.watch import watch as watch_run

    run, name = named_run(run, name)
    console = Console()
    with contextlib.suppress(KeyboardInterrupt):
        watch_run(run, console, name=name, once=not console.is_terminal)


@click.command()
@click.argument("run")
@click.argument("query", required=False, callback=text_only)
@own_option("--list", "List the views and tables, and exit.", name="listing", default=False)
@form_options(
    json="Print the rows as one JSON list.",
    jsonl="Print one JSON object per line.",
    csv="Print comma-separated values, with a header.",
)
@own_option("--name", "The training to look at; RUN:NAME says the same. [default: main]", metavar="NAME")
@own_option("--output", "Write the rows to a .csv, .json, .jsonl or .parquet file.", short="-o", metavar="OUT")
@force_option
@own_option("--files", "Let statements read and write files (read_csv, COPY, ATTACH).", default=False)
@query_options
@line_option
def sql(
    run: str,
    query: str | None,
    listing: bool,
    form: str | None,
    name: str | None,
    output: str | None,
    force: bool,
    files: bool,
    resources: Resources,
    progress: str,
) -> None:
    """Run a read-only query on RUN's tables, even while it counts or learns.

    QUERY is SQL in quotes, or just the name of a view or table. `streambpe docs cookbook` answers
    twenty questions with one query each.

    Only statements that read may run, and they see only RUN's tables: no files, no network. -o writes
    the rows to a file. --files allows other statements and other files. RUN is never changed.

    \b
    example:
        streambpe sql runs/en --list
        streambpe sql runs/en merge_curve --csv
        streambpe sql runs/en "SELECT chunk, n FROM chunk_frequencies LIMIT 10"
        streambpe sql runs/en "FROM vocabulary WHERE length > 10" -o long.parquet
    """
    from streambpe.inspect.query import Query, print_names

    if output is None and force:
        raise UsageError("--force is for a file that exists already: give its name with -o.")
    if output is not None and (listing or form not in (None, output.rpartition(".")[2])):
        raise UsageError(
            "-o writes a query's rows in the format of its name: leave out --list, --json, --jsonl and --csv."
        )
    if listing:
        if query is not None or files or name is not None:
            raise UsageError("--list lists views and tables: leave out QUERY, --files and --name.")
        print_names(form or "table", sys.stdout, columns_of(sys.stdout))
        return
    if query is None:
        raise UsageError('Give one query in quotes, such as "SELECT * FROM source_files"; --list shows what there is.')
    refuse_swapped(run, query)
    run, name = named_run(run, name)
    meter = Meter("asking", unit="rows", memory_limit=resources.memory_bytes)
    asked = Query(run, query, name or "main", files, resources, say)
    if output is not None:
        with reporting(meter, progress):
            rows = asked.write(output, force=force)
        say(f"{output}: {counted(rows, 'row')}")
        return
    drawn = io.StringIO()  # tables are short, and come when the line is gone
    try:
        with reporting(meter, progress if form is None else beside_data(progress)):
            out = drawn if form is None else sys.stdout
            asked.print(form or "table", out, columns_of(sys.stdout))
    finally:
        sys.stdout.write(drawn.getvalue())


@click.command()
@click.argument("run")
@own_option("--sources", "Also read every source again and compare its digest.", default=False)
@own_option("--replay", "Also learn every training again, in a temporary folder, and compare.", default=False)
@resource_options
@line_option
@json_option
def check(run: str, as_json: bool, **given: Any) -> None:
    """Recount what RUN counted, and compare each training with its event log. Prints every difference, and exits with 1
    if there is one. --replay checks every event and every row that was learned.

    If RUN is still counting, or was stopped while counting, it checks what is committed, and lists what is missing.

    \b
    example:
        streambpe check runs/en --replay
        streambpe check runs/en --sources
    """
    run = whole_run(run)
    from streambpe.inspect.check import check as run_checks
    from streambpe.inspect.check import remedies, what_is_open

    problems = run_checks(run, **given)
    still_open = what_is_open(run)
    if as_json:
        differences = [{"table": problem.table, "row": problem.what} for problem in problems]
        tell_json({"run": run, "differences": differences, "open": still_open, "in_part": problems.in_part})
    else:
        for problem in problems:
            say(str(problem), on_stdout=True)
        for note in [*problems.in_part, *still_open]:
            say(f"{run}: {note}")
    if problems:
        raise StreambpeError(" ".join([f"{run}: {counted(len(problems), 'difference')}.", *remedies(run, problems)]))
    if not as_json:
        say(f"{run}: {'what is committed' if still_open else 'everything'} adds up.")


@click.command()
@click.argument("model")
@own_option("--output", "The page to write.", short="-o", default="report.html", metavar="FILE")
@text_option("Measure on this SOURCE, or on a group's, as GROUP=FILE")
@reading_options("lines", "text_column")
@own_option("--beside", "Compare with another vocabulary on --text.", metavar="MODEL")
@click.option(
    "--no-playground", "playground", flag_value=False, default=True, help="Leave out the box that splits typed text."
)
@own_option("--force", "Overwrite FILE even if `report` did not write it.", default=False)
@resource_options
@line_option
@json_option
def report(model: str, output: str, as_json: bool, **given: Any) -> None:
    """Write one page about MODEL: how good it is, what to change, its tokens, and how they are used.

    The page is one file that loads nothing else. It is measured on --text, or else on the chunks that the RUN of MODEL
    has counted; superwords need --text. With --text it also has the table of `sizes`, with rows for each group. A box
    on the page cuts what you type into tokens, unless the page would have more than 5 MB.

    \b
    example:
        streambpe report runs/en -o report.html
        streambpe report runs/en:sw --text de=dev/de.txt --text en=dev/en.txt
        streambpe report runs/en --beside runs/en:small --text held-out.txt
    """
    from streambpe.inspect.page import report as write_report

    found = write_report(model, output, **given)
    tell(as_json, found, f"{output}: {counted(found.events, 'event')} of {model}")


@click.command()
@click.argument("models", nargs=-1, metavar="MODEL...")
@text_option("A SOURCE", required=True)
@own_option("--by", "Also print a row for each file or group, with its parity.", choices=("source", "group"))
@own_option("--group", "Treat these texts as one group, for --by group.", many=True, metavar="NAME=GLOB")
@own_option("--group-by", "Treat each folder's files as a group, for --by group.", choices=("folder",))
@own_option(
    "--tokenizer",
    "A tokenizer made elsewhere: FILE (also a .model), hf:NAME, tiktoken:NAME.",
    many=True,
    metavar="FILE",
)
@own_option("--pattern", "For a --tokenizer without a pattern: tiktoken ranks.", metavar="NAME|REGEX")
@own_option(
    "--residues",
    "Also print how many ids are used in less than SHARE (0.05, 5%) of the places where merges make them.",
    metavar="SHARE",
)
@own_option("--fewest", "Also print the fewest tokens that could spell each chunk.", default=False)
@reading_options("lines", "text_column")
@form_options(json="Print the result as one JSON list.", csv="Print comma-separated values, with a header.")
@resource_options
@line_option
def evaluate(models: tuple[str, ...], by: str | None, form: str | None, **given: Any) -> None:
    """Measure MODELs on texts: bytes per token, Renyi efficiency, vocabulary used, and more.

    \b
    MODEL    an event log, a RUN, or RUN:NAME
    measures `streambpe docs evaluate` explains them

    With --by source, parity is the number of tokens of a file divided by that of the first file. If they are
    translations of one text, it is what a language costs. --by group adds up files first. The last row has the
    Gini coefficients: how unequal the files or groups are in tokens per byte, and in tokens.

    \b
    example:
        streambpe evaluate runs/en runs/en:small --text held-out.txt
        streambpe evaluate runs/multi --text flores/en.txt --text 'flores/*.txt' \\
            --by source --tokenizer tokenizer.json
        streambpe evaluate runs/multi --text 'flores/*/*.txt' --by group \\
            --group-by folder
    """
    from streambpe.inspect.evaluate import evaluate as evaluate_models
    from streambpe.inspect.evaluate import parity_told, print_evaluations

    found = evaluate_models(models, by=by, **given)
    print_evaluations(found, form or "table", sys.stdout, by or "source")
    if by:
        say(parity_told(found, by))


@click.command()
@click.argument("model")
@text_option("Measure on this SOURCE, as a text of GROUP", metavar="GROUP=FILE", required=True)
@own_option("--vocab-size", "The sizes. [default: that of MODEL, half of it, a quarter, ...]", metavar="N,N,...")
@own_option("--rare", "An id is rare below N uses.", least=0, default=10)
@reading_options("lines", "text_column")
@form_options(json="Print the result as one JSON list.", csv="Print comma-separated values, with a header.")
@own_option("--output", "Also write the table to a .csv, .json, .jsonl or .parquet file.", short="-o", metavar="OUT")
@force_option
@resource_options
@line_option
def sizes(model: str, form: str | None, **given: Any) -> None:
    """Measure MODEL cut to several sizes on the texts of several groups: bytes per token, share of the ids that are
    used, ids that are rare, Renyi efficiency.

    A size is what `export --vocab-size` would write. Without superwords and deletions, every text is read once for all
    sizes. A FILE without a GROUP is only a part of the last rows, which have all texts together.

    \b
    example:
        streambpe sizes runs/multi --text de=dev/de.txt --text en=dev/en.txt
        streambpe sizes runs/multi --text held-out.txt --vocab-size 8k,16k,32k
    """
    from streambpe.inspect.sizes import print_sizes
    from streambpe.inspect.sizes import sizes as measure_sizes

    found = measure_sizes(model, **given)
    print_sizes(found, form or "table", sys.stdout)


@click.command()
@click.argument("model")
@click.argument("what", metavar="TOKEN_OR_TEXT", callback=text_only)
@click.option(
    "--token/--text",
    "as_token",
    default=None,
    help="Read TOKEN_OR_TEXT as one or the other. [default: a token if there is one]",
)
@own_option("--json", "Print the result as JSON.", name="as_json", default=False)
def explain(model: str, what: str, as_token: bool | None, as_json: bool) -> None:
    """Show how a text is split, step by step, or how a token was made.

    A token is given as its text, as id:N, or as log:N for a log id.

    \b
    example:
        streambpe explain runs/en " the"
        streambpe explain runs/en "unbelievable things" --json
    """
    from streambpe.inspect.explain import explain as explain_model
    from streambpe.inspect.explain import print_explanation

    refuse_swapped(model, what)
    found = explain_model(model, what, token=as_token)
    show(as_json, found, print_explanation)


@click.command()
@click.argument("here", metavar="MODEL")
@click.argument("there", metavar="OTHER")
@form_options(
    csv="Print every token that differs as comma-separated values, with a header.",
    json="Print the result as one JSON object.",
)
def diff(here: str, there: str, form: str | None) -> None:
    """Compare two vocabularies: tokens only in MODEL, only in OTHER, and those with different ids.

    \b
    example:
        streambpe diff runs/en runs/en:small
        streambpe diff runs/en theirs.events.jsonl --csv
    """
    from streambpe.inspect.difference import diff as compare
    from streambpe.inspect.difference import print_difference

    found = compare(here, there)
    show(form == "json", found, functools.partial(print_difference, form=form or "table"))
