"""Draws the pictures of docs/ that explain: docs/pictures/*.svg.

    python tools/pictures.py

They are narrow, so that a telephone shows them, and their colours can be read on a light page and on a dark one: text
stands in pale boxes, or is of a middle grey. What a box is of: memory green, DuckDB blue, disk sand.
"""

from __future__ import annotations

from html import escape
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[1] / "docs/pictures"
WIDTH = 480
INK, GREY = "#1c2430", "#808080"
KINDS = {"memory": ("#dff2e3", "#2f8f4e"), "DuckDB": ("#deebfb", "#2a6fca"), "disk": ("#f4ead6", "#a97a2c")}
PLAIN = ("#eeeeee", "#8a8a8a")


class Picture:
    """One SVG, drawn from the top to the bottom."""

    def __init__(self, name: str, title: str, description: str) -> None:
        self.name, self.title, self.description = name, title, description
        self.parts: list[str] = []
        self.height = 0

    def text(
        self, x: float, y: float, words: str, *, anchor: str = "start", fill: str = GREY, size: int = 13, more: str = ""
    ) -> None:
        """One line of words; y is its foot."""
        self.parts.append(
            f'<text x="{x:g}" y="{y:g}" font-size="{size}" fill="{fill}" text-anchor="{anchor}" {more}>'
            f"{escape(words)}</text>"
        )
        self.height = max(self.height, int(y) + 10)

    def box(self, x: float, y: float, width: float, lines: list[str], kind: str = "", *, middle: bool = False) -> float:
        """A box with a bold first line; the y of its lower edge."""
        fill, edge = KINDS.get(kind, PLAIN)
        height = 14 + 18 * len(lines)
        self.parts.append(
            f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height}" rx="6" fill="{fill}" stroke="{edge}" '
            'stroke-width="1.5"/>'
        )
        for i, line in enumerate(lines):
            weight = 'font-weight="bold"' if i == 0 else ""
            at = x + width / 2 if middle else x + 12
            self.text(at, y + 20 + 18 * i, line, fill=INK, anchor="middle" if middle else "start", more=weight)
        self.height = max(self.height, int(y) + height + 4)
        return y + height

    def arrow(self, x: float, y: float, to: float, words: str = "") -> float:
        """Down from y to `to`, with words beside it."""
        self.parts.append(
            f'<path d="M{x:g} {y:g}V{to - 2:g}m-5 -7l5 7l5 -7" fill="none" stroke="{GREY}" stroke-width="1.6"/>'
        )
        if words:
            self.text(x + 14, (y + to) / 2 + 4, words)
        return to

    def symbols(self, x: float, y: float, tokens: list[str], new: str = "") -> None:
        """A word as its tokens, each in a small box; the new one is marked."""
        for token in tokens:
            width = 12 + 9 * len(token)
            fill, edge = KINDS["memory"] if token == new else ("#ffffff", "#8a8a8a")
            self.parts.append(
                f'<rect x="{x:g}" y="{y:g}" width="{width}" height="24" rx="4" fill="{fill}" stroke="{edge}" '
                'stroke-width="1.5"/>'
            )
            self.text(x + width / 2, y + 17, token, anchor="middle", fill=INK, more='font-family="monospace"')
            x += width + 3

    def legend(self, y: float) -> None:
        """Which colour is what."""
        x = 10.0
        for kind, (fill, edge) in KINDS.items():
            self.parts.append(
                f'<rect x="{x:g}" y="{y:g}" width="16" height="12" rx="3" fill="{fill}" stroke="{edge}"/>'
            )
            self.text(x + 22, y + 11, {"memory": "in memory", "DuckDB": "in DuckDB", "disk": "in files"}[kind])
            x += 110

    def svg(self) -> str:
        """The whole file."""
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {self.height}" width="{WIDTH}" '
            f'height="{self.height}" font-family="system-ui, sans-serif" role="img">\n'
            f"<title>{escape(self.title)}</title>\n<desc>{escape(self.description)}</desc>\n"
            + "\n".join(self.parts)
            + "\n</svg>\n"
        )


def flow() -> Picture:
    """The way of the data."""
    picture = Picture(
        "flow",
        "The way of the data",
        "Sources are read and split into chunks. Counts of chunks become parts, are added up in DuckDB, become words "
        "in memory, and the loop learns events from them, which become tables and the event log.",
    )
    x, width, middle = 10, 300, 160
    picture.legend(4)
    y = picture.box(x, 30, width, ["sources", "text, jsonl, csv, Parquet, compressed"], "disk")
    y = picture.arrow(middle, y, y + 34, "read, decode, split, count")
    y = picture.box(x, y, width, ["chunks of a block", "one table for each worker"], "memory")
    y = picture.arrow(middle, y, y + 34, "a rename commits counts and progress")
    y = picture.box(x, y, width, ["parts", "counts/*.parquet"], "disk")
    y = picture.arrow(middle, y, y + 34, "fold: added up in C, one transaction")
    y = picture.box(x, y, width, ["chunk_counts", "every chunk, and how often it occurs"], "DuckDB")
    y = picture.arrow(middle, y, y + 34, "stop list, cut-off, weights")
    y = picture.box(x, y, width, ["words", "distinct chunks as rows of symbols"], "memory")
    y = picture.arrow(middle, y, y + 34, "the loop in C, pass after pass")
    y = picture.box(x, y, width, ["pending.events", "what is learned, a line an event"], "disk")
    y = picture.arrow(middle, y, y + 34, "checkpoint")
    y = picture.box(x, y, width, ["events, tokens, pair_counts, batches", "what SQL sees of a training"], "DuckDB")
    y = picture.arrow(middle, y, y + 34, "when all is learned")
    picture.box(x, y, width, ["model.events.jsonl", "the model: one file, any reader"], "disk")
    return picture


