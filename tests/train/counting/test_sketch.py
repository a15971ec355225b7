"""The estimate of distinct chunks that is shown while they are counted."""

import numpy as np
import polars as pl
import pytest

from streambpe.core.strings import ChunkList
from streambpe.train.counting.committer import DistinctSketch


def rows(chunks):
    """Chunks as a part has them, each once."""
    return ChunkList.of(pl.DataFrame({"chunk": sorted(chunks), "n": np.ones(len(chunks), np.int64)}))


@pytest.mark.parametrize("name", ["{}", " word{}", "{:08d}", "{:x}é"])
def test_the_estimate_is_near_also_for_chunks_that_are_alike(name):
    """Parts overlap; few distinct chunks are counted, many estimated."""
    chunks = [name.format(number) for number in range(60_000)]
    sketch = DistinctSketch()
    assert sketch.add(rows(chunks[:1000]).hashes()) == 1000
    about = [sketch.add(rows(chunks[start : start + 20_000]).hashes()) for start in range(0, 60_000, 10_000)]
    assert about[-1] == pytest.approx(60_000, rel=0.06)
