"""The facts that the page about a model shows, from its event log, and from how it cuts the text it is measured on."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from streambpe.count_config import SourceOptions
from streambpe.encode.tokenizer import Tokenizer
from streambpe.inspect.curves import GrowthFacts, choose_stops, growth, measuring_on, readings
from streambpe.inspect.page_vocabulary import VocabularyFacts, vocabulary_of
from streambpe.inspect.sizes import SizeFacts
from streambpe.model.eventlog import EventLog, events_digest
from streambpe.plurals import counted
from streambpe.resources import Resources, format_size
from streambpe.store.models import find_log, run_of
from streambpe.text.shown import harmless


class BesideFacts(msgspec.Struct):
    """What the page says about another vocabulary beside its own."""

    model: str
    growth: list[GrowthFacts]  # on the same text


class Facts(msgspec.Struct):
    """Everything the page says."""

    model: str
    head: list[tuple[str, str]]  # what was learned, from what, when
    vocabulary: VocabularyFacts
    measured_on: str
    growth: list[GrowthFacts]
    beside: BesideFacts | None = None
    sizes: list[SizeFacts] = []  # on the texts of each group


def label(model: str | os.PathLike[str]) -> str:
    """What a MODEL is called on a page, which may be given away: without the folders above it."""
    return harmless(os.path.basename(os.path.abspath(model)))


def gather(
    model: str | os.PathLike[str],
    log: EventLog,
    texts: Sequence[str],
    resources: Resources,
    how: SourceOptions,
    other: str | os.PathLike[str] | None,
    rival: EventLog | None,
) -> Facts:
    """Everything the page says of a model and its log; `other`, `rival`: the same of what it is compared with."""
    stops = choose_stops(log, Tokenizer(rival).n_vocab if rival else 0)
    rivals_stops = choose_stops(rival, Tokenizer(log).n_vocab) if rival else []
    times = readings(log, len(stops)) + (readings(rival, len(rivals_stops)) if rival else 0)
    uses_of, measured_on = measuring_on(run_of(model), log, texts, how, resources, times)
    grown, uses = growth(log, stops, uses_of)
    beside = None
    if other is not None and rival is not None:
        beside = BesideFacts(label(other), growth(rival, rivals_stops, uses_of)[0])
    return Facts(label(model), _head(model, log), vocabulary_of(log, uses), measured_on, grown, beside)


def _head(model: str | os.PathLike[str], log: EventLog) -> list[tuple[str, str]]:
    """What was learned, from what and when."""
    header = log.header
    options, corpus = dict(header.config), header.corpus
    pattern = str(options.pop("pattern", ""))
    given = (f"{key.replace('_', '-')} {value if isinstance(value, str) else json.dumps(value)}"
             for key, value in options.items() if value not in (None, [], False) and key != "expression")  # fmt: skip
    text = ""
    if {"bytes", "documents", "chunks"} <= corpus.keys():
        documents, chunks = counted(corpus["documents"], "document"), counted(corpus["chunks"], "chunk")
        text = f"{format_size(corpus['bytes'])} in {documents}, {chunks}"
    written = datetime.fromtimestamp(Path(find_log(model)).stat().st_mtime, UTC)
    return [
        ("pattern", pattern),
        ("special tokens", " ".join(harmless(special.text) for special in header.specials) or "none"),
        ("reserved ids", f"{header.reserved:,}" if header.reserved else ""),
        ("options", harmless(", ".join(given))),
        ("written", written.strftime("%Y-%m-%d %H:%M UTC")),
        ("text", text),
        ("events", f"{len(log.events):,}, sha256 {events_digest(log.events)}"),
    ]
