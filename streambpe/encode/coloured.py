"""A text with each of its tokens in a colour, for notebooks and web pages."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import msgspec

from streambpe.plurals import counted
from streambpe.text.shown import shown

_COLOURS = ("#cfe8ff", "#ffe2b8", "#d5f2c8", "#f3d1f0", "#fff3a6")  # dark text can be read on all of them
_STYLE = "color:#111;border-radius:3px;padding:1px 0;white-space:pre-wrap;font-family:monospace;unicode-bidi:isolate"


class ColouredTokens(msgspec.Struct, frozen=True):
    """The tokens of a text. Shows itself in colours in a notebook, else as the tokens between bars."""

    ids: Sequence[int]
    tokens: Sequence[bytes]

    def _repr_html_(self) -> str:
        spans = []
        for place, (number, token) in enumerate(zip(self.ids, self.tokens, strict=True)):
            text = escape(shown(token, " ")).replace("\\n", "↵<br>")
            colour = _COLOURS[place % len(_COLOURS)]
            spans.append(f'<span title="id {number}" style="background:{colour};{_STYLE}">{text}</span>')
        return f"<div>{''.join(spans)}<br><small>{counted(len(self.ids), 'token')}</small></div>"

    def __repr__(self) -> str:
        return "|".join(shown(token) for token in self.tokens)
