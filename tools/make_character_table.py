"""Write the Unicode 16.0.0 tables of the SCRIPT encoding: characters-16.0.0.txt, normalization-16.0.0.txt.

    pip install fonttools==4.60.1 unicodedata2==16.0.0 && python tools/make_character_table.py

characters     one line a range: first code point in hex, script, general category; the range ends
               where the next line starts. "Unknown Cn" (also Co, Cs) are the characters not in the table.
normalization  what NFC must know of characters younger than Unicode 14.0, the oldest tables that a
               supported Python has: code point, combining class, canonical decomposition.

Run it under Python 3.11, whose own tables are those of Unicode 14.0.
"""

import unicodedata
from pathlib import Path

import fontTools.unicodedata as unicode
import unicodedata2
from fontTools.unicodedata import Scripts

data = Path(__file__).parents[1] / "streambpe" / "encode" / "data"
if "Scripts-16.0.0.txt" not in Path(Scripts.__file__).read_text() or unicodedata2.unidata_version != "16.0.0":
    raise SystemExit("other Unicode versions than 16.0.0; install fonttools==4.60.1 and unicodedata2==16.0.0")
if unicodedata.unidata_version != "14.0.0":
    raise SystemExit("run this under Python 3.11: its own tables say what was assigned by Unicode 14.0")

lines, last, assigned = [], None, 0
young = []
for point in range(0x110000):
    character = chr(point)
    script = unicode.script_name(unicode.script(character)).replace(" ", "_")
    row = (script, unicodedata2.category(character))
    assigned += script != "Unknown"
    if row != last:
        lines.append(f"{point:X} {row[0]} {row[1]}\n")
    last = row
    of_16 = (unicodedata2.combining(character), unicodedata2.decomposition(character))
    of_14 = (unicodedata.combining(character), unicodedata.decomposition(character))
    if of_16 != of_14:
        if unicodedata.category(character) != "Cn":
            raise SystemExit(f"U+{point:04X} changed after it was assigned, which Unicode rules out")
        if not of_16[1].startswith("<"):
            young.append(f"{point:X} {of_16[0]} {of_16[1]}".rstrip() + "\n")
(data / "characters-16.0.0.txt").write_text("".join(lines))
(data / "normalization-16.0.0.txt").write_text("".join(young))
print(f"{assigned} characters in {len(lines)} ranges; {len(young)} that Unicode 14.0 cannot normalise")
