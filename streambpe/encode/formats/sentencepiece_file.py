"""sentencepiece's `.model` files: a protobuf message, read and written here, field by field.

Only fields that decide which ids a text has are read; others are skipped. What is written has nothing but these.

    ModelProto      1 pieces (1 text, 2 score, 3 type), 2 trainer, 3 normalizer
    TrainerSpec     3 model_type (2: BPE), 24 treat_whitespace_as_suffix, 35 byte_fallback
    NormalizerSpec  1 name, 2 precompiled_charsmap, 3 add_dummy_prefix, 4 remove_extra_whitespaces, 5 escape_whitespaces
"""

from __future__ import annotations

import math
import os
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum

from streambpe.errors import ModelError

MOST_FILE_BYTES = 64 << 20  # the largest that is published has 5 MB
_KINDS_OF_MODEL = {1: "unigram", 2: "BPE", 3: "word", 4: "char"}
_BPE = 2
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


class PieceKind(IntEnum):
    """What a piece is; the numbers stand in the file."""

    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3
    USER_DEFINED = 4
    UNUSED = 5
    BYTE = 6


@dataclass(frozen=True, slots=True)
class Piece:
    """One id: its place in the list."""

    text: str
    score: float = 0.0
    kind: PieceKind = PieceKind.NORMAL


@dataclass(frozen=True)
class SentencePieceFile:
    """What a BPE model of sentencepiece is."""

    pieces: tuple[Piece, ...]
    byte_fallback: bool = False
    charsmap: bytes = b""  # the normalizer's rules; empty: none
    add_dummy_prefix: bool = True
    remove_extra_whitespaces: bool = True
    escape_whitespaces: bool = True


def looks_like_one(head: bytes) -> bool:
    """Whether a file begins as these files do: with a piece, and that with its text."""
    return len(head) > 2 and head[0] == head[2] == 0x0A and head[1] != 0x0A


def is_sentencepiece(path: str | os.PathLike[str]) -> bool:
    """Whether there is a file that begins so."""
    try:
        with open(path, "rb") as file:
            return looks_like_one(file.read(3))
    except (OSError, ValueError):
        return False


def read_sentencepiece(path: str | os.PathLike[str]) -> SentencePieceFile:
    """A `.model` file of a BPE model; ModelError for any other."""
    try:
        with open(path, "rb") as file:
            data = file.read(MOST_FILE_BYTES + 1)
    except OSError as why:
        raise ModelError(f"{path} cannot be read: {why.strerror}.") from None
    if len(data) > MOST_FILE_BYTES:
        raise ModelError(f"{path} is larger than {MOST_FILE_BYTES >> 20} MiB, which no .model of sentencepiece is.")
    try:
        return _model(data)
    except _Damaged as why:
        raise ModelError(f"{path} is no .model of sentencepiece, or is damaged: {why}.") from None
    except _Refused as why:
        raise ModelError(f"{path}: {why}") from None


class _Damaged(Exception):
    pass


class _Refused(Exception):
    pass


def _model(data: bytes) -> SentencePieceFile:
    pieces: list[Piece] = []
    trainer, normalizer = b"", b""
    for number, value in _fields(data):
        if number == 1:
            pieces.append(_piece(_as_bytes(value), len(pieces)))
        elif number == 2:
            trainer = _as_bytes(value)
        elif number == 3:
            normalizer = _as_bytes(value)
    kind, suffix, fallback = 1, 0, 0
    for number, value in _fields(trainer):
        if number == 3:
            kind = _as_number(value)
        elif number == 24:
            suffix = _as_number(value)
        elif number == 35:
            fallback = _as_number(value)
    if not pieces:
        raise _Damaged("it has no pieces")
    if kind != _BPE:
        name = _KINDS_OF_MODEL.get(kind, f"number {kind}")
        raise _Refused(f"it is a model of kind {name}; only BPE models of sentencepiece are read.")
    if suffix:
        raise _Refused(
            "it marks white space at the ends of words (treat_whitespace_as_suffix); only at beginnings is read."
        )
    charsmap, flags = b"", {3: 1, 4: 1, 5: 1}
    for number, value in _fields(normalizer):
        if number == 2:
            charsmap = _as_bytes(value)
        elif number in flags:
            flags[number] = _as_number(value)
    _check_pieces(pieces, bool(fallback))
    return SentencePieceFile(tuple(pieces), bool(fallback), charsmap, *(bool(flags[n]) for n in (3, 4, 5)))


