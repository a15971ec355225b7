"""Options that several commands share, and what becomes of them."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from streambpe.resources import Resources

F = TypeVar("F", bound=Callable[..., Any])


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

    from streambpe.resources import Resources, format_size, keeper, prepare_allocators

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
