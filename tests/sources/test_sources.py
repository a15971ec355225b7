"""Inputs: what a document is in every format, where a file is split never shows, and what is refused."""

from __future__ import annotations

import csv
import gzip
import io
import json
import random
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from streambpe.count_config import SourceOptions
from streambpe.errors import SourceError, UsageError
from streambpe.sources.decode import block_text
from streambpe.sources.find import find_sources
from streambpe.sources.read import Reader
from streambpe.sources.source import BlockText, Source
from streambpe.sources.tables import read_count_table
from streambpe.text.patterns import find_pattern
from tests.hostile import fast_documents, random_text
from tests.oracles.splits import split_text
from tests.samples import written
from tests.tiers import seeds

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

GPT4O = find_pattern("gpt4o")
NONE = find_pattern("none")
TINY, WHOLE = 64, 1 << 24
FORMATS = ["txt", "lines", "jsonl", "csv", "parquet"]
COMPRESSED = [(kind, suffix) for kind in FORMATS if kind != "parquet" for suffix in (".gz", ".zst")]
TEXTS = [
    "The first document, with several words in it.",
    "",
    'quotes " and, commas\nand a line break',
    "\rcarriage\r\nreturns\r",
    "日本語のテキスト 👩\u200d👩\u200d👧 naïve café",
    " leading and trailing ",
    "nul \x00 and \x7f controls \x1f",
    "a" * 200 + " " + "b" * 300,
    "\ufeffnot at the start of the file",
    "{json: 'like'}\t\\n \\ \" ",
    "\u2028line\u2029breaks\x85that are\x0bnone\x0c",
    "last",
]


def write(path: Path, texts: list[str], kind: str) -> Path:
    """A file of documents in one format; compressed if its name says so, in two members, as parallel compressors do."""
    if kind == "parquet":
        return file_of(path, {"id": range(len(texts)), "text": texts}, row_group_size=3)
    out = io.StringIO()
    if kind == "txt":
        out.write("".join(texts))
    elif kind == "lines":
        out.write("".join(text + "\n" for text in texts))
    elif kind == "jsonl":
        for i, text in enumerate(texts):
            out.write(json.dumps({"id": i, "text": text, "more": [1, {"text": 2}]}, ensure_ascii=i % 2 == 0) + "\n")
    else:
        writer = csv.writer(out)  # with CRLF: else Python leaves a lone carriage return unquoted
        writer.writerow(["id", "text"])
        writer.writerows([i, text] for i, text in enumerate(texts))
    data = out.getvalue().encode()
    if path.suffix in (".gz", ".zst"):
        compress = gzip.compress if path.suffix == ".gz" else zstd.compress
        data = compress(data[:70]) + compress(data[70:])
    path.write_bytes(data)
    return path


def file_of(path: Path, content: bytes | dict[str, Any], **how: Any) -> Path:
    """A file of these bytes, or a Parquet file of these columns."""
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        pq.write_table(pa.table(content), path, **how)
    return path


def expected_documents(texts: list[str], kind: str) -> list[str]:
    """The same documents by the definition of each format."""
    if kind == "txt":
        return ["".join(texts)]
    if kind == "lines":
        return [line for text in texts for line in text.split("\n") if line]
    return texts


def source_of(path: Path, kind: str = "auto", column: str = "text") -> Source:
    (source,), _ = find_sources(
        [str(path)],
        SourceOptions(lines=kind == "lines", kind="auto" if kind == "lines" else kind, text_column=column),
        in_part=True,
    )
    return source


def source_with(folder: Path, texts: list[str], kind: str, compression: str = "") -> Source:
    """A source with these documents."""
    suffix = "txt" if kind == "lines" else kind
    return source_of(write(folder / f"a.{suffix}{compression}", texts, kind), kind)


def blocks_of(source: Source, block_bytes: int, policy: str = "replace", pattern=GPT4O) -> list[BlockText]:
    reader = Reader(pattern, block_bytes, 1 << 26)
    return [block_text(block, policy) for block in reader.blocks(source)]


