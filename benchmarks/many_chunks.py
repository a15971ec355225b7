"""Learning from more distinct chunks than fit in memory: 17 million of them under --memory 2GB.

    python benchmarks/many_chunks.py --memory 2GB --memory 8GB

Makes a table of distinct generated words (syllables of random letters, counts with a Zipf tail, the same for a seed),
counts it into a RUN (untimed) and learns from copies of that RUN, once for each --memory. Under 2 GB the words lie
in blocks on disk and learning goes in stages; under 8 GB they are indexed in memory. All must learn the same tokens.

There is no warm-up: a run takes minutes, and reading its input is a small part.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from harness import Contender, compare, scratch, streambpe
from train import Counted, outcome

_LETTERS = np.frombuffer(b"etaoinshrdlucmfwypvbgkjqxz", np.uint8)
_SYLLABLES = 3000
_BATCH = 1_000_000


def _falling(size: int, exponent: float) -> np.ndarray:
    shares = 1 / np.arange(1, size + 1) ** exponent
    return shares / shares.sum()


def make_table(path: Path, words: int, seed: int) -> None:
    """A Parquet count table of `words` distinct words of about ten letters."""
    rng = np.random.default_rng(seed)
    letter_shares, syllable_shares = _falling(len(_LETTERS), 0.9), _falling(_SYLLABLES, 0.8)
    syllables = [rng.choice(_LETTERS, n, p=letter_shares).tobytes().decode() for n in rng.integers(2, 5, _SYLLABLES)]
    names = np.array(syllables, dtype=object)
    temporary = path.with_suffix(".new")
    schema = pa.schema([("chunk", pa.string()), ("count", pa.int64())])
    seen: set[str] = set()
    with pq.ParquetWriter(temporary, schema, compression="zstd") as writer:
        while len(seen) < words:
            many = rng.choice([1, 2, 3, 4, 5], _BATCH, p=[0.05, 0.25, 0.35, 0.25, 0.1])
            picked = rng.choice(_SYLLABLES, int(many.sum()), p=syllable_shares)
            ends = np.cumsum(many)
            spelled = names[picked].tolist()
            made = dict.fromkeys(
                "".join(spelled[end - n : end]) for end, n in zip(ends.tolist(), many.tolist(), strict=True)
            )
            fresh = [word for word in made if word not in seen][: words - len(seen)]
            seen.update(fresh)
            rank = rng.integers(0, words, len(fresh))
            counts = np.maximum(1, 3e8 / (rank + 10) ** 1.05).astype(np.int64)
            writer.write_table(pa.table([pa.array(fresh, pa.string()), pa.array(counts)], schema=schema))
    temporary.rename(path)


def main() -> None:
    """Prepare, measure, report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--words", type=int, default=17_000_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--vocab-size", type=int, default=50304)
    parser.add_argument("--memory", action="append", default=[], metavar="SIZE", help="a contender for each")
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--work", help="folder for the table and RUNs, on the disk to be measured")
    arguments = parser.parse_args()
    work = scratch(arguments.work)
    table = work / f"chunks-{arguments.words}-{arguments.seed}.parquet"
    if not table.exists():
        make_table(table, arguments.words, arguments.seed)
    judge = work / "first-result"
    judge.unlink(missing_ok=True)
    counted = Counted(work, [str(table), "--counts", "--memory", "4GB"])
    good = compare(
        f"many-chunks-{arguments.words}",
        [
            Contender(
                f"streambpe {memory}",
                streambpe("train", "{out}", "--vocab-size", str(arguments.vocab_size), "--memory", memory),
                setup=counted.copy,
                outcome=outcome("", judge),
            )
            for memory in arguments.memory or ["2GB"]
        ],
        runs=arguments.runs,
        warm_up=False,
        work=work,
        about={"job": f"{arguments.words} distinct chunks to {arguments.vocab_size} ids", "table": table.name},
        same={"tokens": 0},
    )
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
