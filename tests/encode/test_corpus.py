"""Corpora to files: every document's ids are what the tokenizer gives, wherever blocks are cut and jobs are killed."""

from __future__ import annotations

import itertools
import random
import shutil

import mmh3
import numpy as np
import polars as pl
import pyarrow.parquet as pq
import pytest

from streambpe.encode import blocks, corpus
from streambpe.encode.corpus import encode_corpus
from streambpe.encode.decode import decode_array
from streambpe.encode.tokenizer import Tokenizer
from streambpe.errors import SourceError, Stopped, StreambpeError, UsageError
from streambpe.files import UNFINISHED, unfinished
from streambpe.model.eventlog import write_event_log
from streambpe.resources import Resources
from tests.damage import flip
from tests.runs import StopAfter, cli
from tests.samples import json_lines, written
from tests.tiers import seeds
from tests.trained import DOCUMENTS, HOSTILE, KINDS, TEXT, trained

RESOURCES = Resources(1 << 30, 2)


@pytest.fixture
def small_blocks(monkeypatch):
    """Blocks of a kilobyte or two, so that these small texts are many blocks."""
    monkeypatch.setattr(blocks, "_MOST_BLOCK", 1500)
    monkeypatch.setattr(blocks, "_LEAST_BLOCK", 1500)


def lists_of(path):
    """The ids of each document of a file of any kind."""
    if path.suffix == ".parquet":
        return pq.read_table(path)["ids"].to_pylist()
    ids = np.load(path) if path.suffix == ".npy" else np.fromfile(path, "<u2")
    return [ids[a:b].tolist() for a, b in itertools.pairwise(np.load(f"{path}.offsets.npy"))]


def folders(place, *names):
    """New folders of these names."""
    for name in names:
        (place / name).mkdir()
    return [place / name for name in names]


def files_in(folder):
    return {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()}


@pytest.mark.every(3)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("threads", [1, 2])
def test_documents_of_a_file_encode_as_one_by_one(tmp_path, small_blocks, kind, threads):
    """jsonl in many blocks, empty and hostile documents among them: one list of ids each, in order."""
    tokenizer = Tokenizer(trained(kind))
    documents = [*HOSTILE, *DOCUMENTS, "", "last"]
    source = json_lines(tmp_path / "a.jsonl", documents)
    result = encode_corpus(tokenizer, [source], tmp_path / "ids.npy", resources=Resources(1 << 30, threads))
    assert lists_of(tmp_path / "ids.npy") == [tokenizer.encode_ordinary(document) for document in documents]
    size = sum(len(document.encode()) for document in documents)
    assert (result.documents, result.bytes, result.dtype) == (len(documents), size, "uint16")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.jsonl", "ids.npy", "ids.npy.json", "ids.npy.offsets.npy"]


@pytest.mark.parametrize(("kind", "lines"), [("plain", False), ("boundless", False), ("boundless", True)])
def test_a_text_file_is_one_document_or_its_lines(tmp_path, small_blocks, kind, lines):
    """However many blocks it is read in: superwords reach across the cuts; lines that are empty are none."""
    whole = TEXT + " the end of the day" * 400 + TEXT
    text, documents = ("\n\n" + "\n\n\n".join(DOCUMENTS), DOCUMENTS) if lines else (whole, [whole])
    tokenizer, source = Tokenizer(trained(kind)), written(tmp_path / "a.txt", text)
    encode_corpus(tokenizer, [str(source)], tmp_path / "ids.npy", lines=lines, resources=RESOURCES)
    assert lists_of(tmp_path / "ids.npy") == [tokenizer.encode_ordinary(document) for document in documents]


