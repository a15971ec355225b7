"""Everything that differs by operating system, in one place. What each has:

                        Linux                    macOS                     Windows
    cores               affinity, control group  all                       all
    memory limit        RAM, control groups      RAM                       RAM
    memory of a tree    PSS                      RSS                       RSS
    freed memory back   malloc_trim              left to the allocator     the same
    a file on disk      fsync                    F_FULLFSYNC               FlushFileBuffers (fsync)
    a rename on disk    fsync of the folder      the same                  left to NTFS: after a power cut the old
                                                                           file may be there, never half of one
    rename over a file  at once                  at once                   waits for those who have it open
    the run's lock      flock                    flock                     a locked byte
    names of files      as given                 folded, composed          folded; the name on disk counts
    stop signals        INT, TERM                INT, TERM                 INT, BREAK (TERM kills)

Where they can, functions test whether a feature is there, not which system this is. So a test can take a feature
away and see what happens without it (tests/ground/test_other_systems.py).
"""

from __future__ import annotations

import contextlib
import errno
import functools
import gc
import importlib
import io
import math
import mmap
import os
import re
import select
import shutil
import signal
import stat
import sys
import time
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TextIO, TypeVar

import psutil

from streambpe.failpoints import failpoint

T = TypeVar("T")

_PROC, _CONTROL_GROUPS = Path("/proc"), Path("/sys/fs/cgroup")  # Linux; elsewhere there are no such folders
_LIBRARY = re.compile(r"/.*-packages/.*\.so\b")  # of a package; these are never unloaded


def _module(name: str) -> Any:
    """A module that only some systems have, or None."""
    with contextlib.suppress(ImportError):
        return importlib.import_module(name)
    return None


_fcntl = _module("fcntl")
_msvcrt = _module("msvcrt")

# ---------------------------------------------------------------------------------------------------------
# cores


def usable_cores() -> int:
    """Cores that this process may use: those it is bound to, and no more than its control groups grant."""
    cores = _granted_cores()
    for folder in _control_groups("cpu"):
        for files in (["cpu.max"], ["cpu.cfs_quota_us", "cpu.cfs_period_us"]):  # version 2, version 1
            with contextlib.suppress(OSError, ValueError):  # "max 100000": no number, no bound
                texts = [(folder / file).read_text(encoding="utf-8") for file in files]
                quota, period = map(int, " ".join(texts).split())
                if quota > 0:
                    cores = min(cores, math.ceil(quota / period))  # one and a half cores keep two threads busy
    return max(cores, 1)


def _granted_cores() -> int:
    if hasattr(os, "process_cpu_count"):  # Python 3.13; heeds PYTHON_CPU_COUNT too
        return os.process_cpu_count() or 1
    if hasattr(os, "sched_getaffinity"):  # Linux
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


# ---------------------------------------------------------------------------------------------------------
# memory


def available_memory() -> int:
    """Bytes of RAM, or the tightest limit of the control groups that this process is in."""
    limit = int(psutil.virtual_memory().total)
    for folder in _control_groups("memory"):
        for name in ("memory.max", "memory.high", "memory.limit_in_bytes"):
            with contextlib.suppress(OSError, ValueError):
                limit = min(limit, int((folder / name).read_text(encoding="utf-8")))
    return limit


def tree_memory(pid: int | None = None) -> int:
    """Bytes that a process (by default this one) and its children hold; --memory bounds them.

    They are counted as a control group does: a page that several processes share counts once (PSS). Where the system
    does not tell PSS, all that is resident in each process counts (RSS), which is more.
    """
    return sum(map(_process_memory, tree_pids(pid)))


def tree_pids(pid: int | None = None) -> list[int]:
    """A process, by default this one, and its children with theirs."""
    tree = [pid or os.getpid()]
    for parent in tree:
        with contextlib.suppress(psutil.Error):
            tree += [child.pid for child in psutil.Process(parent).children() if child.pid not in _apart]
    return tree


_apart: set[int] = set()


def leave_apart(pid: int) -> None:
    """Do not reckon a child and its children with this process's tree: they are somebody else's programs."""
    _apart.add(pid)


def _process_memory(pid: int) -> int:
    if psutil.LINUX:
        with contextlib.suppress(psutil.Error, AttributeError):  # it may be somebody else's, or there is no smaps
            return int(_process(pid).memory_full_info().pss)
    return resident_bytes(pid)


_process = functools.lru_cache(psutil.Process)  # it takes longer to make one than to ask it


