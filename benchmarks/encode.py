"""Encoding, in megabytes of text per second: streambpe against tuetoken, tiktoken, HF tokenizers, rustbpe, tokie,
wordchipper, gigatoken and rs-bpe.

    python benchmarks/encode.py en_100.txt --mb 10 100 --threads 1 2 --rounds 3

TEXT is cut into documents at empty lines. One vocabulary for all: rustbpe learns 32 768 tokens from the first
20 MB under the gpt4 pattern, and every contender gets exactly these merges; their ids are compared by digest.
With `--vocabulary cl100k_base` it is the published one of 100 256 tokens instead, as rs-bpe carries it.
`boundless` is 32 768 ids with superwords, learned by streambpe from the same text; nothing else here encodes it.

    -corpus  a jsonl file to ids in a file        -batch  all documents in one call
    -text    documents one by one, first seen     -short  lines of 20 to 200 characters from behind the MB, one
                                                          by one, in a process that has encoded those MB before
    -array   as -batch, the ids in one array; so are gigatoken's

Every run is a process of its own, contenders take turns, the first round warms the page cache and is left out.
Columns: contender, MB, threads, best and median MB/s (wall), best MB/s of processor time, peak MB, ids, their digest.
CPU time says more than wall time on a machine that others use.
"""

from __future__ import annotations

import hashlib
import json
import os
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from harness import Contender, Table, ask, chosen, parser, there, untimed

VOCAB_SIZE = 32_768
TRAIN_BYTES = 20_000_000
SHORT_TEXTS = 20_000
PLAIN = ("streambpe-corpus", "streambpe-array", "gigatoken", "streambpe-batch", "streambpe-text", "tuetoken-batch",
         "tuetoken-text", "tokie-batch", "tokie-text", "wordchipper-batch", "wordchipper-text", "tiktoken",
         "tokenizers", "rustbpe")  # fmt: skip
SHORT = ("streambpe-short", "tuetoken-short", "tiktoken-short", "tokenizers-short", "rustbpe-short")
BOUNDLESS = ("boundless-corpus", "boundless-batch", "boundless-text", "boundless-short")
PUBLISHED = ("rs_bpe-batch", "rs_bpe-text")  # know published vocabularies only
LEARNED = ("rustbpe", "rustbpe-short", *BOUNDLESS)  # know only what they learned
CL100K = "cl100k_base"
COLUMNS = ("contender", "MB", "threads", "best", "median", "best_cpu", "peak_MB", "ids", "digest")


def read_documents(path: str, mb: int) -> list[str]:
    """The first megabytes of a text as documents."""
    with open(path, "rb") as file:
        text = file.read(mb * 1_000_000).decode("utf-8", "ignore")
    return [part + "\n\n" for part in text.split("\n\n") if part]


def read_short_texts(path: str, mb: int) -> list[str]:
    """Lines of 20 to 200 characters from behind the first megabytes."""
    with open(path, "rb") as file:
        file.seek(mb * 1_000_000)
        lines = file.read(20_000_000).decode("utf-8", "ignore").splitlines()
    return [line for line in lines if 20 <= len(line) <= 200][:SHORT_TEXTS]


