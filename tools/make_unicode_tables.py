"""Write the Unicode tables of streambpe/text/data.

    pip install fonttools==4.62.0 && python tools/make_unicode_tables.py scripts-17.0.0
    pip install fonttools==4.60.1 unicodedata2==16.0.0 && python tools/make_unicode_tables.py characters-16.0.0

scripts: the Script property. `--split-scripts` reads it, so that a split means the same under any `regex` release.
characters: script and general category, for the SCRIPT encoding; "Unknown Cn" (also Co, Cs) are not in it.

One line a range: first code point in hex, and what its characters are; the range ends where the next line starts.
"""

import sys
from pathlib import Path

import fontTools.unicodedata as unicode
from fontTools.unicodedata import Scripts

table = sys.argv[1]
kind, version = table.split("-")
if f"Scripts-{version}.txt" not in Path(Scripts.__file__).read_text():
    raise SystemExit(f"this fonttools carries another Unicode version than {version}")
lines, last = [], ""
for point in range(0x110000):
    held = unicode.script_name(unicode.script(chr(point)))
    if kind == "characters":
        import unicodedata2

        held = f"{held.replace(' ', '_')} {unicodedata2.category(chr(point))}"
    if held != last:
        lines.append(f"{point:X} {held}\n")
    last = held
(Path(__file__).parents[1] / f"streambpe/text/data/{table}.txt").write_text("".join(lines))
print(len(lines), "ranges")
