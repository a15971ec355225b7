"""`streambpe` and `python -m streambpe`: the command line."""

from __future__ import annotations

import signal


def main() -> None:
    """The command line; Ctrl-C while its modules are loaded ends it as it ends other programs, without a traceback."""
    before = signal.getsignal(signal.SIGINT)
    if before is signal.default_int_handler:  # else it is ignored, as behind nohup
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from streambpe.system import replace_closed_streams

    replace_closed_streams()
    from streambpe.cli.main import main as command_line

    signal.signal(signal.SIGINT, before)
    command_line()


if __name__ == "__main__":
    main()