def bound_allocator(arenas: int, mapped_bytes: int, kept_bytes: int) -> None:
    """Tell glibc's allocator to keep little: how many arenas, from which size on blocks are mapped, what it keeps."""
    for option, value in ((-8, arenas), (-3, mapped_bytes), (-1, kept_bytes)):  # M_ARENA_MAX and so on, <malloc.h>
        _c_function("mallopt")(option, value)


def trim_allocator() -> None:
    """Give back what the C library's allocator keeps of freed memory, where it can be told to."""
    _c_function("malloc_trim")(0)  # glibc


def _c_function(name: str) -> Any:
    """A function of the C library that this process runs on, or one that does nothing; some Python builds have no
    ctypes."""
    with contextlib.suppress(OSError, AttributeError, TypeError):  # TypeError: Windows wants a name
        return getattr(_module("ctypes").CDLL(None), name)
    return lambda *_: None


def release_pages(mapped: mmap.mmap) -> None:
    """Give back the pages of a memory map that were read: until then they count as this process's memory."""
    if hasattr(mapped, "madvise") and hasattr(mmap, "MADV_DONTNEED"):
        mapped.madvise(mmap.MADV_DONTNEED)


def resident_bytes(pid: int) -> int:
    """Bytes one process has resident, including pages it shares; 0 once it is gone."""
    with contextlib.suppress(psutil.Error):
        return int(_process(pid).memory_info().rss)
    return 0


def anonymous_bytes(pid: int) -> int:
    """The same without pages of files, where the system tells them apart."""
    with contextlib.suppress(psutil.Error):
        held = _process(pid).memory_info()
        return int(held.rss - getattr(held, "shared", 0))
    return 0


def began_at(pid: int) -> float | None:
    """When a process began, on Linux in ticks since the machine did, whatever its clock says; None: nobody tells."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        return float((_PROC / str(pid) / "stat").read_bytes().rpartition(b")")[2].split()[19])
    with contextlib.suppress(psutil.Error):
        return float(psutil.Process(pid).create_time())
    return None


def is_alive(pid: int, began: float | None) -> bool:
    """Whether the process that began then, as `began_at` tells it, is still there, and no other with its id."""
    return psutil.pid_exists(pid) and began_at(pid) in (began, None)


def pid_namespace() -> int:
    """Which processes the ids of this one's are of: containers may share a host's name, and each has a process 1."""
    with contextlib.suppress(OSError):
        return (_PROC / "self/ns/pid").stat().st_ino
    return 0


def library_pages() -> list[tuple[int, int]]:
    """(address, bytes) of mapped file pages that this process never wrote to and cannot write to: the code and
    constants of its libraries. Empty where the system does not tell."""
    found: list[tuple[int, int]] = []
    with contextlib.suppress(psutil.Error, AttributeError):
        for mapped in psutil.Process().memory_maps(grouped=False):
            is_read_only = "w" not in mapped.perms and mapped.anonymous == 0  # else the loader wrote into these pages
            if is_read_only and _LIBRARY.match(mapped.path):
                start, stop = (int(number, 16) for number in mapped.addr.split("-"))
                found.append((start, stop - start))
    return found


def unmap(pages: Iterable[tuple[int, int]]) -> None:
    """Let go of pages that `library_pages` found. Those in use come back from the page cache, in microseconds."""
    ctypes, madvise = _module("ctypes"), _c_function("madvise")
    if ctypes is not None and hasattr(mmap, "MADV_DONTNEED"):
        for start, size in pages:
            madvise(ctypes.c_void_p(start), ctypes.c_size_t(size), mmap.MADV_DONTNEED)


# ---------------------------------------------------------------------------------------------------------
# control groups (Linux, containers)


def _control_groups(controller: str) -> Iterator[Path]:
    """The folders of this process's control groups for one resource, innermost first; the limits of all of them apply.

    /proc/self/cgroup names the group, in the hierarchy of its controller (v1) or in the common one (v2, no name):
        4:memory:/jobs/17        0::/user.slice/jobs-17.scope
    A container may see only a part of a hierarchy, whose top is one of the groups on that path: what is missing at its
    beginning is above that top.
    """
    with contextlib.suppress(OSError):
        for line in (_PROC / "self/cgroup").read_text(encoding="utf-8").splitlines():
            _, names, path = line.split(":", 2)
            if not names or controller in names.split(","):
                top = _CONTROL_GROUPS / (controller if names else "")
                parts = [part for part in path.split("/") if part not in ("", "..")]
                while not top.joinpath(*parts).is_dir() and parts:
                    parts = parts[1:]
                yield from (top.joinpath(*parts[:depth]) for depth in range(len(parts), -1, -1))


# ---------------------------------------------------------------------------------------------------------
# files that survive a power cut


_CANNOT = (errno.EINVAL, errno.ENOTSUP, errno.ENOTTY)


@contextlib.contextmanager
def _where_possible() -> Iterator[None]:
    """Inside, it is no error that a file system, such as that of a network or of another system, cannot do this."""
    try:
        yield
    except OSError as why:
        if why.errno not in _CANNOT:
            raise


def sync(handle: int) -> None:
    """Return when the bytes of an open file are on the disk itself. fsync on macOS only asks the disk for it."""
    failpoint("boundary")
    if hasattr(_fcntl, "F_FULLFSYNC"):
        with _where_possible():
            _fcntl.fcntl(handle, _fcntl.F_FULLFSYNC)
            return
    os.fsync(handle)


def sync_file(path: Path) -> None:
    """The same for a closed file."""
    with open(path, "r+b") as file:  # Windows syncs only what is open for writing
        sync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Make renames in a folder survive a power cut."""
    if not hasattr(os, "O_DIRECTORY"):  # Windows opens no folders
        return
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with _where_possible():
            sync(handle)
    finally:
        os.close(handle)


