"""The keywords of the functions; made by tools/keywords.py."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Literal, TypedDict

class LimitKeywords(TypedDict, total=False):
    """What every function may use."""

    memory: str | float | Path | None
    threads: int | str | None
    temp_dir: str | float | Path | None

class JobKeywords(LimitKeywords, total=False):
    """What a job may use."""

    document_seconds: int | str | None
    engine: Literal["threads", "ray"] | None
    address: str | float | Path | None

class ReadKeywords(LimitKeywords, total=False):
    """How texts are read."""

    lines: bool | None
    text_column: str | float | Path | None
    format: Literal["auto", "txt", "lines", "jsonl", "csv", "parquet"] | None

class CountKeywords(ReadKeywords, JobKeywords, total=False):
    """Those of `count`."""

    max_disk: str | float | Path | None
    learner: Literal["core", "tables"] | None
    counts: bool | None
    stdin_name: str | float | Path | None
    group: str | Mapping[str, object] | Iterable[str] | None
    group_by: Literal["folder"] | None
    shard: str | float | Path | None
    pattern: str | float | Path | None
    gaps: Literal["refuse", "keep"] | None
    split_scripts: bool | None
    digits: Literal["keep", "single", "two", "left3", "right3"] | None
    bad_utf8: Literal["replace", "skip", "error"] | None
    bad_lines: Literal["error", "skip"] | None
    sequences: bool | None
    normalize: Literal["none", "nfc"] | None
    unencodable: Literal["bytes", "drop", "error"] | None
    sample: str | float | Path | None
    document_cap: int | str | None
    sample_files: str | float | Path | None
    seed: int | str | None

class LearnKeywords(LimitKeywords, total=False):
    """Those of learning alone."""

    vocab_size: int | str | None
    encoding: Literal["bytes", "chars", "script"] | None
    coverage: str | float | Path | None
    whole_characters: bool | None
    alphabet: Literal["gpt2", "bytes", "bytes1", "utf8", "seen"] | None
    ties: Literal["ids", "bytes"] | None
    overlaps: Literal["all", "disjoint"] | None
    batch: Literal["exact", "1", "paper"] | None
    cap_divisor: int | str | None
    max_batch: int | str | None
    min_frequency: int | str | None
    max_token_length: int | str | None
    stop_list: int | str | None
    freq_cutoff: int | str | None
    special: str | Mapping[str, object] | Iterable[str] | None
    reserve: int | str | None
    count_specials: bool | None
    block_token: str | Mapping[str, object] | Iterable[str] | None
    must: str | Mapping[str, object] | Iterable[str] | None
    weight: str | Mapping[str, object] | Iterable[str] | None
    alpha: str | float | Path | None
    balance: bool | None
    balance_ratio: str | Mapping[str, object] | Iterable[str] | None
    balance_from: int | str | None
    balance_window: int | str | None
    balance_alpha: str | float | Path | None
    tau: str | float | Path | None
    delete_to: Literal["bytes", "walk"] | None
    delete_test: Literal["before", "after"] | None
    superwords: Literal["none", "boundless", "superbpe", "uw"] | None
    transition: int | str | None
    superword_pattern: str | float | Path | None
    stage2_pattern: str | float | Path | None
    max_superword_words: int | str | None
    forbid: str | float | Path | None
    token_order: Literal["latest-birth", "first-birth"] | None
    specials_first: bool | None

class TrainKeywords(CountKeywords, LearnKeywords, total=False):
    """Those of `train`."""

class EncodeKeywords(ReadKeywords, JobKeywords, total=False):
    """Those of `encode_corpus`."""

class RoleKeywords(TypedDict, total=False):
    """What special tokens are for."""

    bos: str | None
    eos: str | None
    pad: str | None
    unk: str | None
    add_bos: bool
    add_eos: bool
    chat_template: str | None
