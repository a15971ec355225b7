"""--memory, --threads and the other limits of a job, and keeping within --memory.

That is: what the process tree takes, what is left, and giving freed memory back to the system.

Three allocators live in the process: glibc's (numpy), Polars' own, Arrow's. Each keeps freed
memory for later. That is fast, but under a limit of 500 MB it adds about 100 MB to the resident size
(measured: 566 MB against 519 MB while counting, 612 against 488 while folding).
"""

from __future__ import annotations

import contextlib
import functools
import gc
import os
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import MISSING, asdict, dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

from msgspec import structs

from streambpe.errors import LimitError, UsageError, shortened
from streambpe.files import folder_for_tables
from streambpe.options import UNITS, option, options_of, refuse_values
from streambpe.system import (
    anonymous_bytes,
    available_memory,
    bound_allocator,
    library_pages,
    resident_bytes,
    tree_memory,
    tree_pids,
    trim_allocator,
    unmap,
    usable_cores,
)

# The smallest --memory that counting, training and encoding keep to with any text: 60 MB of Python and the libraries'
# own data, 30 to 60 MB of the code in use, and the work. Superwords also hold documents and their neighbours.
SMALLEST_MEMORY_BYTES = 256 * 10**6
SMALLEST_SUPERWORDS_BYTES = 400 * 10**6
BASE_BYTES = 96 << 20  # resident before any work: 45 MB of Python and data, 55 MB of library code in use
DOCUMENT_SECONDS = 60  # of processor time that a pattern of the user's own may take on one document, unless given
LEFT_BEHIND_BYTES = 64 << 20  # what earlier stages leave in the allocators, at most
TRANSIENT_SHARE = 16  # one part in so many of a limit is kept for what Polars takes for a moment
_ROOMY_BYTES = 900 * 10**6  # from this limit on arrays of some megabytes reuse memory; below, they are mapped anew
_TIGHT_BYTES = 2 << 30  # above this limit the allocators' defaults do no harm


