"""What commands tell at their end: sentences on stderr, and with --json one object on stdout."""

from __future__ import annotations

import json
import shutil
import sys
from dataclasses import asdict, is_dataclass
from typing import TYPE_CHECKING, Any

import click

from streambpe.cli.help import panel_option
from streambpe.errors import UsageError, shortened
from streambpe.plurals import counted
from streambpe.text.shown import harmless

if TYPE_CHECKING:
    from streambpe.model.corpus_facts import CorpusFacts
    from streambpe.train.counting.job import CountResult
    from streambpe.train.training import TrainResult

json_option = panel_option(
    "Output", "--json", "as_json", is_flag=True, help="Print the result as one JSON object on stdout."
)


def one_form(**asked: bool) -> str | None:
    """Which of --json, --jsonl and --csv is given; None for a table. An error if more than one is."""
    chosen = [name for name, is_given in asked.items() if is_given]
    if len(chosen) > 1:
        raise UsageError(f"--{chosen[0]} and --{chosen[1]}: rows are written in one form. Leave one of the two out.")
    return chosen[0] if chosen else None


def say(sentence: str, *, on_stdout: bool = False) -> None:
    """A line for people. Names of files stand in it, and nothing of them is obeyed by a terminal."""
    click.echo(harmless(sentence), err=not on_stdout)


def warn(message: object) -> None:
    """A warning, as a line on stderr."""
    say(f"warning: {shortened(str(message))}")


def beside_data(progress: str) -> str:
    """--progress of a command whose data goes to stdout as it comes: no line among it on a terminal."""
    return "none" if progress == "auto" and sys.stdout.isatty() else progress


def terminal_columns() -> int | None:
    """How wide the terminal is that stdout goes to; None if it goes elsewhere, where lines may be of any length."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def tell_json(facts: Any, indent: int | None = None) -> None:
    """One object on stdout; `facts`: a mapping, or a dataclass."""
    facts = asdict(facts) if is_dataclass(facts) and not isinstance(facts, type) else facts
    click.echo(json.dumps(facts, ensure_ascii=False, default=str, indent=indent))


def tell(as_json: bool, facts: Any, *sentences: str) -> None:
    """What a command came to: one object on stdout, or sentences for people."""
    if as_json:
        tell_json(facts)
    for sentence in sentences if not as_json else ():
        say(sentence)


def tell_counts(run: str, result: CountResult, as_json: bool) -> None:
    """What a count came to."""
    corpus = result.corpus
    if as_json:
        tell_json(
            {
                "run": run, **corpus, "sources_counted": result.counted, "sources_skipped": result.skipped,
                "sources_taken_back": result.taken_back, "warnings": result.warnings,
            }
        )  # fmt: skip
        return
    for warning in result.warnings:
        warn(warning)
    done = f"{counted(result.counted, 'source')} counted, {result.skipped:,} skipped"
    if result.taken_back:
        done = f"taken back: {', '.join(result.taken_back)}"
    say(f"{corpus_told(run, corpus)}; {done}. sha256 {corpus['sha256'][:16]}")


def corpus_told(run: str, corpus: CorpusFacts) -> str:
    """How much text a run has counted."""
    from streambpe.resources import format_size

    return (
        f"{run}: {counted(corpus['distinct'], 'distinct chunk')}, {corpus['chunks']:,} in all, from "
        f"{counted(corpus['documents'], 'document')} ({format_size(corpus['bytes'])})"
    )


def tell_training(result: TrainResult, as_json: bool) -> None:
    """What a training came to."""
    if as_json:
        tell_json(vars(result) | {"uncovered": result.uncovered and result.uncovered._asdict()})
        return
    for warning in result.warnings:
        warn(warning)
    if result.uncovered and result.uncovered.n:
        say(
            f"unknown: {result.uncovered.kinds:,} of the rarest characters, "
            f"{counted(result.uncovered.n, 'occurrence')} (--coverage).",
        )
    if result.left_out:
        warn(f"learned from a part of the corpus; not counted, or only in part: {', '.join(result.left_out)}")
    if result.skipped:
        say("already learned; nothing to do.")
    if not result.reached:
        say("no pair is left that occurs --min-frequency times: the vocabulary is smaller than asked for.")
    if not result.folded:
        say(
            "the vocabulary is written, but another process has state.duckdb open, so its tables are out of date: "
            "`streambpe resume` updates them.",
        )
    if result.vetoed:
        say(f"{counted(result.vetoed, 'pair')} vetoed by --block-token (table vetoed).")
    say(f"{result.log}: {counted(result.size, 'id')}, {counted(result.events, 'event')}. sha256 {result.sha256}")
