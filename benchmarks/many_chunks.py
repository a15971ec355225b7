"""A table of many distinct chunks with their counts, for learning from more of them than fit in memory.

    python benchmarks/many_chunks.py chunks.parquet --words 17000000
    python benchmarks/train.py --table chunks.parquet --vocab-size 50304 --memory 2GB --memory 256MB \\
        --only "streambpe-learn 2GB" --only "streambpe-learn 256MB" --runs 1 --no-warm-up --name many-chunks

The words are generated (syllables of random letters, counts with a Zipf tail) and the same for a seed. Under a small
limit they lie in blocks on disk and learning goes in stages; under a large one they are indexed in memory. All must
learn the same tokens.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

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
    """Write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", type=Path)
    parser.add_argument("--words", type=int, default=17_000_000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    make_table(given.table, given.words, given.seed)


if __name__ == "__main__":
    main()
