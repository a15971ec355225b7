"""`export --to sentencepiece`: a .model that gives the model's ids for every text, or a refusal that says why.

sentencepiece knows no pattern and joins across a whole text whatever makes a piece. Its symbols are characters; one
that is part of no piece becomes its bytes at the end. So a model can be said in it exactly if

- its pattern is `none`, or cuts nowhere but before spaces, so that no token could ever reach over an end of a chunk;
- no token holds a part of a character, unless it is a single byte: merges of characters are then the same steps;
- each token is made by one pair, and is what the merges make of its bytes, as tiktoken asks for too.

The file says: nothing is normalized, no space is put before a text, spaces are spaces.
"""

from __future__ import annotations

from pathlib import Path

from streambpe.encode.encoder import Encoder
from streambpe.encode.formats.sentencepiece_file import (
    Piece,
    PieceKind,
    SentencePieceFile,
    byte_names,
    sentencepiece_bytes,
)
from streambpe.encode.formats.tiktoken_ranks import made_otherwise
from streambpe.errors import ModelError, quoted
from streambpe.model.eventlog import Op

# Patterns that cut before spaces and nowhere else.
BEFORE_SPACES = (" *[^ ]+| +", "[^ ]+| +[^ ]*", "[^ ]+| +[^ ]+| +")
_ALPHABETS = ("gpt2", "bytes", "utf8")


def export_sentencepiece(encoder: Encoder, path: Path) -> tuple[list[Path], list[str]]:
    """Write the file; (files, what is lost: nothing). ModelError if its ids would differ."""
    why = why_not(encoder)
    if why is not None:
        raise ModelError(f"No .model of sentencepiece gives the ids of this model: {why} Nothing was written.")
    path.write_bytes(sentencepiece_bytes(_file(encoder)))
    return [path], []


def why_not(encoder: Encoder) -> str | None:
    """What keeps a model from being said exactly, in a sentence; None if nothing does."""
    model, header, pattern = encoder.model, encoder.header, encoder.pattern
    config = header.config
    kind = header.alphabet["kind"]
    if kind == "chars":
        return "it has characters as symbols, and of several unknown ones side by side sentencepiece makes one <unk>."
    if kind not in _ALPHABETS:
        return f"its symbols are of kind {kind}, and those of sentencepiece are characters or all 256 bytes."
    if encoder.has_superwords or config.get("superwords", "none") != "none":
        return "it has superwords, which are joined only of whole chunks; sentencepiece has no such rule."
    if any(event.op is Op.DELETE for event in model.events):
        return "it takes tokens back (--tau), which a list of pieces cannot say."
    if encoder.stop_ids:
        return "it has stop words, which sentencepiece would join with what is around them."
    if encoder.prepares:
        return "it changes text before it cuts it (--normalize, --unencodable)."
    if pattern.script_expression or (pattern.name != "none" and pattern.expression not in BEFORE_SPACES):
        shown = pattern.expression if pattern.name == "regex" else pattern.name
        return (
            f"sentencepiece has no pattern, and would join over the ends of chunks of --pattern {shown!r:.80}. "
            f"Train with --pattern none, or with --pattern '{BEFORE_SPACES[0]}'."
        )
    learned = [model.content(number) for number in dict.fromkeys(event.id for event in model.events)]
    parts = [content for content in learned if not _is_text(content)]
    if parts:
        return (
            f"{len(parts):,} of its tokens, such as {quoted(parts[0])}, hold a part of a character; sentencepiece "
            f"makes bytes of a character only when all is joined. Characters of three and more bytes are tokens only "
            f"through such parts; --whole-characters makes no others."
        )
    over = [content for content in learned if pattern.name != "none" and b" " in content.lstrip(b" ")]
    if over:
        return f"its token {quoted(over[0])} reaches over an end of a chunk, where sentencepiece would make it."
    otherwise = made_otherwise(encoder)
    if otherwise:
        return (
            f"{otherwise:,} of its tokens are made by several pairs, or are not what the merges make of their bytes; "
            f"sentencepiece makes them wherever their text comes together."
        )
    taken = {*byte_names(), *model.special_ids} & {content.decode() for content in learned}
    if taken:
        return (
            f"the token {quoted(min(taken))} is named like a special token or a byte, and no two pieces have one name."
        )
    return None


def _is_text(content: bytes) -> bool:
    try:
        content.decode()
    except UnicodeDecodeError:
        return False
    return True


def _file(encoder: Encoder) -> SentencePieceFile:
    """A piece for each id; behind them what the file must have and no text becomes: bytes no text has, and <unk>."""
    model, names = encoder.model, byte_names()
    first = model.alphabet.first_id
    symbols = {first + i: symbol for i, symbol in enumerate(model.alphabet.symbols)}
    specials = {number: text for text, number in model.special_ids.items()}
    learned = {event.id: rank for rank, event in enumerate(model.events)}
    pieces: list[Piece] = []
    used = {*specials.values(), *names, *(model.content(number).decode() for number in learned)}
    for number in range(first + model.n_vocab):
        log_id = model.log_id.get(number)
        if number in specials:
            pieces.append(Piece(specials[number], 0.0, PieceKind.CONTROL))
        elif log_id in symbols:
            pieces.append(Piece(names[symbols[log_id][0]], 0.0, PieceKind.BYTE))
        elif log_id is not None:
            pieces.append(Piece(model.content(log_id).decode(), -float(learned[log_id])))
        else:  # reserved, or below the first id
            pieces.append(Piece(_free(f"<reserved-{number}>", used), 0.0, PieceKind.CONTROL))
    there = {piece.text for piece in pieces if piece.kind is PieceKind.BYTE}
    pieces += [Piece(name, 0.0, PieceKind.BYTE) for name in names if name not in there]
    pieces.append(Piece(_free("<unk>", used), 0.0, PieceKind.UNKNOWN))
    return SentencePieceFile(tuple(pieces), True, b"", False, False, False)


def _free(name: str, used: set[str]) -> str:
    """A name that no piece has."""
    while name in used:
        name = f"<{name}>"
    used.add(name)
    return name
