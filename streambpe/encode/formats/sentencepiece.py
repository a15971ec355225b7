"""`export --to sentencepiece`: a .model that gives the model's ids for every text, or a refusal that says why.

sentencepiece knows no pattern and joins across a whole text whatever makes a piece. Its symbols are characters; one
that is part of no piece becomes its bytes at the end. So a model can be said in it exactly if

- its pattern is `none`, or cuts nowhere but before spaces, so that no token could ever reach over an end of a chunk;
- no token holds a part of a character, unless it is a single byte: merges of characters are then the same steps;
- each token is made by one pair, and is what the merges make of its bytes, as tiktoken asks for too.

The file says: nothing is normalized, no space is put before a text, spaces are spaces. It is a protobuf message:

    ModelProto      1 pieces (1 text, 2 score, 3 type), 2 trainer, 3 normalizer
    TrainerSpec     3 model_type (2: BPE), 4 vocab_size, 35 byte_fallback, 40 to 43 ids of <unk>, bos, eos, pad
    NormalizerSpec  1 name, 3 add_dummy_prefix, 4 remove_extra_whitespaces, 5 escape_whitespaces
"""

from __future__ import annotations

import os
import struct
from pathlib import Path

from streambpe.encode.encoder import Encoder
from streambpe.encode.formats.flat import Made
from streambpe.encode.formats.tiktoken_ranks import made_otherwise
from streambpe.errors import ModelError, quoted
from streambpe.model.eventlog import Op
from streambpe.text.shown import holds_part_of_a_character

# Patterns that cut before spaces and nowhere else.
BEFORE_SPACES = (" *[^ ]+| +", "[^ ]+| +[^ ]*", "[^ ]+| +[^ ]+| +")
_ALPHABETS = ("gpt2", "bytes", "utf8")
_BYTES = [f"<0x{byte:02X}>" for byte in range(256)]  # the pieces that stand for bytes
_NORMAL, _UNKNOWN, _CONTROL, _BYTE = 1, 2, 3, 6  # types of pieces
_NONE = (1 << 64) - 1  # -1


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


def sentencepiece_file(encoder: Encoder, path: Path) -> Made:
    """The file, in which nothing is lost. ModelError if its ids would differ."""
    why = why_not(encoder)
    if why is not None:
        raise ModelError(f"A sentencepiece .model cannot give the ids of this model: {why} Nothing was written.")
    return Made({path: _file(encoder)})


def why_not(encoder: Encoder) -> str | None:
    """What keeps a model from being said exactly, in a sentence; None if nothing does."""
    model, header, pattern = encoder.model, encoder.header, encoder.pattern
    config = header.config
    kind = header.alphabet["kind"]
    if kind == "chars":
        return "its symbols are characters, and sentencepiece turns several unknown ones in a row into one <unk>."
    if kind not in _ALPHABETS:
        return f"its symbols are of kind {kind}, but those of sentencepiece are characters or all 256 bytes."
    if encoder.has_superwords or config.get("superwords", "none") != "none":
        return "it has superwords, which only join whole chunks; sentencepiece has no such rule."
    if any(event.op is Op.DELETE for event in model.events):
        return "it deletes tokens (--tau), which a list of pieces cannot store."
    if encoder.stop_ids:
        return "it has stop words, which sentencepiece would merge with their neighbours."
    if encoder.prepares:
        return "it changes text before it splits it (--normalize, --unencodable)."
    if pattern.script_expression or (pattern.name != "none" and pattern.expression not in BEFORE_SPACES):
        shown = pattern.expression if pattern.name == "regex" else pattern.name
        return (
            f"sentencepiece has no pattern, and would join over the ends of chunks of --pattern {shown!r:.80}. "
            f"Train with --pattern none, or with --pattern '{BEFORE_SPACES[0]}'."
        )
    learned = [model.content(number) for number in dict.fromkeys(event.id for event in model.events)]
    parts = [content for content in learned if holds_part_of_a_character(content)]
    if parts:
        return (
            f"some of its tokens, such as {quoted(parts[0])}, are parts of characters, but sentencepiece splits a "
            "character into bytes only after all merges. With --whole-characters, only characters of three or more "
            "bytes need such parts."
        )
    over = [content for content in learned if pattern.name != "none" and b" " in content.lstrip(b" ")]
    if over:
        return f"its token {quoted(over[0])} crosses the end of a chunk, where sentencepiece would make it."
    otherwise = made_otherwise(encoder)
    if otherwise:
        return (
            f"some of its tokens ({otherwise:,}) are made by several pairs, or are not what the merges make from "
            "their bytes; sentencepiece makes them wherever their text occurs."
        )
    taken = {*_BYTES, *model.special_ids} & {content.decode() for content in learned}
    if taken:
        return (
            f"the token {quoted(min(taken))} has the name of a special token or a byte, and names of pieces must "
            "differ."
        )
    return None


def _file(encoder: Encoder) -> bytes:
    """A piece for each id; behind them what the file must have and no text becomes: bytes no text has, and <unk>."""
    model = encoder.model
    first = model.alphabet.first_id
    symbols = {first + i: symbol for i, symbol in enumerate(model.alphabet.symbols)}
    specials = {number: text for text, number in model.special_ids.items()}
    learned = {event.id: rank for rank, event in enumerate(model.events)}
    pieces: list[tuple[str, float, int]] = []
    used = {*specials.values(), *_BYTES, *(model.content(number).decode() for number in learned)}
    for number in range(first + model.n_vocab):
        log_id = model.log_id.get(number)
        if number in specials:
            pieces.append((specials[number], 0.0, _CONTROL))
        elif log_id in symbols:
            pieces.append((_BYTES[symbols[log_id][0]], 0.0, _BYTE))
        elif log_id is not None:
            pieces.append((model.content(log_id).decode(), -float(learned[log_id]), _NORMAL))
        else:  # reserved, or below the first id
            pieces.append((_free(f"<reserved-{number}>", used), 0.0, _CONTROL))
    there = {text for text, _, kind in pieces if kind == _BYTE}
    pieces += [(name, 0.0, _BYTE) for name in _BYTES if name not in there]
    unknown = len(pieces)
    pieces.append((_free("<unk>", used), 0.0, _UNKNOWN))
    trainer = _message((3, 2), (4, len(pieces)), (35, 1), (40, unknown), (41, _NONE), (42, _NONE), (43, _NONE))
    normalizer = _message((1, b"identity"), (3, 0), (4, 0), (5, 0))
    texts = [
        _message((1, text.encode()), (2, score), *([(3, kind)] if kind != _NORMAL else []))
        for text, score, kind in pieces
    ]
    return _message(*((1, text) for text in texts), (2, trainer), (3, normalizer))


def _free(name: str, used: set[str]) -> str:
    """A name that no piece has."""
    while name in used:
        name = f"<{name}>"
    used.add(name)
    return name


def _message(*fields: tuple[int, int | float | bytes]) -> bytes:
    """Fields of a protobuf message: numbers as varints, fractions in 4 bytes, messages and texts behind their size."""
    out = []
    for number, value in fields:
        if isinstance(value, bytes):
            out.append(_varint(number << 3 | 2) + _varint(len(value)) + value)
        elif isinstance(value, float):
            out.append(_varint(number << 3 | 5) + struct.pack("<f", value))
        else:
            out.append(_varint(number << 3) + _varint(value))
    return b"".join(out)


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])
