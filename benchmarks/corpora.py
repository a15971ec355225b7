"""Corpora as every contender reads them: one uncompressed JSON-lines file, or one text file read by lines.

A text file in which documents simply follow each other has to be cut into documents, and all must
count the same ones. As a single document it would be no comparison: the peers share work between
threads by document, so one thread would do it all.

    blocks   pieces of at least 8 KiB, cut after a line feed that something other than white space follows
    lines    every line is a document, without its line feed; empty lines are left out
    ended    every line is a document, with its line feed: what gigabpe makes of a text

JSON lines pass through untouched (field "text").
"""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO

BLOCK_BYTES = 8192


def prepare(corpus: str, work: str, documents: str, mb: float | None) -> dict[str, str]:
    """Write what the contenders read, unless it is there; its path, kind ("jsonl" or "lines") and name.

    Where documents are lines, `text` is the path of the text itself.
    """
    path = Path(corpus)
    name, kind = path.name.removesuffix(".zst").removesuffix(".gz"), "lines" if documents == "lines" else "jsonl"
    stem, ending = name.rsplit(".", 1)
    if ending not in ("txt", "jsonl"):
        sys.exit(f"{corpus}: a .txt or .jsonl file, or either as .zst, is wanted.")
    if ending == "jsonl":
        documents, kind = "as they are", "jsonl"
    stem += f"-{mb:g}mb" if mb else ""
    if path.name == name and not mb and (ending == "jsonl" or documents == "lines"):
        read = {"text": str(path.resolve())} if kind == "lines" else {}
        return {"path": str(path.resolve()), "kind": kind, "name": stem, "documents": documents, **read}
    target = Path(work) / f"{stem}.{documents.split()[0]}.{'txt' if kind == 'lines' else 'jsonl'}"
    read = {}
    if documents == "ended":
        read = {"text": prepare(corpus, work, "lines", mb)["path"]}
    elif kind == "lines":
        read = {"text": str(target)}
    if not target.exists() or target.stat().st_mtime < path.stat().st_mtime:
        unfinished = target.with_suffix(".unfinished")
        with open_corpus(path) as source, unfinished.open("wb") as out:
            lines = _first_bytes(source, int(mb * 1e6) if mb else None)
            if ending == "jsonl" or documents == "lines":
                out.writelines(lines)
            else:
                for text in lines if documents == "ended" else _blocks(lines):
                    out.write(json.dumps({"text": text.decode()}, ensure_ascii=False).encode() + b"\n")
        unfinished.rename(target)
    return {"path": str(target), "kind": kind, "name": stem, "documents": documents, **read}


def open_corpus(path: Path) -> IO[bytes]:
    if path.suffix != ".zst":
        return path.open("rb")
    try:
        from compression import zstd
    except ImportError:
        from backports import zstd
    return io.BufferedReader(zstd.ZstdFile(path))


def _first_bytes(source: IO[bytes], most: int | None) -> Iterator[bytes]:
    """Whole lines until `most` bytes are reached."""
    done = 0
    for line in source:
        yield line
        done += len(line)
        if most is not None and done >= most:
            return


def copy_first(source: Path, target: Path, mb: float | None) -> None:
    """A text decompressed, or its first MB in whole lines."""
    with open_corpus(source) as lines, target.open("wb") as out:
        out.writelines(_first_bytes(lines, int(mb * 1e6) if mb else None))


def _blocks(lines: Iterator[bytes]) -> Iterator[bytes]:
    block: list[bytes] = []
    size = 0
    for line in lines:
        if size >= BLOCK_BYTES and not line[:1].isspace():
            yield b"".join(block)
            block, size = [], 0
        block.append(line)
        size += len(line)
    if block:
        yield b"".join(block)


def hold_out(documents: Path, work: Path, every: int) -> tuple[Path, Path]:
    """(documents to learn from, each so many-th one, which is held out), as lines of the same kind."""
    kept, held = (work / f"{documents.stem}.{part}-{every}{documents.suffix}" for part in ("kept", "held"))
    if not held.exists() or held.stat().st_mtime < documents.stat().st_mtime:
        unfinished = held.with_suffix(".unfinished")
        with documents.open("rb") as source, kept.open("wb") as learn, unfinished.open("wb") as test:
            for number, line in enumerate(source, 1):
                (learn if number % every else test).write(line)
        unfinished.rename(held)
    return kept, held


def describe(path: str, kind: str) -> dict[str, int]:
    """Documents and UTF-8 bytes of text, as the contenders see them."""
    from peers import read_documents

    documents = text_bytes = 0
    for text in read_documents(path, kind):
        documents += 1
        text_bytes += len(text.encode())
    return {"documents": documents, "bytes": text_bytes}
