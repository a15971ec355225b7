"""What every other program's tokenizer can hold: a list of tokens, a list of merges, one pattern.

Plain BPE without stop words and `uw` models are exactly that. Other models lose something, and
`FlatModel.lost` says in words what; nothing is lost silently. The forms were chosen by measurement:

- superwords (boundless, superbpe): one list of merges in the order of the log, and a pattern that keeps
  runs of word chunks whole. A flat list cannot ask that both sides be whole chunks, so here and there a
  superword forms over part of a word.
- deletions: deleted tokens are left out, with the merges they took part in, and whole chunks that are
  tokens are taken at once (`ignore_merges`). A token that was built through a deleted one is built of
  what the other merges leave of its text, if that is two tokens; else only a whole chunk can become it.
- stop words: likewise by `ignore_merges`.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import regex

from streambpe.encode.encoder import Encoder
from streambpe.errors import ModelError, quoted
from streambpe.model.alphabet import BYTE_KINDS, byte_to_character
from streambpe.model.eventlog import Event, Op
from streambpe.text.dialects import Dialect, Unsayable, translated
from streambpe.text.expressions import alternatives
from streambpe.text.patterns import Pattern

_CHARACTER = byte_to_character()
_BYTE = {character: byte for byte, character in _CHARACTER.items()}


def shown(content: bytes) -> str:
    """Bytes as GPT-2's printable characters: b" the" -> "Ġthe"."""
    return "".join(map(_CHARACTER.__getitem__, content))


def unshown(text: str) -> bytes:
    """The bytes behind `shown`; KeyError if a character stands for none."""
    return bytes(map(_BYTE.__getitem__, text))


class FlatModel(msgspec.Struct, frozen=True):
    """Tokens by model id, merges by rank."""

    encoder: Encoder
    tokens: dict[int, bytes]
    merges: list[tuple[bytes, bytes]]
    expression: str  # as `regex` reads it; "" for none
    ignore_merges: bool
    lost: list[str]

    @property
    def of_characters(self) -> bool:
        """Whether its symbols are characters; else they are bytes."""
        return bool(self.encoder.header.alphabet["kind"] == "chars")

    @property
    def specials(self) -> dict[str, int]:
        """The ids of special tokens."""
        return self.encoder.model.special_ids

    def text(self, content: bytes) -> str:
        """How tokenizer.json writes a token."""
        return content.decode() if self.of_characters else shown(content)


class Made(NamedTuple):
    """What an export comes to, before it is written."""

    files: dict[Path, bytes]
    lost: Sequence[str] = ()  # what the format cannot hold, in sentences


def flatten(encoder: Encoder, to: str) -> FlatModel:
    """The model as tokens, merges and a pattern. ModelError if its symbols are nothing `to` could read."""
    model, header = encoder.model, encoder.header
    refuse_unsayable(encoder, to)
    lost: list[str] = []
    stops = model.vocabulary.stop_ids  # a token that spells one gives way to it
    contents = {number: model.content(log_id) for number, log_id in model.log_id.items()}
    tokens = {n: content for n, content in contents.items() if stops.get(content, model.log_id[n]) == model.log_id[n]}
    deleted = sum(1 for event in model.events if event.op is Op.DELETE)
    ranked = _merges_of_the_living(encoder, set(tokens.values())) if deleted else _merges_in_order(encoder)
    if deleted:
        reachable = {left + right for left, right in ranked} | {*stops, *model.alphabet.symbols}
        behind = sum(1 for content in tokens.values() if content not in reachable)
        lost.append(
            f"deletions ({deleted}): merge lists cannot delete tokens. Deleted tokens are left out; living ones that "
            f"were made from them ({behind}) are only found as whole chunks."
        )
    elif again := again_after_use(model.events):
        lost.append(
            f"tokens made again after a merge that uses them ({shown_tokens(encoder, again)}): in a list of merges, "
            "the earlier one always applies."
        )
    if stops:
        twice = len(contents) - len(tokens)
        lost.append(
            f"stop words ({len(stops)}): stored by taking whole chunks without merging, which then happens to every "
            "chunk that is a token."
            + (f" Learned tokens that spell a stop word ({twice}) do not have their own ids." if twice else "")
        )
    pattern = encoder.pattern
    expression = pattern.expression
    if encoder.has_superwords:
        expression = whole_runs(pattern)
        lost.append(
            "superwords: a flat list of merges cannot require whole chunks on both sides. The pattern keeps words "
            "together, and a superword may contain a part of a word."
        )
    if pattern.script_expression:
        lost.append("--split-scripts: other programs use one pattern for the whole text; the main one was written.")
    lost += lost_preparation(header.config, to == "hf")
    return FlatModel(encoder, tokens, ranked, expression, bool(deleted or stops), lost)