def rename(source: Path, target: Path) -> None:
    """Give a file the name of another, which is replaced; or a folder a name that is free.

    Windows refuses that while a program such as `watch` or a virus scanner has either open; then it is tried again.
    """
    failpoint("boundary")
    patiently(lambda: os.replace(source, target))


def give_rights_of(old: Path, new: Path) -> None:
    """Give a file the mode and, where that is allowed, the owner of another, if that other one is there."""
    with contextlib.suppress(OSError):
        rights = os.stat(old)
        with contextlib.suppress(OSError, AttributeError):  # Windows has no such owners
            os.chown(new, rights.st_uid, rights.st_gid)
        os.chmod(new, stat.S_IMODE(rights.st_mode))


def put_first(made: Path, target: Path) -> bool:
    """Give a file a name, unless another file has it: then False."""
    failpoint("boundary")
    try:
        os.link(made, target)
    except FileExistsError:
        return False
    except OSError as why:
        if why.errno not in (*_CANNOT, errno.EPERM, errno.ENOSYS, errno.EMLINK):
            raise
        if target.exists():  # a file system without links: two that come at the same time could both be first
            return False
        rename(made, target)
        return True
    made.unlink()
    return True


def patiently(action: Callable[[], T]) -> T:
    """Do what Windows may refuse for a moment because another process has the file open."""
    give_up = time.monotonic() + (_PATIENCE_SECONDS if _OPEN_FILES_ARE_HELD else 0)
    while True:
        try:
            return action()
        except PermissionError:
            if time.monotonic() >= give_up:
                raise
            gc.collect()  # a memory map that is no longer used still holds its file
            time.sleep(0.02)


_OPEN_FILES_ARE_HELD = os.name == "nt"  # an open file cannot be renamed or removed
_PATIENCE_SECONDS = 5.0


def remove_folder(folder: Path) -> None:
    """Remove a folder, if it is there, and all in it; an error if something stays, because a later run would use it."""
    with contextlib.suppress(FileNotFoundError):
        patiently(lambda: shutil.rmtree(folder))


