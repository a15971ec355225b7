"""--sample 1/N against a dozen lines of Python with mmh3, whatever is between the documents and their counts."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Iterable
from pathlib import Path

import mmh3
import polars as pl
import pytest

from streambpe.errors import RunMismatch, UsageError
from streambpe.inspect.plan import plan
from streambpe.resources import Resources
from streambpe.sources import samples
from streambpe.sources.samples import FileSample
from streambpe.sources.source import Source
from streambpe.store.exchange import merge_counts
from streambpe.store.run import Run
from streambpe.train.commands import train
from streambpe.train.counting import sizes, spread
from streambpe.train.counting.count import count, count_from_iterator, resume_count
from streambpe.train.counting.take_back import take_back
from tests.hostile import random_text
from tests.oracles.tables import check
from tests.runners.tasks import instead_of_ray
from tests.runs import cli, cli_killed, log_of, rows, small_blocks
from tests.tiers import share

TEXTS = [
    *(f"document {i} of {'many ' * (i % 7)}é東 words {i * i % 1000}" for i in range(200)),
    *["twice"] * 6,
    "x" * 5000,
]
ONE = Resources(400 * 10**6, 1, engine="threads")


def chosen(texts: list[str], of: int) -> list[str]:
    """The slow meaning of --sample 1/N."""
    return [text for text in texts if mmh3.hash64(text.encode(), signed=False)[0] * of < 2**64]


def counted(run: Path) -> list[tuple[object, ...]]:
    return rows(run, "SELECT chunk, n FROM chunk_counts ORDER BY chunk")


def reference(place: Path, texts: list[str], of: int, **options: object) -> list[tuple[object, ...]]:
    """The counts of the documents of the sample alone."""
    count_from_iterator(place, chosen(texts, of), resources=ONE, **options)  # type: ignore[arg-type]
    return counted(place)


def as_jsonl(texts: Iterable[str]) -> str:
    return "".join(json.dumps({"text": text}) + "\n" for text in texts)


def write_records(folder: Path, jsonl: list[str], table: list[str], csv: list[str]) -> None:
    """Documents in the kinds of file that have fields."""
    (folder / "b.jsonl.gz").write_bytes(gzip.compress(as_jsonl(jsonl).encode()))
    pl.DataFrame({"text": table}).write_parquet(folder / "c.parquet")
    (folder / "d.csv").write_text("id,text\n" + "".join(f'1,"{text}"\n' for text in csv), encoding="utf-8")


def write(folder: Path, texts: list[str]) -> list[str]:
    """The same documents in every kind of file, as SOURCE arguments."""
    folder.mkdir()
    quarter = len(texts) // 4
    lines, jsonl, table, csv = (texts[i * quarter : (i + 1) * quarter if i < 3 else None] for i in range(4))
    (folder / "a.txt").write_bytes("\n".join(lines).encode())
    write_records(folder, jsonl, table, csv)
    return [str(path) for path in sorted(folder.iterdir())]


@pytest.mark.every(2)
@pytest.mark.parametrize("of", [2, 10])
def test_a_sample_is_the_documents_that_the_hash_names(tmp_path, of, monkeypatch):
    small_blocks(monkeypatch, 600)
    files = write(tmp_path / "in", TEXTS)
    want = reference(tmp_path / "want", TEXTS, of)
    count(tmp_path / "run", files, lines=True, sample=f"1/{of}", resources=ONE)
    assert counted(tmp_path / "run") == want
    documents = rows(tmp_path / "run", "SELECT sum(documents) FROM sources")[0][0]
    assert documents == len(chosen(TEXTS, of))
    again = Resources(400 * 10**6, 2, engine="threads")
    count(tmp_path / "other", files[2:], sample=f"1/{of}", resources=again)
    resume = count(tmp_path / "other", files, lines=True, resources=again)  # the sample is the run's
    assert resume.skipped == 2
    assert counted(tmp_path / "other") == want


@pytest.mark.long
def test_shards_of_a_sample_merge_to_the_sample(tmp_path):
    files = write(tmp_path / "in", TEXTS)
    for k in (2, 1):
        count(tmp_path / f"s{k}", files, lines=True, sample="1/3", shard=f"{k}/2", resources=ONE)
    merge_counts(tmp_path / "all", [tmp_path / "s2", tmp_path / "s1"], resources=ONE)
    assert counted(tmp_path / "all") == reference(tmp_path / "want", TEXTS, 3)
    count(tmp_path / "whole", files[:1], lines=True, resources=ONE)
    with pytest.raises(RunMismatch, match="sample all"):
        merge_counts(tmp_path / "all", [tmp_path / "whole"], resources=ONE)
    with pytest.raises(RunMismatch, match="was counted with --sample 1/3, not 1/4"):
        count(tmp_path / "all", files, lines=True, sample="1/4", resources=ONE)


@pytest.mark.long
def test_a_file_that_is_one_document_is_in_or_out_whole(tmp_path, monkeypatch):
    """Also in many blocks, with bytes that are not UTF-8 and a mark at its front."""
    texts = {f"{i}.txt": f"\ufefffile {i} " + "lorem ipsum \ufffd dolor \n" * 200 for i in range(8)}
    (tmp_path / "in").mkdir()
    for name, text in texts.items():
        (tmp_path / "in" / name).write_bytes(text.encode().replace("\ufffd".encode(), b"\xf0\x9f"))
    want = reference(tmp_path / "want", [text[1:] for text in texts.values()], 2)
    whole = Source(str(tmp_path / "in" / "0.txt"), "txt")
    assert samples.text_hash(whole, "replace") == mmh3.hash64(texts["0.txt"][1:].encode(), signed=False)
    count(tmp_path / "run", [str(tmp_path / "in")], sample="1/2", bad_utf8="replace", resources=ONE)
    assert counted(tmp_path / "run") == want
    monkeypatch.setattr(sizes, "MOST_BLOCK", 700)
    count(tmp_path / "small", [str(tmp_path / "in")], sample="1/2", bad_utf8="replace", resources=ONE)
    assert counted(tmp_path / "small") == want
    inside = next(path for path, n in rows(tmp_path / "small", "SELECT path, documents FROM sources") if n)
    for path in (str(tmp_path / "in" / "0.txt"), inside):  # what is taken back is what was counted of it
        take_back(tmp_path / "small", [path], resources=ONE)
    left = [text[1:] for name, text in texts.items() if name not in ("0.txt", Path(inside).name)]
    assert counted(tmp_path / "small") == reference(tmp_path / "left", left, 2)


@pytest.mark.long
def test_documents_and_prepared_text_of_a_sample(tmp_path):
    """Sequences hold the sample alone; the hash is of the text before it is normalised."""
    texts = [f"cafe\u0301 {i}" for i in range(60)]
    (tmp_path / "a.jsonl").write_text(as_jsonl(texts))
    options = {"normalize": "nfc", "sequences": True}
    want = reference(tmp_path / "want", texts, 4, **options)
    count(tmp_path / "run", [str(tmp_path / "a.jsonl")], sample="1/4", resources=ONE, **options)
    assert counted(tmp_path / "run") == want
    mine, theirs = (Run(tmp_path / name).facts()["corpus"] for name in ("run", "want"))
    assert json.loads(mine)["documents"] == json.loads(theirs)["documents"] == len(chosen(texts, 4))
    resume_count(tmp_path / "run", resources=ONE)


def test_what_is_refused(tmp_path):
    (tmp_path / "a.txt").write_text("some text")
    (tmp_path / "t.csv").write_text("chunk,count\na,1\n")
    for wrong in ("1/1", "1/0", "2/3", "32MB", "1/", "1/x", "0.1", "1/01"):
        with pytest.raises(UsageError, match="about one document in ten"):
            count(tmp_path / "run", [str(tmp_path / "a.txt")], sample=wrong)
    with pytest.raises(UsageError, match="which has no documents"):
        count(tmp_path / "run", [str(tmp_path / "t.csv")], counts=True, sample="1/2")
    with pytest.raises(UsageError, match="standard input is one document"):
        count(tmp_path / "run", ["-"], sample="1/2")
    for options, why in (
        ({"sample_files": "1/1"}, "about one file in ten"),
        ({"sample_files": f"1/{10**9 - 1}"}, "none of the 1 source is in it"),
        ({"sample_files": "1/2", "seed": -1}, "at least 0"),
        ({"seed": 3}, "belongs to --sample-files"),
    ):
        with pytest.raises(UsageError, match=why):
            count(tmp_path / "run", [str(tmp_path / "a.txt")], **options)
    with pytest.raises(UsageError, match="mine is no file"):
        count_from_iterator(tmp_path / "run", ["a"], source_name="mine", sample_files="1/2")
    assert "the parts of it that plan reads" in cli("plan", tmp_path / "a.txt", "--sample", "1/2", expect=2).stderr
    assert not (tmp_path / "run").exists()


def in_sample(path: str, of: int, seed: int) -> bool:
    """The definition of --sample-files."""
    folder, _, name = path.rpartition("/")
    return mmh3.hash64(f"{folder.rpartition('/')[2]}/{name}".encode(), seed, signed=False)[0] * of < 2**64


def test_files_are_chosen_by_the_hash_of_their_path():
    """Thousands of names of any letters, against the definition; smaller shares are inside larger ones."""
    rng = random.Random(3)
    paths = sorted({f"/corpus/{random_text(rng, 8)}/{i}.txt" for i in range(share(20_000))})
    files = [Source(path, "txt", bytes=rng.randrange(1000)) for path in paths]
    for seed in (0, 1, 2**32 - 1):
        before = files
        for of in (2, 3, 8, 16, 160):
            sample = FileSample(f"1/{of}", seed)
            found = sample.choose(files)
            wanted = [path for path in paths if in_sample(path, of, seed)]
            assert [source.path for source in found] == wanted
            assert sample.told == {
                "sources": len(found), "bytes": sum(source.bytes for source in found),
                "of_sources": len(files), "of_bytes": sum(source.bytes for source in files),
            }  # fmt: skip
            assert set(found) < set(before)
            assert abs(len(found) * of / len(files) - 1) < 4 * (of / len(files)) ** 0.5
            before = found
    assert FileSample().choose(files) == files


@pytest.mark.long
def test_a_sample_of_files_is_counted_like_these_files(tmp_path):
    """Told in numbers; in shards, after a kill, when more files are added; in the log, where the RUN is read again."""
    (tmp_path / "in").mkdir()
    for i, text in enumerate(TEXTS * 2):
        (tmp_path / "in" / f"{i}.txt").write_text(text * 4)
    files = sorted(str(path) for path in (tmp_path / "in").iterdir())
    inside = [path for path in files if in_sample(path, 4, 5)]
    want = count(tmp_path / "want", inside, resources=ONE).corpus
    sampled = {"sample_files": "1/4", "seed": 5}
    result = count(tmp_path / "run", files, resources=ONE, **sampled)
    assert result.corpus == want
    assert result.sampled == {
        "sources": len(inside), "bytes": sum(Path(path).stat().st_size for path in inside),
        "of_sources": len(files), "of_bytes": sum(Path(path).stat().st_size for path in files),
    }  # fmt: skip
    for k in (1, 2):
        count(tmp_path / f"s{k}", files, shard=f"{k}/2", resources=ONE, **sampled)
    assert merge_counts(tmp_path / "all", [tmp_path / "s2", tmp_path / "s1"], resources=ONE).corpus == want
    cli_killed("part-committed", "count", tmp_path / "killed", tmp_path / "in", "--sample-files", "1/4", "--seed", 5)
    assert resume_count(tmp_path / "killed", resources=ONE).corpus == want
    count(tmp_path / "later", files[:200], resources=ONE, **sampled)
    assert count(tmp_path / "later", files, resources=ONE).corpus == want  # the sample is the run's
    for other, why in (({"sample_files": "1/8"}, "with --sample-files 1/4, not 1/8"), ({"seed": 6}, "--seed 5, not 6")):
        with pytest.raises(RunMismatch, match=why):
            count(tmp_path / "run", files, resources=ONE, **other)
    train(tmp_path / "run", files, vocab_size=300, resources=ONE, **sampled)
    header = log_of(tmp_path / "run").header
    assert (header.config["sample_files"], header.config["seed"]) == ("1/4", 5)
    assert 'sample-files = "1/4"\nseed = 5\n' in (tmp_path / "run" / "train.toml").read_text()
    planned = plan(files, vocab_size=300, rehearse="32MB", resources=ONE, **sampled)
    assert (planned.sources, planned.source_bytes) == (result.sampled["sources"], result.sampled["bytes"])
    take_back(tmp_path / "run", inside[:1], resources=ONE)
    assert check(tmp_path / "run", resources=ONE, sources=True) == []


@pytest.mark.long
def test_tasks_choose_the_same_documents(tmp_path, monkeypatch):
    """Also of a text that is cut into stretches, which other workers than its first one read."""
    instead_of_ray(monkeypatch)
    monkeypatch.setattr(spread, "_LEAST_TASK", 2000)
    files = write(tmp_path / "in", TEXTS)
    (tmp_path / "whole").mkdir()
    for i in range(6):
        (tmp_path / "whole" / f"{i}.txt").write_text(f"file {i}\n" + "lorem ipsum dolor sit amet\n" * 400)
    two = Resources(10**9, 2, engine="ray")
    for name, resources in (("one", ONE), ("two", two)):
        count(tmp_path / name, files, lines=True, sample="1/2", resources=resources)
        count(tmp_path / name, [str(tmp_path / "whole")], resources=resources)
    assert counted(tmp_path / "one") == counted(tmp_path / "two")
    documents = "SELECT path, sum(documents) FROM sources GROUP BY path ORDER BY path"
    assert rows(tmp_path / "one", documents) == rows(tmp_path / "two", documents)
