"""Draws docs/beside.svg, the README's picture, from the first row of the README's own table "Beside others".

python tools/make_picture.py
"""

from __future__ import annotations

import re
from html import escape
from pathlib import Path

ROOT = Path(__file__).parents[1]
PICTURE = ROOT / "docs/beside.svg"
_LEFT, _WIDTH, _ROW = 110, 620, 34


def read_row(readme: str) -> list[tuple[str, float, str]]:
    """(program, seconds, memory) of the table's first row."""
    table = readme.split("\n## Beside others\n")[1]
    names = [name.strip() for name in re.findall(r"^\| \|(.*)\|$", table, re.M)[0].split("|")]
    row = re.findall(r"^\| 100 MB of English to 131 072 ids \|(.*)\|$", table, re.M)[0].split("|")
    cells = [re.fullmatch(r" ?\**([\d.]+) s\**, (\d+ MB) ?", cell) for cell in row]
    return [(name, float(cell[1]), cell[2]) for name, cell in zip(names, cells, strict=True) if cell]


def draw(row: list[tuple[str, float, str]]) -> str:
    """The picture: a bar for each program. Its colours can be read on white and on black."""
    longest = max(seconds for _, seconds, _ in row)
    height = _ROW * len(row) + 40
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH + _LEFT} {height}" '
        f'font-family="sans-serif" font-size="14" role="img">',
        "<title>100 MB of English to 131 072 ids: seconds, and memory at most</title>",
        '<text x="0" y="18" fill="#777">100 MB of English to 131 072 ids, two cores: seconds, memory at most</text>',
    ]
    for place, (name, seconds, memory) in enumerate(row):
        top = 30 + _ROW * place
        length = round((_WIDTH - 150) * seconds / longest)
        colour = "#2a7de1" if name == "streambpe" else "#9a9a9a"
        lines += [
            f'<text x="{_LEFT - 8}" y="{top + 18}" text-anchor="end" fill="#777">{escape(name)}</text>',
            f'<rect x="{_LEFT}" y="{top}" width="{length}" height="24" rx="3" fill="{colour}"/>',
            f'<text x="{_LEFT + length + 8}" y="{top + 18}" fill="#777">{seconds:g} s, {memory}</text>',
        ]
    return "\n".join([*lines, "</svg>\n"])


if __name__ == "__main__":
    PICTURE.write_text(draw(read_row((ROOT / "README.md").read_text(encoding="utf-8"))), encoding="utf-8")
