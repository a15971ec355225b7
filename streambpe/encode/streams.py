"""The sources that are encoded, and their ids as lines of text."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from streambpe.arguments import arguments
from streambpe.core.encoding import END_OF_TEXT
from streambpe.count_config import SourceOptions
from streambpe.encode.blocks import BlockEncoder
from streambpe.encode.encoder import Encoder, RunJoiner
from streambpe.errors import UsageError
from streambpe.progress import Meter
from streambpe.resources import BASE_BYTES, Resources
from streambpe.sources.find import Named, as_given, find_sources, refuse_idle
from streambpe.sources.source import BadUtf8, Source
from streambpe.sources.stretches import Stretch, bytes_between

if TYPE_CHECKING:
    from streambpe.encode.tokenizer import Tokenizer


def found_sources(
    sources: Named | Sequence[Named], how: SourceOptions, bad_utf8: BadUtf8 | None
) -> tuple[list[Source], list[str]]:
    """(the sources, warnings); to say what becomes of bad bytes is to take files that are mostly not UTF-8."""
    given = as_given(sources)
    found, warnings = find_sources([s for s in given if isinstance(s, str)], how, in_part=True)
    found += [s for s in given if isinstance(s, Source)]
    if not found:
        raise UsageError("Nothing to encode: name at least one FILE.")
    refuse_idle(found, how)
    return [replace(source, any_bytes=bad_utf8 is not None) for source in found], warnings


def block_encoder(encoder: Encoder, bad_utf8: BadUtf8, resources: Resources, *, hashed: bool = False) -> BlockEncoder:
    """What encodes blocks by the threads of this process."""
    room = max(resources.memory_bytes - BASE_BYTES, 64 << 20)
    return BlockEncoder(
        encoder, bad_utf8, room, resources.threads, hashed=hashed, document_seconds=resources.document_seconds
    )


def begin_meter(meter: Meter, sources: Sequence[Source], done: int = 0, at: int = 0) -> None:
    """Tell a meter how much there is to read, where that is known; the first `done` sources are read, and the next one
    up to a place."""
    if not any(source.is_stream for source in sources):
        meter.total = sum(source.bytes for source in sources)
        before = sum(source.bytes for source in sources[:done])
        meter.done = meter.resumed_from = before + sum(bytes_between(s.kind, s.path, 0, at) for s in sources[done:][:1])


def encode_to_text(
    tokenizer: Tokenizer,
    sources: Sequence[str],
    *,
    as_json: bool,
    bad_utf8: BadUtf8 | None,
    resources: Resources,
    **options: Any,
) -> Iterator[str]:
    """A line for each document: its ids, or a JSON list of them. One thread encodes. `options`: as for
    `encode_corpus`."""
    alone = replace(resources, threads=1)
    found, _ = found_sources(sources or ["-"], arguments("encode_corpus", options, None, alone).how, bad_utf8)
    joiner, blocks = RunJoiner(tokenizer.encoder), block_encoder(tokenizer.encoder, bad_utf8 or "replace", alone)
    document: list[int] = []
    for block in blocks.blocks(enumerate(map(Stretch, found)), lambda read: None):
        for number in joiner.join(block.ids).tolist():
            if number != END_OF_TEXT:
                document.append(number)
                continue
            yield json.dumps(document, separators=(",", ":")) if as_json else " ".join(map(str, document))
            document = []
