"""Ids in files back to bytes: lines of numbers, and the files that encode/corpus.py writes."""

from __future__ import annotations

import functools
import json
import tokenize
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from streambpe.encode.corpus import output_kind
from streambpe.encode.sidecar import numbers_in, offsets_of, read_record, refuse_damage, settle_dtype
from streambpe.errors import SourceError, UsageError, quoted
from streambpe.progress import Meter

if TYPE_CHECKING:
    from streambpe.encode.tokenizer import Tokenizer


def decode_file(tokenizer: Tokenizer, lines: Iterable[bytes], name: str, meter: Meter | None = None) -> Iterator[bytes]:
    """The bytes of each line of ids: numbers between blanks, or a JSON list. `meter` is told how much is read."""
    for number, line in enumerate(lines, 1):
        if meter is not None:
            meter.advance(len(line))
        try:
            ids = json.loads(line) if line.lstrip().startswith(b"[") else [int(word) for word in line.split()]
            yield tokenizer.decode_document(ids)
        except (ValueError, TypeError, RecursionError):
            raise SourceError(f"{name} line {number} is not a list of ids: {quoted(line)}.") from None
        except KeyError as error:
            raise SourceError(f"{name} line {number}: {error.args[0]}.") from None


def decode_array(tokenizer: Tokenizer, path: Path, dtype: str = "auto", meter: Meter | None = None) -> Iterator[bytes]:
    """The bytes of each document of a .npy, .parquet or .bin file that `encode` wrote; all in one if it has no offsets.

    dtype: of the numbers in a .bin; auto is what its record says (encode/sidecar.py). `meter` is told how far it is.
    """
    kind, meter = output_kind(path), meter or Meter("decoding")
    if dtype != "auto" and kind != "bin":
        raise UsageError(f"--dtype {dtype}: {path} already says what its numbers are; only a .bin does not.")
    try:
        if kind == "parquet":
            with open(path, "rb") as stored, pq.ParquetFile(stored, page_checksum_verification=True) as file:
                if "ids" not in file.schema_arrow.names:
                    raise ValueError("it has no column ids")
                meter.begin("decoding", file.metadata.num_rows, "documents")
                for batch in file.iter_batches(1024, columns=["ids"]):
                    for ids in batch.column(0):
                        yield _decoded(tokenizer, ids.as_py(), path)
                        meter.advance(1)
            return
        record, load = read_record(path), functools.partial(np.load, mmap_mode="r", allow_pickle=False)
        numbers = load(path) if kind == "npy" else numbers_in(path, settle_dtype(path, dtype, record))
        offsets_file = offsets_of(path)
        offsets = load(offsets_file) if offsets_file.exists() else np.array([0, len(numbers)])
    # numpy reads the header of an array as Python
    except (OSError, ValueError, OverflowError, SyntaxError, tokenize.TokenError, pa.ArrowException) as why:
        told = getattr(why, "strerror", None) or str(why).splitlines()[0]
        raise SourceError(f"{path} cannot be read: {told}.") from None
    if numbers.ndim != 1 or numbers.dtype.kind not in "iu":
        raise SourceError(f"{path} is not a list of ids: it holds {numbers.dtype} in {numbers.ndim} dimensions.")
    whole = offsets.ndim == 1 and len(offsets) and not offsets[0] and offsets[-1] == len(numbers)
    if not whole or (np.diff(offsets) < 0).any():
        raise SourceError(
            f"{path} has another number of ids ({len(numbers):,} of {numbers.dtype}) than {offsets_file.name}. Give "
            f"another --dtype, or remove {offsets_file.name} to decode all ids as one document."
        )
    if record is not None:
        refuse_damage(path, numbers.nbytes, record.ids_mmh3, path)
        if offsets_file.exists():
            refuse_damage(offsets_file, offsets.nbytes, record.offsets_mmh3, path)
    numbers = np.asarray(numbers)  # a slice of a memmap takes ten times as long
    meter.begin("decoding", len(numbers), "ids")
    for low, high in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True):
        yield _decoded(tokenizer, numbers[low:high], path)
        meter.done = high


def _decoded(tokenizer: Tokenizer, ids: list[int] | npt.NDArray[np.integer], path: Path) -> bytes:
    try:
        return tokenizer.decode_document(ids)
    except KeyError as error:
        raise SourceError(f"{path}: {error.args[0]}. Was it encoded with another model?") from None
