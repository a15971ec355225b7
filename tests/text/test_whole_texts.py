"""Real text, megabytes of it: the counting route against find-all, for every preset.

`make test` compares 2 MB. `STREAMBPE_CORPUS=folder make test-long` also compares every .txt and .txt.zst
file of that folder, block by block.
"""

from __future__ import annotations

import json
import os
import random
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hostile import buffer_of, fast_documents, preset_patterns

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

SAMPLE = Path(__file__).parents[1] / "data" / "sample"
CORPUS = os.environ.get("STREAMBPE_CORPUS")
FILES = sorted(Path(CORPUS).glob("*.txt*")) if CORPUS else []
PATTERNS = preset_patterns()
NAMES = [name for name, _ in PATTERNS]
BLOCK = 1_000_000


def two_megabytes() -> str:
    """The bundled samples, their paragraphs and lines in another order each time, so that they meet anew."""
    parts: list[str] = []
    for path in sorted(SAMPLE.iterdir()):
        text = path.read_text(encoding="utf-8")
        parts += [json.loads(line)["text"] for line in text.splitlines()] if path.suffix == ".jsonl" else [text]
    lines = [line for part in parts for line in part.splitlines(keepends=True)]
    rng, found, size = random.Random("two megabytes"), [], 0
    while size < 2_000_000:
        rng.shuffle(lines)
        found += lines
        size += sum(map(len, lines))
    return "".join(found)[:2_000_000]


def blocks_of(path: Path) -> Iterator[str]:
    """A file's text, a million characters at a time."""
    with (zstd.open if path.suffix == ".zst" else open)(path, "rt", encoding="utf-8", newline="") as file:
        while block := file.read(BLOCK):
            yield block


def assert_same_chunks(text: str, pattern) -> None:
    (found,) = fast_documents(buffer_of(text), pattern)
    wanted = pattern.split(text)
    if found != wanted:
        at = next(i for i, (a, b) in enumerate(zip([*found, None], [*wanted, None], strict=False)) if a != b)
        pytest.fail(f"chunk {at} after {wanted[max(0, at - 3) : at]}: {found[at : at + 3]}, not {wanted[at : at + 3]}")


@pytest.mark.every(16)
@pytest.mark.parametrize(("name", "pattern"), PATTERNS, ids=NAMES)
def test_two_megabytes_equal_find_all(name, pattern):
    """Two documents of a megabyte."""
    text = two_megabytes()
    assert_same_chunks(text[:BLOCK], pattern)
    assert_same_chunks(text[BLOCK:], pattern)


@pytest.mark.long
@pytest.mark.skipif(not FILES, reason="STREAMBPE_CORPUS names no folder with .txt or .txt.zst files")
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
@pytest.mark.parametrize(("name", "pattern"), PATTERNS, ids=NAMES)
def test_whole_files_equal_find_all(name, pattern, path):
    """Every block of every file."""
    for block in blocks_of(path):
        assert_same_chunks(block, pattern)