def parse_size(text: str, flag: str = "--memory") -> int:
    """Bytes: "500MB", "2GB", "1.5GiB", "1000000". KB, MB, GB are powers of ten, as DuckDB has them."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*((?:[KMGT]I?)?)B?\s*", text.upper())
    if not match:
        raise UsageError(f"{flag} {text!a} is not a size. Write it like 500MB, 2GB or 1.5GiB.")
    return int(Fraction(match.group(1)) * UNITS[match.group(2)])


def format_size(n: float) -> str:
    """A size as people write it: "1.5 GB"."""
    for unit in ("B", "KB", "MB", "GB"):
        if n < 1000:
            return f"{n:.0f} {unit}" if unit in ("B", "KB") else f"{n:.1f} {unit}"
        n /= 1000
    return f"{n:.2f} TB"


_most_used, _resources = (functools.partial(option, panel=panel) for panel in ("Most used", "Resources"))
ResourceFacts = dict[str, Any]  # Resources as run.json holds them


@dataclass(frozen=True)
class Resources:
    """What a job may use. Never changes a result."""

    memory_bytes: int = _most_used(
        MISSING,
        "The most memory for all processes together, such as 2GB.",
        flag="--memory",
        metavar="SIZE",
        told_default="a quarter of RAM",
    )
    threads: int = _most_used(
        MISSING, "How many workers run at the same time.", least=1, most=None, told_default="all cores"
    )
    temp_dir: Path | None = _resources(
        None, "The folder for temporary files.", metavar="DIR", told_default="inside RUN, else the system's"
    )
    max_disk_bytes: int | None = _resources(
        None,
        "The most disk space for RUN and its temporary files. A job that cannot fit is refused; one that reaches the "
        "limit stops.",
        flag="--max-disk",
        metavar="SIZE",
    )
    document_seconds: int = _resources(
        DOCUMENT_SECONDS,
        "The most seconds that a REGEX may take for one document. A slower document stops the job and is named.",
        metavar="S",
        least=1,
    )
    engine: Literal["threads", "ray"] = _resources(
        "threads",
        "What counts or encodes: threads of one process, or Ray.",
    )
    address: str | None = _resources(
        None,
        "With --engine ray: the address of this machine's cluster; auto finds it.",
        metavar="HOST:PORT",
        told_default="a Ray of its own",
    )
    learner: Literal["core", "tables"] = _resources(
        "core", "What learns: the compiled core, or (slower) tables that SQL can read."
    )

    def __post_init__(self) -> None:
        refuse_values(Resources, vars(self))
        if self.address is not None and self.engine != "ray":
            raise UsageError(
                f"--address {self.address} names a Ray cluster, but --engine is {self.engine}. Nothing was changed. "
                "Give --engine ray, or leave --address out."
            )
        if self.address is not None and self.address.startswith("ray://"):
            raise UsageError(
                f"--address {self.address}: run the command on a node of the cluster, with --address auto. Nothing "
                "was changed. `ray job submit` does that."
            )

    @classmethod
    def from_options(cls, before: ResourceFacts | None = None, **options: Any) -> Resources:
        """Of options as people write them, by keyword; None is not given.

        What is not given is what the job had `before`, if it had any, and else a quarter of the memory that this
        process may use, and all its cores.
        """
        given = {name: value for name, value in options.items() if value is not None}
        machine, cores = available_memory(), usable_cores()
        held: dict[str, Any] = {"memory_bytes": max(machine // 4, SMALLEST_MEMORY_BYTES), "threads": cores}
        if before:
            held = dict(vars(cls.from_facts(before)))
        if (size := given.pop("memory", None)) is not None:
            held["memory_bytes"] = memory_bytes = parse_size(size)
            if memory_bytes < SMALLEST_MEMORY_BYTES:
                raise LimitError(_too_small(memory_bytes, SMALLEST_MEMORY_BYTES, "the least that works"))
            if memory_bytes > max(machine, SMALLEST_MEMORY_BYTES):
                raise UsageError(
                    f"--memory {shortened(size, 100)} is more than the {format_size(machine)} that this machine has. "
                    "Nothing was changed; give less, or leave it out for a quarter of that."
                )
        if not 1 <= given.get("threads", 1) <= most_threads():
            raise UsageError(
                f"--threads {given['threads']}: give 1 to {most_threads()} on this machine, which has {cores} cores. "
                "Nothing was changed."
            )
        if place := given.pop("temp_dir", None):
            held["temp_dir"] = folder = folder_for_tables(place, "--temp-dir")
            if os.path.lexists(folder) and not folder.is_dir():
                raise UsageError(
                    f"--temp-dir {folder} is not a folder. Nothing was changed. Give the name of a folder; it need not "
                    "exist."
                )
        if (size := given.pop("max_disk", None)) is not None:
            held["max_disk_bytes"] = parse_size(size, "--max-disk")
        held |= given
        if "address" not in given and held.get("engine") != "ray":
            held["address"] = None
        return cls(**held)

    def as_facts(self) -> ResourceFacts:
        """As run.json holds them, so that `resume` goes on with the same."""
        temp_dir = str(self.temp_dir.absolute()) if self.temp_dir else None
        return {**asdict(self), "temp_dir": temp_dir}

    @classmethod
    def from_facts(cls, facts: ResourceFacts) -> Resources:
        """Made from what `as_facts` gave, perhaps on a larger machine: no more than this machine has."""
        memory_bytes = min(facts["memory_bytes"], max(available_memory(), SMALLEST_MEMORY_BYTES))
        threads = min(facts["threads"], most_threads())
        temp_dir = Path(facts["temp_dir"]) if facts["temp_dir"] else None
        return cls(**{**facts, "memory_bytes": memory_bytes, "threads": threads, "temp_dir": temp_dir})

    def check_superwords(self, superwords: str) -> None:
        """Refuse superwords where they would not fit, before anything is read."""
        if superwords != "none" and self.memory_bytes < SMALLEST_SUPERWORDS_BYTES:
            what = f"the least that works with --superwords {superwords}"
            raise LimitError(_too_small(self.memory_bytes, SMALLEST_SUPERWORDS_BYTES, what))


RESOURCE_OPTIONS = [  # by the names of their flags, which take sizes as people write them
    structs.replace(known, name=known.key.replace("-", "_")) for known in options_of(Resources).values()
]
LIMIT_OPTIONS = [option for option in RESOURCE_OPTIONS if option.name in ("memory", "threads", "temp_dir")]
JOB_OPTIONS = [option for option in RESOURCE_OPTIONS if option.name != "learner"]
PLANNING_OPTIONS = [option for option in JOB_OPTIONS if option.name != "max_disk"]  # of what leaves no RUN


def most_threads() -> int:
    """The most threads allowed: more would only wait for each other, and each takes memory."""
    return max(64, 4 * usable_cores())


def _too_small(memory_bytes: int, least: int, what: str) -> str:
    size = f"{memory_bytes // 10**6}MB" if memory_bytes >= 10**6 else str(memory_bytes)
    return (
        f"--memory {size} is too small: {format_size(least)} is {what}. Nothing was changed. "
        f"Give --memory {least // 10**6}MB or more."
    )


def prepare_allocators(memory_bytes: int) -> None:
    """Call before Polars is imported: its allocator reads its settings once, when it is loaded.

    Few arenas, and freed memory goes back within 0.1 s. (Going back at once costs more system time: 4.2 s against
    1.7 s for 100 MB of text under 500 MB.) The system zeroes what is mapped anew: counting 300 MB of text with its
    sequences took 1.9 s of system time with arrays mapped from 4 MB on, and 0.9 s, but 40 MB more memory, with arrays
    mapped from 32 MB on. Without a tight limit nothing is set: larger thresholds were tried and only made the process
    larger.
    """
    if memory_bytes >= _TIGHT_BYTES:
        return
    os.environ.setdefault("_RJEM_MALLOC_CONF", "dirty_decay_ms:100,muzzy_decay_ms:100")
    os.environ.setdefault("MIMALLOC_PURGE_DELAY", "0")
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    roomy = memory_bytes >= _ROOMY_BYTES
    bound_allocator(arenas=2, mapped_bytes=(32 if roomy else 4) << 20, kept_bytes=(64 if roomy else 32) << 20)


@contextlib.contextmanager
def uncollected() -> Iterator[None]:
    """Python's garbage collector waits: for stretches that make objects by the hundred thousand, all of which live on.
    Looking for cycles among them again and again takes as long as making them."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def release_memory() -> None:
    """Give back what was freed and what libraries keep mapped, between two stages of a job."""
    import pyarrow as pa  # not above: --help reads this module

    pa.default_memory_pool().release_unused()
    trim_allocator()
    keeper.unmap()


