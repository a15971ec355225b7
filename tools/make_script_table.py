"""Write streambpe/text/data/scripts-17.0.0.txt: the Script property as Unicode 17.0.0 has it.

    pip install fonttools==4.62.0 && python tools/make_script_table.py

One line a range: first code point in hex, a space, the script's name; the range ends where the next
line starts. `--split-scripts` reads it, so that a split means the same under any `regex` release.
"""

from pathlib import Path

import fontTools.unicodedata as unicode
from fontTools.unicodedata import Scripts

target = Path(__file__).parents[1] / "streambpe" / "encode" / "data" / "scripts-17.0.0.txt"
if "Scripts-17.0.0.txt" not in Path(Scripts.__file__).read_text():
    raise SystemExit("this fonttools carries another Unicode version; install fonttools==4.62.0")
lines, last = [], None
for start, code in zip(Scripts.RANGES, Scripts.VALUES, strict=True):
    name = unicode.script_name(code)
    if name != last:
        lines.append(f"{start:X} {name}\n")
    last = name
target.write_text("".join(lines))
print(len(lines), "ranges")
