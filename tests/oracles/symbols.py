"""How a chunk becomes base symbols, one after another."""

from __future__ import annotations

from typing import Literal

from streambpe.errors import UnknownSymbol
from streambpe.model.alphabet import UNKNOWN, Alphabet, Unknown
from streambpe.model.script import FIRST_ESCAPE, encode_text


def symbols_of(alphabet: Alphabet, chunk: bytes, unknown: Unknown = "unk") -> list[int]:
    """Log ids of base symbols. `unknown`: what a symbol outside the alphabet becomes: the id UNKNOWN, nothing (as
    Hugging Face has it, so that its neighbours then touch), or an error."""
    if alphabet.kind == "script":
        return _script_symbols(alphabet, chunk.decode(), unknown)
    pieces = [chunk[i : i + 1] for i in range(len(chunk))]
    if alphabet.kind == "chars":
        pieces = [character.encode() for character in chunk.decode()]
    ids = [alphabet.id_of.get(piece, UNKNOWN) for piece in pieces]
    if unknown == "error" and UNKNOWN in ids:
        raise UnknownSymbol(f"{pieces[ids.index(UNKNOWN)]!r} is not in the alphabet")
    return [number for number in ids if number != UNKNOWN] if unknown == "drop" else ids


def _script_symbols(alphabet: Alphabet, text: str, unknown: Unknown) -> list[int]:
    if len(alphabet) >= FIRST_ESCAPE:
        return encode_text(text)
    policy: Literal["drop", "error"] = "error" if unknown == "error" else "drop"
    if unknown != "unk":
        return encode_text(text, policy)
    return [number for character in text for number in encode_text(character, policy) or [UNKNOWN]]
