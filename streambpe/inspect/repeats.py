"""How many documents of a run repeat one before them: its sources are read once more, by one thread.

    documents  ->  their hashes (sources/samples.py), on disk, parted by their upper bits  ->  each share sorted

Two documents are the same if all 128 bits of their hashes are. A hash, its source and its number take 28 bytes on disk;
of these, one share is in memory at a time, so memory does not grow with the documents. Order is that of the sources'
names and of the places in them, so threads, processes, memory and kills of the count play no part.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from streambpe.count_config import CountConfig
from streambpe.disk import disk_full_explained
from streambpe.plurals import counted
from streambpe.progress import Meter
from streambpe.resources import Resources
from streambpe.sources.decode import block_text
from streambpe.sources.read import Reader
from streambpe.sources.samples import document_hashes, is_chosen, sampled, text_hash
from streambpe.sources.source import BadUtf8, Source
from streambpe.store.chunks import half_of_spare
from streambpe.store.spans import Spans
from streambpe.text.patterns import Pattern
from streambpe.train.counting.sizes import Sizes

_ROW = np.dtype([("lower", "<u8"), ("upper", "<u8"), ("number", "<i8"), ("source", "<i4")])
_SORTING = 4  # times the rows of a share: these, in order, the order, and which are alike
_MOST_SHARES = 4096
_TOLD_SOURCES = 5  # by name
Rows = npt.NDArray[np.void]


@dataclass
class Repeats:
    """What was found."""

    documents: int = 0
    repeated: int = 0  # those that an equal one stands before
    by_source: dict[str, int] = field(default_factory=dict)  # of these, how many are in each source that has any
    most: int = 0  # how often the one stands there that is there most often
    first: tuple[str, int] = ("", 0)  # the source of its first copy, and its number there, from 1

    def as_json(self) -> dict[str, Any]:
        """For `check --json`."""
        first = {"source": self.first[0], "document": self.first[1], "times": self.most} if self.repeated else None
        return {
            "documents": self.documents, "repeated": self.repeated, "by_source": self.by_source, "most_often": first
        }  # fmt: skip

    def told(self) -> Iterator[str]:
        """As sentences."""
        if not self.repeated:
            compared = counted(self.documents, "document was", "documents were")
            yield f"no document stands there twice ({compared} compared)."
            return
        share = 100 * self.repeated / self.documents
        least = f"{share:.1f} %" if share >= 0.05 else "less than 0.1 %"
        repeat = "repeats" if self.repeated == 1 else "repeat"
        yield f"{self.repeated:,} of {self.documents:,} documents ({least}) {repeat} one that stands before."
        path, number = self.first
        yield f"document {number:,} of {path} stands there most often: {self.most:,} times."
        if len(self.by_source) > 1 or path not in self.by_source:
            paths = sorted(self.by_source, key=lambda path: (-self.by_source[path], path))
            named = ", ".join(f"{path} ({self.by_source[path]:,})" for path in paths[:_TOLD_SOURCES])
            more = f" and {counted(len(paths) - _TOLD_SOURCES, 'more source')}" if len(paths) > _TOLD_SOURCES else ""
            yield f"those that repeat one are in {named}{more}."


class Hashes:
    """The hashes of documents, in a file without a name: the system removes it, whatever ends this process."""

    def __init__(self, folder: Path, documents: int, room: int) -> None:
        """`documents`: about how many there will be; `room`: bytes of memory."""
        shares = -(-documents * _ROW.itemsize * _SORTING // room)
        self._bits = min(max(shares - 1, 0), _MOST_SHARES - 1).bit_length()
        self._most = max(room // _SORTING // _ROW.itemsize, 1)
        self._held: list[Rows] = []
        self._rows = 0
        self._runs: list[npt.NDArray[np.int64]] = []  # of each piece of the file: where its shares begin and end
        self._paths: list[str] = []
        folder.mkdir(parents=True, exist_ok=True)
        self._file: IO[bytes] = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 - closed by `close`

    def add(self, path: str, hashes: Iterable[npt.NDArray[np.uint64]]) -> int:
        """Add the documents of a source, in their order; returns how many they were."""
        self._paths.append(path)
        number = 0
        for some in hashes:
            rows = np.empty(len(some), _ROW)
            rows["lower"], rows["upper"] = some[:, 0], some[:, 1]
            rows["number"] = np.arange(number + 1, number + 1 + len(some))
            rows["source"] = len(self._paths) - 1
            number += len(some)
            self._held.append(rows)
            self._rows += max(len(rows), 8)  # an array of one takes about as much
            if self._rows >= self._most:
                self._write()
        return number

    def _write(self) -> None:
        """Write what is held, share after share."""
        if not self._rows:
            return
        rows = np.concatenate(self._held)
        self._held, self._rows = [], 0
        share = np.zeros(len(rows), np.int64)
        if self._bits:
            share = (rows["upper"] >> np.uint64(64 - self._bits)).astype(np.int64)
        ends = np.cumsum(np.bincount(share, minlength=1 << self._bits))
        begin = self._file.seek(0, 2)
        self._file.write(rows[np.argsort(share, kind="stable")].tobytes())
        self._runs.append(begin + _ROW.itemsize * np.append(0, ends))

    def find(self) -> Repeats:
        """Sort one share after the other."""
        self._write()
        found = Repeats()
        in_source = np.zeros(len(self._paths), np.int64)
        earliest: tuple[int, int] | None = None
        for share in range(1 << self._bits):
            rows = self._read(share)
            found.documents += len(rows)
            rows = rows[np.lexsort((rows["lower"], rows["upper"]))]  # stable: copies stay in their order
            alike = (rows["lower"][1:] == rows["lower"][:-1]) & (rows["upper"][1:] == rows["upper"][:-1])
            if not alike.any():
                continue
            in_source += np.bincount(rows["source"][1:][alike], minlength=len(in_source))
            begins = np.flatnonzero(np.append(True, ~alike))
            times = np.diff(np.append(begins, len(rows)))
            most = int(times.max())
            firsts = rows[begins[times == most]]
            first = min(zip(firsts["source"].tolist(), firsts["number"].tolist(), strict=True))
            if most > found.most or (most == found.most and earliest and first < earliest):
                found.most, earliest = most, first
        found.repeated = int(in_source.sum())
        found.by_source = {path: n for path, n in zip(self._paths, in_source.tolist(), strict=True) if n}
        if earliest:
            found.first = self._paths[earliest[0]], earliest[1]
        return found

    def _read(self, share: int) -> Rows:
        pieces = []
        for bounds in self._runs:
            begin, end = bounds[share : share + 2].tolist()
            self._file.seek(begin)
            pieces.append(self._file.read(end - begin))
        return np.frombuffer(b"".join(pieces), _ROW)

    def close(self) -> None:
        """Give the room on disk back."""
        self._file.close()


def find_repeats(
    sources: dict[str, Spans],
    config: CountConfig,
    pattern: Pattern,
    resources: Resources,
    folder: Path,
    meter: Meter,
) -> tuple[Repeats, list[tuple[str, int, int]]]:
    """The repeated documents among those of these sources, all of which are counted to their end and are still what was
    counted; and (path, documents found, documents counted) where these differ. `folder`: for what does not fit memory.
    """
    sizes = Sizes.of(resources)
    policy: BadUtf8 = config.bad_utf8  # type: ignore[assignment]
    meter.begin("comparing documents", sum(spans[0].file_bytes for spans in sources.values()))

    def advance(read: int) -> None:
        meter.done += read

    def of_blocks(source: Source) -> Iterator[npt.NDArray[np.uint64]]:
        reader = Reader(pattern, sizes.block, sizes.most, on_read=advance, whole_lines=True)
        for block in reader.blocks(source):
            made = sampled(block, block_text(block, policy, config.bad_lines), config.one_in, policy)
            yield document_hashes(made.text)[0]

    def of_file(source: Source) -> Iterator[npt.NDArray[np.uint64]]:
        hashed = np.array([text_hash(source, policy)], np.uint64)
        yield hashed[is_chosen(hashed[:, 0], config.one_in)]
        meter.done += source.bytes

    documents = sum(spans.total("documents") for spans in sources.values())
    differ = []
    with disk_full_explained(folder):
        hashes = Hashes(folder, documents, half_of_spare(resources) // 2)
        try:
            for path, spans in sources.items():
                first = spans[0]
                source = Source(path, first.kind, first.text_column or "text", first.file_bytes, any_bytes=True)  # type: ignore[arg-type]
                found = hashes.add(path, (of_file if source.kind == "txt" else of_blocks)(source))
                if found != spans.total("documents"):
                    differ.append((path, found, spans.total("documents")))
            return hashes.find(), differ
        finally:
            hashes.close()
