"""The step for pipelines of datatrove: real pipelines, whose sum is what one machine counts."""

from __future__ import annotations

import importlib
import importlib.util
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from streambpe.errors import RunMismatch, SourceChanged, UsageError
from streambpe.inspect.check import check
from streambpe.resources import Resources
from streambpe.store.exchange import merge_runs
from streambpe.store.parts import list_parts
from streambpe.store.run import Run
from streambpe.train.counting import sizes, worker
from streambpe.train.counting.count import count_from_iterator
from tests.runs import rows

ONE = Resources(400 * 10**6, 1)
TEXTS = [f"document {i} of {'many ' * (i % 7)}é東 words {i * i % 1000}" for i in range(300)]
real = pytest.mark.skipif(
    importlib.util.find_spec("datatrove") is None, reason="datatrove is not here: make test-long installs it"
)


def test_without_the_package_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("datatrove", "datatrove.pipeline", "datatrove.pipeline.base"):
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, "streambpe.datatrove", raising=False)
    with pytest.raises(ImportError, match="`pip install datatrove` installs it"):
        importlib.import_module("streambpe.datatrove")


def read(data: Any, rank: int, world_size: int) -> Iterator[Any]:
    """A reader: every third rank has no documents, and the others share them."""
    from datatrove.data import Document

    shares = [r for r in range(world_size) if r % 3 != 2]
    mine = TEXTS[shares.index(rank) :: len(shares)] if rank in shares else []
    for number, text in enumerate(mine):
        yield Document(text, id=f"{rank}/{number}", metadata={"rank": rank})


class Noting:
    """A step that writes down what reaches it, or fails at a document."""

    def __init__(self, folder: Path, fails_at: int | None = None) -> None:
        self.folder, self.fails_at = folder, fails_at

    def __call__(self, data: Any, rank: int, world_size: int) -> Iterator[Any]:
        passed = []
        for document in data:
            if len(passed) == self.fails_at:
                raise RuntimeError("this step fails")
            passed.append([document.id, document.text, document.metadata])
            yield document
        (self.folder / f"passed-{rank}.json").write_text(json.dumps(passed))


def executor(tmp_path: Path, steps: list[Any], tasks: int, workers: int = 1) -> Any:
    from datatrove.executor import LocalPipelineExecutor

    return LocalPipelineExecutor(steps, tasks=tasks, workers=workers, logging_dir=str(tmp_path / "logs"))


def content(run: Path) -> tuple[Any, ...]:
    corpus = json.loads(Run(run).facts()["corpus"])
    return corpus["sha256"], corpus["documents"], rows(run, "SELECT * FROM chunk_counts ORDER BY chunk")


@real
@pytest.mark.long
@pytest.mark.parametrize("pattern", ["gpt4o", r"\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+|\s+"])
def test_ranks_add_up_to_what_one_machine_counts(tmp_path: Path, pattern: str) -> None:
    """In processes, one of them without documents; with their documents, and the steps behind get all of them."""
    from streambpe.datatrove import CountDocuments

    step = CountDocuments(tmp_path / "parts", pattern=pattern, sequences=True, memory="400MB")
    executor(tmp_path, [read, step, Noting(tmp_path)], tasks=4, workers=2).run()
    passed = [json.loads((tmp_path / f"passed-{rank}.json").read_text()) for rank in range(4)]
    assert sorted(text for some in passed for _, text, _ in some) == sorted(TEXTS)
    assert passed[2] == []
    assert passed[1][5] == ["1/5", TEXTS[16], {"rank": 1}]
    runs = sorted((tmp_path / "parts").iterdir())
    assert [run.name for run in runs] == [f"part-{rank:05d}-of-00004" for rank in range(4)]
    merge_runs(tmp_path / "all", runs, resources=ONE)
    count_from_iterator(tmp_path / "one", TEXTS, pattern=pattern, sequences=True, resources=ONE)
    assert content(tmp_path / "all") == content(tmp_path / "one")
    assert check(tmp_path / "all", resources=ONE) == []


@real
@pytest.mark.long
def test_a_rank_that_failed_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What came before the failure is kept and not counted twice; other documents or options are refused."""
    from streambpe import datatrove
    from streambpe.datatrove import CountDocuments

    monkeypatch.setattr(datatrove, "_BATCH_DOCUMENTS", 7)
    monkeypatch.setattr(worker, "CHECKPOINT_SECONDS", 0.0)
    monkeypatch.setattr(sizes, "LEAST_BLOCK", 300)
    monkeypatch.setattr(sizes, "MOST_BLOCK", 300)
    parts = tmp_path / "parts"
    for fails_at in (50, 120):
        with pytest.raises(RuntimeError, match="this step fails"):
            executor(tmp_path, [read, CountDocuments(parts), Noting(tmp_path, fails_at)], tasks=1).run()
    run = parts / "part-00000-of-00001"
    assert list_parts(Run(run)).spans.total("documents") > 0
    with pytest.raises(SourceChanged, match="is not the input it was"):
        list(CountDocuments(parts).run(iter(read_others()), 0, 1))
    with pytest.raises(RunMismatch, match="counts with --pattern gpt4o, not gpt2"):
        list(CountDocuments(parts, pattern="gpt2").run(read(None, 0, 1), 0, 1))
    executor(tmp_path, [read, CountDocuments(parts), Noting(tmp_path)], tasks=1).run()
    count_from_iterator(tmp_path / "one", TEXTS, resources=ONE)
    assert content(run) == content(tmp_path / "one")
    assert len(json.loads((tmp_path / "passed-0.json").read_text())) == len(TEXTS)
    passed = list(CountDocuments(parts).run(read(None, 0, 1), 0, 1))  # once more, though it is counted
    assert [document.text for document in passed] == TEXTS
    assert content(run) == content(tmp_path / "one")


def read_others() -> list[Any]:
    from datatrove.data import Document

    return [Document(f"another {text}", id="x") for text in TEXTS]


@real
@pytest.mark.long
def test_options_of_the_step() -> None:
    from streambpe.datatrove import CountDocuments

    with pytest.raises(UsageError, match=r"has no option 'lines'\. It has pattern, "):
        CountDocuments("parts", lines=True)  # type: ignore[call-arg]
    with pytest.raises(UsageError, match="about one document in ten"):
        CountDocuments("parts", sample="1/x")
