"""Keeping within --memory: what the process tree takes, what is left, and freed memory that goes back at once.

Three allocators live in the process: glibc's (numpy), Polars' own, Arrow's. Each keeps what is freed
for later, which is fast and under a limit of 500 MB adds about 100 MB to the resident size (measured:
566 MB against 519 MB while counting, 612 against 488 while folding).
"""

from __future__ import annotations

import contextlib
import ctypes
import os

import psutil

LEFT_BEHIND_BYTES = 64 << 20  # by earlier stages in the allocators, at most
TRANSIENT_SHARE = 16  # of a limit is kept for what Polars takes for a moment
_TIGHT_BYTES = 2 << 30  # above this the allocators' own habits do no harm
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8  # of <malloc.h>


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
    with contextlib.suppress(OSError, AttributeError):  # another C library: nothing to set
        libc = ctypes.CDLL("libc.so.6")
        libc.mallopt(_M_ARENA_MAX, 2)
        libc.mallopt(_M_MMAP_THRESHOLD, 4 << 20)
        libc.mallopt(_M_TRIM_THRESHOLD, 32 << 20)


def release_memory() -> None:
    """Give back what was freed, between two stages of a job."""
    import pyarrow as pa

    pa.default_memory_pool().release_unused()
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL("libc.so.6").malloc_trim(0)


def tree_memory() -> int:
    """Resident bytes of this process and its children; what --memory bounds."""
    me = psutil.Process()
    total = 0
    for process in (me, *me.children(recursive=True)):
        try:
            total += process.memory_info().rss
        except psutil.Error:
            continue
    return total


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
