"""The core's functions, typed: nobody else sees a pointer. A call releases the interpreter's lock while it runs.

The library is built from the C files beside this one at install (hatch_build.py), and knows their digest. A library
that is missing, damaged or made of other sources is refused in one sentence; one that is stripped is not, nor one
without its record or the sources, as some packages leave them out.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from streambpe.core.classes import Categories, Classes
from streambpe.errors import CoreError

FOLDER = Path(__file__).parent
LIBRARY = "_core.so"  # on every system: it is loaded by its path
# the presets that the core splits, at the numbers it knows them by (split.c)
PRESETS = (
    "gpt2", "gpt4", "cl100k", "punct", "gpt4o", "superbpe1", "boundless", "ultimate1", "superbpe2", "word-level",
    "spaceless", "spaceless gpt4o", "script", "whitespace", "none", "own",
)  # fmt: skip
DIGITS = ("keep", "single", "two", "left3", "right3")  # how many of a number in one chunk (split.c)
_FULL, _SLOW = -1, -6
_ERRORS = {
    -2: "the system has no more memory",
    -3: "a count does not fit 64 bits, or there are more than 2^31 tokens",
    -4: "its input is damaged",
}
Bytes = npt.NDArray[np.uint8]
Longs = npt.NDArray[np.int64]
Sticks = npt.NDArray[np.bool_]  # (256, 256): whether the one byte may stand before the other inside a piece


class _Place:
    """An argument that is a pointer: a contiguous array, bytes, an address, or None."""

    @staticmethod
    def from_param(value: Any) -> Any:
        """What ctypes passes on."""
        if isinstance(value, np.ndarray):
            if not value.flags.c_contiguous:
                raise TypeError("the core takes arrays in one piece")
            value = value.ctypes.data
        return ctypes.c_void_p.from_param(value)


# by the letters of hatch_build.py
_KINDS: dict[str, Any] = {"p": _Place, "i": ctypes.c_int, "l": ctypes.c_int64, "L": ctypes.c_uint64}
_RESULTS = _KINDS | {"p": ctypes.c_void_p, "t": ctypes.c_char_p, "v": None}


def structure(*values: Any) -> Longs:
    """A structure of numbers and of addresses of arrays, which the caller has to hold on to."""
    return np.array([value.ctypes.data if isinstance(value, np.ndarray) else value for value in values], np.int64)


def sources_digest() -> str:
    """The digest of the C files beside this module, taken as hatch_build.py takes it."""
    whole = hashlib.sha256()
    for file in sorted([*FOLDER.glob("*.c"), *FOLDER.glob("*.h")]):
        whole.update(file.name.encode() + b"\0" + file.read_bytes().replace(b"\r\n", b"\n") + b"\0")
    return whole.hexdigest()[:32]


def _changed(data: bytes, record: str) -> bool:
    """Whether code or data are not as they were built, by the record that hatch_build.py wrote. What packagers do to a
    library (strip, patchelf, codesign) leaves them in their places."""
    if len(lines := record.splitlines()) != 3:
        raise OSError("it was built by another version")
    size, same, other = lines
    digest, *places = (same if len(data) == int(size) else other).split()
    kept = [data[slice(*map(int, place.split("-")))] for place in places]
    return hashlib.sha256(b"".join(kept)).hexdigest() != digest


@functools.cache
def library() -> Any:
    """The loaded library, its functions with their types."""
    path = FOLDER / LIBRARY
    again = "Install streambpe again (in a checkout: python hatch_build.py)."
    try:
        data, record = path.read_bytes(), Path(f"{path}.sha256")
        if record.exists() and _changed(data, record.read_text(encoding="utf-8")):
            raise OSError("it is damaged")
        loaded = ctypes.CDLL(str(path))
        loaded.core_digest.restype = loaded.core_prototypes.restype = ctypes.c_char_p
        made_of, prototypes = loaded.core_digest().decode(), loaded.core_prototypes().decode()
    except (OSError, AttributeError, ValueError) as why:
        missing = "is missing" if not path.exists() else f"cannot be loaded ({why})"
        raise CoreError(f"The compiled core of streambpe, {path}, {missing}. {again}") from None
    if any(FOLDER.glob("*.c")) and made_of != sources_digest():
        raise CoreError(f"The compiled core of streambpe, {path}, was not built from the sources beside it. {again}")
    for line in prototypes.split():
        name, result, arguments = line.split(":")
        function = getattr(loaded, name)
        # called for every short text, with addresses: nothing is left to convert
        kinds = _KINDS | {"p": ctypes.c_void_p} if name == "encode_text" else _KINDS
        function.restype, function.argtypes = _RESULTS[result], [kinds[kind] for kind in arguments if kind != "v"]
    return loaded


def succeeded(code: int) -> bool:
    """False if the memory that the caller allowed is used up; other errors are raised."""
    if code < _FULL:
        raise CoreError(f"The compiled core of streambpe failed: {_ERRORS.get(code, f'error {code}')}.")
    return code != _FULL


class NoRoom(MemoryError):
    """The memory limit is too low."""


def completed(code: int) -> int:
    """For what has to be done within its limit: its result, where that is no error."""
    if not succeeded(code):
        raise NoRoom("a table of the compiled core of streambpe")
    return code


class CoreObject:
    """Something in the core's memory: made when its handle is first asked for, given back when nobody has it."""

    def __init__(self, kind: str, what: str, *given: Any) -> None:
        """`kind`: that of its functions _new, which takes what is given, and _free; `what`: to tell of a refusal."""
        self._held: int | None = None
        self._kind, self._what, self._given = kind, what, given

    @property
    def handle(self) -> int:
        """It, as the functions of the core take it."""
        if self._held is None:
            new, self._free = (getattr(library(), f"{self._kind}_{do}") for do in ("new", "free"))
            self._held = new(*self._given)
            if not self._held:
                raise MemoryError(self._what)
        return self._held

    def close(self) -> None:
        """Give the memory back; used again, it begins anew."""
        if self._held:
            self._free(self._held)
        self._held = None

    def __del__(self) -> None:
        if getattr(self, "_held", None):
            self.close()


