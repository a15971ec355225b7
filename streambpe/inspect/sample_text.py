"""The beginning of a text with its tokens in colours, as one vocabulary cuts it and as another does."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TypedDict

from streambpe.count_config import SourceOptions
from streambpe.encode.tokenizer import Tokenizer
from streambpe.plurals import counted
from streambpe.sources.decode import block_text
from streambpe.sources.find import find_sources
from streambpe.sources.read import Reader
from streambpe.text.patterns import PRESETS
from streambpe.text.shown import harmless, shown

_CHARACTERS = 600  # of the text
_COLOURS = 5  # of page.css


class ColouredFacts(TypedDict):
    """The same text as the tokens of one model."""

    model: str
    bytes: int
    ids: list[int]
    tokens: list[str]  # as they are shown


def beginning(texts: Sequence[str], how: SourceOptions) -> str:
    """The first document of these SOURCEs that is not empty, or its beginning, up to a space."""
    for source in find_sources(list(texts), how)[0]:
        for block in Reader(PRESETS["gpt2"], 1 << 16, 1 << 20).blocks(source):
            for document in block_text(block, "replace").text.split(b"\xff"):
                if document.strip():
                    return _cut(document[: 4 * _CHARACTERS].decode("utf-8", "ignore"))
    return ""


def _cut(text: str) -> str:
    if len(text) <= _CHARACTERS:
        return text
    text = text[:_CHARACTERS]
    return text[: text.rfind(" ")] if " " in text[_CHARACTERS // 2 :] else text


def coloured(text: str, tokenizer: Tokenizer, model: str) -> ColouredFacts:
    """The tokens of a text; what spells a special token is text there, as where texts are measured."""
    ids = tokenizer.encode_ordinary(text)
    tokens = [shown(token, " ") for token in tokenizer.decode_tokens_bytes(ids)]
    return {"model": harmless(model), "bytes": len(text.encode()), "ids": ids, "tokens": tokens}


def coloured_html(models: Sequence[ColouredFacts]) -> str:
    """Each model's tokens under its name, beside each other where there is room."""
    parts = []
    for one in models:
        spans = "".join(
            f'<span class="piece c{place % _COLOURS}" title="id {number}">{escape(token)}</span>'
            for place, (number, token) in enumerate(zip(one["ids"], one["tokens"], strict=True))
        )
        head = f"{escape(one['model'])}: {told(one)}"
        parts.append(f'<figure><figcaption>{head}</figcaption><div class="pieces">{spans}</div></figure>')
    return f'<div class="side">{"".join(parts)}</div>'


def told(one: ColouredFacts) -> str:
    """How many tokens, and bytes per token."""
    ids = len(one["ids"])
    return counted(ids, "token") + (f", {one['bytes'] / ids:.2f} bytes per token" if ids else "")
