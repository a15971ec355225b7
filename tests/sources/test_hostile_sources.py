"""Sources that are not what a count expects: one message each, never a traceback, a hang, or text left out unsaid."""

from __future__ import annotations

import json
import mmap
import os
import socket
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from streambpe.errors import SourceError, Stopped
from streambpe.model.eventlog import write_event_log
from streambpe.resources import Resources
from streambpe.sources import not_text
from streambpe.sources.decode import is_valid_utf8
from streambpe.sources.find import find_sources
from streambpe.text.patterns import find_pattern
from streambpe.train.counting.count import count, resume_count
from tests.runs import StopAfter, cli
from tests.samples import written
from tests.trained import trained

SMALL = Resources(300 << 20, 1)
MEMORY = ["--memory", "300MB", "--threads", "1"]
LINUX = sys.platform == "linux"


def refused(tmp_path: Path, *source: object, stdin: bytes | None = None) -> str:
    """The one message of a count that does not work out."""
    result = cli("count", tmp_path / "run", *source, *MEMORY, input=stdin, expect=None, folder=Path())
    assert result.returncode in (1, 2), result.stderr
    assert len(result.stderr.strip().splitlines()) == 1, result.stderr
    return result.stderr


# ---------------------------------------------------------------------------------------------------------
# tables


@pytest.mark.long
def test_two_columns_of_one_name(tmp_path):
    """Which one is meant cannot be known; columns beside the one that is read may have what names they like."""
    column = pa.array(["a b", "c d"])
    pq.write_table(pa.table([column, column, column], names=["text", "x", "x"]), tmp_path / "a.parquet")
    (tmp_path / "a.csv").write_text("text,x,x\na b,e,f\nc d,e,f\n")
    for name in ("a.parquet", "a.csv"):
        assert "more than one column 'x'" in refused(tmp_path, tmp_path / name, "--text-column", "x")
        run = tmp_path / f"run-{name}"
        assert count(run, [str(tmp_path / name)], resources=SMALL).corpus["chunks"] == 4


# ---------------------------------------------------------------------------------------------------------
# names


@pytest.mark.skipif(not LINUX, reason="names of this file system are text")
@pytest.mark.parametrize("name", [b"bad\xff\xfe.txt", b"folder\xff/a.txt"])
def test_a_name_that_is_no_utf8(tmp_path, name):
    """It was counted, and then no table could hold its name: the run was of no use any more."""
    path = os.fsencode(tmp_path) + b"/" + name
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as out:
        out.write("the cat")
    for source in (os.fsdecode(path), str(tmp_path), f"{tmp_path}/**/*.txt"):
        with pytest.raises(SourceError, match=r"\\xff.*not UTF-8.*Rename it"):
            count(tmp_path / "run", [source], resources=SMALL)
    assert not (tmp_path / "run").exists()


def test_a_name_that_no_file_can_have(tmp_path):
    """Too long, where a field may be as long; with a NUL, which no shell can give."""
    (tmp_path / "a.jsonl").write_text(json.dumps({"x" * 300: "the cat"}))
    source = f"{tmp_path / 'a.jsonl'}:{'x' * 300}"
    assert count(tmp_path / "field", [source], resources=SMALL).corpus["chunks"] == 2
    for name in ("x" * 300 + ".txt", "/".join(["d" * 100] * 60), "x" * 300 + "*.txt", "a\0b.txt"):
        with pytest.raises(SourceError, match=r"cannot be read|No file matches"):
            find_sources([str(tmp_path / name)])


# ---------------------------------------------------------------------------------------------------------
# what is no file


@pytest.mark.skipif(not LINUX, reason="devices and sockets by these names")
def test_pipes_devices_and_sockets(tmp_path, monkeypatch):
    """They give their bytes once, or for ever; a pipe that nobody writes to hung."""
    monkeypatch.chdir(tmp_path)  # the path of a socket is short
    os.mkfifo("pipe.txt")
    with socket.socket(socket.AF_UNIX) as opened:
        opened.bind("a.txt")
        named = {"a.txt": "is a socket", "/dev/null": "is a device", "/dev/zero": "is a device",
                 "pipe.txt": "is a pipe, not a file"}  # fmt: skip
        told = {name: refused(tmp_path, name) for name in named}
    assert all(what in told[name] for name, what in named.items())
    assert "give - instead of its name" in told["pipe.txt"]


@pytest.mark.skipif(not LINUX, reason="links and pipes as here")
def test_links_in_circles_and_to_nowhere(tmp_path):
    """Named, they are refused; in a folder, what cannot be read is told, and what can be is counted once."""
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "a.txt").write_text("the cat")
    (folder / "itself").symlink_to(folder)
    (folder / "loop.txt").symlink_to("loop.txt")
    (folder / "broken.txt").symlink_to("nowhere")
    os.mkfifo(folder / "pipe.txt")
    assert "symbolic links" in refused(tmp_path, folder / "loop.txt")
    assert "No such file" in refused(tmp_path, folder / "broken.txt")
    result = count(tmp_path / "run", [str(folder)], resources=SMALL)
    assert result.corpus["documents"] == 1
    left_out = sorted(Path(text.split(" is ")[0]).name for text in result.warnings)
    assert left_out == ["broken.txt", "itself", "loop.txt", "pipe.txt"]


