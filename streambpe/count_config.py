"""Options of counting. `CountConfig`: how text is split, `SourceOptions`: how sources are read, `Counting`: both."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from streambpe.errors import RunMismatch, UsageError
from streambpe.options import option, options_of, refuse_values
from streambpe.resources import DOCUMENT_SECONDS
from streambpe.text.aliases import canonical

if TYPE_CHECKING:
    from streambpe.text.patterns import Pattern

TOLD_IF_SET = ("sample", "document_cap", "sample_files", "seed", "digits")  # in event logs and option files
_most_used, _splitting, _corpus, _superwords = (
    functools.partial(option, panel=panel) for panel in ("Most used", "Splitting", "Corpus", "Superwords")
)


@dataclass(frozen=True)
class CountConfig:
    """How text becomes chunks. Fixed when a run is made: all its sources are counted alike."""

    pattern: str = _most_used(
        "gpt4o",
        "How text is split into chunks: a preset (`streambpe docs counting`) or a regular expression.",
        metavar="NAME|REGEX",
    )
    gaps: Literal["refuse", "keep", "drop"] = _splitting(
        "refuse", "What to do with text that a REGEX does not match.", untold=("drop",)
    )
    split_scripts: bool = _splitting(
        False, "Before splitting text, cut it where the script changes.", off="--no-split-scripts"
    )
    digits: Literal["keep", "single", "two", "left3", "right3"] = _splitting(
        "keep",
        "How many digits of a number a chunk holds: as many as the preset says, one, at most two, or threes counted "
        "from the left or from the right.",
    )
    bad_utf8: Literal["replace", "skip", "error"] = _corpus(
        "replace",
        "Replace invalid bytes by U+FFFD, skip them, or stop with an error. If you give this option, files that are "
        "mostly not UTF-8 are read, too.",
    )
    bad_lines: Literal["error", "skip"] = _corpus(
        "error",
        "A line of jsonl, csv or --lines that cannot be read (not JSON, no such field, not a string; not UTF-8 with "
        "--bad-utf8 error) is an error, or it is skipped and tallied.",
    )
    sequences: bool = _superwords(
        False, "Store the documents as chunk ids as well. Superwords need this and turn it on.", off="--no-sequences"
    )
    normalize: Literal["none", "nfc"] = _splitting(
        "none", "Normalise Unicode before splitting. nfc is that of Unicode 16.0.0."
    )
    unencodable: Literal["bytes", "drop", "error"] = _splitting(
        "bytes",
        "Characters outside the SCRIPT table (unassigned in 16.0.0, or private use): keep them as bytes, drop and "
        "tally them, or stop with an error.",
    )

    sample: str = _corpus(
        "all",
        "Take only about one document in N, chosen by a hash of its text: the same whatever the order, files or "
        "shards. Those of 1/100 are among those of 1/10.",
        metavar="1/N",
    )

    document_cap: int | None = _corpus(
        None,
        "Count only the beginning of longer documents: at most N characters, up to the end of a chunk. 10k is 10 000.",
        least=1,
        most=10**7,
    )
    sample_files: str = _corpus(
        "all",
        "Read only about one file in N, chosen by a hash of FOLDER/FILE and --seed. "
        "Those of 1/16 are among those of 1/8.",
        metavar="1/N",
    )
    seed: int = _corpus(0, "Chooses which files --sample-files takes.", least=0, most=2**32 - 1)

    def __post_init__(self) -> None:
        if self.seed and self.sample_files == "all":
            raise UsageError(f"--seed {self.seed} belongs to --sample-files. Nothing was changed. Leave it out.")

    @property
    def one_in(self) -> int:
        """N of --sample 1/N; 1: all documents."""
        return parse_sample(self.sample)

    @property
    def prepares(self) -> bool:
        """Whether text is changed before it is split (text/prepare.py)."""
        return self.normalize != "none" or self.unencodable == "drop"

    @property
    def reads_whole_lines(self) -> bool:
        """Whether a line of text must be in one block, because bytes anywhere in it may leave all of it out."""
        return (self.bad_utf8 == "error" and self.bad_lines == "skip") or bool(self.of_documents)

    @property
    def of_documents(self) -> str:
        """The option, if one is given, that needs whole documents."""
        cap = f"--document-cap {self.document_cap}" if self.document_cap else ""
        return f"--sample {self.sample}" if self.sample != "all" else cap

    @lru_cache(maxsize=4)  # noqa: B019 - a few options, which are small
    def split_pattern(self, document_seconds: float = DOCUMENT_SECONDS) -> Pattern:
        """What text is split by; a pattern of the user's own may take so many seconds on one document."""
        from streambpe.text.patterns import find_pattern  # not above: it loads `regex`, and --help reads this module

        pattern = find_pattern(
            self.pattern,
            gaps=self.gaps,
            split_scripts=self.split_scripts,
            digits=self.digits,
            prepared=self.prepares,
            document_seconds=document_seconds,
        )
        if self.document_cap and pattern.border is None:
            raise UsageError(
                f"--document-cap {self.document_cap}: a document is cut where a preset has a border whatever stands "
                f"around, and --pattern {self.pattern} has no such place. Nothing was changed. Leave one out."
            )
        return pattern


