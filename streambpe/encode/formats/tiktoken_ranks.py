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
import os
import re
from collections import Counter
from pathlib import Path

from streambpe.encode.encoder import Encoder
from streambpe.encode.formats.flat import Made, flatten, not_made_of_their_bytes, portable
from streambpe.encode.formats.foreign import last_merge, log_from_merges, read_text, split_config
from streambpe.errors import ModelError
from streambpe.model.eventlog import EventLog
from streambpe.text.patterns import PRESETS


def ranks_and_pattern(encoder: Encoder) -> tuple[dict[bytes, int], str, dict[str, int], list[str]]:
    """(ranks, pattern, special tokens, what is lost): the arguments of tiktoken.Encoding."""
    flat = flatten(encoder, "tiktoken")
    lost = list(flat.lost)
    if not lost:
        makers = Counter(event.id for event in encoder.model.events)
        otherwise = {number for number, many in makers.items() if many > 1}.union(not_made_of_their_bytes(encoder))
        lost += [
            f"tokens that several pairs make, or that are not what the merges make from their bytes: {len(otherwise)}. "
            "tiktoken makes them wherever their bytes occur."
        ] * bool(otherwise)
    ranks = {content: number for number, content in flat.tokens.items()}
    missing = [bytes([byte]) for byte in range(256) if bytes([byte]) not in ranks]
    # tiktoken wants all 256; those the model lacks get numbers behind all ids
    first_free = encoder.model.alphabet.first_id + encoder.model.n_vocab
    ranks.update((symbol, first_free + i) for i, symbol in enumerate(missing))
    if missing and encoder.header.alphabet["kind"] != "utf8":
        lost.append(
            f"bytes that are not in the model's alphabet ({len(missing)}): in this file they have ids from "
            f"{first_free} on, which the model does not have."
        )
    expression = r"(?s:.+)"
    if flat.expression:
        expression = portable(flat.expression, encoder.pattern.name != "regex", "rust")
    if encoder.pattern.keep_gaps:
        expression = f"{expression}|(?:(?!{expression})(?s:.))+"
    return ranks, expression, flat.specials, lost


def tiktoken_files(encoder: Encoder, path: Path) -> Made:
    """The ranks and, beside them, a Python file that makes the Encoding."""
    ranks, expression, specials, lost = ranks_and_pattern(encoder)
    numbered = sorted((number, token) for token, number in ranks.items())
    lines = [f"{base64.b64encode(token).decode()} {number}\n" for number, token in numbered]
    place = snippet_of(path)
    text = f'''"""The ranks beside this file as a tiktoken Encoding: `from {place.stem} import encoding`."""

import base64
from pathlib import Path

import tiktoken

lines = (Path(__file__).parent / {path.name!a}).read_bytes().splitlines()
ranks = {{base64.b64decode(token): int(rank) for token, rank in (line.split() for line in lines)}}
encoding = tiktoken.Encoding(
    name={path.stem!a},
    pat_str={expression!a},
    mergeable_ranks=ranks,
    special_tokens={specials!a},
)
'''
    return Made({path: "".join(lines).encode(), place: text.encode()}, lost)


def snippet_of(path: Path) -> Path:
    """Where the Python file beside ranks is: en_tiktoken.py beside en.tiktoken, so that Python can import it."""
    name = re.sub(r"\W", "_", path.name, flags=re.ASCII)
    return path.with_name(f"{'_' * name[0].isdigit()}{name}.py")


def looks_like_ranks(head: bytes) -> bool:
    """Whether a file that begins so may hold ranks: its first line is base64, a blank, a number."""
    return re.match(rb"\s*[A-Za-z0-9+/]+={0,2} \d+\s", head + b"\n") is not None


def import_tiktoken(path: str | os.PathLike[str], pattern: str, specials: tuple[str, ...] = ()) -> EventLog:
    """Ranks as an event log: each token's merge is what the lower ranks make of its bytes.

    `specials` get the ids behind the last rank, in their order.
    """
    ranks = read_ranks(path)
    last = max(ranks.values(), default=-1)
    return log_of_ranks(ranks, pattern, {text: last + 1 + i for i, text in enumerate(specials)}, str(path))


def read_ranks(path: str | os.PathLike[str]) -> dict[bytes, int]:
    """The ranks in a file."""
    ranks: dict[bytes, int] = {}
    try:
        for line in filter(str.strip, read_text(Path(path)).split("\n")):
            token, number = line.split()
            ranks[base64.b64decode(token, validate=True)] = int(number)
    except ValueError as why:
        raise ModelError(f"{path} is not a file of tiktoken ranks (`base64 rank` lines): {why}.") from None
    return ranks


def log_of_ranks(ranks: dict[bytes, int], pattern: str, specials: dict[str, int], path: str) -> EventLog:
    """The event log of ranks that are in memory; `path` is for messages."""
    learned = sorted((rank, content) for content, rank in ranks.items() if len(content) > 1)
    merges = [last_merge(content, rank, ranks, path) for rank, content in learned]
    config = split_config("rust", True, path, pattern)
    if config["pattern"] in PRESETS:
        config["gaps"] = "refuse"
    return log_from_merges(ranks, merges, specials, config, path)
