"""What is mostly no UTF-8 is no text: an image, an archive, another encoding. It is refused by its first megabyte.

Measured, the share of bytes in sequences that are not UTF-8: German in Latin-1 up to 0.02, French 0.03, Turkish in
Latin-5 0.09, Russian in cp1251 0.64 to 0.82; compiled Python 0.11 to 0.16, programs 0.23 to 0.35, PDF, zstd and gzip
0.42. Above a tenth the source is refused; below, the bytes are replaced and the user is told. A source of more than
four tenths NUL is refused too: UTF-16 of a western language, programs that are mostly empty. A few bad bytes in a short
text are no reason.
"""

from __future__ import annotations

from streambpe.errors import SourceError

SAMPLE_BYTES = 1 << 20  # of the decompressed content; the same for every block size, thread count and memory
_MOST_BAD = 0.1
_MOST_NUL = 0.4
_FEW = 16  # bytes

_MARKS = {  # not that of UTF-8 itself, which is left out and counted
    b"\xff\xfe\x00\x00": "UTF-32",
    b"\x00\x00\xfe\xff": "UTF-32",
    b"\xff\xfe": "UTF-16",
    b"\xfe\xff": "UTF-16",
}
_MAGIC = {
    b"\x89PNG": "a PNG image",
    b"\xff\xd8\xff": "a JPEG image",
    b"GIF8": "a GIF image",
    b"%PDF": "a PDF file",
    b"PK\x03\x04": "a zip archive (such as docx, xlsx, epub)",
    b"\x1f\x8b": "compressed by gzip: its name has to end in .gz",
    b"\x28\xb5\x2f\xfd": "compressed by zstd: its name has to end in .zst",
    b"BZh": "compressed by bzip2, which streambpe cannot read",
    b"\xfd7zXZ": "compressed by xz, which streambpe cannot read",
    b"PAR1": "a Parquet file: its name has to end in .parquet, or give --format parquet",
    b"ARROW1": "an Arrow file: write it as Parquet",
    b"SQLite format 3": "an SQLite database",
    b"\x7fELF": "a program",
}


# How the user of a command with --bad-utf8 says that a source is to be read though it is mostly no UTF-8.
TAKE_ANYWAY = "read it anyway with --bad-utf8 replace or skip"


def refuse_if_not_text(head: bytes, name: str, take_anyway: str) -> None:
    """An error that says what the source is instead; `head`: its first SAMPLE_BYTES, or all of it."""
    mark = next((kind for bytes_, kind in _MARKS.items() if head.startswith(bytes_)), None)
    if mark is not None:
        raise _refused(name, f"is text in {mark}, not UTF-8", mark, take_anyway)
    share = _share(head)
    if share is None:
        return
    encoding = _unmarked(head)
    if encoding is not None:
        raise _refused(name, f"looks like text in {encoding}, not UTF-8", encoding, take_anyway)
    magic = next((kind for bytes_, kind in _MAGIC.items() if head.startswith(bytes_)), None)
    what = f"is {magic}, not text" if magic else f"is not UTF-8 text: {share}"
    raise _refused(name, what, None if magic else "ITS-ENCODING", take_anyway)


def _share(head: bytes) -> str | None:
    """The share of bytes that are not UTF-8, or NUL, in words if it is too large."""
    bad = 0 if head.isascii() else len(head) - len(head.decode("utf-8", "ignore").encode())
    for n, most, what in ((bad, _MOST_BAD, "not UTF-8"), (head.count(b"\0"), _MOST_NUL, "NUL")):
        if n > max(_FEW, most * len(head)):
            return f"{100 * n / len(head):.0f} % of its first {len(head):,} bytes are {what}"
    return None


def _unmarked(head: bytes) -> str | None:
    """Which UTF-16 it is, without a mark: every second byte of western text is NUL."""
    even, odd = head[::2], head[1::2]
    zeros = even.count(b"\0") / len(even), odd.count(b"\0") / len(odd)
    if max(zeros) < 0.4 or min(zeros) > 0.05:
        return None
    return "UTF-16LE" if zeros[1] > zeros[0] else "UTF-16BE"


def _refused(name: str, what: str, encoding: str | None, take_anyway: str) -> SourceError:
    convert = f"make it UTF-8 (iconv -f {encoding} -t UTF-8)" if encoding else ""
    *ways, last = filter(None, ("Leave it out", convert, take_anyway))
    rest = f"{', '.join(ways)}, or {last}" if ways else last
    return SourceError(f"{name} {what}. None of it was read; everything before it is kept. {rest}.")
