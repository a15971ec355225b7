"""Table chunk_counts is what training learns from; it is filled from the parts in counts/, which are its backup too.

    counts/part-00007.parquet     stretches of the input, counted once; the file is renamed into place when it is whole
    fold                          adds the parts that are not in the tables yet to chunk_counts, and their stretches to
                                  table sources, in one transaction: a kill at any moment leaves each part counted once
    counts/merged-00003.parquet   several folded parts added up; names the files it replaces

Counts are added up one range of chunks after another (those of the first fold by the core, later ones by SQL), so that
memory does not grow with the counts and the rows end up in the order of the chunks' bytes. A row that was changed by
hand keeps its change; table run then says that the counts were edited.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import duckdb
import msgspec
import numpy as np
import pyarrow as pa

from streambpe.arrays import MAX_COUNT
from streambpe.core.strings import ChunkList, merge
from streambpe.failpoints import failpoint
from streambpe.later import compute as pc
from streambpe.model.corpus_facts import CorpusFacts
from streambpe.resources import BASE_BYTES, Resources
from streambpe.store.counted import CorpusDigest, digest_counts, list_ranges, too_many_chunks
from streambpe.store.database import append, commit, incoming, open_store, put_facts
from streambpe.store.identity import tables_written
from streambpe.store.merge import compact, lists_of_range, opened, ranges
from streambpe.store.parts import Part, Parts, list_parts, parts_by_group
from streambpe.store.run import Run
from streambpe.store.sqlfiles import query_arrow, run_sql
from streambpe.store.unfinished import note_lost, read_record, unfinished

_FOLDED = "folded"  # in a run's cache: written_at() of the tables that this command folded


class Folded(msgspec.Struct, frozen=True):
    """Which parts the tables hold."""

    held: list[Part]
    new: list[Part]
    differs: bool  # the tables hold stretches that no part has, or not all of a part

    @classmethod
    def of(cls, run: Run, parts: Parts) -> Folded:
        """Judged by the stretches in table sources: a fold puts all stretches of a part there."""
        there, all_of_them = parts.spans.found_in(run.tables().stretches)
        ends = np.cumsum([len(part.spans) for part in parts], dtype=np.int64)
        mine = [there[end - len(part.spans) : end] for part, end in zip(parts, ends.tolist(), strict=True)]
        held = [part for part, some in zip(parts, mine, strict=True) if some.any()]
        new = [part for part, some in zip(parts, mine, strict=True) if not some.any()]
        return cls(held, new, not all_of_them or any(some.any() and not some.all() for some in mine))


def fold(run: Run, resources: Resources, *, again: bool = False) -> CorpusFacts:
    """Bring state.duckdb up to the committed parts; returns the corpus facts. One transaction.

    `again`: fill everything from the parts, whatever the tables hold.
    """
    parts = list_parts(run, clean=True)
    facts = run.facts()
    note_lost(run, parts)
    left = json.dumps([s.as_fact(whole_path=True) for s in unfinished(read_record(run).sources, parts)])
    folded = Folded.of(run, parts)
    anew = again or folded.differs or _do_not_fit(folded, facts)
    new = list(parts) if anew else folded.new
    corpus: CorpusFacts = json.loads(facts.get("corpus", "null"))
    if not anew and not new and facts.get("unfinished", "[]") == left:
        return corpus
    at_once = min(max(_spare(resources) // 32, 1 << 20), 64 << 20)
    new = compact(run, new, at_once)
    with run.writing(**_for_duckdb(resources)) as con:
        con.begin()
        if anew:
            run_sql(con, "clear_counts")
        else:
            _note_edits(con, facts, at_once)
        told = {"unfinished": left} if left != facts.get("unfinished", "[]") else {}
        if anew or new:
            corpus = _add_parts(con, parts, new, at_once, resources.threads)
            told["corpus"] = json.dumps(corpus)
        failpoint("fold-filled")
        with tables_written(run.state) as written:
            put_facts(con, "run", {**told, "written": written})
            commit(con)
    if anew or new:
        run.cache[_FOLDED] = run.written_at()
    failpoint("fold-committed")
    compact(run, list(list_parts(run)), at_once)
    return corpus


def open_counts(run: Run, resources: Resources) -> duckdb.DuckDBPyConnection:
    """Open the tables for reading; to be called while nothing else is in memory."""
    return open_store(run.state, read_only=True, **_for_duckdb(resources))


def _for_duckdb(resources: Resources) -> dict[str, Any]:
    """What it may take, as `open_store` has it."""
    return {
        "memory_bytes": half_of_spare(resources), "threads": resources.threads, "temp_dir": resources.temp_dir
    }  # fmt: skip


def _spare(resources: Resources) -> int:
    """What is left when the program is loaded."""
    return max(resources.memory_bytes - BASE_BYTES, 48 << 20)


def half_of_spare(resources: Resources) -> int:
    """What DuckDB gets where rows are given to it, which take the other half."""
    return _spare(resources) // 2


def range_bytes(resources: Resources) -> int:
    """How much of the counts is read at once."""
    return min(max(_spare(resources) // 32, 1 << 20), 4 << 20)


class Edited(msgspec.Struct, frozen=True):
    """Whether somebody changed the counts since they were counted."""

    before: bool  # before the last fold
    counts: bool  # since then, in chunk_counts
    groups: bool  # since then, in group_counts

    def __bool__(self) -> bool:
        return self.before or self.counts or self.groups


def read_totals(run: Run, resources: Resources) -> tuple[CorpusFacts, Edited]:
    """What the counts add up to now, as the facts of a corpus; and whether they were edited.

    The counts are read for that, unless this command has folded them and nobody wrote to the tables since.
    """
    facts = run.facts()
    stated: CorpusFacts = json.loads(facts["corpus"])
    if run.cache.get(_FOLDED) == run.written_at():
        return stated, Edited("edited" in facts, False, False)
    at_once = range_bytes(resources)
    with contextlib.closing(open_counts(run, resources)) as con:
        found = digest_counts(con, at_once).facts(stated["documents"])
        groups = _groups_differ(con, at_once)
        edited = Edited("edited" in facts, found["sha256"] != stated["sha256"], groups)
    return found, edited


def _groups_differ(con: duckdb.DuckDBPyConnection, at_once: int) -> bool:
    """Whether group_counts is not what table source_groups says of every group."""
    stated = {name: sha256 for name, *_, sha256 in run_sql(con, "get_source_groups")}
    if not stated:
        return False
    found = {name: CorpusDigest() for name in stated}
    for low, high in list_ranges(con, at_once):
        _add_by_group(found, query_arrow(con, "read_group_range", first_chunk=low, end_chunk=high))
    return {name: digest.facts(0)["sha256"] for name, digest in found.items()} != stated


def _add_by_group(digests: dict[str, CorpusDigest], rows: pa.Table) -> None:
    """Add rows (chunk, group_name, n), in the order of the chunks' bytes, to the digest of each group."""
    for name in pc.unique(rows["group_name"]).to_pylist():
        mine = rows.filter(pc.equal(rows["group_name"], name)).select(["chunk", "n"])
        digests.setdefault(name, CorpusDigest()).add(ChunkList.of_table(mine))


