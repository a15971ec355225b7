"""Models on texts: how short, how even, how whole their tokens are.

    text  ->  blocks  ->  distinct chunks and their counts  ->  encoded once each  ->  a histogram of ids
                                                                                   ->  measures (measures.py)

Models with superwords also encode every block as it stands, since their tokens reach across chunks.
Memory does not grow with the text: when the table of distinct chunks outgrows its bound, it is encoded, added
to the histogram and begun again. Cost on one core: about that of counting (25 ns per byte of English), with
superwords that of encoding.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TextIO, Unpack

import numpy as np
import polars as pl

from streambpe.arguments import arguments
from streambpe.arrays import Bool, Int64
from streambpe.encode.blocks import BlockEncoder
from streambpe.encode.encoder import Encoder, RunJoiner
from streambpe.encode.fewest import fewest_by
from streambpe.encode.formats.imports import import_file, is_sentencepiece, takes_pattern
from streambpe.encode.grown import GrownUses, grows_by_merges
from streambpe.encode.split import parse_share
from streambpe.encode.tokenizer import Tokenizer
from streambpe.errors import UsageError
from streambpe.inspect.columns import print_columns, write_rows
from streambpe.inspect.measures import APART, ASKED, MEASURES, Uses, gini, measure
from streambpe.inspect.pieces import SentencePiece, count_pieces
from streambpe.options import several
from streambpe.progress import present_meter, reported
from streambpe.resources import BASE_BYTES, Resources
from streambpe.results import Result
from streambpe.sources.decode import block_text
from streambpe.sources.find import Named, as_given, find_sources
from streambpe.sources.read import Reader
from streambpe.sources.source import Source
from streambpe.store.groups import GroupRules
from streambpe.text.chunker import ChunkCounts, Chunker
from streambpe.text.shown import holds_part_of_a_character

if TYPE_CHECKING:
    from streambpe.keywords import ReadKeywords

_BYTES_A_BYTE = 60  # peak memory for each byte of a block
_MOST_BLOCK = 16 << 20
_LEAST_BLOCK = 256 << 10
Also = Callable[[pl.DataFrame], None]  # what else takes distinct chunks and their counts
ALL = "all"  # the row of all sources together
_OTHER_SCRIPT = 1.25  # times the bytes per character of another text: it is in another script
NO_GROUP = "(no group)"


@dataclass(frozen=True)
class Evaluation(Result):
    """The measures of one model on one source or group of sources, or on all of them."""

    model: str
    source: str  # the source's path, the group, or ALL
    values: dict[str, float | None]  # by the names in MEASURES
    width: float = 1.0  # bytes per character


@reported("evaluating")
def evaluate(
    models: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    text: Named | Sequence[Named],
    *,
    by: str | None = None,
    group: str | Sequence[str] = (),
    group_by: str | None = None,
    tokenizer: str | Sequence[str] = (),
    pattern: str | None = None,
    fewest: bool = False,
    residues: str | float | None = None,
    resources: Resources | None = None,
    progress: str = "none",
    **options: Unpack[ReadKeywords],
) -> list[Evaluation]:
    """Every model on all texts together; before that, with `by` "source", on each text alone, and with "group", on each
    group of texts (`group`, `group_by`: as for `count`). Parity: the tokens beside those of the first text or group.
    Gini, of all together: how unequal texts or groups are.

    `tokenizer`: vocabularies made elsewhere, as `import` reads them; `pattern` is for those that carry none. `fewest`:
    also how many tokens there are at least with the same ids (encode/fewest.py). `residues`: also how many ids are used
    in less than this share of the places where merges make them.
    """
    share = None if residues is None else parse_share(residues, "--residues")
    _, how, resources = arguments("evaluate", options, None, resources)
    models, rivals = several(models), several(tokenizer)
    names = [one if isinstance(one, str) else one.path for one in as_given(text)]
    sources, _ = find_sources(names, how)
    if not sources:
        raise UsageError("Nothing to evaluate on: name at least one --text FILE.")
    name_of = _naming(by, several(group), group_by)
    reference = name_of(find_sources(names[:1], how, in_part=True)[0][0].path)
    loaded: list[tuple[str, Tokenizer | SentencePiece]] = [(os.fspath(name), Tokenizer(name)) for name in models]
    if pattern and not any(map(takes_pattern, rivals)):
        what = rivals[0] if rivals else "a MODEL"
        raise UsageError(
            f"--pattern is for a --tokenizer FILE without one, but {what} says how its text is split. Leave it out."
        )
    loaded += [(name, _rival(name, pattern)) for name in rivals]
    if not loaded:
        raise UsageError("Nothing to evaluate: name at least one MODEL, or a --tokenizer FILE.")
    refuse_read_again(sources, len(loaded))
    for name, measured in loaded if fewest or share else ():
        asked = ""
        if fewest and (isinstance(measured, SentencePiece) or measured.encoder.has_superwords):
            asked = "--fewest"
        elif share and (isinstance(measured, SentencePiece) or not grows_by_merges(measured.event_log)):
            asked = "--residues"
        if asked:
            raise UsageError(f"{asked}: {name} has superwords or deleted tokens, or is not made of merges, so that is "
                             f"not known. Nothing was measured. Leave {name} or {asked} out.")  # fmt: skip
    present_meter().total = len(loaded) * sum(source.bytes for source in sources)
    results = []
    for name, measured in loaded:
        size, partial = ids_of(measured)
        total = Uses()
        alone: dict[str, Uses] = {}
        count = _counting(measured, fewest, share is not None, resources)
        for source in sources:
            uses = count(source)
            total += uses
            if by:
                mine = alone.setdefault(name_of(source.path), Uses())
                mine += uses
        if by:
            beside = int(alone[reference].n.sum())
            for what, uses in sorted(alone.items()) if by == "group" else alone.items():
                values = measure(uses, size, partial, fewest, share)
                values["parity"] = int(uses.n.sum()) / beside if beside else None
                results.append(Evaluation(name, what, values, uses.bytes / (uses.characters or 1)))
        values = measure(total, size, partial, fewest, share)
        if by:
            parts = [(int(uses.n.sum()), uses.bytes) for what, uses in alone.items() if what != NO_GROUP and uses.bytes]
            values["gini"] = gini([n / size for n, size in parts])
            values["gini_tokens"] = gini([n for n, _ in parts])
        results.append(Evaluation(name, ALL, values))
    return results


def _counting(
    measured: Tokenizer | SentencePiece, fewest: bool, residues: bool, resources: Resources
) -> Callable[[Source], Uses]:
    """What counts the uses in a source, with what is asked for beside them."""
    if isinstance(measured, SentencePiece):
        return lambda source: count_pieces(measured, source, resources)
    encoder = measured.encoder
    of_chunks = fewest_by(encoder) if fewest else None

    def count(source: Source) -> Uses:
        least, grown = [0], GrownUses(encoder) if residues else None

        def also(counted: pl.DataFrame) -> None:
            if of_chunks is not None:
                least.append(of_chunks(counted))
            if grown is not None:
                grown.add(counted)

        uses = count_uses(measured, source, resources, also)
        uses.fewest = sum(least)
        if grown is not None:
            uses.made = np.zeros_like(uses.n)
            np.add.at(uses.made, encoder.model_ids[: encoder.n_log], grown.made_of_ids()[:-1])
        return uses

    return count


def refuse_read_again(sources: Iterable[Source], times: int) -> None:
    """An error if a text is to be read so often, and one of them can be read only once."""
    if times > 1 and any(source.is_stream for source in sources):
        raise UsageError(
            f"Standard input can be read only once, and this reads the text {times} times. Nothing was written. Give a "
            "file."
        )


def _naming(by: str | None, groups: Sequence[str], group_by: str | None) -> Callable[[str], str]:
    """A function from the path of a text to the name of the row that it is added to."""
    rules = GroupRules.from_options(groups, group_by)
    if by not in (None, "source", "group"):
        raise UsageError(f"--by {by}: choose source or group.")
    if by == "group" and not rules:
        raise UsageError("--by group: say which texts belong together, with --group NAME=GLOB or --group-by folder.")
    if rules and by != "group":
        raise UsageError("--group and --group-by are for --by group.")
    return (lambda path: rules.group_of(path) or NO_GROUP) if by == "group" else lambda path: path


def _rival(name: str, pattern: str | None) -> Tokenizer | SentencePiece:
    """A vocabulary made elsewhere."""
    if is_sentencepiece(name):
        return SentencePiece(name)
    return Tokenizer(import_file(name, pattern=pattern, if_needed=True))


def ids_of(tokenizer: Tokenizer | SentencePiece) -> tuple[int, Bool]:
    """(how many ids a model has, which of them hold a part of a character)."""
    if isinstance(tokenizer, SentencePiece):
        size, contents, last = len(tokenizer), tokenizer.contents, len(tokenizer) - 1
    else:
        ordinary = sorted(tokenizer.encoder.model.log_id)
        contents = dict(zip(ordinary, tokenizer.token_byte_values(), strict=True))
        size, last = tokenizer.n_vocab, tokenizer.max_token_value
    partial = np.zeros(last + 1, np.bool_)
    partial[[number for number, content in contents.items() if holds_part_of_a_character(content)]] = True
    return size, partial


def nothing(counted: pl.DataFrame) -> None:
    """What takes distinct chunks and does nothing with them."""


def no_uses(tokenizer: Tokenizer) -> Uses:
    """An empty histogram, as before any text."""
    return Uses(np.zeros(tokenizer.max_token_value + 1, np.int64))


def count_uses(tokenizer: Tokenizer, source: Source, resources: Resources, also: Also) -> Uses:
    """The histogram of one source. `also` gets all of its chunks and their counts, some at a time."""
    room = max(resources.memory_bytes - BASE_BYTES, 64 << 20)
    most_bytes = max(_LEAST_BLOCK, room // 2 // _BYTES_A_BYTE)
    block_bytes = min(_MOST_BLOCK, most_bytes)
    encoder = tokenizer.encoder
    blocks = BlockEncoder(encoder)
    counts = ChunkCounts(Chunker(blocks.pattern), room // 8)
    uses, joiner = no_uses(tokenizer), RunJoiner(encoder)

    def add_counted() -> None:
        counted = counts.take().frame()
        add_chunks(uses, encoder, counted)
        also(counted)

    for block in Reader(encoder.pattern, block_bytes, most_bytes, on_read=present_meter().advance).blocks(source):
        text = block_text(block, "replace").text
        uses.add_text(text)
        if text:
            counts.add(encoder.prepare(text)[0])
        if counts.held > room // 8:
            add_counted()
        if encoder.has_superwords:
            ids = joiner.join(blocks.encode(text, block).ids)
            uses.n += np.bincount(ids[ids >= 0], minlength=len(uses.n))
    add_counted()
    return uses


def add_chunks(uses: Uses, encoder: Encoder, counted: pl.DataFrame) -> None:
    """Add distinct chunks (chunk, n) to a histogram; with superwords only to its numbers of chunks."""
    for part in counted.iter_slices(1 << 18):
        ids, lengths = encoder.encode_distinct(part["chunk"])
        n: Int64 = part["n"].to_numpy()
        uses.chunks += int(n.sum())
        uses.single_chunks += int(n[lengths == 1].sum())
        if not encoder.has_superwords:
            np.add.at(uses.n, encoder.to_model_ids(ids), np.repeat(n, lengths))


# ---------------------------------------------------------------------------------------------------------
# showing it


def print_evaluations(found: Sequence[Evaluation], form: str, out: TextIO, by: str = "source") -> None:
    """A table for people, or all values as json or csv; `by`: what a row is about."""
    known = set[str]().union(*(one.values for one in found))
    names = [name for name in MEASURES if name in known]
    if form != "table":
        rows = [(one.model, one.source, *map(one.values.get, names)) for one in found]
        write_rows(form, ["model", by, *names], [rows], out)
    elif any(one.source != ALL for one in found):
        shown = ["bytes", "tokens", "bytes_per_token", "tokens_per_word", "single_token_chunks", "vocab_used", "renyi",
                 "partial_share", *APART, *(name for name in ASKED if name in known)]  # fmt: skip
        heads = ["model", by, *(MEASURES[name][0] for name in shown)]
        cells = [[one.model, one.source, *(cell(one.values.get(name)) for name in shown)] for one in found]
        print_columns([heads, *cells], 2, out)
    else:  # few columns, so one measure per line
        heads = ["", *(one.model for one in found)]
        cells = [[name, *(cell(one.values[name]) for one in found)] for name in names]
        print_columns([heads, *cells], 1, out)


def parity_told(found: Sequence[Evaluation], by: str) -> str:
    """What parity compares, and whether these texts can say the same."""
    n = sorted({one.values["documents"] or 0 for one in found if one.source not in (ALL, NO_GROUP)})
    told = f"parity and gini/n are for texts that say the same (parity: tokens compared with those of the first {by})"
    told += f"; these do not: they have {n[0]:,} to {n[-1]:,} documents." if len(n) > 1 else "."
    widths = [one.width for one in found if one.source not in (ALL, NO_GROUP) and one.values["bytes"]]
    if widths and max(widths) > _OTHER_SCRIPT * min(widths):
        told += (
            f"\nbytes/token and gini mislead here: the characters of one {by} have {min(widths):.1f} bytes, those of "
            f"another {max(widths):.1f}, so equal bytes are not equal text. Compare parity; to balance such languages, "
            f"train with --balance-text."
        )
    return told


def cell(value: float | None) -> str:
    """A figure for people."""
    return "-" if value is None else f"{value:,}" if isinstance(value, int) else f"{value:.4f}"