def sure_room(memory_bytes: int, base_bytes: int, known_bytes: int = 0) -> int:
    """What is left of a limit at worst: for what must be the same in every process, as which files there are."""
    return memory_bytes - base_bytes - known_bytes - LEFT_BEHIND_BYTES - memory_bytes // TRANSIENT_SHARE


def room_for_arrays(memory_bytes: int, base_bytes: int, known_bytes: int = 0) -> int:
    """What is left of a limit now.

    base_bytes: resident before any work; known_bytes: of the objects this job holds. Resident memory counts up to the
    sum of these and LEFT_BEHIND_BYTES; above that, it belongs to the caller's program and does not count.
    """
    release_memory()
    held = min(max(base_bytes, tree_memory()), base_bytes + known_bytes + LEFT_BEHIND_BYTES)
    return memory_bytes - held - memory_bytes // TRANSIENT_SHARE


_LOOK_SECONDS = 0.05  # between two looks at the memory of the processes
_STEP_SECONDS = 0.002  # between two looks of `ended_above`: memory is filled with some gigabytes a second
_PSS_SHARE = 20  # reading PSS may take one part in so many of the time
_LEAP = 64 << 20  # bytes that came or went while the tree was looked at
_FULL = 0.75  # of the limit; above it the libraries' pages are unmapped
_UNMAP_SECONDS = 0.1  # at least, between two times that they are unmapped


