"""Encoding a text that comes in pieces, and decoding ids one by one.

What comes out piece by piece is exactly what the whole would give: text is let go only up to a place
where the pattern has a border whatever follows, superwords only up to neighbours that none can join,
bytes only up to the end of a character.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable

from streambpe.core.encoding import HOLD_FIRST, HOLD_LAST
from streambpe.encode.encoder import Encoder, RunJoiner, as_utf8
from streambpe.model.codecs import ScriptCodec
from streambpe.model.script import DecodeErrors
from streambpe.sources.borders import find_border
from streambpe.text.whitespace import WORD_MARK

_FIRST_TRY = 256  # characters held before the first look for a border


class StreamEncoder:
    """`feed` pieces of one text, then `finish`. Holds the text since the last certain border."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder
        self._held: list[str] = []
        self._size = 0
        self._try_at = _FIRST_TRY
        self._joiner = RunJoiner(self._encoder)  # keeps whole chunks at the end that a superword may still take further

    def feed(self, text: str) -> list[int]:
        """The ids that are certain now."""
        self._held.append(text)
        self._size += len(text)
        if self._size < self._try_at:
            return []
        held = "".join(self._held)
        data = held.encode("utf-8", "surrogatepass")
        end = find_border(data, self._encoder.pattern)
        if not end:
            self._held, self._try_at = [held], 2 * self._size  # so that looking for borders takes linear time
            return []
        rest = data[end:].decode("utf-8", "surrogatepass")
        self._held, self._size, self._try_at = [rest], len(rest), len(rest) + _FIRST_TRY
        return self._encode(held[: len(held) - len(rest)], ends=False)

    def finish(self) -> list[int]:
        """The rest of the ids; the encoder is then ready for another text."""
        text = "".join(self._held)
        self._held, self._size, self._try_at = [], 0, _FIRST_TRY
        return self._encode(text, ends=True)

    def _encode(self, text: str, ends: bool) -> list[int]:
        if not self._encoder.has_superwords:
            return self._encoder.id_list(as_utf8(text))
        hold = HOLD_FIRST | (0 if ends else HOLD_LAST)
        ids: list[int] = self._joiner.join(self._encoder.block(as_utf8(text), hold)[0]).tolist()
        return ids


class StreamDecoder:
    """`feed` ids one by one, then `finish`. Holds back at most three bytes or SCRIPT symbols."""

    def __init__(
        self, encoder: Encoder, part_content: Callable[[int], bytes | None], bytes_of: Callable[[int], bytes]
    ) -> None:
        """`part_content`: of an id that says something only beside others; `bytes_of`: of any other id."""
        self._codec, self._part_content, self._bytes_of = encoder.codec, part_content, bytes_of
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")
        self._marked = encoder.pattern.name == "whitespace"
        self._started = False
        self._symbols = b""  # SCRIPT symbols, as content, of a character that is not complete

    def feed(self, token: int) -> str:
        """The text that is complete with this id; empty while a character is not."""
        return self._shown(self._utf8.decode(self.bytes_with(token)))

    def bytes_with(self, token: int, errors: DecodeErrors = "replace") -> bytes:
        """The bytes that are complete with this id: those of a SCRIPT character come with its last symbol."""
        part = self._part_content(token)
        if part is None or not isinstance(self._codec, ScriptCodec):
            return self.rest(errors) + self._bytes_of(token)
        data, self._symbols = self._codec.settled(self._symbols + part, errors)
        return data

    def rest(self, errors: DecodeErrors = "replace") -> bytes:
        """What becomes of symbols that nothing will complete: U+FFFD for each, or an error."""
        held, self._symbols = self._symbols, b""
        return self._codec.text_bytes(held, errors)

    def finish(self) -> str:
        """U+FFFD if the ids ended inside a character, else nothing; ready for another text."""
        text = self._shown(self._utf8.decode(self.rest(), final=True))
        self._utf8.reset()
        self._started = False
        return text

    def _shown(self, text: str) -> str:
        if self._marked:
            text = text.replace(WORD_MARK, " ")
            text = text if self._started else text.lstrip()
            self._started = self._started or bool(text)
        return text