def read(source: Source, block_bytes: int = TINY, policy: str = "replace", pattern=GPT4O) -> list[list[str]]:
    """The documents of a source as chunks, read in blocks and put together again."""
    made = blocks_of(source, block_bytes, policy, pattern)
    documents: list[list[str]] = [[]]
    for block in made:
        ends = block.text.count(b"\xff")
        found = fast_documents(block.text, pattern)
        found += [[]] * (ends - len(found))  # empty documents at the end of a block
        for i, document in enumerate(found):
            documents[-1] += document
            if i < ends:
                documents.append([])
    assert documents.pop() == [], "a source ends with a document's end"
    assert len(documents) == sum(block.documents for block in made), "documents are counted as they are"
    return documents


@pytest.mark.parametrize(("kind", "compression"), [*((kind, "") for kind in FORMATS), *COMPRESSED])
def test_where_a_file_is_split_never_shows(tmp_path, kind, compression):
    """Documents are the same whatever the size of a block, in every format, compressed or not."""
    source = source_with(tmp_path, TEXTS, kind, compression)
    expected = [split_text(GPT4O, text) for text in expected_documents(TEXTS, kind)]
    for block_bytes in (1, 3, TINY, 150, WHOLE):
        assert read(source, block_bytes) == expected


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("seed", seeds(6))
def test_going_on_from_any_gap(tmp_path, kind, seed):
    """Blocks read before (any, or all but the last) and the gaps between them, read later, are together the source,
    once, and so is its end."""
    rng = random.Random(f"gaps {kind} {seed}")
    source = source_with(tmp_path, TEXTS * 3, kind)
    unbroken = list(Reader(GPT4O, TINY, 1 << 26).blocks(source))
    kept = [block for block in unbroken if rng.random() < 0.5] if seed else unbroken[:-1]
    done = [(block.start_at, block.stop_at) for block in kept]
    told: list[int] = []
    again = list(Reader(GPT4O, rng.choice([40, 100, 1000]), 1 << 26, on_read=told.append).blocks(source, done))
    left = source.bytes - sum(stop - start for start, stop in done)
    assert kind == "parquet" or sum(told) == left, "what was done before is not told again"
    both = sorted([*kept, *again], key=lambda block: (block.start_at, block.stop_at))
    assert both[0].start_at == 0
    assert [b.start_at for b in both[1:]] == [b.stop_at for b in both[:-1]], "nothing twice, nothing left out"
    assert seed or [block.ends_source for block in again] == [False] * (len(again) - 1) + [True]
    text = b"".join(block_text(block, "replace").text for block in both)
    whole = b"".join(block_text(block, "replace").text for block in unbroken)
    assert text.replace(b"\xff", b"") == whole.replace(b"\xff", b"")
    if kind != "txt" or any(b.ends_source for b in again):
        assert text == whole


# A8, sentence by sentence


@pytest.mark.parametrize(
    ("content", "kind", "documents"),
    [
        (b"", "txt", [[]]),
        (b"", "lines", []),
        (b"\n\n\n", "lines", []),
        ({"text": pa.array([], "string")}, "parquet", []),
    ],
)
def test_without_text(tmp_path, content, kind, documents):
    """An empty file is one empty document; empty lines are none, and so is a table without rows."""
    path = file_of(tmp_path / "a.txt", content)
    assert read(source_of(path, kind), 1) == read(source_of(path, kind), WHOLE) == documents


@pytest.mark.parametrize("kind", ["txt", "lines", "jsonl", "csv"])
def test_one_leading_bom_is_dropped_and_counted(tmp_path, kind):
    """The byte order mark at the start of a file is no text; the same character elsewhere is."""
    path = Path(source_with(tmp_path, ["x\ufeffy", "\ufeffz"], kind).path)
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    source = source_of(path, kind)
    for block_bytes in (1, 2, TINY, WHOLE):
        assert sum(block.boms for block in blocks_of(source, block_bytes)) == 1
        expected = [split_text(NONE, text) for text in expected_documents(["x\ufeffy", "\ufeffz"], kind)]
        assert read(source, block_bytes, pattern=NONE) == expected


def test_nulls_are_skipped_and_counted(tmp_path):
    """A null in jsonl, Parquet or an iterator is no document; how many there were is kept."""
    values = ["a", None, "", None, "b"]
    path = written(tmp_path / "a.jsonl", "".join(json.dumps({"text": v}) + "\n" for v in values))
    table = file_of(tmp_path / "a.parquet", {"text": values}, row_group_size=2)
    for source in (source_of(path), source_of(table), Source("it", "iterator", texts=values)):
        for block_bytes in (1, WHOLE):
            assert read(source, block_bytes) == [["a"], [], ["b"]]
            assert sum(block.nulls for block in blocks_of(source, block_bytes)) == 2


