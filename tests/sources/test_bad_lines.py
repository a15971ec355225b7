"""--bad-lines skip: lines that cannot be read are left out and counted, wherever blocks end and whoever counts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from streambpe.errors import LimitError, SourceError
from streambpe.resources import Resources
from streambpe.sources.decode import block_text
from streambpe.sources.read import Reader
from streambpe.sources.source import BadUtf8, Source
from streambpe.store.parts import list_parts
from streambpe.store.run import Run
from streambpe.text.patterns import find_pattern
from streambpe.train.counting.count import count
from tests.runs import change, cli, rows, small_blocks
from tests.samples import written

GOOD = ["The first line, of several words.", "naïve café 東京", "", "a" * 300, "last"]
BAD_JSON = [
    b'{"text": "cut', b"[1]", b'{"other": "x"}', b'{"text": 5}', b'{"text": "a"} {"text": "b"}', b"nothing", b'"text"',
    b'{"text":', b'"over two lines"}', b'{"text": "tab\there"}',
]  # fmt: skip
NO_UTF8 = {
    "jsonl": [b'{"text": "caf\xe9"}', b'{"text": "x", "other": "\xff"}', b'{"text": "half \\ud800"}'],
    "csv": [b"1,caf\xe9", b'\xff,"x"'],
    "lines": [b"caf\xe9 " * 40, b"\xff"],
}
ONE = Resources(400 * 10**6, 1, engine="threads")


def good_lines(kind: str) -> list[bytes]:
    """GOOD as lines of a kind of source."""
    if kind == "jsonl":
        return [json.dumps({"text": text, "deep": {"a": [{}]}}, ensure_ascii=False).encode() for text in GOOD]
    return [f'7,"{text}"'.encode() if kind == "csv" else text.encode() for text in GOOD]


def bad_lines(kind: str, bad_utf8: str) -> list[bytes]:
    """Lines that cannot be read."""
    first = {"jsonl": BAD_JSON, "csv": [b"one", b'"one"'], "lines": []}[kind]
    return [*first, *(NO_UTF8[kind] if bad_utf8 == "error" else [])]


def write(path: Path, kind: str, bad: Sequence[bytes]) -> Source:
    """A source of good lines with bad ones between them, which stand alone or two by two."""
    lines = [b"id,text"] if kind == "csv" else []
    for i, line in enumerate(bad):
        lines += [*good_lines(kind), line] if i % 2 else [line]
    path.write_bytes(b"\n".join([*lines, *good_lines(kind), b""]))
    return Source(str(path), kind, any_bytes=True)  # type: ignore[arg-type]


def read(source: Source, block_bytes: int, bad_utf8: BadUtf8, *, whole: bool) -> tuple[bytes, int]:
    """(the documents, how many lines were left out)."""
    reader = Reader(find_pattern("gpt4o"), block_bytes, 1 << 20, whole_lines=whole)
    made = [block_text(block, bad_utf8, "skip") for block in reader.blocks(source)]
    return b"".join(each.text for each in made), sum(each.bad_lines for each in made)


@pytest.mark.parametrize("bad_utf8", ["replace", "error"])
@pytest.mark.parametrize("kind", ["jsonl", "csv", "lines"])
def test_what_is_left_is_the_source_without_its_bad_lines(tmp_path, kind, bad_utf8):
    """Whatever the size of the blocks: nothing that stands beside a bad line is lost, and none is taken."""
    bad = bad_lines(kind, bad_utf8)
    source = write(tmp_path / "bad", kind, bad)
    good = [line for line in Path(source.path).read_bytes().split(b"\n") if line not in bad]
    without = replace(source, path=str(written(tmp_path / "good", b"\n".join(good))))
    expected = read(without, 1 << 20, bad_utf8, whole=True)[0]
    for block_bytes in (1, 40, 200, 1 << 20):
        assert read(source, block_bytes, bad_utf8, whole=bad_utf8 == "error") == (expected, len(bad))


def test_a_line_that_is_too_long_to_be_judged_is_refused(tmp_path):
    """With --bad-utf8 error one byte decides about a whole line, so it must fit."""
    path = written(tmp_path / "a.txt", b"word " * 500_000)
    with pytest.raises(LimitError, match="one line has to be read as a whole"):
        read(Source(str(path), "lines"), 1 << 16, "error", whole=True)


def test_a_run_goes_on_with_skip_after_a_bad_line_ended_it(tmp_path):
    """The same counts as with skip from the beginning; the lines stand in the tables, in status and in what is told."""
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"\n".join([*good_lines("jsonl"), b"bad", b'{"text": 1}', b'{"text": "end"}', b""]))
    run, from_start = tmp_path / "run", tmp_path / "again"
    stopped = cli("count", run, path, "--threads", 1, expect=1).stderr
    assert "a.jsonl line 6 is not JSON" in stopped
    assert "--bad-lines skip" in stopped
    told = cli("count", run, path, "--bad-lines", "skip", "--threads", 1).stderr
    assert "--bad-lines skip from now on" in told
    assert f"2 lines that cannot be read are left out (--bad-lines skip): {path} (2)." in told
    cli("count", from_start, path, "--bad-lines", "skip", "--threads", 1)
    assert Run(run).facts()["corpus"] == Run(from_start).facts()["corpus"]
    assert rows(run, "SELECT documents, bad_lines FROM source_files") == [(len(GOOD) + 1, 2)]
    assert "2 lines left out" in cli("status", run).stdout
    assert "everything adds up" in cli("check", run, "--sources").stderr
    refused = cli("count", run, path, "--bad-lines", "error", expect=2).stderr
    assert "was counted with --bad-lines skip, not error" in refused
    Run(run).state.unlink()  # made again from run.json and the parts
    cli("count", run, path, "--threads", 1)
    assert rows(run, "SELECT sum(bad_lines)::INT FROM sources") == [(2,)]


@pytest.mark.long
def test_check_knows_the_bad_lines(tmp_path):
    """Their number in table sources, and their bytes in the file."""
    path, run = written(tmp_path / "a.jsonl", b"\n".join([*good_lines("jsonl"), b"bad", b""])), tmp_path / "run"
    count(run, [str(path)], resources=ONE, bad_lines="skip")
    change(run, "UPDATE sources SET bad_lines = 5")
    assert "sources: " in cli("check", run, expect=1).stdout
    path.write_bytes(path.read_bytes().replace(b"\nbad\n", b'\n"a"\n'))  # as many bad lines, other bytes
    assert "is not what was counted" in cli("check", run, "--sources", expect=1).stdout


def test_half_a_line_of_text_does_not_go_on_with_skip(tmp_path, monkeypatch):
    """With --bad-utf8 error a stretch may end inside a line, and the rest of it would leave out what is counted."""
    small_blocks(monkeypatch, 200)
    path, run = tmp_path / "a.txt", tmp_path / "run"
    path.write_bytes(b"good\n" + b"word " * 500 + b"\xff\n")
    with pytest.raises(SourceError, match="is not UTF-8"):
        count(run, [str(path)], resources=ONE, lines=True, bad_utf8="error")
    assert not list_parts(Run(run)).by_path.complete
    assert len(list_parts(Run(run)).spans)
    refused = cli("count", run, path, "--lines", "--bad-lines", "skip", expect=2).stderr
    assert "was counted with --bad-lines error, not skip; nothing was changed" in refused
    again = tmp_path / "again"
    assert count(again, [str(path)], resources=ONE, lines=True, bad_utf8="error", bad_lines="skip").corpus["bytes"] == 4


@pytest.mark.long
def test_runs_that_skip_and_runs_without_bad_lines_add_up(tmp_path):
    """A run that no bad line ended is what it would be with skip."""
    for name, bad, how in (("one", [], "error"), ("two", [b"bad"], "skip")):
        path = written(tmp_path / f"{name}.jsonl", b"\n".join([*good_lines("jsonl"), *bad, b""]))
        count(tmp_path / name, [str(path)], resources=ONE, bad_lines=how)
    cli("merge-counts", tmp_path / "all", tmp_path / "one", tmp_path / "two")
    cli("merge-counts", tmp_path / "one", tmp_path / "two")
    for run in ("all", "one"):
        assert rows(tmp_path / run, "SELECT sum(bad_lines)::INT FROM sources") == [(1,)]
        assert json.loads(Run(tmp_path / run).facts()["config"])["bad_lines"] == "skip"
    assert Run(tmp_path / "all").facts()["corpus"] == Run(tmp_path / "one").facts()["corpus"]