def test_a_folder_that_may_not_be_looked_into(tmp_path, monkeypatch):
    """Less text than there is would be counted without a word."""
    (tmp_path / "a.txt").write_text("the cat")

    def walk(folder, onerror):
        onerror(PermissionError(13, "Permission denied", str(tmp_path / "secret")))
        return iter([])

    monkeypatch.setattr(os, "walk", walk)
    with pytest.raises(SourceError, match="secret cannot be opened: Permission denied"):
        find_sources([str(tmp_path)])


def test_a_file_that_vanishes_between_listing_and_reading(tmp_path, monkeypatch):
    """One message with its name; those before it are kept, and with the file back the count goes on."""
    (tmp_path / "0.txt").write_text("before it")
    path = written(tmp_path / "a.txt", "x")
    content, sources = path.read_bytes(), [str(tmp_path / "0.txt"), str(path)]

    def listed(*arguments, **options):
        found = find_sources(*arguments, **options)
        path.unlink()
        return found

    with monkeypatch.context() as patch:
        patch.setitem(count.__globals__, "find_sources", listed)
        with pytest.raises(SourceError, match=r"a\.txt cannot be read: No such file or directory"):
            count(tmp_path / "run", sources, resources=SMALL)
    path.write_bytes(content)
    result = count(tmp_path / "run", sources, resources=SMALL)
    assert result.corpus == count(tmp_path / "whole", sources, resources=SMALL).corpus


# ---------------------------------------------------------------------------------------------------------
# patterns


@pytest.mark.parametrize("call", ["(?R)", "(?0)", "(?1)", "(?&again)", "(?P>again)"])
def test_a_pattern_that_calls_itself_is_refused_wherever_one_is_given(tmp_path, call):
    """Nested brackets in the text took 2.7 times --memory, whatever the time limit; one message names the call."""
    expression = rf"(?<again>\((?:[^()]|{call})*\))|(?s:.)"
    (tmp_path / "a.txt").write_text("((the) cat)")
    for option in ("--pattern", "--stage2-pattern", "--superword-pattern", "--forbid"):
        more = [] if option == "--pattern" else ["--superwords", "uw" if "stage2" in option else "boundless"]
        result = cli("train", tmp_path / "run", tmp_path / "a.txt", option, expression, *more, *MEMORY, expect=2)
        assert f"calls itself with {call}" in result.stderr
        assert len(result.stderr.strip().splitlines()) == 1
        assert not (tmp_path / "run").exists()
    find_pattern(rf"[{call}]|\(\?R|(?s:.)")  # none of these is a call


# ---------------------------------------------------------------------------------------------------------
# what is no text


def png(size: int = 3000) -> bytes:
    """An image as far as anybody can see: its first bytes, and compressed ones."""
    rng = np.random.default_rng(1)
    return b"\x89PNG\r\n\x1a\n" + rng.integers(0, 256, size, np.uint8).tobytes()


RUSSIAN = "Съешь же ещё этих мягких французских булок, да выпей чаю. "
NO_TEXT = {
    "png": (png(), "a PNG image"),
    "png of one pixel": (png(60), "a PNG image"),
    "random bytes": (png()[8:], "is not UTF-8 text: "),
    "gzip without its ending": (b"\x1f\x8b\x08\x00" + png(), "compressed by gzip"),
    "a program": (b"\x7fELF" + bytes(3000), "a program"),
    "cp1251": ((RUSSIAN * 20).encode("cp1251"), "iconv -f ITS-ENCODING"),
    "utf-16": ("the cat".encode("utf-16"), "is text in UTF-16"),
    "utf-16 without its mark": (("the cat and the dog " * 9).encode("utf-16-le"), "looks like text in UTF-16LE"),
    "utf-16 the other way round": (("the cat and the dog " * 9).encode("utf-16-be"), "looks like text in UTF-16BE"),
    "utf-32": ("the cat".encode("utf-32"), "is text in UTF-32"),
}


@pytest.mark.every(9)
@pytest.mark.parametrize("name", ["a.txt", "a.csv", "a.jsonl", "-"])
@pytest.mark.parametrize("kind", NO_TEXT)
def test_what_is_mostly_no_utf8_is_refused_by_name(tmp_path, kind, name):
    """Whatever it is called; a text before it is kept. (From random bytes a vocabulary was learned, exit 0.)"""
    data, what = NO_TEXT[kind]
    (tmp_path / "0.txt").write_text("before it")
    source = name if name == "-" else tmp_path / name
    if name != "-":
        (tmp_path / name).write_bytes(data)
    message = refused(tmp_path, tmp_path / "0.txt", source, stdin=data)
    assert what in message
    assert ("standard input" if name == "-" else name) in message
    assert "--bad-utf8" in message


