"""What a run that is counting, or was stopped while counting, has committed so far, for queries."""

from __future__ import annotations

import msgspec

from streambpe.resources import format_size
from streambpe.store.chunks import Folded
from streambpe.store.parts import Parts, list_parts
from streambpe.store.run import Run
from streambpe.store.unfinished import read_record


class Committed(msgspec.Struct, frozen=True):
    """The parts that no fold has put into the tables yet, and how far the count is."""

    parts: Parts  # all of them
    files: list[str]  # those to be added to the tables' counts
    held: bool  # whether the tables' counts are part of it; else `files` are all
    facts: dict[str, str]  # table run, as it was when this was looked up
    told: str  # how far it is, for people


def look_up_committed(run: Run) -> Committed | None:
    """What is committed, of a run that is not counted to its end; None where the tables hold all of it."""
    facts = run.facts()
    record = read_record(run)
    if not record and "corpus" in facts:
        return None
    parts = list_parts(run)
    folded = Folded.of(run, parts)
    chosen = list(parts) if folded.differs else folded.new
    if not chosen and not record:
        return None
    by_path = parts.by_path
    known = by_path.keys() | {source.path for source in record.sources}
    begun = len(by_path.keys() - by_path.complete)
    told = (
        f"{run.path} is not counted to its end: chunk_counts and sources show what is committed so far, "
        f"{len(by_path.complete):,} of {len(known):,} sources{f' and a part of {begun:,}' if begun else ''}, "
        f"{format_size(parts.spans.total('text_bytes'))} of text."
    )
    return Committed(parts, [str(part.path.resolve()) for part in chosen], not folded.differs, facts, told)