def merged_by_rank(
    parts: list[bytes], rank_of: Callable[[bytes, bytes], int | None], below: int = 1 << 62
) -> list[bytes]:
    """Neighbours merged, the pair of the lowest rank first and the leftmost of equal ones, until two parts are left or
    no pair has a rank under `below`.

    a b c d, ranks bc 1, ab 2, "bc d" 3   ->   a bc d   ->   a bcd
    """
    parts, after, before = list(parts), list(range(1, len(parts) + 1)), list(range(-1, len(parts) - 1))
    waiting: list[tuple[int, int, int, int]] = []  # rank, left place, right place, bytes of both

    def wait(left: int) -> None:
        right = after[left]
        if left >= 0 and right < len(parts):
            rank = rank_of(parts[left], parts[right])
            if rank is not None and rank < below:
                heapq.heappush(waiting, (rank, left, right, len(parts[left]) + len(parts[right])))

    for left in range(len(parts)):
        wait(left)
    count = len(parts)
    while count > 2 and waiting:
        _, left, right, size = heapq.heappop(waiting)
        if after[left] != right or len(parts[left]) + len(parts[right]) != size:
            continue  # one of the two has been merged since
        parts[left] += parts[right]
        after[left], after[right], parts[right] = after[right], -1, b""
        if after[left] < len(parts):
            before[after[left]] = left
        count -= 1
        if before[left] >= 0:
            wait(before[left])
        wait(left)
    return [part for part in parts if part]


def again_after_use(events: Sequence[Event]) -> list[int]:
    """Tokens that a merge makes although a merge before it has them as a part, by log id.

    An event log goes through its merges once, so the earlier one is over for them; whoever takes the first of a list of
    merges that applies goes back to it. Without such tokens both take the same merges: a pair that comes to stand
    somewhere has the token that was just made, and every merge of that token is still to come.
    """
    used: set[int] = set()
    again = {}
    for event in events:
        if event.op is not Op.DELETE:
            if event.id in used:
                again[event.id] = True
            used.update(event.pair)
    return list(again)


def not_made_of_their_bytes(encoder: Encoder) -> list[int]:
    """Learned tokens that are not what the merges make of their bytes, by log id."""
    learned = [encoder.model.vocabulary[number] for number in dict.fromkeys(e.id for e in encoder.model.events)]
    symbols = np.array([symbol for token in learned for symbol in token.base], np.int32)
    ids, counts = encoder.encode_many(symbols, np.array([len(token.base) for token in learned], np.int64))
    firsts = ids[np.cumsum(counts) - counts].tolist()
    same = zip(learned, firsts, counts.tolist(), strict=True)
    return [token.id for token, first, count in same if (first, count) != (token.id, 1)]


def shown_tokens(encoder: Encoder, ids: Sequence[int]) -> str:
    """The first few of some tokens, for a message."""
    return ", ".join(repr(encoder.model.content(number)) for number in ids[:3])


