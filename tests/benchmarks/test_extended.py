"""benchmarks/extend.py: what is held out, and what is said of an extended file."""

from __future__ import annotations

import json


def test_lines_are_held_out_and_files_compared(benchmark, tmp_path):
    """Every tenth line; the merges behind the old ones; an id that moved is told."""
    extend = benchmark("extend")
    lines = [f"line {number}\n" for number in range(30)]
    (tmp_path / "text.txt").write_text("".join(lines))
    kept, held = extend.split_lines(str(tmp_path / "text.txt"), None, tmp_path)
    assert held.read_text() == "".join(lines[::10])
    assert sorted((kept.read_text() + held.read_text()).splitlines(keepends=True)) == sorted(lines)
    assert extend.split_lines(str(tmp_path / "text.txt"), 30e-6, tmp_path)[0].read_text() == "".join(lines[1:5])

    def written(name: str, vocab: dict[str, int], merges: list[list[str]]):
        path = tmp_path / name
        path.write_text(json.dumps({"model": {"vocab": vocab, "merges": merges}}))
        return path

    old = written("old", {"a": 0, "b": 1, "ab": 2}, [["a", "b"]])
    new = written("new", {"a": 0, "b": 1, "ab": 2, "aba": 3}, [["a", "b"], ["ab", "a"]])
    moved = written("moved", {"a": 0, "b": 2, "ab": 1, "aba": 3}, [["a", "b"], ["ab", "a"]])
    facts = extend.facts_of(new, old)
    assert (facts["ids"], facts["old_ids"]) == (5, "kept")
    assert extend.facts_of(moved, old) == {**facts, "old_ids": "CHANGED"}
