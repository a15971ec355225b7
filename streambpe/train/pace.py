"""When work beside learning is due. Work for those who look on, or for a later start, may not hold up learning
itself."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

_SHARE = 20  # such work may take one part in so many of the time since it was last done


class Pace:
    """The pace of one kind of work."""

    def __init__(self, least_seconds: float) -> None:
        """`least_seconds`: the least time from one turn to the next; 0: a turn at every chance, whatever it costs."""
        self._least_seconds = least_seconds
        self._last, self._cost = time.monotonic(), 0.0

    def is_due(self) -> bool:
        """Whether enough time went by."""
        wait = max(self._least_seconds, _SHARE * self._cost) if self._least_seconds else 0.0
        return time.monotonic() - self._last >= wait

    @contextlib.contextmanager
    def timed(self) -> Iterator[None]:
        """Measure the work done inside."""
        began = time.monotonic()
        yield
        self._last = time.monotonic()
        self._cost = self._last - began
