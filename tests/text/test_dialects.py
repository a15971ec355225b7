"""Expressions of other programs, read and written, judged by those programs: `tokenizers` and `tiktoken`.

Each one drawn is refused or finds the same. Texts leave out what one of the programs has from an older Unicode.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
import regex
import tiktoken
from tokenizers import Regex, pre_tokenizers

from streambpe.text.dialects import PROPERTIES, Dialect, Unsayable, read, translated
from streambpe.text.patterns import PRESETS
from tests.tiers import long

TEXTS = [
    "aA bB\r\n\ncd 12345 x\n",
    "\n",
    "It's IT'S ſſ ß SS ẞ ﬆst K k\u212a i\u0130ıI don'T",
    "一二a三\u3000。b 12\u0663\u00b2Ⅷ½",
    "e\u0301\u0345 \u0301x\u200d_\u200c-\u00ad",
    "\x1c\x1da\x1e \x1f\x85b\u2028\u2029c\xa0\t\x0b\x0c",
    "👩\u200d👧 😀🇩🇪 [a]&&b^-~|{}()\\/.,+*?$#",
    "ababab aab  a\n b\n\n",
    "abc123一ｱ가नि \r\r\n'll'LL",
]
ALL_STRETCHES = {
    content: number
    for number, content in enumerate(
        dict.fromkeys(
            [bytes([byte]) for byte in range(256)]
            + [text[a:b].encode() for text in TEXTS for a in range(len(text)) for b in range(a + 1, len(text) + 1)]
        )
    )
}


def by_regex(expression: str) -> list[list[str]]:
    """What is found in the texts."""
    compiled = regex.compile(expression)
    return [[found[0] for found in compiled.finditer(text) if found[0]] for text in TEXTS]


def by_oniguruma(expression: str) -> list[list[str]]:
    """Likewise, in Hugging Face's library."""
    split = pre_tokenizers.Split(Regex(expression), "removed", invert=True)
    return [[piece for piece, _ in split.pre_tokenize_str(text)] for text in TEXTS]


def by_rust(expression: str) -> list[list[str]]:
    """Likewise, in tiktoken, where every stretch of a text is a token."""
    made = tiktoken.Encoding("test", pat_str=expression, mergeable_ranks=ALL_STRETCHES, special_tokens={})
    return [[piece.decode() for piece in made.decode_tokens_bytes(made.encode_ordinary(text))] for text in TEXTS]


FINDS = {"regex": by_regex, "oniguruma": by_oniguruma, "rust": by_rust}
WAYS = [("oniguruma", "regex"), ("rust", "regex"), ("regex", "oniguruma"), ("regex", "rust")]

_ESCAPES = [
    r"\s", r"\S", r"\d", r"\D", r"\w", r"\W", r"\v", r"\n", r"\r", r"\t", r"\-", r"\/", r"\.", r"\[", r"\]", r"\x41",
    r"\xe9", r"\x{4e00}", r"\u4e00", r"\U0001F600", "\\ ", r"\p{L}", r"\p{Lu}", r"\P{L}", r"\p{Han}", r"\p{N}",
    r"\p{M}", r"\p{Alphabetic}", r"\p{P}",
]  # fmt: skip
_PLACES = ["^", "$", "$", r"\A", r"\Z", r"\z"]
_LETTERS = [*"aabskiIſßfltAB 1", "一", "-", "'", "]", "}", "&", "é", "\n", "😀", "~", "#"]
_REPEATS = [*"*+?*+?", "{2}", "{1,3}", "{1,3}", "{2,}"]
_ODD = [
    r"\h", r"\pL", r"\p{^L}", r"\p{Foo}", r"\b", r"\B", r"\G", r"\X", r"\R", r"\K", r"\e", r"\0", "a{0}", "a{,2}",
    "a{3,1}", "a+*", "a{2}{3}", "(?P<n>a)", r"(a)\1", "(?#a)", "(?-i:a)", "(?m:^.)", "[[:alpha:]]", "{", "a{x}",
    "[a--b]", "[~~a]",
]  # fmt: skip