STEPS = (  # of "aab aab": both words, the pairs and their counts, which one is the best
    (
        (["a", "a", "b"], ["_", "a", "a", "b"]),
        "",
        "a a: 2    a b: 2    _ a: 1",
        "a a is best (of equal counts, the lower ids)",
    ),
    ((["aa", "b"], ["_", "aa", "b"]), "aa", "aa b: 2    _ aa: 1", "a b stands nowhere any more; aa b is best"),
    ((["aab"], ["_", "aab"]), "aab", "_ aab: 1", "the last pair"),
    ((["aab"], ["_aab"]), "_aab", "no pair is left", ""),
)
EVENTS = (("a", "a", "aa", 2), ("aa", "b", "aab", 2), ("_", "aab", "_aab", 1))


def one_pass() -> Picture:
    """One pass on the text "aab aab"."""
    picture = Picture(
        "pass",
        "One pass on the text aab aab",
        "Two words, aab and space aab. The best pair is merged wherever it stands, the counts beside it change, "
        "and the next best pair is taken: three merges in one pass.",
    )
    picture.text(10, 16, 'The text "aab aab" is two words, each once; _ is a space.')
    y = 30
    for i, (words, new, pairs, said) in enumerate(STEPS):
        height = 88 if said else 66
        picture.parts.append(
            f'<rect x="10" y="{y}" width="460" height="{height}" rx="6" fill="{PLAIN[0]}" stroke="{PLAIN[1]}"/>'
        )
        for j, word in enumerate(words):
            picture.symbols(24 + 130 * j, y + 10, word, new)
        picture.text(24, y + 54, "pairs", fill=INK, more='font-weight="bold"')
        picture.text(72, y + 54, pairs, fill=INK, more='font-family="monospace" xml:space="preserve"')
        if said:
            picture.text(24, y + 76, said, fill=INK)
            left, right, made, n = EVENTS[i]
            picture.arrow(60, y + height, y + height + 34, f"merge: {left} + {right} becomes {made}, counted {n}")
        y += height + 34
    picture.height = y - 24
    return picture


def index_and_scan() -> Picture:
    """How the places of a pair are found: from an index, or by reading all words."""
    picture = Picture(
        "index-and-scan",
        "Index and scan",
        "With an index, every frequent pair has the list of its places in memory. With a scan, the words lie in blocks "
        "on disk, each stage learns many merges from a digest and then rewrites the blocks one after another.",
    )
    picture.legend(4)
    picture.text(10, 44, "Index: all words fit into --memory", more='font-weight="bold"', size=14)
    y = picture.box(
        10, 54, 460, ["the words, one after another", "| t h e | _ t h e | _ t h e n | o t h e r |"], "memory"
    )
    y = picture.arrow(120, y, y + 28)
    y = picture.box(
        10,
        y,
        460,
        [
            "each frequent pair: its count, and its places",
            "t h: count 98, places 1, 6, 11, 17",
            "h e: count 97, places 2, 7, 12, 18",
        ],
        "memory",
    )
    picture.text(10, y + 20, "A merge visits these places only, and counts their neighbours.")
    y += 56
    picture.text(10, y, "Scan: they do not, and lie in blocks on disk", more='font-weight="bold"', size=14)
    for i in range(3):
        picture.box(10 + 157 * i, y + 10, 146, [f"block {i + 1}", "words, numbers"], "disk", middle=True)
    y = picture.arrow(120, y + 60, y + 94, "read once: the best pairs, and what is beside them")
    y = picture.box(
        10,
        y,
        460,
        ["digest: what the best pairs of this stage need", "hundreds of merges are learned from it, exactly"],
        "memory",
    )
    y = picture.arrow(120, y, y + 34, "the blocks are rewritten, in one sweep")
    for i in range(3):
        picture.box(10 + 157 * i, y, 146, [f"block {i + 1}", "shorter now"], "disk", middle=True)
    picture.text(10, y + 74, "Once the words have become few enough, the index takes over.")
    return picture


def where() -> Picture:
    """What is in memory, in DuckDB and in files."""
    picture = Picture(
        "where",
        "What is in memory, in DuckDB, in files",
        "In memory: words, counts of pairs, tables of chunks of a block. In DuckDB: chunk counts, what was learned as "
        "of the last checkpoint. In files: parts, documents, pending events, blocks of words, the model.",
    )
    y = picture.box(10, 4, 460, [
        "In memory, bounded by --memory",
        "while counting: the chunks of the blocks that are read now",
        "while learning: words and counts of their pairs, or a part of them",
        "lost at a kill, and made again from what is below",
    ], "memory")  # fmt: skip
    y = picture.box(10, y + 14, 460, [
        "In DuckDB: state.duckdb",
        "chunk_counts and sources, filled by folds",
        "events, tokens, pair_counts, batches, as of the last checkpoint",
        "closed in between, so that you can ask at any time",
    ], "DuckDB")  # fmt: skip
    picture.box(10, y + 14, 460, [
        "In files: the other things in RUN",
        "counts/ and sequences/: what was counted, and the documents",
        "pending.events: what was learned, to the last finished pass",
        "training/: blocks of words and snapshots, which can be made again",
        "model.events.jsonl: the result",
    ], "disk")  # fmt: skip
    return picture


def main() -> None:
    """Write all pictures."""
    FOLDER.mkdir(exist_ok=True)
    for picture in (flow(), one_pass(), index_and_scan(), where()):
        (FOLDER / f"{picture.name}.svg").write_text(picture.svg(), encoding="utf-8")


if __name__ == "__main__":
    main()