def train_rustbpe(path: str) -> Any:
    """The vocabulary everyone gets."""
    import rustbpe

    from streambpe.text.patterns import PRESETS

    tokenizer = rustbpe.Tokenizer()
    documents = read_documents(path, TRAIN_BYTES // 1_000_000)
    tokenizer.train_from_iterator(iter(documents), VOCAB_SIZE, pattern=PRESETS["gpt4"].expression)
    return tokenizer


def published_tokens() -> list[tuple[bytes, int]]:
    """cl100k_base, as rs-bpe carries it."""
    import rs_bpe

    bpe = rs_bpe.openai.cl100k_base().bpe()
    return [(bpe.decode_tokens([rank]), rank) for rank in range(100_256)]


def prepare(path: str, vocabulary: str, folder: str) -> None:
    """Write the vocabulary in every contender's form."""
    import base64

    from streambpe.encode.formats.export import export
    from streambpe.encode.formats.tiktoken_ranks import import_tiktoken
    from streambpe.model.eventlog import write_event_log

    place = Path(folder)
    ranks = published_tokens() if vocabulary == CL100K else train_rustbpe(path).get_mergeable_ranks()
    lines = [base64.b64encode(bytes(token)) + b" %d\n" % rank for token, rank in ranks]
    (place / "v.tiktoken").write_bytes(b"".join(lines))
    log = import_tiktoken(place / "v.tiktoken", "gpt4")
    write_event_log(place / "v.events.jsonl", log)
    export(log, "hf", place / "tokenizer.json")
    if vocabulary == CL100K:
        return
    source = place / "train.jsonl"
    write_jsonl(source, read_documents(path, TRAIN_BYTES // 1_000_000))
    options = ("--pattern", "boundless", "--superwords", "boundless", "--vocab-size", str(VOCAB_SIZE))
    untimed("train", str(place / "run"), str(source), *options)
    (place / "run" / "model.events.jsonl").rename(place / "boundless.events.jsonl")


def write_jsonl(path: Path, documents: list[str]) -> None:
    path.write_text("".join(json.dumps({"text": d}, ensure_ascii=False) + "\n" for d in documents))


def contender(
    name: str, path: str, mb: int, threads: int, folder: Path
) -> tuple[Callable[[], Any], Callable[[Any], Any]]:
    """(the timed job, its result as an array of ids)."""
    kind = name.rpartition("-")[2]
    if kind == "corpus":
        return corpus_job(name, path, mb, threads, folder), lambda ids: ids
    documents = read_documents(path, mb)
    encode, encode_batch = encoders(name, path, threads, folder)
    if kind == "short":
        for document in documents:
            encode(document)
        documents = read_short_texts(path, mb)
    if encode_batch is None or kind in ("short", "text"):
        return lambda: [encode(document) for document in documents], flat
    return lambda: encode_batch(documents), flat


def corpus_job(name: str, path: str, mb: int, threads: int, folder: Path) -> Callable[[], Any]:
    """A file encoded into a file. It is read as a part of the job, so no text in memory is counted as the job's."""
    from streambpe.encode.corpus import encode_corpus
    from streambpe.resources import Resources

    source, output = folder / f"{mb}.jsonl", folder / f"{os.getpid()}.npy"
    if not source.exists():
        write_jsonl(source, read_documents(path, mb))
    tokenizer = load(name, folder)

    def job() -> Any:
        encode_corpus(
            tokenizer, [str(source)], output, dtype="int32", resources=Resources(2 << 30, threads), force=True
        )
        ids = np.load(output)
        output.unlink()
        return ids

    return job


def load(name: str, folder: Path) -> Any:
    from streambpe.encode.tokenizer import Tokenizer

    return Tokenizer(folder / ("boundless.events.jsonl" if name.startswith("boundless") else "v.events.jsonl"))


def encoders(
    name: str, path: str, threads: int, folder: Path
) -> tuple[Callable[[str], list[int]], Callable[[list[str]], list[list[int]]] | None]:
    """(one text -> ids, many texts -> ids of each if that is the library's better way)."""
    library = name.partition("-")[0]
    if library in ("streambpe", "boundless"):
        tokenizer = load(name, folder)
        if name.endswith("-array"):
            return tokenizer.encode, lambda texts: tokenizer.encode_batch_to_numpy(
                texts, num_threads=threads, disallowed_special=()
            )[0]
        return tokenizer.encode_ordinary, lambda texts: tokenizer.encode_ordinary_batch(texts, num_threads=threads)
    if library == "tiktoken":
        import runpy

        from streambpe.encode.formats.export import export

        export(folder / "v.events.jsonl", "tiktoken", folder / "t.tiktoken", force=True)
        encoding = runpy.run_path(str(folder / "t_tiktoken.py"))["encoding"]
        batch = lambda texts: encoding.encode_ordinary_batch(texts, num_threads=threads)  # noqa: E731
        return encoding.encode_ordinary, batch if threads > 1 else None
    if library == "tuetoken":
        import tuetoken

        peer = tuetoken.Tokenizer(str(folder / "tokenizer.json"))
        return peer.encode_ordinary, lambda texts: peer.encode_ordinary_batch(texts, num_threads=threads)
    if library == "gigatoken":
        import gigatoken

        arrays = gigatoken.Tokenizer.from_tiktoken(folder / "v.tiktoken", "gpt4")
        return arrays.encode, lambda texts: arrays.encode_batch(texts, parallel=threads > 1).layout.content.data
    if library == "tokie":
        import tokie

        quick = tokie.Tokenizer.from_json(str(folder / "tokenizer.json"))
        return lambda text: quick.encode(text, add_special_tokens=False).ids, lambda texts: [
            e.ids for e in quick.encode_batch(texts, add_special_tokens=False)
        ]
    if library == "wordchipper":
        return wordchipper_of(folder, threads)
    if library == "rs_bpe":
        import rs_bpe

        published = rs_bpe.openai.cl100k_base()
        options = rs_bpe.openai.ParallelOptions(min_batch_size=2, chunk_size=100, max_threads=threads)
        return published.encode, lambda texts: published.encode_batch_parallel(texts, options)[0]
    if library == "tokenizers":
        from tokenizers import Tokenizer as HfTokenizer

        loaded = HfTokenizer.from_file(str(folder / "tokenizer.json"))
        return lambda text: loaded.encode(text, add_special_tokens=False).ids, lambda texts: [
            e.ids for e in loaded.encode_batch_fast(texts, add_special_tokens=False)
        ]
    return train_rustbpe(path).encode, None


def wordchipper_of(folder: Path, threads: int) -> tuple[Callable[[str], list[int]], Callable[[list[str]], Any]]:
    """wordchipper loads by name, from the folder it downloads to: ours is put there by a known name."""
    cached = folder / "io.crates.wordchipper/openai/cl100k_base/cl100k_base.tiktoken"
    cached.parent.mkdir(parents=True, exist_ok=True)
    cached.write_bytes((folder / "v.tiktoken").read_bytes())
    os.environ["XDG_CACHE_HOME"] = str(folder)
    import wordchipper

    options = wordchipper.TokenizerOptions.default()
    options.set_parallel(threads > 1)
    peer = wordchipper.Tokenizer.from_pretrained(CL100K, options)
    return peer.encode, peer.encode_batch


def flat(lists: Any) -> Any:
    if isinstance(lists, np.ndarray):  # that was the job
        return lists
    return np.fromiter((number for ids in lists for number in ids), np.int32)


def run_one(name: str, path: str, mb: int, threads: int, folder: str) -> dict[str, Any]:
    """One run, in this process."""
    job, as_array = contender(name, path, mb, threads, Path(folder))
    wall, cpu = time.perf_counter(), time.process_time()
    result = job()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    ids = as_array(result).astype("<i4")
    digest = hashlib.sha256(ids.tobytes()).hexdigest()[:16]
    size = sum(map(len, map(str.encode, read_short_texts(path, mb)))) if name.endswith("short") else mb * 1_000_000
    return {"mb": size / 1e6, "wall": wall, "cpu": cpu, "peak": peak, "ids": len(ids), "digest": digest}


def measure(name: str, path: str, mb: int, threads: int, folder: Path) -> dict[str, Any]:
    """One run, in a process of its own."""
    environment = {
        "POLARS_MAX_THREADS": str(threads),
        "RAYON_NUM_THREADS": str(threads),
        "TOKENIZERS_PARALLELISM": "true" if threads > 1 else "false",
        "OMP_NUM_THREADS": str(threads),
    }
    given = {"name": name, "path": path, "mb": mb, "threads": threads, "folder": str(folder)}
    answer: dict[str, Any] = ask("encode:run_one", environment, **given)
    return answer


def library_of(name: str) -> str:
    """The package that a contender needs; ours is there."""
    return "" if name.startswith(("streambpe", "boundless")) else name.partition("-")[0]


def main() -> None:
    """Parse the arguments and write the table."""
    options = parser(__doc__, "no-warm-up", "name", name="encode")
    options.add_argument("text")
    options.add_argument("--mb", type=int, nargs="+", default=[10])
    options.add_argument("--threads", type=int, nargs="+", default=[1])
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--only", nargs="+", help="contenders (default: all that know the vocabulary)")
    options.add_argument("--vocabulary", choices=["learned", CL100K], default="learned")
    given = options.parse_args()
    if given.vocabulary == CL100K and not there("rs_bpe"):
        print("Nothing is measured: rs-bpe, which carries this vocabulary, is not installed.", file=sys.stderr)
        return
    strangers = LEARNED if given.vocabulary == CL100K else PUBLISHED
    everyone = [name for name in (*PLAIN, *PUBLISHED, *SHORT, *BOUNDLESS) if name not in strangers]
    if wrong := [name for name in given.only or () if name in strangers]:
        options.error(f"the vocabulary is {given.vocabulary}: {', '.join(wrong)} cannot encode by it")
    found = [Contender(name, (), needs=library_of(name)) for name in everyone]
    names = [contender.name for contender in chosen(found, given.only)]
    about = {"job": f"MB of text a second, vocabulary {given.vocabulary}", "load": f"{os.getloadavg()[0]:.1f}"}
    with tempfile.TemporaryDirectory() as made, Table(given.name, about, COLUMNS) as table:
        folder = Path(made)
        # in a process of its own: a child's peak of memory begins at its parent's
        ask("encode:prepare", path=given.text, vocabulary=given.vocabulary, folder=made)
        for mb, threads in product(given.mb, given.threads):
            runs: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
            for round_number, name in product(range(given.no_warm_up, given.rounds + 1), names):
                answer = measure(name, given.text, mb, threads, folder)
                if round_number:
                    runs[name].append(answer)
            for name, answers in runs.items():
                speeds = [answer["mb"] / answer["wall"] for answer in answers]
                cpu = max(answer["mb"] / answer["cpu"] for answer in answers)
                figures = [f"{speed:.1f}" for speed in (max(speeds), statistics.median(speeds), cpu)]
                peak = max(answer["peak"] for answer in answers)
                table.add(name, mb, threads, *figures, f"{peak:.0f}", answers[0]["ids"], answers[0]["digest"])


if __name__ == "__main__":
    main()
