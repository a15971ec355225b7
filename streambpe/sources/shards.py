"""One machine's share of the sources: whole files, dealt so that all shares are about as large.

    --shard 3/16    the third of sixteen; each machine is given the same sources and another number

Files are dealt from the largest to the smallest, each to the share that is smallest so far (the lowest number of
several), so a share follows from the names and sizes alone.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Sequence

from streambpe.errors import UsageError
from streambpe.plurals import counted
from streambpe.sources.source import Source
from streambpe.system import name_order


def share_of(sources: Sequence[Source], shard: str) -> list[Source]:
    """The sources of share K of N, for a `shard` written K/N; in their order."""
    number, of = _parsed(shard)
    if any(source.is_stdin for source in sources):
        raise UsageError(f"--shard {shard}: standard input cannot be shared out. Give files, or leave the option out.")
    if of > len(sources):
        few = f"{'is' if len(sources) == 1 else 'are'} {counted(len(sources), 'source')}"
        raise UsageError(
            f"--shard {shard}: there {few}, and shares are whole files, so some would be empty. Nothing was "
            f"changed. Take at most {counted(len(sources), 'share')}, or cut the files."
        )
    shares = [(0, k) for k in range(1, of + 1)]
    chosen = set()
    for source in sorted(sources, key=lambda s: (-s.bytes, name_order(s.path))):
        size, k = heapq.heappop(shares)
        heapq.heappush(shares, (size + max(source.bytes, 1), k))
        if k == number:
            chosen.add(source.path)
    return [source for source in sources if source.path in chosen]


def _parsed(shard: str) -> tuple[int, int]:
    found = re.fullmatch(r"([0-9]{1,6})/([0-9]{1,6})", shard)
    number, of = (int(part) for part in found.groups()) if found else (0, 0)
    if not 1 <= number <= of:
        raise UsageError(f"--shard {shard}: give K/N, for the K-th of N shares, such as 1/16. Nothing was changed.")
    return number, of
