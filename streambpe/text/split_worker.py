"""A process that splits texts with the `regex` module, so that several threads can at once (it holds the GIL).

    python -m streambpe.text.split_worker

Reads pickled requests from stdin, each behind its length (8 bytes, little-endian), and writes the
answers to stdout the same way. First request: (expression, expression for script runs, keep_gaps, seconds for a text);
then (texts, the numbers of those that are script runs), answered with what `split_texts` gives. Ends at end of
input, so it never outlives its parent; Ctrl-C and SIGTERM are the parent's business. About 25 MB of memory.
"""

from __future__ import annotations

import subprocess
import sys
from array import array
from collections.abc import Sequence, Set

import regex

from streambpe.errors import StreambpeError, WorkerLost
from streambpe.resources import DOCUMENT_SECONDS
from streambpe.runners.messages import channel_to, own_channel
from streambpe.runners.processes import how_it_ended
from streambpe.system import born_deaf, ignore_stop_signals
from streambpe.text.split import alarm, split_texts


class SplitProcess:
    """One worker process; `split` may be called from one thread at a time."""

    def __init__(self, expression: str, script: str | None, keep_gaps: bool, seconds: float = DOCUMENT_SECONDS) -> None:
        with born_deaf():
            self._process = subprocess.Popen(
                [sys.executable, "-m", "streambpe.text.split_worker"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
            )
        self._channel = channel_to(self._process)
        self._channel.send((expression, script, keep_gaps, seconds))

    def split(self, texts: Sequence[str], runs: Set[int] = frozenset()) -> tuple[list[str], array[int], array[int]]:
        """As `split_texts`. A worker that dies (killed for memory, say) raises WorkerLost."""
        try:
            self._channel.send((list(texts), runs))
            answer: tuple[list[str], array[int], array[int]] | StreambpeError = self._channel.receive()
        except (EOFError, OSError):
            raise WorkerLost(
                f"The process that splits texts by your own pattern ended ({how_it_ended(self._process.wait())}). "
                f"Everything committed is kept. If the machine ran out of memory, give the same command again with a "
                f"smaller --memory."
            ) from None
        if isinstance(answer, StreambpeError):
            raise answer
        return answer

    def close(self) -> None:
        """End the process; safe to call twice."""
        self._channel.close()
        self._process.wait()


def main() -> None:
    """Serve requests until the input ends."""
    ignore_stop_signals()
    channel = own_channel()
    alarm.turn_on()
    expression, script, keep_gaps, seconds = channel.receive()
    compiled, script_compiled = regex.compile(expression), regex.compile(script) if script else None
    while True:
        try:
            texts, runs = channel.receive()
        except EOFError:
            return
        try:
            answer: object = split_texts(compiled, script_compiled, keep_gaps, seconds, texts, runs)
        except StreambpeError as why:
            answer = why
        channel.send(answer)


if __name__ == "__main__":
    main()
