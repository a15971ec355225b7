"""Every error a user can meet. The command line prints the message alone and exits with `exit_code`.

A message says what failed, where, what state is left and, where there is one, the next command.
"""

import shlex
from collections.abc import Iterable, Mapping


def typed(path: object) -> str:
    """A path as it is typed in a shell: with quotes if it needs them, so that a command in a message can be copied."""
    return shlex.quote(str(path))


def shortened(text: str, most: int = 2000) -> str:
    """A text of so many characters, or the two ends of one that is longer.

    What is quoted in a message may be a line, a token or a pattern of any length.
    """
    if len(text) <= most:
        return text
    kept = most - 60  # room for what stands between
    end = kept // 4
    return f"{text[: kept - end]}... ({len(text) - kept:,} characters left out) ...{text[-end:]}"


def quoted(value: object) -> str:
    """A value as a message quotes it."""
    return shortened(repr(value), 160)


def first_line(why: BaseException) -> str:
    """What an error of another library says, or what kind it is if it says nothing."""
    return f"{(str(why).strip() or type(why).__name__).splitlines()[0]:.200}"


def meant(word: str, known: Iterable[str], stands_for: Mapping[str, str] | None = None) -> str:
    """What a message about an unknown word ends with: the known one that is near it, or what that one stands for."""
    from difflib import get_close_matches

    near = get_close_matches(word, list(known), 1)
    return f" Is {(stands_for or {}).get(near[0], near[0])} meant?" if near else ""


class StreambpeError(Exception):
    """A job cannot go on; what was committed before stays committed."""

    exit_code = 1
    source: str | None = None  # the path of the source that it is about, where a count is to know it

    def __init__(self, *message: object) -> None:
        super().__init__(*(shortened(str(part)) for part in message))


class UsageError(StreambpeError):
    """The options contradict each other or the input."""

    exit_code = 2


class DiskFull(StreambpeError):
    """Nothing more can be written where a job writes."""


class LimitError(StreambpeError):
    """The job does not fit the memory or the disk it was given."""

    exit_code = 3


class WorkerLost(StreambpeError):
    """The workers that were to do a task died, one after another."""


class SourceError(StreambpeError):
    """An input cannot be read, or is not what its name says."""


class NoText(SourceError):
    """What was counted holds no text."""


class SourceUnreachable(SourceError):
    """The machine of an input does not answer as it should; another try may succeed."""


class SourceChanged(SourceError):
    """An input that was already counted no longer has the bytes that were counted."""


class PatternError(UsageError):
    """A splitting pattern does not compile, or leaves part of the text unmatched."""


class PatternTooSlow(StreambpeError):
    """A pattern of the user's own takes longer on a text than it may; `document`: its number in the block."""

    document = 0


class ModelError(StreambpeError):
    """A model cannot be found, or holds something that this job cannot express."""


class CoreError(StreambpeError):
    """The compiled part of the program is missing, of another version, or gave up."""


class NotExact(StreambpeError):
    """An export under --strict encodes some text otherwise than the model does; the files were written."""

    exit_code = 4


class RunError(StreambpeError):
    """A RUN folder is missing, damaged, or of another format version."""


class RunLocked(RunError):
    """Another process writes to this RUN."""


class StoreHeld(RunError):
    """Another process, or another thread of this one, has state.duckdb open."""


class RunMismatch(UsageError):
    """A RUN was started with other options than are asked for now."""


class ResumeMismatch(RunMismatch):
    """A training was started with other options or counts than are asked for now."""


class CountUnfinished(UsageError):
    """What is asked for needs all counts of a RUN, and its sources are not counted to their end."""


class TablesDiffer(UserWarning):
    """A model splits text by other character tables than those it was learned with."""


class NotKept(UserWarning):
    """A file of another program says something of text that its event log does not."""


class SqlInputError(StreambpeError):
    """A .sql file was run without the inputs that its header names."""


class QueryRefused(StreambpeError):
    """A query does more than read, or returns something that the output format cannot hold."""


class OutputExists(UsageError):
    """Something stands where an output was to be written, and nobody said to overwrite it."""


class Stopped(StreambpeError):
    """Ctrl-C or SIGTERM: everything finished was committed first."""

    def __init__(self, message: str, signal_number: int) -> None:
        super().__init__(message)
        self.signal_number = signal_number
        self.exit_code = 128 + signal_number


class EventLogError(StreambpeError, ValueError):
    """An event log that cannot be trusted: what is wrong, in which file, on which line."""


class UnknownSymbol(StreambpeError, ValueError):
    """The text holds a symbol the model's alphabet lacks; encoding it would lose text."""


class OtherTable(StreambpeError, ValueError):
    """SCRIPT symbols come from a table of characters that this program does not have."""


class UndecodableSymbols(ValueError):
    """Symbols that no text encodes to: a block without an index, half an escaped character."""


class ReplayMismatch(ValueError):
    """The events given are not the ones these words lead to."""
