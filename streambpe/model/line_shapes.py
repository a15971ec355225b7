"""What the first line of an event log may hold: msgspec holds it against these shapes."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

FORMAT = "streambpe-events"
HEAD = b'{"format":"streambpe-events"'  # the first bytes of every event log
VERSIONS = (1, 2)  # 2: a header that says which ids are fixed and how many events are inherited

MOST_IDS = 2**31 - 1  # in 32 bits with a sign
MOST_EMPTY_IDS = 1 << 20  # ids before the first symbol, and reserved ones: a few bytes in a file, much memory in tables

Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
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


class HeaderLine(msgspec.Struct, forbid_unknown_fields=True):
    """The first line."""

    format: Literal["streambpe-events"]
    version: Literal[1, 2]
    config: dict[str, Any]  # this and corpus: of whichever program wrote it, so any JSON
    unicode: str | None
    corpus: dict[str, Any]
    alphabet: dict[str, Any]  # ListedAlphabet or NumberedAlphabet
    unk: str | None
    stop_words: list[StopWordShape]
    specials: tuple[Special, ...]
    reserved: EmptyIds
    events: EventsShape
    # of version 2 alone
    inherited: Count | msgspec.UnsetType = msgspec.UNSET
    free: list[tuple[Count, Annotated[int, msgspec.Meta(ge=1, le=MOST_EMPTY_IDS)]]] | msgspec.UnsetType = msgspec.UNSET

    def __post_init__(self) -> None:
        for name in ("inherited", "free"):
            if (getattr(self, name) is msgspec.UNSET) is (self.version == 2):
                raise ValueError(f"version {self.version} {'needs' if self.version == 2 else 'cannot have'} `{name}`")


class ListedAlphabet(msgspec.Struct, forbid_unknown_fields=True):
    """Base symbols by their bytes, in hex."""

    kind: str
    first_id: EmptyIds
    symbols: list[str]


class NumberedAlphabet(msgspec.Struct):
    """SCRIPT's base symbols are numbers; which table made them stands beside these fields."""

    kind: Literal["script"]
    first_id: Literal[1]
    size: Literal[1916, 2172]  # with the escape symbols of --unencodable bytes
    sha256: str


class ConfigShape(msgspec.Struct):
    """What a header's config says of how text becomes chunks; its other fields are told, not followed."""

    pattern: str = "none"
    stage2_pattern: str = "superbpe2"
    split_scripts: bool = False
    digits: Literal["keep", "single", "two", "left3", "right3"] = "keep"
    gaps: Literal["refuse", "keep", "drop"] = "refuse"
    normalize: Literal["none", "nfc"] = "none"
    unencodable: Literal["bytes", "drop", "error"] = "bytes"
    unknown: Literal["error", "drop"] = "error"
    superwords: Literal["none", "boundless", "superbpe", "uw"] = "none"
    token_order: Literal["latest-birth", "first-birth"] = "latest-birth"
    specials_first: bool = False
    holes: Count = 0
