"""Table chunk_counts is what training learns from; it is filled from the parts in counts/, which are its backup too.

    counts/part-00007.parquet     stretches of the input, counted once; the file is renamed into place when it is whole
    fold                          fills chunk_counts with the sum of all parts, and table sources with their stretches,
                                  in one transaction: a kill at any moment leaves each part counted once
    counts/merged-00003.parquet   several folded parts added up; names the files it replaces

Counts are added up one range of chunks after another, so that memory does not grow with the counts and the rows end up
in the order of the chunks' bytes. Rows that were changed by hand stay until the user has them filled again.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import duckdb
import msgspec
import numpy as np
import pyarrow as pa

from streambpe.core.strings import ChunkList, merge
from streambpe.errors import RunError, typed
from streambpe.failpoints import failpoint
from streambpe.later import compute as pc
from streambpe.model.corpus_facts import CorpusFacts
from streambpe.resources import BASE_BYTES, Resources
from streambpe.store.counted import CorpusDigest, digest_counts, list_ranges
from streambpe.store.database import append, open_store
from streambpe.store.merge import compact, lists_of_range, opened, ranges
from streambpe.store.parts import Part, Parts, list_parts, parts_by_group
from streambpe.store.run import Run
from streambpe.store.sqlfiles import query_arrow, run_sql
from streambpe.store.unfinished import note_lost, read_record, unfinished

_FOLDED = "folded"  # in a run's cache: written_at() of tables that hold what was folded


class Folded(msgspec.Struct, frozen=True):
    """Which parts the tables hold."""

    held: list[Part]
    new: list[Part]
    differs: bool  # the tables hold stretches that no part has, or not all of a part

    @classmethod
    def of(cls, run: Run, parts: Parts) -> Folded:
        """Judged by the stretches in table sources: a fold puts all stretches of a part there."""
        there, all_of_them = parts.spans.found_in(run.tables().stretches)
        mine = np.split(there, np.cumsum([len(part.spans) for part in parts], dtype=np.int64))[:-1]
        held = [part for part, some in zip(parts, mine, strict=True) if some.any()]
        new = [part for part, some in zip(parts, mine, strict=True) if not some.any()]
        return cls(held, new, not all_of_them or any(some.any() and not some.all() for some in mine))

    def is_behind(self, corpus: CorpusFacts | None) -> bool:
        """Whether the tables are not what the parts make. `corpus`: what table run says of them."""
        return self.differs or bool(self.new) or not corpus or corpus["chunks"] != sum(p.total for p in self.held)


def fold(run: Run, resources: Resources, *, again: bool = False) -> CorpusFacts:
    """Fill the tables from the committed parts, unless they hold them; returns the corpus facts. One transaction.

    Counts that somebody edited are kept, and an error says so if the tables lack a part. `again`: fill them whatever
    they hold.
    """
    parts = list_parts(run, clean=True)
    facts = run.facts()
    note_lost(run, parts)
    told = {"unfinished": json.dumps([s.as_fact(whole_path=True) for s in unfinished(read_record(run).sources, parts)])}
    folded = Folded.of(run, parts)
    corpus: CorpusFacts = json.loads(facts.get("corpus", "null"))
    fill = again or folded.is_behind(corpus)
    if not fill and facts.get("unfinished", "[]") == told["unfinished"]:
        return corpus
    if fill and not again:
        refuse_edited(run, resources, "and filling the tables from counts/ would undo that")
    at_once = range_bytes(resources, 64 << 20)
    if fill:  # the parts that the tables hold are not merged with others before these are there, too
        parts = Parts([*folded.held, *compact(run, folded.new, at_once)])
    with run.writing(**_for_duckdb(resources)) as con:
        con.begin()
        if fill:
            corpus = _fill(con, parts, at_once, resources.threads)
            told["corpus"] = json.dumps(corpus)
        failpoint("fold-filled")
        run.commit(con, told)
    if fill:
        run.cache[_FOLDED] = run.written_at()
    failpoint("fold-committed")
    compact(run, list(list_parts(run)), at_once)
    return corpus


def is_edited(run: Run, resources: Resources) -> bool:
    """Whether somebody changed the counts since the tables were filled."""
    return "corpus" in run.facts() and any(read_totals(run, resources)[1:])


def refuse_edited(run: Run, resources: Resources, why: str) -> None:
    """An error if counts were edited. `why`: why they may not be, as the end of a sentence."""
    if is_edited(run, resources):
        raise RunError(
            f"chunk_counts or group_counts of {run.path} was edited, {why}. Nothing was changed. `streambpe count "
            f"{typed(run.path)}` fills them again, without the edits."
        )


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


def range_bytes(resources: Resources, most: int = 4 << 20) -> int:
    """How much of the counts is read at once. `most`: more for a merge of many files, which reads a row group of each
    again for every range."""
    return min(max(_spare(resources) // 32, 1 << 20), most)


def read_totals(run: Run, resources: Resources) -> tuple[CorpusFacts, bool, bool]:
    """What the counts add up to now, as the facts of a corpus; whether somebody edited chunk_counts since the tables
    were filled, and whether group_counts.

    The counts are read for that, unless this command has folded or read them and nobody wrote to the tables since.
    """
    stated: CorpusFacts = json.loads(run.facts()["corpus"])
    if run.cache.get(_FOLDED) == run.written_at():
        return stated, False, False
    at_once = range_bytes(resources)
    with contextlib.closing(open_counts(run, resources)) as con:
        found = digest_counts(con, at_once).facts(stated["documents"])
        groups_edited = _groups_differ(con, at_once)
    edited = found["sha256"] != stated["sha256"]
    if not (edited or groups_edited):
        run.cache[_FOLDED] = run.written_at()
    return found, edited, groups_edited


def _groups_differ(con: duckdb.DuckDBPyConnection, at_once: int) -> bool:
    """Whether group_counts is not what table source_groups says of every group."""
    stated = {name: sha256 for name, *_, sha256 in run_sql(con, "get_source_groups")}
    if not stated:
        return False
    found = {name: CorpusDigest() for name in stated}
    for low, high in list_ranges(con, at_once):
        rows = query_arrow(con, "read_group_range", first_chunk=low, end_chunk=high)
        for name in pc.unique(rows["group_name"]).to_pylist():
            mine = rows.filter(pc.equal(rows["group_name"], name)).select(["chunk", "n"])
            found.setdefault(name, CorpusDigest()).add(ChunkList.of_table(mine))
    return {name: digest.facts(0)["sha256"] for name, digest in found.items()} != stated


def _fill(con: duckdb.DuckDBPyConnection, parts: Parts, at_once: int, threads: int) -> CorpusFacts:
    """Make the tables anew from the parts, one range of chunks after another; the facts of the corpus."""
    run_sql(con, "drop_counts")
    for table in ("chunk_counts", "group_counts"):
        run_sql(con, f"schema/{table}")
    append(con, "sources", parts.spans.table())
    groups = parts_by_group(parts)
    if groups.keys() == {""}:
        groups = {}
    digest, digests = CorpusDigest(), {name: CorpusDigest() for name in groups}
    with ThreadPoolExecutor(min(threads, 2)) as pool, opened(parts) as files:
        for low, high in ranges(parts, at_once):
            of_group: dict[str, list[ChunkList]] = {}
            for part, piece in zip(parts, lists_of_range(parts, files, low, high, threads), strict=True):
                if piece is not None:
                    of_group.setdefault(part.group_name, []).append(piece)
            sums = {name: merge(pieces) for name, pieces in sorted(of_group.items())}
            of_group.clear()  # otherwise they would be held until the next ones are read
            for name in groups.keys() & sums.keys():
                digests[name].add(sums[name])
                column = pa.array([name] * len(sums[name]), pa.string())
                append(con, "group_counts", sums[name].table().append_column("group_name", column))
            rows = merge(list(sums.values())) if len(sums) != 1 else sums.popitem()[1]
            sums.clear()
            for use in [pool.submit(digest.add, rows), pool.submit(append, con, "chunk_counts", rows.table())]:
                use.result()
            del rows
    if groups:
        table_rows = [group_row(name, mine, digests[name]) for name, mine in groups.items()]
        append(con, "source_groups", pa.Table.from_pylist(table_rows))
    return digest.facts(parts.spans.total("documents"))


def group_row(name: str, parts: Sequence[Part], digest: CorpusDigest) -> dict[str, object]:
    """A row of table source_groups; `digest` is that of the parts' sum."""
    return {"group_name": name, **digest.facts(sum(part.spans.total("documents") for part in parts))}
