"""A corpus of any size that looks like given texts to a trainer: its words follow each other as they do there, and new
rare words keep coming.

    python benchmarks/synthetic.py en_100.txt synthetic_1000.jsonl --mb 1000
    python benchmarks/synthetic.py en_100.txt multi_60.txt - --mb 1000 --seed 17 | streambpe count RUN - --format jsonl

Many chains walk through the text side by side. A chain copies a few words, then jumps to another place where the word
that it stands at occurs, and goes on copying there. What a repeated text has not are new words, on which the memory of
counting depends: so now and then a word is put in that is the beginning of one word and the end of another. Which two
follows from a number that is drawn with a long tail (Lomax), so that distinct chunks grow as in real text: ever more
slowly, without an end (segments.py shows how both grow). A chain ends a document with a chance of its own, so documents
are of many lengths.

The same texts, seed and size give the same bytes, so a corpus need not be kept: seed 17 is its segment 17.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

CHAINS = 1024  # walks that are made at once
STEPS = 720  # stretches of each: about 24 KiB
MEAN_WORDS = 6  # of a stretch
NEW_WORDS = 0.1  # of the stretches end with one
TAIL, SCALE = 0.75, 1.5e6  # Lomax's: how new they are
LENGTH, SPREAD = 300, 1.2  # of documents, in stretches: the median and the spread (log-normal) of the chains' means
LEARNED_BYTES = 100_000_000  # of each text
INLINE = 12  # bytes that Arrow keeps in a view

Int64 = npt.NDArray[np.int64]
VIEW = np.dtype([("length", "<i4"), ("prefix", "<i4"), ("buffer", "<i4"), ("offset", "<i4")])


@dataclass(frozen=True)
class Text:
    """A text cut before every space: place i of it is from starts[i] to starts[i + 1]."""

    data: npt.NDArray[np.uint8]  # then the words that new ones are made of, then what ends a document
    starts: Int64
    word: Int64  # which word stands at each place
    order: Int64  # all places, those of the same word beside each other
    first: Int64  # where those of each word begin in `order`
    often: Int64  # how many they are
    letters: Int64  # where words of 5 to 14 small letters, each with a space before, begin, and the last one ends
    border: tuple[int, int]  # from where to where

    @classmethod
    def of(cls, data: bytes, border: bytes) -> Text:
        """The text with its words numbered; `border` is put between documents."""
        starts = np.flatnonzero(np.frombuffer(data, np.uint8) == 32).astype(np.int64)
        starts = starts[: np.searchsorted(starts, len(data) - 4096)]  # no chain runs over the end
        cells = pa.LargeBinaryArray.from_buffers(
            pa.large_binary(), len(starts) - 1, [None, pa.py_buffer(starts), pa.py_buffer(data)]
        )
        word = cells.dictionary_encode().indices.to_numpy().astype(np.int64)
        often = np.bincount(word)
        letters = sorted(set(re.findall(rb"(?<= )[a-z]{5,14}(?= )", data[:5_000_000])))
        lengths = [len(data), *(len(one) + 1 for one in letters)]
        whole = b"".join([data, *(b" " + one for one in letters), border, b" " * INLINE])
        whole += b" " * (-len(whole) % INLINE)
        end = sum(lengths) + len(border)
        return cls(
            np.frombuffer(whole, np.uint8),
            starts,
            word,
            np.argsort(word, kind="stable"),
            np.cumsum(often) - often,
            often,
            np.cumsum(lengths),
            (end - len(border), end),
        )

    def new_words(self, numbers: Int64) -> tuple[Int64, Int64]:
        """The words that numbers stand for: a row of two stretches for each, from where to where."""
        number = numbers.astype(np.uint64)
        mixed = number * np.uint64(0x9E3779B97F4A7C15) ^ number >> np.uint64(7)
        count = np.uint64(len(self.letters) - 1)
        one, other = (mixed % count).astype(np.int64), (mixed >> np.uint64(24)).astype(np.int64) % int(count)
        long = 3 + (mixed >> np.uint64(48)).astype(np.int64) % 5
        short = 2 + (mixed >> np.uint64(52)).astype(np.int64) % 6
        begins, ends = self.letters[one], self.letters[other + 1]
        until = np.minimum(begins + long, self.letters[one + 1])
        return np.stack([begins, np.maximum(ends - short, self.letters[other] + 1)], 1), np.stack([until, ends], 1)

    def joined(self, begins: Int64, ends: Int64) -> pa.Buffer:
        """Stretches one after the other: as Arrow's views, which it writes into one piece."""
        lengths = ends - begins
        views = np.zeros(len(begins), VIEW)
        views["length"], views["offset"] = lengths, begins
        short = np.flatnonzero(lengths <= INLINE)
        cells = np.lib.stride_tricks.as_strided(self.data.view(f"V{INLINE}"), (len(self.data) - INLINE,), (1,))
        views.view([("length", "<i4"), ("inside", f"V{INLINE}")])["inside"][short] = cells[begins[short]]
        buffers = [None, pa.py_buffer(views), pa.py_buffer(self.data)]
        array = pa.Array.from_buffers(pa.binary_view(), len(views), buffers).cast(pa.large_binary())
        return array.buffers()[2]


