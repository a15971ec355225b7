"""A model made ready to encode: its tables for the core, and the core's encoders, one for each working thread.

`replay.Model` holds the events by what they merge, delete and join; the core (core/encode.h) replays them. Here the
core is told which symbols, pairs, stop words and splits there are, and what it cannot do is done: --normalize and
--unencodable, runs of scripts, a pattern of the user's own, and messages.

A stream of ids has END_OF_TEXT behind every document. Where superwords stay open it holds log ids, with WHOLE set on
whole chunks; `model_ids` holds the model id of each.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from streambpe.core.encoding import (
    CACHE_BYTES,
    END_OF_TEXT,
    NO_LIMIT,
    WHOLE,
    WINDOW,
    BlockIds,
    EncoderCore,
    Ids,
    ModelTables,
    NumberedEvents,
    SymbolRefused,
    TokenDead,
)
from streambpe.core.strings import as_buffers
from streambpe.errors import ModelError, UnknownSymbol, quoted
from streambpe.later import polars as pl
from streambpe.model.alphabet import UNKNOWN
from streambpe.model.codecs import Codec, codec_for
from streambpe.model.eventlog import EventLog, Op
from streambpe.model.events import OPS
from streambpe.model.replay import Model
from streambpe.store.models import encoding_pattern
from streambpe.text.chunker import Chunker, chunks_of, core_split
from streambpe.text.marks import END_MARK
from streambpe.text.patterns import Pattern
from streambpe.text.prepare import Normalize, UnencodableText, prepare, refuse_other_tables
from streambpe.text.script_blocks import Unencodable

Pair = tuple[int, int]
Lengths = npt.NDArray[np.int64]
_HELD = 1 << 14  # ids of an open run that are held before it is asked which of them are certain


def as_utf8(text: str) -> bytes:
    """Text as UTF-8. Lone surrogates are no characters: pairs become what they stand for, others U+FFFD."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()
    except AttributeError:
        raise TypeError(f"text={text!r:.80}: a str is expected.") from None


