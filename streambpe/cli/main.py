"""The command line: the group of commands, and how errors, warnings and a closed stdout are handled.

Each command is a thin call into the library (learn.py, look.py, models.py). Data goes to stdout, everything else to
stderr. Heavy libraries are loaded inside the commands, so `streambpe --help` is quick and --threads can bound Polars'
own pool.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import warnings
from collections.abc import Iterator
from typing import Any, TextIO

import click

from streambpe import __version__
from streambpe.cli import learn, look, models, pages
from streambpe.cli.help import CommandGroups
from streambpe.cli.told import say
from streambpe.cli.unforeseen import UNFORESEEN, unforeseen
from streambpe.disk import disk_full, says_disk_full
from streambpe.errors import NotKept, StreambpeError, TablesDiffer
from streambpe.system import nobody_listens, open_output
from streambpe.text.shown import harmless


@contextlib.contextmanager
def _warnings_told() -> Iterator[None]:
    """The library's warnings as lines on stderr, each once; `decode`, which splits no text, says nothing of tables."""
    with warnings.catch_warnings():
        show = warnings.showwarning

        def tell(message: Any, category: type[Warning], *place: Any, **more: Any) -> None:
            if issubclass(category, (NotKept, TablesDiffer)):
                say(f"warning: {message}")
            else:
                show(message, category, *place, **more)

        warnings.simplefilter("always", NotKept)
        warnings.simplefilter("always", TablesDiffer)
        warnings.showwarning = tell
        yield


class _Commands(CommandGroups):
    """Turns the library's errors into one message and an exit code, without a traceback."""

    def invoke(self, ctx: click.Context) -> Any:
        given = [*ctx._protected_args, *ctx.args]
        try:
            with _warnings_told():
                return super().invoke(ctx)
        except StreambpeError as error:
            say(f"streambpe: {error}")
            ctx.exit(error.exit_code)
        except click.ClickException as error:
            vars(error).update(message=harmless(error.message))  # `message` is final for click's own code
            raise
        except (click.exceptions.Exit, click.Abort):
            raise
        except KeyboardInterrupt:  # where no command waits for it (signals.py)
            say("streambpe: stopped by Ctrl-C. What was committed is kept.")
            ctx.exit(128 + signal.SIGINT)
        except Exception as error:
            if isinstance(error, OSError) and nobody_listens(error):
                # the reader of stdout went away (`| head`), or the terminal: there is nobody to report to
                _leave_streams()
                ctx.exit(1)
            if isinstance(error, PermissionError) and error.filename is not None:
                say(
                    f"streambpe: {os.fsdecode(error.filename)} cannot be read or written: {error.strerror}. What was "
                    f"committed is kept. Give yourself the right to it, or name another place."
                )
                ctx.exit(1)
            if not says_disk_full(error):
                say(f"streambpe: {unforeseen(error, given)}")
                ctx.exit(UNFORESEEN)
            then = "Nothing that was there before is lost. Make room, then give the same command again."
            say(f"streambpe: {disk_full(error, 'where it writes', then)}")
            _leave_streams(sys.stdout)
            ctx.exit(1)


def _leave_streams(*streams: TextIO) -> None:
    """Point them (both, unless named) to nowhere: what they still hold cannot be written, and Python must not try again
    when it ends."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in streams or (sys.stdout, sys.stderr):
        os.dup2(nowhere, stream.fileno())


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__)
def main() -> None:
    """Learn BPE-family tokenizer vocabularies from corpora far larger than memory.

    \b
    A RUN is a folder; everything in it can be stopped, resumed and queried with SQL.
        streambpe count RUN corpus/*.jsonl.zst
        streambpe sql RUN "SELECT * FROM chunk_frequencies LIMIT 20"
        streambpe docs jobs
    """
    open_output()


for command in (*learn.COMMANDS, *look.COMMANDS, *models.COMMANDS, *pages.COMMANDS):
    main.add_command(command)

if __name__ == "__main__":
    main()
