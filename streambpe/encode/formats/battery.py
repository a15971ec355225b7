"""The texts that `export` compares on: some 6 000 that tell tokenizers apart, and some made for one model.

    all characters where scripts and emoji lie dense, some elsewhere, each beside a letter, a digit, a space ...
    all pairs of _SIGNS, which stand for what patterns tell apart; runs of each; 1 500 texts of them at random

They are the same with every version of Python and `regex`: tests/encode/test_compared.py has their digest.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import chain, cycle

from streambpe.encode.encoder import Encoder

_SIGNS = (
    *"aBz15 \t\n\r\v\f.,;:!?'\"`’_-+=/\\|#*&@$%^~()[]{}<>\0\x1b\x1c\x1f\x7f\x85\xa0\xad\xb2½éßſKİıǅʰΣςЖא٣नि日本か가ᄀไ",
    *"Ⅷ\u0301\u0345\u0378\u0903\u200b\u200c\u200d\u200e\u2003\u2028\u2029\u20dd\u2060\u3000\ufe0f\ufeff\uff01\ufffd",
    *("'s", "'LL", "'ſ", "'re", "’ve", "\r\n", "\n\n", "  ", "the", "The", "McX", "IT", "1️⃣", "👩\u200d👧", "123", "//"),
    *"☃😀👩🏽🇩🇪𝐀𝟙\ue000\U000e0020\U0010ffff",
)
_POINTS = (  # first, behind the last, step
    *((0, 0x3400, 1), (0x3400, 0xD800, 97), (0xE000, 0xF900, 997), (0xF900, 0x10000, 1), (0x10000, 0x1D000, 11)),
    *((0x1D000, 0x1FC00, 2), (0x20000, 0x3E000, 199), (0xE0000, 0xE0200, 7), (0xF0000, 0x110000, 9973)),
)


def _drawn(count: int, signs: Sequence[str]) -> Iterator[str]:
    """Texts of up to twelve signs."""
    rng = random.Random(count)
    for _ in range(count):
        yield "".join(signs[int(rng.random() * len(signs))] for _ in range(1 + int(rng.random() * 12)))


@cache
def of_all_models() -> tuple[str, ...]:
    """Those that every model is compared on."""
    points = chain.from_iterable(range(*block) for block in _POINTS)
    swept = "".join(chr(point) + beside for point, beside in zip(points, cycle("a 1A'\n,"), strict=False))
    every = (swept[start : start + 24] for start in range(0, len(swept), 24))
    pairs = ("".join(sign + other for other in _SIGNS[part::4]) for sign in _SIGNS for part in range(4))
    runs = (start + sign * times for sign in _SIGNS for times in (2, 3, 4, 7, 16, 17, 33) for start in ("", "a"))
    long = (sign * 2000 for sign in ("a", " ", "1", ".", "\n", "😀", "日", "\u0301", "a ", " 1"))
    return ("", *every, *pairs, *runs, *long, *_drawn(1500, _SIGNS))


def battery(encoder: Encoder, specials: bool = True) -> list[str]:
    """All for one model: also its special tokens, its own tokens side by side, and what its own pattern names."""
    model, expression = encoder.model, encoder.pattern.expression
    names = [*model.special_ids][: 100 * specials]
    spelled = [made for name in names for made in (name, f"a{name}{name} b", name[:-1])]
    learned = [model.content(number).decode("utf-8", "ignore") for number in model.log_id.values()]
    some = learned[:: len(learned) // 1000 + 1]
    joined = map("".join, zip(some, cycle(("", *_SIGNS)), [*some[1:], ""], strict=False))
    found = [*_SIGNS, *expression, *re.findall(r"[^\W\d_]{2,}", expression)]
    named = sorted({case(sign) for sign in found for case in (str, str.upper, str.lower, str.casefold)})
    must = encoder.header.config.get("must", ())
    return [*of_all_models(), *spelled, *must, *joined, *_drawn(600 * (encoder.pattern.name == "regex"), named)]
