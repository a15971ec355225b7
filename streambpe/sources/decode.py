"""A block of raw bytes to a counting buffer: UTF-8 with a mark behind every document (text/marks.py)."""

from __future__ import annotations

import contextlib
import csv
import hashlib
import io
import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from streambpe.core.binding import lines_as_documents
from streambpe.errors import SourceError
from streambpe.sources.csv_records import csv_reader, listed_names
from streambpe.sources.source import BadUtf8, Block, BlockText, name_of
from streambpe.sources.streams import BOM, open_bytes


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


def block_text(block: Block, bad_utf8: BadUtf8) -> BlockText:
    """The counting buffer of a block, with what was repaired and skipped on the way."""
    if isinstance(block.data, list):
        return _text_of_values(block.data, block, bad_utf8, digest_values(block.data))
    data = block.data
    digest = hashlib.sha256(data).hexdigest()
    boms = 0
    if block.start_at == 0 and data.startswith(BOM):
        data, boms = data[3:], 1
    data, bad = _repair(data, block, bad_utf8)
    if block.source.kind == "jsonl":
        made = _text_of_jsonl(data, block, bad_utf8, digest)
    elif block.source.kind == "csv":
        made = _text_of_csv(data, block, bad_utf8, digest)
    elif block.source.kind == "lines":
        text = lines_as_documents(data, block.inside_document)
        if block.ends_source and data and not data.endswith(b"\n"):
            text += b"\xff"
        made = BlockText(text, text.count(b"\xff"), digest)
    else:
        text = data + b"\xff" if block.ends_source else data
        made = BlockText(text, int(block.ends_source), digest)
    made.bad_utf8 += bad
    made.boms += boms
    return made


def is_valid_utf8(data: bytes) -> bool:
    """Whether these bytes are valid UTF-8; about 2 GB/s for ASCII, without a copy."""
    if data.isascii():
        return True
    offsets = np.array([0, len(data)], np.int32)
    try:
        pa.StringArray.from_buffers(1, pa.py_buffer(offsets), pa.py_buffer(data)).validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _repair(data: bytes, block: Block, policy: BadUtf8) -> tuple[bytes, int]:
    """Valid UTF-8, and how many invalid sequences were replaced by U+FFFD or left out."""
    if is_valid_utf8(data):
        return data, 0
    if policy == "error":
        try:
            data.decode()
        except UnicodeDecodeError as why:
            raise SourceError(
                f"{name_of(block.source)} is not UTF-8: byte {block.start_at + why.start} is 0x{data[why.start]:02X} "
                f"({why.reason}). Everything before it is kept. Give --bad-utf8 replace or skip, or repair it."
            ) from None
    replaced = data.decode("utf-8", "replace")
    # a lead byte 0xEF never ends inside another sequence, so each of these was valid
    bad = replaced.count("\ufffd") - data.count(b"\xef\xbf\xbd")
    text = replaced if policy == "replace" else data.decode("utf-8", "ignore")
    return text.encode(), bad


_SURROGATE = re.compile("[\ud800-\udfff]")


def _text_of_values(values: Iterable[str | None], block: Block, policy: BadUtf8, digest: str) -> BlockText:
    """One document per value; null is skipped and counted, lone surrogates fall under the policy."""
    texts: list[bytes] = []
    nulls = bad = 0
    for i, value in enumerate(values):
        if value is None:
            nulls += 1
            continue
        try:
            texts.append(value.encode())
        except UnicodeEncodeError as why:
            if policy == "error":
                raise SourceError(
                    f"{name_of(block.source)}: document {i} after position {block.start_at} holds the lone surrogate "
                    f"U+{ord(value[why.start]):04X}, which is no character. Everything before it is kept. "
                    f"Give --bad-utf8 replace or skip, or repair it."
                ) from None
            fixed, n = _SURROGATE.subn("\ufffd" if policy == "replace" else "", value)
            bad += n
            texts.append(fixed.encode())
    text = b"\xff".join(texts) + b"\xff" if texts else b""
    return BlockText(text, len(texts), digest, bad_utf8=bad, nulls=nulls)


def _text_of_jsonl(data: bytes, block: Block, policy: BadUtf8, digest: str) -> BlockText:
    row = _row_type(block.source.column)
    try:
        values = [r.text for r in msgspec.json.Decoder(row).decode_lines(data)]
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        values = list(_values_line_by_line(data, block))
    return _text_of_values(values, block, policy, digest)


def _row_type(column: str) -> Any:
    """What msgspec reads of a line: the one field, everything else skipped unread."""
    return msgspec.defstruct("Row", [("text", str | None)], rename={"text": column})


def _values_line_by_line(data: bytes, block: Block) -> Iterator[str | None]:
    """The slow way, for blocks with a lone surrogate or an error: each error names its line."""
    column = block.source.column
    for number, line in enumerate(data.split(b"\n")):
        if not line.strip():
            continue
        try:
            row = json.loads(line, parse_int=_parse_int)
        except RecursionError:
            raise SourceError(
                f"{_at_line(block, number)} has brackets in brackets deeper than is read (some hundreds). Everything "
                f"before it is kept. Leave the line out, or write the field apart."
            ) from None
        except ValueError as why:
            raise SourceError(f"{_at_line(block, number)} is not JSON ({why}). Everything before it is kept.") from None
        if not isinstance(row, dict):
            raise SourceError(f"{_at_line(block, number)} is not a JSON object. Everything before it is kept.")
        if column not in row:
            raise SourceError(
                f"{_at_line(block, number)} has no field {column!r}; it has {listed_names(list(row))}. "
                f"Everything before it is kept. Pick the field with --text-column, or FILE:FIELD."
            )
        value = row[column]
        if value is not None and not isinstance(value, str):
            raise SourceError(
                f"{_at_line(block, number)}: field {column!r} is {type(value).__name__}, not a string. "
                f"Everything before it is kept."
            )
        yield value


def _parse_int(digits: str) -> int | float:
    """Python refuses integers of more than 4 300 digits; the fast reader skips them unread, so they are legal."""
    return int(digits) if len(digits) < 4000 else float(digits)


def _at_line(block: Block, number: int) -> str:
    """ "FILE line N": counts the line breaks before the block, which costs a read up to there."""
    before = 0
    if not block.source.is_stream:
        stream, _ = open_bytes(block.source)
        with contextlib.closing(stream):
            left = block.start_at
            while left and (data := stream.read(min(left, 1 << 20))):
                before += data.count(b"\n")
                left -= len(data)
    elif block.start_at:
        return f"{name_of(block.source)}, line {number + 1} after byte {block.start_at},"
    return f"{name_of(block.source)} line {before + number + 1}"


def _text_of_csv(data: bytes, block: Block, policy: BadUtf8, digest: str) -> BlockText:
    index = block.header.index(block.source.column)
    values: list[str | None] = []
    reader = csv_reader(io.StringIO(data.decode(), newline=""))
    if block.start_at == 0:
        next(reader, None)  # the header
    try:
        for row in reader:
            if not row:
                continue
            if len(row) <= index:
                raise SourceError(
                    f"{_at_line(block, reader.line_num - 1)} has {len(row)} fields; column "
                    f"{block.source.column!r} is number {index + 1}. Everything before it is kept."
                )
            values.append(row[index])
    except csv.Error as why:
        raise SourceError(f"{_at_line(block, reader.line_num)}: {why}. Everything before it is kept.") from None
    return _text_of_values(values, block, policy, digest)
