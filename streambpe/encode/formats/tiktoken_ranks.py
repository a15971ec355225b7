"""tiktoken rank files: written and read. `base64(token) rank` lines; pattern and special tokens stand outside.

tiktoken joins the two neighbours whose *bytes together* have the lowest rank, so the order of the ids is
the order of the merges, and every token is a merge whether it was learned as one or not. tiktoken and the
model agree on every text if each token is made by one pair alone and the merges make just that token of its
bytes. For where neighbours spell a token, no merge so far reached across its ends, so the neighbours are what
the merges make of its bytes on the way: the learned pair. Models learned here are like that; imported ones may
not be, so `ranks_and_pattern` checks it.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
from collections import Counter
from pathlib import Path

import numpy as np

from streambpe.encode.encoder import Encoder
from streambpe.encode.formats.flat import flatten, portable
from streambpe.encode.formats.hf import log_from_merges, preset_of
from streambpe.errors import ModelError
from streambpe.model.eventlog import EventLog
from streambpe.text.patterns import PRESETS


def ranks_and_pattern(encoder: Encoder) -> tuple[dict[bytes, int], str, dict[str, int], list[str]]:
    """(ranks, pattern, special tokens, what is lost): the arguments of tiktoken.Encoding."""
    flat = flatten(encoder, "tiktoken")
    if flat.kind == "chars":
        raise ModelError(
            "tiktoken's tokens are bytes; this model's symbols are characters. Nothing was written. Use --to hf."
        )
    lost = list(flat.lost)
    if not lost and (otherwise := _made_otherwise(encoder)):
        lost.append(
            f"tokens that several pairs make, or that are not what the merges make of their bytes: {otherwise}. "
            f"tiktoken makes them wherever their bytes come together."
        )
    ranks = {content: number for number, content in flat.tokens.items()}
    missing = [bytes([byte]) for byte in range(256) if bytes([byte]) not in ranks]
    # tiktoken wants all 256; those the model lacks get numbers behind all ids
    first_free = encoder.model.alphabet.first_id + flat.n_vocab
    ranks.update((symbol, first_free + i) for i, symbol in enumerate(missing))
    if missing and encoder.header.alphabet["kind"] != "utf8":
        lost.append(
            f"{len(missing)} bytes are not in the model's alphabet; here they have ids from {first_free} on that the "
            f"model does not know."
        )
    expression = flat.expression or r"(?s:.+)"
    expression = portable(expression, flat.is_preset, "rust")
    if flat.keeps_gaps:
        expression = f"{expression}|(?:(?!{expression})(?s:.))+"
    return ranks, expression, flat.specials, lost


def _made_otherwise(encoder: Encoder) -> int:
    """How many learned tokens are made by more than one pair, or are not what the merges make of their bytes."""
    model = encoder.model
    makers = Counter(event.id for event in model.events)
    learned = [model.vocabulary[number] for number in makers]
    symbols = np.array([symbol for token in learned for symbol in token.base], np.int32)
    ids, counts = encoder.encode_many(symbols, np.array([len(token.base) for token in learned], np.int64))
    firsts = ids[np.cumsum(counts) - counts].tolist()
    same = zip(learned, firsts, counts.tolist(), strict=True)
    return sum(makers[token.id] > 1 or (first, count) != (token.id, 1) for token, first, count in same)


def export_tiktoken(encoder: Encoder, path: Path) -> tuple[list[Path], list[str]]:
    """Write the ranks and, beside them, a Python file that makes the Encoding; (files, what is lost)."""
    ranks, expression, specials, lost = ranks_and_pattern(encoder)
    ordered = sorted(ranks.items(), key=lambda item: item[1])
    path.write_bytes(b"".join(base64.b64encode(content) + b" %d\n" % rank for content, rank in ordered))
    snippet = path.with_name(path.name + ".py")
    snippet.write_text(
        f'''"""{path.name} as a tiktoken Encoding: `from {snippet.stem.replace(".", "_")} import encoding`."""

import base64
from pathlib import Path

import tiktoken

lines = (Path(__file__).parent / {path.name!r}).read_bytes().splitlines()
ranks = {{base64.b64decode(token): int(rank) for token, rank in (line.split() for line in lines)}}
encoding = tiktoken.Encoding(
    name={path.stem!r},
    pat_str={expression!r},
    mergeable_ranks=ranks,
    special_tokens={json.dumps(specials, ensure_ascii=True)},
)
''',
        encoding="utf-8",
    )
    return [path, snippet], lost


def import_tiktoken(path: str | os.PathLike[str], pattern: str, specials: tuple[str, ...] = ()) -> EventLog:
    """Ranks as an event log: each token's merge is what the lower ranks make of its bytes.

    `specials` get the ids behind the last rank, in their order.
    """
    ranks: dict[bytes, int] = {}
    try:
        for line in Path(path).read_bytes().splitlines():
            if line:
                token, number = line.split()
                ranks[base64.b64decode(token, validate=True)] = int(number)
    except (OSError, ValueError, binascii.Error) as why:
        raise ModelError(f"{path} is no file of tiktoken ranks (`base64 rank` lines): {why}.") from None
    return log_of_ranks(ranks, pattern, specials, str(path))


def log_of_ranks(ranks: dict[bytes, int], pattern: str, specials: tuple[str, ...], path: str) -> EventLog:
    """The event log of ranks that are in memory; `path` is for messages."""
    merges = []
    for content, rank in sorted(ranks.items(), key=lambda item: item[1]):
        if len(content) > 1:
            merges.append(_last_merge(content, rank, ranks, path))
    last = max(ranks.values(), default=-1)
    name, _ = preset_of(pattern)
    config = {"pattern": name, "gaps": "refuse" if name in PRESETS else "drop"}
    return log_from_merges(ranks, merges, {t: last + 1 + i for i, t in enumerate(specials)}, config, path)


def _last_merge(content: bytes, rank: int, ranks: dict[bytes, int], name: str) -> tuple[bytes, bytes]:
    """The two tokens that the ranks below `rank` make of a token's bytes."""
    parts = [content[i : i + 1] for i in range(len(content))]
    while len(parts) > 2:
        found = [(ranks[parts[i] + parts[i + 1]], i) for i in range(len(parts) - 1) if parts[i] + parts[i + 1] in ranks]
        if not found or min(found)[0] >= rank:
            raise ModelError(
                f"{name}: the token {content!r} (rank {rank}) is {len(parts)} tokens under the ranks below it, "
                f"not two; these ranks are no list of merges."
            )
        i = min(found)[1]
        parts[i : i + 2] = [parts[i] + parts[i + 1]]
    return parts[0], parts[1]
