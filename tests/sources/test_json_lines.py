"""JSON lines read by the core: every line is taken for what json takes it for, or left to it."""

from __future__ import annotations

import random

import pytest
import regex

from streambpe.core.binding import JsonLines
from streambpe.errors import SourceError
from streambpe.sources.decode import block_text
from streambpe.sources.json_lines import BadLine, read_line
from streambpe.sources.source import Block, Source
from tests.tiers import seeds

# what strings are made of here, good and bad
PIECES = [
    b"a", b" the", b"text", b"xxxxxxxx", b"y" * 31, "é€😀".encode(), b"\x7f", b"{", b"}", b"[", b"]", b":", b",", b"/",
    b'\\"', b"\\\\", b"\\/", b"\\b", b"\\f", b"\\n", b"\\r", b"\\t", b"\\u0041", b"\\u0000", b"\\u00e9", b"\\uFFFF",
    b"\\uD83D\\uDE00", b"\\uFfFd", b"\\ud83d", b"\\ude00", b"\\ud83d\\u0041", b"\\uDE00\\uD83D", b"\\ud83d\\u12",
    b"\\u12", b"\\u12g4", b"\\q", b"\\x41", b"\\U0041", b"\\", b'"', b"\x00", b"\x01", b"\x1f", b"\t", b"\r",
]  # fmt: skip
GOOD = 28  # so many of them are good anywhere in a string
NAMES = [
    b'"text"', b'"text"', b'"id"', b'"te\\u0078t"', b'"\\u0074ext"', b'"tex"', b'"textt"', b'""', b'"Text"',
    '"café"'.encode(), b'"caf\\u00e9"', b'"a\\"b"', b'"text\\u0000"', b'"t\\ud800"', b'"te\\xt"',
]  # fmt: skip
GOOD_NAMES = 13
VALUES = [
    b"1", b"-0", b"1.5", b"-1.5e10", b"1E+5", b"1e-999", b"1e999", b"9" * 30, b"null", b"true", b"false", b"[]", b"{}",
    b"NaN", b"Infinity", b"-Infinity", b'[1, {"text": "in"}]', b'{"text":"in", "a" : [ ]}', b"[" * 20 + b"]" * 20,
    b"01", b"-", b"1.", b".5", b"1e", b"+1", b"nul", b"nulls", b"trueish", b"-NaN", b"Inf", b"0x1", b"9" * 5000, b"-I",
    b"--1", b"", b"[1,]", b'{"a":1,}', b"[,]", b"{1:2}", b'{"a"}', b"[1 2]", b"[" * 40 + b"]" * 40, b"[" * 2000, b"[}",
]  # fmt: skip
GOOD_VALUES = 19
LINES = [
    b"", b" ", b"\r", b"\x0b", b"[]", b"null", b"1", b'"text"', b"{", b"}", b"{}", b"{}{}", b"{,}", b'{"text"',
    b'{"text":', b'{"text":"', b'{"text":"a', b'{"text":"a"', b'{"text":"a",', b'{"text":"a"}{"text":"b"}',
    b'{"text":"a"},', b'{"text":"a"} x', b'{"text":"a"}\x0b', b'\x0c{"text":"a"}', b'\xef\xbb\xbf{"text":"a"}',
    b"[" * 3000, b'{"a":' * 33 + b"1" + b"}" * 33, '{"text":"中\u2d4e"}'.encode("utf-16-le").replace(b"\n", b""),
    b"{\0\"\0t\0e\0x\0t\0\"\0:\0\"\0-N-N-N-N\"\0}\0",
]  # fmt: skip


def string(draw: random.Random, wild: bool) -> bytes:
    pieces = PIECES if wild else PIECES[:GOOD]
    times = 30_000 if draw.random() < 0.002 else 1
    return b'"' + b"".join(draw.choices(pieces, k=draw.choice((0, 1, 2, 3, 5, 9, 20)))) * times + b'"'


def line(draw: random.Random, wild: bool) -> bytes:
    """A line; a wild one is often bad."""
    if draw.random() < 0.07:
        return draw.choice(LINES if wild else LINES[:3])

    def blank() -> bytes:
        return draw.choice((b"", b"", b"", b" ", b"\t", b" \r", b"\x0b" if wild and draw.random() < 0.1 else b""))

    names = draw.choices(NAMES if wild else NAMES[:GOOD_NAMES], k=draw.choice((0, 0, 1, 2, 4)))
    names.insert(draw.randrange(len(names) + 1), b'"text"')
    parts = []
    for name in names:
        text = string(draw, wild and draw.random() < 0.3)
        value = text if draw.random() < 0.7 else draw.choice(VALUES if wild else VALUES[:GOOD_VALUES])
        parts.append(blank() + name + blank() + b":" + blank() + value + blank())
    made = blank() + b"{" + b",".join(parts) + b"}" + blank()
    if wild and draw.random() < 0.1:
        at = draw.randrange(len(made))
        made = made[:at] + bytes([draw.randrange(256)]) + made[at + draw.randrange(2) :]
    return made[: draw.randrange(len(made))] if wild and draw.random() < 0.05 else made


def one_by_one(data: bytes, column: str) -> list[str | tuple[int, str] | None]:
    """What json takes each line for; of a bad one its number and why."""
    values: list[str | tuple[int, str] | None] = []
    for number, each in enumerate(data.split(b"\n")):
        if each.strip():
            try:
                values.append(read_line(each, column))
            except BadLine as why:
                values.append((number, str(why)))
    return values


def check_lines(data: bytes, column: str, wanted: list[str | tuple[int, str] | None]) -> None:
    """The same by the core, as far as it takes them."""
    block = Block(Source("in", "jsonl", column, is_stdin=True), 1, len(data) + 1, data, True)
    bad = [value for value in wanted if isinstance(value, tuple)]
    if bad:
        with pytest.raises(SourceError) as told:
            block_text(block, "replace", "error")
        assert f"line {bad[0][0] + 1} after byte 1," in str(told.value)
        assert bad[0][1] in str(told.value)
    if not any("nested too deeply" in why for _, why in bad):
        made = block_text(block, "replace", "skip")
        texts = [regex.sub("[\ud800-\udfff]", "\ufffd", value) for value in wanted if isinstance(value, str)]
        assert made.text == b"".join(text.encode() + b"\xff" for text in texts)
        assert (made.documents, made.nulls, made.bad_lines) == (len(texts), wanted.count(None), len(bad))


@pytest.mark.parametrize("wild", [False, True])
def test_random_lines_are_what_json_takes_them_for(wild: bool) -> None:
    taken = 0
    for seed in seeds(100):
        draw = random.Random(seed)
        for _ in range(100):
            data = b"\n".join(line(draw, wild) for _ in range(draw.choice((1, 1, 2, 8)))) + draw.choice((b"", b"\n"))
            data = data.decode(errors="replace").encode()  # block_text has repaired it before
            column = draw.choice(("text", "text", "text", "café", 'a"b', "id", "te\\xt", "", "\udce9"))
            wanted = one_by_one(data, column)
            check_lines(data, column, wanted)
            if not wild and not any(isinstance(value, tuple) for value in wanted):
                assert JsonLines(data, column.encode("utf-8", "replace")).read(0)[1] == len(data), (data, column)
                taken += 1
    assert wild or taken > 50, "lines that leave no doubt are not left to json"
