"""From text to vocabulary: streambpe beside other trainers; from a chunk table: BatchBPE's rule.

    python benchmarks/train.py --corpus en_100.txt.zst --vocab-size 131072
    python benchmarks/train.py --corpus en_300.txt --vocab-size 131072 --documents lines --pattern gpt2
    python benchmarks/train.py --table fineweb_edu_1gb_counts.csv --vocab-size 50304

With --corpus all read the same documents, split by the same expression (gpt4 unless --pattern names another
preset), with the same number of threads, and write the vocabulary to a file.

streambpe        `train` into a fresh RUN under --memory: counts, learns, writes model.events.jsonl
streambpe-learn  the same on a RUN that was counted before (untimed): learning alone, start-up included
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
streambpe-learn  `train` on a RUN that was counted before: what BatchBPE does with its table
streambpe-paper  the same with --batch paper, BatchBPE's rule
batchbpe         BatchBPE's rule in plain Python (peers.py), reading of the table included
"""

from __future__ import annotations

import argparse
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from corpora import prepare
from count import DISTINCT_RUSTBPE, DISTINCT_TOKENIZERS, TOLERANCE, expression_of, peers
from harness import Contender, ask, call, chosen, compare, copy_run, scratch, streambpe

from streambpe.system import usable_cores

MERGES = {"merge loop": ("pairs indexed", "merged")}


def learning(arguments: argparse.Namespace, memory: str) -> list[str]:
    """The options of `streambpe train` that say what is learned."""
    options = ["--vocab-size", str(arguments.vocab_size), "--pattern", arguments.pattern]
    options += ["--like", arguments.like, "--memory", memory]
    if arguments.like == "hf":  # as gigabpe does, and tokenizers where it is given no alphabet
        options += ["--alphabet", "seen"]
    if arguments.threads != usable_cores():  # all cores is the default
        options += ["--threads", str(arguments.threads)]
    return options


def of_corpus(corpus: dict[str, str], arguments: argparse.Namespace, work: Path, judge: Path) -> list[Contender]:
    """Text to vocabulary. Ours first: ratios are to it."""
    source = [corpus["path"], *(["--lines"] if corpus["kind"] == "lines" else [])]
    counted = Counted(work, [*source, "--pattern", arguments.pattern])
    by_bytes, by_characters = ("", "_other_ties") if arguments.like == "rustbpe" else ("_other_ties", "")
    found = []
    for memory in arguments.memory or ["1GB"]:
        more = f" {memory}" if len(arguments.memory) > 1 else ""
        found += [
            Contender(
                f"streambpe{more}",
                streambpe("train", "{out}", *source, *learning(arguments, memory)),
                outcome=outcome("", judge),
            ),
            Contender(
                f"streambpe-learn{more}",
                streambpe("train", "{out}", *learning(arguments, memory)),
                setup=counted.copy,
                outcome=outcome("", judge),
            ),
        ]
    job = {"path": corpus["path"], "kind": corpus["kind"], "pattern": expression_of(arguments.pattern)}
    job |= {"vocab_size": arguments.vocab_size, "out": "{out}"}
    env = peers(arguments.threads)
    found += [
        Contender(
            "rustbpe",
            call("peers:train_rustbpe", **job),
            env,
            marks={
                "counted": DISTINCT_RUSTBPE,
                "pairs indexed": "Starting merge loop",
                "merged": "Finished training",
            },
            spans=MERGES,
            facts={"distinct": DISTINCT_RUSTBPE},
            outcome=outcome(by_bytes, judge),
        ),
        Contender(
            "tokenizers",
            call("peers:train_tokenizers", **job, all_bytes=arguments.like != "hf"),
            env,
            outcome=outcome(by_characters, judge),
        ),
        Contender("bpeasy", call("peers:train_bpeasy", **job), env, outcome=outcome(by_bytes, judge)),
        Contender("ffbpe", call("peers:train_ffbpe", **job), env, outcome=outcome(by_bytes, judge)),
    ]
    if "text" in corpus and arguments.pattern == "gpt2":
        own = {"path": corpus["text"], "vocab_size": arguments.vocab_size, "threads": arguments.threads, "out": "{out}"}
        found.append(
            Contender("gigabpe", call("peers:train_gigabpe", **own), env, outcome=outcome(by_characters, judge))
        )
    if "text" in corpus:
        own = {"path": corpus["text"], "vocab_size": arguments.vocab_size, "threads": arguments.threads, "out": "{out}"}
        found.append(
            Contender(
                "sentencepiece",
                call("peers:train_sentencepiece", **own),
                env,
                note="another job: cuts and characters of its own",
            )
        )
    if arguments.merge_loop:
        found.append(
            Contender(
                "tokenizers-log",
                call("peers:train_tokenizers", **job, log=True),
                env,
                marks={
                    "counted": DISTINCT_TOKENIZERS,
                    "pairs indexed": r'"Compute merges","current":0',
                    "merged": r'"Compute merges","current":(\d+),"total":\1\}',
                },
                spans=MERGES,
                facts={"distinct": DISTINCT_TOKENIZERS},
                outcome=outcome(by_characters, judge),
            )
        )
    return found


