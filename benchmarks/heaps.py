"""How the distinct chunks of a text grow: of real texts, and of what synthetic.py makes of them.

    python benchmarks/heaps.py en_300.txt multi_60.txt --of en_100.txt multi_60.txt --mb 10 30 60 100 300 1000 3000

Heaps' law says that n bytes have about K * n^beta distinct chunks. Each row has the distinct chunks of the first MB of
a text, and the exponent from the row before to it: a corpus made for measuring is as hard as a real one as long as its
exponents are not lower.
"""

from __future__ import annotations

import json
import math
import shutil
import subprocess
from pathlib import Path

import synthetic
from harness import parser, scratch, streambpe, write_table

COLUMNS = ("text", "MB", "distinct", "exponent")


def distinct(run: Path, arguments: list[str], given: bytes | None = None) -> int:
    """How many distinct chunks a source has."""
    shutil.rmtree(run, ignore_errors=True)
    command = streambpe("count", str(run), *arguments, "--json", "--progress", "none", "--memory", "2GB")
    return int(json.loads(subprocess.run(command, input=given, stdout=subprocess.PIPE, check=True).stdout)["distinct"])


def main() -> None:
    """Count all, and write results/heaps.tsv."""
    options = parser(__doc__, "work", "name", name="heaps")
    options.add_argument("text", type=Path, nargs="+", help="a real text")
    options.add_argument("--of", type=Path, nargs="+", required=True, help="what the synthetic text is made of")
    options.add_argument("--mb", type=float, nargs="+", default=[10, 30, 60, 100, 300, 1000, 3000])
    given = options.parse_args()
    work, rows = scratch(given.work), []
    made = work / "made.jsonl"
    for text in (*given.text, None):
        before = (0.0, 0)
        for mb in given.mb:
            if text is None:
                synthetic.write(given.of, made, mb)
                found, name = distinct(work / "run", [str(made)]), "synthetic"
            else:
                if text.stat().st_size < mb * 0.95e6:
                    break
                with text.open("rb") as file:
                    found, name = (
                        distinct(work / "run", ["-", "--bad-utf8", "replace"], file.read(int(mb * 1e6))),
                        text.stem,
                    )
            beta = math.log(found / before[1]) / math.log(mb / before[0]) if before[1] else None
            rows.append((name, f"{mb:g}", found, f"{beta:.3f}" if beta else ""))
            before = (mb, found)
    made.unlink()
    write_table(given.name, {"of": " and ".join(path.stem for path in given.of)}, COLUMNS, rows)


if __name__ == "__main__":
    main()
