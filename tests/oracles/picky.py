"""PickyBPE as published: words of characters with a word-start mark.

    "the cat the"  ->  "▁the" 2, "▁cat" 1        U+2581 marks where a word starts
    coverage 0.9999 leaves out the rarest characters, together at most 0.01 % of the text;
    they become UNKNOWN, which never merges

Training is `train_words` with ties "bytes", overlaps "all" and
`Deletions.at(tau, delete_to="walk", picky=True)`; four special tokens count in its size.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import accumulate

from streambpe.model.alphabet import Alphabet, chars_alphabet

WORD_START = "\u2581"
SPECIALS = ("<PAD>", "<UNK>", "<BOS>", "<EOS>")


def marked_words(lines: Iterable[str]) -> Counter[bytes]:
    """Words of all lines, split at whitespace and marked, in first-seen order."""
    counts: Counter[bytes] = Counter()
    for line in lines:
        counts.update((WORD_START + word).encode() for word in line.split())
    return counts


def covering_alphabet(words: Mapping[bytes, int], coverage: float) -> Alphabet:
    """The characters of the words, in first-seen order, without the rarest beyond `coverage`.

    Of N characters, N - round(coverage * N) may go unlisted. Kinds leave from the rarest up, one for
    each running total strictly below that number; if the rarest alone reaches it, none leaves.
    """
    frequency: Counter[str] = Counter()
    for word, n in words.items():
        for character in word.decode():
            frequency[character] += n
    total = sum(frequency.values())
    spare = total - round(coverage * total)
    by_count = sorted(frequency, key=lambda character: -frequency[character])
    from_rarest = accumulate(frequency[character] for character in reversed(by_count))
    leaving = sum(running < spare for running in from_rarest)
    kept = set(by_count[: len(by_count) - leaving])
    return chars_alphabet((character for character in frequency if character in kept), in_given_order=True)
