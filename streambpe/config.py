"""Options that can change a result: `CountConfig` how text becomes chunks, `TrainConfig` what is learned from them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

from streambpe.errors import RunMismatch, UsageError
from streambpe.system import compose_name
from streambpe.text.eligible import text_test


@dataclass(frozen=True)
class CountConfig:
    """How text becomes chunks. Fixed when a run is made: all its sources are counted alike."""

    pattern: str = "gpt4o"
    gaps: str = "refuse"
    split_scripts: bool = False
    bad_utf8: str = "replace"
    sequences: bool = False
    normalize: Literal["none", "nfc"] = "none"
    unencodable: Literal["bytes", "drop", "error"] = "bytes"

    @property
    def prepares(self) -> bool:
        """Whether text is changed before it is split (text/prepare.py)."""
        return self.normalize != "none" or self.unencodable == "drop"

    def as_facts(self) -> dict[str, Any]:
        """For table run."""
        return asdict(self)


def reconcile(saved: dict[str, Any], asked: dict[str, Any], run: Path) -> CountConfig:
    """The options of an existing run; those asked for now (None: not asked) must agree with them."""
    saved = asdict(CountConfig()) | saved  # a run made before an option existed has its default
    for f in fields(CountConfig):
        wanted = asked.get(f.name)
        if wanted is not None and wanted != saved[f.name]:
            flag = "--" + f.name.replace("_", "-")
            raise RunMismatch(
                f"{run} counts with {flag} {_shown(saved[f.name])}, not {_shown(wanted)}; nothing was changed. "
                f"Leave the option out to add to this run, or count into another RUN."
            )
    return CountConfig(**{f.name: saved[f.name] for f in fields(CountConfig)})


def _shown(value: Any) -> str:
    return {True: "on", False: "off"}.get(value, str(value)) if isinstance(value, bool) else str(value)


_MOST_DECIMALS = 6  # of a weight: remainders are counted in an array of a million (store/groups.py)
_LARGEST_WEIGHT = 10**6


def parse_weights(given: Sequence[str] | Mapping[str, object]) -> dict[str, str]:
    """NAME=NUMBER each -> the numbers in their shortest decimal form, by name in order."""
    pairs = []
    for entry in given if not isinstance(given, Mapping) else [f"{k}={v}" for k, v in given.items()]:
        name, _, number = entry.rpartition("=")
        if not name or not re.fullmatch(rf"\d+(\.\d{{1,{_MOST_DECIMALS}}})?", number):
            raise UsageError(
                f"--weight {entry}: write NAME=NUMBER, a decimal number with at most {_MOST_DECIMALS} places."
            )
        if Fraction(number) > _LARGEST_WEIGHT:
            raise UsageError(f"--weight {entry}: at most {_LARGEST_WEIGHT}.")
        whole, _, places = number.partition(".")
        places = places.rstrip("0")
        pairs.append((compose_name(name.strip()), str(int(whole)) + (f".{places}" if places else "")))
    if len({name for name, _ in pairs}) != len(pairs):
        raise UsageError("--weight: each group once.")
    return dict(sorted(pairs))


# What each compatibility name changes; see docs/training.md. An encoding that leaves no choice of alphabet
# overrides `alphabet`.
LIKE: dict[str, dict[str, Any]] = {
    "hf": {},
    "rustbpe": {"alphabet": "bytes"},
    "kensho": {
        "alphabet": "utf8",
        "overlaps": "disjoint",
        "ties": "bytes",
        "count_specials": False,
        "superword_pattern": "simple",
    },
    "script": {"encoding": "script", "alphabet": "bytes1"},
    "batch": {"alphabet": "bytes", "overlaps": "disjoint", "batch": "paper"},
    "picky": {
        "encoding": "chars",
        "coverage": "0.9999",
        "ties": "bytes",
        "tau": "0.9",
        "delete_to": "walk",
        "delete_test": "after",
        "specials": ("<PAD>", "<UNK>", "<BOS>", "<EOS>"),
        "specials_first": True,
        "token_order": "first-birth",
    },
}
# The same for counting, where nothing else is asked for.
LIKE_COUNTING: dict[str, dict[str, Any]] = {
    "script": {"normalize": "nfc", "unencodable": "drop"},
    "picky": {"pattern": "whitespace"},
}
ENCODINGS = ("bytes", "chars", "script")
UNK = "<unk>"  # the special token of --encoding chars for characters outside the alphabet; or <UNK>, if that is given
SUPERWORDS = ("none", "boundless", "superbpe", "uw")
STAGE2_PATTERN = "superbpe2"
_SUPERWORD_FIELDS = (
    "superwords", "transition", "superword_pattern", "stage2_pattern", "max_superword_words", "forbid",
)  # fmt: skip
ALPHABETS = ("gpt2", "bytes", "bytes1", "utf8", "seen")


def _share(option: str, share: str | float, idle: str) -> Decimal:
    """A share as an exact decimal."""
    try:
        value = Decimal(str(share))
    except InvalidOperation:
        value = Decimal("NaN")
    if not value.is_finite() or not 0 < value <= 1:
        raise UsageError(f"{option} {share}: a decimal number above 0 and at most 1, such as 0.9; {idle}.")
    return value.normalize()  # so that 0.9 and 0.90 are one option


@dataclass(frozen=True)
class TrainConfig:
    """How a vocabulary is learned from counts. Every field can change the events."""

    vocab_size: int = 32_000  # model ids: base symbols, stop words, learned tokens, specials, reserved
    encoding: str = "bytes"  # what a base symbol is
    coverage: str | None = None  # chars: the rarest characters beyond this share of the text are unknown; a decimal
    whole_characters: bool = False  # a part of a character merges with nothing but the rest of it
    alphabet: str = "gpt2"
    ties: Literal["ids", "bytes"] = "ids"  # after the higher count: lowest (left, right) by id, or by bytes
    overlaps: Literal["all", "disjoint"] = "all"  # "aaa" holds (a, a) twice, or once
    batch: Literal["exact", "1", "paper"] = "exact"  # exact and 1 learn the same; paper is BatchBPE's rule
    cap_divisor: int = 2
    max_batch: int | None = None
    min_frequency: int = 1
    max_token_length: int | None = None
    stop_list: int = 0
    freq_cutoff: int = 1
    specials: tuple[str, ...] = ()
    reserve: int = 0
    count_specials: bool = True  # specials and reserved ids are part of vocab_size
    block_tokens: tuple[str, ...] = ()
    weights: dict[str, str] = field(default_factory=dict)  # of source groups; store/groups.py
    tau: str | None = None  # delete a token when a merge takes such a share of it; a decimal; None is never
    delete_to: Literal["bytes", "walk"] = "bytes"  # its other occurrences become base symbols, or living parts
    delete_test: Literal["before", "after"] = "before"  # see train/engine/deletion.py
    superwords: str = "none"
    transition: int | None = None  # superbpe, uw: living tokens without specials at the end of phase one
    superword_pattern: str = "improved"  # which chunks may join: text/eligible.py
    stage2_pattern: str = STAGE2_PATTERN  # uw: what cuts the text for superwords, and for encoding
    max_superword_words: int | None = None
    forbid: str | None = None  # no superword in whose text this expression is found
    token_order: str = "latest-birth"  # of model ids
    specials_first: bool = False  # before the alphabet, not behind the learned tokens

    @classmethod
    def from_options(cls, like: str = "hf", **given: Any) -> TrainConfig:
        """`like` sets knobs, what is given (not None) overrides them; wrong values are refused by name."""
        if like not in LIKE:
            raise UsageError(f"--like {like}: one of {', '.join(LIKE)}.")
        given = {key: value for key, value in given.items() if value not in (None, ())}
        chosen = {**LIKE[like], **given}
        for name in ("specials", "block_tokens"):
            chosen[name] = tuple(chosen.get(name, ()))
        encoding = chosen.get("encoding", "bytes")
        if encoding != "bytes":
            if given.get("alphabet") not in (None, encoding):
                symbols = "of its table" if encoding == "script" else "of the text"
                raise UsageError(
                    f"--alphabet {given['alphabet']}: the base symbols of --encoding {encoding} are those {symbols}. "
                    f"Leave --alphabet out."
                )
            chosen["alphabet"] = encoding
        if encoding == "chars":
            if not any(text.lower() == UNK for text in chosen["specials"]):
                chosen["specials"] = (*chosen["specials"], UNK)
        elif "coverage" not in given:
            chosen.pop("coverage", None)
        if "coverage" in chosen:
            coverage = _share("--coverage", chosen["coverage"], "with 1 no character is unknown")
            chosen["coverage"] = format(coverage, "f") if coverage < 1 else None
        if "tau" in chosen:
            chosen["tau"] = format(_share("--tau", chosen["tau"], "without --tau no token is deleted"), "f")
        chosen["weights"] = parse_weights(chosen.get("weights", ()))
        config = cls(**chosen)
        config.check()
        if config.superwords == "none" and given.get("superword_pattern") is not None:
            raise UsageError("--superword-pattern belongs to --superwords boundless and superbpe.")
        if config.superwords == "uw" and given.get("superword_pattern") is not None:
            raise UsageError(
                "--superword-pattern says which chunks may join; with --superwords uw any neighbours inside a chunk of "
                "--stage2-pattern may. Leave it out."
            )
        return config

    def check(self) -> None:
        """Refuse what cannot work, before anything is read."""
        choices = {
            "encoding": ENCODINGS,
            "alphabet": ALPHABETS if self.encoding == "bytes" else (self.encoding,),
            "ties": ("ids", "bytes"),
            "overlaps": ("all", "disjoint"),
            "batch": ("exact", "1", "paper"),
            "delete_to": ("bytes", "walk"),
            "delete_test": ("before", "after"),
            "token_order": ("latest-birth", "first-birth"),
        }
        for name, allowed in choices.items():
            if getattr(self, name) not in allowed:
                flag = name.replace("_", "-")
                raise UsageError(f"--{flag} {getattr(self, name)}: one of {', '.join(allowed)}.")
        if self.tau is None and (self.delete_to, self.delete_test) != ("bytes", "before"):
            raise UsageError("--delete-to and --delete-test say how tokens are deleted; --tau T says when.")
        if self.tau is not None and self.batch == "paper":
            raise UsageError(
                "--tau asks after every single merge, which --batch paper does not have. Use --batch exact."
            )
        for name, least in (
            ("cap_divisor", 1),
            ("min_frequency", 0),
            ("stop_list", 0),
            ("freq_cutoff", 0),
            ("reserve", 0),
        ):
            if getattr(self, name) < least:
                raise UsageError(f"--{name.replace('_', '-')} {getattr(self, name)}: at least {least}.")
        for name in ("max_batch", "max_token_length"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise UsageError(f"--{name.replace('_', '-')} {value}: at least 1.")
        if self.batch == "paper" and self.ties == "bytes":
            raise UsageError(
                "--batch paper takes the first pairs of a round by ids; --ties bytes is not defined for it."
            )
        if self.coverage is not None and self.encoding != "chars":
            raise UsageError("--coverage says which characters are unknown; --encoding chars has characters.")
        if self.whole_characters and self.encoding == "chars":
            raise UsageError("--whole-characters with --encoding chars: every symbol is a character. Leave it out.")
        least = {"gpt2": 256, "bytes": 256, "bytes1": 256, "utf8": 243, "seen": 0, "chars": 0, "script": 1916}[
            self.alphabet
        ]
        least += self.extra_ids if self.count_specials else 0
        if self.vocab_size < least:
            raise UsageError(
                f"--vocab-size {self.vocab_size} is less than the {least} ids that are there before anything is "
                f"learned: base symbols, special and reserved ids."
            )
        self._check_superwords()
        if len(set(self.specials)) != len(self.specials) or "" in self.specials:
            raise UsageError("--special: each must be given once and not be empty.")

    def _check_superwords(self) -> None:
        if self.superwords not in SUPERWORDS:
            raise UsageError(f"--superwords {self.superwords}: one of {', '.join(SUPERWORDS)}.")
        staged = self.superwords in ("superbpe", "uw")
        if staged != (self.transition is not None):
            raise UsageError(
                f"--superwords {self.superwords} needs --transition N: the tokens at which superwords begin."
                if staged
                else "--transition belongs to --superwords superbpe and uw."
            )
        if self.superwords != "uw" and self.stage2_pattern != STAGE2_PATTERN:
            raise UsageError("--stage2-pattern belongs to --superwords uw.")
        if self.superwords == "none":
            for name in ("max_superword_words", "forbid"):
                if getattr(self, name) is not None:
                    raise UsageError(f"--{name.replace('_', '-')} belongs to --superwords.")
            return
        if self.encoding != "bytes":
            raise UsageError(
                f"--superwords {self.superwords} with --encoding {self.encoding}: superwords are learned over bytes "
                f"only. Leave one of the two out."
            )
        if self.weights:
            raise UsageError(
                f"--weight with --superwords {self.superwords}: which chunks join is decided by how often they stand "
                f"side by side in the documents, and documents have no weights. Leave one of the two out."
            )
        if self.batch == "paper":
            raise UsageError(
                "--batch paper with --superwords: BatchBPE's rounds have no order by count, so supermerges cannot be "
                "placed among them. Use --batch exact."
            )
        if self.superwords == "uw":
            self._check_uw()
        room = self.vocab_size - (self.extra_ids if self.count_specials else 0)
        if self.transition is not None and self.transition > room:
            raise UsageError(
                f"--transition {self.transition} is more than the {room} tokens of --vocab-size {self.vocab_size} "
                f"(special and reserved ids not counted)."
            )
        if self.max_superword_words is not None and self.max_superword_words < 2:
            raise UsageError(f"--max-superword-words {self.max_superword_words}: at least 2.")
        text_test(self.superword_pattern, "--superword-pattern")
        if self.forbid is not None:
            text_test(self.forbid, "--forbid")

    @property
    def unk(self) -> str | None:
        """The special token that stands for characters outside the alphabet, where there may be such."""
        return next((text for text in self.specials if text.lower() == UNK), None) if self.encoding == "chars" else None

    def _check_uw(self) -> None:
        from streambpe.text.patterns import find_pattern  # not above: Polars would come before its settings

        find_pattern(self.stage2_pattern, gaps="keep")
        if self.stop_list:
            raise UsageError(
                "--stop-list with --superwords uw: stop words are whole chunks of --pattern, and uw models encode "
                "chunks of --stage2-pattern. Leave one out."
            )
        if self.tau is not None:
            raise UsageError(
                "--tau with --superwords uw: its second stage makes the merges of the first anew, and has no "
                "deletions. Leave one out."
            )

    @property
    def extra_ids(self) -> int:
        """Specials and reserved ids."""
        return len(self.specials) + self.reserve

    def as_facts(self) -> dict[str, Any]:
        """For the event log's header: exact and 1 are one rule, and what the rule ignores is left out."""
        facts = asdict(self)
        facts["batch"] = "paper" if self.batch == "paper" else "exact"
        if self.batch != "paper":
            del facts["cap_divisor"], facts["max_batch"]
        if self.tau is None:
            del facts["tau"], facts["delete_to"], facts["delete_test"]
        if self.coverage is None:
            del facts["coverage"]
        if self.token_order == "latest-birth":
            del facts["token_order"]
        if not self.specials_first:
            del facts["specials_first"]
        del facts["specials"], facts["reserve"]  # fields of their own in the header
        facts["block_tokens"] = sorted(self.block_tokens)
        if not self.weights:
            del facts["weights"]
        if self.superwords == "none":
            for name in _SUPERWORD_FIELDS:
                del facts[name]
        else:
            del facts["superword_pattern" if self.superwords == "uw" else "stage2_pattern"]
        return facts