def bytes_on_disk(about: os.stat_result) -> int:
    """What a file takes up; where the system does not tell, its length in blocks of 4 KB."""
    blocks = getattr(about, "st_blocks", None)
    return -(-about.st_size // 4096) * 4096 if blocks is None else int(blocks) * 512


# ---------------------------------------------------------------------------------------------------------
# names of files


class NamesOnDisk:
    """The one absolute name of each file that is there: without links, every part spelled as its folder lists it.

    A file system that folds case or composes letters opens `corpus/a.txt` as Corpus/A.txt too; without this the same
    file would be two sources, and be counted twice. One object for many files: it lists each folder once.
    """

    def __init__(self) -> None:
        self._names = functools.cache(_folded_names)
        self._folder = functools.cache(self._named)

    def __call__(self, path: Path) -> Path:
        return self._named(path.resolve())

    def _named(self, path: Path) -> Path:
        return self._folder(path.parent) / self._spelled(path) if path.name else path

    def _spelled(self, path: Path) -> str:
        alike = self._names(path.parent).get(fold_name(path.name), [])
        if path.name not in alike:
            for name in alike:
                with contextlib.suppress(OSError):
                    if path.samefile(path.parent / name):
                        return name
        return path.name


def _folded_names(folder: Path) -> dict[str, list[str]]:
    """What a folder lists, by what it folds to."""
    found: dict[str, list[str]] = {}
    with contextlib.suppress(OSError):  # a folder may be one that can be entered but not listed
        for name in sorted(os.listdir(folder)):
            found.setdefault(fold_name(name), []).append(name)
    return found


def compose_name(name: str) -> str:
    """A name in the form used to compare names: macOS may give é as e and an accent."""
    return unicodedata.normalize("NFC", name)


def fold_name(name: str) -> str:
    """A name's folded form, equal for all names that some file system takes to be the same."""
    return compose_name(compose_name(name).casefold())


def name_order(path: str) -> tuple[str, str]:
    """The key that paths are sorted by, so that files come in the same order on every system."""
    return portable_path(path), path


def portable_path(path: str) -> str:
    """A path in the form that globs are written in: with slashes, letters composed."""
    return compose_name(path.replace(os.sep, "/"))


_DEVICES_HAVE_NAMES = os.name == "nt"
_RESERVED = frozenset(["con", "prn", "aux", "nul", *(f"{port}{n}" for port in ("com", "lpt") for n in range(1, 10))])


def is_reserved_name(name: str) -> bool:
    """Whether no file can be called that, whatever its suffix: Windows keeps names of devices for itself."""
    return _DEVICES_HAVE_NAMES and name.lower() in _RESERVED


# ---------------------------------------------------------------------------------------------------------
# one writer at a time

_LOCKED_BYTE = 1 << 30  # far beyond the file's end, so that others can read who has the lock


def lock_handle(handle: int) -> bool:
    """Take the lock of an open file; False if another has it. The system frees it however its holder ends."""
    if _fcntl is not None:
        try:
            _fcntl.flock(handle, _fcntl.LOCK_EX | _fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True
    os.lseek(handle, _LOCKED_BYTE, os.SEEK_SET)
    try:
        _msvcrt.locking(handle, _msvcrt.LK_NBLCK, 1)
    except OSError as why:
        if why.errno not in (errno.EACCES, errno.EAGAIN, errno.EDEADLK):
            raise
        return False
    return True


def unlock_handle(handle: int) -> None:
    """Free the lock. Windows needs that before the file is closed; elsewhere a process that was forked meanwhile would
    hold it on."""
    if _fcntl is not None:
        _fcntl.flock(handle, _fcntl.LOCK_UN)
    else:
        os.lseek(handle, _LOCKED_BYTE, os.SEEK_SET)
        _msvcrt.locking(handle, _msvcrt.LK_UNLCK, 1)


# ---------------------------------------------------------------------------------------------------------
# signals, processes, streams


def stop_signals() -> tuple[int, ...]:
    """The signals that ask a command to stop: Ctrl-C, `kill`, and on Windows Ctrl-Break."""
    return tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGBREAK") if hasattr(signal, name))


def open_output() -> None:
    """Let the standard streams take every character, as the same bytes on every system.

    What goes into a file or a pipe is UTF-8 with plain line feeds, whatever the locale; a terminal keeps its own
    encoding, and prints a character that it cannot show as \\u2603.
    """
    for stream in (sys.stdout, sys.stderr):
        if not isinstance(stream, io.TextIOWrapper):
            continue
        if not stream.isatty():
            stream.reconfigure(encoding="utf-8", errors=stream.errors, newline="\n")
        elif stream.encoding.lower() != "utf-8":
            stream.reconfigure(errors="backslashreplace")


def nobody_listens(error: OSError) -> bool:
    """Whether what failed is a write to a standard stream whose reader, or whose terminal, is gone."""
    if not hasattr(select, "poll"):  # Windows
        return isinstance(error, BrokenPipeError)
    is_of_a_stream = error.errno in (errno.EPIPE, errno.EIO) and error.filename is None
    return is_of_a_stream and any(map(_hung_up, (sys.stdout, sys.stderr)))


def _hung_up(stream: TextIO) -> bool:
    """Whether the other end of a stream is closed: the reader of a pipe, or the terminal."""
    look = select.poll()
    try:
        look.register(stream.fileno(), 0)
    except (OSError, ValueError):  # no file behind the stream
        return False
    return bool(look.poll(0))
