"""Stretches as columns: the same answers as one Span after another gives, at any number of them."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streambpe.sources.read import gaps_between
from streambpe.store.merge import merged_lists
from streambpe.store.parts import list_parts, read_part, write_part
from streambpe.store.run import Run
from streambpe.store.spans import Span, Spans, SpansByPath
from tests.runs import ROOT, cli
from tests.tiers import examples

FEW = st.sampled_from(["", "a", "b", "é", "last", "part", "z"])


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest() if text else ""


def span_of(path: str, start: int, stop: int, state: str) -> Span:
    """A stretch of a text."""
    return Span(path, "txt", "", start, stop, 1, 1, 0, 0, 0, digest(f"{start}"), "p", 9, 9, state)


def by_place(span: Span) -> tuple[str, int, int]:
    return span.path, span.start_at, span.stop_at


@examples(400)
@given(st.lists(st.tuples(FEW, st.lists(st.integers(0, 20), max_size=6), st.booleans(), st.booleans()), max_size=4))
def test_which_sources_are_complete(sources: list[tuple[str, list[int], bool, bool]]) -> None:
    """A source is, if its stretches leave no gap and one is the last; overlaps are found."""
    spans: list[Span] = []
    for path, cuts, ended, gap in sources:
        bounds = sorted({0, *cuts})
        for start, stop in list(pairwise(bounds))[gap:]:
            spans.append(span_of(path, start, stop, "last" if ended and stop == bounds[-1] else "part"))
    columns = Spans.of(spans)
    ordered = sorted(spans, key=by_place)
    overlaps = any(
        a.path == b.path and (b.start_at < a.stop_at or a.start_at == b.start_at) for a, b in pairwise(ordered)
    )
    assert (columns.first_overlap() is not None) == overlaps
    if overlaps:
        return
    by_path = SpansByPath(columns)
    assert {path: list(mine) for path, mine in by_path.items()} == {
        path: [span for span in ordered if span.path == path] for path in {span.path for span in spans}
    }
    assert "no such path" not in by_path
    for path, mine in by_path.items():
        whole = any(span.state == "last" for span in mine) and len(gaps_between(mine.stretches())) == 1
        assert (path in by_path.complete) == whole
        assert gaps_between(mine.stretches(joined=True)) == gaps_between(mine.stretches())
        for span in mine:
            assert mine.digest_of(span.start_at, span.stop_at) == span.digest
            assert mine.digest_of(span.start_at, span.stop_at + 1) == ""


def run_of_many(place: Path, many: int) -> tuple[Path, list[Path]]:
    """A RUN with that many stretches of four sparse files, counted to their end, and those files."""
    run, small = place / "run", place / "small.txt"
    small.write_text("the quick brown fox jumps over the lazy dog\n")
    cli("count", run, small)
    opened, files = Run(run), []
    with opened.lock():
        parts = list_parts(opened)
        spans = list(parts.spans)
        for file in range(4):
            path = place / f"{file}.txt"
            files.append(path)
            ends = [(i + 1) * 65_536 - i * 7919 % 97 for i in range(many // 4)]
            with open(path, "wb") as out:
                out.truncate(ends[-1])
            stat = path.stat()
            for i, (start, stop) in enumerate(zip([0, *ends], ends, strict=False)):
                state = "last" if stop == ends[-1] else "part"
                name, of = f"part-{10 + len(spans):05d}", digest(f"{file} {i}")
                place_of = (str(path), "txt", "", start, stop, int(state == "last"), stop - start)
                spans.append(Span(*place_of, 0, 0, 0, of, name, stat.st_size, stat.st_mtime_ns, state))
        target, names = opened.counts / "merged-00002.parquet", [part.path.name for part in parts]
        write_part(target, merged_lists(parts, 1 << 20), spans, 1, names, run=opened.number)
    return run, files


MEASURED = """
import resource, subprocess, sys
subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, check=True)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="sparse files, and ru_maxrss in kilobytes")
def test_a_hundred_thousand_stretches_are_no_burden(tmp_path: Path) -> None:
    """As many as a terabyte has. Every command reads them within some 400 MB, and the footer is under 6 MB."""
    run, files = run_of_many(tmp_path, 125_000)
    (footer,) = [read_part(path) for path in (run / "counts").glob("merged-*")]
    assert len(footer.spans) == 125_001
    assert footer.path.stat().st_size < 6_000_000
    (tmp_path / "more.txt").write_text("something new\n")
    limit = ["--memory", "400MB", "--threads", "2"]
    for command in (
        ["count", run, *limit], ["count", run, *files, *limit], ["train", run, "--vocab-size", "300", *limit],
        ["resume", run], ["check", run, *limit], ["status", run], ["count", run, tmp_path / "more.txt", *limit],
        ["check", run, *limit],
    ):  # fmt: skip
        # a child of a small process: that of this one would begin with what this one holds
        done = subprocess.run(
            [sys.executable, "-c", MEASURED, sys.executable, "-m", "streambpe", *map(str, command)],
            cwd=ROOT, capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert int(done.stdout) < 450_000, command
