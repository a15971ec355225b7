"""What counting leaves out: samples, ends of documents, bad lines. The same whatever a file is read in, and by whom."""

from __future__ import annotations

import gzip
from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from streambpe.errors import RunMismatch
from streambpe.resources import Resources
from streambpe.store.exchange import merge_counts
from streambpe.train.counting import spread
from streambpe.train.counting.count import count, resume_count
from streambpe.train.counting.take_back import take_back
from tests.oracles.splits import split_text
from tests.oracles.tables import check
from tests.runners.tasks import instead_of_ray
from tests.runs import cli_killed, rows, small_blocks
from tests.sources.test_document_cap import PATTERNS, beginning, documents
from tests.sources.test_samples import ONE, as_jsonl, chosen, in_sample

CHOICES: dict[str, tuple[str, dict[str, Any]]] = {
    "sample": ("gpt4o", {"sample": "1/3"}),
    "long beginnings": ("superbpe2", {"document_cap": 3000}),
    "files": ("gpt4o", {"sample_files": "1/2", "seed": 5}),
    "short beginnings": ("whitespace", {"document_cap": 40}),
    "beginnings": ("gpt4o", {"document_cap": 700}),
}
BAD_LINES = {"b.jsonl.gz": 2, "d.csv": 1}
SUMS = ("documents", "text_bytes", "cut_documents", "cut_bytes", "bad_lines")
Counted = tuple[dict[str, int], tuple[int, ...]]


def write(folder: Path) -> dict[Path, list[str]]:
    """Documents in every kind of file, with bad lines between them; in the last files with bytes that are no UTF-8,
    which are shown as they are counted."""
    folder.mkdir()
    texts = documents(8, 80)
    jsonl, table, csv = (texts[start : start + 15] for start in (0, 15, 30))
    lines = as_jsonl(jsonl[:9]) + "[1]\nbad\n" + as_jsonl(jsonl[9:])
    (folder / "b.jsonl.gz").write_bytes(gzip.compress(lines.encode()))
    pl.DataFrame({"text": table}).write_parquet(folder / "c.parquet")
    (folder / "d.csv").write_text("id,text\none\n" + "".join(f'1,"{text}"\n' for text in csv), encoding="utf-8")
    found = {folder / "b.jsonl.gz": jsonl, folder / "c.parquet": table, folder / "d.csv": csv}
    for number in range(9):
        some = [f"{text} caf\ufffd {number}" for text in texts[45 + 3 * number : 48 + 3 * number]]
        raw = ("\ufeff" * (number % 2) + "\n".join(some)).encode().replace("\ufffd".encode(), b"\xf0\x9f")
        path, raw = (folder / f"{number}.txt", raw) if number % 3 else (folder / f"{number}.txt.gz", gzip.compress(raw))
        path.write_bytes(raw)
        found[path] = some
    return found


def wanted(files: dict[Path, list[str]], name: str, lines: bool = False) -> Counted:
    """By the definitions: (the chunks, the SUMS)."""
    pattern, options = PATTERNS[CHOICES[name][0]], CHOICES[name][1]
    chunks, sums = Counter[str](), Counter[str]()
    for path, texts in files.items():
        if "sample_files" in options and not in_sample(str(path), 2, 5):
            continue
        sums["bad_lines"] += BAD_LINES.get(path.name, 0)
        for text in texts if lines or ".txt" not in path.name else ["\n".join(texts)]:
            if "sample" in options and not chosen([text], 3):
                continue
            first = beginning(pattern, text, options.get("document_cap", len(text)))
            chunks.update(split_text(pattern, first))
            left = len(text.encode()) - len(first.encode())
            sums.update(documents=1, text_bytes=len(first.encode()), cut_documents=int(left > 0), cut_bytes=left)
    assert sums["cut_bytes"] > 0 or sums["documents"] < (72 if lines else 54), "nothing is left out"
    return dict(chunks), tuple(sums[of] for of in SUMS)


