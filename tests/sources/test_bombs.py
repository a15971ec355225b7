"""A small file that becomes large: what is decompressed stays within --memory, or is refused by name."""

from __future__ import annotations

import gzip
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from streambpe.errors import LimitError
from streambpe.sources.read import Reader
from streambpe.sources.source import Source
from streambpe.system import resident_bytes
from streambpe.text.patterns import find_pattern
from tests.runs import ROOT
from tests.sources.test_sources import zstd

MB = 10**6


def parquet(path: Path, texts: list[str], dictionary: bool) -> Source:
    pq.write_table(pa.table({"text": texts}), path, compression="zstd", use_dictionary=dictionary)
    return Source(str(path), "parquet")


@pytest.mark.parametrize("dictionary", [False, True])
@pytest.mark.parametrize("texts", [["a" * 3000], ["a", "b" * 3000], ["a" * 3000] * 40])
def test_a_value_that_cannot_be_held_is_refused_by_its_row(tmp_path, texts, dictionary):
    """Alone, behind others, and once in a dictionary for many rows."""
    source = parquet(tmp_path / "a.parquet", texts, dictionary)
    row = texts.index(max(texts))
    for most in (100, 2000):
        with pytest.raises(LimitError, match=f"a.parquet holds a document .* at row {row}, and one value"):
            list(Reader(find_pattern("gpt4"), 100, most).blocks(source))
    blocks = list(Reader(find_pattern("gpt4"), 1000, 3000).blocks(source))
    assert [text for block in blocks for text in block.data] == texts


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "code"),
    [("a.jsonl.zst", 3), ("a.csv.zst", 3), ("a.txt.gz", 3), ("one.parquet", 3), ("many.parquet", 0)],
)
def test_bombs_stay_within_the_limit(tmp_path, name, code):
    """400 MB in some kilobytes: a line, a record, a text without borders, a value, a value for many rows."""
    path, lines = tmp_path / name, [b"\n" * MB] * 400
    pieces = {
        "a.jsonl.zst": [b'{"text": "', *[b" " * MB] * 400, b'"}\n'],
        "a.csv.zst": [b'n,text\n1,"', *lines, b'"\n'],
        "a.txt.gz": [b"a" * MB] * 400,
    }
    if path.suffix == ".parquet":
        parquet(path, ["a" * 400 * MB] if name == "one.parquet" else ["a" * MB] * 400, name == "many.parquet")
    else:
        with gzip.open(path, "wb", 1) if path.suffix == ".gz" else zstd.open(path, "wb") as out:
            out.writelines(pieces[name])
    command = [sys.executable, "-m", "streambpe", "count", str(tmp_path / "run"), str(path), "--memory", "256MB"]
    process = subprocess.Popen([*command, "--threads", "1"], cwd=ROOT, stderr=subprocess.PIPE, text=True)
    peak = 0
    while process.poll() is None:
        peak = max(peak, resident_bytes(process.pid))
        time.sleep(0.01)
    told = process.communicate()[1]
    assert process.returncode == code, told
    assert peak < 1.05 * 256 * MB
    assert code == 0 or f"{name} holds a document" in told
