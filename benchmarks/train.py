"""From text to vocabulary: streambpe against other trainers; from a chunk table: BatchBPE's rule.

    python benchmarks/train.py --corpus en_100.txt.zst --vocab-size 131072
    python benchmarks/train.py --corpus en_300.txt --vocab-size 131072 --documents lines --pattern gpt2
    python benchmarks/train.py --table fineweb_edu_1gb_counts.csv --vocab-size 50304

With --corpus all read the same documents, split by the same expression (gpt4 unless --pattern names another
preset), with the same number of threads, and write the vocabulary to a file.

streambpe        `train` into a fresh RUN under --memory: counts, learns, writes model.events.jsonl
streambpe-learn  the same on a RUN that was counted before (untimed): learning alone, start-up included. There is one
                 of both for each --memory and for each --learner, the core or the tables
rustbpe          train_from_iterator, then its ranks as tiktoken stores them
tokenizers       BpeTrainer (min_frequency=0, byte level, all 256 bytes in the alphabet), then save
tokenizers-log   with --merge-loop only: the same while it logs its progress, which costs it about a second
gigabpe          train_tokenizer on the file itself; only for --pattern gpt2 and documents that are lines (its own
                 keep their line feed: --documents ended; beside --documents lines its work is the same, not its result)
bpeasy           train_bpe without a bound on token length, then its ranks
ffbpe            its exact word counter and trainer, ties by the smallest pair of ids
sentencepiece    another job: BPE over characters with its own cuts, where documents are lines; for its time alone

`merge loop` is, for rustbpe and tokenizers-log, from the end of their index of pairs to their last merge, as their
own logs tell; for streambpe the fact `batches_s` is the time inside its passes, from its table `batches`.

Whether all did the same job: streambpe runs with --like rustbpe; it, rustbpe, bpeasy and ffbpe must learn the same
tokens in the same order, to the last. tokenizers and gigabpe break ties by another order of ids, so of them is only
told how many tokens they share with the first contender and how many at the start are the same. With --like hf it is
the other way round: streambpe, tokenizers and gigabpe must learn the same merges, part by part, in the same order;
their alphabet then is the bytes seen, as gigabpe has no other.

With --table the contenders start from chunks and counts:

streambpe        `count --counts` and `train`, two processes in a row: table to vocabulary, exact BPE
streambpe-learn  `train` on a RUN that was counted before: what BatchBPE does with its table; many_chunks.py makes a
                 table with more distinct chunks than a limit holds
streambpe-paper  the same with --batch paper, BatchBPE's rule
batchbpe         BatchBPE's rule in plain Python (peers.py), reading of the table included
"""

from __future__ import annotations

import argparse
import shlex
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Any

from corpora import prepare
from count import DISTINCT_RUSTBPE, DISTINCT_TOKENIZERS, TOLERANCE, described, peers
from harness import COMPARING, Contender, Counted, ask, call, chosen, compare, parser, scratch, streambpe

from streambpe.system import usable_cores
from streambpe.text.patterns import find_pattern

MERGES = {"merge loop": ("pairs indexed", "merged")}
RUSTBPE = {"counted": DISTINCT_RUSTBPE, "pairs indexed": "Starting merge loop", "merged": "Finished training"}
TOKENIZERS = {
    "counted": DISTINCT_TOKENIZERS,
    "pairs indexed": r'"Compute merges","current":0',
    "merged": r'"Compute merges","current":(\d+),"total":\1\}',
}


def ours(
    given: argparse.Namespace, counted: Counted, judge: Path, whole: Callable[[list[str]], list[str]]
) -> Iterator[Contender]:
    """What `whole` makes of the options of learning, and learning alone; for each --memory and --learner."""
    options = ["--vocab-size", str(given.vocab_size), "--pattern", given.pattern, "--like", given.like]
    if given.like == "hf":  # as gigabpe does, and tokenizers where it is given no alphabet
        options += ["--alphabet", "seen"]
    if given.threads != usable_cores():  # all cores is the default
        options += ["--threads", str(given.threads)]
    for memory, learner in product(given.memory or ["1GB"], given.learner or ["core"]):
        ending = f" {memory}" * (len(given.memory) > 1) + f" {learner}" * (len(given.learner) > 1)
        learn = [*options, "--memory", memory, "--learner", learner]
        yield Contender(f"streambpe{ending}", whole(learn), outcome=outcome("", judge))
        alone = streambpe("train", "{out}", *learn)
        yield Contender(f"streambpe-learn{ending}", alone, setup=counted.copy, outcome=outcome("", judge))
        if given.table:
            by_batches = outcome("_by_batches", judge)
            command = [*alone, "--batch", "paper"]
            yield Contender(f"streambpe-paper{ending}", command, setup=counted.copy, outcome=by_batches)