def _do_not_fit(folded: Folded, facts: dict[str, str]) -> bool:
    """Whether the tables must be filled anew: they are not what these parts make (and were not edited), or these
    parts add the first source groups to counts that have none."""
    if "corpus" not in facts:
        return True
    if any(part.group_name for part in folded.new) and not any(part.group_name for part in folded.held):
        return bool(folded.held)
    total = sum(part.total for part in folded.held)
    return not facts.get("edited") and bool(json.loads(facts["corpus"])["chunks"] != total)


def _note_edits(con: duckdb.DuckDBPyConnection, facts: dict[str, str], at_once: int) -> None:
    """Remember in table run that the counts are not what the last fold left."""
    expected = json.loads(facts["corpus"])["sha256"]
    if digest_counts(con, at_once).facts(0)["sha256"] != expected or _groups_differ(con, at_once):
        put_facts(con, "run", {"edited": "true"})


def _add_parts(
    con: duckdb.DuckDBPyConnection, parts: Sequence[Part], new: Sequence[Part], at_once: int, threads: int
) -> CorpusFacts:
    """Add new parts and their stretches to the tables; the facts of the corpus."""
    append(con, "sources", Parts(new).spans.table())
    grouped = any(part.group_name for part in parts)
    adding = _Addition(con, new, at_once, grouped=grouped)
    digest = adding.run(threads)
    run_sql(con, "clear_source_groups")
    if grouped:  # also of groups that hold no text
        of_group = sorted(parts_by_group(parts).items())
        rows = [group_row(name, mine, adding.of_group.get(name, CorpusDigest())) for name, mine in of_group]
        append(con, "source_groups", pa.Table.from_pylist(rows))
    return digest.facts(sum(part.spans.total("documents") for part in parts))


