"""The papers' own tables, made again on other texts: a paper's figure beside ours, and why they differ.

    python benchmarks/papers.py --english en_100.txt [--only picky] [--mb 20]

What can be made with text alone is here; scores of trained models are not. Every hundredth document is held out, and
what is measured on text is measured there. Nothing is timed.

    boundless   BoundlessBPE: bytes per token, Rényi efficiency, vocabulary used, single tokens, at four sizes
                (figures 1, 5, 6, 7); counts of the merges (2); supermerges in each 8 192 (3); deletions (section 3.1)
    picky       PickyBPE at 8 192 and 32 768 ids: tokens exchanged (table 3), tokens of the text (12), word-initial
                (15, 18), lengths (21), encoding by events or by merges alone (6)
    batch       BatchBPE: distinct chunks (figure 1, sections 2.1 and 2.2), stop lists (4), cut-offs (2, 5), batches (3)
    tutorial    the first merges of the tutorial's run, its sentence, its toy
    superbpe    SuperBPE: bytes per token for every transition
    script      SCRIPT-BPE: tokens a character and parts of characters, from the results of script.py (tables 2, 4, 5)
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import regex
from corpora import prepare
from harness import preamble, scratch, streambpe
from measured import RESULTS, read
from superwords import hold_out

from streambpe import Tokenizer
from streambpe.encode.encoder import Encoder
from streambpe.encode.formats.export import export
from streambpe.inspect.evaluate import evaluate
from streambpe.model.eventlog import EventLog, Op, read_event_log
from streambpe.store.models import read_model
from streambpe.text.patterns import find_pattern

BOUNDLESS_SIZES = (40_960, 65_536, 98_304, 131_072)
PICKY_SIZES = (8192, 32_768)
TAUS = ("0.9", "0.8", "0.7", "0.6")
BATCH_IDS = 50_304
STOP_LISTS = (0, 1, 2, 5, 10, 20, 50, 100, 150, 200)
CUT_OFFS = (1, 2, 3, 4, 5, 6, 8, 10)
INTERVAL = 8192
TUTORIAL_PATTERN = r"'s|'t|'re|'ve|'m|'ll|'d|\s?[A-Za-z]+|\s?\d+|\s?[^A-Za-z\d\s]+|\s+"
TUTORIAL_MERGES = (
    " t", "he", " a", "in", " the", "er", "on", " ,", "re", " s",
    "ed", " o", " w", "nd", "at", " .", "or", "it", " c", "en",
)  # fmt: skip
SENTENCE = "Natural language processing is interesting"

Row = tuple[str, str, str]  # what, the paper's figure, ours


class Texts(NamedTuple):
    """Where everything is."""

    learn: Path  # JSON lines
    held: Path
    work: Path


class Table(NamedTuple):
    """What one paper's part of the page is."""

    difference: str  # why the figures differ
    make: Callable[[Texts], Iterator[Row]]


def trained(texts: Texts, name: str, *options: str) -> Path:
    """The RUN of a training; one that is there is taken as it is."""
    run = texts.work / f"papers-{name}"
    if not (run / "model.events.jsonl").exists():
        subprocess.run(streambpe("train", str(run), str(texts.learn), *options), check=True, capture_output=True)
    return run


def learned_from(texts: Texts, counted: Path, name: str, *options: str) -> EventLog:
    """A further training of a RUN that is counted, by its name; those that differ in options only share the counts."""
    if not (counted / "trainings" / name).exists():
        command = streambpe("train", str(counted), "--name", name, *options)
        subprocess.run(command, check=True, capture_output=True)
    return read_model(f"{counted}:{name}")


def measures(model: str, texts: Texts, size: int | None = None) -> dict[str, float]:
    """What `evaluate` says of a model on the held-out documents; cut to a size first."""
    if size is not None:
        cut = texts.work / f"papers-cut-{size}.events.jsonl"
        export(model, "events", cut, vocab_sizes=[size], force=True)
        model = str(cut)
    (found,) = evaluate([model], [str(texts.held)])
    return {name: value or 0.0 for name, value in found.values.items()}


# ---------------------------------------------------------------- BoundlessBPE


