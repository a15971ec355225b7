"""What is learned from counts: `TrainConfig`, and what `--like` sets. For counting itself: count_config.py."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any, Literal

from streambpe.errors import UsageError
from streambpe.options import MOST_EMPTY_IDS, MOST_IDS, DecimalText, Option, option, options_of, refuse_values
from streambpe.system import compose_name
from streambpe.text.shown import read_shown, readable

MOST_DECIMALS = 6  # in a weight: so there are at most a million remainders to count (store/weights.py)
LARGEST_WEIGHT = 10**6


def parse_decimal(given: object, most: int, places: int) -> Decimal | None:
    """A decimal number in its shortest form; None if it is none, is below 0 or above `most`, or has more places."""
    try:
        value = Decimal(str(given))
        fits = value.is_finite() and 0 <= value <= most and value == round(value, places)
    except InvalidOperation:
        return None
    return abs(value.normalize()) if fits else None  # -0 is 0


def decimal_text(flag: str, given: object, least: str, most: int, places: int, example: str) -> str:
    """An option that is a decimal number, in its shortest form."""
    number = parse_decimal(given, most, places)
    if number is None or (not number and least == "above 0"):
        raise UsageError(
            f"{flag} {given}: give a decimal number {least} and at most {most}, with at most {places} places, such as "
            f"{example}. Nothing was changed."
        )
    return format(number, "f")


def parse_weights(given: Sequence[str] | Mapping[str, object], flag: str = "--weight") -> dict[str, str]:
    """Entries NAME=NUMBER -> the numbers in their shortest decimal form, by name, sorted by name."""
    pairs = []
    for entry in given if not isinstance(given, Mapping) else [f"{k}={v}" for k, v in given.items()]:
        name, _, text = entry.rpartition("=")
        number = parse_decimal(text, LARGEST_WEIGHT, MOST_DECIMALS)
        if not name or number is None:
            raise UsageError(
                f"{flag} {entry}: write NAME=NUMBER, a decimal number of at most {LARGEST_WEIGHT} with at most "
                f"{MOST_DECIMALS} places."
            )
        pairs.append((compose_name(name.strip()), format(number, "f")))
    if len({name for name, _ in pairs}) != len(pairs):
        raise UsageError(f"{flag}: give each group once.")
    return dict(sorted(pairs))


def must_lines(given: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The file and line of each text of --must ("": it is given itself), and the text."""
    for one in given:
        where, is_file = one, one.endswith(".txt")
        try:
            lines = Path(one).read_text("utf-8-sig").removesuffix("\n").split("\n") if is_file else [one]
            for number, line in enumerate(lines, 1):
                where = f"{one} line {number}" if is_file else one
                yield where if is_file else "", read_shown(line)
        except (OSError, ValueError) as why:
            said = "it is not UTF-8" if isinstance(why, UnicodeDecodeError) else getattr(why, "strerror", why)
            missing = isinstance(why, FileNotFoundError)
            more = f" What ends in .txt is a file; the text itself is written {readable(one)}." if missing else ""
            raise UsageError(f"--must {where}: {said}. Nothing was changed.{more}") from None


