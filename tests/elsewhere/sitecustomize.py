"""Makes Python on Linux like Python on another system, before anything of the program is loaded.

    STREAMBPE_TEST_SYSTEM=windows PYTHONPATH=tests/elsewhere python -m pytest tests/train/test_resume.py

macos     no sched_getaffinity, no posix_fadvise, no /proc; the C library has no malloc_trim; what is synced must be
          synced by F_FULLFSYNC.
windows   none of these either; no fcntl but msvcrt, no signals but a few, folders cannot be opened, a file that is open
          or mapped anywhere in this process can be neither renamed nor removed nor replaced, what is synced must be
          open for writing.

It cannot show what another file system, another C library or another build of a dependency does.
"""

import builtins
import ctypes
import errno
import fcntl
import io
import mmap
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import types

import psutil  # noqa: F401  its part for Linux needs what is taken away

SYSTEM = os.environ.get("STREAMBPE_TEST_SYSTEM", "")
REAL = types.SimpleNamespace(
    open=io.open, os_open=os.open, listdir=os.listdir, readlink=os.readlink, fsync=os.fsync, flock=fcntl.flock,
    fcntl=fcntl.fcntl, cdll=ctypes.CDLL,
)  # fmt: skip


def take_away(module: types.ModuleType, *names: str) -> None:
    """Remove what is there of these."""
    for name in names:
        if hasattr(module, name):
            delattr(module, name)


# ---------------------------------------------------------------------------------------------------------
# both


def hide_proc() -> None:
    """/proc and /sys are not there, but for psutil, which has other ways on other systems."""

    def guarded(real):
        def call(path, *more, **named):
            if isinstance(path, str | os.PathLike) and os.fspath(path).startswith(("/proc", "/sys")):
                frame, depth = sys._getframe(1), 0
                while frame is not None and depth < 12:
                    if frame.f_globals.get("__name__", "").startswith("psutil"):
                        return real(path, *more, **named)
                    frame, depth = frame.f_back, depth + 1
                raise FileNotFoundError(errno.ENOENT, "No such file or directory", os.fspath(path))
            return real(path, *more, **named)

        return call

    builtins.open = io.open = guarded(io.open)
    os.listdir = guarded(os.listdir)


def other_c_library(functions: types.SimpleNamespace | None) -> None:
    """The C library of this process has these functions alone; None: it cannot be asked."""

    def cdll(name, *more, **named):
        if name is None and functions is None:
            raise TypeError("a name is needed")
        if name is None:
            return functions
        return REAL.cdll(name, *more, **named)

    ctypes.CDLL = cdll


# ---------------------------------------------------------------------------------------------------------
# macOS


def become_macos() -> None:
    """What is asked to be synced by F_FULLFSYNC is synced; fsync alone is a mistake."""
    other_c_library(types.SimpleNamespace())

    def control(handle, command, *more):
        return REAL.fsync(handle) if command == fcntl.F_FULLFSYNC else REAL.fcntl(handle, command, *more)

    def not_enough(handle):
        raise AssertionError("fsync alone does not reach the disk on macOS")

    fcntl.F_FULLFSYNC, fcntl.fcntl, os.fsync = 51, control, not_enough


# ---------------------------------------------------------------------------------------------------------
# Windows


def held_by_this_process() -> set[str]:
    """Files that this process has open or mapped."""
    found = set()
    for number in REAL.listdir("/proc/self/fd"):
        try:
            found.add(REAL.readlink(f"/proc/self/fd/{number}"))
        except OSError:
            continue  # the handle of the listing itself
    with REAL.open("/proc/self/maps") as maps:
        found |= {line.split(None, 5)[5].rstrip("\n") for line in maps if line.count("/")}
    return found


def hold_open_files() -> None:
    """No file that is open or mapped changes its name or goes; nor does a folder with one in it."""

    def guarded(real):
        def call(*paths, **named):
            held = held_by_this_process()
            for path in paths:
                whole = os.path.realpath(os.fspath(path))
                if any(name == whole or name.startswith(whole + os.sep) for name in held):
                    raise PermissionError(errno.EACCES, "The file is being used by another process", os.fspath(path))
            return real(*paths, **named)

        return call

    for name in ("replace", "rename", "remove", "unlink", "rmdir"):
        setattr(os, name, guarded(getattr(os, name)))
    shutil._use_fd_functions = False  # remove a tree by names
    tempfile.TemporaryFile = tempfile.NamedTemporaryFile  # which is not removed while it is open


def sync_what_is_open_for_writing(handle) -> None:
    if REAL.fcntl(handle, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY:
        raise OSError(errno.EBADF, "Bad file descriptor")
    REAL.fsync(handle)


def open_no_folders(path, *more, **named):
    if os.path.isdir(path):
        raise PermissionError(errno.EACCES, "Permission denied", path)
    return REAL.os_open(path, *more, **named)


def locking(handle: int, mode: int, length: int) -> None:
    """msvcrt.locking of one byte: another handle's lock is an error."""
    assert length == 1
    assert os.lseek(handle, 0, os.SEEK_CUR) > 1 << 20, "what is locked cannot be read by others"
    try:
        REAL.flock(handle, fcntl.LOCK_UN if mode == 0 else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise PermissionError(errno.EACCES, "Permission denied") from None


def become_windows() -> None:
    """No fcntl, few signals, files held while they are open."""
    other_c_library(None)
    hold_open_files()
    os.fsync, os.open = sync_what_is_open_for_writing, open_no_folders
    sys.modules["fcntl"] = None
    sys.modules["resource"] = None
    sys.modules["msvcrt"] = types.ModuleType("msvcrt")
    vars(sys.modules["msvcrt"]).update(LK_UNLCK=0, LK_NBLCK=2, locking=locking)
    take_away(os, "O_DIRECTORY", "O_NOFOLLOW", "O_CLOEXEC", "pread", "pwrite", "fchmod", "fork", "killpg")
    take_away(os, "getuid", "geteuid", "getgid", "mkfifo", "getloadavg", "sync", "fdatasync", "chroot", "nice")
    take_away(signal, "SIGKILL", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGALRM", "SIGPIPE", "SIGQUIT", "SIGTSTP", "alarm")
    take_away(mmap, *(name for name in dir(mmap) if name.startswith("MADV_")))
    subprocess.Popen.kill = lambda self: self.send_signal(9)

    from streambpe import system

    system._OPEN_FILES_ARE_HELD, system._PATIENCE_SECONDS = True, 0.5


if SYSTEM:
    take_away(os, "sched_getaffinity", "sched_setaffinity", "posix_fadvise", "posix_fallocate", "copy_file_range")
    {"macos": become_macos, "windows": become_windows}[SYSTEM]()
    hide_proc()