class Keeper:
    """Looks at the process tree while a job runs: records its peak memory, and gives idle library pages back.

    Polars, DuckDB and Arrow map 130 MB of code and constants before any word is counted, and keep mapped whatever they
    touch once; at any one time they work with 30 to 60 MB of it. Above three quarters of the limit, and between two
    stages, all of it is unmapped; the pages in use come back by themselves (about 3 ms for all of it).
    """

    def __init__(self) -> None:
        self.peak = 0
        self._limits: list[int] = []  # of the blocks that watch now
        self._lock = threading.Lock()
        self._looking = threading.Lock()
        self._ended = threading.Event()
        self._pids = [os.getpid()]
        self._charged = self._anonymous = 0  # what the tree held when it was looked at, and what of it is in no file
        self._next_tree = self._next_unmap = self._next_pages = 0.0
        self._pages: list[tuple[int, int]] = []

    @contextlib.contextmanager
    def watching(self, limit: int) -> Iterator[Keeper]:
        """Watch until the end of the block; inside another such block it goes on with that one's peak."""
        with self._lock:
            self._limits.append(limit)
            if len(self._limits) == 1:
                self.peak = 0
                self._ended = threading.Event()
                threading.Thread(target=self._loop, args=(self._ended,), name="streambpe-memory", daemon=True).start()
        try:
            yield self
        finally:
            with self._lock:
                self._limits.remove(limit)
                if not self._limits:
                    self._ended.set()

    @property
    def limit(self) -> int:
        """That of the block begun last which has one; 0: none has."""
        return next((limit for limit in reversed(self._limits) if limit), 0)

    def look(self) -> int:
        """Bytes that the tree holds now."""
        with self._looking:  # what the tree held is compared with what it holds: another thread may not come between
            at = time.monotonic()
            if at >= self._next_tree:
                self._pids = tree_pids()
                before = sum(map(anonymous_bytes, self._pids))
                self._charged, self._anonymous = tree_memory(), sum(map(anonymous_bytes, self._pids))
                if abs(self._anonymous - before) < _LEAP:  # else the two may not fit: the next look does it again
                    self._next_tree = time.monotonic() + max(_LOOK_SECONDS, _PSS_SHARE * (time.monotonic() - at))
            # pages of files that come in meanwhile are mostly those of libraries, which the processes share
            now = max(self._charged + sum(map(anonymous_bytes, self._pids)) - self._anonymous, 0)
            self.peak = max(self.peak, now)
            return now

    def _loop(self, ended: threading.Event) -> None:
        while not ended.wait(_LOOK_SECONDS):
            self.look()
            resident = sum(map(resident_bytes, self._pids))
            if resident > _FULL * self.limit > 0:  # shared pages count too: the other processes may end first
                self.unmap()

    def unmap(self) -> None:
        """Give back the libraries' pages, unless that was done a moment ago."""
        at = time.monotonic()
        if at < self._next_unmap:
            return
        if at >= self._next_pages:  # a library may have been loaded since then
            self._pages, self._next_pages = library_pages(), at + 5.0
        unmap(self._pages)
        self._next_unmap = at + _UNMAP_SECONDS


keeper = Keeper()


@contextlib.contextmanager
def ended_above(memory_bytes: int, last_words: Callable[[], str]) -> Iterator[None]:
    """Inside, the process ends, with exit 3 and `last_words` on stderr, once it holds more than a limit: for code of a
    library that takes any amount in one step, and that nothing else can stop there.

    What it held before counts as in `room_for_arrays`, and no limit is below the smallest.
    """
    pid, ended = os.getpid(), threading.Event()
    memory_bytes = max(memory_bytes, SMALLEST_MEMORY_BYTES)
    others = max(resident_bytes(pid) - BASE_BYTES - LEFT_BEHIND_BYTES, 0)

    def watch() -> None:
        while not ended.wait(_STEP_SECONDS):
            if resident_bytes(pid) - others > memory_bytes:
                keeper.unmap()
                if resident_bytes(pid) - others > memory_bytes:
                    sys.stderr.write(f"streambpe: {last_words()}\n")
                    sys.stderr.flush()
                    os._exit(LimitError.exit_code)

    threading.Thread(target=watch, name="streambpe-limit", daemon=True).start()
    try:
        yield
    finally:
        ended.set()
