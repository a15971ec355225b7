"""What the fields of an event log's first line may hold: msgspec holds them against these shapes, and Header."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from streambpe.model.corpus_facts import LeftOut

FORMAT = "streambpe-events"
HEAD = b'{"format":"streambpe-events"'  # the first bytes of every event log
VERSIONS = (1, 2)  # 2: a header that says which ids are fixed and how many events are inherited

MOST_IDS = 2**31 - 1  # in 32 bits with a sign
MOST_EMPTY_IDS = 1 << 20  # ids before the first symbol, and reserved ones: a few bytes in a file, much memory in tables

Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
Decimal = Annotated[str, msgspec.Meta(pattern=r"^[0-9]+(\.[0-9]+)?(e-?[0-9]+)?$")]
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


class ConfigShape(msgspec.Struct):
    """What a header's config may say: options under their own names (config.py, count_config.py), and what other
    commands add. A reader that does not know a field refuses the log, unless `optional` names it."""

    optional: list[str] = []

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

    # told, and taken over by --as
    expression: str = ""
    sample: str = "all"
    document_cap: Count | None = None
    sample_files: str = "all"
    seed: Count = 0
    pruned_from: Count = 0
    vocab_size: Count = 0
    encoding: Literal["bytes", "chars", "script"] = "bytes"
    alphabet: Literal["gpt2", "bytes", "bytes1", "utf8", "seen", "chars", "script"] = "gpt2"
    coverage: Decimal | None = None
    whole_characters: bool = False
    ties: Literal["ids", "bytes"] = "ids"
    overlaps: Literal["all", "disjoint"] = "all"
    batch: Literal["exact", "paper"] = "exact"
    cap_divisor: Count = 2
    max_batch: Count | None = None
    min_frequency: Count = 1
    max_token_length: Count | None = None
    stop_list: Count = 0
    freq_cutoff: Count = 1
    count_specials: bool = True
    block_tokens: list[str] = []
    must: list[str] = []
    weights: dict[str, Decimal] = {}
    alpha: Decimal | None = None
    balance: bool = False
    balance_ratios: dict[str, Decimal] = {}
    balance_from: Count = 0
    balance_window: Count | None = None
    balance_alpha: Decimal | None = None
    balanced_on: dict[str, str] = {}
    tau: Decimal | None = None
    delete_to: Literal["bytes", "walk"] = "bytes"
    delete_test: Literal["before", "after"] = "before"
    transition: Count | None = None
    superword_pattern: str = ""
    max_superword_words: Count | None = None
    forbid: str | None = None
    extends: str | None = None
    extends_pattern: str | None = None
