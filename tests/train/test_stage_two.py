"""The second stage of uw by tasks: the same tokens and counts, whoever does it and whatever dies on the way."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streambpe.errors import LimitError
from streambpe.model.alphabet import Alphabet
from streambpe.runners.runner import Attempt, Here, Runner
from streambpe.store.parts import list_parts
from streambpe.store.run import Run
from streambpe.store.sequences import order_parts
from streambpe.text.patterns import find_pattern
from streambpe.train.commands import train
from streambpe.train.superwords import stage2
from streambpe.train.superwords.stage2 import StageTwo, shard_tokens
from tests.runs import SMALL, log_of, small_blocks
from tests.samples import natural_text

Made = tuple[bytes, bytes, bytes]
NO_CUTS = "none"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Words, and documents of many parts: a text that goes on from part to part, and some of one part each."""
    folder = tmp_path_factory.mktemp("stage2")
    (folder / "texts").mkdir()
    (folder / "texts/a.txt").write_text(natural_text(1, 40_000), encoding="utf-8")
    (folder / "texts/b.txt").write_text(natural_text(2, 400), encoding="utf-8")
    (folder / "texts/c.jsonl").write_text("".join(f'{{"text": "day {i} of the end"}}\n' for i in range(200)))
    with pytest.MonkeyPatch.context() as patched:
        small_blocks(patched, 1 << 12, ordered=False)
        counting: dict[str, Any] = {"options": {"pattern": "superbpe1", "sequences": True}}
        train(folder / "run", [str(folder / "texts")], resources=SMALL, counting=counting, vocab_size=400)
    return folder / "run"


def stage_of(run: Path, folder: Path, pattern: str = "superbpe2") -> StageTwo:
    log = log_of(run)
    alphabet = Alphabet.from_header(log.header.alphabet)
    contents = [*alphabet.symbols]
    for event in log.events:
        contents.append(b"".join(contents[part - alphabet.first_id] for part in event.pair))
    parts = order_parts(Run(run), list_parts(Run(run)))
    assert len(parts) > 8
    return StageTwo(
        Run(run).sequences, parts, find_pattern(pattern, gaps="keep"), alphabet, contents, log.events, False, folder,
        1 << 20, "these",
    )  # fmt: skip


def made(stage: StageTwo, runner: Runner | None = None) -> Made:
    """All tokens in order, and what the words count there."""
    reader = stage.write(runner or Here(1, 1 << 28), lambda n: None)
    assert not stage.attempts.exists()
    n, stood = stage.counted()
    return np.concatenate([reader.read(part) for part in reader.parts]).tobytes(), n.tobytes(), stood.tobytes()


@pytest.mark.every(6)
@pytest.mark.parametrize("pattern", ["superbpe2", NO_CUTS])
def test_tasks_make_what_one_thread_makes(
    run: Path, tmp_path: Path, pattern: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a pattern that cuts nowhere for certain, too: all of the text then goes from part to part."""
    ones = made(stage_of(run, tmp_path / "one", pattern))
    monkeypatch.setattr(stage2, "_MOST_PARTS", 2)
    assert made(stage_of(run, tmp_path / "tasks", pattern), Here(3, 1 << 28)) == ones


@pytest.mark.long
def test_a_dead_worker_that_still_writes_harms_nothing(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Attempt 1 begins while attempt 0 is at work on its first part: attempt 0 can commit nothing any more."""
    ones = made(stage_of(run, tmp_path / "one"))
    stage = stage_of(run, tmp_path / "tasks")
    stage.folder.mkdir()
    task, begun, encode = (0, len(stage.parts)), threading.Event(), StageTwo.encode

    def slow(*given: Any) -> Any:
        if not begun.is_set():
            begun.set()
            shard_tokens(task, Attempt(1, 1 << 28, stage, lambda: False, lambda n: None))
        return encode(*given)

    monkeypatch.setattr(StageTwo, "encode", slow)
    with pytest.raises(OSError, match="tokens-0"):
        shard_tokens(task, Attempt(0, 1 << 28, stage, lambda: False, lambda n: None))
    assert made(stage) == ones


def test_a_text_without_a_certain_border_is_refused(run: Path, tmp_path: Path) -> None:
    stage = stage_of(run, tmp_path / "one", NO_CUTS)
    stage.most_bytes = 20_000
    with pytest.raises(LimitError, match="--stage2-pattern"):
        made(stage, Here(2, 1 << 28))
