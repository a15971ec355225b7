"""train --must: chunks that are tokens in the end, whatever they count.

What a must-have lacks is its tokens less one: as many merges make it a token, or fewer. Words are learned while ids are
left beside those that all must-haves lack. Then the must-haves are learned from as words are, each standing once, until
each is one token; these merges are made in the words too, and counted there. With what they share they need fewer ids
than they lack, and learning goes on with those that are left.

    lacking 4     hyper tens ion · hyper tens ive
    merges        (hyper, tens), (hypertens, ion), (hypertens, ive)     and one more is learned from the words

No merge makes what the must-haves lack more, so the first place where as many ids are left is the same however many
merges are made at a time.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path

import numpy as np

from streambpe.arrays import MAX_COUNT, Int32, Int64
from streambpe.config import TrainConfig
from streambpe.core.encoding import Tally
from streambpe.count_config import CountConfig
from streambpe.encode.bulk import BulkReplay
from streambpe.encode.encoder import Encoder
from streambpe.errors import UsageError
from streambpe.model.alphabet import UNKNOWN
from streambpe.model.codecs import codec_of
from streambpe.model.events import Events
from streambpe.plurals import counted
from streambpe.store.passes import MUST_HAVES, PassRow
from streambpe.text.chunker import chunks_of
from streambpe.text.prepare import prepare
from streambpe.text.shown import shown
from streambpe.train.engine.engine import Engine
from streambpe.train.engine.learning import Parts
from streambpe.train.engine.rules import Batch, Words
from streambpe.train.engine.state import State
from streambpe.train.training import Start
from streambpe.train.words import open_columns, write_columns


def chunk_of(text: str, config: TrainConfig, how: CountConfig, where: str = "") -> str:
    """The chunk that a must-have is; UsageError if it is none by itself, or may not be learned.

    `where`: the file and line that it stands in, if it does.
    """
    made = prepare(text.encode(), how.normalize, how.unencodable)[0].decode()
    pattern, why = how.split_pattern(), ""
    chunks = chunks_of(pattern, made)
    if made != text or len(chunks) != 1 or (chunks[0] != text and not pattern.word_mark):
        parts = " and ".join(shown(chunk.encode()) for chunk in chunks)
        why = f"the text is cut, or changed, into {parts or 'nothing'} before anything is merged"
    elif text in config.specials:
        why = "it is a special token"
    elif any(token in text for token in config.block_tokens):
        why = "it holds a --block-token"
    if why:
        raise _refused(text, why, where)
    return chunks[0]


def _refused(text: str, why: str, where: str = "") -> UsageError:
    place = f"{where}: " if where else ""
    return UsageError(f"--must {place}{shown(text.encode())}: {why}. Nothing was changed. Leave it out.")


class MustHaves:
    """The must-haves of a training as they are encoded now: as tokens learned so far."""

    def __init__(self, texts: Sequence[str], tokens: Sequence[list[int]]) -> None:
        self.texts = texts
        self.tokens = np.fromiter(chain.from_iterable(tokens), np.int32)  # of all, one behind the other
        self.sizes = np.fromiter(map(len, tokens), np.int64)  # of each

    @classmethod
    def of(cls, start: Start, events: Events) -> MustHaves:
        """Those of a training that has learned these events; UsageError if one cannot be a token."""
        config, texts, found = start.training.config, [], []
        codec, brought = codec_of(start.alphabet, "unk"), start.training.inherited
        encode = codec.split if brought is None or not config.must else Encoder(brought.log).encode_chunk
        for text in config.must:
            chunk = chunk_of(text, config, start.corpus.counting)
            symbols = codec.split(chunk)
            if UNKNOWN in symbols:
                raise _refused(text, "it has symbols that are not in the alphabet")
            if len(symbols) > (config.max_token_length or len(symbols)):
                raise _refused(text, f"it has {len(symbols)} base symbols, more than --max-token-length")
            if chunk not in start.corpus.stop_words:
                texts.append(text)
                found.append(encode(chunk))
        must = cls(texts, found)
        must.take(events[start.brought :])
        return must

    @property
    def lack(self) -> int:
        """How many merges make all of them tokens, at most."""
        return len(self.tokens) - len(self.sizes)

    def take(self, events: Events) -> None:
        """What was learned is made in them too."""
        if self.lack and events:
            ids = np.concatenate([self.tokens, *(events.column(name) for name in ("left", "right", "id"))])
            self.tokens, self.sizes = BulkReplay(events, int(ids.max()) + 1).replay(self.tokens, self.sizes)

    def refuse_what_cannot_be(self, state: State, room: int) -> None:
        """UsageError if they need more ids than there is room for, or if no merges make one of them a token."""
        needed = len({event.id for event in self._merges(state)} - {*state.known.values()}) if self.lack else 0
        if needed > room:
            raise UsageError(
                f"--must needs {counted(needed, 'id')}, and --vocab-size leaves {room}. Nothing was changed. Give a "
                "larger one, or fewer must-haves."
            )

    def _merges(self, state: State) -> Events:
        """The merges that make them tokens, with their counts in the must-haves."""
        state, made = copy.deepcopy(state), Events()
        folder = state.options.work_dir / "must"
        folder.mkdir(exist_ok=True)
        state.options = replace(state.options, min_frequency=1, learner="core", force_scan=False, work_dir=folder)
        offsets, once = np.append(0, np.cumsum(self.sizes)), np.ones(len(self.sizes), np.int64)
        engine = Engine(Words(self.tokens, offsets, once), state)
        for batch in engine.batches(MAX_COUNT - engine.learned):
            made.extend(batch.events)
        engine.close()
        _, sizes = BulkReplay(made, state.next_id).replay(self.tokens, self.sizes)
        if len(open_ones := np.flatnonzero(sizes > 1)):
            raise _refused(self.texts[open_ones[0]], "no merges that are allowed make it a token of this vocabulary")
        return made

    def put_together(self, engine: Engine, folder: Path) -> Batch:
        """Make them tokens, here and in the engine's words, which pass through this folder."""
        merges, state = self._merges(engine.state), engine.state
        n, replay = np.zeros(len(merges), np.int64), BulkReplay(merges, state.next_id + len(merges))
        write_columns(folder, _made_in(engine.words(), replay, n, state.disjoint))
        columns = [*(merges.column(name) for name in ("left", "right", "id")), n]
        batch = Batch.of(columns, PassRow(mode=MUST_HAVES))
        engine.go_on_with(open_columns(folder), batch.events)
        self.take(batch.events)
        return batch


def _made_in(words: Parts, replay: BulkReplay, n: Int64, disjoint: bool) -> Iterator[tuple[Int32, Int64, Int64]]:
    """Words with these merges made in them; n is raised by how often each could be made."""
    for symbols, offsets, weights in words:
        tally = Tally(weights, n, disjoint, np.zeros(len(n), np.bool_))
        ids, sizes = replay.replay(symbols[int(offsets[0]) : int(offsets[-1])], np.diff(offsets), tally)
        yield ids, np.append(0, np.cumsum(sizes)), weights
