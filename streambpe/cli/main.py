"""The command line: the group of commands, and how errors, warnings and a closed stdout are handled.

Each command is a thin call into the library (learn.py, look.py, models.py). Data goes to stdout, everything else to
stderr. Heavy libraries are loaded inside the commands, so `streambpe --help` is quick and --threads can bound Polars'
own pool.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import signal
import sys
import warnings
from collections.abc import Iterator, Sequence
from typing import Any, TextIO

import click

from streambpe import __version__
from streambpe.cli.help import CommandGroups
from streambpe.cli.told import say, warn
from streambpe.cli.unforeseen import UNFORESEEN, unforeseen
from streambpe.cli.wrong import as_usage_error
from streambpe.disk import disk_full, says_disk_full
from streambpe.errors import LimitError, NotKept, StreambpeError, TablesDiffer, shortened
from streambpe.system import nobody_listens, open_output


@contextlib.contextmanager
def _warnings_told() -> Iterator[None]:
    """The library's warnings as lines on stderr, each once; `decode`, which splits no text, says nothing of tables."""
    with warnings.catch_warnings():
        show = warnings.showwarning

        def tell(message: Any, category: type[Warning], *place: Any, **more: Any) -> None:
            if issubclass(category, (NotKept, TablesDiffer)):
                warn(message)
            else:
                show(message, category, *place, **more)

        warnings.simplefilter("always", NotKept)
        warnings.simplefilter("always", TablesDiffer)
        warnings.showwarning = tell
        yield


# what is wrong with a place that a user named: no right to it, a folder where a file should be, too long a name
_OF_A_PLACE = (
    errno.EACCES, errno.EPERM, errno.EROFS, errno.EISDIR, errno.ENOTDIR, errno.EEXIST, errno.ENAMETOOLONG, errno.ELOOP,
)  # fmt: skip


# what the system and libraries say where they get no memory, or a pool of theirs no threads
_NO_MEMORY = re.compile(
    "an't start new thread|annot allocate memory|nable to allocate|ailed to map segment|bad.alloc|ThreadPoolBuildError"
    "|esource temporarily unavailable"
)


@contextlib.contextmanager
def _errors_told(given: Sequence[str]) -> Iterator[None]:
    """Turns errors into one message and an exit code, without a traceback. `given`: the words behind `streambpe`."""
    try:
        with _warnings_told():
            yield
    except StreambpeError as error:
        say(f"streambpe: {error}")
        code = error.exit_code
    except (click.exceptions.Exit, click.exceptions.NoArgsIsHelpError, click.Abort):
        raise
    except click.ClickException as error:
        wrong = as_usage_error(error, given)
        say(f"streambpe: {wrong}")
        code = wrong.exit_code
    except KeyboardInterrupt:  # where no command waits for it (signals.py)
        say("streambpe: stopped by Ctrl-C. What was committed is kept.")
        code = 128 + signal.SIGINT
    except Exception as error:
        code = _tell_unforeseen(error, given)
    else:
        return
    raise click.exceptions.Exit(code)


def _tell_unforeseen(error: Exception, given: Sequence[str]) -> int:
    """Tell of an error that is none of the library's; the exit code."""
    if isinstance(error, OSError) and nobody_listens(error):
        # the reader of stdout went away (`| head`), or the terminal: there is nobody to report to
        _leave_streams()
        return 1
    if isinstance(error, OSError) and error.filename is not None and error.errno in _OF_A_PLACE:
        place = shortened(os.fsdecode(error.filename), 300)
        say(
            f"streambpe: {place} cannot be read or written: {error.strerror}. What was committed is kept. Give "
            "yourself permission, or name another place."
        )
        return 1
    if isinstance(error, MemoryError) or _NO_MEMORY.search(str(error)):
        said = shortened(str(error), 300) or type(error).__name__
        say(
            f"streambpe: no more memory or threads are available ({said}): the machine has no more, or a limit is set "
            "(ulimit, a container). What was committed is kept. Raise the limit, or give the same command again with "
            "a smaller --memory and --threads."
        )
        return LimitError.exit_code
    if not says_disk_full(error):
        say(f"streambpe: {unforeseen(error, given)}")
        return UNFORESEEN
    then = "Nothing that was there before is lost. Make room, then give the same command again."
    say(f"streambpe: {disk_full(error, 'where it writes', then)}")
    _leave_streams(sys.stdout)
    return 1


class _Commands(CommandGroups):
    """The commands, and whatever goes wrong in them or while `--help` is printed told in one message."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta["given"] = given = list(args)
        with _errors_told(given):
            return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        with _errors_told(ctx.meta["given"]):
            return super().invoke(ctx)


def _leave_streams(*streams: TextIO) -> None:
    """Point them (both, unless named) to nowhere: what they still hold cannot be written, and Python must not try again
    when it ends."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in streams or (sys.stdout, sys.stderr):
        os.dup2(nowhere, stream.fileno())


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__)
def main() -> None:
    """
    \b
    Learn BPE-family tokenizer vocabularies from corpora far larger than memory.
    A RUN is a folder that you can stop, resume and query at any moment.
    example: streambpe train RUN corpus/*.txt --vocab-size 32k
    """
    open_output()