def boundless(texts: Texts) -> Iterator[Row]:
    """Figures 1, 2, 3, 5, 6, 7 and section 3.1."""
    largest = str(BOUNDLESS_SIZES[-1])
    runs = {
        "plain": trained(texts, "plain", "--vocab-size", largest, "--pattern", "gpt4"),
        "same": trained(texts, "same", "--vocab-size", largest, "--pattern", "boundless"),
        "boundless": trained(
            texts,
            "boundless",
            "--vocab-size",
            largest,
            "--pattern",
            "boundless",
            "--superwords",
            "boundless",
            "--tau",
            "0.9",
        ),
    }
    for size in BOUNDLESS_SIZES:
        plain, same, ours = (measures(str(run), texts, size) for run in runs.values())
        for measure, told in (("bytes_per_token", "at least +19.7 %"), ("renyi", "at least +21 %")):
            over = " / ".join(f"{ours[measure] / other[measure] - 1:+.1%}" for other in (plain, same))
            what = "bytes per token" if measure == "bytes_per_token" else "Rényi efficiency"
            yield (
                f"{what} over plain BPE with gpt4 / with its pattern, {size:,} ids",
                told,
                f"{over} ({ours[measure]:.3f})",
            )
        used = f"{ours['vocab_used_share']:.1%} against {plain['vocab_used_share']:.1%}"
        yield f"vocabulary used, {size:,} ids", "over 97.5 % against 82 to 95 %", used
        yield f"single-token chunks of plain BPE, {size:,} ids", "well over 90 %", f"{plain['single_token_chunks']:.1%}"
    log = read_event_log(runs["boundless"] / "model.events.jsonl")
    merges = [event for event in log.events if event.op is not Op.DELETE]
    supers = [event.op is Op.SUPERMERGE for event in merges]
    shares = [sum(part) / len(part) for part in (supers[i : i + INTERVAL] for i in range(0, len(supers), INTERVAL))]
    yield "supermerges of all merges", "31.3 % (41 038)", f"{sum(supers) / len(supers):.1%} ({sum(supers):,})"
    yield f"supermerges of the last {INTERVAL:,}", "44.4 %", f"{shares[-2]:.1%}"
    yield f"supermerges of each {INTERVAL:,}", "not readable", " ".join(f"{share:.0%}" for share in shares)
    deletions = sum(event.op is Op.DELETE for event in log.events)
    yield "deletions after ordinary merges", "1 987", f"{deletions:,}"
    plain_n = [event.n for event in read_event_log(runs["plain"] / "model.events.jsonl").events]
    for place in (10_000, 50_000, 100_000):
        if place < min(len(plain_n), len(merges)):
            said = f"{math.log10(merges[place].n):.2f} against {math.log10(plain_n[place]):.2f}"
            yield f"log10 of the count of merge {place:,}, beside plain BPE", "falls more slowly", said


# ---------------------------------------------------------------- PickyBPE


