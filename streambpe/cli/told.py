"""What commands tell at their end: sentences on stderr, and with --json one object on stdout."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import asdict, is_dataclass
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

import click

from streambpe.errors import shortened
from streambpe.plurals import counted
from streambpe.terminal import columns_of, wrapped
from streambpe.text.shown import harmless

if TYPE_CHECKING:
    from streambpe.model.corpus_facts import CorpusFacts
    from streambpe.train.counting.job import CountResult
    from streambpe.train.training import TrainResult

T = TypeVar("T")


def say(sentence: str, *, on_stdout: bool = False, hang: int = 0) -> None:
    """A line for people, broken where a terminal ends. Nothing of the names in it is obeyed by a terminal."""
    out = sys.stdout if on_stdout else sys.stderr  # click.echo would write past a bar, into its line
    print(wrapped(harmless(sentence), columns_of(out), hang), file=out, flush=True)


def warn(message: object) -> None:
    """A warning, as a line on stderr."""
    say(f"warning: {shortened(str(message))}")


def beside_data(progress: str) -> str:
    """--progress of a command whose data goes to stdout as it comes: no line among it on a terminal."""
    return "none" if progress == "auto" and sys.stdout.isatty() else progress


def tell_json(facts: Any, indent: int | None = None) -> None:
    """One object on stdout; `facts`: a mapping, or a dataclass, which may say itself what its object is."""
    if is_dataclass(facts) and not isinstance(facts, type):
        facts = facts.as_json() if hasattr(facts, "as_json") else asdict(facts)
    click.echo(json.dumps(facts, ensure_ascii=False, default=str, indent=indent))


def tell(as_json: bool, facts: Any, *sentences: str) -> None:
    """What a command came to: one object on stdout, or sentences for people."""
    if as_json:
        tell_json(facts)
    for sentence in sentences if not as_json else ():
        say(sentence)


def show(as_json: bool, found: T, draw: Callable[[T, TextIO], object], indent: int | None = None) -> None:
    """What a command found, on stdout: one object, or what `draw` prints for people."""
    if as_json:
        tell_json(found, indent)
    else:
        draw(found, sys.stdout)


def tell_counts(run: str, result: CountResult, as_json: bool) -> None:
    """What a count came to."""
    corpus = result.corpus
    if as_json:
        tell_json(
            {
                "run": run, **corpus, "sources_counted": result.counted, "sources_skipped": result.skipped,
                "sources_taken_back": result.taken_back, "warnings": result.warnings, "sampled": result.sampled,
                "cut_documents": result.cut_documents, "cut_bytes": result.cut_bytes,
            }
        )  # fmt: skip
        return
    for warning in result.warnings:
        warn(warning)
    tell_sample(result.sampled)
    done = f"{counted(result.counted, 'source')} counted, {result.skipped:,} skipped"
    if result.taken_back:
        done = f"taken back: {', '.join(result.taken_back)}"
    say(f"{corpus_told(run, corpus)}; {done}. sha256 {corpus['sha256'][:16]}")


def tell_sample(sampled: dict[str, int]) -> None:
    """What --sample-files chose."""
    from streambpe.resources import format_size

    if sampled:
        size, of = format_size(sampled["bytes"]), format_size(sampled["of_bytes"])
        say(f"{sampled['sources']:,} of {counted(sampled['of_sources'], 'source')} ({size} of {of}) by --sample-files.")


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
    if result.weights:
        say(f"weights: {', '.join(f'{name} {weight}' for name, weight in result.weights.items())} (--alpha).")
    if result.left_out:
        warn(f"learned from a part of the corpus; not counted, or only in part: {', '.join(result.left_out)}")
    if result.skipped:
        say("already learned; nothing to do.")
    if not result.reached:
        say("no pair that may merge occurs --min-frequency times: the vocabulary is smaller than asked for.")
    if not result.folded:
        say(
            "the vocabulary is written, but another process has state.duckdb open, so its tables are out of date: "
            "`streambpe resume` updates them.",
        )
    if result.vetoed:
        say(f"{counted(result.vetoed, 'pair')} vetoed by --block-token (table vetoed).")
    say(f"{result.log}: {counted(result.size, 'id')}, {counted(result.events, 'event')}. sha256 {result.sha256}")
