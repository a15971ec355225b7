"""The fewest tokens that a model's ids could make of text: what the order of its merges costs.

    merges a b, ab c, bcd        "abcd" becomes abc d or a bcd: at least 2 tokens, however they are found

Of each distinct chunk the core finds the shortest path over its base symbols (core/fewest.c). A chunk that is a stop
word is one token. Not for models with superwords, whose tokens reach across chunks.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from streambpe.arrays import Int64
from streambpe.core.binding import ChunkTable
from streambpe.core.strings import as_buffers
from streambpe.encode.encoder import Encoder
from streambpe.later import polars as pl


def fewest_by(encoder: Encoder) -> Callable[[pl.DataFrame], int]:
    """A function: distinct chunks and their counts -> how many tokens they are at least."""
    vocabulary = encoder.model.vocabulary
    made = [base for base in (vocabulary[number].base for number in vocabulary.living) if len(base) > 1]
    wide = np.uint16 if encoder.n_log < 1 << 16 else np.int32  # of a symbol; UNKNOWN is the last
    sizes = np.array([len(base) for base in made], np.int64)
    lengths, table = np.unique(sizes), ChunkTable(1 << 40)
    symbols = np.array([number for base in made for number in base], np.int64).astype(wide)
    table.add(
        np.cumsum([0, *sizes * symbols.itemsize], dtype=np.int64), symbols.view(np.uint8), np.ones(len(sizes), np.int64)
    )
    two = [symbols[np.cumsum(sizes) - sizes + i].astype(np.uint64) for i in (0, 1)]
    hashes = (two[0] | two[1] << np.uint64(8 * symbols.itemsize)) * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(48)
    begun = np.zeros(1 << 16, np.uint64)
    np.bitwise_or.at(begun, hashes.astype(np.int64), np.uint64(1) << np.minimum(sizes, 63).astype(np.uint64))

    def fewest(counted: pl.DataFrame) -> int:
        total = 0
        for part in counted.iter_slices(1 << 18):
            stopped = part["chunk"].cast(pl.String).is_in(list(encoder.stop_ids))
            total += int(part.filter(stopped)["n"].sum())
            part = part.filter(~stopped)
            found, counts = encoder.codec.split_many(*as_buffers(part["chunk"].cast(pl.String)))
            n: Int64 = part["n"].to_numpy()
            total += int(table.fewest(begun, lengths, found.astype(wide), counts) @ n)
        return total

    return fewest