def documents(text: Text, seed: int) -> Iterator[pa.Buffer]:
    """Documents without end, each followed by the border: some thousands at a time."""
    places, batch = len(text.word), 0
    while True:
        rng = np.random.default_rng([seed, batch])
        batch += 1
        at = rng.integers(0, places, CHAINS)
        begins, ends = np.empty((2, CHAINS, STEPS), np.int64)
        words, chance = rng.geometric(1 / MEAN_WORDS, (STEPS, CHAINS)), rng.random((STEPS, CHAINS))
        for step in range(STEPS):
            until = np.minimum(at + words[step], places - 1)
            begins[:, step], ends[:, step] = text.starts[np.minimum(at, until)], text.starts[until]
            here = text.word[until]
            at = text.order[text.first[here] + (chance[step] * text.often[here]).astype(np.int64)]
        mean = LENGTH * rng.lognormal(0, SPREAD, (CHAINS, 1))
        last = rng.random((CHAINS, STEPS)) < 1 / np.maximum(mean, 1)
        last[:, -1] = True
        new = np.flatnonzero(rng.random(CHAINS * STEPS) < NEW_WORDS)
        drawn = np.minimum(rng.pareto(TAIL, len(new)) * SCALE, 2.0**62).astype(np.int64)
        from_, to = text.new_words(drawn)
        borders = np.flatnonzero(last)
        behind = np.concatenate([np.repeat(new, 2), borders]) + 1
        from_ = np.concatenate([from_.ravel(), np.full(len(borders), text.border[0])])
        to = np.concatenate([to.ravel(), np.full(len(borders), text.border[1])])
        yield text.joined(np.insert(begins.ravel(), behind, from_), np.insert(ends.ravel(), behind, to))


def learned(sources: Sequence[Path], json_lines: bool = True) -> Text:
    """The texts that a corpus is made of; its documents are JSON lines or lines."""
    whole = b"".join(source.open("rb").read(LEARNED_BYTES) for source in sources)
    if not json_lines:
        return Text.of(whole.replace(b"\n", b" "), b"\n")
    return Text.of(json.dumps(whole.decode(errors="ignore"), ensure_ascii=False)[1:-1].encode(), b'"}\n{"text": "')


def pieces(text: Text, mb: float, seed: int) -> Iterator[memoryview]:
    """A file of `mb` MB: whole documents, in pieces."""
    border = text.data[slice(*text.border)].tobytes()
    before, after = border[border.index(b"\n") + 1 :], border[: border.index(b"\n") + 1]
    yield memoryview(before)
    left = int(mb * 1e6)
    for made in documents(text, seed):
        view = memoryview(made)
        if len(view) >= left:
            end = bytes(view).rindex(border, 0, max(left, bytes(view).index(border) + len(border)))
            yield view[:end]
            break
        yield view
        left -= len(view)
    yield memoryview(after)


def write(sources: Sequence[Path], output: Path, mb: float, seed: int = 0) -> int:
    """Write `mb` MB, as JSON lines if OUTPUT is .jsonl or a pipe and else as lines; how many bytes.

    An unfinished file has another name; a device or a pipe gets the text as it is made.
    """
    output, done = Path("/dev/stdout") if output == Path("-") else output, 0
    unfinished = output.with_suffix(".unfinished") if output.is_file() or not output.exists() else output
    with unfinished.open("wb", buffering=0) as out:
        for piece in pieces(learned(sources, output.suffix != ".txt"), mb, seed):
            rest = piece
            while rest:
                rest = rest[out.write(rest) :]
            done += len(piece)
    unfinished.rename(output)
    return done


def main() -> None:
    """Write a corpus."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "text", type=Path, nargs="+", help="plain texts to learn from; the first 100 MB of each are used"
    )
    parser.add_argument("output", type=Path, help=".jsonl, .txt for lines of text, or - for JSON lines to a pipe")
    parser.add_argument("--mb", type=float, required=True)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    done = write(arguments.text, arguments.output, arguments.mb, arguments.seed)
    print(f"{done / 1e6:.1f} MB in {arguments.output}", file=sys.stderr)


if __name__ == "__main__":
    main()