categories = functools.cache(Categories)  # the one table of this process


def lines_as_documents(data: bytes, inside: bool) -> bytes:
    """Lines as a counting buffer: 0xFF in place of every line break, and no empty documents. `inside`: the data begins
    inside a document, which ends at the first line break."""
    out = np.empty(len(data), np.uint8)
    size = library().lines_as_documents(data, len(data), inside, out)
    return out[:size].tobytes()


def csv_records_end(data: bytes) -> int:
    """The end of the last whole record of a csv in `data`, which begins with one: behind a line feed outside of quotes.
    0 if there is none."""
    end: int = library().csv_records_end(data, len(data))
    return end


class JsonLines:
    """JSON lines as documents: one field of each line, up to the next line that leaves any doubt (json_lines.c)."""

    def __init__(self, data: bytes, field: bytes) -> None:
        self._data, self._field = data, field
        self._out = np.empty(len(data), np.uint8)
        self._done = np.zeros(4, np.int64)  # places in the data and in `_out`, documents, nulls

    def read(self, at: int) -> tuple[bytes, int, int, int]:
        """From the line that begins at `at` on: (the documents as a counting buffer, where the first line in doubt
        begins, or the end, how many documents, how many nulls)."""
        done = self._done
        done[:] = at, 0, 0, 0
        library().json_lines(self._data, len(self._data), self._field, len(self._field), self._out, done)
        stopped, size, documents, nulls = done.tolist()
        return self._out[:size].tobytes(), stopped, documents, nulls


class Split(msgspec.Struct, frozen=True):
    """One way to split, as the core takes it."""

    preset: int  # in PRESETS
    classes: Classes
    special: int = -1  # the preset of runs marked with SCRIPT_RUN_END; -1: there are none
    digits: int = 0  # in DIGITS
    program: npt.NDArray[np.uint64] | None = None  # of preset "own", with the sets of each class
    sets: npt.NDArray[np.uint64] | None = None
    steps: int = 0  # that it may take for a text
    gaps: bool = False  # whether what it leaves is a chunk

    def learn(self, text: bytes) -> int:
        """The address of the table of classes, after all pages that a text needs are learned."""
        classes = self.classes
        if not text.isascii():
            pages = classes.learned.copy()
            if library().pages_needed(text, len(text), pages):
                classes.learn(np.flatnonzero(pages != classes.learned).tolist())
        return int(classes.table.ctypes.data)


