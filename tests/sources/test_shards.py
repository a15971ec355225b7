"""--shard K/N: shares of the sources."""

from __future__ import annotations

import random

import pytest

from streambpe.count_config import SourceOptions
from streambpe.errors import UsageError
from streambpe.sources.find import find_sources
from streambpe.train.counting.count import count
from tests.runs import SMALL, cli


def sizes_of(folder, n: int) -> list[int]:
    """Files of very different sizes."""
    rng = random.Random(n)
    sizes = [int(10 ** rng.uniform(0, 4)) for _ in range(n)]
    for place, size in enumerate(sizes):
        (folder / f"{place:02}.txt").write_text("ab " * size)
    return sizes


@pytest.mark.parametrize("shares", [1, 2, 5, 12])
def test_every_source_is_in_one_share_and_shares_are_even(tmp_path, shares):
    """No share is larger than the smallest by more than one file; the order of arguments does not matter."""
    sizes_of(tmp_path, 12)
    names = [str(path) for path in sorted(tmp_path.iterdir())]
    whole, _ = find_sources([str(tmp_path)])
    dealt = [find_sources(names[::-1], SourceOptions(shard=f"{k}/{shares}"))[0] for k in range(1, shares + 1)]
    assert sorted((s for share in dealt for s in share), key=lambda s: s.path) == whole
    assert all(share == sorted(share, key=lambda s: s.path) for share in dealt)
    totals = [sum(source.bytes for source in share) for share in dealt]
    assert max(totals) - min(totals) <= max(source.bytes for source in whole)


def test_what_cannot_be_shared_is_refused(tmp_path):
    """What is no share; more shares than files; standard input; a run whose sources are not named again."""
    sizes_of(tmp_path, 4)
    for source, shard, told in (
        *((tmp_path, shard, "K-th of N shares") for shard in ("0/3", "4/3", "1", "1/0", "a/b", "1/3/5", "-1/2", "")),
        (tmp_path, "1/5", "Take at most 4 shares"),
        ("-", "1/2", "standard input"),
    ):
        with pytest.raises(UsageError, match=told):
            find_sources([str(source)], SourceOptions(shard=shard))
    count(tmp_path / "run", [str(tmp_path / "00.txt")], resources=SMALL)
    assert "it is about none of its sources" in cli("count", tmp_path / "run", "--shard", "1/2", expect=2).stderr