def parse_sample(text: str, flag: str = "--sample", what: str = "document") -> int:
    """N of 1/N; 1 of `all`."""
    if text == "all":
        return 1
    number = text.removeprefix("1/")
    if text == number or not re.fullmatch("[1-9][0-9]{0,8}", number, re.ASCII) or number == "1":
        raise UsageError(
            f"{flag} {text}: 1/N, such as 1/10, which is about one {what} in ten, chosen by a hash. Leave it out for "
            f"all {what}s. (--rehearse SIZE says how much plan reads.) Nothing was changed."
        )
    return int(number)


@dataclass(frozen=True)
class SourceOptions:
    """How SOURCE arguments are read, and the groups they are counted in."""

    lines: bool = _most_used(False, "Treat every line of a text file as a document.")
    text_column: str | None = _most_used(
        None, "The text field of jsonl, csv and parquet.", metavar="NAME", told_default="text"
    )
    kind: Literal["auto", "txt", "lines", "jsonl", "csv", "parquet"] = _corpus(
        "auto", "The format of all sources, instead of judging by each file's name.", flag="--format"
    )
    counts: bool = _corpus(False, "The sources are tables of chunks and their counts.")
    stdin_name: str = _corpus("-", "The name of standard input as a source.", metavar="NAME")
    groups: tuple[str, ...] = _corpus(
        (),
        "Keep the counts of these sources apart as group NAME, for --weight and --balance. May be given again.",
        flag="--group",
        metavar="NAME=GLOB",
    )
    group_by: Literal["folder"] | None = _corpus(None, "Each folder is a group named after it.")

    shard: str | None = _corpus(
        None,
        "Take only the K-th of N shares of the source files, one share for each machine. merge-counts joins them.",
        metavar="K/N",
    )

    def __post_init__(self) -> None:
        refuse_values(SourceOptions, vars(self))

    def given(self) -> dict[str, Any]:
        """The options that differ from their defaults."""
        held = {name: (getattr(self, name), known.default) for name, known in options_of(SourceOptions).items()}
        return {name: value for name, (value, default) in held.items() if value != default}


@dataclass(frozen=True)
class Counting(SourceOptions):
    """What a command, a caller of `train`, or run.json asks of counting."""

    options: dict[str, Any] = field(default_factory=dict)  # of CountConfig; a missing one is as in the run

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse_values(CountConfig, self.options)
        if isinstance(pattern := self.options.get("pattern"), str):
            object.__setattr__(self, "options", {**self.options, "pattern": canonical(pattern)})
        parse_sample(self.options.get("sample", "all"))
        parse_sample(self.options.get("sample_files", "all"), "--sample-files", "file")

    @classmethod
    def of(cls, arguments: SourceOptions | Mapping[str, Any] | None) -> Counting:
        """Made from arguments by the names of their fields; None means that an argument is missing."""
        if isinstance(arguments, SourceOptions):
            return arguments if isinstance(arguments, Counting) else cls(**vars(arguments))
        given = {name: value for name, value in (arguments or {}).items() if value is not None}
        options = {name: value for name, value in given.pop("options", {}).items() if value is not None}
        return cls(**{**given, "groups": tuple(given.get("groups", ())), "options": options})


def reconcile(saved: Mapping[str, Any], asked: Mapping[str, Any], run: Path) -> CountConfig:
    """The options of an existing run; an error if one asked for now (None: not asked) differs."""
    saved = {**asdict(CountConfig()), **saved}  # a run made before an option existed has its default
    known = options_of(CountConfig)
    for name, told in known.items():
        wanted = asked.get(name)
        if wanted is not None and wanted != saved[name]:
            raise RunMismatch(
                f"{run} was counted with {told.flag} {_shown(saved[name])}, not {_shown(wanted)}; nothing was changed. "
                "Leave the option out to add to this run, or count into another RUN."
            )
    return CountConfig(**{name: saved[name] for name in known})


def _shown(value: Any) -> str:
    return {"True": "on", "False": "off", "None": "none"}.get(str(value), str(value))
