"""The stored documents of a RUN, as superwords take them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import structs

from streambpe.store.documents import documents_digest
from streambpe.store.run import Run
from streambpe.store.sequences import SequencePart
from streambpe.text.patterns import Pattern
from streambpe.train.superwords.work import Work


class Documents(msgspec.Struct, frozen=True):
    """The documents that superwords are learned from."""

    run: Run
    parts: Sequence[SequencePart]
    word_pattern: Pattern | None = None  # uw: what the words are cut by
    pattern: Pattern | None = None  # uw: what superwords are cut by

    @property
    def places(self) -> int:
        """Their chunks and ends."""
        return sum(part.places for part in self.parts)

    @property
    def facts(self) -> list[dict[str, Any]]:
        """What they are, part by part; equal for equal documents."""
        return [structs.asdict(part) for part in self.parts]

    def digest(self, work: Work) -> str:
        """Which documents they are, in any order (store/documents.py)."""
        return documents_digest(self.run, self.parts, work.readers(self.parts))