def counted(run: Path) -> Counted:
    """The same of a run."""
    (found,) = rows(run, f"SELECT {', '.join(f'sum({name})' for name in SUMS)} FROM source_files")
    return dict(rows(run, "SELECT chunk, n FROM chunk_counts")), tuple(map(int, found))


def options_of(name: str) -> dict[str, Any]:
    """How it is counted."""
    return {"pattern": CHOICES[name][0], "bad_utf8": "replace", "bad_lines": "skip", **CHOICES[name][1]}


@pytest.mark.every(2)
@pytest.mark.parametrize("name", CHOICES)
def test_what_is_left_of_files_in_blocks_of_any_size(tmp_path, monkeypatch, name):
    """Files that are one document come in pieces, which other threads count; or each of their lines is one."""
    files, how = write(tmp_path / "in"), options_of(name)
    result = count(tmp_path / "run", [str(tmp_path / "in")], resources=ONE, **how)
    want = wanted(files, name)
    assert counted(tmp_path / "run") == want
    assert (result.cut_documents, result.cut_bytes) == want[1][2:4]
    assert any("cut at --document-cap" in told for told in result.warnings) == ("document_cap" in how)
    small_blocks(monkeypatch, 600)
    for lines, threads in ((True, 1), (False, 3)):
        run, resources = tmp_path / f"lines {lines}", Resources(400 * 10**6, threads, engine="threads")
        count(run, [str(tmp_path / "in")], lines=lines, resources=resources, **how)
        assert counted(run) == wanted(files, name, lines)


@pytest.mark.long
@pytest.mark.parametrize("name", ["sample", "files", "beginnings"])
def test_what_is_left_is_the_same_whoever_counts(tmp_path, monkeypatch, name):
    """In shares that are merged, in tasks, after a kill, in two goes, and where sources are taken back; a RUN keeps its
    choice."""
    files, how = write(tmp_path / "in"), options_of(name)
    names, want = [str(path) for path in files], wanted(files, name)
    for k in (1, 2):
        count(tmp_path / f"s{k}", names, shard=f"{k}/2", sequences=True, resources=ONE, **how)
    merge_counts(tmp_path / "all", [tmp_path / "s2", tmp_path / "s1"], resources=ONE)
    assert counted(tmp_path / "all") == want
    assert check(tmp_path / "all", resources=ONE, sources=True) == []
    instead_of_ray(monkeypatch)
    monkeypatch.setattr(spread, "_LEAST_TASK", 2000)
    count(tmp_path / "tasks", names, resources=Resources(10**9, 2, engine="ray"), **how)
    assert counted(tmp_path / "tasks") == want
    words = [f"--{option.replace('_', '-')}={value}" for option, value in how.items()]
    cli_killed("part-committed", "count", tmp_path / "killed", tmp_path / "in", *words)
    resume_count(tmp_path / "killed", resources=ONE)
    assert counted(tmp_path / "killed") == want
    count(tmp_path / "later", names[:8], resources=ONE, **how)
    count(tmp_path / "later", names, resources=ONE)
    assert counted(tmp_path / "later") == want
    paths = {path for (path,) in rows(tmp_path / "later", "SELECT path FROM sources")}
    gone = names[5:10]  # of both goes
    take_back(tmp_path / "later", [path for path in gone if path in paths], resources=ONE)
    assert counted(tmp_path / "later") == wanted({path: files[path] for path in files if str(path) not in gone}, name)
    option, value = next(iter(CHOICES[name][1].items()))
    flag, other = option.replace("_", "-"), 600 if option == "document_cap" else "1/9"
    with pytest.raises(RunMismatch, match=f"--{flag} {value}, not {other}"):
        count(tmp_path / "all", names, resources=ONE, **how | {option: other})
    without = {key: given for key, given in how.items() if key not in CHOICES[name][1]}
    count(tmp_path / "whole", names[:1], resources=ONE, **without)
    with pytest.raises(RunMismatch, match=option):
        merge_counts(tmp_path / "all", [tmp_path / "whole"], resources=ONE)
