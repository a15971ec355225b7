"""What stands beside encoded ids: which kind of numbers they are, and which model made them.

    ids.bin + ids.bin.json      ids.npy + ids.npy.json      ids.parquet: the same record in its schema's metadata

A .bin holds nothing but numbers, so without its record nobody can tell how wide they are. See docs/encode.md.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final, Literal

import mmh3
import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from streambpe.errors import SourceError, StreambpeError, UsageError
from streambpe.files import sum_of

if TYPE_CHECKING:
    from streambpe.encode.tokenizer import Tokenizer

FORMAT: Final = "streambpe-ids"
DTYPES = ("uint16", "uint32", "int32", "int64")


@dataclass(frozen=True, kw_only=True)
class IdsRecord:
    """What `encode` knows of a file of ids, in the order in which it is written."""

    format: Literal["streambpe-ids"] = FORMAT
    version: Literal[1] = 1
    byte_order: Literal["little"] = "little"
    dtype: Literal["uint16", "uint32", "int32", "int64"]
    ids: int
    documents: int
    eot: str | None  # stands behind every document
    n_vocab: int
    model_sha256: str  # as `train` prints it: of the model's event lines
    vocabulary_sha256: str  # of all ids and their bytes
    ids_mmh3: str | None = None  # checksums, mmh3 (x64, 128 bits): of the ids as bytes
    offsets_mmh3: str | None = None  # of the numbers in OUT.offsets.npy

    def as_json(self) -> bytes:
        """The record as it is written, without checksums that there are none of."""
        facts = {key: value for key, value in asdict(self).items() if value is not None or key == "eot"}
        return json.dumps(facts, indent=1).encode()


def numbers_in(path: Path, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """All numbers of a file that holds nothing else, not read before they are looked at."""
    return np.memmap(path, dtype, "r") if path.stat().st_size else np.zeros(0, dtype)


def damaged_output(file: Path, folder: Path) -> StreambpeError:
    return StreambpeError(
        f"{file} is damaged: it is not what was written. The output cannot be finished; remove {folder} to start again."
    )


class GrowingFile:
    """A file of the unfinished output, which grows, and the checksum of what is in it."""

    file: BinaryIO  # open to be written

    def __init__(self, path: Path) -> None:
        self.path, self.sum = path, mmh3.mmh3_x64_128()

    def write(self, data: bytes | memoryview) -> None:
        """Append."""
        self.file.write(data)
        self.sum.update(data)

    def refuse_damage(self, wanted: str | None, size: int, path: Path) -> None:
        """An error unless the first `size` bytes, at `path`, have this checksum; what follows them was not certain."""
        held = path.stat().st_size if path.exists() else 0
        possible = 0 <= size <= held
        self.sum = sum_of(path, size) if held and possible else mmh3.mmh3_x64_128()
        if not possible or self.sum.digest().hex() != wanted:
            raise damaged_output(path, self.path.parent)


def vocabulary_digest(tokenizer: Tokenizer, n_vocab: int | None = None) -> str:
    """sha256 over the first `n_vocab` ids (None: all) and their bytes; equal exactly if each of them decodes alike."""
    first = tokenizer.encoder.model.alphabet.first_id
    digest = hashlib.sha256(tokenizer.encoder.pattern.name.encode() if tokenizer.encoder.pattern.word_mark else b"")
    for number in range(first, first + (tokenizer.n_vocab if n_vocab is None else n_vocab)):
        content = tokenizer.id_to_token(number) or b""  # of a reserved one
        part = tokenizer.part_content(number) or b""
        digest.update(f"{number}:{len(content)}:{len(part)}:".encode() + content + part)
    return digest.hexdigest()


def sidecar_of(path: Path) -> Path:
    """The file beside a .bin or .npy that holds its record."""
    return path.with_name(path.name + ".json")


def offsets_of(path: Path) -> Path:
    """The file beside a .bin or .npy that says where each document begins."""
    return path.with_name(path.name + ".offsets.npy")


def files_of(path: Path) -> tuple[Path, Path, Path]:
    """A file of ids, and what may stand beside it."""
    return path, offsets_of(path), sidecar_of(path)


def read_record(path: Path) -> IdsRecord | None:
    """The record of a file of ids, or None if it has none."""
    beside = sidecar_of(path)
    try:
        if path.suffix == ".parquet":
            with open(path, "rb") as file:  # Arrow takes some relative names for addresses
                text = (pq.read_schema(file).metadata or {}).get(FORMAT.encode())
        else:
            text = beside.read_bytes() if beside.exists() else None
    except (OSError, pa.ArrowException) as why:
        raise SourceError(f"{path} cannot be read: {str(why).splitlines()[0]}") from None
    if text is None:
        return None
    try:
        return msgspec.json.decode(text, type=IdsRecord)
    except (ValueError, RecursionError) as why:
        raise SourceError(
            f"{beside} does not say what {path.name} holds ({why}). Give --dtype after removing it, or encode again."
        ) from None


def refuse_damage(file: Path, size: int, wanted: str | None, ids: Path) -> None:
    """An error unless the last `size` bytes of a file have the checksum that the record of `ids` has for them."""
    if wanted is not None and sum_of(file, size, file.stat().st_size - size).digest().hex() != wanted:
        raise SourceError(
            f"{file} is damaged, or of another encoding: it has another checksum than {sidecar_of(ids).name} says. "
            f"Encode again; to decode it as it is, remove {sidecar_of(ids).name}."
        )


def settle_dtype(path: Path, asked: str, record: IdsRecord | None) -> np.dtype[np.integer]:
    """Which kind of numbers a .bin holds: what its record says, else what was asked for; never a guess."""
    if asked != "auto" and asked not in DTYPES:
        raise UsageError(f"--dtype {asked}: one of {', '.join(DTYPES)}.")
    if record is None and asked == "auto":
        raise UsageError(
            f"{path} holds nothing but numbers, and {sidecar_of(path).name}, which says of what kind, is missing. "
            f"Give --dtype ({', '.join(DTYPES)}) as it was encoded."
        )
    if record is not None and asked not in ("auto", record.dtype):
        raise UsageError(f"--dtype {asked}: {sidecar_of(path)} says {record.dtype}. Leave --dtype out.")
    dtype = np.dtype(record.dtype if record is not None else asked).newbyteorder("<")
    size = path.stat().st_size
    if size % dtype.itemsize or (record is not None and size != record.ids * dtype.itemsize):
        wanted = f"{record.ids:,} ids of {record.dtype}" if record is not None else f"ids of {asked}"
        raise SourceError(
            f"{path} does not hold {wanted}: its size is {size:,} bytes. Was it cut off, or not written by streambpe?"
        )
    return dtype


def another_model(tokenizer: Tokenizer, path: Path) -> str | None:
    """A warning if a file's ids were made by a model in which they mean something else; else None."""
    record = read_record(path)
    if record is None or (
        record.n_vocab <= tokenizer.n_vocab and vocabulary_digest(tokenizer, record.n_vocab) == record.vocabulary_sha256
    ):
        return None
    return (
        f"{path} was encoded with another model ({record.n_vocab:,} ids, events sha256 {record.model_sha256[:16]}); "
        "with this one, its ids mean something else."
    )
