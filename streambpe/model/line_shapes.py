"""What the fields of an event log's first line may hold: msgspec holds them against these shapes, and Header."""

from __future__ import annotations

from typing import Annotated, Any, Literal, get_type_hints

import msgspec

from streambpe.config import TrainConfig
from streambpe.count_config import CountConfig
from streambpe.model.corpus_facts import LeftOut
from streambpe.options import MOST_EMPTY_IDS, Count

FORMAT = "streambpe-events"
HEAD = b'{"format":"streambpe-events"'  # the first bytes of every event log
VERSIONS = (1, 2)  # 2: a header that says which ids are fixed and how many events are inherited

EmptyIds = Annotated[int, msgspec.Meta(ge=0, le=MOST_EMPTY_IDS)]


class StopWordShape(msgspec.Struct, forbid_unknown_fields=True):
    """One of a header's stop words."""

    id: Count
    bytes: Annotated[str, msgspec.Meta(min_length=1)]


class Special(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A special token; id is its model id at the model's full size."""

    text: Annotated[str, msgspec.Meta(min_length=1)]
    id: Count


class EventsShape(msgspec.Struct, forbid_unknown_fields=True):
    """What a header says of the lines below it."""

    count: Count
    sha256: str


class ListedAlphabet(msgspec.Struct, forbid_unknown_fields=True):
    """Base symbols by their bytes, in hex."""

    kind: str
    first_id: EmptyIds
    symbols: list[str]


class NumberedAlphabet(msgspec.Struct, forbid_unknown_fields=True):
    """SCRIPT's base symbols are numbers; the other fields say which table made them (script.py)."""

    kind: Literal["script"]
    first_id: Literal[1]
    size: Literal[1916, 2172]  # with the escape symbols of --unencodable bytes
    sha256: str
    table: str = ""
    index_symbols: Literal[1448] = 1448
    block_symbols: Literal[468] = 468
    escape_symbols: Literal[0, 256] = 0


class CorpusShape(msgspec.Struct):
    """What is used of a header's corpus; its other fields are only told."""

    sha256: str = ""
    left_out: list[LeftOut] = []


def _fields_of(holder: type, untold: set[str]) -> list[tuple[str, Any, Any]]:
    """The options that a class holds, for `defstruct`; whole numbers are those that 64 bits hold."""
    kinds, numbers = get_type_hints(holder, include_extras=True), {int: Count, int | None: Count | None}
    return [(name, numbers.get(kind, kind), None) for name, kind in kinds.items() if name not in untold]


# What a header's config may say: options under the names of their fields, and what other commands add. A reader that
# does not know a field refuses the log, unless `optional` names it.
ConfigShape: Any = msgspec.defstruct(
    "ConfigShape",
    [
        ("optional", list[str], msgspec.field(default_factory=list)),
        ("expression", str, ""),
        ("unknown", Literal["error", "drop"], "error"),
        ("holes", Count, 0),
        ("pruned_from", Count, 0),
        *_fields_of(CountConfig, {"sequences", "bad_utf8", "bad_lines"}),
        *_fields_of(TrainConfig, {"specials", "reserve"}),  # fields of the header itself
    ],
)
