"""What is still to be read: the sources compared with what is committed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from streambpe.errors import SourceChanged, UsageError
from streambpe.sources.digests import digest_stretches
from streambpe.sources.source import Source
from streambpe.store.groups import MOST_GROUPS
from streambpe.store.parts import Part, Span
from streambpe.store.run import Run
from streambpe.store.unfinished import is_complete, read_record, spans_by_path
from streambpe.system import compose_name
from streambpe.text.patterns import Pattern


@dataclass
class Todo:
    """Which stretches of which sources are still to be read."""

    sources: list[tuple[Source, list[tuple[int, int]]]]  # each with the stretches that are counted
    skipped: int  # counted to their end before


def find_todo(run: Run, pattern: Pattern, found: Sequence[Source], parts: Sequence[Part]) -> Todo:
    """Compare the sources with what is committed; refuse one whose content changed."""
    spans = spans_by_path(parts)
    todo = Todo([], 0)
    for source in found:
        known = sorted(spans.get(source.path, []), key=lambda span: span.start_at)
        if known:
            _refuse_another_way(source, known)
        source = replace(source, group=known[0].group_name if known else source.group or "")
        if known and not source.is_stream:
            _refuse_changed(source, known, pattern)
        complete = is_complete(known)
        if complete and source.is_stdin:
            raise UsageError(
                "Standard input was counted into this run before. To add another stream, give it a name "
                "of its own: --stdin-name NAME. Nothing was changed."
            )
        if complete and source.texts is None:
            todo.skipped += 1
        else:
            todo.sources.append((source, [(span.start_at, span.stop_at) for span in known]))
    refused = {source.path for source in read_record(run).sources if source.refused}
    # what was refused before comes last, to hold up nothing; by group, since a part holds one: few changes, few parts
    todo.sources.sort(key=lambda entry: (entry[0].path in refused, entry[0].group or ""))
    names = {source.group for source, _ in todo.sources} | {part.group_name for part in parts}
    if len(names) > MOST_GROUPS:
        raise UsageError(
            f"{len(names)} source groups; {MOST_GROUPS} is the most a run can have. Nothing was changed. Name "
            f"larger ones with --group NAME=GLOB."
        )
    return todo


def _refuse_another_way(source: Source, known: Sequence[Span]) -> None:
    """Refuse a source that is not given as it was begun: with the same kind, field and group."""
    if known[0].kind != source.kind:
        raise UsageError(
            f"{source.path} was counted as {known[0].kind}, not {source.kind}; nothing was changed. "
            f"Give the options it was counted with, or count into another RUN."
        )
    if source.kind in ("jsonl", "csv", "parquet") and known[0].text_column != source.column:
        raise UsageError(
            f"{source.path} was counted by its field {known[0].text_column!r}, not {source.column!r}; nothing "
            f"was changed. Count the other field into another RUN."
        )
    if source.group not in (None, compose_name(known[0].group_name)):
        raise UsageError(
            f"{source.path} was counted in source group {known[0].group_name or 'none'!r}, not "
            f"{source.group or 'none'!r}; nothing was changed. Counts cannot move between groups: count "
            f"into another RUN."
        )


def _refuse_changed(source: Source, known: Sequence[Span], pattern: Pattern) -> None:
    """Refuse a changed source. Same size and time stamp: it is unchanged. Same size only: its stretches are hashed
    again."""
    if source.bytes == known[0].file_bytes and source.mtime_ns == known[0].mtime_ns:
        return
    if source.bytes == known[0].file_bytes and not _changed_stretches(source, known, pattern):
        return
    raise SourceChanged(
        f"{source.path} was counted when it had {known[0].file_bytes} bytes; now its content is another "
        f"({source.bytes} bytes). Nothing was changed. Put the old file back, or count the new one under "
        f"another name or into another RUN: counts cannot be taken back."
    )


def _changed_stretches(source: Source, spans: Sequence[Span], pattern: Pattern) -> list[Span]:
    """Read the counted stretches of a source again; returns those whose digest is another now."""
    by_start = {span.start_at: span for span in spans}
    stretches = sorted((span.start_at, span.stop_at) for span in spans)
    different = []
    for start, _, digest in digest_stretches(source, stretches, pattern):
        if by_start[start].digest != digest:
            different.append(by_start[start])
        by_start.pop(start)
    return different + list(by_start.values())
