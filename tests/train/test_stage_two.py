"""The second stage of uw as documents are read: the same tokens and counts, however these lie in parts."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streambpe.errors import LimitError
from streambpe.model.alphabet import Alphabet
from streambpe.model.replay import Model
from streambpe.store.parts import list_parts
from streambpe.store.run import Run
from streambpe.store.sequences import SequencePart, order_parts
from streambpe.text.patterns import find_pattern
from streambpe.train.commands import train
from streambpe.train.superwords import stage2
from streambpe.train.superwords.stage2 import TokenReader
from tests.oracles.replay import encode_symbols
from tests.oracles.splits import split_text
from tests.runs import SMALL, log_of, small_blocks
from tests.samples import natural_text

NO_CUTS = "none"


def counted(folder: Path, block: int | None) -> Path:
    """Words, and documents: a text that goes on from part to part, and some of one part each."""
    (folder / "texts").mkdir()
    (folder / "texts/a.txt").write_text(natural_text(1, 40_000), encoding="utf-8")
    (folder / "texts/b.txt").write_text(natural_text(2, 400), encoding="utf-8")
    (folder / "texts/c.jsonl").write_text("".join(f'{{"text": "day {i} of the end"}}\n' for i in range(200)))
    with pytest.MonkeyPatch.context() as patched:
        if block:
            small_blocks(patched, block, ordered=False)
        counting: dict[str, Any] = {"options": {"pattern": "superbpe1", "sequences": True}}
        train(folder / "run", [str(folder / "texts")], resources=SMALL, counting=counting, vocab_size=400)
    return folder / "run"


@pytest.fixture(scope="module")
def many_parts(tmp_path_factory: pytest.TempPathFactory) -> TokenReader:
    """Of more than eight parts."""
    return reader_of(counted(tmp_path_factory.mktemp("many"), 1 << 12))


def reader_of(run: Path, pattern: str = "superbpe2") -> TokenReader:
    log = log_of(run)
    alphabet = Alphabet.from_header(log.header.alphabet)
    contents = [*alphabet.symbols]
    for event in log.events:
        contents.append(b"".join(contents[part - alphabet.first_id] for part in event.pair))
    parts = order_parts(Run(run), list_parts(Run(run)))
    return TokenReader(
        Run(run).sequences, parts, find_pattern(pattern, gaps="keep"), alphabet, contents, log.events,
        disjoint=False, most_bytes=1 << 20,
    )  # fmt: skip


def read_all(reader: TokenReader, parts: Sequence[SequencePart]) -> tuple[list[list[int]], list[list[int]]]:
    """(the tokens of these parts, what the words count in them)."""
    counting = reader.counting()
    return [counting.read(part).tolist() for part in parts], [column.tolist() for column in counting.counted()]


@pytest.mark.parametrize("pattern", ["superbpe2", "whitespace", NO_CUTS])
def test_tokens_do_not_depend_on_the_parts(
    many_parts: TokenReader, tmp_path: Path, pattern: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many parts, read in order, backwards or in another process, give what one part for each file gives. With a
    pattern that cuts nowhere for certain, too: all of the text then goes from part to part."""
    monkeypatch.setattr(stage2, "_TAIL", 4)
    many = reader_of(many_parts.folder.parent, pattern)
    whole = reader_of(counted(tmp_path, None), pattern)
    assert len(many.parts) > 8 > 3 == len(whole.parts)
    tokens, words = read_all(whole, whole.parts)
    found, same = read_all(many, many.parts)
    assert ([*chain(*found)], same) == ([*chain(*tokens)], words)
    assert len(words[0]) > 50
    backwards, same = read_all(pickle.loads(pickle.dumps(many)), many.parts[::-1])
    assert (backwards[::-1], same) == (found, words)
    assert not np.any(many.counted()[1])  # who only reads counts nothing


def test_tokens_are_those_of_the_slow_encoder(many_parts: TokenReader) -> None:
    """Of every stage-2 chunk, by the definition of both the split and the encoder."""
    run, pattern = many_parts.folder.parent, find_pattern("superbpe2", gaps="keep")
    model, ids = Model(log_of(run)), Alphabet.from_header(log_of(run).header.alphabet).id_of
    texts = [(run.parent / f"texts/{name}.txt").read_text(encoding="utf-8") for name in "ab"]
    texts += [f"day {i} of the end" for i in range(200)]
    found: list[list[int]] = [[]]
    for token in chain(*read_all(many_parts, many_parts.parts)[0]):
        if token < 0:
            found.append([])
        else:
            found[-1].append(token)
    chunks = [chunk.encode() for text in texts for chunk in split_text(pattern, text)]
    assert found == [*(encode_symbols(model, [ids[bytes([byte])] for byte in chunk]) for chunk in chunks), []]


def test_a_text_without_a_certain_border_is_refused(many_parts: TokenReader) -> None:
    reader = reader_of(many_parts.folder.parent, NO_CUTS)
    reader.most_bytes = 20_000
    with pytest.raises(LimitError, match="--stage2-pattern"):
        read_all(reader, reader.parts)
