"""Small models of every kind, learned by the slow reference, as event logs; cached for a test session."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import cache
from typing import Any

from streambpe.model.alphabet import bytes_alphabet, gpt2_alphabet, utf8_alphabet
from streambpe.model.eventlog import (
    Event,
    EventLog,
    Header,
    Special,
    StopWord,
    delete_event,
    merge_event,
    supermerge_event,
)
from streambpe.model.replay import Model
from streambpe.model.vocabulary import Vocabulary
from streambpe.text.patterns import PRESETS
from streambpe.text.whitespace import WORD_MARK
from tests import oracles
from tests.oracles.splits import split_text
from tests.samples import sample_text

TEXT = sample_text(7, words=2500) + " in the end of the day it is the end of the line, and the day is at an end. " * 8
DOCUMENTS = [part for part in TEXT.split("\n") if part]
KINDS = ("plain", "picky", "pairs", "stops", "boundless", "superbpe", "uw", "whitespace")

# Texts that break what is careless: controls, line breaks of all sorts, marks, emoji, cut-off look-alikes.
HOSTILE = [
    "",
    " ",
    "   \n\n \t\r\n x\r\r\n",
    "a" * 300,
    "naïve café ñu日本ด\u0301\u0301 e\u0301",
    "👩\u200d👩\u200d👧 🇩🇪 \U0001f1e6 ☃\ufe0f",
    "\x00\x01\x1c\x1d\x85\u2028\u3000\ufeff\U0010ffff\ue000",
    "don't DON'T 'ſ it'S 12345 3.14 -- ... /// \n/",
    "the end of the day of the end of the line the the the the",
    "<|endoftext|> <s>",
]


def chunks_of(pattern: str, text: str) -> list[bytes]:
    return [chunk.encode() for chunk in split_text(PRESETS[pattern], text)]


def log_of(
    training: oracles.Training, config: dict[str, Any], specials: tuple[str, ...] = (), **header: Any
) -> EventLog:
    """A training as a log whose special tokens have the ids they get."""
    ids = dict.fromkeys(specials, 0)
    for _ in range(2):  # without their ids first, which the model then knows
        listed = tuple(Special(text, ids[text]) for text in specials)
        log = oracles.as_log(training, config=config, specials=listed, **header)
        ids = Model(log).special_ids
    return log


def configured(log: EventLog, **config: Any) -> EventLog:
    """A log with these options in its header, too."""
    return replace(log, header=replace(log.header, config={**log.header.config, **config}))


@cache
def trained(kind: str) -> EventLog:
    """A log of one of KINDS."""
    counts = oracles.count_chunks([chunks_of("gpt4o", document) for document in DOCUMENTS])
    documents = [chunks_of("boundless", document) for document in DOCUMENTS]
    if kind == "plain":
        training = oracles.train_words(counts, gpt2_alphabet(), 480)
        return log_of(training, {"pattern": "gpt4o"}, ("<|endoftext|>", "<s>"), reserved=2)
    if kind == "picky":
        deletions = oracles.Deletions.at("0.7", "bytes")
        training = oracles.train_words(counts, gpt2_alphabet(), 420, deletions=deletions)
        return log_of(training, {"pattern": "gpt4o", "tau": "0.7"})
    if kind == "pairs":
        deletions = oracles.Deletions.at("0.8", "walk")
        training = oracles.train_words(counts, utf8_alphabet(), 420, deletions=deletions, ties="bytes")
        return log_of(training, {"pattern": "gpt4o", "tau": "0.8", "ties": "bytes"})
    if kind == "stops":
        stops = oracles.choose_stop_words(counts, 8, ties="bytes")
        training = oracles.train_words(counts, bytes_alphabet(), 400, stop_words=list(stops))
        return log_of(training, {"pattern": "gpt4o"})
    if kind == "boundless":
        training = oracles.train_boundless(documents, utf8_alphabet(), 520, ties="bytes")
        return log_of(training, {"pattern": "boundless", "superwords": "boundless"}, ("<|endoftext|>",))
    if kind == "superbpe":
        training = oracles.train_superbpe(documents, bytes_alphabet(), 520, 440)
        return log_of(training, {"pattern": "boundless", "superwords": "superbpe"})
    if kind == "uw":
        first = oracles.count_chunks([chunks_of("superbpe1", document) for document in DOCUMENTS])
        words = oracles.train_words(first, gpt2_alphabet(), 400)
        content = words.vocabulary
        inherited = [tuple(content[part].content for part in event.pair) for event in words.events]
        second = oracles.count_chunks([chunks_of("superbpe2", document) for document in DOCUMENTS])
        training = oracles.train_uw(inherited, second, gpt2_alphabet(), 460)
        return log_of(training, {"pattern": "superbpe1", "superwords": "uw", "gaps": "keep"})
    assert kind == "whitespace"
    marked = oracles.marked_words(DOCUMENTS)
    deletions = oracles.Deletions.at("0.8", delete_to="walk", picky=True)
    alphabet = oracles.covering_alphabet(marked, 0.9999)
    training = oracles.train_words(marked, alphabet, 150, ties="bytes", deletions=deletions, other_ids=4)
    assert WORD_MARK.encode() in alphabet.symbols
    config = {"pattern": "whitespace", "token_order": "first-birth", "specials_first": True}
    return log_of(training, config, ("<PAD>", "<UNK>", "<BOS>", "<EOS>"), unk="<UNK>")


def random_log(seed: int, supers: bool = True) -> EventLog:
    """A log no training would make: re-learned and re-deleted tokens, odd parts, repeated pairs, stop words."""
    rng = random.Random(seed)
    alphabet = bytes_alphabet()
    letters = [97, 98, 99, 32, 46]
    stops = [b"ab"] if rng.random() < 0.3 else []
    vocabulary = Vocabulary(alphabet, stops)
    first = 256 + len(stops)
    events: list[Event] = []
    for _ in range(rng.randint(1, 50)):
        learned = [number for number in vocabulary.living if number >= first]
        pool = letters + (learned if rng.random() < 0.7 else list(range(first, 256 + len(vocabulary.tokens) - 256)))
        what = rng.random()
        left, right = rng.choice(pool), rng.choice(pool)
        long = len(vocabulary[left].base) + len(vocabulary[right].base)
        if learned and what < 0.2:
            number = rng.choice(learned)
            parts = vocabulary[number].base if rng.random() < 0.5 else vocabulary.first_pair[number]
            events.append(delete_event(number, parts, 1))
            vocabulary.delete(number)
        elif what < 0.6 or not supers:
            if long <= 5:
                events.append(merge_event(left, right, vocabulary.learn(left, right), 1))
        elif long <= 12:
            events.append(supermerge_event(left, right, vocabulary.learn(left, right), 1))
    words = tuple(StopWord(vocabulary.stop_ids[chunk], chunk) for chunk in stops)
    return EventLog(Header(alphabet.to_header(), {"pattern": r" ?[a-c]+|\.+|\s+"}, stop_words=words), tuple(events))