DEEP = 100_000  # Python 3.12 and later read 1 000 brackets
NESTED = ("%s1%s", '{"text": "a", "x": %s1%s}', '{"text": %s1%s}', '{"text": "\\ud800", "x": %s1%s}')


@pytest.mark.parametrize(
    ("line", "message"),
    [
        *(
            (f'{{"text": {value}}}', r": field 'text' is \w+, not a string")
            for value in ("5", "true", "[]", "{}", "1.5")
        ),
        ('{"text": "a"', " is not JSON"),
        ("[1]", " is not a JSON object"),
        ('"a"', " is not a JSON object"),
        ('{"body": "a"}', " has no field 'text'; it has body"),
        ("{}", " has no field 'text'"),
        ('{"text": "tab\there"}', " is not JSON"),
        ("\x00", " is not JSON"),
        *((line % ("[" * DEEP, "]" * DEEP), " has brackets nested") for line in NESTED),
        *((line % ('{"a":' * DEEP, "}" * DEEP), " has brackets nested") for line in NESTED),
    ],
    ids=lambda text: text[:40],
)
@pytest.mark.parametrize("block_bytes", [1, WHOLE])
def test_lines_that_hold_no_text_are_errors(tmp_path, line, message, block_bytes):
    """A number, a list, an object is no text; broken JSON and missing fields: file, line and what is wrong."""
    path = written(tmp_path / "a.jsonl", '{"text": "fine"}\n\n{"text": "so far"}\n' + line + '\n{"text": "x"}\n')
    with pytest.raises(SourceError, match=rf"a\.jsonl line 4{message}"):
        read(source_of(path), block_bytes)


@pytest.mark.parametrize(("policy", "expected"), [("replace", "a\ufffdb\ufffd\ufffdc"), ("skip", "abc")])
@pytest.mark.parametrize("block_bytes", [1, WHOLE])
def test_lone_surrogates_fall_under_bad_utf8(tmp_path, policy, expected, block_bytes):
    """Each lone surrogate is replaced or left out and counted, in jsonl and in iterators; a pair is a character."""
    (tmp_path / "a.jsonl").write_text(r'{"text": "a\ud800b\udfff\udc00c"}' + "\n" + r'{"text": "\ud83d\ude00"}')
    iterator = Source("it", "iterator", texts=["a\ud800b\udfff\udc00c", "😀"])
    for source in (source_of(tmp_path / "a.jsonl"), iterator):
        assert read(source, block_bytes, policy, NONE) == [[expected], ["😀"]]
        assert sum(block.bad_utf8 for block in blocks_of(source, block_bytes, policy)) == 3
        with pytest.raises(SourceError, match=r"document 0 after position 0 holds the lone surrogate U\+D800"):
            read(source, block_bytes, "error")


def test_json_fields_may_be_named_in_the_argument(tmp_path):
    """FILE.jsonl:FIELD reads that field, of each file only one; a file whose own name has a colon is still a file."""
    path = written(tmp_path / "a.jsonl", '{"text": "no", "body text": "yes"}\n')
    odd = written(tmp_path / "a.jsonl:text", "plain")
    for argument, kind, text in ((f"{path}:body text", "auto", "yes"), (str(odd), "txt", "plain")):
        (source,), _ = find_sources([argument], SourceOptions(kind=kind))
        assert read(source, pattern=NONE) == [[text]]
    with pytest.raises(UsageError, match=r"a\.jsonl"):
        find_sources([f"{path}:body text", f"{path}:other"])


def test_duplicates_are_counted_once_and_told(tmp_path):
    """The same file by name, by glob, through a link and by its folder is one source."""
    path = write(tmp_path / "a.txt", ["x"], "txt")
    (tmp_path / "b.txt").symlink_to(path)
    found, warnings = find_sources([str(path), f"{tmp_path}/*.txt", str(tmp_path), f"{tmp_path}/./a.txt"])
    assert [source.path for source in found] == [str(path)]
    assert warnings
    assert all("once" in warning for warning in warnings)