class Encoder:
    """One model, immutable but for what is built on first use; safe to share between threads.

    Another process gets its arrays alone, without model and events: enough to encode blocks. What a deleted token is
    called only an encoder with its model can tell.
    """

    def __init__(self, log: EventLog, vocab_size: int | None = None, window: int = WINDOW) -> None:
        self.model = Model(log, vocab_size)
        vocabulary = self.model.vocabulary
        self.header = log.header
        self.stop_ids = {chunk.decode(): number for chunk, number in vocabulary.stop_ids.items()}
        self.n_log = vocabulary.first_id + len(vocabulary.tokens)
        self.model_ids: Ids = np.full(self.n_log + 2, -1, np.int32)
        self.model_ids[list(self.model.model_id)] = list(self.model.model_id.values())
        self.model_ids[END_OF_TEXT] = END_OF_TEXT
        if log.header.unk is not None:
            self.model_ids[UNKNOWN] = self.model.special_ids[log.header.unk]
        self.has_superwords = bool(self.model.supermerges)
        self._window = window
        self._begin()

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[EncoderCore] = []
        config = self.header.config
        self.normalize: Normalize = config.get("normalize", "none")
        refuse_other_tables(self.normalize)
        self.unencodable: Unencodable = config.get("unencodable", "bytes")
        # whether the core is handed text as it is
        splits = core_split(self.pattern) is not None and not self.pattern.script_expression
        self._is_plain = splits and self.normalize == "none" and self.unencodable == "bytes"

    def __getstate__(self) -> dict[str, Any]:
        return {"header": self.header, "stop_ids": self.stop_ids, "_named_tables": self.named_tables}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._begin()
        self._named_tables.split_by(core_split(self.pattern))

    @cached_property
    def pattern(self) -> Pattern:
        """What text is split by."""
        return encoding_pattern(self.header.config)

    @cached_property
    def codec(self) -> Codec:
        """Text to base symbols and back."""
        return codec_for(self.header)

    def prepare(self, text: bytes) -> tuple[bytes, int]:
        """Text in UTF-8, with or without marks, ready to be split, and how many characters were dropped."""
        try:
            return prepare(text, self.normalize, self.unencodable)
        except UnencodableText as why:
            raise UnknownSymbol(f"{why}, and the model was trained with --unencodable error.") from None

    def core(self, cache_bytes: int = CACHE_BYTES, limit: int = NO_LIMIT) -> EncoderCore:
        """An encoder to model ids for one thread."""
        return EncoderCore(self.named_tables, cache_bytes, limit)

    def refused(self, why: Exception, chunks: Iterable[str]) -> Exception:
        """The error for what the core refused; the codec raises its own if it finds one. `chunks`: what was encoded."""
        if isinstance(why, TokenDead):
            return self._dead(int(why.args[0])) if hasattr(self, "model") else why
        for chunk in chunks:
            if chunk not in self.stop_ids:
                self.codec.refuse_unknown(chunk)
        return why

    # Tables.

    @cached_property
    def _events(self) -> NumberedEvents:
        model, first = self.model, self.model.vocabulary.first_id
        sizes = np.zeros(self.n_log, np.int32)
        sizes[first:] = [len(token.base) for token in model.vocabulary.tokens]
        made = model.events.column("id").tolist()
        return NumberedEvents(made, model.merges, model.deletions, model.events.into, model.supermerges, sizes)

    @cached_property
    def _named_tables(self) -> ModelTables:
        unk = self.header.unk
        return ModelTables(
            self._events,
            self.codec.symbols,
            core_split(self.pattern),
            stop_words=self.model.vocabulary.stop_ids,
            borders=sorted(self.borders),
            backwards=not self._grows,
            names=self.model_ids[: self.n_log],
            unknown_name=-1 if unk is None else self.model.special_ids[unk],
            window=self._window,
            contents=[token.content for token in self.model.vocabulary.tokens],
        )

    @property
    def named_tables(self) -> ModelTables:
        """The model's arrays, which give model ids; built on first use."""
        with self._lock:
            return self._named_tables

    def _take(self, limit: int = NO_LIMIT) -> EncoderCore:
        """An idle encoder, or a new one. Whoever took it puts it back, but not after an error."""
        try:
            core = self._idle.pop()
        except IndexError:
            return self.core(limit=limit)
        core.set_limit(limit)
        return core

    def _log_core(self) -> EncoderCore:
        """An encoder to log ids. What it is given is distinct, so a cache would find nothing."""
        return EncoderCore(self.named_tables, 0, named=False)

    @cached_property
    def _grows(self) -> bool:
        """Whether taking the smallest index first never goes back: every superword is made only before it is used."""
        made = self.model.supermerges
        ids = self.model.events.column("id")
        last_made = {int(ids[index]): index for index in sorted(made.values())}
        return all(last_made.get(part, -1) < index for pair, index in made.items() for part in pair)

    @cached_property
    def borders(self) -> set[Pair]:
        """Pairs of whole chunks that some superword holds side by side; no other chunks are ever joined."""
        events, alphabet = self.model.events, self.model.alphabet
        ids = events.column("id")
        joins = [(pair, int(ids[index])) for index, pair in sorted((i, p) for p, i in self.model.supermerges.items())]
        chunks = {*ids[events.column("op") == OPS.index(Op.MERGE)].tolist(), *alphabet.id_of.values()}
        tokens = {number for (left, right), new in joins for number in (left, right, new)}
        first, last = ({number: {number} & chunks for number in tokens} for _ in range(2))  # chunks at a token's ends
        found: set[Pair] = set()
        # a token that two supermerges make may gain ends after it was used, so go on until nothing changes
        while True:
            before = len(found), *map(len, first.values()), *map(len, last.values())
            for (left, right), new in joins:
                found.update((a, b) for a in last[left] for b in first[right])
                first[new] |= first[left]
                last[new] |= last[right]
            if (len(found), *map(len, first.values()), *map(len, last.values())) == before:
                return found

    # Text to model ids.

    def split(self, text: str) -> list[str]:
        """The chunks of one text, made ready as the training's text was (--unencodable, --normalize)."""
        return chunks_of(self.pattern, self.prepare(as_utf8(text))[0].decode())

    def id_list(self, text: bytes) -> list[int]:
        """One text in UTF-8 -> its model ids."""
        if not self._is_plain:
            ids: list[int] = self.block(text)[0].body.tolist()
            return ids
        core = self._take()
        try:
            ids = core.id_list(text)
        except (SymbolRefused, TokenDead) as why:
            raise self.refused(why, chunks_of(self.pattern, text.decode())) from None
        self._idle.append(core)
        return ids

    def block(
        self, text: bytes, hold: int = 0, chunker: Chunker | None = None, limit: int = NO_LIMIT
    ) -> tuple[BlockIds, int]:
        """A counting buffer, or a stretch of a text whose ends stay open as `hold` says -> (its model ids, how many
        characters --unencodable drop left out). `limit`: of memory for a long chunk."""
        chunker = chunker or Chunker(self.pattern)
        text, dropped = self.prepare(text)
        core = self._take(limit)
        try:
            if chunker.preset is not None:
                made = core.block(chunker.ready(text), hold)
            else:
                made = core.block_of_rows(*chunker.rows(text), hold)
        except (SymbolRefused, TokenDead) as why:
            split = (chunks_of(chunker.pattern, part.decode()) for part in text.split(END_MARK))
            raise self.refused(why, chain.from_iterable(split)) from None
        self._idle.append(core)
        return made, dropped

    # Chunks to log ids.

    def encode_distinct(self, chunks: pl.Series) -> tuple[Ids, Lengths]:
        """Chunks of text -> (their log ids, ids of each; with WHOLE set if there are superwords)."""
        try:
            return self._log_core().chunks(*as_buffers(chunks.cast(pl.String)))
        except SymbolRefused as why:
            raise self.refused(why, chunks) from None

    def encode_many(self, symbols: Ids, lengths: Lengths) -> tuple[Ids, Lengths]:
        """Chunks as base symbols, one after another -> (their log ids, ids of each)."""
        return self._log_core().replayed(symbols, lengths)

    def encode_chunk(self, chunk: str) -> list[int]:
        """One chunk of text -> log ids."""
        ids, _ = self.encode_distinct(pl.Series([chunk], dtype=pl.String))
        return [number & ~WHOLE if number >= WHOLE else number for number in ids.tolist()]

    # Log ids to model ids.

    def to_model_ids(self, log_ids: Ids) -> Ids:
        """Log ids -> model ids; END_OF_TEXT stays."""
        found = self.model_ids[log_ids]
        if len(dead := log_ids[(found < 0) & (log_ids >= 0)]):
            raise self._dead(int(dead[0]))
        return found

    def _dead(self, log_id: int) -> ModelError:
        return ModelError(
            f"The text encodes to token {quoted(self.model.content(log_id))} (log id {log_id}), which was deleted and "
            "has no model id. Only --delete-to pair leaves such tokens; train with --delete-to bytes."
        )


