"""`encode --shards N`: one after another the shards are the one file, wherever a job is killed; an index says so."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

from streambpe.encode.corpus import encode_corpus
from streambpe.encode.decode import decode_array
from streambpe.encode.shards import index_path
from streambpe.encode.tokenizer import Tokenizer
from streambpe.files import UNFINISHED
from streambpe.model.eventlog import write_event_log
from tests.encode.test_corpus import RESOURCES, files_in, folders, lists_of
from tests.runs import cli, cli_killed
from tests.samples import json_lines
from tests.trained import DOCUMENTS, HOSTILE, trained

MANY = [*HOSTILE, *DOCUMENTS, "", "last"]


def corpus(folder: Path) -> str:
    """A file of many documents."""
    return json_lines(folder / "a.jsonl", MANY)


@pytest.mark.parametrize("validation", [None, "25%"])
@pytest.mark.parametrize(("name", "shards"), [("ids.npy", 3), ("ids.bin", 1), ("ids.bin", 7), ("ids.parquet", 4)])
def test_joined_shards_are_the_single_output(tmp_path, name, shards, validation):
    """Document by document and number by number; each shard is a whole output, and as large as the others."""
    tokenizer, source = Tokenizer(trained("boundless")), corpus(tmp_path)
    (tmp_path / "one").mkdir()
    one = tmp_path / "one" / name
    encode_corpus(tokenizer, [source], one, validation=validation, resources=RESOURCES)
    result = encode_corpus(
        tokenizer, [source], tmp_path / name, validation=validation, shards=shards, resources=RESOURCES
    )
    wanted = lists_of(one)
    index = json.loads(index_path(tmp_path / name).read_text())
    assert (index["ids"], index["documents"]) == (sum(map(len, wanted)), len(wanted)) == (result.ids, result.documents)
    files = [tmp_path / shard["file"] for shard in index["shards"]]
    assert [file.name for file in files] == [f"ids-{k:05}-of-{shards:05}{one.suffix}" for k in range(shards)]
    assert files == [shard.path for shard in result.shards]
    assert [document for file in files for document in lists_of(file)] == wanted
    if one.suffix == ".bin":
        assert b"".join(file.read_bytes() for file in files) == one.read_bytes()
    begins = [0, *np.cumsum([len(ids) for ids in wanted]).tolist()]  # where each document begins, and the end
    at = documents = 0
    for k, (file, shard) in enumerate(zip(files, index["shards"], strict=True)):
        held = lists_of(file)
        assert (shard["first_id"], shard["first_document"]) == (at, documents)
        assert (shard["ids"], shard["documents"]) == (sum(map(len, held)), len(held))
        border = index["ids"] * k // shards
        assert abs(at - border) == min(abs(place - border) for place in begins), "no other border is nearer"
        assert len(list(decode_array(tokenizer, file))) == len(held)
        at, documents = at + shard["ids"], documents + shard["documents"]
    if validation:
        assert result.validation is not None
        assert lists_of(result.validation.path) == lists_of(one.with_name(f"ids.validation{one.suffix}"))
    assert not list(tmp_path.glob(UNFINISHED))
    assert not (tmp_path / name).exists()


@pytest.mark.every(3)
@pytest.mark.long
@pytest.mark.parametrize("point", ["encoded-file", "encoded-beside", "encoded-training", "encoded"])
@pytest.mark.parametrize("suffix", ["bin", "npy", "parquet"])
def test_killed_while_shards_were_made(tmp_path, suffix, point):
    """No index before all is whole, no shard under its name that is not; the same command then gives the same bytes."""
    write_event_log(tmp_path / "m.events.jsonl", trained("plain"))
    encode = ["encode", tmp_path / "m.events.jsonl", corpus(tmp_path), "--validation", "25%", "--shards", "3", "-o"]
    whole, broken = folders(tmp_path, "unbroken", "broken")
    cli(*encode, whole / f"ids.{suffix}")
    unbroken = files_in(whole)
    cli_killed(point, *encode, broken / f"ids.{suffix}")
    found = files_in(broken)
    assert ("ids.index.json" in found) == (point in ("encoded-training", "encoded"))
    for name, content in found.items():
        assert unbroken.get(name, content) == content
    cli(*encode, broken / f"ids.{suffix}")
    assert not list(broken.glob(UNFINISHED))
    assert files_in(broken) == unbroken


@pytest.mark.long
def test_what_is_there_stays_unless_forced(tmp_path):
    """--force takes all shards of before away, also those that the new ones do not overwrite; nothing else."""
    write_event_log(tmp_path / "m.events.jsonl", trained("plain"))
    encode = ["encode", tmp_path / "m.events.jsonl", corpus(tmp_path), "-o", tmp_path / "ids.npy", "--shards"]
    told = cli(*encode, 4).stderr
    assert "in 4 shards: ids-00000-of-00004.npy to ids-00003-of-00004.npy" in told
    assert "--force" in cli(*encode, 2, expect=2).stderr
    (tmp_path / "ids-mine.npy").write_text("mine")
    cli(*encode, 2, "--force")
    left = {"m.events.jsonl", "a.jsonl", "ids-mine.npy", "ids.index.json"}
    for k in range(2):
        left |= {f"ids-0000{k}-of-00002.npy{beside}" for beside in ("", ".json", ".offsets.npy")}
    assert set(os.listdir(tmp_path)) == left