def picky(texts: Texts) -> Iterator[Row]:
    """Tables 3, 6, 12, 15, 18, 21."""
    papers = {
        8192: {
            "added": ("2.1 %", "4.8 %", "7.6 %", "10.6 %"), "text": ("0.997", "0.995", "0.994", "0.992"),
            "initial": ("43.8 / 65.5 %", "41.1 / 67.5 %", "42.0 / 66.9 %", "42.1 / 64.2 %"),
            "all": ("61.5 -> 61.9 %", "62.7 %", "63.3 %", "63.6 %"), "length": ("5.38 -> 5.40", "5.44", "5.47", "5.50"),
        },
        32_768: {
            "added": ("", "", "", "about 10 %"), "text": ("0.997", "0.996", "0.994", "0.992"),
            "initial": ("46.7 / 73.3 %", "44.8 / 68.3 %", "47.5 / 68.5 %", "48.7 / 67.9 %"),
            "all": ("72.2 -> 72.8 %", "73.2 %", "73.6 %", "73.9 %"), "length": ("6.85 -> 6.88", "6.91", "6.94", "6.95"),
        },
    }  # fmt: skip
    largest = str(PICKY_SIZES[-1])
    run = trained(texts, "picky", "--vocab-size", largest, "--pattern", "gpt4")
    logs = {tau: learned_from(texts, run, f"tau{tau[2:]}", "--vocab-size", largest, "--tau", tau) for tau in TAUS}
    for size in PICKY_SIZES:
        plain = measures(str(run), texts, size)
        before = _contents(read_model(run), size)
        for place, (tau, log) in enumerate(logs.items()):
            ours, after = measures(f"{run}:tau{tau[2:]}", texts, size), _contents(log, size)
            added, dropped = after - before, before - after
            where = f"tau {tau}, {size:,} ids"
            paper = papers[size]
            yield f"tokens exchanged, {where}", paper["added"][place], f"{len(added) / size:.1%} ({len(added):,})"
            yield (
                f"tokens of the text to plain BPE, {where}",
                paper["text"][place],
                f"{ours['tokens'] / plain['tokens']:.4f}",
            )
            initial = f"{100 * _initial(dropped):.1f} / {100 * _initial(added):.1f} %"
            yield f"word-initial of dropped / added, {where}", paper["initial"][place], initial
            whole = f"{100 * _initial(before):.1f} -> {100 * _initial(after):.1f} %"
            yield f"word-initial of all, {where}", paper["all"][place], whole
            yield (
                f"characters of a token, {where}",
                paper["length"][place],
                f"{_length(before):.2f} -> {_length(after):.2f}",
            )
    told = {"0.9": "0.998 / 0.997", "0.8": "0.998 / 0.996", "0.7": "1.000 / 0.994", "0.6": "1.005 / 0.992"}
    plain_tokens = measures(str(run), texts)["tokens"]
    for tau, log in logs.items():
        by_merges = _tokens_by_merges_alone(log, texts) / plain_tokens
        by_events = measures(f"{run}:tau{tau[2:]}", texts)["tokens"] / plain_tokens
        what = f"tokens of the text: merges alone, then removed ones split / events in order, tau {tau}"
        yield what, told[tau], f"{by_merges:.4f} / {by_events:.4f}"


def _contents(log: EventLog, size: int) -> set[bytes]:
    """The learned tokens of a log cut to a size."""
    vocabulary = Encoder(log, size).model.vocabulary
    return {token.content for token in vocabulary.tokens if len(token.base) > 1 and token.id in vocabulary.living}


def _initial(tokens: set[bytes]) -> float:
    return sum(token.startswith(b" ") for token in tokens) / max(1, len(tokens))


def _length(tokens: set[bytes]) -> float:
    return statistics.fmean(len(token.decode(errors="replace")) for token in tokens)


def _tokens_by_merges_alone(log: EventLog, texts: Texts) -> int:
    """The other encoding of table 6: ordinary BPE by the rank of each merge, then what is no longer in the vocabulary
    is split as it was once joined. Chunk by chunk, in plain Python."""
    vocabulary = Encoder(log).model.vocabulary
    living = {token.content for token in vocabulary.tokens if token.id in vocabulary.living}
    contents = {token.id: token.content for token in vocabulary.tokens}
    ranks: dict[tuple[bytes, bytes], int] = {}
    parts: dict[bytes, tuple[bytes, bytes]] = {}
    for rank, event in enumerate(event for event in log.events if event.op is Op.MERGE):
        left, right = (contents[number] for number in event.pair)
        ranks.setdefault((left, right), rank)
        parts.setdefault(left + right, (left, right))
    cost: dict[bytes, int] = {}

    def pieces(token: bytes) -> int:
        """How many living tokens it is split into."""
        if token not in cost:
            cost[token] = 1 if token in living or token not in parts else sum(map(pieces, parts[token]))
        return cost[token]

    known: dict[bytes, int] = {}
    total = 0
    pattern = regex.compile(find_pattern("gpt4").expression)
    for line in texts.held.open("rb"):
        for chunk in pattern.findall(json.loads(line)["text"]):
            key = chunk.encode()
            if key not in known:
                known[key] = sum(pieces(token) for token in _by_rank(key, ranks))
            total += known[key]
    return total


def _by_rank(chunk: bytes, ranks: dict[tuple[bytes, bytes], int]) -> list[bytes]:
    tokens = [chunk[i : i + 1] for i in range(len(chunk))]
    while len(tokens) > 1:
        rank, place = min((ranks.get(pair, math.inf), i) for i, pair in enumerate(pairwise(tokens)))
        if rank == math.inf:
            break
        tokens[place : place + 2] = [tokens[place] + tokens[place + 1]]
    return tokens


# ---------------------------------------------------------------- BatchBPE