def test_all_outputs_hold_the_same_ids(tmp_path):
    """npy, bin and parquet, of sources of all kinds in order of their paths; --eot puts a special token behind each
    document; they decode to the documents."""
    tokenizer, (folder,) = Tokenizer(trained("plain")), folders(tmp_path, "in")
    documents = ["in a.parquet", "", DOCUMENTS[0], 'the end, "of" the\nday', *DOCUMENTS]
    pl.DataFrame({"text": [documents[0], None, ""]}).write_parquet(folder / "a.parquet")
    written(folder / "b.txt", documents[2])
    written(folder / "c.csv", 'id,text\n1,"the end, ""of"" the\nday"\n')
    json_lines(folder / "d.jsonl", DOCUMENTS)
    wanted = [tokenizer.encode_ordinary(document) for document in documents]
    for name in ("ids.npy", "ids.bin", "ids.parquet"):
        encode_corpus(tokenizer, [str(folder)], tmp_path / name, dtype="uint32", resources=RESOURCES)
        assert list(decode_array(tokenizer, tmp_path / name)) == [document.encode() for document in documents]
    assert lists_of(tmp_path / "ids.npy") == wanted
    assert np.fromfile(tmp_path / "ids.bin", "<u4").tolist() == [number for ids in wanted for number in ids]
    assert lists_of(tmp_path / "ids.parquet") == wanted
    encode_corpus(tokenizer, [str(folder)], tmp_path / "eot.npy", eot="<|endoftext|>", resources=RESOURCES)
    assert lists_of(tmp_path / "eot.npy") == [[*ids, tokenizer.eot_token] for ids in wanted]


@pytest.mark.parametrize("kind", ["plain", "boundless"])
@pytest.mark.parametrize(
    ("name", "options"), [("ids.npy", {}), ("ids.parquet", {}), ("ids.npy", {"validation": "50%"})]
)
def test_a_stopped_job_goes_on_to_the_same_bytes(tmp_path, small_blocks, monkeypatch, kind, name, options):
    """Stopped again and again, with torn tails behind what was committed: the files are those of an unbroken job."""
    monkeypatch.setattr(corpus, "COMMIT_SECONDS", 0)
    tokenizer = Tokenizer(trained(kind))
    text = written(tmp_path / "a.txt", TEXT + " the end of the day" * 300)
    sources = [str(text), json_lines(tmp_path / "b.jsonl", DOCUMENTS)]
    unbroken, broken = (folder / name for folder in folders(tmp_path, "unbroken", "broken"))
    encode_corpus(tokenizer, sources, unbroken, resources=RESOURCES, **options)
    messages = []
    while not broken.exists():
        try:
            stop = StopAfter(3 + len(messages))
            result = encode_corpus(tokenizer, sources, broken, resources=RESOURCES, stop=stop, **options)
        except Stopped as stopped:
            messages.append(str(stopped))
            for part in ("ids", "offsets"):
                with open(unfinished(broken) / part, "ab") as file:
                    file.write(b"torn")
    assert len(messages) > 2
    assert all("Continue with the same command" in message for message in messages)
    assert result.resumed
    assert not list(broken.parent.glob(UNFINISHED))
    assert files_in(broken.parent) == files_in(unbroken.parent)


@pytest.mark.every(4)
@pytest.mark.parametrize("seed", seeds(60))
@pytest.mark.parametrize(("name", "more"), [("ids.npy", {}), ("ids.bin", {"validation": 0.5}), ("ids.bin", {})])
def test_a_bit_that_flips_in_half_an_output_is_never_believed(tmp_path, small_blocks, monkeypatch, name, more, seed):
    """In any file that a stopped job left: it ends with the bytes of an unbroken one, or with one message."""
    rng = random.Random(seed)
    monkeypatch.setattr(corpus, "COMMIT_SECONDS", 0)
    tokenizer = Tokenizer(trained("boundless"))
    sources = [json_lines(tmp_path / "b.jsonl", DOCUMENTS), str(written(tmp_path / "a.txt", TEXT))]
    whole, half = folders(tmp_path, "whole", "half")
    tried = tmp_path / "tried"
    encode_corpus(tokenizer, sources, whole / name, resources=RESOURCES, **more)
    stop = None if seed % 2 else StopAfter(20)
    if stop is None:  # when all is certain, and files take their names
        monkeypatch.setattr(corpus._Job, "_finish", None)
    with pytest.raises((Stopped, TypeError)):
        encode_corpus(tokenizer, sources, half / name, resources=RESOURCES, stop=stop, **more)
    monkeypatch.undo()
    files = sorted(file.relative_to(half) for file in half.rglob("*") if file.is_file() and file.stat().st_size)
    assert len(files) >= 3
    refused = []
    for file in files:
        shutil.copytree(half, tried)
        (tried / file).write_bytes(flip((tried / file).read_bytes(), rng))
        try:
            encode_corpus(tokenizer, sources, tried / name, resources=RESOURCES, **more)
            assert not list(tried.glob(UNFINISHED))
            assert files_in(tried) == files_in(whole)
        except StreambpeError as why:
            refused.append((file, str(why)))
        shutil.rmtree(tried)
    assert refused
    assert all("is damaged: " in told and str(file.parent) in told for file, told in refused)


