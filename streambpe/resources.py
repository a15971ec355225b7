"""Keeping within --memory: what the process tree takes, what is left, and freed memory that goes back at once.

Three allocators live in the process: glibc's (numpy), Polars' own, Arrow's. Each keeps what is freed
for later, which is fast and under a limit of 500 MB adds about 100 MB to the resident size (measured:
566 MB against 519 MB while counting, 612 against 488 while folding).
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Iterator

from streambpe.system import (
    bound_allocator,
    library_pages,
    resident_bytes,
    tree_memory,
    tree_pids,
    trim_allocator,
    unmap,
)

LEFT_BEHIND_BYTES = 64 << 20  # by earlier stages in the allocators, at most
TRANSIENT_SHARE = 16  # of a limit is kept for what Polars takes for a moment
_TIGHT_BYTES = 2 << 30  # above this the allocators' own habits do no harm


def prepare_allocators(memory_bytes: int) -> None:
    """Call before Polars is imported: its allocator reads its settings once, when it is loaded.

    Few arenas, and what is freed goes back within 0.1 s. (At once, it costs as much system time
    again: 4.2 s against 1.7 s for 100 MB of text under 500 MB.) Without a tight limit nothing is set:
    larger thresholds were tried and gave nothing but a larger process.
    """
    if memory_bytes >= _TIGHT_BYTES:
        return
    os.environ.setdefault("_RJEM_MALLOC_CONF", "dirty_decay_ms:100,muzzy_decay_ms:100")
    os.environ.setdefault("MIMALLOC_PURGE_DELAY", "0")
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    bound_allocator(arenas=2, mapped_bytes=4 << 20, kept_bytes=32 << 20)


def release_memory() -> None:
    """Give back what was freed, between two stages of a job."""
    import pyarrow as pa

    pa.default_memory_pool().release_unused()
    trim_allocator()


def sure_room(memory_bytes: int, base_bytes: int, known_bytes: int = 0) -> int:
    """What is left of a limit at worst: for what must be the same in every process, such as which files there are."""
    return memory_bytes - base_bytes - known_bytes - LEFT_BEHIND_BYTES - memory_bytes // TRANSIENT_SHARE


def room_for_arrays(memory_bytes: int, base_bytes: int, known_bytes: int = 0) -> int:
    """What is left of a limit now.

    base_bytes: resident before any work; known_bytes: of the objects this job holds. What is resident counts up to
    these and what earlier stages left in the allocators, so that what a caller's program holds does not.
    """
    release_memory()
    held = min(max(base_bytes, tree_memory()), base_bytes + known_bytes + LEFT_BEHIND_BYTES)
    return memory_bytes - held - memory_bytes // TRANSIENT_SHARE


_LOOK_SECONDS = 0.05  # between two looks at the memory of the processes
_PSS_SHARE = 20  # reading what is shared may take one part in so many of the time
_FULL = 0.75  # of the limit, above which the libraries' pages are let go of
_UNMAP_SECONDS = 0.1  # and then no sooner again


class Keeper:
    """Looks at the process tree while a job runs: what it held at most, and that idle library pages go back.

    Polars, DuckDB and Arrow map 130 MB of code and constants before they have counted a word, and go on mapping what
    they touch once; what they work with at any one time is 30 to 60 MB. Above three quarters of the limit all of it is
    unmapped now and then, and what is in use comes back (about 3 ms for all of it).
    """

    def __init__(self) -> None:
        self.limit = 0
        self.now = self.resident = self.peak = 0
        self._holders = 0
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._pids = [os.getpid()]
        self._shared = 0  # counted by more than one process
        self._next_tree = self._next_unmap = self._next_pages = 0.0
        self._pages: list[tuple[int, int]] = []

    @contextlib.contextmanager
    def watching(self, limit: int) -> Iterator[Keeper]:
        """Watch until the end of the block; inside another such block it goes on with that one's peak."""
        with self._lock:
            self._holders += 1
            self.limit = limit or self.limit
            if self._holders == 1:
                self.peak = 0
                self._ended = threading.Event()
                threading.Thread(target=self._loop, args=(self._ended,), name="streambpe-memory", daemon=True).start()
        try:
            yield self
        finally:
            with self._lock:
                self._holders -= 1
                if not self._holders:
                    self._ended.set()

    def look(self) -> int:
        """Bytes that the tree holds now."""
        at = time.monotonic()
        if at >= self._next_tree:
            self._pids = tree_pids()
            held, charged = sum(map(resident_bytes, self._pids)), tree_memory()
            self._shared = max(0, held - charged)
            self._next_tree = time.monotonic() + max(_LOOK_SECONDS, _PSS_SHARE * (time.monotonic() - at))
        self.resident = sum(map(resident_bytes, self._pids))
        self.now = max(self.resident - self._shared, 0)
        self.peak = max(self.peak, self.now)
        return self.now

    def _loop(self, ended: threading.Event) -> None:
        while not ended.wait(_LOOK_SECONDS):
            self.look()
            if self.resident > _FULL * self.limit > 0:  # what others use too goes back as well: they may end first
                self.unmap()

    def unmap(self) -> None:
        """Give back the libraries' pages, unless that was done a moment ago."""
        at = time.monotonic()
        if at < self._next_unmap:
            return
        if at >= self._next_pages:  # a library may have been loaded since
            self._pages, self._next_pages = library_pages(), at + 5.0
        unmap(self._pages)
        self._next_unmap = at + _UNMAP_SECONDS


keeper = Keeper()
