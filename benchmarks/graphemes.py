"""Merges that leave no part of a character, or of a grapheme cluster: bytes per token of the text that is learned from.

    python benchmarks/graphemes.py multi_60.txt     # results/graphemes.tsv; some minutes

A unit is a byte, a character or a grapheme cluster (`\\X`). Two tokens merge where both are whole units, or where they
are parts of one unit and the left one is its beginning. That depends on the place where they stand, not on the tokens:
so this is a slow learner of its own, and a merge leaves out the places where it may not be made. Chunks are those of
gpt4o, ties go by bytes; lines go by the script that most of their letters have (script.py).
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, chain, pairwise
from pathlib import Path

import regex
from harness import parser, write_table
from script import grouped

from streambpe.text.patterns import find_pattern

UNITS = {"plain": "", "whole characters": r"(?s).", "graphemes": r"\X"}
Pair = tuple[bytes, bytes]


def places(tokens: Sequence[bytes], edges: set[int]) -> Iterator[tuple[int, Pair]]:
    """Where two neighbours may merge; `edges` are the places between units."""
    begin = 0
    for at, (left, right) in enumerate(pairwise(tokens)):
        middle = begin + len(left)
        if begin in edges and (middle not in edges or middle + len(right) in edges):
            yield at, (left, right)
        begin = middle


def merge(tokens: Sequence[bytes], edges: set[int], pair: Pair) -> list[bytes]:
    """The tokens with this merge made wherever it may be, from left to right."""
    chosen, made, at = {at for at, found in places(tokens, edges) if found == pair}, [], 0
    while at < len(tokens):
        made.append(b"".join(tokens[at : at + 1 + (at in chosen)]))
        at += 1 + (at in chosen)
    return made


def learn(chunks: Mapping[str, int], size: int, unit: str) -> dict[str, list[bytes]]:
    """Each chunk as tokens, of so many ids."""
    words = {chunk: [bytes([byte]) for byte in chunk.encode()] for chunk in chunks}
    cut = {chunk: map(len, map(str.encode, regex.findall(unit, chunk))) for chunk in chunks if unit}
    edges = {chunk: {0, *accumulate(cut.get(chunk, [1] * len(word)))} for chunk, word in words.items()}
    counts, where, changed, made = Counter[Pair](), defaultdict[Pair, set[str]](set), set[Pair](), set[bytes]()

    def count(chunk: str, n: int) -> None:
        for _, pair in places(words[chunk], edges[chunk]):
            counts[pair] += n
            where[pair].add(chunk)
            changed.add(pair)

    for chunk, n in chunks.items():
        count(chunk, n)
    heap = [(-n, pair) for pair, n in counts.items()]
    heapq.heapify(heap)
    while heap and 256 + len(made) < size:
        n, best = heapq.heappop(heap)
        if not n or -n != counts[best]:
            continue
        made.add(b"".join(best))
        changed.clear()
        for chunk in where.pop(best):
            count(chunk, -chunks[chunk])
            words[chunk] = merge(words[chunk], edges[chunk], best)
            count(chunk, chunks[chunk])
        for pair in changed:
            heapq.heappush(heap, (-counts[pair], pair))
    return words


def main() -> None:
    """Learn in three ways, report by script."""
    options = parser(__doc__, "vocab-size", "name", vocab_size=16000)
    options.add_argument("text", type=Path)
    options.add_argument("--mb", type=int, default=6)
    given, split = options.parse_args(), find_pattern("gpt4o").compiled.findall
    lines = grouped(given.text, given.mb * 10**6)
    groups = {name: Counter(chain.from_iterable(map(split, some))) for name, some in lines.items()}
    groups["all"] = sum(groups.values(), Counter[str]())
    learned, rows = [learn(groups["all"], given.vocab_size, unit) for unit in UNITS.values()], []
    for name, counts in groups.items():
        size = sum(len(chunk.encode()) * n for chunk, n in counts.items())
        rates = [size / sum(len(words[chunk]) * n for chunk, n in counts.items()) for words in learned]
        rows.append([name, f"{size / 1e6:.2f}", *(f"{rate:.3f}" for rate in rates)])
    about = {"job": f"bytes per token of the text that is learned from, by script; {given.vocab_size:,} ids"}
    write_table(given.name or "graphemes", about, ["group", "MB counted", *UNITS], rows)


if __name__ == "__main__":
    main()
