"""BatchBPE: figures 1, 2, 4 and 5, and what its sections 2 and 3 say."""

from __future__ import annotations

import statistics
from collections.abc import Iterator

from harness import untimed
from paper_texts import Curve, Row, Table, Texts, asked, learned_from, measured, trained

IDS = 50_304
STOP_LISTS = (1, 2, 5, 10, 20, 50, 100, 150, 200)
CUT_OFFS = (2, 3, 4, 5, 6, 7, 8, 9, 10)
SHARES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0)  # of the text, as it is read
RARE = 10
SPANS = 32  # of the merges, for the mean batch of each


def rows(texts: Texts) -> Iterator[Row]:
    """Figures 4 and 5, and all that is said in words."""
    run = trained(texts, "batch", "--vocab-size", str(IDS), "--pattern", "gpt4", "--like", "batch")
    n = [int(cells[0]) for cells in asked(run, "SELECT n FROM chunk_counts ORDER BY n DESC")]
    yield "distinct of all chunks", "0.19 % of 8.92 billion", f"{len(n) / sum(n):.2%} of {sum(n) / 1e6:.1f} million"
    yield "share of the 100 most frequent", "45.25 %", f"{sum(n[:100]) / sum(n):.2%}"
    rare = sum(count < 4 for count in n) / len(n)
    yield "distinct chunks that occur fewer than 4 times", "75 %", f"{rare:.1%}"
    yield "distinct chunks at a cut-off of 10", "about a tenth", f"{sum(count >= 10 for count in n) / len(n):.1%}"
    sizes = [int(cells[0]) for cells in asked(run, "SELECT events FROM batches ORDER BY batch")]
    sizes = [size for size in sizes if size]
    peak = sum(sizes[: sizes.index(max(sizes))]) / sum(sizes)
    yield "mean batch", "often 200 or more", f"{statistics.fmean(sizes):.0f}"
    yield "merges made when a batch is largest", "about a third", f"{peak:.0%}"
    yield "the last batches", "fall by powers of two", " ".join(map(str, sizes[-6:]))
    options = ("--vocab-size", str(IDS), "--like", "batch")
    base = measured(f"{run}:main", texts).values["tokens"]
    for stop in STOP_LISTS:
        learned_from(run, f"stop{stop}", *options, "--stop-list", str(stop))
        change = measured(f"{run}:stop{stop}", texts).values["tokens"] / base - 1
        yield f"tokens of the text, stop list of {stop}", "-0.0083 % to +0.0483 %", f"{change:+.4%}"
    for cut in CUT_OFFS:
        learned_from(run, f"cut{cut}", *options, "--freq-cutoff", str(cut))
        change = measured(f"{run}:cut{cut}", texts).values["tokens"] / base - 1
        yield f"tokens of the text, cut-off {cut}", "a slight fall at 2, then a slight rise", f"{change:+.4%}"


def distinct(texts: Texts) -> Curve:
    """Figure 1: distinct chunks beside all of them, the more is read."""
    lines = texts.learn.read_bytes().splitlines(keepends=True)
    found = []
    for share in SHARES:
        part, run = texts.work / "batch-part.jsonl", texts.work / f"batch-{share}"
        part.write_bytes(b"".join(lines[: round(len(lines) * share)]))
        if not (run / "state.duckdb").exists():
            untimed("count", str(run), str(part), "--pattern", "gpt4")
        ((kinds, every),) = asked(run, "SELECT count(*), sum(n) FROM chunk_counts")
        million = [f"{int(number) / 1e6:.4f}" for number in (every, kinds)]
        found.append([*million, f"{100 * int(kinds) / int(every):.3f}"])
    told = "17.03 million distinct chunks of 8.92 billion at the end: 0.19 % (figure 1)"
    columns = ["million chunks read", "million distinct", "percent distinct"]
    return Curve(columns, found, told)


def rare(texts: Texts) -> Curve:
    """Figure 2: how many distinct chunks occur so many times."""
    run = trained(texts, "batch", "--vocab-size", str(IDS), "--pattern", "gpt4", "--like", "batch")
    query = f"SELECT least(n, {RARE}) AS times, count(*) FROM chunk_counts GROUP BY times ORDER BY times"
    counted = [(int(times), int(kinds)) for times, kinds in asked(run, query)]
    total = sum(kinds for _, kinds in counted)
    found = [[str(times), f"{100 * kinds / total:.2f}"] for times, kinds in counted]
    told = "75 % occur fewer than 4 times, most of them once (figure 2)"
    columns = [f"occurrences ({RARE}: or more)", "percent of distinct chunks"]
    return Curve(columns, found, told)


def batches(texts: Texts) -> Curve:
    """Section 3.5: how large batches are, as merges are made."""
    run = trained(texts, "batch", "--vocab-size", str(IDS), "--pattern", "gpt4", "--like", "batch")
    sizes = [int(cells[0]) for cells in asked(run, "SELECT events FROM batches ORDER BY batch")]
    made, spans = 0, {}
    for size in filter(None, sizes):
        spans.setdefault(made * SPANS // IDS, []).append(size)
        made += size
    found = [[str((span + 1) * IDS // SPANS), f"{statistics.fmean(some):.0f}"] for span, some in spans.items()]
    told = "largest when about a third of the merges are made; the last ones fall by powers of two (sections 3.5, 3.6)"
    return Curve(["merges up to", "mean batch"], found, told)


TABLE = Table(
    "The paper counted 8.92 billion chunks of FineWeb-Edu, 400 times as many as here; the shares of distinct and "
    "of rare chunks follow from how much was read. Batches are by the paper's rule (`--like batch`).",
    rows,
    {"distinct": distinct, "rare": rare, "batches": batches},
)
