"""Samples of documents and of files: which are in the share 1/N, by a hash of their text alone.

The hash is MurmurHash3 (x64, 128 bits, seed 0) of the document's text in UTF-8, as it is after --bad-utf8 and before
--unencodable and --normalize. Its lower 64 bits choose samples, its upper 64 bits buckets. With the mmh3 package:

    sample, bucket = mmh3.hash64(text.encode(), signed=False)
    in_sample = sample * N < 2**64
    number = bucket * B >> 64

So the documents of 1/100 are among those of 1/10, repeated documents are all in or all out, and neither the order nor
the files that they lie in play a part.
"""

from __future__ import annotations

import codecs
import os
import sys
import threading
from collections.abc import Iterator, Sequence
from functools import lru_cache

import mmh3
import msgspec
import numpy as np
from msgspec import structs

from streambpe.arrays import Bool, UInt64, hash_rows
from streambpe.count_config import CountConfig, parse_sample
from streambpe.errors import UsageError
from streambpe.plurals import counted
from streambpe.sources.borders import last_border
from streambpe.sources.source import BadUtf8, Block, BlockText, Source, name_of
from streambpe.sources.streams import BOM, SourceBytes
from streambpe.text.marks import END_MARK
from streambpe.text.patterns import Pattern

_READ_BYTES = 1 << 20
_one_reads = threading.Lock()


def documents_of(text: bytes) -> list[bytes]:
    """The documents of a counting buffer."""
    return text.split(END_MARK)[:-1]


