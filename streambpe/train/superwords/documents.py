"""The stored documents of a RUN, as superwords take them."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from streambpe.store.run import Run
from streambpe.store.sequences import SequencePart
from streambpe.text.patterns import Pattern


class Documents(msgspec.Struct, frozen=True):
    """The documents that superwords are learned from."""

    run: Run
    parts: Sequence[SequencePart]
    word_pattern: Pattern | None = None  # uw: what the words are cut by
    pattern: Pattern | None = None  # uw: what superwords are cut by