class ChunkTable(CoreObject):
    """Distinct chunks, each with a number, in at most `limit` bytes of memory (more while they are taken out)."""

    def __init__(self, limit: int) -> None:
        self.limit = max(limit, 1 << 17)
        super().__init__("table", "the table of chunks", self.limit)

    @property
    def taken(self) -> int:
        """How many bytes of memory it takes now."""
        return int(library().table_bytes(self._held)) if self._held else 0

    def _scan(
        self, text: bytes, split: Split, at: int, ids: npt.NDArray[np.int32] | None, sticks: Sticks | None = None
    ) -> tuple[int, int]:
        done = np.array([at, 0], np.int64)
        how = split.learn(text), split.preset, split.special, split.digits
        own = split.program, split.sets, split.steps, split.gaps
        code = library().scan_text(self.handle, *how, *own, sticks, text, len(text), done[:1], done[1:], ids)
        if code == _SLOW:
            raise TimeoutError(int(done[0]))
        succeeded(code)
        return int(done[0]), int(done[1])

    def count(self, text: bytes, split: Split, at: int = 0, sticks: Sticks | None = None) -> tuple[int, int]:
        """Count the chunks of text[at:] (documents, each ended by 0xFF): (where it stopped, how many chunks). `sticks`:
        their pieces, each as long as its bytes stick to those before them; only without a limit.

        It stops at the end, or where the limit is reached: then take out what is there, and go on from that place.
        TimeoutError: a program takes too many steps for the text in which this place is.
        """
        return self._scan(text, split, at, None, sticks)

    def number(self, text: bytes, split: Split) -> npt.NDArray[np.int32]:
        """The number of every chunk of a text in order, by first occurrence in this table; -1 where a document ends."""
        ids = np.empty(len(text), np.int32)
        at, many = self._scan(text, split, 0, ids)
        if at < len(text):
            raise MemoryError("the table of chunks")
        return ids[:many]

    def add(self, offsets: Longs, chunks: Bytes, n: Longs, at: int = 0) -> int:
        """Add chunks from number `at` on with their counts; the number of the first one that found no room."""
        done = np.array([at], np.int64)
        succeeded(library().table_add(self.handle, offsets, chunks, n, len(n), done))
        return int(done[0])

    def fewest(self, begun: npt.NDArray[np.uint64], lengths: Longs, symbols: npt.NDArray[Any], counts: Longs) -> Longs:
        """Of sequences of symbols, counts[i] of each: how many of these chunks, or single symbols, each is at least.
        The chunks are symbols, too, and have these lengths, the shortest first; `begun`: see fewest.c."""
        least, found = np.empty(int(counts.max(initial=0)) + 1, np.int64), np.empty(len(counts), np.int64)
        given = symbols.itemsize, symbols, counts, len(counts), least, found
        library().fewest_tokens(self.handle, begun, lengths, len(lengths), *given)
        return found

    def __len__(self) -> int:
        return int(library().table_size(self.handle))

    def sort(self, by_bytes: bool = True) -> int:
        """Sort all chunks by their bytes, or by their hashes if they are long ones. How many there are; nothing but
        `rows` and `close` is left."""
        return int(library().table_sort(self.handle, by_bytes))

    def rows(self, first: int, stop: int, by: Longs | None = None) -> tuple[Longs, Bytes, Longs]:
        """(offsets, bytes, numbers) of sorted chunks. `by`: gets a number below 2^63 for each that is sorted by hash,
        which never falls."""
        offsets, numbers = np.empty(stop - first + 1, np.int64), np.empty(stop - first, np.int64)
        text = np.empty(library().table_span(self.handle, first, stop), np.uint8)
        library().table_rows(self.handle, first, stop, by, offsets, text, numbers)
        return offsets, text, numbers

    def take(self) -> tuple[Longs, Bytes, Longs]:
        """(offsets, bytes, numbers) of all chunks in the order of their bytes; nothing is left in the table."""
        rows = self.rows(0, self.sort())
        self.close()
        return rows
