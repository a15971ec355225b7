"""What must not depend on who counted, for the tests of tasks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from streambpe.inspect.check import check
from streambpe.resources import Resources
from streambpe.store.run import Run
from streambpe.train.counting.count import count
from streambpe.train.counting.tasks import attempts_folder
from tests.runs import rows
from tests.samples import sample_text

THREADS = Resources(800 * 10**6, 2, engine="threads")
Tables = tuple[Any, ...]


def write_lines(folder: Path) -> list[str]:
    """Write a.jsonl and b.txt; the lines of the first."""
    lines = [line for i in range(4) for line in sample_text(i, words=12_000).split("\n")]
    text = "".join(json.dumps({"text": line, "n": i}) + "\n" for i, line in enumerate(lines))
    (folder / "a.jsonl").write_text(text, encoding="utf-8")
    (folder / "b.txt").write_text(sample_text(5, words=20_000), encoding="utf-8")
    return lines


def counted(run: Path, corpus: Path, resources: Resources, **more: Any) -> Tables:
    """Count; everything that must not depend on who counted. All adds up, and no attempt left a file."""
    count(run, [str(corpus)], resources=resources, **more)
    return everything(run)


def everything(run: Path) -> Tables:
    """The same of a run that is counted."""
    assert check(run, sources=True, resources=THREADS) == []
    assert not attempts_folder(Run(run)).parent.exists()
    assert not [path for path in run.rglob("*") if ".new" in path.name]
    status = Run(run).read_status()
    if {Path(path).suffix for (path,) in rows(run, "SELECT path FROM sources")} <= {".jsonl", ".txt"}:
        assert status["done"] == status["total"], "progress is neither lost nor told twice"
    stretches = "SELECT path, min(start_at), max(stop_at), sum(documents), sum(text_bytes), sum(nulls) FROM sources"
    return (
        Run(run).facts()["corpus"],
        rows(run, "SELECT chunk, n FROM chunk_counts ORDER BY chunk"),
        rows(run, f"{stretches} GROUP BY path ORDER BY path"),
        rows(run, "FROM group_counts ORDER BY ALL"),
    )
