"""Hostile text for the SCRIPT tests: every group of characters, and the ones rules speak of, often."""

from __future__ import annotations

import functools
import random

import numpy as np

from streambpe.text.script_blocks import character_groups

# One line of each of many scripts, with marks, digits and spaces of their own.
LINES = [
    "Hello, wörld! It's 3.14 — naïve cafés cost $5 (or 5 €).",
    "Съешь ещё этих мягких французских булок, да выпей чаю №7",
    "Η γλώσσα ἀρχαία καὶ νέα· «ναι»",
    "सभी मनुष्यों को गौरव और अधिकारों के मामले में जन्मजात स्वतन्त्रता प्राप्त है।",
    "সমস্ত মানুষ স্বাধীনভাবে সমান মর্যাদা এবং অধিকার নিয়ে জন্মগ্রহণ করে।",
    "සියලු මනුෂ්‍යයෝ",
    "يُولَد جميع الناس أحرارًا متســاوين في الكرامة ١٢٣",
    "כל בני האדם נולדו בני חורין וְשָׁוִים",
    "Բոլոր մարդիկ ծնվում են ազատ",
    "ყველა ადამიანი იბადება",
    "ሰብአዊ ፍጡራን፡ሁሉ",
    "มนุษย์ทั้งหลายเกิดมามีอิสระ ๑๒๓",
    "လူတိုင်းသည်",
    "មនុស្សទាំងអស់",
    "人人生而自由，在尊严和权利上一律平等。 東京へ行く カタカナーと ｶﾅｰ",
    "모든 인간은 태어날 때부터 자유로우며 각\u1100\u1161\u11a8",
    "👩‍👩‍👧‍👦 🇫🇷 ❤️‍🔥 ①②③ ½ ﷺ \ufb01",
    "a\u0301\u0323 e\u0327\u0300 \u0344 \u212b \u1e69 s\u0323\u0307 \u0958 q\u0307\u0323",
]
# Blanks, marks, joiners, characters that compose, that are outside the table, that change groups.
_PICKED = list(
    " \n\t\r.,'-a1é\u0301\u0323\u200d\u200c\u3000\xa0\ufeff東へカー한\u1161\u11a8ا\u064b\u0640क\u093fท่"
    "\U0001f200\ue000\u0378\U0010ffff\U000e0001\u212b\u0958\U00016d67\U00010eff"
)


@functools.cache
def members_of_groups() -> list[list[int]]:
    """The characters of each group of the table; the first are those outside it, without surrogates."""
    names, group_of = character_groups()
    points = np.arange(0x110000)
    points = points[(points < 0xD800) | (points >= 0xE000)]
    groups = group_of[points]
    ends = np.bincount(groups, minlength=len(names)).cumsum()
    return [each.tolist() for each in np.split(points[np.argsort(groups, kind="stable")], ends[:-1])]


def hostile_texts(seed: int, many: int, longest: int = 12) -> list[str]:
    """Short texts over few characters: any groups, the picked ones, and spaces all the time."""
    rng = random.Random(seed)
    groups = members_of_groups()
    texts = []
    for _ in range(many):
        pool = [chr(rng.choice(groups[rng.randrange(len(groups))])) for _ in range(3)]
        pool += [*rng.choices(_PICKED, k=5), " ", "\u0301", " "]
        texts.append("".join(rng.choices(pool, k=rng.randint(0, longest))))
    return texts


def long_text(seed: int, pieces: int) -> str:
    """Lines of all the scripts, shuffled and glued, with hostile texts between them."""
    rng = random.Random(seed)
    hostile = hostile_texts(seed, 50)
    return "".join(rng.choice(LINES) + rng.choice([" ", "", "\n", "  ", rng.choice(hostile)]) for _ in range(pieces))