# What each compatibility name changes; see docs/training.md. `alphabet` is overridden by an encoding that allows
# only one alphabet.
LIKE: dict[str, dict[str, Any]] = {  # values of any field of TrainConfig
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
# The same for counting; options that are given override it.
LIKE_COUNTING: dict[str, dict[str, Any]] = {
    "script": {"normalize": "nfc", "unencodable": "drop"},
    "picky": {"pattern": "whitespace"},
}
LIKE_OPTION = Option(
    name="like",
    flag="--like",
    help="Learn exactly like this trainer: sets the options that you do not give. script is SCRIPT-BPE: --encoding "
    "script (or bytes with ids from 1) and, for counting, --normalize nfc --unencodable drop. picky is the original "
    "PickyBPE: --encoding chars --coverage 0.9999 --tau 0.9 and, for counting, --pattern whitespace. See `streambpe "
    "docs training`.",
    panel="Most used",
    choices=tuple(LIKE),
    default="hf",
)
UNK = "<unk>"  # the special token of --encoding chars for characters outside the alphabet; <UNK> is taken too
STAGE2_PATTERN = "superbpe2"
STAGED = ("superbpe", "uw")  # superwords that begin at --transition
UW_PATTERN = "superbpe1"  # of words, for uw: what its paper takes with STAGE2_PATTERN
BALANCE_FIELDS = ("balance_ratios", "balance_from", "balance_window", "balance_alpha", "balanced_on")
_TOLD_IF_SET = (
    "coverage", "tau", "must", "token_order", "specials_first", "extends", "extends_pattern", "weights", "alpha",
    "balance",
    *BALANCE_FIELDS,
)  # fmt: skip
# By an option and its values (none: any that says something): the options that change nothing without one of these.
_BELONGING: dict[tuple[str, tuple[str, ...]], tuple[str, ...]] = {
    ("batch", ("paper",)): ("cap_divisor", "max_batch"),
    ("tau", ()): ("delete_to", "delete_test", "token_order"),
    ("specials", ()): ("specials_first",),
    ("encoding", ("chars",)): ("coverage",),
    ("superwords", ()): ("max_superword_words", "forbid"),
    ("superwords", STAGED): ("transition",),
    ("superwords", ("boundless", "superbpe")): ("superword_pattern",),
    ("superwords", ("uw",)): ("stage2_pattern",),
    ("balance", ()): BALANCE_FIELDS,
    ("balance_window", ()): ("balance_alpha",),
}


# Options that are decimal numbers: the smallest, the largest, how many places it may have (of a share, numerator and
# denominator fit 64 bits), an example.
_DECIMALS = {
    "coverage": ("above 0", 1, 18, "0.9999"),
    "tau": ("above 0", 1, 18, "0.9"),
    "alpha": ("of at least 0", 1, MOST_DECIMALS, "0.3"),
    "balance_alpha": ("above 0", LARGEST_WEIGHT, MOST_DECIMALS, "1.5"),
}
_BATCHED = "BatchBPE makes many merges in a round, which has no order within it"
# Options that cannot be combined, and why. NAME VALUE is an option with that value, NAME one with any but its default.
_CONFLICTS = (
    ("tau", "batch paper", f"a token is deleted after a single merge, and {_BATCHED}"),
    ("batch paper", "ties bytes", "BatchBPE orders the pairs of a round by ids"),
    ("whole_characters", "encoding chars", "every symbol is a character"),
    ("extends", "tau", "a deleted token loses its id, but all ids of the extended model have to stay"),
    ("extends", "batch paper", "the batches of BatchBPE depend on where learning begins"),
    ("extends", "superwords", "whole chunks are chosen in competition with merges of words, but these come from "
                              "another text; --superwords uw can extend a model"),
    ("superwords", "encoding", "superwords are learned over bytes only"),
    ("superwords", "weights", "superwords are chosen by how often chunks are neighbours in documents, and documents "
                              "have no weights"),
    ("superwords", "alpha", "superwords are chosen by how often chunks are neighbours in documents, and documents "
                            "have no weights"),
    ("superwords", "batch paper", f"superwords are placed among merges by their counts, but {_BATCHED}"),
    ("superwords uw", "stop_list", "stop words are whole chunks of --pattern, and uw models encode chunks of "
                                   "--stage2-pattern"),
    ("superwords uw", "tau", "its second stage makes the merges of the first one again, and has no deletions"),
    ("must", "tau", "a deletion could take a must-have apart, or what it is made of"),
    ("must", "superwords", "must-haves come behind all other tokens of words, and superwords are placed among these"),
    ("must", "batch paper", f"ids are kept for what must-haves lack after each merge, but {_BATCHED}"),
    ("must", "balance", "each merge is chosen by a group and has its count, and must-haves are chosen by none"),
    ("balance", "extends", "the existing merges were not chosen by groups"),
    ("balance", "weights", "each group chooses by its own counts, which weights would not change"),
    ("balance", "alpha", "each group chooses by its own counts, which weights would not change"),
    ("alpha", "weights", "it makes the weights of all groups itself"),
    ("balance", "superwords", "superwords are counted in documents, which have no groups"),
    ("balance", "tau", "a token is deleted by the counts of all groups together"),
    ("balance", "batch paper", f"a group is chosen for a single merge, and {_BATCHED}"),
    ("balance", "stop_list", "stop words are the most frequent chunks of all groups together"),
    ("balance", "freq_cutoff", "it cuts by the counts of all groups together"),
    ("balance", "block_tokens", "a veto is reported with the count of all groups together"),
    ("balance", "whole_characters", "its rule does not work by groups"),
    ("balance", "encoding", "groups are compared by bytes per token"),
    ("balanced_on", "alphabet seen", "uncounted text may have bytes that are not symbols"),
)  # fmt: skip


_most_used, _vocabulary, _compatibility, _deletions, _superwords = (
    functools.partial(option, panel=panel)
    for panel in ("Most used", "Vocabulary", "Compatibility", "Deletions", "Superwords")
)


@dataclass(frozen=True)
class TrainConfig:
    """How a vocabulary is learned from counts. Every field can change the events."""

    vocab_size: int = _most_used(
        32_000,
        "The number of ids: base symbols, stop words, learned tokens, special and reserved ids. 32k is 32 000, and "
        "32Ki is 32 768.",
        short="-s",
        least=1,
        most=MOST_IDS,
    )
    encoding: Literal["bytes", "chars", "script"] = _vocabulary(
        "bytes",
        "Base symbols: the bytes of UTF-8, the characters that occur, or SCRIPT's block and index of each character.",
    )
    coverage: DecimalText | None = _vocabulary(
        None,
        "With chars: the rarest characters, beyond this share of the text, become the special token <unk>.",
        metavar="SHARE",
        told_default="1",
    )
    whole_characters: bool = _vocabulary(
        False, "Merge a part of a character only with the rest of that character.", off="--no-whole-characters"
    )
    alphabet: Literal["gpt2", "bytes", "bytes1", "utf8", "seen", "chars", "script"] = _compatibility(
        "gpt2",
        "Ids of the bytes: 256 in GPT-2's order, 256 in byte order (from 0, or with bytes1 from 1), the 243 of UTF-8, "
        "or the bytes that occur.",
        untold=("chars", "script"),
    )
    ties: Literal["ids", "bytes"] = _compatibility(
        "ids", "Ties between pairs: the lowest ids first, or the lowest bytes."
    )
    overlaps: Literal["all", "disjoint"] = _compatibility("all", "Count (a, a) in aaa twice, or once.")
    batch: Literal["exact", "1", "paper"] = _compatibility(
        "exact",
        "exact: many merges in a pass, with the result of one at a time. 1: one at a time. paper: by BatchBPE's rule.",
    )
    cap_divisor: int = _compatibility(2, "paper: a pass makes at most 1/N of the merges left.", least=1)
    max_batch: int | None = _compatibility(None, "paper: at most N merges in one pass.", least=1)
    min_frequency: int = _most_used(1, "Stop when the best pair is rarer than this.", least=0)
    max_token_length: int | None = _vocabulary(None, "No token of more than N base symbols.", least=1)
    stop_list: int = _vocabulary(
        0, "At most N of the most frequent chunks get ids of their own. They never merge.", least=0, most=MOST_IDS
    )
    freq_cutoff: int = _vocabulary(1, "Ignore chunks rarer than N.", least=0)
    specials: tuple[str, ...] = _most_used(
        (), "A special token. May be given again.", flag="--special", metavar="TOKEN"
    )
    reserve: int = _vocabulary(0, "Keep this many ids free at the end.", least=0, most=MOST_EMPTY_IDS)
    count_specials: bool = _compatibility(
        True, "Whether --vocab-size includes special and reserved ids. It does by default.", off="--no-count-specials"
    )
    block_tokens: tuple[str, ...] = _vocabulary(
        (), "Never learn this token. May be given again.", flag="--block-token", metavar="TEXT"
    )
    must: tuple[str, ...] = _vocabulary(
        (),
        "Make this chunk or each line of FILE.txt a token, however rare. Written as shown: \\n, ␠ or a space, "
        "<U+00AD>. May be given again.",
        metavar="TEXT|FILE.txt",
    )
    weights: dict[str, DecimalText] = _vocabulary(
        dict,
        "Multiply the counts of a source group; the others have the weight 1. May be given again.",
        flag="--weight",
        metavar="GROUP=NUMBER",
    )
    alpha: DecimalText | None = _vocabulary(
        None,
        "Raise each source group's share of the text to this power: with 0 all groups count alike, and 1 changes "
        "nothing.",
        metavar="NUMBER",
        told_default="1",
    )
    balance: bool = _vocabulary(
        False,
        "Parity-aware BPE: at each step, take the most frequent pair of the source group that is compressed worst. "
        "Compression is bytes per token, which misjudges scripts with more bytes per letter: see --balance-text.",
        off="--no-balance",
    )
    balance_ratios: dict[str, DecimalText] = _vocabulary(
        dict,
        "Divide a group's bytes per token by this. A larger one gives it more merges. May be given again.",
        flag="--balance-ratio",
        metavar="GROUP=NUMBER",
    )
    balance_from: int = _vocabulary(0, "Balance only after the first N tokens.", least=0)
    balance_window: int | None = _vocabulary(
        None, "Skip a group that chose more than --balance-alpha times its share of the last N merges.", least=1
    )
    balance_alpha: DecimalText | None = _vocabulary(None, "See --balance-window.", metavar="NUMBER", told_default="2")
    tau: DecimalText | None = _deletions(
        None,
        "Delete a token when a merge takes at least this share of its occurrences, such as 0.9 (PickyBPE).",
        metavar="T",
        told_default="never",
    )
    delete_to: Literal["bytes", "walk"] = _deletions(
        "bytes", "A deleted token is split into base symbols, or the living tokens it was made of."
    )
    delete_test: Literal["before", "after"] = _deletions(  # train/engine/deletion.py
        "before",
        "before: merged / count before the merge >= T. after (the original PickyBPE): merged / (count after + merged) "
        "> T.",
    )
    superwords: Literal["none", "boundless", "superbpe", "uw"] = _most_used(
        "none",
        "Merge across chunks: in competition with ordinary merges (boundless: BoundlessBPE), or after them, over whole "
        "chunks (superbpe) or over all neighbours within a chunk of --stage2-pattern (uw).",
    )
    transition: int | None = _superwords(  # living tokens at the end of phase one
        None,
        "With superbpe or uw: the number of tokens, without special ones, at which superwords begin.",
        least=1,
        told_default="three quarters of them",
    )
    superword_pattern: str = _superwords(
        "improved",
        "Which chunks may join: improved (letters, space, _ ' \u2019, with a letter after the first character), simple "
        "(those with a letter), paper (ASCII letters, space, _ '), or those that match an expression.",
        metavar="NAME|REGEX",
    )
    stage2_pattern: str = _superwords(
        STAGE2_PATTERN,
        "With uw: the pattern that splits text after --transition and in encoding.",
        metavar="NAME|REGEX",
    )
    max_superword_words: int | None = _superwords(None, "No superword of more than N chunks.", least=2)
    forbid: str | None = _superwords(None, "No superword whose text matches this.", metavar="REGEX")
    token_order: Literal["latest-birth", "first-birth"] = _deletions(
        "latest-birth", "The id of a token that was deleted and learned again: by its last birth, or by its first."
    )
    specials_first: bool = _compatibility(
        False, "Put ids of special tokens before all others, or after them.", off="--specials-last"
    )
    extends: str | None = None  # sha256 of the event log that --extend took over (train/extension.py)
    extends_pattern: str | None = None  # of that model, where --superwords uw goes on under another
    # By group, the sha256 of the counts of what --balance-text gave (train/balance_texts.py).
    balanced_on: dict[str, str] = field(default_factory=dict)

    @classmethod
    def from_options(cls, like: str = "hf", before: Mapping[str, Any] | None = None, **given: Any) -> TrainConfig:
        """`like` sets options, those a training was started with (`before`) override them, and those given (not None)
        override both; an error names the option that is wrong."""
        if like not in LIKE:
            raise UsageError(f"--like {like}: one of {', '.join(LIKE)}.")
        given = {key: value for key, value in given.items() if value not in (None, ())}
        chosen = {**LIKE[like], **(before or {}), **given}
        for name in ("specials", "block_tokens"):
            chosen[name] = tuple(chosen.get(name, ()))
        chosen["must"] = tuple(dict.fromkeys(text for _, text in must_lines(chosen.get("must", ()))))
        encoding = chosen.get("encoding", "bytes")
        if encoding != "bytes":
            chosen["alphabet"] = given.get("alphabet", encoding)
        if encoding == "chars" and not any(text.lower() == UNK for text in chosen["specials"]):
            chosen["specials"] = (*chosen["specials"], UNK)
        for name in _DECIMALS.keys() & chosen.keys():
            chosen[name] = decimal_text(_flag(name), chosen[name], *_DECIMALS[name])
        if chosen.get("coverage") == "1":
            chosen["coverage"] = None  # no character is unknown
        chosen["weights"] = parse_weights(chosen.get("weights", ()))
        chosen["balance_ratios"] = parse_weights(chosen.get("balance_ratios", ()), "--balance-ratio")
        config = cls(**chosen)
        if config.superwords in STAGED and config.transition is None:
            # three quarters of the tokens, which docs/superwords.md has measured; never less than the bytes
            config = replace(config, transition=max(3 * config._room // 4, min(config._room, 256), 1))
        config = replace(config, **{name: _DEFAULTS[name] for name in config.idle if name not in given})
        config.check()
        return config

    @classmethod
    def of_facts(cls, facts: Mapping[str, Any], specials: Sequence[str], reserve: int) -> TrainConfig:
        """What `as_facts` gave, and other facts beside, as an object again."""
        ours = {name: value for name, value in facts.items() if name in _DEFAULTS}
        ours |= {name: tuple(ours.get(name, ())) for name in ("block_tokens", "must")}
        return cls(**ours, specials=tuple(specials), reserve=reserve)

    @property
    def _room(self) -> int:
        """How many ids are no special or reserved ones."""
        return self.vocab_size - (self.extra_ids if self.count_specials else 0)

    @property
    def by_groups(self) -> str:
        """The option, if one is given, that needs the counts of source groups."""
        return "--weight" if self.weights else "--alpha" if self.alpha else "--balance" if self.balance else ""

    @property
    def idle(self) -> dict[str, str]:
        """By the names of their fields: the options that change nothing here, and what each belongs to."""
        found: dict[str, str] = {}
        for (name, values), fields_of_it in _BELONGING.items():
            value = getattr(self, name)
            if value not in values if values else value in (None, False, (), "none"):
                found |= dict.fromkeys(fields_of_it, f"{_OPTIONS[name].flag} {' or '.join(values)}".rstrip())
        return found

    def check(self) -> None:
        """Refuse options that cannot work, or change nothing, before anything is read."""
        self._check_values()
        for name, owner in self.idle.items():
            if getattr(self, name) != _DEFAULTS[name]:
                raise UsageError(f"{_flag(name)} belongs to {owner}. Nothing was changed. Leave it out.")
        for one, other, why in _CONFLICTS:
            if (first := self._stated(one)) and (second := self._stated(other)):
                raise UsageError(f"{first} with {second}: {why}. Leave one of the two out.")
        least = {"gpt2": 256, "bytes": 256, "bytes1": 256, "utf8": 243, "script": 1916}.get(self.alphabet, 0)
        least += self.extra_ids if self.count_specials else 0
        if self.vocab_size < least:
            raise UsageError(
                f"--vocab-size {self.vocab_size} is less than the {least} ids that exist before anything is learned: "
                "base symbols, special and reserved ids."
            )
        if zero := [name for name, ratio in self.balance_ratios.items() if not Decimal(ratio)]:
            raise UsageError(f"--balance-ratio {zero[0]}=0: a group's ratio must be above 0.")
        if "" in self.specials:
            raise UsageError("--special '': a special token needs at least one character.")
        if twice := [text for text in self.specials if self.specials.count(text) > 1]:
            raise UsageError(f"--special {twice[0]}: it is given twice. Give each special token once.")
        self._check_superwords()

    def _stated(self, option: str) -> str:
        """One of _CONFLICTS as it is typed, if it is said here; else nothing."""
        name, _, wanted = option.partition(" ")
        value = getattr(self, name)
        if not value or value == _DEFAULTS[name] or wanted not in ("", value):
            return ""
        return f"{_flag(name)} {value}" if name in _OPTIONS and _OPTIONS[name].choices else _flag(name)

    def _check_values(self) -> None:
        refuse_values(TrainConfig, vars(self))
        if self.alphabet != self.encoding and {self.alphabet, self.encoding} & {"chars", "script"}:
            symbols = {"script": "its table", "chars": "the text", "bytes": "UTF-8"}[self.encoding]
            raise UsageError(
                f"--alphabet {self.alphabet}: the base symbols of --encoding {self.encoding} are those of {symbols}. "
                f"Leave --alphabet out."
            )

    def _check_superwords(self) -> None:
        if self.superwords == "none":
            return
        if self.transition is not None and self.transition > self._room:
            raise UsageError(
                f"--transition {self.transition} is more than the {self._room} tokens of --vocab-size "
                f"{self.vocab_size} (special and reserved ids not counted)."
            )
        from streambpe.text.eligible import text_test  # not above: they load `regex`, and --help reads this module
        from streambpe.text.patterns import find_pattern

        if self.superwords == "uw":
            find_pattern(self.stage2_pattern, gaps="keep")
        text_test(self.superword_pattern, "--superword-pattern")
        if self.forbid is not None:
            text_test(self.forbid, "--forbid")

    @property
    def unk(self) -> str | None:
        """The special token for characters outside the alphabet; None if the training has none."""
        return next((text for text in self.specials if text.lower() == UNK), None) if self.encoding == "chars" else None

    @property
    def extra_ids(self) -> int:
        """How many special and reserved ids there are."""
        return len(self.specials) + self.reserve

    def as_facts(self) -> dict[str, Any]:
        """For the event log's header: batch exact and batch 1 are one rule, and options without effect are left out."""
        untold = {"specials", "reserve", *self.idle}  # the first two are fields of their own in the header
        untold |= {name for name in _TOLD_IF_SET if getattr(self, name) == _DEFAULTS[name]}
        if self.superwords == "none":
            untold.add("superwords")
        elif self.superwords == "boundless":
            untold.remove("transition")  # told as null
        facts = {name: value for name, value in asdict(self).items() if name not in untold}
        facts["batch"] = "paper" if self.batch == "paper" else "exact"
        facts["block_tokens"] = sorted(self.block_tokens)
        if self.must:
            facts["must"] = list(self.must)
        return facts

    def as_options(self) -> dict[str, Any]:
        """All options that have an effect: `from_options` makes the same object of them, even if defaults change."""
        effective = {*self.as_facts(), "specials", "reserve", "token_order", "specials_first"} - self.idle.keys()
        options = {name: getattr(self, name) for name in _OPTIONS if name in effective}
        for name, held in (("weights", self.weights), ("balance_ratios", self.balance_ratios)):
            options[name] = [f"{group}={number}" for group, number in held.items()]
        options |= {name: getattr(self, name) for name in ("extends", "extends_pattern", "balanced_on")}
        options["must"] = list(map(readable, self.must))
        if self.encoding == "chars":
            options["coverage"] = self.coverage or "1"
        if self.encoding != "bytes":
            del options["alphabet"]
        return {name: value for name, value in options.items() if value not in (None, (), [], {})}


def _flag(name: str) -> str:
    """The option that sets a field."""
    flags = {"extends": "--extend", "balanced_on": "--balance-text"}
    return flags[name] if name in flags else _OPTIONS[name].flag


_OPTIONS = options_of(TrainConfig)
_DEFAULTS = vars(TrainConfig())