def test_folders_and_globs(tmp_path):
    """A folder gives its sources at any depth, in order, and nothing else; a glob gives what matches."""
    (tmp_path / "sub" / "deep").mkdir(parents=True)
    sources = ["a.jsonl", "b.txt", "e.md", "f.jsonl.zst", "sub/c.csv.gz", "sub/deep/d.parquet"]
    for name in (*sources, "notes.pdf", "x.py", "sub/y.gz", "state.txt.bak"):
        (tmp_path / name).write_bytes(b"")
    found, _ = find_sources([str(tmp_path)])
    assert [str(Path(s.path).relative_to(tmp_path.resolve())) for s in found] == sources
    assert {Path(s.path).name: s.kind for s in found}["f.jsonl.zst"] == "jsonl"
    found, _ = find_sources([f"{tmp_path}/**/*.parquet"])
    assert [Path(s.path).name for s in found] == ["d.parquet"]


@pytest.mark.parametrize("kind", ["jsonl", "csv"])
def test_standard_input_is_read_like_a_file(tmp_path, monkeypatch, kind):
    """`-` takes any streamed format."""
    with write(tmp_path / "a", TEXTS, kind).open() as opened:
        monkeypatch.setattr("sys.stdin", opened)
        (source,), _ = find_sources(["-"], SourceOptions(kind=kind, stdin_name="mine"))
        assert (source.path, read(source, pattern=NONE)) == ("mine", [[text] if text else [] for text in TEXTS])


def test_iterators_give_documents():
    """Any iterable of strings; anything else in it is an error that says where."""
    found = read(Source("it", "iterator", texts=iter(TEXTS)), pattern=NONE)
    assert found == [split_text(NONE, text) for text in TEXTS]
    with pytest.raises(SourceError, match="document 1 is bytes"):
        read(Source("it", "iterator", texts=["a", b"b"]))


# CSV


@pytest.mark.parametrize("seed", seeds(40))
def test_csv_blocks_equal_pythons_reader(tmp_path, seed):
    """Random csv, well formed or not: the rows are those that Python's reader gives for the whole file."""
    rng = random.Random(seed)
    body = "".join(rng.choices(['"', '""', ",", "\n", "\r\n", "a", "bc ", " ", '"x",', '\n"'], k=120))
    path = written(tmp_path / "a.csv", "text\n" + body, newline="")
    rows = list(csv.reader(io.StringIO("text\n" + body, newline="")))[1:]
    expected = [split_text(NONE, row[0]) for row in rows if row]
    for block_bytes in (1, 10, 50, WHOLE):
        assert read(source_of(path), block_bytes, pattern=NONE) == expected


def test_a_csv_header_may_hold_line_ends(tmp_path):
    """In the name of a column."""
    path = written(tmp_path / "a.csv", '"id","te\nxt"\n1,x\n')
    assert read(source_of(path, column="te\nxt")) == [["x"]]


# Parquet


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())], ids=str
)
def test_parquet_string_columns(tmp_path, kind):
    """Plain, large, view and dictionary strings, in several row groups, null or not."""
    values = [*TEXTS, None, *TEXTS]
    plain = pa.array(values, pa.string())
    array = plain.dictionary_encode() if pa.types.is_dictionary(kind) else plain.cast(kind)
    if kind == pa.string_view() and int(pa.__version__.split(".")[0]) < 21:
        pytest.skip("pyarrow 20 writes no views, so nobody can make this file with it")
    path = file_of(tmp_path / "a.parquet", {"text": array}, row_group_size=5)
    for block_bytes in (1, TINY, WHOLE):
        assert read(source_of(path), block_bytes) == [split_text(GPT4O, text) for text in TEXTS * 2]


def test_damaged_parquet_names_the_row_group(tmp_path):
    """Bytes flipped inside a row group are an error with a place, not a crash or other text."""
    texts = [f"text number {i}" for i in range(3000)]
    path = file_of(tmp_path / "a.parquet", {"text": texts}, row_group_size=1000)
    data = bytearray(path.read_bytes())
    data[4:400] = bytes(396)
    path.write_bytes(data)
    with pytest.raises(SourceError, match=r"a\.parquet is damaged in row group 0"):
        read(source_of(path))


def test_parquet_strings_that_are_no_utf8(tmp_path):
    """A string column may hold invalid bytes in practice: they fall under the policy like any others."""
    offsets = pa.py_buffer(b"\0\0\0\0\4\0\0\0\6\0\0\0")
    array = pa.StringArray.from_buffers(2, offsets, pa.py_buffer(b"ab\xffcde"))
    source = source_of(file_of(tmp_path / "a.parquet", {"text": array}))
    assert read(source, policy="replace", pattern=NONE) == [["ab\ufffdc"], ["de"]]
    assert read(source, policy="skip", pattern=NONE) == [["abc"], ["de"]]
    with pytest.raises(SourceError, match=r"a\.parquet"):
        read(source, policy="error")


