"""The example for datatrove in docs/counting.md, run as it stands there."""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from streambpe.inspect.check import check
from streambpe.resources import Resources
from streambpe.store.exchange import merge_counts
from streambpe.store.run import Run
from streambpe.train.counting.count import count_from_iterator
from tests.runs import rows

PAGE = Path(__file__).parents[3] / "docs" / "counting.md"
ONE = Resources(400 * 10**6, 1)


def content(run: Path) -> tuple[Any, ...]:
    corpus = json.loads(Run(run).facts()["corpus"])
    return corpus["sha256"], corpus["documents"], rows(run, "SELECT * FROM chunk_counts ORDER BY chunk")


@pytest.mark.long
@pytest.mark.skipif(
    importlib.util.find_spec("datatrove") is None, reason="datatrove is not here: make test-long installs it"
)
def test_the_ranks_of_the_example_add_up_to_what_one_machine_counts(tmp_path: Path) -> None:
    """A rank of two documents, a rank of one, and none of those that the filter leaves out; run twice, counted once."""
    files = {
        "a": ["one document of \u00e9\u6771 words", "too short", "and another one, longer"],
        "b": ["one document of b's words"],
    }
    (tmp_path / "corpus").mkdir()
    for name, texts in files.items():
        lines = (json.dumps({"text": text, "id": str(number)}) + "\n" for number, text in enumerate(texts))
        (tmp_path / "corpus" / f"{name}.jsonl").write_text("".join(lines), encoding="utf-8")
    page = PAGE.read_text(encoding="utf-8")
    example = page.split("```python\n", 1)[1].split("```", 1)[0]
    (tmp_path / "count_step.py").write_text(example, encoding="utf-8")
    for _ in range(2):
        shutil.rmtree(tmp_path / "logs", ignore_errors=True)  # datatrove passes over ranks that its logs call done
        subprocess.run([sys.executable, "count_step.py"], cwd=tmp_path, check=True, capture_output=True)
    parts = sorted((tmp_path / "runs").iterdir())
    assert [part.name for part in parts] == ["part-00000-of-00002", "part-00001-of-00002"]
    merge_counts(tmp_path / "all", parts, resources=ONE)
    count_from_iterator(tmp_path / "one", [t for ts in files.values() for t in ts if len(t) > 20], resources=ONE)
    assert content(tmp_path / "all") == content(tmp_path / "one")
    assert check(tmp_path / "all", resources=ONE) == []
