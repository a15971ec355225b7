"""What a source is, and the blocks it comes in."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

import msgspec

from streambpe.errors import UsageError

Kind = Literal["txt", "lines", "jsonl", "csv", "parquet", "counts", "iterator"]
WITH_FIELDS = ("jsonl", "csv", "parquet")  # kinds of source that have fields, of which one holds the text
BadUtf8 = Literal["replace", "skip", "error"]


@dataclass(frozen=True)
class Source:
    """One input: what it is and where."""

    path: str  # absolute, or an address; the name of standard input ("-" unless given another) or of an iterator
    kind: Kind
    column: str = "text"
    bytes: int = 0  # on disk; 0 if unknown
    mtime_ns: int = 0  # of a remote one, what its server tells of its content, as a number; 0 if it tells nothing
    texts: Iterable[str | None] | None = field(default=None, compare=False, repr=False)
    is_stdin: bool = False
    group: str | None = field(default=None, compare=False)  # the group of sources it belongs to; None: not asked for
    any_bytes: bool = field(default=False, compare=False)  # it is taken though it is mostly no UTF-8

    def __post_init__(self) -> None:
        if isinstance(self.texts, str | bytes):
            raise UsageError(
                f"{self.path} must be several texts, but it is one {type(self.texts).__name__}. Give a list: [text]."
            )

    @property
    def is_stream(self) -> bool:
        """Whether it can be read only once, from the front."""
        return self.is_stdin or self.texts is not None


class Block(msgspec.Struct):
    """A stretch of a source that is counted on its own."""

    source: Source
    start_at: int
    stop_at: int
    data: bytes | list[str | None]  # raw bytes, or the values of a text column; nothing once it is counted
    ends_source: bool
    header: tuple[str, ...] = ()  # of a csv
    inside_document: bool = False  # begins in the middle of a document
    ends_inside: bool = False  # ends in the middle of a document


class BlockText(msgspec.Struct):
    """A counting buffer and what was met while making it."""

    text: bytes
    documents: int
    digest: str
    bad_utf8: int = 0
    boms: int = 0
    nulls: int = 0
    dropped: int = 0  # characters, by --unencodable drop
    bad_lines: int = 0  # left out, by --bad-lines skip
    cut_documents: int = 0  # by --document-cap
    cut_bytes: int = 0  # of their text
    chosen: Sequence[int] | None = None  # by --sample: which of the documents of the block are in `text`


def name_of(source: Source) -> str:
    return "standard input" if source.is_stdin else source.path
