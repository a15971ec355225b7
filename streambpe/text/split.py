"""Find-all over single texts. No numpy, no Polars: this is also what a worker process loads.

find_chunks(regex.compile(r"\\w+"), "a b", keep_gaps=True)  ->  ["a", " ", "b"]
"""

from __future__ import annotations

import signal
import sys
from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Set
from itertools import count

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

    def set(self, seconds: float) -> None:
        """After so many seconds of processor time, raise TimeoutError; 0: no longer."""
        if sys.platform != "win32" and self.on:
            signal.setitimer(signal.ITIMER_PROF, seconds)


alarm = _Alarm()


def iterate_chunks(
    compiled: regex.Pattern[str] | None, text: str, keep_gaps: bool, seconds: float | None = None
) -> Iterator[str]:
    """The chunks of one text in order; without a pattern the text itself. Empty chunks are left out.

    seconds: of processor time that it may take."""
    if compiled is None:
        if text:
            yield text
        return
    at = 0
    try:
        for match in compiled.finditer(text, timeout=seconds):
            start, end = match.span()
            if keep_gaps and start > at:
                yield text[at:start]
            if end > start:
                yield text[start:end]
            at = end
    except (MemoryError, RecursionError):
        raise _overflowed(compiled, text) from None
    except TimeoutError:
        raise _too_slow(compiled, text) from None
    if keep_gaps and at < len(text):
        yield text[at:]


def find_chunks(
    compiled: regex.Pattern[str] | None, text: str, keep_gaps: bool, seconds: float | None = None
) -> list[str]:
    """`iterate_chunks` as a list; find-all, several times faster, where the pattern allows it."""
    if compiled is None or keep_gaps or compiled.groups:
        return list(iterate_chunks(compiled, text, keep_gaps, seconds))
    try:
        found: list[str] = compiled.findall(text, timeout=seconds)
    except (MemoryError, RecursionError):
        raise _overflowed(compiled, text) from None
    except TimeoutError:
        raise _too_slow(compiled, text) from None
    return [chunk for chunk in found if chunk] if "" in found else found


def _overflowed(compiled: regex.Pattern[str], text: str) -> PatternError:
    return PatternError(
        f"The pattern {compiled.pattern[:200]!r} runs out of memory on a text of {len(text):,} characters "
        f"({text[:20]!r}): it calls itself without end, or tries too many ways. Everything committed is "
        f"kept. Give another pattern."
    )


def _too_slow(compiled: regex.Pattern[str], text: str) -> PatternTooSlow:
    return PatternTooSlow(
        f"the pattern {compiled.pattern[:200]!r} takes longer than it may on a text of {len(text):,} characters "
        f"({text[:20]!r}). Everything committed is kept. Allow more with --document-seconds, give another pattern, or "
        f"leave that text out."
    )


def split_texts(
    compiled: regex.Pattern[str] | None,
    script_compiled: regex.Pattern[str] | None,
    keep_gaps: bool,
    seconds: float | None,
    texts: Iterable[str],
    runs: Set[int] = frozenset(),
) -> tuple[list[str], array[int], array[int]]:
    """Split many texts: (distinct chunks, the id of each chunk in order, chunks per text).

    seconds: of processor time that each may take; PatternTooSlow has the number of the one that takes more. runs: the
    numbers of the texts that `script_compiled` splits."""
    timeout = None if alarm.on else seconds
    ids: dict[str, int] = defaultdict(count().__next__)
    flat, lengths = array("i"), array("q")
    for number, text in enumerate(texts):
        before = len(flat)
        find = iterate_chunks if len(text) > _STREAM_CHARS else find_chunks
        alarm.set(seconds or 0)
        try:
            chunks = find(script_compiled if number in runs else compiled, text, keep_gaps, timeout)
            flat.extend(map(ids.__getitem__, chunks))
        except PatternTooSlow as why:
            why.document = number
            raise
        finally:
            alarm.set(0)
        lengths.append(len(flat) - before)
    return list(ids), flat, lengths