def is_chosen(hashes: UInt64, of: int) -> Bool:
    """Which of these lower 64 bits are in the share 1/of."""
    return hashes <= np.uint64((2**64 - 1) // of)


def sampled(block: Block, made: BlockText, of: int, bad_utf8: BadUtf8) -> BlockText:
    """The documents of a block that are in the sample 1/of. Blocks of lines must end where a line does."""
    if of == 1:
        return made
    if _is_a_piece(block):
        chosen = bool(is_chosen(np.array([_hash_of_file(block, bad_utf8)[0]], np.uint64), of)[0])
        return made if chosen else structs.replace(made, text=b"", documents=0, chosen=())
    documents = documents_of(made.text)
    return _only(made, documents, is_chosen(hash_rows(documents)[:, 0], of))


def bucketed(block: Block, made: BlockText, of: int, bad_utf8: BadUtf8) -> Iterator[tuple[int, BlockText]]:
    """The documents of a block by buckets: (number, those in it) for each that has any. `of`: a power of two."""
    shift = np.uint64(64 - (of.bit_length() - 1))
    if _is_a_piece(block):
        if made.text:
            yield _hash_of_file(block, bad_utf8)[1] >> int(shift), made
        return
    documents = documents_of(made.text)
    numbers = hash_rows(documents)[:, 1] >> shift if of > 1 else np.zeros(len(documents), np.uint64)
    for number in np.unique(numbers).tolist():
        yield number, _only(made, documents, numbers == number)


class FileSample(msgspec.Struct):
    """Whole files, by the lower 64 bits of the same hash of FOLDER/FILE, the end of their paths, so that it does not
    matter where a corpus lies. The hash's seed is --seed."""

    share: str = "all"  # 1/N
    seed: int = 0
    told: dict[str, int] = {}  # how much was chosen of how much

    def choose(self, sources: Sequence[Source]) -> list[Source]:
        """Those of these sources that are in it; standard input, which is no file, is refused elsewhere."""
        if self.share == "all":
            return list(sources)
        names = ["/".join(source.path.replace(os.sep, "/").split("/")[-2:]) for source in sources]
        encoded = [name.encode("utf-8", "surrogateescape") for name in names]
        hashes = np.array([mmh3.hash64(name, self.seed, signed=False)[0] for name in encoded], np.uint64)
        inside = is_chosen(hashes, parse_sample(self.share)).tolist()
        found = [source for source, taken in zip(sources, inside, strict=True) if taken or source.is_stdin]
        if sources and not found:
            raise UsageError(
                f"--sample-files {self.share}: none of the {counted(len(sources), 'source')} is in it. Nothing was "
                "changed. Take a larger share or another --seed."
            )
        self.told = {"sources": len(found), "bytes": sum(source.bytes for source in found)}
        self.told |= {"of_sources": len(sources), "of_bytes": sum(source.bytes for source in sources)}
        return found


def _is_a_piece(block: Block) -> bool:
    """Whether it is a part of a file that is one document."""
    return block.source.kind == "txt" and not (block.start_at == 0 and block.ends_source)


def _only(made: BlockText, documents: Sequence[bytes], wanted: Bool) -> BlockText:
    """Those of the documents of a block that are wanted."""
    which = np.flatnonzero(wanted).tolist()
    text = b"".join(documents[number] + END_MARK for number in which)
    before = made.chosen
    chosen = which if before is None else [before[number] for number in which]
    return structs.replace(made, text=text, documents=len(chosen), chosen=chosen)


def _hash_of_file(block: Block, bad_utf8: BadUtf8) -> tuple[int, int]:
    with _one_reads:
        return text_hash(block.source, bad_utf8)


def _read_text(source: Source, bad_utf8: BadUtf8, stop: int = sys.maxsize) -> Iterator[str]:
    """A text file up to a byte, piece by piece."""
    decoder = codecs.getincrementaldecoder("utf-8")("ignore" if bad_utf8 == "skip" else "replace")
    with SourceBytes(source) as stream:
        if (head := stream.read(len(BOM))) != BOM:
            stream.unread(head)
        while data := stream.read(min(_READ_BYTES, stop - stream.at)):
            yield decoder.decode(data)
    yield decoder.decode(b"", True)


def capped(block: Block, made: BlockText, cap: int, bad_utf8: BadUtf8, pattern: Pattern) -> BlockText:
    """The documents of a block, of each of them at most so many characters, up to a border that is certain: so their
    chunks are the first ones of the whole documents. Blocks of lines must end where a line does."""
    room = cap
    if _is_a_piece(block):
        for text in _read_text(block.source, bad_utf8, block.start_at):
            room -= len(text)
            if room < 0:  # no matter how many more there are
                break
    marks = np.flatnonzero(np.frombuffer(made.text, np.uint8) == END_MARK[0])
    sizes = np.diff(marks, prepend=-1, append=len(made.text)) - 1
    too_long = np.flatnonzero(sizes > room).tolist()  # if each character is a byte
    if not too_long:
        return made
    texts, made = made.text.split(END_MARK), structs.replace(made)
    for number in too_long:
        document = texts[number]
        texts[number] = _beginning(document, room, pattern)
        made.cut_bytes += len(document) - len(texts[number])
        if number < len(texts) - 1:  # else it goes on in another block, which tells of it
            made.cut_documents += room < 0 or len(document) > len(texts[number])
    return structs.replace(made, text=END_MARK.join(texts))


def _beginning(document: bytes, most: int, pattern: Pattern) -> bytes:
    """At most so many characters of a document; all of it, or up to the last certain border."""
    text = document[: 4 * max(most + 2, 0)].decode("utf-8", "ignore")  # a border is seen from two characters behind it
    if len(text) <= most:
        return document
    return text[: last_border(text[: max(most + 2, 0)], pattern, most)].encode()


@lru_cache(maxsize=64)
def text_hash(source: Source, bad_utf8: BadUtf8) -> tuple[int, int]:
    """Both halves of the hash of a text file, read piece by piece."""
    hashed = mmh3.mmh3_x64_128()
    for text in _read_text(source, bad_utf8):
        hashed.update(text.encode())
    digest = hashed.digest()
    return int.from_bytes(digest[:8], "little"), int.from_bytes(digest[8:], "little")


def refuse_streams(sources: Sequence[Source], config: CountConfig) -> None:
    """Refuse to sample or to cap what is no file, has no documents, or is one that can be read once only."""
    flag = config.of_documents
    for source in sources:
        if config.sample_files != "all" and source.is_stream:
            raise UsageError(
                f"--sample-files {config.sample_files}: {name_of(source)} is no file. Nothing was changed. Count it "
                "into another RUN, or choose its documents with --sample."
            )
        if flag and source.is_stdin and source.kind == "txt":
            raise UsageError(
                f"{flag}: standard input is one document here, which can be read only once. Nothing was changed. Say "
                "what its documents are (--lines, --format jsonl), or leave the option out."
            )
        if flag and source.kind == "counts":
            raise UsageError(
                f"{flag}: {source.path} is a table of counts, which has no documents. Nothing was changed. Leave the "
                "option out."
            )
