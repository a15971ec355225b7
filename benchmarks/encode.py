"""Megabytes of text a second, turned to ids: streambpe beside tiktoken, Hugging Face tokenizers and rustbpe.

    python benchmarks/encode.py TEXT --mb 10 100 --threads 1 2 --rounds 3 > benchmarks/results/encode.tsv

TEXT is cut into documents at empty lines. One vocabulary for all: rustbpe learns 32 768 tokens from the first
20 MB under the gpt4 pattern, and every contender gets exactly these merges; their ids are compared by digest.
`boundless` is the same vocabulary under the boundless pattern with 8 000 superwords on top, made by joining the
most frequent neighbours in rounds: made for speed, not for quality, since nothing else here encodes superwords.

Every run is a process of its own, contenders take turns, the first round warms the page cache and is left out.
Columns: contender, MB, threads, best and median MB/s (wall), best MB/s of processor time, peak MB, ids, digest.
CPU time says more than wall time on a machine that others use.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

VOCAB_SIZE = 32_768
TRAIN_BYTES = 20_000_000
SUPERWORDS = 8_000
PLAIN = ("streambpe-corpus", "streambpe-batch", "streambpe-text", "tiktoken", "tokenizers", "rustbpe")


def read_documents(path: str, mb: int) -> list[str]:
    """The first megabytes of a text as documents."""
    with open(path, "rb") as file:
        text = file.read(mb * 1_000_000).decode("utf-8", "ignore")
    return [part + "\n\n" for part in text.split("\n\n") if part]


def train_rustbpe(path: str) -> Any:
    """The vocabulary everyone gets."""
    import rustbpe

    from streambpe.encode.patterns import PRESETS

    tokenizer = rustbpe.Tokenizer()
    documents = read_documents(path, TRAIN_BYTES // 1_000_000)
    tokenizer.train_from_iterator(iter(documents), VOCAB_SIZE, pattern=PRESETS["gpt4"].expression)
    return tokenizer


def prepare(path: str, folder: Path) -> None:
    """Write the vocabulary in every contender's form."""
    import base64

    from streambpe.encode.eventlog import write_event_log
    from streambpe.encode.formats.export import export
    from streambpe.encode.formats.tiktoken_ranks import import_tiktoken

    ranks = train_rustbpe(path).get_mergeable_ranks()
    lines = [base64.b64encode(bytes(token)) + b" %d\n" % rank for token, rank in ranks]
    (folder / "v.tiktoken").write_bytes(b"".join(lines))
    log = import_tiktoken(folder / "v.tiktoken", "gpt4")
    write_event_log(folder / "v.events.jsonl", log)
    export(log, "hf", folder / "tokenizer.json")
    write_event_log(folder / "boundless.events.jsonl", add_superwords(log, read_documents(path, 10)))


def add_superwords(log: Any, documents: list[str]) -> Any:
    """The same merges, and supermerges of the most frequent neighbours."""
    import polars as pl
    import regex

    from streambpe.encode.eventlog import EventLog, Header, supermerge_event
    from streambpe.encode.replay import Model
    from streambpe.encode.tokenizer import Tokenizer

    tokenizer = Tokenizer(EventLog(Header(log.header.alphabet, {"pattern": "boundless"}), log.events))
    eligible = regex.compile(r"^(?=.+\p{L})(?:\p{L}\p{M}*|[ _'\u2019])+$")
    wholes: list[int] = []
    for document in documents:
        for chunk in tokenizer.encoder.pattern.split(document):
            ids = tokenizer.encoder.encode_chunk(chunk)
            wholes.append(ids[0] if len(ids) == 1 and eligible.match(chunk) else -1)
    stream = np.array(wholes, np.int32)
    events = list(log.events)
    vocabulary = Model(log).vocabulary
    while len(events) < len(log.events) + SUPERWORDS:
        left, right = stream[:-1], stream[1:]
        both = (left >= 0) & (right >= 0)
        pairs = pl.DataFrame({"left": left[both], "right": right[both]}).group_by("left", "right").len()
        used: set[int] = set()
        for a, b, n in pairs.sort("len", "left", "right", descending=[True, False, False]).head(2000).iter_rows():
            if a in used or b in used:
                continue
            used |= {a, b}
            before = len(vocabulary.tokens)
            number = vocabulary.learn(a, b)
            if len(vocabulary.tokens) == before:
                continue
            events.append(supermerge_event(a, b, number, n))
            at = np.flatnonzero((stream[:-1] == a) & (stream[1:] == b))
            stream[at] = number
            stream[at + 1] = -3
        stream = stream[stream != -3]
    return EventLog(Header(log.header.alphabet, {"pattern": "boundless", "superwords": "boundless"}), tuple(events))