def batch(texts: Texts) -> Iterator[Row]:
    """Figures 1, 2, 4, 5 and sections 2 and 3."""
    run = trained(texts, "batch", "--vocab-size", str(BATCH_IDS), "--pattern", "gpt4", "--like", "batch")
    n = [int(line) for line in _sql(run, "SELECT n FROM chunk_counts ORDER BY n DESC")]
    yield "distinct of all chunks", "0.19 % of 8.92 billion", f"{len(n) / sum(n):.2%} of {sum(n) / 1e6:.1f} million"
    yield "share of the 100 most frequent", "45.25 %", f"{sum(n[:100]) / sum(n):.2%}"
    rare = sum(count < 4 for count in n) / len(n)
    yield "distinct chunks that occur fewer than 4 times", "75 %", f"{rare:.1%}"
    yield "distinct chunks at a cut-off of 10", "about a tenth", f"{sum(count >= 10 for count in n) / len(n):.1%}"
    sizes = [int(line) for line in _sql(run, "SELECT events FROM batches ORDER BY batch") if int(line)]
    peak = sum(sizes[: sizes.index(max(sizes))]) / sum(sizes)
    yield "mean batch", "often 200 or more", f"{statistics.fmean(sizes):.0f}"
    yield "merges made when a batch is largest", "about a third", f"{peak:.0%}"
    yield "the last batches", "fall by powers of two", " ".join(map(str, sizes[-6:]))
    options = ("--vocab-size", str(BATCH_IDS))
    base = measures(f"{run}:main", texts)["tokens"]
    for stop in STOP_LISTS[1:]:
        learned_from(texts, run, f"stop{stop}", *options, "--like", "batch", "--stop-list", str(stop))
        change = measures(f"{run}:stop{stop}", texts)["tokens"] / base - 1
        yield f"tokens of the text, stop list of {stop}", "-0.0083 % to +0.0483 %", f"{change:+.4%}"
    for cut in CUT_OFFS[1:]:
        learned_from(texts, run, f"cut{cut}", *options, "--like", "batch", "--freq-cutoff", str(cut))
        change = measures(f"{run}:cut{cut}", texts)["tokens"] / base - 1
        yield f"tokens of the text, cut-off {cut}", "a slight fall at 2, then a slight rise", f"{change:+.4%}"


def _sql(run: Path, query: str) -> list[str]:
    done = subprocess.run(streambpe("sql", str(run), query, "--csv"), capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)
    return done.stdout.splitlines()[1:]


# ---------------------------------------------------------------- the tutorial, SuperBPE, SCRIPT


def tutorial(texts: Texts) -> Iterator[Row]:
    """Its run on another text: how much of it comes again; its toy as its code makes it."""
    run = trained(texts, "tutorial", "--vocab-size", "2000", "--pattern", TUTORIAL_PATTERN, "--min-frequency", "2")
    tokenizer = Tokenizer.load(run)
    first = [tokenizer.decode_bytes([256 + i]) for i in range(20)]
    again = sum(token.encode() in first for token in TUTORIAL_MERGES)
    yield "of its first 20 tokens, among our first 20", "20", str(again)
    yield "merges for 2 000 ids", "1744", f"{len(read_model(run).events)}"
    ids = tokenizer.encode_ordinary(SENTENCE)
    yield f"bytes per token of: {SENTENCE}", "3.0 (14 tokens)", f"{len(SENTENCE) / len(ids):.1f} ({len(ids)} tokens)"
    toy = texts.work / "papers-toy.txt"
    toy.write_text("the lowest price is lower than the last one")
    folder = texts.work / "papers-toy"
    options = ("--vocab-size", "263", "--pattern", TUTORIAL_PATTERN, "--min-frequency", "2", "--like", "kensho")
    if not folder.exists():
        subprocess.run(streambpe("train", str(folder), str(toy), *options), check=True, capture_output=True)
    log = read_model(folder)
    contents = {token.id: token.content.decode(errors="replace") for token in Encoder(log).model.vocabulary.tokens}
    yield (
        "merges of its toy line",
        "th, ' l', the, ' lo', ' low', ' lowe', st",
        ", ".join(repr(text) if " " in text else text for text in (contents[event.id] for event in log.events)),
    )