def of_table(table: str, arguments: argparse.Namespace, work: Path, judge: Path) -> list[Contender]:
    """Chunk table to vocabulary."""
    counting = [table, "--counts", "--pattern", arguments.pattern]
    counted = Counted(work, counting)
    memory = (arguments.memory or ["1GB"])[0]
    train = streambpe("train", "{out}", *learning(arguments, memory))
    both = f"{shlex.join(streambpe('count', '{out}', *counting))} && {shlex.join(train)}"
    batchbpe: dict[str, Any] = {"table": table, "vocab_size": arguments.vocab_size, "out": "{out}"}
    return [
        Contender("streambpe-learn", train, setup=counted.copy, outcome=outcome("", judge)),
        Contender("streambpe", ["sh", "-c", both], outcome=outcome("", judge)),
        Contender(
            "streambpe-paper",
            [*train, "--batch", "paper"],
            setup=counted.copy,
            outcome=outcome("_by_batches", judge),
        ),
        Contender("batchbpe", call("peers:train_batchbpe", **batchbpe), outcome=outcome("_by_batches", judge)),
    ]


class Counted:
    """A RUN counted once, untimed, when the first contender wants it; every run trains on its own copy."""

    def __init__(self, work: Path, counting: list[str]) -> None:
        self.run, self.counting = work / "counted-for-train", counting
        shutil.rmtree(self.run, ignore_errors=True)

    def copy(self, out: Path) -> None:
        if not (self.run / "state.duckdb").exists():
            subprocess.run(streambpe("count", str(self.run), *self.counting), check=True, capture_output=True)
        copy_run(self.run, out)


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
    """Prepare, measure, report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--corpus", help=".txt, .txt.zst or .jsonl (field text)")
    what.add_argument("--table", help="chunk,count csv")
    parser.add_argument("--vocab-size", type=int, required=True)
    parser.add_argument(
        "--documents", choices=["blocks", "lines", "ended"], default="blocks", help="of a text (corpora.py)"
    )
    parser.add_argument(
        "--merge-loop", action="store_true", help="also tokenizers with its log, which tells its stages"
    )
    parser.add_argument("--mb", type=float, help="only the first MB of the corpus, to try things out")
    parser.add_argument("--pattern", default="gpt4", help="a preset of streambpe (default: gpt4)")
    parser.add_argument("--like", choices=["rustbpe", "hf"], default="rustbpe", help="whose order of ties (above)")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument(
        "--memory", action="append", default=[], metavar="SIZE", help="streambpe's limit; more than one to compare"
    )
    parser.add_argument("--only", action="append", metavar="CONTENDER", help="give it once for each to keep")
    parser.add_argument("--once", action="append", default=[], metavar="CONTENDER", help="one run of it: it takes long")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--no-warm-up", action="store_true", help="for runs of many minutes")
    parser.add_argument("--timeout", type=float, default=3600, help="seconds for one run")
    parser.add_argument("--name", help="of the result files (default: train-, the corpus and the size)")
    parser.add_argument("--work", help="folder for prepared corpora and RUNs, on the disk to be measured")
    arguments = parser.parse_args()
    work = scratch(arguments.work)
    judge = work / "first-result"
    judge.unlink(missing_ok=True)
    about = {"job": f"{arguments.vocab_size} ids, pattern {arguments.pattern}, threads: {arguments.threads} each"}
    if arguments.corpus:
        corpus = prepare(arguments.corpus, str(work), arguments.documents, arguments.mb)
        size = ask("corpora:describe", path=corpus["path"], kind=corpus["kind"])
        about["corpus"] = (
            f"{corpus['name']}, {size['bytes'] / 1e6:.1f} MB of text in {size['documents']} documents "
            f"({corpus['documents']}, read as {corpus['kind']})"
        )
        name, found = corpus["name"], of_corpus(corpus, arguments, work, judge)
    else:
        table = Path(arguments.table).resolve()
        about["table"] = table.name
        name, found = table.stem, of_table(str(table), arguments, work, judge)
    chosen(found, arguments.once)  # a name that is none of them is told
    good = compare(
        arguments.name or f"train-{name}-{arguments.vocab_size}",
        chosen(found, arguments.only),
        runs=arguments.runs,
        warm_up=not arguments.no_warm_up,
        work=work,
        about=about,
        timeout_seconds=arguments.timeout,
        same={"tokens": 0, "merges": 0, "distinct": TOLERANCE},
        once=arguments.once,
    )
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
