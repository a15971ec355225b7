"""What the core's splits know of characters: one 16-bit entry for each code point.

The presets ask for categories as the installed `regex` module has them, so the core and `regex` can never disagree
about Unicode. They are learned one page of 256 code points at a time, when a text first needs it, so starting costs
nothing. The table spans 2.2 MB of addresses, of which a text in few scripts touches little.
"""

from __future__ import annotations

import threading

import numpy as np
import numpy.typing as npt
import regex

Entries = npt.NDArray[np.uint16]
PAGE = 256
PAGES = 0x110000 // PAGE
# the bits of split.c, in the order in which a later one wins
UPPER, TITLE, LOWER, CASELESS, MARK, NUMBER, SYMBOL, SPACE, BREAK, OTHER, _PICTURE, _JOINER = (
    1 << i for i in range(12)
)
TAKES_SPACE, INHERITED = 1 << 14, 1 << 15  # of the groups of preset script
_CATEGORIES = (
    (r"\p{Lu}", UPPER),
    (r"\p{Lt}", TITLE),
    (r"\p{Ll}", LOWER),
    (r"[\p{Lm}\p{Lo}]", CASELESS),
    (r"\p{M}", MARK),
    (r"\p{N}", NUMBER),
    (r"[\p{P}\p{S}]", SYMBOL),
    (r"\s", SPACE),
    (r"[\r\n]", BREAK),
)
# what a character has besides; the top four bits: which letter of a contraction it folds to
_BESIDES = (
    (r"\p{Extended_Pictographic}", _PICTURE),
    ("\u200d", _JOINER),
    *((f"(?i:{letter})", place << 12) for place, letter in enumerate("sdmtlvre", 1)),
)


class Classes:
    """A table of entries for all threads: whole from the start, or one of which a page is filled when a text first
    needs it."""

    def __init__(self, table: Entries | None = None) -> None:
        self.table = np.zeros(0x110000, np.uint16) if table is None else table
        self.learned = np.full(PAGES, table is not None, np.uint8)  # which pages are filled
        self._lock = threading.Lock()
        self.learn([0])

    def learn(self, pages: list[int]) -> None:
        """Fill pages. Others may read the table meanwhile, but never a page that is not marked as learned."""
        with self._lock:
            for page in pages:
                if not self.learned[page]:
                    places = range(page * PAGE, (page + 1) * PAGE)
                    self.table[places.start : places.stop] = self.entries("".join(map(chr, places)))
                    self.learned[page] = 1

    def entries(self, text: str) -> Entries:
        """Those of all characters of a page."""
        raise NotImplementedError


class Categories(Classes):
    """Categories from the `regex` module."""

    def __init__(self) -> None:
        self._categories = [(regex.compile(members), bit) for members, bit in _CATEGORIES]
        self._besides = [(regex.compile(members), bits) for members, bits in _BESIDES]
        super().__init__()

    def entries(self, text: str) -> Entries:
        """As in Classes."""
        entries = np.full(PAGE, OTHER, np.uint16)
        for members, bit in self._categories:
            entries[[match.start() for match in members.finditer(text)]] = bit
        for members, bits in self._besides:
            entries[[match.start() for match in members.finditer(text)]] |= np.uint16(bits)
        return entries
