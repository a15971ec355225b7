"""SCRIPT-BPE: tokens per character by script, tokens that hold half a character, and what --whole-characters costs.

    python benchmarks/script.py --corpus multi_60.txt.zst --merges 32000

Twelve models, each with as many merges: base symbols {bytes, script} x pattern {gpt4, gpt4o, script} x
--whole-characters {off, on}. They learn from 19 of 20 documents (corpora.py) of a RUN that was counted before
(untimed): learning alone is measured, start-up included. The 20th ones are encoded line by line. The corpus
does not say what language a line is in, so lines go by the script that most of their letters have.

    tokens a character   of the lines of a script that were not learned from
    parts learned        learned tokens that are no whole characters; base symbols are not counted
    parts used           share of the tokens of those lines that are no whole characters, base symbols too

What the constraint costs is the ratio of a model's processor time to that of the model without it.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

from corpora import hold_out, prepare
from harness import COMPARING, Contender, Counted, ask, compare, parser, scratch, streambpe, write_table

if TYPE_CHECKING:
    from streambpe.encode.tokenizer import Tokenizer

PATTERNS = ("gpt4", "gpt4o", "script")
BASE = {"bytes": 256, "script": 2172}
HELD_OUT = 20  # every so many-th document
MOST_SCRIPTS = 24  # in the tables; the others are one row
LEAST = 20_000  # bytes of a group of lines


def script_of(line: str) -> str:
    """The script that most of a line's letters have; "none" without letters."""
    from streambpe.text.script_blocks import character_groups

    names, group_of = character_groups()
    counts: dict[str, int] = {}
    for character in line:
        script, supercategory = names[group_of[ord(character)]]
        if supercategory == "LM" and script not in ("Common", "Inherited"):
            counts[script] = counts.get(script, 0) + 1
    return max(counts, key=lambda script: (counts[script], script)) if counts else "none"


def grouped(path: Path, size: float = inf) -> dict[str, list[str]]:
    """The lines of so many bytes of a text by script, where a script has LEAST bytes of them."""
    found: dict[str, list[str]] = {}
    with path.open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            if size <= 0:
                break
            size -= len(line.encode())
            if (name := script_of(line)) != "none":
                found.setdefault(name, []).append(line)
    return {name: some for name, some in sorted(found.items()) if sum(len(line.encode()) for line in some) >= LEAST}


def bytes_per_token(tokenizer: Tokenizer, lines: list[str]) -> float:
    """Of these lines together."""
    return sum(len(line.encode()) for line in lines) / sum(map(len, tokenizer.encode_ordinary_batch(lines)))


def lines_by_script(kept: str, out: str) -> dict[str, int]:
    """Write the lines of the kept documents with their script; characters of each."""
    characters: dict[str, int] = {}
    with open(kept) as source, open(out, "w") as target:
        for document in source:
            for line in json.loads(document)["text"].split("\n"):
                if line:
                    script = script_of(line)
                    characters[script] = characters.get(script, 0) + len(line)
                    target.write(json.dumps([script, line]) + "\n")
    return characters


def measure(run: str, lines: str) -> dict[str, Any]:
    """Tokens by script, and parts of characters, of the model of a RUN."""
    from streambpe.encode.tokenizer import Tokenizer

    tokenizer = Tokenizer(run)
    encoder = tokenizer.encoder
    model, is_script = encoder.model, encoder.header.alphabet["kind"] == "script"

    def is_part(log_id: int) -> bool:
        content = model.content(log_id)
        if is_script:
            return not encoder.codec.is_text(content)
        return "\ufffd" in content.decode("utf-8", "replace") and "\ufffd".encode() not in content

    parts = {number for number, log_id in model.model_id.items() if is_part(log_id)}
    with open(lines) as source:
        rows = [json.loads(line) for line in source]
    encoded = tokenizer.encode_ordinary_batch([line for _, line in rows])
    tokens: dict[str, int] = {}
    used = 0
    for (script, _), ids in zip(rows, encoded, strict=True):
        tokens[script] = tokens.get(script, 0) + len(ids)
        used += sum(number in parts for number in ids)
    return {
        "tokens": sum(tokens.values()),
        "parts_learned": sum(model.model_id[event.id] in parts for event in model.events),
        "parts_used": used,
        "by_script": tokens,
    }


