"""A `.model` of sentencepiece, measured as the vocabularies of event logs are (evaluate.py)."""

from __future__ import annotations

import numpy as np

from streambpe.encode.sentencepiece import SentencePiece, Words
from streambpe.errors import LimitError
from streambpe.inspect.measures import Tokens, Uses, WordCounter
from streambpe.progress import Meter
from streambpe.resources import BASE_BYTES, Resources, format_size
from streambpe.sources.decode import block_text
from streambpe.sources.read import Reader
from streambpe.sources.source import Source
from streambpe.text.patterns import PRESETS

_BLOCK = 1 << 20
_BYTES_A_BYTE = 400  # peak memory for each byte of a document that is encoded whole: characters are Python objects


def tokens_of_pieces(model: SentencePiece) -> Tokens:
    """What its ids stand for."""
    return Tokens.of(model.contents(), len(model))


def no_pieces(model: SentencePiece) -> Uses:
    """An empty histogram, as before any text."""
    return Uses(np.zeros(len(model), np.int64))


def count_pieces(
    model: SentencePiece, source: Source, resources: Resources | None = None, meter: Meter | None = None
) -> Uses:
    """The histogram of one source. Its chunks are what the model encodes by itself: words, if no piece is larger."""
    room = max((resources or Resources.from_options()).memory_bytes - BASE_BYTES, 64 << 20)
    words, counter, uses = Words(model), WordCounter(), no_pieces(model)
    reader = Reader(PRESETS["gpt2"], min(_BLOCK, room // 64), room // 16, on_read=meter.advance if meter else None)
    rest, begins = "", True  # what the last document so far is not counted of, and whether that is its beginning

    def add(document: str) -> None:
        if not model.counts_words and len(document) > room // _BYTES_A_BYTE:
            raise LimitError(
                f"{source.path} has a document of {format_size(len(document))} or more, and a .model whose pieces "
                f"reach over spaces needs it whole: --memory has room for {format_size(room // _BYTES_A_BYTE)}. "
                f"Nothing was measured. Give more, or --lines."
            )
        words.add(document, begins)
        if words.held > room // 4:
            words.fold()

    for block in reader.blocks(source):
        text = block_text(block, "replace").text
        ends = text.count(b"\xff")
        uses.documents += ends
        uses.bytes += len(text) - ends
        counter.add(text)
        *whole, last = text.split(b"\xff")
        for document in whole:
            add(rest + document.decode())
            rest, begins = "", True
        rest += last.decode()
        cut = words.last_border(rest) if model.counts_words else 0
        if cut:
            add(rest[:cut])
            rest, begins = rest[cut:], False
        elif not model.counts_words and len(rest) > room // _BYTES_A_BYTE:
            add(rest)  # refuses it
    words.fold()
    uses.n, uses.chunks, uses.single_chunks, uses.words = words.n, words.units, words.single_units, counter.n
    return uses
