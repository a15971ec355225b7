"""What table run, status.json and the event log's header say of a corpus."""

from __future__ import annotations

from typing import NotRequired, TypedDict


class LeftOut(TypedDict):
    """A source that was not counted to its end."""

    source: str
    counted: int
    unit: str


class CorpusFacts(TypedDict):
    """What all counts of a corpus add up to; sha256: of its chunks and their counts."""

    documents: int
    bytes: int
    chunks: int
    distinct: int
    sha256: str
    edited: NotRequired[bool]  # in a log: somebody changed chunk_counts
    documents_sum: NotRequired[str]  # in a log with superwords: the digest of the documents
    left_out: NotRequired[list[LeftOut]]  # in a log: the sources that were not counted to their end