def contenders(
    arguments: argparse.Namespace, learned: Path, lines: Path, work: Path, found: dict[str, Any]
) -> list[Contender]:
    """The twelve trainings; `found` takes what each model does with the lines."""
    made = []
    for pattern in PATTERNS:
        counted = Counted(work, [str(learned), "--pattern", pattern])
        for encoding in ("bytes", "script"):
            for whole in (False, True):
                options = ["--encoding", encoding, "--vocab-size", str(BASE[encoding] + arguments.merges)]
                options += ["--memory", arguments.memory, *(["--whole-characters"] if whole else [])]
                name = f"{encoding}-{pattern}{'-whole' * whole}"
                made.append(
                    Contender(
                        name,
                        streambpe("train", "{out}", *options),
                        setup=counted.copy,
                        outcome=outcome(name, lines, found),
                    )
                )
    return made


def outcome(name: str, lines: Path, found: dict[str, Any]) -> Callable[[Path], Mapping[str, Any]]:
    """Measure a model once; every run of it learns the same."""

    def facts(out: Path) -> Mapping[str, Any]:
        if name not in found:
            found[name] = ask("script:measure", run=str(out), lines=str(lines))
        return {key: found[name][key] for key in ("tokens", "parts_learned", "parts_used")}

    return facts


def by_script(characters: dict[str, int], found: dict[str, Any]) -> Iterator[list[str]]:
    """Compression by script, the commonest first; then what is no whole character, as the paper's tables have it."""
    ranked = sorted(characters, key=lambda script: (-characters[script], script))
    groups = [ranked, *([script] for script in ranked[:MOST_SCRIPTS]), ranked[MOST_SCRIPTS:]]
    for group in filter(None, groups):
        title = "all" if group is ranked else group[0] if len(group) == 1 else f"{len(group)} others"
        total = sum(characters[script] for script in group)
        cells = [f"{sum(of['by_script'].get(s, 0) for s in group) / total:.3f}" for of in found.values()]
        yield [title, f"{total:,}", *cells]
    yield ["parts learned", "", *(f"{of['parts_learned']:,}" for of in found.values())]
    yield ["parts used", "", *(f"{of['parts_used'] / max(of['tokens'], 1):.3%}" for of in found.values())]


def main() -> None:
    """Prepare, measure, report."""
    options = parser(__doc__, "corpus", "mb", *COMPARING, runs=3)
    options.add_argument("--merges", type=int, default=32_000)
    options.add_argument("--memory", default="1GB", metavar="SIZE")
    given = options.parse_args()
    work = scratch(given.work)
    corpus = prepare(given.corpus, str(work), "blocks", given.mb)
    learned, kept = hold_out(Path(corpus["path"]), work, HELD_OUT)
    lines = work / f"{corpus['name']}.lines"
    characters = ask("script:lines_by_script", kept=str(kept), out=str(lines))
    found: dict[str, Any] = {}
    name = given.name or f"script-{corpus['name']}-{given.merges}"
    about = {
        "job": f"{given.merges} merges after the base symbols, memory {given.memory}",
        "corpus": f"{corpus['name']}, blocks of 8 KiB, every {HELD_OUT}th kept for encoding",
    }
    good = compare(name, contenders(given, learned, lines, work, found), given, about)
    columns = ("tokens a character", "characters", *found)
    write_table(f"{name}-scripts", about, columns, by_script(characters, found))
    sys.exit(not good)


if __name__ == "__main__":
    main()
