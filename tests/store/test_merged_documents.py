"""merge-counts with documents: superwords are learned from the sum as from one run over everything."""

from __future__ import annotations

from pathlib import Path

import pytest

from streambpe.errors import UsageError
from streambpe.inspect.check import check
from streambpe.store.exchange import merge_counts
from streambpe.store.parts import list_parts
from streambpe.store.run import Run
from streambpe.train.commands import train
from streambpe.train.counting.count import count
from tests.runs import SMALL, cli, small_blocks
from tests.samples import natural_text

KEPT = {"pattern": "boundless", "sequences": True}


def learned(run: Path, superwords: str) -> bytes:
    """The log of a training of its own name."""
    options = {"superwords": superwords, "vocab_size": 600, "name": superwords}
    if superwords != "boundless":
        options["transition"] = 450
    return train(run, **options, resources=SMALL).log.read_bytes()


@pytest.fixture
def sources(tmp_path, monkeypatch) -> list[str]:
    """Three texts of several stretches each, which share a part."""
    small_blocks(monkeypatch, 4000)
    for number, name in enumerate("abc"):
        (tmp_path / f"{name}.txt").write_text(natural_text(number, 20_000))
    return [str(tmp_path / f"{name}.txt") for name in "abc"]


@pytest.mark.long
@pytest.mark.parametrize("superwords", ["boundless", "superbpe", "uw"])
def test_superwords_of_merged_runs_are_those_of_one_run(tmp_path, sources, superwords):
    """In whatever order, some of them merged before; `check` finds the documents equal to the counts."""
    count(tmp_path / "whole", sources, **KEPT, resources=SMALL)
    for source in sources:
        count(tmp_path / Path(source).stem, [source], **KEPT, resources=SMALL)
    merge_counts(tmp_path / "two", [tmp_path / "c", tmp_path / "a"], resources=SMALL)
    merge_counts(tmp_path / "sum", [tmp_path / "two", tmp_path / "b"], resources=SMALL)
    assert len(list_parts(Run(tmp_path / "sum")).spans) > 6
    assert learned(tmp_path / "sum", superwords) == learned(tmp_path / "whole", superwords)
    assert check(tmp_path / "sum", resources=SMALL) == []


def test_a_flipped_bit_in_documents_that_are_merged(tmp_path, sources):
    """It was "a bug in streambpe", with exit 70; the merge goes on when the file is whole again."""
    count(tmp_path / "a", sources[:1], **KEPT, resources=SMALL)
    path = tmp_path / "a/sequences/part-00001.parquet"
    whole = path.read_bytes()
    path.write_bytes(whole[:99] + bytes([whole[99] ^ 1]) + whole[100:])
    told = cli("merge-counts", tmp_path / "sum", tmp_path / "a", expect=1).stderr
    assert "part-00001.parquet or its .chunks.parquet is missing or damaged (the checksum of" in told
    assert told.count("\n") == 1
    path.write_bytes(whole)
    merge_counts(tmp_path / "sum", [tmp_path / "a"], resources=SMALL)
    assert check(tmp_path / "sum", resources=SMALL) == []


@pytest.mark.long
def test_files_of_one_name_on_two_machines(tmp_path, sources):
    """The path of the second is called after its run; its stretches may then stand in another order in the part."""
    first, *others = sources
    count(tmp_path / "one", [first], **KEPT, resources=SMALL)
    Path(first).write_text(natural_text(9, 30_000))  # another file at the same place, as on another machine
    count(tmp_path / "other", [first, *others], **KEPT, resources=SMALL)
    merge_counts(tmp_path / "sum", [tmp_path / "one", tmp_path / "other"], resources=SMALL)
    paths = list_parts(Run(tmp_path / "sum")).spans.values("path")
    assert f"{(tmp_path / 'other').resolve()}:{first}" in paths
    assert first in paths
    assert check(tmp_path / "sum", resources=SMALL) == []


@pytest.mark.long
def test_documents_are_kept_where_all_have_them(tmp_path, sources):
    """A new run without them where one has none; a run that keeps them takes no other."""
    count(tmp_path / "a", sources[:1], **KEPT, resources=SMALL)
    count(tmp_path / "b", sources[1:2], pattern="boundless", resources=SMALL)
    told = cli("merge-counts", tmp_path / "sum", tmp_path / "a", tmp_path / "b").stderr
    assert f"{tmp_path / 'b'} keeps no documents, so {tmp_path / 'sum'} holds counts alone" in told
    assert "--sequences" in cli("train", tmp_path / "sum", "--superwords", "boundless", "-s", 400, expect=2).stderr
    merge_counts(tmp_path / "kept", [tmp_path / "a"], resources=SMALL)
    before = sorted((tmp_path / "kept").rglob("*.parquet"))
    with pytest.raises(UsageError, match=r"keeps documents, .* has none: counted without --sequences"):
        merge_counts(tmp_path / "kept", [tmp_path / "b"], resources=SMALL)
    assert sorted((tmp_path / "kept").rglob("*.parquet")) == before