@pytest.mark.parametrize("seed", seeds(60))
@pytest.mark.parametrize("name", ["ids.npy", "ids.bin", "ids.parquet"])
def test_a_bit_that_flips_in_a_file_of_ids_is_told(tmp_path, name, seed):
    """decode gives the text, or refuses before it gives anything; it gave another text with exit 0."""
    rng = random.Random(seed)
    tokenizer = Tokenizer(trained("plain"))
    encode_corpus(tokenizer, [json_lines(tmp_path / "a.jsonl", DOCUMENTS)], tmp_path / name, resources=RESOURCES)
    refused = 0
    for file in tmp_path.glob("ids*"):
        whole = file.read_bytes()
        for damaged in (flip(whole, rng), whole[:-16] + bytes(16)):
            file.write_bytes(damaged)
            found = []
            try:
                for document in decode_array(tokenizer, tmp_path / name):
                    found.append(document.decode())
                assert found == DOCUMENTS
            except StreambpeError:
                assert not found or name == "ids.parquet"
                refused += 1
        file.write_bytes(whole)
    assert refused
    assert [document.decode() for document in decode_array(tokenizer, tmp_path / name)] == DOCUMENTS


def test_a_job_begun_otherwise_is_refused(tmp_path, small_blocks):
    """Half a file is never finished with another model, other options or changed inputs."""
    source = json_lines(tmp_path / "a.jsonl", DOCUMENTS)
    with pytest.raises(Stopped):
        encode_corpus(
            Tokenizer(trained("plain")), [source], tmp_path / "ids.npy", resources=RESOURCES, stop=StopAfter(2)
        )
    for kind, documents, options, told in (
        ("superbpe", DOCUMENTS, {}, "another model"),
        ("plain", DOCUMENTS, {"dtype": "int64"}, "another options"),
        ("plain", [*DOCUMENTS, "more"], {}, "another inputs"),
    ):
        json_lines(tmp_path / "a.jsonl", documents)
        with pytest.raises(UsageError, match=told):
            encode_corpus(Tokenizer(trained(kind)), [source], tmp_path / "ids.npy", resources=RESOURCES, **options)


def test_wrong_wishes_are_refused_with_the_way_out(tmp_path):
    """A type too small, an unknown ending, a missing special token, no such folder, no such file, shares and shards
    that are none."""
    tokenizer = Tokenizer(trained("superbpe"))
    source = json_lines(tmp_path / "a.jsonl", ["a"])
    for arguments, message in [
        ({"output": tmp_path / "ids.csv"}, r"\.npy \(numpy\), \.parquet"),
        ({"eot": "<s>"}, "no special token '<s>'"),
        ({"output": tmp_path / "no" / "ids.npy"}, "create it first"),
        ({"dtype": "int8"}, "one of auto"),
        *(({"validation": share}, "between 0 and 1") for share in ("0", "1", "100%", "-1%", "x", "1/0", "nan")),
        *(({"shards": shards}, "--shards .*Nothing was written") for shards in ("100000", "0", -3)),
    ]:
        with pytest.raises(UsageError, match=message):
            encode_corpus(tokenizer, [source], **{"output": tmp_path / "ids.npy", **arguments})
    assert [p.name for p in tmp_path.iterdir()] == ["a.jsonl"]
    with pytest.raises(SourceError, match="cannot be read"):
        encode_corpus(tokenizer, [str(tmp_path / "none.txt")], tmp_path / "ids.npy")
    with pytest.raises(UsageError, match="ids up to 99999"):
        corpus.pick_dtype("uint16", 100_000, tmp_path)


