"""A corpus of any size that looks like a given text to a trainer: its words follow each other as they do there, and new
rare words keep coming.

    python benchmarks/synthetic.py en_100.txt synthetic_1000.jsonl --mb 1000

Many chains walk through the text side by side. A chain copies a few words, then jumps to another place where the word
that it stands at occurs, and goes on copying there. What a repeated text has not are new words, on which the memory of
counting depends: so now and then a word is put in that is the beginning of one word and the end of another. Which two
follows from a number that is drawn with a long tail (Lomax), so that distinct chunks grow as in real text: ever more
slowly, without an end.

The same text, seed and size give the same bytes.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

CHAINS = 4096  # documents that are made at once
STEPS = 240  # stretches of a document: about 8 KiB
MEAN_WORDS = 6  # of a stretch
NEW_WORDS = 0.02  # of the stretches end with one
TAIL, SCALE = 0.75, 1.5e6  # Lomax's: how new they are
LEARNED_BYTES = 100_000_000  # of the text

Int64 = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Text:
    """A text cut before every space: place i of it is from starts[i] to starts[i + 1]."""

    data: bytes
    starts: Int64
    word: Int64  # which word stands at each place
    order: Int64  # all places, those of the same word beside each other
    first: Int64  # where those of each word begin in `order`
    often: Int64  # how many they are
    letters: list[bytes]  # words of 5 to 14 small letters, which new ones are made of

    @classmethod
    def of(cls, data: bytes) -> Text:
        """The text with its words numbered."""
        starts = np.flatnonzero(np.frombuffer(data, np.uint8) == 32).astype(np.int64)
        starts = starts[: np.searchsorted(starts, len(data) - 4096)]  # no chain runs over the end
        cells = pa.LargeBinaryArray.from_buffers(
            pa.large_binary(), len(starts) - 1, [None, pa.py_buffer(starts), pa.py_buffer(data)]
        )
        word = cells.dictionary_encode().indices.to_numpy().astype(np.int64)
        often = np.bincount(word)
        letters = sorted(set(re.findall(rb"(?<= )[a-z]{5,14}(?= )", data[:5_000_000])))
        return cls(data, starts, word, np.argsort(word, kind="stable"), np.cumsum(often) - often, often, letters)

    def new_word(self, number: int) -> bytes:
        """The word that a number stands for."""
        mixed = (number * 0x9E3779B97F4A7C15 ^ number >> 7) & (1 << 64) - 1
        one, other = self.letters[mixed % len(self.letters)], self.letters[(mixed >> 24) % len(self.letters)]
        return b" " + one[: 2 + (mixed >> 48) % 5] + other[-2 - (mixed >> 52) % 6 :]


def documents(text: Text, seed: int) -> Iterator[bytes]:
    """Documents without end."""
    view, places, batch = memoryview(text.data), len(text.word), 0
    while True:
        rng = np.random.default_rng([seed, batch])
        batch += 1
        at = rng.integers(0, places, CHAINS)
        begins, ends = np.empty((2, CHAINS, STEPS), np.int64)
        for step in range(STEPS):
            until = np.minimum(at + rng.geometric(1 / MEAN_WORDS, CHAINS), places - 1)
            begins[:, step], ends[:, step] = text.starts[np.minimum(at, until)], text.starts[until]
            here = text.word[until]
            at = text.order[text.first[here] + (rng.random(CHAINS) * text.often[here]).astype(np.int64)]
        new = rng.random((CHAINS, STEPS)) < NEW_WORDS
        drawn = iter(np.minimum(rng.pareto(TAIL, int(new.sum())) * SCALE, 2.0**62).astype(np.int64).tolist())
        for first, last, has_new in zip(begins, ends, new, strict=True):
            pieces: list[bytes | memoryview] = [view[a:b] for a, b in zip(first.tolist(), last.tolist(), strict=True)]
            for place in np.flatnonzero(has_new).tolist():
                pieces[place] = bytes(pieces[place]) + text.new_word(next(drawn))
            yield b"".join(pieces)


def write(sources: Sequence[Path], output: Path, mb: float, seed: int = 0) -> int:
    """Write `mb` MB of text, as JSON lines if OUTPUT is .jsonl and else as lines; how many bytes of text they hold.

    An unfinished file has another name; a device or a pipe gets the text as it is made.
    """
    text, done = Text.of(b"".join(source.open("rb").read(LEARNED_BYTES) for source in sources)), 0
    unfinished = output.with_suffix(".unfinished") if output.is_file() or not output.exists() else output
    with unfinished.open("wb", buffering=1 << 20) as out:
        for document in documents(text, seed):
            whole = document.decode(errors="ignore")
            line = json.dumps({"text": whole}, ensure_ascii=False) if output.suffix == ".jsonl" else whole
            out.write(line.encode() + b"\n")
            done += len(document)
            if done >= mb * 1e6:
                break
    unfinished.rename(output)
    return done


def main() -> None:
    """Write a corpus."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text", type=Path, help="a plain text to learn from; its first 100 MB are used")
    parser.add_argument("output", type=Path, help=".jsonl, or .txt for lines of text")
    parser.add_argument("--mb", type=float, required=True)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    done = write([arguments.text], arguments.output, arguments.mb, arguments.seed)
    print(f"{done / 1e6:.1f} MB of text in {arguments.output}")


if __name__ == "__main__":
    main()
