"""What commands tell at their end: sentences on stderr, and with --json one object on stdout."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from streambpe.cli.help import PanelOption

if TYPE_CHECKING:
    from streambpe.train.counting.job import CountResult
    from streambpe.train.training import TrainResult

F = TypeVar("F", bound=Callable[..., Any])


def json_option(command: F) -> F:
    """--json, for a command that otherwise tells what it did in sentences."""
    return click.option(
        "--json",
        "as_json",
        cls=PanelOption,
        panel="Output",
        is_flag=True,
        help="What it came to, as one JSON object on stdout.",
    )(command)


def tell_json(facts: dict[str, Any]) -> None:
    """One object on stdout."""
    click.echo(json.dumps(facts, ensure_ascii=False, default=str))


def tell_counts(run: str, result: CountResult, as_json: bool) -> None:
    """What a count came to."""
    from streambpe.resources import format_size

    corpus = result.corpus
    if as_json:
        tell_json(
            {
                "run": run, **corpus, "sources_counted": result.counted, "sources_skipped": result.skipped,
                "warnings": result.warnings,
            }
        )  # fmt: skip
        return
    for warning in result.warnings:
        click.echo(f"warning: {warning}", err=True)
    click.echo(
        f"{run}: {corpus['distinct']:,} distinct chunks, {corpus['chunks']:,} in all, from "
        f"{corpus['documents']:,} documents ({format_size(corpus['bytes'])}); {result.counted} sources counted, "
        f"{result.skipped} skipped. sha256 {corpus['sha256'][:16]}",
        err=True,
    )


def tell_training(result: TrainResult, as_json: bool) -> None:
    """What a training came to."""
    if as_json:
        tell_json(vars(result) | {"uncovered": result.uncovered and result.uncovered._asdict()})
        return
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