@pytest.mark.long
@pytest.mark.parametrize("policy", ["replace", "skip"])
def test_bad_utf8_by_hand_takes_it(tmp_path, policy):
    """Also in `resume` of a count that was stopped before it came to that file."""
    source, run = written(tmp_path / "a.txt", png()), tmp_path / "run"
    with pytest.raises(Stopped):
        count(run, [str(source)], resources=SMALL, bad_utf8=policy, stop=StopAfter(0))
    result = resume_count(run, resources=SMALL)
    assert (result.counted, result.warnings) == (1, ())


def test_text_with_few_bad_bytes_is_counted_and_told(tmp_path):
    """German in Latin-1: two bytes of a hundred. Short texts are never refused for a byte or two."""
    german = "Die Bären schlafen in der Höhle, und der Schnee fällt leise auf den Wald. " * 99
    (tmp_path / "a.txt").write_bytes(german.encode("latin-1"))
    for i in range(10):
        (tmp_path / f"b{i}.txt").write_bytes(b"caf\xe9")
    result = count(tmp_path / "run", [f"{tmp_path}/*.txt"], resources=SMALL)
    assert result.warnings[0].endswith("a.txt: 297 sequences of bytes that are not UTF-8 became U+FFFD (--bad-utf8).")
    assert len(result.warnings) == 6
    assert result.warnings[-1] == "6 more sources with 6 of them; table sources lists all."
    assert not count(tmp_path / "run", [f"{tmp_path}/*.txt"], resources=SMALL).warnings


@pytest.mark.long
def test_a_block_of_more_than_two_gigabytes_is_looked_at():
    """Its size does not fit 32 bits: a document under --pattern none is one block. Pages of zeros take no memory."""

    class Block(mmap.mmap):
        def isascii(self) -> bool:
            return False

    assert is_valid_utf8(Block(-1, (1 << 31) + 8))


@pytest.mark.long
def test_the_verdict_does_not_hang_on_blocks_threads_or_memory(tmp_path):
    """Text for a megabyte, then bytes: passed by all. Bytes within it that are just too many: refused by all."""
    text = b"the cat " * (1 << 17)
    (tmp_path / "late.txt").write_bytes(text + png(1 << 20))
    (tmp_path / "early.txt").write_bytes(text[: 1 << 19] + png(400_000) + text)
    for number, resources in enumerate((Resources(300 << 20, 1), Resources(300 << 20, 2), Resources(2 << 30, 1))):
        count(tmp_path / f"late{number}", [str(tmp_path / "late.txt")], resources=resources)
        with pytest.raises(SourceError, match=r"early.txt is not UTF-8 text: \d+ % of its first 1,048,576 bytes"):
            count(tmp_path / f"early{number}", [str(tmp_path / "early.txt")], resources=resources)


def test_a_few_nuls_and_a_mark_are_text(tmp_path):
    """UTF-8 with its mark, NULs between words, emoji: nothing is refused."""
    for number, text in enumerate(("\ufeffthe cat", "\0".join(["word"] * 30), "😀👍" * 50, "привет мир " * 30)):
        not_text.refuse_if_not_text(text.encode(), str(number), "")


@pytest.mark.long
def test_encode_and_plan_refuse_it_too(tmp_path):
    """Unless they are told what becomes of the bytes."""
    (tmp_path / "a.txt").write_bytes(png())
    model = tmp_path / "m.events.jsonl"
    write_event_log(model, trained("plain"))
    for output in ([], ["-o", tmp_path / "ids.npy"]):
        command = ["encode", model, tmp_path / "a.txt", *output]
        assert "a PNG image" in cli(*command, expect=1).stderr
        cli(*command, "--bad-utf8", "replace")
    assert "a PNG image" in cli("plan", tmp_path / "a.txt", *MEMORY, "--rehearse", "1MB", expect=None).stderr


@pytest.mark.parametrize("words", [["RUN", ""], ["RUN", "text.txt", ""], ["", "text.txt"]])
def test_an_empty_word_is_not_the_present_folder(words, tmp_path, monkeypatch):
    """`count RUN "$UNSET"` counted all of the present folder, and `count "$UNSET" text.txt` made a RUN of it."""
    (tmp_path / "text.txt").write_text("some text", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    for command in (["count", *words], ["train", *words, "--vocab-size", "300"]):
        result = cli(*command, *MEMORY, expect=2, folder=Path())
        assert "is empty" in result.stderr
        assert os.listdir() == ["text.txt"]