class RunJoiner:
    """Puts together what superwords may join across the borders of blocks; blocks come in order.

    Of a run without an end it gives what is certain each time so much is held; what is not is held until more came.
    """

    def __init__(self, encoder: Encoder, carry: Ids | Sequence[int] = ()) -> None:
        self._encoder = encoder
        self._hold(np.array(carry, np.int32))

    def _hold(self, ids: Ids) -> None:
        self._held, self._size, self._most = [ids], len(ids), max(_HELD, 2 * len(ids))

    @property
    def carry(self) -> Ids:
        """Whole chunks that the next block may join with."""
        return np.concatenate(self._held)

    def join(self, block: BlockIds) -> Ids:
        """The model ids that are certain now, END_OF_TEXT behind every document."""
        self._held.append(block.head)
        self._size += len(block.head)
        if not block.closed and self._size <= self._most:
            return block.body  # there is none
        run = self.carry
        certain = len(run) if block.closed else self._core.certain(run)
        self._hold(block.tail if block.closed else run[certain:].copy())
        return np.concatenate([self.joined(run[:certain]), block.body]) if certain else block.body

    @cached_property
    def _core(self) -> EncoderCore:
        return self._encoder.core(0)

    def joined(self, run: Ids) -> Ids:
        """Log ids with WHOLE set on whole chunks -> model ids with superwords joined."""
        try:
            return self._core.joined(run)
        except TokenDead as why:
            raise self._encoder.refused(why, []) from None
