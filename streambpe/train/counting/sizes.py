"""How large blocks and tables are while counting: what --memory and --threads leave for each worker.

A block is given BYTES_A_BYTE times its size while it is cut and counted, so the block size follows from the limits; a
worker's table of distinct chunks is committed when it outgrows its share.
"""

from __future__ import annotations

import msgspec

from streambpe.resources import BASE_BYTES, Resources

BYTES_A_BYTE = 52  # peak memory of cutting and counting a block: documents of 60 bytes, by a pattern of one's own
# What a limit leaves for each byte of the largest chunk, while no other worker works. Counting it takes 5 in the core,
# 9 with --sequences, 11 by a pattern of the user's own (in two processes). Learning from it takes more: 19 as a word on
# its way to disk, and when the tables are filled, 9.5 of DuckDB's half of the limit were not always enough.
GIANT_COST = 24
MOST_BLOCK = 8 << 20  # with 16 MB it was slower (page faults of larger arrays) and took 200 MB more
MOST_ORDERED = 64 << 20  # four bytes a chunk: 64 MB of English become one part, with two files of sequences
LEAST_BLOCK = 256 << 10
LEAST_TABLE = 4 << 20


class Sizes(msgspec.Struct, frozen=True):
    """Sizes in bytes, for one count."""

    block: int  # of input, handed to a worker
    most: int  # of a block that cannot be cut anywhere
    table: int  # of a worker's distinct chunks, before they are committed
    sequences: int  # of what a worker keeps in order for --sequences, before it is committed
    rows: int  # of a count table's distinct chunks, beside which nothing else is in memory

    @classmethod
    def of(cls, resources: Resources) -> Sizes:
        """The sizes that the limits allow."""
        memory = resources.memory_bytes - BASE_BYTES
        share = memory // (resources.threads + 1)  # of the reader, and of each worker
        return cls._within(share, memory, sequences=share // 6, rows=memory // 8)

    @classmethod
    def of_task(cls, memory_bytes: int) -> Sizes:
        """The sizes of a task that has so much memory, besides what a process takes before any work."""
        return cls._within(memory_bytes, memory_bytes, sequences=memory_bytes // 12, rows=0)

    @classmethod
    def _within(cls, share: int, memory: int, sequences: int, rows: int) -> Sizes:
        block = min(MOST_BLOCK, max(LEAST_BLOCK, share // BYTES_A_BYTE))
        most, table = max(block, memory // GIANT_COST), max(share // 8, LEAST_TABLE)
        return cls(block, most, table, min(MOST_ORDERED, sequences), rows)
