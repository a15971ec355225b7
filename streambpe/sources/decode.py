"""A block of raw bytes to a counting buffer: UTF-8 with a mark behind every document (text/marks.py)."""

from __future__ import annotations

import bisect
import contextlib
import csv
import hashlib
import io
import operator
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

import msgspec
import numpy as np
import pyarrow as pa
from msgspec import structs

from streambpe.core.binding import JsonLines, lines_as_documents
from streambpe.errors import PatternTooSlow, SourceError
from streambpe.sources.csv_records import csv_reader
from streambpe.sources.json_lines import BadLine, TooDeep, read_line
from streambpe.sources.source import BadUtf8, Block, BlockText, name_of
from streambpe.sources.streams import BOM, SourceBytes


@contextlib.contextmanager
def naming_documents(
    block: Block, bad_utf8: BadUtf8 = "replace", chosen: Sequence[int] | None = None
) -> Iterator[None]:
    """A pattern that takes too long on a document of this block becomes an error that says where the document is.

    `chosen`: the documents that are in the text, if not all are."""
    try:
        yield
    except PatternTooSlow as why:
        number = chosen[why.document] if chosen else why.document
        raise SourceError(f"{_place_of(block, number, bad_utf8)}: {why}") from None


def _place_of(block: Block, document: int, bad_utf8: BadUtf8) -> str:
    """Where a document of a block is: at the first of its values or lines up to which it has more documents than that.
    Those that are null, empty lines or left out have no number."""
    data = block.data
    if block.source.kind == "txt":
        return name_of(block.source)
    lines = [] if isinstance(data, list) else io.BytesIO(data).readlines()

    def documents(n: int) -> int:
        """How many there are in the first values or lines; a record that is cut off may lack the field."""
        some = data[:n] if isinstance(data, list) else b"".join(lines[:n])
        return block_text(structs.replace(block, data=some), bad_utf8, "skip").documents

    at = bisect.bisect_left(range(len(lines or data)), document + 1, key=documents)
    if isinstance(data, list):
        return f"{name_of(block.source)} document {block.start_at + at}"
    return _at_line(block, at - 1)


def digest_values(values: Iterable[str | None]) -> str:
    """sha256 over texts: a byte 1, the length in 8 bytes and the text for each; a byte 0 for a null."""
    digest = hashlib.sha256()
    for value in values:
        if value is None:
            digest.update(b"\0")
        else:
            data = value.encode("utf-8", "surrogatepass")
            digest.update(b"\1" + len(data).to_bytes(8, "little"))
            digest.update(data)
    return digest.hexdigest()


BadLines = Literal["error", "skip"]
_HAVE_LINES = ("lines", "jsonl", "csv")  # kinds of source of which one line, or record, can be left out


class Policy(msgspec.Struct, frozen=True):
    """What becomes of what cannot be read."""

    bad_utf8: BadUtf8
    bad_lines: BadLines | None = None  # None: of a command that has no such option

    @property
    def skips(self) -> bool:
        """Whether lines that cannot be read are left out."""
        return self.bad_lines == "skip"

    @property
    def advice(self) -> str:
        """How such a line is left out, where that can be said."""
        return " --bad-lines skip leaves such lines out and counts them." if self.bad_lines == "error" else ""


def block_text(block: Block, bad_utf8: BadUtf8, bad_lines: BadLines | None = None) -> BlockText:
    """The counting buffer of a block, with what was repaired and skipped on the way."""
    how = Policy(bad_utf8, bad_lines)
    if isinstance(block.data, list):
        return _text_of_values(block.data, block, how, digest_values(block.data))
    data = block.data
    digest = hashlib.sha256(data).hexdigest()
    boms = 0
    if block.start_at == 0 and data.startswith(BOM):
        data, boms = data[3:], 1
    data, bad, left_out = _repair(data, block, how)
    if block.source.kind == "jsonl":
        made = _text_of_jsonl(data, block, how, digest)
    elif block.source.kind == "csv":
        made = _text_of_csv(data, block, how, digest)
    elif block.source.kind == "lines":
        text = lines_as_documents(data, block.inside_document)
        if block.ends_source and data and not data.endswith(b"\n"):
            text += b"\xff"
        made = BlockText(text, text.count(b"\xff"), digest)
    else:
        text = data + b"\xff" if block.ends_source else data
        made = BlockText(text, int(block.ends_source), digest)
    made.bad_utf8 += bad
    made.bad_lines += left_out
    made.boms += boms
    return made