class _Addition:
    """Adds what new parts hold to what the tables hold, by SQL: range after range goes into new tables, which then take
    the place of the old ones."""

    def __init__(self, con: duckdb.DuckDBPyConnection, new: Sequence[Part], at_once: int, *, grouped: bool) -> None:
        self._con = con
        self._new = new
        self._at_once = at_once
        self._grouped = grouped
        self.of_group: dict[str, CorpusDigest] = {}

    def run(self, threads: int) -> CorpusDigest:
        """Do all of it; returns the digest of the new chunk_counts."""
        run_sql(self._con, "make_new_counts")
        digest = CorpusDigest()
        with ThreadPoolExecutor(min(threads, 2)) as pool:
            for rows in self._sums(threads):
                for use in [pool.submit(digest.add, rows), pool.submit(self._put, rows)]:
                    use.result()
                del rows  # otherwise they would be held until the next ones are read
        run_sql(self._con, "take_new_counts")
        if digest.chunks > MAX_COUNT:
            raise too_many_chunks(digest.chunks)
        return digest

    def _put(self, rows: ChunkList) -> None:
        append(self._con, "new_chunk_counts", rows.table())

    def _sums(self, threads: int) -> Iterator[ChunkList]:
        """The new rows of chunk_counts, a range at a time."""
        ((holds_some,),) = run_sql(self._con, "has_chunk_counts")
        held = [(low, self._at_once) for low, _ in list_ranges(self._con, self._at_once)] if holds_some else []
        with opened(self._new) as files:
            for low, high in ranges(self._new, self._at_once, held):
                lists = lists_of_range(self._new, files, low, high, threads)
                if self._grouped:
                    self._add_groups(lists, low, high)
                pieces = [rows for rows in lists if rows is not None]
                del lists  # otherwise they would be held while they are merged
                added = merge(pieces)
                if holds_some:
                    added = ChunkList.of_table(self._sum("steps/add_counts", added.table(), low, high))
                yield added

    def _add_groups(self, lists: Sequence[ChunkList | None], low: str, high: str | None) -> None:
        """A range of group_counts."""
        pieces = [
            rows.table().append_column("group_name", pa.array([part.group_name] * len(rows), pa.string()))
            for part, rows in zip(self._new, lists, strict=True)
            if rows is not None
        ]
        found = self._sum("steps/add_group_counts", pa.concat_tables([_NO_GROUP_ROWS, *pieces]), low, high)
        append(self._con, "new_group_counts", found)
        _add_by_group(self.of_group, found)

    def _sum(self, step: str, rows: pa.Table, low: str, high: str | None) -> pa.Table:
        with incoming(self._con, rows):
            try:
                return query_arrow(self._con, step, first_chunk=low, end_chunk=high)
            except duckdb.ConversionException:
                raise too_many_chunks(f"more than {MAX_COUNT} of one chunk") from None


_NO_GROUP_ROWS = pa.schema([("chunk", pa.large_string()), ("n", pa.int64()), ("group_name", pa.string())]).empty_table()


def group_row(name: str, parts: Sequence[Part], digest: CorpusDigest) -> dict[str, object]:
    """A row of table source_groups; `digest` is that of the parts' sum."""
    return {"group_name": name, **digest.facts(sum(part.spans.total("documents") for part in parts))}