def of_corpus(corpus: dict[str, str], given: argparse.Namespace, work: Path, judge: Path) -> list[Contender]:
    """Text to vocabulary. Ours first: ratios are to it."""
    source = [corpus["path"], *(["--lines"] if corpus["kind"] == "lines" else [])]
    counted = Counted(work, [*source, "--pattern", given.pattern])
    by_bytes, by_characters = ("", "_other_ties") if given.like == "rustbpe" else ("_other_ties", "")
    job = {"vocab_size": given.vocab_size, "out": "{out}"}
    read = {"path": corpus["path"], "kind": corpus["kind"], "pattern": find_pattern(given.pattern).expression, **job}
    text = {"path": corpus.get("text", ""), "threads": given.threads, **job}

    def peer(name: str, options: dict[str, Any], ties: str | None, ending: str = "", **more: Any) -> Contender:
        judged = None if ties is None else outcome(ties, judge)
        env = peers(given.threads)
        return Contender(name + ending, call(f"peers:train_{name}", **options), env, outcome=judged, needs=name, **more)

    found = [
        *ours(given, counted, judge, lambda learn: streambpe("train", "{out}", *source, *learn)),
        peer("rustbpe", read, by_bytes, marks=RUSTBPE, spans=MERGES, facts={"distinct": DISTINCT_RUSTBPE}),
        peer("tokenizers", {**read, "all_bytes": given.like != "hf"}, by_characters),
        peer("bpeasy", read, by_bytes),
        peer("ffbpe", read, by_bytes),
    ]
    if corpus.get("text") and given.pattern == "gpt2":
        found.append(peer("gigabpe", text, by_characters))
    if corpus.get("text"):
        found.append(peer("sentencepiece", text, None))
    if given.merge_loop:
        marks, facts = TOKENIZERS, {"distinct": DISTINCT_TOKENIZERS}
        logged = {**read, "log": True}
        found.append(peer("tokenizers", logged, by_characters, "-log", marks=marks, spans=MERGES, facts=facts))
    return found


def of_table(table: str, given: argparse.Namespace, work: Path, judge: Path) -> list[Contender]:
    """Chunk table to vocabulary."""
    counting = [table, "--counts", "--pattern", given.pattern]

    def whole(learn: list[str]) -> list[str]:
        commands = streambpe("count", "{out}", *counting), streambpe("train", "{out}", *learn)
        return ["sh", "-c", " && ".join(map(shlex.join, commands))]

    job: dict[str, Any] = {"table": table, "vocab_size": given.vocab_size, "out": "{out}"}
    theirs = Contender("batchbpe", call("peers:train_batchbpe", **job), outcome=outcome("_by_batches", judge))
    return [*ours(given, Counted(work, counting), judge, whole), theirs]


def outcome(other: str, judge: Path) -> Callable[[Path], Mapping[str, Any]]:
    """How many tokens, their digests, and how far they equal the first contender's.

    Digests of those that learn by another rule get its name (`other`): they are not to be equal.
    """

    def facts(out: Path) -> Mapping[str, Any]:
        found = ask("peers:summary", path=str(out), like=str(judge))
        for digest in ("tokens", "merges"):
            if digest in found:
                found[digest + other] = found.pop(digest)
        if not judge.exists():
            shutil.copyfile(out / "model.events.jsonl" if out.is_dir() else out, judge)
        if (out / "state.duckdb").exists():
            found |= ask("train:inside", run=str(out))
        return found

    return facts


def inside(run: str) -> dict[str, Any]:
    """What a RUN says of its own passes."""
    import duckdb

    try:
        with duckdb.connect(f"{run}/state.duckdb", read_only=True) as con:
            found = con.execute(
                "SELECT mode, count(*), sum(seconds) FROM batches GROUP BY mode ORDER BY mode"
            ).fetchall()
    except duckdb.Error as why:
        return {"batches": f"unknown ({type(why).__name__})"}
    passes = " + ".join(f"{n} {mode}" for mode, n, _ in found)
    return {"passes": passes, "batches_s": round(sum(float(seconds) for _, _, seconds in found), 3)}


def main() -> None:
    """Prepare, measure."""
    options = parser(__doc__, "mb", "threads", "memory", "pattern", *COMPARING)
    what = options.add_mutually_exclusive_group(required=True)
    what.add_argument("--corpus", help=".txt, .txt.zst or .jsonl (field text)")
    what.add_argument("--table", help="chunks and counts, .csv or .parquet")
    options.add_argument("--vocab-size", type=int, required=True)
    options.add_argument("--documents", choices=["blocks", "lines", "ended"], default="blocks", help="see corpora.py")
    options.add_argument("--merge-loop", action="store_true", help="also tokenizers-log")
    options.add_argument("--like", choices=["rustbpe", "hf"], default="rustbpe", help="whose order of ties (above)")
    options.add_argument("--learner", action="append", default=[], choices=["core", "tables"], help="one or both")
    given = options.parse_args()
    work = scratch(given.work)
    judge = work / "first-result"
    judge.unlink(missing_ok=True)
    about = {"job": f"{given.vocab_size} ids, pattern {given.pattern}, threads: {given.threads} each"}
    if given.corpus:
        corpus = prepare(given.corpus, str(work), given.documents, given.mb)
        about["corpus"] = described(corpus)
        name, found = corpus["name"], of_corpus(corpus, given, work, judge)
    else:
        table = Path(given.table).resolve()
        about["table"] = table.name
        name, found = table.stem, of_table(str(table), given, work, judge)
    chosen(found, given.once)  # a name that is none of them is told
    same = {"tokens": 0, "merges": 0, "distinct": TOLERANCE}
    sys.exit(not compare(f"train-{name}-{given.vocab_size}", found, given, about, same))


if __name__ == "__main__":
    main()
