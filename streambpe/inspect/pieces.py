"""A `.model` of sentencepiece, measured as the vocabularies of event logs are (evaluate.py).

An event log cannot hold such a vocabulary: ids stand in an order of their own, and the text is changed first. So the
package `sentencepiece` encodes. A document is encoded in parts, where that gives the same ids: between words, if no
piece reaches over the beginning of one, and if the package's own normalizer makes of both parts together what it makes
of each:

    "in the beginning was"  ->  ▁in▁the▁beginning▁was      "in the" "beginning was"  ->  ▁in▁the  ▁beginning▁was
"""

from __future__ import annotations

import os

import numpy as np

from streambpe.errors import LimitError, ModelError
from streambpe.inspect.measures import Tokens, Uses, WordCounter
from streambpe.later import need
from streambpe.progress import Meter
from streambpe.resources import BASE_BYTES, Resources, format_size
from streambpe.sources.decode import block_text
from streambpe.sources.read import Reader
from streambpe.sources.source import Source
from streambpe.text.patterns import PRESETS
from streambpe.text.whitespace import WORD_MARK

_BLOCK = 1 << 20
_PART = 1 << 14  # characters that are encoded together: the package needs n log n steps for n of them
_LONGEST_RULE = 256  # characters, more than any normalizer replaces at once
_BYTES_PER_CHARACTER = 400  # peak memory of what is encoded whole


class SentencePiece:
    """A model as the package loads it. Never changes."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        package = need(
            "sentencepiece", f"{path} is a .model of sentencepiece, and to measure it", " Nothing was measured."
        )
        self.processor = package.SentencePieceProcessor()
        try:
            with open(path, "rb") as file:
                self.processor.load_from_serialized_proto(file.read())
        except OSError as why:
            raise ModelError(f"{path} cannot be read: {why.strerror}.") from None
        except RuntimeError:
            raise ModelError(f"{path} is no .model of sentencepiece, or is damaged.") from None
        ids = range(self.processor.get_piece_size())
        pieces = [self.processor.id_to_piece(number) for number in ids]
        without_text = [self.processor.is_control(number) or self.processor.is_unknown(number) for number in ids]
        self.contents = {
            number: bytes([int(piece[3:5], 16)])
            if self.processor.is_byte(number)
            else piece.replace(WORD_MARK, " ").encode()
            for number, piece in enumerate(pieces)
            if not without_text[number]
        }
        self._opens = np.array([piece.startswith(WORD_MARK) for piece in pieces])
        self._ends = np.array([piece.endswith(WORD_MARK) for piece in pieces])
        mark = self.processor.piece_to_id(WORD_MARK)
        self.in_words = (
            self._adds_no_scores()
            and not (self.processor.is_unknown(mark) or self.processor.is_unused(mark))
            and not any(WORD_MARK in piece.lstrip(WORD_MARK) or " " in piece for piece in pieces)
        )

    def __len__(self) -> int:
        return len(self._opens)

    def _adds_no_scores(self) -> bool:
        """Whether it is no unigram model, where the sum of all scores decides, and is rounded."""
        try:
            self.processor.nbest_encode("a", nbest_size=2)
        except RuntimeError:
            return True
        return False

    def cut(self, text: str) -> tuple[int, int]:
        """(end, beginning) of two parts of a document that are encoded by themselves; (0, 0) if none are seen."""
        whole = self.processor.normalize(text) if self.in_words else ""
        for border in (" ", "\n"):
            end = text.rfind(border, 0, len(text) - _LONGEST_RULE)
            while end > 0 and text[end - 1] == border:
                end -= 1
            if end <= 0 or not self.in_words:
                continue
            left = self.processor.normalize(text[:end])
            for begin in (end + 1, end):  # the model puts a space before a text, or does not
                right = self.processor.normalize(text[begin:])
                if right.startswith(WORD_MARK) and not left.endswith(WORD_MARK) and whole == left + right:
                    return end, begin
        return 0, 0

    def add(self, text: str, uses: Uses) -> None:
        """Encode a document or a part of one, and add it to a histogram; a chunk is a word, with spaces before it."""
        ids = np.array(self.processor.encode(text), np.int64)
        if not len(ids):
            return
        uses.n += np.bincount(ids, minlength=len(self))
        begins = self._opens[ids[1:]] & ~self._ends[ids[:-1]] & self.in_words
        lengths = np.diff(np.flatnonzero(np.concatenate([[True], begins, [True]])))
        uses.chunks += len(lengths)
        uses.single_chunks += int((lengths == 1).sum())


def tokens_of_pieces(model: SentencePiece) -> Tokens:
    """What its ids stand for."""
    return Tokens.of(model.contents, len(model))


def no_pieces(model: SentencePiece) -> Uses:
    """An empty histogram, as before any text."""
    return Uses(np.zeros(len(model), np.int64))


def count_pieces(
    model: SentencePiece, source: Source, resources: Resources | None = None, meter: Meter | None = None
) -> Uses:
    """The histogram of one source."""
    room = max((resources or Resources.from_options()).memory_bytes - BASE_BYTES, 64 << 20)
    most = room // _BYTES_PER_CHARACTER
    counter, uses = WordCounter(), no_pieces(model)
    reader = Reader(PRESETS["gpt2"], min(_BLOCK, room // 64), room // 16, on_read=meter.advance if meter else None)

    def add(text: str, ends: bool) -> str:
        """Encode a document, or what begins one and can be cut off; what is left."""
        size = _PART
        while size < len(text):
            end, begin = model.cut(text[:size])
            if end:
                model.add(text[:end], uses)
                text = text[begin:]
            size = _PART if end else 2 * size
        if len(text) > most:
            raise LimitError(
                f"{source.path} has {format_size(len(text))} or more of text between two places where it may be cut, "
                f"and this .model needs it whole: --memory has room for {format_size(most)}. Nothing was measured. "
                f"Give more, or --lines."
            )
        if ends:
            model.add(text, uses)
        return "" if ends else text

    rest = ""
    for block in reader.blocks(source):
        text = block_text(block, "replace").text
        ends = text.count(b"\xff")
        uses.documents += ends
        uses.bytes += len(text) - ends
        counter.add(text)
        *whole, last = text.split(b"\xff")
        for document in whole:
            add(rest + document.decode(), True)
            rest = ""
        rest = add(rest + last.decode(), False)
    uses.words = counter.n
    return uses