def is_valid_utf8(data: bytes) -> bool:
    """Whether these bytes are valid UTF-8; about 2 GB/s for ASCII, without a copy."""
    if data.isascii():
        return True
    offsets = np.array([0, len(data)], np.int64)
    try:
        pa.LargeStringArray.from_buffers(1, pa.py_buffer(offsets), pa.py_buffer(data)).validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _repair(data: bytes, block: Block, how: Policy) -> tuple[bytes, int, int]:
    """(valid UTF-8, how many invalid sequences were replaced by U+FFFD or left out, how many lines were left out).

    A line that is left out becomes an empty one, which is no document. Of a csv, the records are looked at later.
    """
    if is_valid_utf8(data):
        return data, 0, 0
    if how.bad_utf8 == "error":
        if how.skips and block.source.kind == "csv":
            return data, 0, 0
        if how.skips and block.source.kind in _HAVE_LINES:
            lines = data.split(b"\n")
            valid = [line if is_valid_utf8(line) else b"" for line in lines]
            return b"\n".join(valid), 0, sum(map(operator.ne, lines, valid))
        try:
            data.decode()
        except UnicodeDecodeError as why:
            advice = how.advice if block.source.kind in _HAVE_LINES else ""
            raise SourceError(
                f"{name_of(block.source)} is not UTF-8: byte {block.start_at + why.start} is 0x{data[why.start]:02X} "
                f"({why.reason}). Everything before it is kept. Give --bad-utf8 replace or skip, or repair it.{advice}"
            ) from None
    replaced = data.decode("utf-8", "replace")
    # a lead byte 0xEF never ends inside another sequence, so each of these was valid
    bad = replaced.count("\ufffd") - data.count(b"\xef\xbf\xbd")
    text = replaced if how.bad_utf8 == "replace" else data.decode("utf-8", "ignore")
    return text.encode(), bad, 0


_SURROGATE = re.compile("[\ud800-\udfff]")


def _text_of_values(values: Iterable[str | None], block: Block, how: Policy, digest: str, before: int = 0) -> BlockText:
    """One document per value; null is skipped and counted, lone surrogates fall under the policy. `before`: how many
    values of the block there were before these."""
    texts: list[bytes] = []
    nulls = bad = left_out = 0
    for i, value in enumerate(values, before):
        if value is None:
            nulls += 1
            continue
        try:
            texts.append(value.encode())
        except UnicodeEncodeError as why:
            if how.bad_utf8 == "error" and how.skips:
                left_out += 1
                continue
            if how.bad_utf8 == "error":
                raise SourceError(
                    f"{name_of(block.source)}: document {i} after position {block.start_at} holds the lone surrogate "
                    f"U+{ord(value[why.start]):04X}, which is no character. Everything before it is kept. "
                    f"Give --bad-utf8 replace or skip, or repair it.{how.advice}"
                ) from None
            fixed, n = _SURROGATE.subn("\ufffd" if how.bad_utf8 == "replace" else "", value)
            bad += n
            texts.append(fixed.encode())
    text = b"\xff".join(texts) + b"\xff" if texts else b""
    return BlockText(text, len(texts), digest, bad_utf8=bad, nulls=nulls, bad_lines=left_out)


def _text_of_jsonl(data: bytes, block: Block, how: Policy, digest: str) -> BlockText:
    made, texts = BlockText(b"", 0, digest), []
    fast, stop = JsonLines(data, block.source.column.encode("utf-8", "surrogatepass")), 0
    while True:
        text, start, documents, nulls = fast.read(stop)
        texts.append(text)
        made.documents += documents
        made.nulls += nulls
        if start == len(data):
            break
        stop = data.find(b"\n", start) + 1 or len(data)
        line = data[start:stop].removesuffix(b"\n")
        if not line.strip():
            continue
        try:
            value = read_line(line, block.source.column)
        except BadLine as why:
            if not how.skips or isinstance(why, TooDeep):
                advice = "" if isinstance(why, TooDeep) else how.advice
                number = data.count(b"\n", 0, start)
                raise SourceError(f"{_at_line(block, number)}{why}{advice}") from None
            made.bad_lines += 1
            continue
        one = _text_of_values([value], block, how, "", made.documents + made.nulls)
        texts.append(one.text)
        for count in ("documents", "nulls", "bad_utf8", "bad_lines"):
            setattr(made, count, getattr(made, count) + getattr(one, count))
    made.text = texts[0] if len(texts) == 1 else b"".join(texts)
    return made


def _at_line(block: Block, number: int) -> str:
    """ "FILE line N": counts the line breaks before the block, which costs a read up to there."""
    before = 0
    if not block.source.is_stream:
        with SourceBytes(block.source) as stream:
            while data := stream.read(min(block.start_at - stream.at, 1 << 20)):
                before += data.count(b"\n")
    elif block.start_at:
        return f"{name_of(block.source)}, line {number + 1} after byte {block.start_at},"
    return f"{name_of(block.source)} line {before + number + 1}"


def _text_of_csv(data: bytes, block: Block, how: Policy, digest: str) -> BlockText:
    index = block.header.index(block.source.column)
    values: list[str | None] = []
    bad = 0
    # bytes that are not UTF-8 become lone surrogates
    reader = csv_reader(io.StringIO(data.decode("utf-8", "surrogateescape"), newline=""))
    if block.start_at == 0:
        next(reader, None)  # the header
    strict = how.skips and how.bad_utf8 == "error"
    try:
        for row in reader:
            if not row:
                continue
            is_bad = strict and any(not field.isascii() and _SURROGATE.search(field) for field in row)
            if len(row) > index and not is_bad:
                values.append(row[index])
            elif how.skips:
                bad += 1
            else:
                raise SourceError(
                    f"{_at_line(block, reader.line_num - 1)} has {len(row)} fields; column {block.source.column!r} is "
                    f"number {index + 1}. Everything before it is kept.{how.advice}"
                )
    except csv.Error as why:
        raise SourceError(f"{_at_line(block, reader.line_num)}: {why}. Everything before it is kept.") from None
    made = _text_of_values(values, block, how, digest)
    made.bad_lines += bad
    return made