def superbpe(texts: Texts) -> Iterator[Row]:
    """Bytes per token by transition; the paper's figure is a curve with its best in the upper half."""
    size = 32_768
    found = {}
    for share in (0.2, 0.4, 0.6, 0.75, 0.9):
        at = str(round(size * share))
        options = ("--pattern", "superbpe1", "--superwords", "uw", "--transition", at)
        run = trained(texts, f"uw-{at}", "--vocab-size", str(size), *options)
        found[share] = measures(str(run), texts)["bytes_per_token"]
    plain = trained(texts, "uw-plain", "--vocab-size", str(size), "--pattern", "superbpe1")
    for share, value in found.items():
        yield f"bytes per token, transition at {share:.0%} of {size:,} ids", "not readable", f"{value:.3f}"
    yield "bytes per token without superwords", "not readable", f"{measures(str(plain), texts)['bytes_per_token']:.3f}"


def script(texts: Texts) -> Iterator[Row]:
    """Table 2, from what script.py measured."""
    path = RESULTS / "script-multi_60-32000.tsv"
    if not path.exists():
        sys.exit("script: run benchmarks/script.py --corpus multi_60.txt first.")
    told = {
        "bytes-gpt4": ("0.333", "1678"), "bytes-gpt4-whole": ("0.332", "209"),
        "bytes-gpt4o": ("0.282", "5193"), "bytes-gpt4o-whole": ("0.280", "183"),
        "script-script": ("0.293", "6048 or 8048"), "script-script-whole": ("0.289", "0"),
        "script-gpt4o": ("0.284", "8062"), "script-gpt4o-whole": ("0.2801", "0"),
    }  # fmt: skip
    rows = {row.name: row.facts for row in read(path).rows}
    most = float(rows["bytes-gpt4"]["tokens"])
    for name, (tokens, partial) in told.items():
        paper = f"{float(tokens) / 0.333:.3f}"
        yield f"tokens to those of bytes with cl100k: {name}", paper, f"{float(rows[name]['tokens']) / most:.3f}"
        yield f"tokens that are parts of characters: {name}", partial, f"{int(rows[name]['parts_learned']):,}"


TABLES = {
    "boundless": Table(
        "The paper learned from 1 GB of MiniPile and measured on 5 GB; here a hundredth of one text is held out, so "
        "less of every vocabulary is used. Part of this text is code, whose runs of white space are one chunk for gpt4 "
        "and many for the paper's pattern: beside plain BPE with the same pattern superwords gain.",
        boundless,
    ),
    "picky": Table(
        "The paper learned from English and German together, over characters with a word mark; here English alone, "
        "over bytes with the gpt4 pattern.",
        picky,
    ),
    "batch": Table(
        "The paper counted 8.92 billion chunks of FineWeb-Edu; the shares of distinct and of rare chunks follow from "
        "how much was read.",
        batch,
    ),
    "tutorial": Table("WikiText-2, from which the tutorial learned, has a space before every comma.", tutorial),
    "superbpe": Table("The paper learned 200 000 ids from 10 GB; with fewer, another transition is best.", superbpe),
    "script": Table(
        "The paper has a tokenizer of 64 000 ids for each of 12 languages of 300 MB; here one of 32 000 merges is for "
        "a hundred languages in 60 MB, so it learns fewer parts of characters. Tokens are told beside the first row, "
        "the paper's computed from its tokens per character.",
        script,
    ),
}


def main() -> None:
    """Train, measure, write results/papers-*.tsv."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--english", required=True, help=".txt, .txt.zst or .jsonl (field text)")
    parser.add_argument("--mb", type=float, help="only its first MB, to try things out")
    parser.add_argument("--only", action="append", choices=list(TABLES), help="give it once for each")
    parser.add_argument("--work", help="folder for RUNs; those that are there are used again")
    arguments = parser.parse_args()
    work = scratch(arguments.work)
    corpus = prepare(arguments.english, str(work), "blocks", arguments.mb)
    texts = Texts(*hold_out(corpus, work), work)
    for name, table in TABLES.items():
        if arguments.only and name not in arguments.only:
            continue
        rows = list(table.make(texts))
        about = preamble({"corpus": corpus["name"], "difference": table.difference})
        lines = [*(f"# {line}" for line in about), "what\tthe paper\there", *("\t".join(row) for row in rows)]
        (RESULTS / f"papers-{name}.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
        print("\n".join(["", name, *("  ".join(row) for row in rows)]), flush=True)


if __name__ == "__main__":
    main()
