"""What all papers' tables are made from: a text to learn from, one to measure on, trainings, and their measures."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from harness import untimed
from peers import read_documents

from streambpe import Tokenizer
from streambpe.count_config import SourceOptions
from streambpe.encode.formats.flat import unshown
from streambpe.inspect.evaluate import count_uses, ids_of, no_uses
from streambpe.inspect.measures import measure, renyi_efficiency
from streambpe.model.eventlog import EventLog
from streambpe.model.events import Event, Op
from streambpe.sources.find import find_sources
from streambpe.store.models import read_model
from streambpe.text.patterns import find_pattern

Row = tuple[str, str, str]  # what, the paper's figure, ours
UNKNOWN = "[UNK]"  # of the models of tokenizers


class Texts(NamedTuple):
    """Where everything is."""

    learn: Path  # JSON lines
    held: Path  # likewise: what is measured on
    languages: Path | None  # text in many languages
    work: Path


class Curve(NamedTuple):
    """The numbers of a figure or of a table of many: a column of what or where, then others."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    paper: str = ""  # what the paper says of it


class Table(NamedTuple):
    """What one paper's part of the page is."""

    difference: str  # why the figures differ
    make: Callable[[Texts], Iterator[Row]]
    curves: Mapping[str, Callable[[Texts], Curve]] = {}


class Measured(NamedTuple):
    """A model on the text that is measured on."""

    values: dict[str, float]
    n: npt.NDArray[np.int64]  # occurrences by id


def trained(texts: Texts, name: str, *options: str, learn: Path | None = None) -> Path:
    """The RUN of a training; one that is there is taken as it is."""
    made_with = zlib.crc32(" ".join(options).encode())  # other options are another RUN
    run = texts.work / f"{name}-{made_with:08x}"
    if not (run / "model.events.jsonl").exists():
        untimed("train", str(run), str(learn or texts.learn), *options)
    return run


def learned_from(counted: Path, name: str, *options: str) -> EventLog:
    """A further training of a RUN that is counted, by its name; those that differ in options only share the counts."""
    if not (counted / "trainings" / name).exists():
        untimed("train", str(counted), "--name", name, *options)
    return read_model(f"{counted}:{name}")


_MEASURED: dict[tuple[str, int | None, Path], Measured] = {}


def measured(model: str, texts: Texts, size: int | None = None) -> Measured:
    """What `evaluate` says of a model; cut to a size first."""
    key = model, size, texts.held
    if key not in _MEASURED:
        tokenizer = Tokenizer(model, vocab_size=size)
        uses = no_uses(tokenizer)
        for source in find_sources([str(texts.held)], SourceOptions())[0]:
            uses += count_uses(tokenizer, source)
        values = {name: value or 0.0 for name, value in measure(uses, *ids_of(tokenizer)).items()}
        _MEASURED[key] = Measured(values, uses.n)
    return _MEASURED[key]


def asked(run: Path, query: str) -> list[list[str]]:
    """Rows of a RUN's tables."""
    return [line.split(",") for line in untimed("sql", str(run), query, "--csv").splitlines()[1:]]


def replayed(log: EventLog) -> Iterator[tuple[Event, Mapping[int, int]]]:
    """Each event, with how often every learned token occurs just before it.

    That follows from the events alone: as often as a token was made, less what was merged away or split. Of a token
    that is merged with itself it is too little where its pairs overlap, as their count has every pair in it.
    """
    occurs: dict[int, int] = {}
    for event in log.events:
        yield event, occurs
        _apply(event, occurs)


def occurrences(log: EventLog) -> dict[int, int]:
    """How often every learned token occurs at the end."""
    occurs: dict[int, int] = {}
    for event in log.events:
        _apply(event, occurs)
    return occurs


def _apply(event: Event, occurs: dict[int, int]) -> None:
    if event.op is Op.DELETE:
        occurs.pop(event.id, None)
        changes = [(part, event.n) for part in event.into]
    else:
        occurs.setdefault(event.id, 0)
        changes = [*((part, -event.n) for part in event.pair), (event.id, event.n)]
    for token, n in changes:
        if token in occurs:
            occurs[token] += n


# ---------------------------------------------------------------- WordPiece and Unigram


def rival(kind: str, texts: Texts, size: int) -> tuple[list[bytes], Measured]:
    """A model of tokenizers, byte level, the gpt4 pattern: its tokens, and what it does. It is kept in `work`."""
    from tokenizers import Tokenizer

    path = texts.work / f"{kind}-{size}.json"
    if not path.exists():
        _rival_trained(kind, texts, size).save(str(path))
    tokenizer = Tokenizer.from_file(str(path))
    n = np.zeros(tokenizer.get_vocab_size(), np.int64)
    read = chunks = single = 0
    for batch in _batches(texts.held):
        read += sum(len(text.encode()) for text in batch)
        for encoded in tokenizer.encode_batch(batch, add_special_tokens=False):
            n += np.bincount(encoded.ids, minlength=len(n))
            of_each = np.bincount([word for word in encoded.word_ids if word is not None])
            chunks += int((of_each > 0).sum())
            single += int((of_each == 1).sum())
    kinds = int((n > 0).sum())
    values = {
        "bytes_per_token": read / int(n.sum()),
        "tokens": float(n.sum()),
        "renyi": renyi_efficiency(n, kinds) or 0.0,
        "renyi_vocab": renyi_efficiency(n, len(n)) or 0.0,
        "vocab_used_share": kinds / len(n),
        "single_token_chunks": single / max(1, chunks),
    }
    tokens = [unshown(token) for token in tokenizer.get_vocab() if token != UNKNOWN]
    return tokens, Measured(values, n)


def _rival_trained(kind: str, texts: Texts, size: int) -> Any:
    from tokenizers import Regex, Tokenizer, models, pre_tokenizers, trainers

    same: dict[str, Any] = {"vocab_size": size, "initial_alphabet": pre_tokenizers.ByteLevel.alphabet()}
    same |= {"special_tokens": [UNKNOWN], "show_progress": False}
    trainer: Any
    if kind == "WordPiece":
        tokenizer = Tokenizer(models.WordPiece(unk_token=UNKNOWN, max_input_chars_per_word=10_000))
        trainer = trainers.WordPieceTrainer(**same)
    else:
        tokenizer = Tokenizer(models.Unigram())
        trainer = trainers.UnigramTrainer(**same, unk_token=UNKNOWN)
    split = pre_tokenizers.Split(Regex(find_pattern("gpt4").expression), "isolated")
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, byte_level])
    tokenizer.train_from_iterator(_batches(texts.learn), trainer)
    return tokenizer


def _batches(path: Path) -> Iterator[list[str]]:
    """Its documents, 256 at a time."""
    documents = read_documents(str(path), "jsonl")
    return iter(lambda: list(islice(documents, 256)), [])
