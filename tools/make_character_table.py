"""Write the Unicode 16.0.0 table of the SCRIPT encoding, characters-16.0.0.txt.

    pip install fonttools==4.60.1 unicodedata2==16.0.0 && python tools/make_character_table.py

One line a range: first code point in hex, script, general category; the range ends where the next line starts.
"Unknown Cn" (also Co, Cs) are the characters not in the table.
"""

from pathlib import Path

import fontTools.unicodedata as unicode
import unicodedata2
from fontTools.unicodedata import Scripts

data = Path(__file__).parents[1] / "streambpe" / "encode" / "data"
if "Scripts-16.0.0.txt" not in Path(Scripts.__file__).read_text() or unicodedata2.unidata_version != "16.0.0":
    raise SystemExit("other Unicode versions than 16.0.0; install fonttools==4.60.1 and unicodedata2==16.0.0")

lines, last, assigned = [], None, 0
for point in range(0x110000):
    character = chr(point)
    script = unicode.script_name(unicode.script(character)).replace(" ", "_")
    row = (script, unicodedata2.category(character))
    assigned += script != "Unknown"
    if row != last:
        lines.append(f"{point:X} {row[0]} {row[1]}\n")
    last = row
(data / "characters-16.0.0.txt").write_text("".join(lines))
print(f"{assigned} characters in {len(lines)} ranges")