def refuse_unsayable(encoder: Encoder, to: str) -> None:
    """ModelError for base symbols that are no bytes, and for a pattern that is no regular expression; tokenizer.json
    also has characters, and words of its own for marked words."""
    kind = encoder.header.alphabet["kind"]
    if kind not in BYTE_KINDS and not (kind == "chars" and to == "hf"):
        raise ModelError(
            f"Programs that read {to} know no base symbols of kind {quoted(kind)}. Nothing was written. --to events "
            f"can export them, and --to hf characters; for {to}, train with --encoding bytes."
        )
    if encoder.pattern.by_rules and not (encoder.pattern.word_mark and to == "hf"):
        raise ModelError(
            f"--pattern {encoder.pattern.name} splits by rules, but programs that read {to} only know regular "
            "expressions. Nothing was written. --to events can export it."
        )


def lost_preparation(config: dict[str, Any], normalizes: bool) -> list[str]:
    """What this model's training did to its text and a reader leaves undone; `normalizes`: it can do NFC."""
    lost = []
    if config.get("normalize") == "nfc" and not normalizes:
        lost.append("--normalize nfc: the reader has to normalise text to NFC itself.")
    if config.get("unencodable", "bytes") != "bytes":
        lost.append(
            f"--unencodable {config['unencodable']}: the reader treats characters outside the SCRIPT table like others."
        )
    return lost


def _merges_in_order(encoder: Encoder) -> list[tuple[bytes, bytes]]:
    content = encoder.model.content
    pairs = (event.pair for event in encoder.model.events)
    return list(dict.fromkeys((content(left), content(right)) for left, right in pairs))


def _merges_of_the_living(encoder: Encoder, alive: set[bytes]) -> list[tuple[bytes, bytes]]:
    """Merges among living tokens, in the order of latest births.

    A token whose parts were deleted later gets the two tokens that the merges before it make of its text, if
    they make two.
    """
    model = encoder.model
    makers: dict[int, list[tuple[bytes, bytes]]] = {}
    for event in model.events:
        if event.op is not Op.DELETE:
            pair = (model.content(event.pair[0]), model.content(event.pair[1]))
            if pair[0] in alive and pair[1] in alive:
                makers.setdefault(event.id, []).append(pair)
    ranks: dict[tuple[bytes, bytes], int] = {}
    for number in model.vocabulary.living:
        token = model.vocabulary[number]
        if len(token.base) < 2:
            continue
        for pair in makers.get(number, []):
            ranks.setdefault(pair, len(ranks))
        if number not in makers:
            symbols = [model.content(symbol) for symbol in token.base]
            parts = merged_by_rank(symbols, lambda left, right: ranks.get((left, right)))
            if len(parts) == 2:
                ranks.setdefault((parts[0], parts[1]), len(ranks))
    return list(ranks)


# Chunks that a pattern's alternatives are tried on, to find those that match words.
_WORDS = (
    " the", "the", " The", "The", " THE", "I", " a", "'s", "don't", " don't", " d'été", "_name", "über", "中文", " 中"
)  # fmt: skip


def whole_runs(pattern: Pattern) -> str:
    """The pattern with its alternatives for words gathered into one that takes a run of words whole."""
    listed = alternatives(pattern.expression)
    words = [a for a in listed if any(regex.fullmatch(a, word) for word in _WORDS)]
    rest = [a for a in listed if a not in words]
    # an alternative that covers everything (.+) would swallow the text
    everything = [a for a in words if regex.fullmatch(a, "a. 1-b")]
    words = [a for a in words if a not in everything]
    if not words:
        return pattern.expression
    return "|".join([f"(?:{'|'.join(words)})+", *rest, *everything])


def portable(expression: str, is_preset: bool, target: Dialect) -> str:
    """An expression of the `regex` module for another program. ModelError if it is not known to split alike there."""
    try:
        return translated(expression, "rust" if is_preset else "regex", target)  # for presets, $ is just the end
    except Unsayable as why:
        raise ModelError(
            f"The pattern {expression!r:.200} has {why}, which expressions of other programs cannot say exactly. "
            "Nothing was written. Use --to events, or train with another --pattern."
        ) from None
