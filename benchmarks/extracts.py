"""Texts of one kind, which anyone can make again: Chinese out of a text in many languages, or program code.

python benchmarks/extracts.py chinese multi_60.txt chinese.txt   # its lines that are mostly Chinese characters
python benchmarks/extracts.py code code.txt                         # the sources of this Python's standard library
"""

from __future__ import annotations

import argparse
import re
import sysconfig
from collections.abc import Iterator
from pathlib import Path

from corpora import open_corpus

_CHINESE = re.compile("[\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")
_KANA = re.compile("[\u3040-\u30ff]")  # where one stands, the line is Japanese


def chinese(text: Path) -> Iterator[str]:
    """The lines that are mostly Chinese characters."""
    with open_corpus(text) as source:
        for line in source:
            found = line.decode(errors="ignore")
            if 2 * len(_CHINESE.findall(found)) > len(found.strip()) and not _KANA.search(found):
                yield found


def code() -> Iterator[str]:
    """The standard library's files, by name; its tests and what was installed beside it are left out."""
    library = Path(sysconfig.get_path("stdlib"))
    for path in sorted(library.rglob("*.py")):
        if not {"test", "tests", "site-packages", "dist-packages"} & set(path.relative_to(library).parts):
            yield path.read_text(encoding="utf-8", errors="ignore")


def write(kind: str, text: Path | None, output: Path) -> int:
    """Write the text of one kind; how many characters it has. An unfinished file has another name."""
    unfinished = output.with_suffix(".unfinished")
    with unfinished.open("w", encoding="utf-8", newline="") as out:
        size = sum(out.write(found) for found in (chinese(text) if kind == "chinese" and text else code()))
    unfinished.rename(output)
    return size


def main() -> None:
    """Write a text, and say how large it is."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    kinds = parser.add_subparsers(dest="kind", required=True)
    kinds.add_parser("chinese").add_argument("text", type=Path, help="a text in many languages, or its .zst")
    for kind in (kinds.choices["chinese"], kinds.add_parser("code")):
        kind.add_argument("output", type=Path)
    given = parser.parse_args()
    size = write(given.kind, getattr(given, "text", None), given.output)
    print(f"{size:,} characters, {given.output.stat().st_size / 1e6:.1f} MB in {given.output}")


if __name__ == "__main__":
    main()