def test_shell_round_trip(tmp_path):
    """encode | decode gives the text back, through lines of numbers and through a file."""
    write_event_log(tmp_path / "model.events.jsonl", trained("boundless"))
    text = "in the end of the day ñu 日本\n"
    for form in ((), ("--json",)):
        assert cli("decode", tmp_path, input=cli("encode", tmp_path, *form, input=text).stdout).stdout == text
    out = tmp_path / "ids.npy"
    assert "1 document" in cli("encode", tmp_path, written(tmp_path / "a.txt", text), "-o", out).stderr
    assert cli("decode", tmp_path, out).stdout == text
    (tmp_path / "bad.txt").write_bytes(b"a\xffb")
    asked = ["encode", str(tmp_path), str(tmp_path / "bad.txt")]
    skipped = cli(*asked, "--bad-utf8", "skip").stdout
    assert cli("decode", tmp_path, input=skipped).stdout == "ab\n"
    assert "is not UTF-8: byte 1" in cli(*asked, "--bad-utf8", "error", expect=1).stderr
    for option in (["--eot", "<|endoftext|>"], ["--dtype", "int32"], ["--shards", "2"]):
        assert "give its name with -o" in cli(*asked, *option, expect=2).stderr
    assert "line 1 is not a list of ids" in cli("decode", tmp_path, input="1 2 x\n", expect=1).stderr


MANY = [*(f"{document} {i}" for i in range(20) for document in DOCUMENTS), "", "x" * 5000, TEXT * 3, "last"]
FILES = [*((TEXT + f" {i}") * (140_000 // len(TEXT)) for i in range(4)), "é" * (1 << 15)]  # pieces of 64 KiB


def is_validation(document, share):
    """The definition in encode/split.py."""
    digest, text = b"", document.encode()
    for start in range(0, max(len(text), 1), 1 << 16):
        digest = mmh3.mmh3_x64_128_digest(digest + text[start : start + (1 << 16)])
    return int.from_bytes(digest[8:], "little") < share * 2**64


@pytest.mark.every(4)
@pytest.mark.parametrize("kind", ["plain", "boundless"])
@pytest.mark.parametrize("name", ["ids.npy", "ids.bin", "ids.parquet"])
def test_validation_takes_documents_by_what_they_say(tmp_path, small_blocks, kind, name):
    """Each document is on the side that its hash says, in order, whatever the threads, the blocks and the file; also
    where one document is read in many blocks."""
    tokenizer = Tokenizer(trained(kind))
    sources = [json_lines(tmp_path / "a.jsonl", MANY)]
    sources += [str(written(tmp_path / f"b{i}.txt", text)) for i, text in enumerate(FILES)]
    resources = Resources(1 << 30, 1 if kind == "plain" else 2)
    result = encode_corpus(tokenizer, sources, tmp_path / name, validation="25%", resources=resources)
    sides = [[d for d in [*MANY, *FILES] if is_validation(d, 0.25) is side] for side in (False, True)]
    assert all({*side} & {*FILES} for side in sides)
    for made, documents in zip((result, result.validation), sides, strict=True):
        assert list(decode_array(tokenizer, made.path)) == [document.encode() for document in documents]
        assert (made.documents, made.ids) == (len(documents), sum(len(tokenizer.encode_ordinary(d)) for d in documents))
    assert not list(tmp_path.glob(UNFINISHED))


def test_a_side_without_documents_is_told(tmp_path):
    """One file that is one document cannot be divided: both files are written, and a warning says so."""
    write_event_log(tmp_path / "model.events.jsonl", trained("plain"))
    text = written(tmp_path / "a.txt", TEXT)
    told = "warning: No document went into 1 of 2 files (ids.validation.npy): the text has 1 document"
    assert told in cli("encode", tmp_path, text, "-o", tmp_path / "ids.npy", "--validation", "1e-9").stderr
    assert lists_of(tmp_path / "ids.validation.npy") == []
