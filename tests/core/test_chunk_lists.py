"""Sorted columns of chunks in the core: merged, searched, laid out, judged by Counter, sorted and plain bytes."""

from __future__ import annotations

import bisect
from collections import Counter
from itertools import pairwise

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streambpe.core.binding import ChunkTable
from streambpe.core.strings import ChunkList, merge
from streambpe.errors import CoreError

# chunks that begin alike, hold NUL, are prefixes of each other, or differ behind their eighth byte
chunk = st.one_of(
    st.text(st.sampled_from("a\0é\U0010ffff"), min_size=1, max_size=4),
    st.builds(lambda end: "prefixed" + end, st.text(st.sampled_from("a\0z"), max_size=3)),
)
edge_of_a_slot = st.builds(
    lambda size, end: b"p" * size + bytes(end),
    st.sampled_from([0, 6, 7, 12, 13, 14, 15, 30]),
    st.lists(st.sampled_from(b"\0p\xff"), min_size=1, max_size=3),
)
tables = st.dictionaries(chunk, st.integers(1, 2**40), max_size=30)


def as_list(table: dict[str, int]) -> ChunkList:
    rows = sorted(table.items(), key=lambda row: row[0].encode())
    frame = pl.DataFrame(rows, schema={"chunk": pl.String, "n": pl.Int64}, orient="row")
    return ChunkList.of_table(frame.to_arrow(compat_level=pl.CompatLevel.oldest()))


def as_rows(chunks: ChunkList) -> list[tuple[str, int]]:
    return list(chunks.frame().iter_rows())


@given(st.lists(tables, max_size=9))
def test_lists_are_added_up_in_the_order_of_their_bytes(many):
    """Any number of lists, empty ones among them, in any order."""
    total: Counter[str] = Counter()
    for table in many:
        total.update(table)
    expected = sorted(total.items(), key=lambda row: row[0].encode())
    assert as_rows(merge([as_list(table) for table in many])) == expected
    assert as_rows(merge([as_list(table) for table in many[::-1]])) == expected


@given(tables, chunk)
def test_a_place_is_found_as_by_bisection(table, wanted):
    """Of what is there and what is not; parts begin and end there."""
    chunks = as_list(table)
    ordered = sorted(name.encode() for name in table)
    place = chunks.first_not_below(wanted)
    assert place == bisect.bisect_left(ordered, wanted.encode())
    assert [name.encode() for name, _ in as_rows(chunks.part(place, len(chunks)))] == ordered[place:]
    assert [name.encode() for name, _ in as_rows(merge([chunks.part(0, place)]))] == ordered[:place]


@given(st.lists(chunk, max_size=6), st.booleans())
def test_a_chunk_out_of_order_is_noticed(names, in_order):
    """One that stands a second time is out of order too; offsets may begin anywhere."""
    if in_order:
        names = sorted(set(names), key=str.encode)
    encoded = [name.encode() for name in ["skipped", *names]]
    offsets = np.cumsum([0, *map(len, encoded)])
    data = np.frombuffer(b"".join(encoded), np.uint8)
    chunks = ChunkList(offsets[1:], data, np.ones(len(names), np.int64))
    assert chunks.in_order == all(a < b for a, b in pairwise(encoded[1:]))
    assert [chunks.chunk(at) for at in range(len(names))] == encoded[1:]


@given(tables)
def test_rows_are_laid_out_as_the_digest_is_defined(table):
    """Length, bytes, count; numbers as eight bytes, the lowest first. Also of a part, whose offsets begin anywhere."""
    expected = [
        len(name.encode()).to_bytes(8, "little") + name.encode() + n.to_bytes(8, "little")
        for name, n in sorted(table.items(), key=lambda row: row[0].encode())
    ]
    chunks = as_list(table)
    assert chunks.laid_out().tobytes() == b"".join(expected)
    assert chunks.part(len(chunks) // 2, len(chunks)).laid_out().tobytes() == b"".join(expected[len(chunks) // 2 :])


def test_a_sum_beyond_64_bits_is_an_error():
    """Not a negative count."""
    full = as_list({"a": 1, "b": 2**63 - 1})
    assert as_rows(merge([full, as_list({"a": 2})])) == [("a", 3), ("b", 2**63 - 1)]
    assert as_rows(merge([as_list({"b": -5, "c": -1}), full])) == [("a", 1), ("b", 2**63 - 6), ("c", -1)]
    with pytest.raises(CoreError, match="64 bits"):
        merge([full, as_list({"b": 1})])


@given(st.lists(st.tuples(edge_of_a_slot, st.integers(0, 2**40)), max_size=80), st.integers(0, 16))
def test_chunks_that_are_added_come_out_in_the_order_of_their_bytes(added, behind):
    """Those that a slot of the table holds whole, and longer ones that begin like them; with memory behind the last one
    and without."""
    offsets = np.cumsum([0, *(len(chunk) for chunk, _ in added)])
    data = np.frombuffer(b"".join(chunk for chunk, _ in added) + bytes(behind), np.uint8)
    table, total = ChunkTable(1 << 20), Counter[bytes]()
    for chunk, n in added:
        total[chunk] += n
    assert table.add(offsets, data, np.array([n for _, n in added], np.int64)) == len(added)
    ends, held, numbers = table.take()
    names = [bytes(held[a:b]) for a, b in pairwise(ends)]
    assert list(zip(names, numbers.tolist(), strict=True)) == sorted(total.items())


def test_an_empty_chunk_is_refused():
    """Its key would be that of a free slot, and the next chunk that takes the slot would inherit its count."""
    with pytest.raises(CoreError, match="failed"):
        ChunkTable(1 << 20).add(np.array([0, 0, 1]), np.frombuffer(b"a", np.uint8), np.array([5, 1]))