# What is told


NO_PARQUET = r"a\.parquet is not a Parquet file"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("missing.txt", None, "missing.txt cannot be read"),
        ("*.nothing", None, "No file matches"),
        ("empty", None, "without sources"),
        ("a.csv", b"", "no column"),
        ("a.csv", b"id,body\n1,x\n", "no column 'text'.*id, body"),
        ("a.csv", b"x" * 200_000 + b"".join(b",c%d" % i for i in range(1000)), r"xxx\.\.\., c0, c1.*981 more"),
        ("a.csv", b"id,text\n1,x\n2\n", r"a\.csv line 3 has 1 fields"),
        ("a.csv", b"text," + b"x," * (9 << 20), "has a first line of more than"),
        *(("a.parquet", content, NO_PARQUET) for content in (b"", b"PAR1", b"x" * 1000)),
        ("a.parquet", {"text": [1, 2]}, "holds int64, not strings"),
        ("a.parquet", {"id": [1], "body": ["a"]}, "no column 'text'; it has id, body"),
        ("a.txt.gz", b"not compressed at all", r"a\.txt\.gz is cut off or damaged"),
        ("a.txt.zst", b"not compressed at all", r"a\.txt\.zst is cut off or damaged"),
        # a frame that asks for a window of 2 GB
        ("a.txt.zst", bytes.fromhex("28b52ffd 00a8 290000") + b"hello", r"a\.txt\.zst is cut off or damaged"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_cannot_be_read_is_told(tmp_path, name, content, message):
    """In a few words, with the name of the file; never as an empty corpus."""
    (tmp_path / "empty").mkdir()
    if content is not None:
        file_of(tmp_path / name, content)
    with pytest.raises(SourceError, match=message) as told:
        read(source_of(tmp_path / name))
    assert len(str(told.value)) < 700


# Invalid UTF-8


BAD = [
    b"\xff", b"\xfe", b"\xfd", b"\xff\xfe\xfd", b"\x80", b"\xc0\x80", b"\xc3", b"\xe2\x82", b"\xed\xa0\x80",
    b"\xf0\x9f\x98", b"\xf4\x90\x80\x80", b"\xf8\x88\x80\x80\x80", b"\xef\xbf", b"\xef\xbb\xbf",
]  # fmt: skip


@pytest.mark.every(3)
@pytest.mark.parametrize("policy", ["replace", "skip"])
@pytest.mark.parametrize("kind", ["txt", "lines"])
@pytest.mark.parametrize("seed", seeds(8))
def test_invalid_bytes_in_blocks_equal_those_of_the_whole(tmp_path, policy, kind, seed):
    """Repaired in blocks, a document is what Python's decoder makes of the whole, and as many were counted.

    Among the bytes are those that mark borders inside the program: they are text of nobody.
    """
    rng = random.Random(seed)
    data = b""
    while len(data) < 1500:
        data += rng.choice([rng.choice(BAD), random_text(rng, 4).encode(), b" plain words ", b"\n", b"x", "é".encode()])
    data = b"x" + data  # no byte order mark at the start
    path = written(tmp_path / "a.txt", data)
    text = data.decode("utf-8", "replace" if policy == "replace" else "ignore")
    texts = [text] if kind == "txt" else [line for line in text.split("\n") if line]
    bad = data.decode("utf-8", "replace").count("\ufffd") - data.count(b"\xef\xbf\xbd")
    for name in ("gpt4o", "gpt2", "boundless"):
        pattern = find_pattern(name)
        for block_bytes in (50, 200, WHOLE):
            source = source_of(path, kind)
            assert read(source, block_bytes, policy, pattern) == [split_text(pattern, t) for t in texts]
            assert sum(b.bad_utf8 for b in blocks_of(source, block_bytes, policy, pattern)) == bad


@pytest.mark.parametrize("bad", BAD[:-1])
@pytest.mark.parametrize("block_bytes", [30, WHOLE])
def test_bad_utf8_error_names_the_byte(tmp_path, bad, block_bytes):
    """Under `error` the message names file and byte, wherever blocks end."""
    path = written(tmp_path / "a.txt", "fine words and more é of them, ".encode() * 4 + bad + b" rest")
    with pytest.raises(SourceError, match=r"a\.txt is not UTF-8: byte 128 is"):
        read(source_of(path), block_bytes, "error")


# Damage and limits


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
@pytest.mark.parametrize("kind", ["txt", "jsonl", "csv"])
def test_truncated_compression_is_an_error(tmp_path, suffix, kind):
    """Every truncation of a compressed file is told as damage with its file, never as an early end."""
    whole = write(tmp_path / f"a.{kind}{suffix}", [f"text {i} {i * i}" for i in range(300)], kind)
    data = whole.read_bytes()
    for keep in (1, 5, 12, len(data) // 3, len(data) - 9, len(data) - 1):
        whole.write_bytes(data[:keep])
        with pytest.raises(SourceError, match=r"a\..*(ends in the middle|cut off or damaged: .*)\. Everything"):
            read(source_of(whole), 256)


# Count tables


def table_rows(path: Path) -> tuple[dict[str, int], str | None]:
    (source,), _ = find_sources([str(path)], SourceOptions(counts=True))
    tables = list(read_count_table(source, 2))
    rows: dict[str, int] = {}
    for table in tables:
        for chunk, n in zip(*table.rows.to_pydict().values(), strict=True):
            rows[chunk] = rows.get(chunk, 0) + n
    return rows, next((table.pattern for table in tables if table.pattern is not None), None)


def test_count_tables_of_every_kind(tmp_path):
    """BatchBPE csv with its pattern row, sentencepiece tsv, subword-nmt words, our Parquet: the same rows. Only a line
    feed ends one; a carriage return inside a chunk is part of it."""
    rows = {" the": 5, "a,b": 3, '"': 2, " ": 9, "\u2028": 1, "x y": 4, "a\rb": 2, "\r": 3}
    with open(tmp_path / "a.csv", "w", newline="") as out:
        csv.writer(out).writerows([("chunk", "count"), *rows.items(), ("\r\n", 2), ("(?s).", 0)])
    (tmp_path / "a.tsv").write_text("".join(f"{chunk}\t{n}\n" for chunk, n in rows.items()) + "c\t1\r\n")
    (tmp_path / "a.dict").write_text("".join(f"{chunk} {n}\n" for chunk, n in rows.items()))
    pq.write_table(pa.table({"chunk": list(rows), "count": list(rows.values())}), tmp_path / "a.parquet")
    assert table_rows(tmp_path / "a.csv") == ({**rows, "\r\n": 2, "(?s).": 0}, "(?s).")
    assert table_rows(tmp_path / "a.tsv") == ({**rows, "c": 1}, None)
    for name in ("a.dict", "a.parquet"):
        assert table_rows(tmp_path / name) == (rows, None)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.tsv", b"word\tmany\n"),
        ("a.tsv", b"word 5\n"),
        ("a.tsv", b"word\t-1\n"),
        ("a.tsv", b"word\t9223372036854775808\n"),
        ("a.tsv", b"\t5\n"),
        ("a.dict", b"word\n"),
        ("a.csv", b"word,5\n"),
        ("a.csv", b"chunk,count\nword\n"),
        ("a.csv", b"chunk,count,more\na,1,2\n"),
        ("a.tsv", b"w\xff\t5\n"),
        ("a.tsv.gz", b"not gzip"),
        ("a.parquet", b"not parquet"),
        ("a.parquet", {"word": ["a"], "count": [1]}),
        ("a.parquet", {"chunk": ["a"], "count": ["1"]}),
        ("a.parquet", {"chunk": ["a"], "count": [-1]}),
        ("a.parquet", {"chunk": ["a", "b"], "count": [1, None]}),
        ("a.parquet", {"chunk": ["a", None], "count": [1, 1]}),
        ("a.parquet", {"chunk": ["a", ""], "count": [1, 1]}),
        ("a.parquet", {"chunk": [b"\xff"], "count": [1]}),
    ],
)
def test_broken_count_tables_are_refused(tmp_path, name, content):
    """A row that is no chunk and count, columns of other names or types: an error that names the file."""
    with pytest.raises(SourceError, match=name.replace(".", r"\.")):
        table_rows(file_of(tmp_path / name, content))
