"""How good a vocabulary is on a text: the measures of the papers, from a histogram of ids. No I/O.

    uses = Uses(n=[3, 0, 1], ...)           how often each id occurs, and what the text is
    measure(uses, 3)  ->  {"tokens": 4, "bytes_per_token": 2.5, "renyi": 0.73, ...}

Every measure has one row in MEASURES; docs/evaluate.md explains them at length.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import msgspec
import numpy as np

from streambpe.arrays import Bool, Int64
from streambpe.model.pruned import is_residue

ALPHA = 2.5  # of the Rényi entropy: Zouhar et al. (2023) found that it predicts quality best

# name -> (heading in the table, what it is)
MEASURES = {
    "documents": ("documents", "texts"),
    "bytes": ("bytes", "UTF-8 bytes of text"),
    "words": ("words", "stretches without white space"),
    "tokens": ("tokens", "ids the text becomes"),
    "bytes_per_token": ("bytes/token", "compression: more is shorter"),
    "tokens_per_word": ("tokens/word", "fertility: fewer is shorter"),
    "single_token_chunks": ("single", "share of chunks that are one token (before superwords)"),
    "vocab_size": ("ids", "of the model"),
    "vocab_used": ("used", "different ids that occur"),
    "vocab_used_share": ("used/ids", "of the model's ids"),
    "renyi": ("renyi", "Rényi efficiency, alpha 2.5, over the ids that occur (as tokenization-scorer has it)"),
    "renyi_vocab": ("renyi/ids", "the same over all ids of the model"),
    "partial_tokens": ("partial", "different tokens that hold a part of a character"),
    "partial_share": ("partial/n", "share of all tokens that do"),
    "parity": ("parity", "tokens beside those of the first source (for texts that say the same)"),
    "gini": ("gini", "of the tokens for each byte, over the sources or groups: 0 if all are the same"),
    "gini_tokens": ("gini/n", "of the tokens (for texts that say the same)"),
    "fewest_tokens": ("fewest", "the fewest tokens that could spell each chunk"),
    "over_fewest": ("over", "how many more tokens there are, as a share of these"),
    "residues": ("residues", "ids that are used in less than a share of the places where they are made"),
}
APART = ("parity", "gini", "gini_tokens")  # of several sources or groups
ASKED = ("fewest_tokens", "over_fewest", "residues")  # where they are asked for
Text = bytes  # by another name in a class that has a field `bytes`
_SLICE = 1 << 20  # characters whose words are counted together


class Uses(msgspec.Struct):
    """What a text is, and how often each model id occurs in it. Adds up: `total += part`."""

    n: Int64 = msgspec.field(default_factory=lambda: np.zeros(1, np.int64))  # by model id; nothing yet: one for all
    documents: int = 0
    bytes: int = 0
    characters: int = 0
    words: int = 0
    chunks: int = 0
    single_chunks: int = 0  # those of the chunks that are one token before superwords
    fewest: int = 0  # where it is asked for, the fewest tokens there could be
    made: Int64 = msgspec.field(default_factory=lambda: np.zeros(1, np.int64))  # by model id: where merges make it
    in_word: bool = False  # the last character of the text that was added belongs to a word

    @property
    def bytes_per_token(self) -> float | None:
        """None where there is no token."""
        return _share(self.bytes, int(self.n.sum()))

    def add_text(self, text: Text) -> None:
        """Count the documents, bytes and words of one counting buffer. Words are stretches without white space, as
        `str.split` sees them, across the borders of blocks; the mark between documents ends one as a space does."""
        ends = text.count(b"\xff")
        self.documents += ends
        self.bytes += len(text) - ends
        characters = text.replace(b"\xff", b"\n").decode()
        self.characters += len(characters) - ends
        for start in range(0, len(characters), _SLICE):
            part = characters[start : start + _SLICE]
            self.words += len(part.split()) - (self.in_word and not part[0].isspace())
            self.in_word = not part[-1].isspace()

    def __iadd__(self, other: Uses) -> Uses:
        self.n, self.made = self.n + other.n, self.made + other.made
        for name in ("documents", "bytes", "characters", "words", "chunks", "single_chunks", "fewest"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        return self


def renyi_efficiency(n: Sequence[int] | Int64, size: int) -> float | None:
    """The Rényi entropy of a distribution given as counts, divided by the most that `size` ids could have; None if that
    is nothing, or without counts."""
    counts = np.asarray(n, np.float64)
    if size < 2 or not np.any(counts):
        return None
    counts = np.sort(counts[counts > 0])  # ids are in another order elsewhere, and so would the sum be
    share = counts / counts.sum()
    return float(np.log2((share**ALPHA).sum())) / (1 - ALPHA) / math.log2(size)


def gini(values: Sequence[float]) -> float | None:
    """The Gini coefficient: 0 if all are alike, towards 1 if one has everything; None of fewer than two."""
    ordered = sorted(values)
    n, total = len(ordered), sum(ordered)
    if n < 2 or not total:
        return None
    return sum((2 * i - n + 1) * value for i, value in enumerate(ordered)) / (n * total)


def _share(part: float, whole: float) -> float | None:
    return float(part) / float(whole) if whole else None


def measure(
    uses: Uses, size: int, partial: Bool | None = None, fewest: bool = False, residues: Fraction | None = None
) -> dict[str, float | None]:
    """All of MEASURES but those that need a second text, ASKED if they are asked for. A measure is None where a text
    is too small for it. `size`: how many ids the model has; `partial`: which of them hold a part of a character, for
    the measures of these."""
    used = uses.n > 0
    total, kinds = int(uses.n.sum()), int(used.sum())
    asked: dict[str, float | None] = {}
    if fewest:
        asked |= {"fewest_tokens": uses.fewest, "over_fewest": total / uses.fewest - 1 if uses.fewest else None}
    if residues is not None:
        pairs = zip(uses.n.tolist(), uses.made.tolist(), strict=False)  # without text there is one of them
        asked["residues"] = sum(is_residue(n, made, residues) for n, made in pairs)
    if partial is not None:
        asked |= {"partial_tokens": int((used & partial).sum()),
                  "partial_share": _share(int(uses.n[partial].sum()), total)}  # fmt: skip
    return asked | {
        "documents": uses.documents,
        "bytes": uses.bytes,
        "words": uses.words,
        "tokens": total,
        "bytes_per_token": uses.bytes_per_token,
        "tokens_per_word": _share(total, uses.words),
        "single_token_chunks": _share(uses.single_chunks, uses.chunks),
        "vocab_size": size,
        "vocab_used": kinds,
        "vocab_used_share": _share(kinds, size),
        "renyi": renyi_efficiency(uses.n, kinds),
        "renyi_vocab": renyi_efficiency(uses.n, size),
    }
