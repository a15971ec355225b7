"""Find-all over single texts.

find_chunks(regex.compile(r"\\w+"), "a b", keep_gaps=True)  ->  "a" " " "b"
"""

from __future__ import annotations

import contextlib
import signal
import sys
from collections.abc import Iterable, Iterator

import regex

from streambpe.errors import PatternError, PatternTooSlow

# Above this many characters the matches of one text are streamed: a list of them would take about
# 60 bytes per chunk, ten times the text.
_STREAM_CHARS = 1 << 20


class _Alarm:
    """The time limit of a text by a signal, where the main thread of a process of this program's own splits texts.

    The limit of the `regex` module works everywhere, but it reads the clock at every match: 1 MB of English took 0.13 s
    of processor time with it and 0.04 s without.
    """

    on = False

    def turn_on(self) -> None:
        """Use the signal from here on, if the system has it."""
        if sys.platform != "win32":
            signal.signal(signal.SIGPROF, self._ring)
            self.on = True

    def _ring(self, *_: object) -> None:
        raise TimeoutError

    @contextlib.contextmanager
    def limiting(self, seconds: float) -> Iterator[float | None]:
        """Inside, TimeoutError after so many seconds of processor time; or else the limit that is left to `regex`."""
        if sys.platform == "win32" or not self.on:
            yield seconds
            return
        signal.setitimer(signal.ITIMER_PROF, seconds)
        try:
            yield None
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)


alarm = _Alarm()


def find_chunks(
    compiled: regex.Pattern[str], text: str, keep_gaps: bool, seconds: float | None = None
) -> Iterable[str]:
    """The chunks of one text in order; empty ones are left out. seconds: of processor time that it may take."""
    # find-all is several times faster, and a list of all chunks of a long text too large
    if keep_gaps or compiled.groups or len(text) > _STREAM_CHARS:
        return _chunks_in_turn(compiled, text, keep_gaps, seconds)
    return filter(None, compiled.findall(text, timeout=seconds))


def _chunks_in_turn(compiled: regex.Pattern[str], text: str, keep_gaps: bool, seconds: float | None) -> Iterator[str]:
    at = 0
    for match in compiled.finditer(text, timeout=seconds):
        start, end = match.span()
        if keep_gaps and start > at:
            yield text[at:start]
        if end > start:
            yield text[start:end]
        at = end
    if keep_gaps and at < len(text):
        yield text[at:]


@contextlib.contextmanager
def explained(compiled: regex.Pattern[str], text: str, number: int = 0) -> Iterator[None]:
    """What goes wrong when a text is split becomes an error that says which one it is, and its `number`."""
    try:
        yield
    except (MemoryError, RecursionError):
        raise PatternError(
            f"The pattern {compiled.pattern[:200]!r} runs out of memory on a text of {len(text):,} characters "
            f"({text[:20]!r}): it calls itself without end, or tries too many ways. Everything committed is "
            f"kept. Give another pattern."
        ) from None
    except TimeoutError:
        slow = PatternTooSlow(
            f"the pattern {compiled.pattern[:200]!r} takes longer, or tries more ways at once, than it may on a text "
            f"of {len(text):,} characters ({text[:20]!r}). Everything committed is kept. Allow more with "
            "--document-seconds, give another pattern, or leave that text out."
        )
        slow.document = number
        raise slow from None
