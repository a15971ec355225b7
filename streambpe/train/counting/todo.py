"""What is still to be read: the sources compared with what is committed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import zip_longest

from streambpe.errors import SourceChanged, UsageError, typed
from streambpe.sources.digests import digest_stretches
from streambpe.sources.source import WITH_FIELDS, Source
from streambpe.sources.stretches import Stretch
from streambpe.store.groups import MOST_GROUPS
from streambpe.store.parts import Parts
from streambpe.store.run import Run
from streambpe.store.spans import NO_SPANS, Span, Spans, SpansByPath
from streambpe.store.unfinished import read_record
from streambpe.system import compose_name
from streambpe.text.patterns import Pattern


def left_of(stretches: Iterable[Stretch], counted: SpansByPath) -> Iterator[Stretch]:
    """What is left of stretches when these are counted."""
    for stretch in stretches:
        if stretch.stop is None and stretch.source.path in counted.complete:  # as most are, and this is quick to see
            continue
        spans = counted.get(stretch.source.path, NO_SPANS)
        rest = stretch.without(spans.stretches(joined=True))
        ended = spans.among("state", ("last",)) & (spans.column("stop_at") == rest.at)
        if rest.is_open and not ended.any():
            yield rest


def find_todo(run: Run, pattern: Pattern, found: Sequence[Source], parts: Parts) -> list[Stretch]:
    """What is left of the sources when all that is committed is counted; refuse one whose content changed."""
    spans = parts.by_path
    todo = []
    for source in found:
        known = spans.get(source.path, NO_SPANS)
        source = replace(source, group=known[0].group_name if known else source.group or "")
        if known and not source.is_stream:
            _refuse_changed(run, source, known, pattern)
        complete = source.path in spans.complete
        if complete and source.is_stdin:
            raise UsageError(
                "Standard input was counted into this run before. To add another stream, give it another name with "
                "--stdin-name NAME. Nothing was changed."
            )
        if not complete or source.texts is not None:
            # what a stream gives again is compared, stretch by stretch; a file was compared before
            todo.append(Stretch(source, tuple(known.stretches(joined=not source.is_stream))))
    refused = {source.path for source in read_record(run).sources if source.refused}
    # what was refused before comes last, to hold up nothing; by group, since a part holds one: few changes, few parts
    todo.sort(key=lambda left: (left.source.path in refused, left.source.group or ""))
    names = {left.source.group for left in todo} | {part.group_name for part in parts}
    if len(names) > MOST_GROUPS:
        raise UsageError(
            f"{len(names)} source groups, but a RUN can have at most {MOST_GROUPS}. Nothing was changed. Name larger "
            "ones with --group NAME=GLOB."
        )
    return todo


def refuse_given_otherwise(sources: Sequence[Source], parts: Parts) -> None:
    """Refuse a source that is not given as it was begun: with the same kind, field and group."""
    for source in sources:
        if known := parts.by_path.get(source.path):
            _refuse_another_way(source, known[0])


def _refuse_another_way(source: Source, known: Span) -> None:
    if known.kind != source.kind:
        raise UsageError(
            f"{source.path} was counted as {known.kind}, not {source.kind}; nothing was changed. "
            f"Give the options it was counted with, or count into another RUN."
        )
    if source.kind in WITH_FIELDS and known.text_column != source.column:
        raise UsageError(
            f"{source.path} was counted by its field {known.text_column!r}, not {source.column!r}; nothing "
            f"was changed. Count the other field into another RUN."
        )
    if source.group not in (None, compose_name(known.group_name)):
        raise UsageError(
            f"{source.path} was counted in source group {known.group_name or 'none'!r}, not "
            f"{source.group or 'none'!r}; nothing was changed. Counts cannot move between groups: count "
            f"into another RUN."
        )


def _refuse_changed(run: Run, source: Source, known: Spans, pattern: Pattern) -> None:
    """Refuse a changed source. Same size and time stamp: it is unchanged. Same size only, or a server that tells no
    more: its stretches are hashed again."""
    first = known[0]
    if source.bytes == first.file_bytes and source.mtime_ns == first.mtime_ns and source.mtime_ns:
        return
    if source.bytes == first.file_bytes and has_digests(source, known, pattern):
        return
    raise SourceChanged(
        f"{source.path} has changed since it was counted (from {first.file_bytes} to {source.bytes} bytes, or "
        f"inside). Nothing was changed. Put the old file back (`streambpe count {typed(run.path)} --take-back "
        f"{typed(source.path)}` then subtracts its counts), or count the new one under another name or into another "
        "RUN."
    )


def has_digests(source: Source, known: Spans, pattern: Pattern) -> bool:
    """Read the counted stretches of a source again: whether each has the digest that it had."""
    same = (
        (span.start_at, span.stop_at, span.digest) == again
        for span, again in zip_longest(known, digest_stretches(source, known.stretches(), pattern))
        if span is not None
    )
    return all(same)
