"""SCRIPT-BPE: tokens a character by script, tokens that hold half a character, and what whole characters cost.

    python benchmarks/script.py --corpus multi_60.txt.zst --merges 32000

Twelve models, each with as many merges: base symbols {bytes, script} x pattern {gpt4, gpt4o, script} x
--whole-characters {off, on}. They learn from 19 of 20 documents (corpora.py) of a RUN that was counted before
(untimed): learning alone is measured, start-up included. The 20th ones are encoded line by line. The corpus
does not say what language a line is in, so lines go by the script that most of their letters have.

    tokens a character   of the lines of a script that were not learned from
    parts learned        learned tokens that are no whole characters; base symbols are not counted
    parts used           share of the tokens of those lines that are no whole characters, base symbols too
    ratio                learning with the constraint to learning without, medians of processor time
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from corpora import prepare
from harness import RESULTS, Contender, ask, chosen, compare, copy_run, scratch, streambpe

PATTERNS = ("gpt4", "gpt4o", "script")
BASE = {"bytes": 256, "script": 2172}
HELD_OUT = 20  # every so many-th document
MOST_SCRIPTS = 24  # in the tables; the others are one row


def name_of(encoding: str, pattern: str, whole: bool) -> str:
    """What a model is called in the results."""
    return f"{encoding}-{pattern}" + ("-whole" if whole else "")


def hold_out(documents: Path) -> tuple[Path, Path]:
    """(documents to learn from, documents to encode): two files beside the prepared corpus."""
    learned, kept = documents.with_suffix(".learned.jsonl"), documents.with_suffix(".kept.jsonl")
    if not kept.exists() or kept.stat().st_mtime < documents.stat().st_mtime:
        with documents.open("rb") as source, learned.open("wb") as most, kept.open("wb") as few:
            for number, line in enumerate(source):
                (few if number % HELD_OUT == 0 else most).write(line)
    return learned, kept


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

    tokenizer = Tokenizer.load(run)
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
        counted = work / f"counted-{pattern}-{learned.stem}"
        command = streambpe("count", str(counted), str(learned), "--pattern", pattern)
        subprocess.run(command, check=True, capture_output=True)  # what was counted before is skipped
        for encoding in ("bytes", "script"):
            for whole in (False, True):
                options = ["--encoding", encoding, "--vocab-size", str(BASE[encoding] + arguments.merges)]
                options += ["--memory", arguments.memory, *(["--whole-characters"] if whole else [])]
                name = name_of(encoding, pattern, whole)
                made.append(
                    Contender(
                        name,
                        streambpe("train", "{out}", *options),
                        setup=lambda out, counted=counted: copy_run(counted, out),
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


def tables(characters: dict[str, int], found: dict[str, Any]) -> str:
    """Two of the paper's tables: compression by script, parts of characters."""
    columns = [name_of(e, p, w) for e in BASE for p in PATTERNS for w in (False, True)]
    columns = [name for name in columns if name in found]
    ranked = sorted(characters, key=lambda script: (-characters[script], script))
    groups = [[script] for script in ranked[:MOST_SCRIPTS]] + [ranked[MOST_SCRIPTS:]]
    head = "| script | characters | " + " | ".join(columns) + " |"
    lines = ["", "## Tokens a character, by script", "", head, "|---|---|" + "---|" * len(columns)]
    for group in [ranked, *(group for group in groups if group)]:
        title = "all" if group is ranked else group[0] if len(group) == 1 else f"{len(group)} others"
        total = sum(characters[script] for script in group)
        cells = [f"{sum(found[c]['by_script'].get(s, 0) for s in group) / total:.3f}" for c in columns]
        lines.append(f"| {title} | {total:,} | " + " | ".join(cells) + " |")
    lines += [
        "",
        "## Tokens that are no whole characters",
        "",
        "| model | learned | share of the tokens used |",
        "|---|---|---|",
    ]
    for name in columns:
        share = found[name]["parts_used"] / max(found[name]["tokens"], 1)
        lines.append(f"| {name} | {found[name]['parts_learned']:,} | {100 * share:.3f} % |")
    return "\n".join(lines) + "\n"


def time_table(table: Path) -> str:
    """What the constraint costs, in processor time (other work on the machine shows less in it), from a result's rows.

    The warm-up counts only where nothing else was run.
    """
    rows = [line.split("\t") for line in table.read_text().splitlines() if not line.startswith(("#", "contender"))]
    counted = [row for row in rows if row[1] != "warm-up"] or rows
    seconds: dict[str, list[float]] = {}
    for row in counted:
        seconds.setdefault(row[0], []).append(float(row[3]))
    runs = len(next(iter(seconds.values()), []))
    lines = ["", f"## Processor seconds of learning, constrained to unconstrained (median of {runs})", ""]
    lines += ["| model | s | whole, s | ratio |", "|---|---|---|---|"]
    for encoding in BASE:
        for pattern in PATTERNS:
            both = [seconds.get(name_of(encoding, pattern, whole), []) for whole in (False, True)]
            if all(both):
                free, bound = (statistics.median(values) for values in both)
                lines.append(f"| {encoding}-{pattern} | {free:.2f} | {bound:.2f} | {bound / free:.2f} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Prepare, measure, report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", required=True, help=".txt, .txt.zst or .jsonl (field text)")
    parser.add_argument("--merges", type=int, default=32_000)
    parser.add_argument("--memory", default="1GB", metavar="SIZE")
    parser.add_argument("--mb", type=float, help="only the first MB of the corpus, to try things out")
    parser.add_argument("--only", action="append", metavar="CONTENDER", help="give it once for each to keep")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--name", help="of the result files (default: script-, the corpus and the merges)")
    parser.add_argument("--work", help="folder for prepared corpora and RUNs, on the disk to be measured")
    arguments = parser.parse_args()
    work = scratch(arguments.work)
    corpus = prepare(arguments.corpus, str(work), "blocks", arguments.mb)
    learned, kept = hold_out(Path(corpus["path"]))
    lines = work / f"{corpus['name']}.lines"
    characters = ask("script:lines_by_script", kept=str(kept), out=str(lines))
    found: dict[str, Any] = {}
    name = arguments.name or f"script-{corpus['name']}-{arguments.merges}"
    all_of_them = contenders(arguments, learned, lines, work, found)
    good = compare(
        name,
        chosen(all_of_them, arguments.only),
        runs=arguments.runs,
        work=work,
        about={
            "job": f"{arguments.merges} merges after the base symbols, memory {arguments.memory}",
            "corpus": f"{corpus['name']}, blocks of 8 KiB, every {HELD_OUT}th kept for encoding",
        },
    )
    report = RESULTS / f"{name}.md"
    more = tables(characters, found) + time_table(RESULTS / f"{name}.tsv")
    report.write_text(report.read_text() + more)
    print(more)
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
