"""Texts chosen to break a splitter, and the two routes that have to agree on them."""

from __future__ import annotations

import random

from hypothesis import strategies as st

from streambpe.core.strings import as_strings
from streambpe.text.chunker import Chunker
from streambpe.text.marks import DOCUMENT_END
from streambpe.text.patterns import PRESETS, Pattern, find_pattern

SPACES = list(
    "\t\n\x0b\x0c\r \x85\xa0\u1680"
    "\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"
)
# Python's str.isspace accepts the first four, `\s` does not; the others only look like spaces.
ALMOST_SPACES = list("\x1c\x1d\x1e\x1f\u180e\u200b\u2060\ufeff")
MARKS = list("\u0301\u0308\u0345\u20dd\u093e\u0e34\u0489\ufe0f\u20e3\u302a\u3099")
APOSTROPHES = ["'", "’", "'s", "'S", "'ll", "'LL", "'lL", "'Ve", "'re", "'ſ", "’s", "'d", "'M", "'T", "''", "ʼ"]
DIGITS = list("0123456789٣४๕៥𝟙①Ⅷ½²〇")
LETTERS = [*"abstdmlrvezBSTLMÉßſıİǅʰªאبमกขकㄱ각日本のカᏍꭰ𝒳K", "the", "Of", "XMLHttp", "iPhone", "日本語"]
SYMBOLS = [*'.,:;!?-_/\\#*()[]{}<>=+@$%^&|~`"', "//", "/\n", "\r\n", "...", "__", *"“”—…€、。©"]
EMOJI = ["👩\u200d👩\u200d👧", "👍🏽", "❤️", "🇫🇷", "🇩", "#️⃣", "1⃣", "\u200d", "\u200c", "🏽", "😀"]
CONTROLS = ["\x00", "\x01", "\x08", "\x0e", "\x1b", "\x7f", "\x80", "\x9f", "\xad", "\u061c", "\u202e"]
# private use, unassigned, the last code points, and some that only the newer Unicode versions know
ODD = list("\ue000\U000f0000\u0378\U0010ffff\ufffe\ufffd\U0001faea\ua7ce\U00010940\U00016ea0")
SCRIPTS = "abc где λόγος 日本 ひら カナ ไทย ကခ កខ ກຂ 한글 हिन्दी אב عرب ー 々".split()  # noqa: SIM905

ATOMS = SPACES * 2 + [" "] * 40 + ["\n"] * 15 + ["\r\n"] * 5 + ALMOST_SPACES + MARKS + APOSTROPHES * 2
ATOMS += DIGITS + LETTERS * 2 + SYMBOLS * 2 + EMOJI + CONTROLS + ODD + SCRIPTS

# Any mixture of the above, now and then with a character from anywhere.
hostile_text = st.lists(
    st.one_of(
        st.sampled_from(ATOMS),
        st.sampled_from(ATOMS),
        st.characters(exclude_categories=("Cs",)),
        st.builds(lambda a, k: a * k, st.sampled_from(ATOMS), st.integers(2, 20)),
    ),
    max_size=30,
).map("".join)


def random_text(rng: random.Random, atoms: int) -> str:
    """Seeded hostile text: stretches that lean to some few atoms, so that their neighbourhoods repeat."""
    parts: list[str] = []
    while len(parts) < atoms:
        few = rng.sample(ATOMS, rng.randint(2, 12))
        for _ in range(rng.randint(3, 40)):
            if rng.random() < 0.02:
                code = rng.randrange(0x110000)
                parts.append(chr(code) if not 0xD800 <= code < 0xE000 else "x")
            else:
                parts.append(rng.choice(few if rng.random() < 0.8 else ATOMS))
    return "".join(parts)


def preset_patterns() -> list[tuple[str, Pattern]]:
    """Every preset, plain and script-aware, by a readable name."""
    found = [(name, find_pattern(name)) for name in PRESETS]
    splittable = [name for name, pattern in PRESETS.items() if pattern.expression and not pattern.by_rules]
    found += [(f"{name}-scripts", find_pattern(name, split_scripts=True)) for name in splittable]
    return found


def fast_documents(buffer: bytes, pattern: Pattern) -> list[list[str]]:
    """Documents of a counting buffer as chunks, by the route that counting takes; an open end is a last document."""
    *distinct, rows = Chunker(pattern).rows(buffer)
    text = as_strings(*distinct).to_list()
    documents: list[list[str]] = [[]]
    for i in rows.tolist():
        if i < 0:
            documents.append([])
        else:
            documents[-1].append(text[i])
    return documents if documents[-1] else documents[:-1]


def buffer_of(*texts: str) -> bytes:
    """A counting buffer that holds whole documents."""
    return b"".join(text.encode() + bytes([DOCUMENT_END]) for text in texts)
