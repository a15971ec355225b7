"""The command line: the group of commands, and how errors, warnings and a closed stdout are handled.

Each command is a thin call into the library (learn.py, look.py, models.py). Data goes to stdout, everything else to
stderr. Heavy libraries are loaded inside the commands, so `streambpe --help` is quick and --threads can bound Polars'
own pool.
"""

from __future__ import annotations

import contextlib
import os
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import click

from streambpe import __version__
from streambpe.cli import learn, look, models
from streambpe.cli.help import CommandGroups
from streambpe.cli.unforeseen import UNFORESEEN, unforeseen
from streambpe.disk import disk_full, says_disk_full
from streambpe.errors import StreambpeError, TablesDiffer
from streambpe.system import open_output


@contextlib.contextmanager
def _warnings_told() -> Iterator[None]:
    """The library's warnings as lines on stderr, each once; `decode`, which splits no text, says nothing of tables."""
    with warnings.catch_warnings():
        show = warnings.showwarning

        def tell(message: Any, category: type[Warning], *place: Any, **more: Any) -> None:
            if issubclass(category, TablesDiffer):
                click.echo(f"warning: {message}", err=True)
            else:
                show(message, category, *place, **more)

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
            click.echo(f"streambpe: {error}", err=True)
            ctx.exit(error.exit_code)
        except BrokenPipeError:
            # the reader of stdout went away (`| head`): there is nothing to report, and nobody to read it
            _leave_stdout()
            ctx.exit(1)
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except Exception as error:
            if not says_disk_full(error):
                click.echo(f"streambpe: {unforeseen(error, given)}", err=True)
                ctx.exit(UNFORESEEN)
            then = "Nothing that was there before is lost. Make room, then give the same command again."
            click.echo(f"streambpe: {disk_full(error, 'where it writes', then)}", err=True)
            _leave_stdout()
            ctx.exit(1)


def _leave_stdout() -> None:
    """Point stdout to nowhere: what it still holds cannot be written, and Python must not try again when it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__)
def main() -> None:
    """Learn BPE-family tokenizer vocabularies from corpora far larger than memory.

    \b
    A RUN is a folder; everything in it can be stopped, resumed and queried with SQL.
        streambpe count RUN corpus/*.jsonl.zst
        streambpe sql RUN "SELECT * FROM chunk_frequencies LIMIT 20"
    """
    open_output()


for command in (*learn.COMMANDS, *look.COMMANDS, *models.COMMANDS):
    main.add_command(command)

if __name__ == "__main__":
    main()
