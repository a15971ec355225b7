"""Bytes per token of each source group, and how unequal they are: plain, --weight, --balance.

    python benchmarks/balance.py multi_60.txt     # results/balance-multi_60.tsv

Lines of the text are grouped by the script that most of their letters are of (script.py; a stand-in for the language,
which the text does not say). Each tenth line is held out; the rest is counted into a RUN with a group for each script.
Every training learns from the same counts. Gini is that of the tokens that the groups take for each byte (0: all take
as many). Bytes of scripts hold more or less content, so a second table balances with ratios: the bytes of a letter.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from harness import parser, scratch, write_table
from script import bytes_per_token, grouped

import streambpe
from streambpe.encode.tokenizer import Tokenizer
from streambpe.inspect.measures import gini
from streambpe.model.eventlog import read_event_log

_HELD_OUT = 10


def main() -> None:
    """Count, learn, report."""
    options = parser(__doc__, "vocab-size", "name", "work", vocab_size=8000)
    options.add_argument("text", type=Path)
    options.add_argument("--mb", type=int, default=4)
    options.add_argument("--memory", default="1GB")
    given = options.parse_args()
    with tempfile.TemporaryDirectory(dir=scratch(given.work), prefix="balance-") as folder:
        columns, *rows = compared(given, Path(folder))
    told = "bytes per token of groups; Gini of the tokens that they take for each byte"
    about = {"job": told, "text": f"{given.text.name}, the first {given.mb} MB", "ids": f"{given.vocab_size:,}"}
    write_table(given.name or f"balance-{given.text.stem}", about, columns, rows)


def compared(arguments: argparse.Namespace, folder: Path) -> list[list[str]]:
    """The table: a column for each way, a row for each group, then Gini."""
    groups = grouped(arguments.text, arguments.mb * 10**6)
    held_out = {name: lines[::_HELD_OUT] for name, lines in groups.items()}
    size: dict[str, int] = {}
    for name, lines in groups.items():
        kept = [line for i, line in enumerate(lines) if i % _HELD_OUT]
        (folder / f"{name}.txt").write_text("".join(kept), encoding="utf-8")
        size[name] = sum(len(line.encode()) for line in kept)
    run = folder / "run"
    sources = [str(folder / f"{name}.txt") for name in groups]
    named = [f"{name}={source}" for name, source in zip(groups, sources, strict=True)]
    streambpe.count(run, sources, group=named, lines=True, memory=arguments.memory)
    letters = {name: sum(map(len, lines)) for name, lines in held_out.items()}
    per_letter = {n: sum(len(line.encode()) for line in lines) / letters[n] for n, lines in held_out.items()}
    equal = {name: f"{min(max(size.values()) / n, 10**5):.3f}" for name, n in size.items()}
    ratios = {name: f"{value:.3f}" for name, value in per_letter.items()}
    most = arguments.vocab_size
    ways = {
        "plain": {},
        "--weight, groups of equal size": {"weight": equal},
        "--balance": {"balance": True},
        "--balance-from, half": {"balance": True, "balance_from": most // 2},
        "--balance-window 100": {"balance": True, "balance_window": 100},
        "--balance-ratio, bytes of a letter": {"balance": True, "balance_ratio": ratios},
    }
    found = {}
    for number, (way, options) in enumerate(ways.items()):
        log = streambpe.train(run, name=f"way_{number}", vocab_size=most, memory=arguments.memory, **options).log
        tokenizer = Tokenizer(read_event_log(log))
        found[way] = {name: bytes_per_token(tokenizer, lines) for name, lines in held_out.items()}
    lines = [["group", "MB counted", *found]]
    for name in groups:
        lines.append([name, f"{size[name] / 1e6:.2f}", *(f"{rate[name]:.3f}" for rate in found.values())])
    bytes_gini = [gini([1 / rate[name] for name in groups]) for rate in found.values()]
    letters_gini = [gini([per_letter[name] / rate[name] for name in groups]) for rate in found.values()]
    lines.append(["Gini", "", *(f"{value:.4f}" for value in bytes_gini)])
    lines.append(["Gini of letters", "", *(f"{value:.4f}" for value in letters_gini)])
    return lines


if __name__ == "__main__":
    main()