def drawn(rng: random.Random, depth: int = 3) -> str:
    """An expression of the grammar that the three share, and of what they do not."""

    def several(make: Callable[[], str], most: int, by: str = "") -> str:
        return by.join(make() for _ in range(rng.randint(1, most)))

    def in_class() -> str:
        kind = rng.random()
        if kind < 0.45:
            return rng.choice([*_LETTERS, "^", "(", "|", ".", "a-c", "a-z", "0-9", "A-K", "一-三", "[", "--"])
        if kind < 0.85:
            return rng.choice(_ESCAPES)
        return bracket() if kind < 0.97 else rng.choice(["&&", "-"])

    def bracket() -> str:
        joint = "&&" if rng.random() < 0.2 else ""
        return f"[{rng.choice(['', '', '^'])}{several(lambda: several(in_class, 3), 2, joint)}]"

    def atom() -> str:
        kind = rng.random()
        if kind < 0.01:
            return rng.choice(_ODD)
        if kind < 0.3:
            return rng.choice(_LETTERS)
        if kind < 0.5:
            return rng.choice([*_ESCAPES, "."])
        if kind < 0.68:
            return bracket()
        if kind < 0.75:
            return rng.choice(_PLACES)
        if depth <= 0:
            return "a"
        opened = rng.choice(["(?:", "(", "(?i:", "(?i:", "(?>", "(?=", "(?!", "(?<=", "(?<!", "(?s:", "(?m:"])
        return f"{opened}{drawn(rng, depth - 1)})"

    def repeated() -> str:
        times = rng.choice(_REPEATS) + rng.choice(["", "", "+", "?"]) if rng.random() < 0.4 else ""
        return atom() + times

    head = rng.choice(["(?i)", "(?s)", "(?m)"]) if depth == 3 and rng.random() < 0.06 else ""
    return head + several(lambda: several(repeated, 3), 3, "|")


@pytest.mark.every(2)
@pytest.mark.parametrize(("count", "seed"), [(400, 0), long(1500, 1)])
@pytest.mark.parametrize(("source", "target"), WAYS)
def test_an_expression_is_refused_or_finds_the_same_elsewhere(source, target, count, seed):
    """Expressions of a tokenizer.json were read as Python's, and own ones written unchanged: chunks were others."""
    rng = random.Random(f"{source} {target} {seed}")
    done = changed = 0
    for _ in range(count):
        expression = drawn(rng)
        try:
            made = translated(expression, source, target)
        except Unsayable:
            continue
        try:
            there = FINDS[source](expression)
        except Exception:  # the program that it was drawn for does not take it
            continue
        here = FINDS[target](made)
        if source == "regex" and "(?i:" in expression:  # `regex` takes U+0345 for a letter then
            here, there = (
                [found for found, text in zip(all_found, TEXTS, strict=True) if "\u0345" not in text]
                for all_found in (here, there)
            )
        assert here == there, (source, expression, target, made)
        done += 1
        changed += made != expression
    assert done > count / 10
    assert changed > count / 80


def test_a_range_that_begins_with_syntax_stays_a_range():
    """It was written as three characters in a row."""
    made = translated(r"[\.-Z&&0-z]", "rust", "regex")
    assert FINDS["regex"](made) == FINDS["rust"](r"[\.-Z&&0-z]")
    assert regex.fullmatch(made, "A")


@pytest.mark.parametrize("target", ["oniguruma", "rust"])
def test_a_preset_that_was_written_means_the_preset(target):
    """So that what was exported is the preset again when it is imported."""
    for preset in PRESETS.values():
        if preset.expression and not preset.by_rules:
            made = translated(preset.expression, "rust", target)
            assert read(made, target) == read(preset.expression, "rust")


@pytest.mark.parametrize("other", ["oniguruma", "rust"])
def test_classes_by_name_hold_the_same_characters(other):
    """Every property that is read, and the class of words; of characters that all programs know."""
    points = [*range(0x3400), *range(0x3400, 0xD800, 61), *range(0xFA00, 0x10000, 3), *range(0x10000, 0x20000, 31)]
    text = "".join(map(chr, points))
    newer = {chr(0x295), *regex.findall(r"\p{Cn}", text), *members(other, r"\p{Cn}", text)}
    for name in [*(rf"\p{{{name}}}" for name in PROPERTIES.split("|")), r"\w", r"[\W]", r"\s", r"[^\d]"]:
        if name in (r"\p{Extended_Pictographic}", r"\p{Cn}", r"\p{C}"):
            continue  # newer versions of Unicode took characters out
        there, here = members(other, name, text), set(regex.findall(translated(name, other, "regex"), text))
        assert there ^ here <= newer, (name, sorted(map(ascii, (there ^ here) - newer))[:9])


def members(other: Dialect, name: str, text: str) -> set[str]:
    """The characters of a class in another program."""
    if other == "oniguruma":
        split = pre_tokenizers.Split(Regex(f"{name}+"), "removed", invert=True)
        return {character for piece, _ in split.pre_tokenize_str(text) for character in piece}
    ranks = {bytes([byte]): byte for byte in range(256)}
    made = tiktoken.Encoding("test", pat_str=f"{name}+", mergeable_ranks=ranks, special_tokens={})
    return set(made.decode(made.encode_ordinary(text)))