def _check_pieces(pieces: list[Piece], fallback: bool) -> None:
    if len({piece.text for piece in pieces}) < len(pieces):
        raise _Damaged("a piece stands in it twice")
    unknown = sum(piece.kind is PieceKind.UNKNOWN for piece in pieces)
    if unknown != 1:
        raise _Damaged(f"it has {unknown} unknown pieces, not one")
    found = {piece.text for piece in pieces if piece.kind is PieceKind.BYTE}
    if fallback != bool(found) or found - set(byte_names()) or (fallback and len(found) < 256):
        raise _Damaged("its pieces for bytes are not the 256 that byte_fallback needs")


def byte_names() -> list[str]:
    """The pieces that stand for bytes: <0x00> to <0xFF>."""
    return [f"<0x{byte:02X}>" for byte in range(256)]


def _piece(data: bytes, number: int) -> Piece:
    text, score, kind = b"", 0.0, 1
    for field, value in _fields(data):
        if field == 1:
            text = _as_bytes(value)
        elif field == 2:
            if not isinstance(value, float):
                raise _Damaged(f"the score of piece {number} is no number")
            score = value
        elif field == 3:
            kind = _as_number(value)
    try:
        decoded = text.decode()
        known = PieceKind(kind)
    except ValueError:
        raise _Damaged(f"piece {number} is no text in UTF-8, or of a kind that is not known ({kind})") from None
    if not decoded or not math.isfinite(score):
        raise _Damaged(f"piece {number} is empty, or its score is no number")
    return Piece(decoded, score, known)


_Value = int | float | bytes


def _as_bytes(value: _Value) -> bytes:
    if not isinstance(value, bytes):
        raise _Damaged("a field that holds a message holds a number")
    return value


def _as_number(value: _Value) -> int:
    if not isinstance(value, int):
        raise _Damaged("a field that holds a number holds something else")
    return value


def _fields(data: bytes) -> Iterator[tuple[int, _Value]]:
    """(number of the field, value) in the order of the file; never reads beyond the end."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        kind = key & 7
        if kind == _VARINT:
            number, at = _varint(data, at)
            yield key >> 3, number
            continue
        size = {_FIXED64: 8, _FIXED32: 4}.get(kind, 0)
        if kind == _BYTES:
            size, at = _varint(data, at)
        elif not size:
            raise _Damaged(f"there is no kind {kind} of fields (byte {at})")
        if size > len(data) - at:
            raise _Damaged(f"a field of {size} bytes begins at byte {at} of {len(data)}")
        value = data[at : at + size]
        at += size
        if kind == _BYTES:
            yield key >> 3, value
        else:
            yield key >> 3, float(struct.unpack("<f" if size == 4 else "<d", value)[0])


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """(the number that begins here, where the next thing begins)."""
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            raise _Damaged(f"it ends inside a number (byte {at})")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise _Damaged(f"a number has more than ten bytes (byte {at})")


# Writing.


def sentencepiece_bytes(model: SentencePieceFile) -> bytes:
    """The file of a model."""
    parts = []
    for piece in model.pieces:
        content = _text_field(1, piece.text.encode()) + b"\x15" + struct.pack("<f", piece.score)
        if piece.kind is not PieceKind.NORMAL:
            content += _number_field(3, piece.kind)
        parts.append(_text_field(1, content))
    (unknown,) = (i for i, piece in enumerate(model.pieces) if piece.kind is PieceKind.UNKNOWN)
    trainer = [(3, _BPE), (4, len(model.pieces)), (35, int(model.byte_fallback)), (40, unknown), *_NO_ROLES]
    parts.append(_text_field(2, _numbers(trainer)))
    flags = (model.add_dummy_prefix, model.remove_extra_whitespaces, model.escape_whitespaces)
    rules = _text_field(1, b"identity") + (_text_field(2, model.charsmap) if model.charsmap else b"")
    parts.append(_text_field(3, rules + _numbers((number, int(flag)) for number, flag in enumerate(flags, 3))))
    return b"".join(parts)


_NO_ROLES = [(number, (1 << 64) - 1) for number in (41, 42, 43)]  # ids of bos, eos and pad: -1, none


def _numbers(fields: Iterable[tuple[int, int]]) -> bytes:
    return b"".join(_number_field(number, value) for number, value in fields)


def _number_field(number: int, value: int) -> bytes:
    return _as_varint(number << 3 | _VARINT) + _as_varint(value)


def _text_field(number: int, content: bytes) -> bytes:
    return _as_varint(number << 3 | _BYTES) + _as_varint(len(content)) + content


def _as_varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])
