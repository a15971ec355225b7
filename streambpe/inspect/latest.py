"""The latest tokens of a training while it learns, from its write-ahead log: sooner than the tables have them.

Only what was added since the last look is read. Where base symbols are not known without the tables (characters,
SCRIPT, stop words, a model that is extended) there is no answer, and the tables are asked.
"""

from __future__ import annotations

import contextlib
import json
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path

from streambpe.errors import EventLogError
from streambpe.model.alphabet import Alphabet, bytes_alphabet, gpt2_alphabet, utf8_alphabet
from streambpe.model.eventlog import parse_event

_ALPHABETS = {
    "gpt2": gpt2_alphabet,
    "bytes": bytes_alphabet,
    "bytes1": lambda: bytes_alphabet(first_id=1),
    "utf8": utf8_alphabet,
}
_NO_EVENT = (b'{"op":"batch"', b'{"op":"veto"')


@dataclass
class Latest:
    """The newest tokens of the journal at `path`, and the bytes of all of them."""

    path: Path
    most: int
    _file: int = 0  # which file it was
    _at: int = 0  # how much of it was read
    _contents: dict[int, bytes] = field(default_factory=dict)
    _newest: deque[tuple[bytes, int]] = field(default_factory=deque)

    def look(self) -> list[tuple[bytes, int]] | None:
        """(bytes, count) of the newest tokens, the newest first; None where they cannot be told from here."""
        try:
            with self.path.open("rb") as file:
                now = file.seek(0, 2)
                number = self.path.stat().st_ino
                if number != self._file or now < self._at:
                    self._file, self._at, self._contents, self._newest = number, 0, {}, deque(maxlen=self.most)
                file.seek(self._at)
                data = file.read()
        except OSError:
            return None  # there is none, or not now
        data = data[: data.rfind(b"\n") + 1]
        try:
            for line in data.splitlines():
                self._take(line)
        except (EventLogError, ValueError, KeyError, TypeError, AttributeError):
            self._contents = {}
            self._newest.clear()
            return None
        self._at += len(data)
        return list(reversed(self._newest)) or None

    def _take(self, line: bytes) -> None:
        if line.startswith(_NO_EVENT):
            return
        if not self._contents:
            alphabet = _alphabet_of(json.loads(line)["config"])
            self._contents = dict(enumerate(alphabet.symbols, alphabet.first_id))
            return
        event = parse_event(line)
        if event.left is not None and event.right is not None:  # else it is a deletion
            content = self._contents[event.left] + self._contents[event.right]
            self._contents[event.id] = content
            self._newest.append((content, event.n))


def _alphabet_of(config: dict[str, object]) -> Alphabet:
    """KeyError where the base symbols are not said by the options."""
    with contextlib.suppress(KeyError):
        if config.get("encoding", "bytes") == "bytes" and not config.get("extends") and not config.get("stop_list"):
            return _ALPHABETS[str(config["alphabet"])]()
    raise KeyError("base symbols")
