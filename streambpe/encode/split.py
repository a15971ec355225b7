r"""Documents for training and documents for validation, told apart by what they say.

    share 0.01:  a document is for validation if the upper 64 bits of its hash are below 0.01 * 2**64

The hash is mmh3 (x64, 128 bits) of the document as UTF-8. Nothing else decides: not the order of the documents, not
the model, not where a file is cut into blocks. The same text is always on the same side, and the documents of a smaller
share are among those of a larger one. The lower 64 bits choose the documents of --sample, and so a model's sample and
the validation have no more documents in common than chance gives. A document longer than 64 KiB is hashed in pieces,
each behind the hash so far:

    hash = b""
    for piece in pieces of 64 KiB: hash = mmh3_x64_128_digest(hash + piece)
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import mmh3
import msgspec
import numpy as np
import numpy.typing as npt

from streambpe.errors import UsageError
from streambpe.text.marks import END_MARK

_PIECE = 1 << 16


def parse_share(text: str | float, flag: str = "--validation") -> Fraction:
    """A share: 0.01, or "1%"; exact, so that it is the same number wherever it is read."""
    said = str(text).strip()
    try:
        share = Fraction(said.removesuffix("%").strip()) / (100 if said.endswith("%") else 1)
    except (ValueError, ZeroDivisionError):
        share = Fraction(0)
    if not 0 < share < 1:
        raise UsageError(f"{flag} {text}: give a share between 0 and 1, such as 0.01 or 1%. Nothing was written.")
    return share


def validation_path(path: Path) -> Path:
    """Where documents for validation go: ids.npy -> ids.validation.npy."""
    return path.with_name(f"{path.stem}.validation{path.suffix}")


class DocumentHash(msgspec.Struct):
    """The hash of a document that comes in parts. Both fields are kept over a kill."""

    so_far: bytes = b""  # the hash of all whole pieces
    rest: bytes = b""  # a piece that may grow

    def add(self, part: bytes) -> None:
        """Take one more part of the document."""
        text = self.rest + part
        whole = max(len(text) - 1, 0) // _PIECE * _PIECE  # the last piece waits for the end of the document
        for start in range(0, whole, _PIECE):
            self.so_far = mmh3.mmh3_x64_128_digest(self.so_far + text[start : start + _PIECE])
        self.rest = text[whole:]

    def end(self) -> int:
        """The number that decides about the document, which is whole now; the next one begins."""
        digest = mmh3.mmh3_x64_128_digest(self.so_far + self.rest)
        self.so_far = self.rest = b""
        return int.from_bytes(digest[8:], "little")


def hashed_documents(text: bytes) -> list[Any]:
    """The documents of a counting buffer, in which each ends with a mark: the numbers of those that lie in it whole; of
    the first and the last one, text."""
    first, *others = text.split(END_MARK)
    return [first, *map(_number, others[:-1]), *others[-1:]]


def _number(document: bytes) -> int:
    hashed = DocumentHash()
    hashed.add(document)
    return hashed.end()


def numbers_of(documents: Sequence[Any], unfinished: DocumentHash) -> list[int]:
    """The numbers of the documents that end in a block; `unfinished` holds what the next block goes on with."""
    unfinished.add(documents[0])
    if len(documents) == 1:
        return []
    numbers = [unfinished.end(), *documents[1:-1]]
    unfinished.add(documents[-1])
    return numbers


def for_validation(numbers: Sequence[int], share: Fraction) -> npt.NDArray[np.bool_]:
    """Whether each document is for validation."""
    border = share.numerator * (1 << 64) // share.denominator
    return np.array([number < border for number in numbers], np.bool_)