def contender(
    name: str, path: str, mb: int, threads: int, folder: Path
) -> tuple[Callable[[], Any], Callable[[Any], Any]]:
    """(the timed job, its result as lists of ids)."""
    source = folder / f"{mb}.jsonl"
    # files are read as a part of the job, so that the texts in memory are not counted as the job's
    documents = [] if name.endswith("corpus") and source.exists() else read_documents(path, mb)
    if name.startswith(("streambpe", "boundless")):
        from streambpe.config import Resources
        from streambpe.encode.corpus import encode_corpus
        from streambpe.encode.tokenizer import Tokenizer

        boundless = name.startswith("boundless")
        tokenizer = Tokenizer.load(folder / ("boundless.events.jsonl" if boundless else "v.events.jsonl"))
        if name.endswith("corpus"):
            if not source.exists():
                source.write_text("".join(json.dumps({"text": d}, ensure_ascii=False) + "\n" for d in documents))
            output = folder / f"{os.getpid()}.npy"

            def corpus() -> Any:
                encode_corpus(tokenizer, [str(source)], output, dtype="int32", resources=Resources(2 << 30, threads))
                ids = np.load(output)
                output.unlink()
                return ids

            return corpus, lambda ids: ids
        if name.endswith("batch"):
            return lambda: tokenizer.encode_ordinary_batch(documents, num_threads=threads), flat
        return lambda: [tokenizer.encode_ordinary(document) for document in documents], flat
    if name == "tiktoken":
        import runpy

        from streambpe.encode.formats.export import export

        export(folder / "v.events.jsonl", "tiktoken", folder / "t.tiktoken")
        encoding = runpy.run_path(str(folder / "t.tiktoken.py"))["encoding"]
        if threads == 1:
            return lambda: [encoding.encode_ordinary(document) for document in documents], flat
        return lambda: encoding.encode_ordinary_batch(documents, num_threads=threads), flat
    if name == "tokenizers":
        from tokenizers import Tokenizer as HfTokenizer

        loaded = HfTokenizer.from_file(str(folder / "tokenizer.json"))
        return lambda: [e.ids for e in loaded.encode_batch_fast(documents, add_special_tokens=False)], flat
    trained = train_rustbpe(path)
    return lambda: [trained.encode(document) for document in documents], flat


def flat(lists: list[list[int]]) -> Any:
    return np.fromiter((number for ids in lists for number in ids), np.int32)


def run_one(name: str, path: str, mb: int, threads: int, folder: Path) -> None:
    """One run, in this process; prints a JSON line."""
    if name == "prepare":
        prepare(path, folder)
        print("{}")
        return
    job, as_array = contender(name, path, mb, threads, folder)
    wall, cpu = time.perf_counter(), time.process_time()
    result = job()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    ids = as_array(result).astype("<i4")
    digest = hashlib.sha256(ids.tobytes()).hexdigest()[:16]
    print(json.dumps({"wall": wall, "cpu": cpu, "peak": peak, "ids": len(ids), "digest": digest}))


def measure(name: str, path: str, mb: int, threads: int, folder: Path) -> dict[str, Any]:
    """One run, in a process of its own."""
    environment = {
        **os.environ,
        "POLARS_MAX_THREADS": str(threads),
        "RAYON_NUM_THREADS": str(threads),
        "TOKENIZERS_PARALLELISM": "true" if threads > 1 else "false",
        "OMP_NUM_THREADS": str(threads),
    }
    command = [sys.executable, __file__, path, "--one", name, "--mb", str(mb), "--threads", str(threads)]
    done = subprocess.run([*command, "--folder", str(folder)], env=environment, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{name} failed: {done.stderr[-2000:]}")
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def main() -> None:
    """Parse the arguments and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text")
    parser.add_argument("--mb", type=int, nargs="+", default=[10])
    parser.add_argument("--threads", type=int, nargs="+", default=[1])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="+", default=[*PLAIN, "boundless-corpus", "boundless-text"])
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        run_one(arguments.one, arguments.text, arguments.mb[0], arguments.threads[0], Path(arguments.folder))
        return
    with tempfile.TemporaryDirectory() as made:
        folder = Path(arguments.folder or made)
        if not (folder / "boundless.events.jsonl").exists():
            # in a process of its own: a child's peak of memory begins at its parent's
            measure("prepare", arguments.text, 0, 1, folder)
        print("contender", "MB", "threads", "best", "median", "best_cpu", "peak_MB", "ids", "digest", sep="\t")
        for mb in arguments.mb:
            for threads in arguments.threads:
                runs: dict[str, list[dict[str, Any]]] = {name: [] for name in arguments.only}
                for round_number in range(arguments.rounds + 1):
                    for name in arguments.only:
                        answer = measure(name, arguments.text, mb, threads, folder)
                        if round_number:
                            runs[name].append(answer)
                digests = {answers[0]["digest"] for name, answers in runs.items() if name in PLAIN}
                if len(digests) > 1:
                    print(f"the ids differ: {digests}", file=sys.stderr)
                for name, answers in runs.items():
                    speeds = [mb / answer["wall"] for answer in answers]
                    cpu = max(mb / answer["cpu"] for answer in answers)
                    peak = max(answer["peak"] for answer in answers)
                    numbers = f"{max(speeds):.1f}\t{statistics.median(speeds):.1f}\t{cpu:.1f}\t{peak:.0f}"
                    print(name, mb, threads, numbers, answers[0]["ids"], answers[0]["digest"], sep="\t", flush=True)


if __name__ == "__main__":
    main()
