"""A `.model` of sentencepiece, measured as the vocabularies of event logs are (evaluate.py).

An event log cannot hold such a vocabulary: ids stand in an order of their own, and the text is changed first. So the
package `sentencepiece` encodes, a whole document at a time: its normalizer and its pieces may reach over any border.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from streambpe.errors import LimitError, ModelError
from streambpe.inspect.measures import Uses
from streambpe.later import need
from streambpe.progress import present_meter
from streambpe.resources import BASE_BYTES, Resources, format_size
from streambpe.sources.decode import block_text
from streambpe.sources.read import Reader
from streambpe.sources.source import Source
from streambpe.text.patterns import PRESETS
from streambpe.text.whitespace import WORD_MARK

_BLOCK = 1 << 20
_BYTES_PER_CHARACTER = 400  # peak memory of a document


class SentencePiece:
    """A model as the package loads it. Never changes."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        package = need(
            "sentencepiece", f"{path} is a .model of sentencepiece, and to measure it", " Nothing was measured."
        )
        self.processor = package.SentencePieceProcessor()
        try:
            self.processor.load_from_serialized_proto(Path(path).read_bytes())
            ids = range(self.processor.get_piece_size())
            pieces = [self.processor.id_to_piece(number) for number in ids]
        except OSError as why:
            raise ModelError(f"{path} cannot be read: {why.strerror}.") from None
        except (RuntimeError, UnicodeDecodeError):
            raise ModelError(f"{path} is not a sentencepiece .model, or is damaged.") from None
        without_text = [self.processor.is_control(number) or self.processor.is_unknown(number) for number in ids]
        self.contents = {
            number: bytes([int(piece[3:5], 16)])
            if self.processor.is_byte(number)
            else piece.replace(WORD_MARK, " ").encode()
            for number, piece in enumerate(pieces)
            if not without_text[number]
        }

    def __len__(self) -> int:
        return int(self.processor.get_piece_size())


def count_pieces(model: SentencePiece, source: Source, resources: Resources | None = None) -> Uses:
    """The histogram of one source."""
    room = max((resources or Resources.from_options()).memory_bytes - BASE_BYTES, 64 << 20)
    most = room // _BYTES_PER_CHARACTER
    uses = Uses(np.zeros(len(model), np.int64))
    reader = Reader(PRESETS["gpt2"], min(_BLOCK, room // 64), room // 16, on_read=present_meter().advance)

    def held(document: str) -> str:
        """A document, or its beginning, if there is room for it."""
        if len(document) > most:
            raise LimitError(
                f"{source.path} has a document of {format_size(len(document))} or more, and this .model needs it "
                f"whole: --memory has room for {format_size(most)}. Nothing was measured. Give more, or --lines."
            )
        return document

    rest = ""
    for block in reader.blocks(source):
        text = block_text(block, "replace").text
        uses.add_text(text)
        *whole, last = text.split(b"\xff")
        for document in whole:
            ids = model.processor.encode(held(rest + document.decode()))
            uses.n += np.bincount(np.array(ids, np.int64), minlength=len(model))
            rest = ""
        rest = held(rest + last.decode())
    return uses
