"""--sequences: several stretches in one part, as one file of chunks and one of ids; a part of one stretch works too."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from streambpe.inspect.check import check
from streambpe.store.parts import list_parts
from streambpe.store.run import Run
from streambpe.store.sequences import order_parts
from streambpe.text.patterns import find_pattern
from streambpe.train.counting import sizes
from streambpe.train.counting.count import count
from tests.hostile import random_text
from tests.oracles.splits import split_text
from tests.runs import SMALL, small_blocks, stored_ids
from tests.tiers import share

OWN = r"\w+|\s+|[^\w\s]+"  # a pattern that the core does not know


@pytest.fixture
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Two files of many blocks, the first one document, the second many."""
    small_blocks(monkeypatch, 2048)
    rng = random.Random(3)
    words = ["the", "end", "of", "the", "day", "at", "the", "end", "of", "the", "line"]
    (tmp_path / "a.txt").write_text(" ".join(rng.choice(words) for _ in range(share(6000, 3000))))
    texts = [random_text(rng, 200).replace("\ufeff", "") + " the end of the day" for _ in range(share(150, 75))]
    (tmp_path / "b.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    return [str(tmp_path / "a.txt"), str(tmp_path / "b.jsonl")]


def chunks_in_order(run: Path) -> list[str | None]:
    """The chunks of all stretches, and None where a document ends."""
    return [text[i] if i >= 0 else None for ids, text in stored_ids(run) for i in ids]


@pytest.mark.long
@pytest.mark.parametrize("pattern", ["boundless", OWN])
def test_many_stretches_in_one_part(
    tmp_path: Path, sources: list[str], monkeypatch: pytest.MonkeyPatch, pattern: str
) -> None:
    """The documents in order, as with a part for each block, and as in one block."""
    options = {"pattern": pattern, "sequences": True, "resources": SMALL}
    count(tmp_path / "many", sources, **options)
    monkeypatch.setattr(sizes, "MOST_ORDERED", 0)
    count(tmp_path / "each", sources, **options)
    small_blocks(monkeypatch, 1 << 23)
    count(tmp_path / "whole", sources, **options)
    lines = Path(sources[1]).read_text(encoding="utf-8").splitlines()
    documents = [Path(sources[0]).read_text(), *(json.loads(line)["text"] for line in lines)]
    split = find_pattern(pattern)
    expected = [chunk for text in documents for chunk in (*split_text(split, text), None)]
    many, each = (len(list((tmp_path / name / "sequences").iterdir())) for name in ("many", "each"))
    assert many <= 8 < each
    for name in ("whole", "many", "each"):
        run = Run(tmp_path / name)
        stretches = order_parts(run, list_parts(run))
        assert (len(stretches) > 20) == (name != "whole")
        assert [part.follows for part in stretches].count(False) == 2
        assert chunks_in_order(run.path) == expected
        assert check(run.path, resources=SMALL) == []
