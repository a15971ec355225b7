"""--sample 1/N against a dozen lines of Python with mmh3, whatever is between the documents and their counts."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Iterable
from pathlib import Path

import mmh3
import pytest

from streambpe.errors import RunMismatch, UsageError
from streambpe.inspect.plan import plan
from streambpe.resources import Resources
from streambpe.sources.samples import FileSample
from streambpe.sources.source import Source
from streambpe.store.run import Run
from streambpe.train.commands import train
from streambpe.train.counting.count import count, count_from_iterator, resume_count
from tests.hostile import random_text
from tests.runs import cli, log_of, rows
from tests.samples import written
from tests.tiers import share

TEXTS = [f"document {i} of {'many ' * (i % 7)}é東 words {i * i % 1000}" for i in range(200)]
ONE = Resources(400 * 10**6, 1, engine="threads")


def chosen(texts: list[str], of: int) -> list[str]:
    """The slow meaning of --sample 1/N."""
    return [text for text in texts if mmh3.hash64(text.encode(), signed=False)[0] * of < 2**64]


def as_jsonl(texts: Iterable[str]) -> str:
    return "".join(json.dumps({"text": text}) + "\n" for text in texts)


@pytest.mark.long
def test_documents_and_prepared_text_of_a_sample(tmp_path):
    """Sequences hold the sample alone; the hash is of the text before it is normalised."""
    texts = [f"cafe\u0301 {i}" for i in range(60)]
    (tmp_path / "a.jsonl").write_text(as_jsonl(texts))
    options = {"normalize": "nfc", "sequences": True, "resources": ONE}
    count_from_iterator(tmp_path / "want", chosen(texts, 4), **options)
    count(tmp_path / "run", [str(tmp_path / "a.jsonl")], sample="1/4", **options)
    counts = "SELECT chunk, n FROM chunk_counts ORDER BY chunk"
    assert rows(tmp_path / "run", counts) == rows(tmp_path / "want", counts)
    assert json.loads(Run(tmp_path / "run").facts()["corpus"])["documents"] == len(chosen(texts, 4))
    resume_count(tmp_path / "run", resources=ONE)


def test_what_cannot_be_left_out_is_refused(tmp_path):
    """Samples, ends of documents, bad lines: by name, and nothing is made."""
    text = str(written(tmp_path / "a.txt", "some text"))
    table = str(written(tmp_path / "t.csv", "chunk,count\na,1\n"))
    wrong = ("1/1", "1/0", "2/3", "32MB", "1/", "1/x", "0.1", "1/01")
    for source, options, why in (
        *((text, {"sample": sample}, "about one document in ten") for sample in wrong),
        (table, {"sample": "1/2", "counts": True}, "which has no documents"),
        ("-", {"sample": "1/2"}, "standard input is one document"),
        (text, {"sample_files": "1/1"}, "about one file in ten"),
        (text, {"sample_files": f"1/{10**9 - 1}"}, "none of the 1 source is in it"),
        (text, {"sample_files": "1/2", "seed": -1}, "at least 0"),
        (text, {"seed": 3}, "belongs to --sample-files"),
        (text, {"document_cap": 0}, "at least 1"),
        (text, {"document_cap": 5, "pattern": "none"}, "--pattern none has no such place"),
        (table, {"document_cap": 5, "counts": True}, "--document-cap 5: .* has no documents"),
        ("-", {"document_cap": 5}, "--document-cap 5: standard input is one document"),
        (table, {"bad_lines": "skip", "counts": True}, "rows of a count table are never left out"),
    ):
        with pytest.raises(UsageError, match=why):
            count(tmp_path / "run", [source], **options)
    with pytest.raises(UsageError, match="mine is no file"):
        count_from_iterator(tmp_path / "run", ["a"], source_name="mine", sample_files="1/2")
    assert "the parts of it that plan reads" in cli("plan", tmp_path / "a.txt", "--sample", "1/2", expect=2).stderr
    assert not (tmp_path / "run").exists()


def in_sample(path: str, of: int, seed: int) -> bool:
    """The definition of --sample-files."""
    folder, _, name = path.rpartition("/")
    return mmh3.hash64(f"{folder.rpartition('/')[2]}/{name}".encode(), seed, signed=False)[0] * of < 2**64


@pytest.mark.long
def test_a_sample_of_files_and_a_cap_are_told(tmp_path):
    """The sample in numbers, both in the log and in train.toml; `plan` reads the same."""
    (tmp_path / "in").mkdir()
    for i, text in enumerate(TEXTS):
        (tmp_path / "in" / f"{i}.txt").write_text(text * 4)
    files = sorted(str(path) for path in (tmp_path / "in").iterdir())
    sampled = {"sample_files": "1/4", "seed": 5}
    result = count(tmp_path / "run", files, document_cap=300, resources=ONE, **sampled)
    inside = [path for path in files if in_sample(path, 4, 5)]
    assert result.sampled == {
        "sources": len(inside), "bytes": sum(Path(path).stat().st_size for path in inside),
        "of_sources": len(files), "of_bytes": sum(Path(path).stat().st_size for path in files),
    }  # fmt: skip
    with pytest.raises(RunMismatch, match="--seed 5, not 6"):
        count(tmp_path / "run", files, resources=ONE, seed=6)
    train(tmp_path / "run", files, vocab_size=300, document_cap="300", resources=ONE, **sampled)
    config, toml = log_of(tmp_path / "run").header.config, (tmp_path / "run" / "train.toml").read_text()
    assert {name: config[name] for name in (*sampled, "document_cap")} == {**sampled, "document_cap": 300}
    assert all(line in toml for line in ("document-cap = 300\n", 'sample-files = "1/4"\nseed = 5\n'))
    planned = plan(files, vocab_size=300, rehearse="32MB", resources=ONE, **sampled)
    assert (planned.sources, planned.source_bytes) == (result.sampled["sources"], result.sampled["bytes"])


def test_files_are_chosen_by_the_hash_of_their_path():
    """Thousands of names of any letters, against the definition."""
    rng = random.Random(3)
    paths = sorted({f"/corpus/{random_text(rng, 8)}/{i}.txt" for i in range(share(20_000))})
    files = [Source(path, "txt", bytes=rng.randrange(1000)) for path in paths]
    for seed, of in itertools.product((0, 1, 2**32 - 1), (2, 3, 160)):
        sample = FileSample(f"1/{of}", seed)
        found = sample.choose(files)
        assert [source.path for source in found] == [path for path in paths if in_sample(path, of, seed)]
        assert sample.told == {
            "sources": len(found), "bytes": sum(source.bytes for source in found),
            "of_sources": len(files), "of_bytes": sum(source.bytes for source in files),
        }  # fmt: skip
    assert FileSample().choose(files) == files
