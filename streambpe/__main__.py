"""`streambpe` and `python -m streambpe`: the command line."""

from __future__ import annotations

import gc
import os
import signal
import sys

_COLLECT_EVERY = 50_000  # new objects; with Python's 700 a sixth of the time of loading a command is collecting nothing


def _replace_closed_streams() -> None:
    """Open standard streams that were closed (`2>&-`, some daemons) on nothing. The next file that is opened would get
    the number of one, and whatever a library prints would be written into that file."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            handle = os.open(os.devnull, os.O_RDWR)  # the lowest number that is free
            os.set_inheritable(handle, True)
            setattr(sys, name, os.fdopen(handle, mode, encoding="utf-8"))


def main() -> None:
    """The command line; Ctrl-C while its modules are loaded ends it as it ends other programs, without a traceback."""
    before = signal.getsignal(signal.SIGINT)
    if before is signal.default_int_handler:  # else it is ignored, as behind nohup
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    _replace_closed_streams()
    gc.set_threshold(_COLLECT_EVERY)
    from streambpe.cli.main import main as command_line

    signal.signal(signal.SIGINT, before)
    command_line()


if __name__ == "__main__":
    main()
