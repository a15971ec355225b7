"""What a model means: a chunk is encoded by replaying the events on it. Every encoder is compared with these.

Inside a chunk the events happen in the order they were learned: among the merges whose pair stands there and the
deletions whose token stands there, take the smallest event index above the last one used, apply it to the whole
chunk, go on. With events 0: a b -> ab, 1: ab c -> abc, 2: delete ab -> a b,

    b"abcab"  ->  a b c a b  -0->  ab c ab  -1->  abc ab  -2->  abc a b

The index must grow: after event 2 the pair a b stands there again, but event 0 is over.
Then superwords: a chunk that ended as one token may join its neighbours, again by smallest index first, but with no
growing rule (a supermerge never undoes another):

    5: " of" " the" -> " of the"      [" of"] [" the"] ["x", "y"]  ->  [" of the"] ["x", "y"]

A chunk that is a stop word is its id, and no supermerge reaches across it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import groupby, pairwise

from streambpe.errors import UnknownSymbol, quoted
from streambpe.model.alphabet import UNKNOWN, Unknown
from streambpe.model.codecs import shown_content
from streambpe.model.eventlog import Op
from streambpe.model.replay import Model, merge, split
from tests.oracles.symbols import symbols_of


def encode_chunk(model: Model, chunk: bytes, unknown: Unknown | None = None) -> list[int]:
    """One chunk -> log ids. A symbol outside the alphabet: an error, or UNKNOWN in a model with unk."""
    if chunk in model.vocabulary.stop_ids:
        return [model.vocabulary.stop_ids[chunk]]
    if unknown is None:
        unknown = "error" if model.header.unk is None else "unk"
    return encode_symbols(model, symbols_of(model.alphabet, chunk, unknown))


def encode_symbols(model: Model, symbols: Sequence[int]) -> list[int]:
    """Replay the merges and deletions on one chunk given as base symbol ids."""
    sequence = list(symbols)
    last = -1
    while True:
        found = [_next_index(model.merges.get(pair, ()), last) for pair in pairwise(sequence)]
        found += [_next_index(model.deletions.get(number, ()), last) for number in sequence]
        last = min((index for index in found if index is not None), default=-1)
        if last < 0:
            return sequence
        event = model.events[last]
        if event.op is Op.DELETE:
            sequence = split(sequence, event.id, event.into)
        else:
            sequence = merge(sequence, event.pair, event.id)


def _next_index(indices: Sequence[int], last: int) -> int | None:
    """The smallest of the growing indices above last."""
    place = bisect_right(indices, last)
    return indices[place] if place < len(indices) else None


def join_chunks(model: Model, encoded: Iterable[Sequence[int]]) -> list[int]:
    """The encoded chunks of one document, in order -> its ids, superwords joined."""
    result: list[int] = []
    run: list[int] = []
    for chunk in encoded:
        if len(chunk) == 1 and chunk[0] not in model.vocabulary.stop_ids.values():
            run.append(chunk[0])
        else:
            result += _join_run(model, run)
            result += chunk
            run = []
    return result + _join_run(model, run)


def _join_run(model: Model, run: list[int]) -> list[int]:
    while True:
        indices = [model.supermerges[pair] for pair in pairwise(run) if pair in model.supermerges]
        if not indices:
            return run
        event = model.events[min(indices)]
        run = merge(run, event.pair, event.id)


def encode_chunks(model: Model, chunks: Iterable[bytes], unknown: Unknown | None = None) -> list[int]:
    """One document, already cut into chunks -> log ids."""
    return join_chunks(model, (encode_chunk(model, chunk, unknown) for chunk in chunks))


def to_model_ids(model: Model, log_ids: Iterable[int]) -> list[int]:
    """Log ids -> model ids; UNKNOWN becomes the model's unknown token."""
    result = []
    for number in log_ids:
        if number == UNKNOWN:
            if model.header.unk is None:
                raise UnknownSymbol("the model has no unknown token")
            result.append(model.special_ids[model.header.unk])
        elif number in model.model_id:
            result.append(model.model_id[number])
        else:
            raise KeyError(f"token {quoted(model.content(number))} (log id {number}) was deleted and has no model id")
    return result


def decode_bytes(model: Model, model_ids: Iterable[int]) -> bytes:
    """Model ids -> the bytes they stand for; special tokens give their text."""
    texts = {number: text.encode() for text, number in model.special_ids.items()}
    texts |= {model.model_id[number]: chunk for chunk, number in model.vocabulary.stop_ids.items()}
    decoded: list[bytes] = []
    for is_text, stretch in groupby(model_ids, texts.__contains__):
        if is_text:
            decoded += [texts[number] for number in stretch]
        else:
            contents = b"".join(model.content(model.log_id[number]) for number in stretch)
            decoded.append(shown_content(model.alphabet, contents))
    return b"".join(decoded)
