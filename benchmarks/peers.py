"""What the other trainers do with a corpus, each as its users call it: documents from a Python iterator.

Reading is the same, and cheap, for all: msgspec decodes a line of JSON in C (`read_only` times it
alone: 1 s a GB). tokenizers gets lists of 256 documents, which its documentation advises; the others
take one document at a time and fill buffers of their own.

What their logs tell of the moments inside a run (they go to stderr, where the harness listens):

    tokenizers   progress_format="json" announces each stage; the total of "Tokenize words" is the number
                 of distinct chunks. It also writes a line for each merge, a second of system time
                 for 131 072 of them, so a training is timed without it
    rustbpe      logs through Python's logging: "Processed ... sequences total, ... unique", "Starting merge
                 loop", "Finished training"
    bpeasy       says nothing
    gigabpe      says nothing; it reads files itself, so it takes part where documents are lines, with pattern gpt2
    ffbpe        says nothing; counts words exactly, then learns in memory, all of its pairs in an index
    sentencepiece reads a file by lines too. It does another job: pieces of characters, words cut by its own rules,
                 no pattern. Its time is told beside, its vocabulary is not compared

Traps: rustbpe counts in 32-bit integers, silently. bpeasy wants a longest token length and compares with
`<`, so it is given one longer than any token. tokenizers orders ids, and thus ties, by the characters
that stand for bytes: rustbpe and it differ where counts tie.
"""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
import logging
import sys
from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

Pair = tuple[int, int]
UNLIMITED = 1 << 20  # token length, where a peer wants one


def read_documents(path: str, kind: str) -> Iterator[str]:
    """The documents of a prepared corpus (corpora.py)."""
    if kind == "lines":
        with open(path, encoding="utf-8", newline="\n") as lines:
            for line in lines:
                if text := line.removesuffix("\n"):
                    yield text
        return
    import msgspec

    class Document(msgspec.Struct):
        text: str

    decode = msgspec.json.Decoder(Document).decode
    with open(path, "rb") as rows:
        for row in rows:
            yield decode(row).text


def read_only(path: str, kind: str) -> int:
    """Only read: the part of every peer's time that is Python's."""
    return sum(1 for _ in read_documents(path, kind))


def train_rustbpe(path: str, kind: str, pattern: str, vocab_size: int, out: str | None = None) -> None:
    """rustbpe: count, index the pairs, merge; with 256 ids there is nothing to merge."""
    import rustbpe

    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    tokenizer = rustbpe.Tokenizer()
    tokenizer.train_from_iterator(read_documents(path, kind), vocab_size=vocab_size, pattern=pattern)
    if out:  # as tiktoken stores a vocabulary
        ranks = sorted(tokenizer.get_mergeable_ranks(), key=lambda item: item[1])
        _write_tiktoken(out, [token for token, _ in ranks])


def train_tokenizers(
    path: str,
    kind: str,
    pattern: str,
    vocab_size: int,
    out: str | None = None,
    log: bool = False,
    all_bytes: bool = True,
) -> None:
    """Hugging Face tokenizers, byte level: count, make words, count pairs, merge; with 256 ids no merges."""
    from tokenizers import Regex, Tokenizer, models, pre_tokenizers, trainers

    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "isolated"), byte_level])
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        min_frequency=0,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet() if all_bytes else [],
        show_progress=log,
        progress_format="json" if log else "silent",
    )
    documents = read_documents(path, kind)
    batches = iter(lambda: list(itertools.islice(documents, 256)), [])
    tokenizer.train_from_iterator(batches, trainer)
    if out:
        tokenizer.save(out, pretty=False)


def train_bpeasy(path: str, kind: str, pattern: str, vocab_size: int, out: str | None = None) -> None:
    """bpeasy: the same, and its vocabulary is a dictionary of bytes."""
    import bpeasy

    vocabulary = bpeasy.train_bpe(read_documents(path, kind), pattern, UNLIMITED, vocab_size)
    if out:
        _write_tiktoken(out, sorted(vocabulary, key=lambda token: vocabulary[token]))


def train_gigabpe(path: str, vocab_size: int, threads: int, out: str) -> None:
    """gigabpe: reads a text itself, line by line, and splits it as GPT-2 does; writes a tokenizer.json."""
    import gigabpe

    gigabpe.train_tokenizer([path], vocab_size, out, special_tokens=[], pretokenizer="bytelevel", threads=threads)


def train_ffbpe(path: str, kind: str, pattern: str, vocab_size: int, out: str | None = None) -> None:
    """ffbpe: its exact counter of words and its exact trainer, ties as rustbpe has them."""
    import ffbpe

    words = ffbpe.PreTokenizer([], pat_str=pattern).word_counter()
    words.add_source(read_documents(path, kind))
    trainer = ffbpe.BpeTrainer([], unit="byte", tie_break="smallest_pair_id", initial_alphabet="raw")
    trainer.add_word_counter(words)
    trainer.train(vocab_size)
    vocabulary = trainer.validate_model().vocab
    if out:
        _write_tiktoken(out, sorted(vocabulary, key=vocabulary.__getitem__))


def train_sentencepiece(path: str, vocab_size: int, threads: int, out: str) -> None:
    """sentencepiece's BPE with byte fallback, on all lines; normalisation and cuts are its own."""
    import sentencepiece

    sentencepiece.SentencePieceTrainer.train(
        input=path, model_prefix=out, vocab_size=vocab_size, model_type="bpe", byte_fallback=True,
        character_coverage=1.0, normalization_rule_name="identity", max_sentence_length=1 << 24,
        num_threads=threads, minloglevel=2,
    )  # fmt: skip


def _write_tiktoken(out: str, tokens: list[bytes]) -> None:
    with open(out, "wb") as target:
        for rank, token in enumerate(tokens):
            target.write(base64.b64encode(token) + b" %d\n" % rank)


# ---------------------------------------------------------------- BatchBPE's rule


def train_batchbpe(
    table: str, vocab_size: int, out: str | None = None, rows: int | None = None, cap_divisor: int = 2
) -> list[int]:
    """BatchBPE's published rule, from a table of chunks and counts, in plain Python (as BatchBPE is).

    Written from its description: pairs are counted anew for each batch, overlapping neighbours count, ties go
    to the pair seen first. A chunk that has become one token is read no more. Returns the batch sizes.
    """
    chunks = read_table(table, rows)
    words = [(list(chunk.encode()), n) for chunk, n in chunks if len(chunk.encode()) > 1]
    tokens = [bytes([i]) for i in range(256)]
    sizes: list[int] = []
    counts = _count_pairs(words)
    while len(tokens) < vocab_size and counts:
        wanted = vocab_size - len(tokens)
        ranked = sorted(counts, key=counts.__getitem__, reverse=True)[: max(1, min(wanted // cap_divisor, len(tokens)))]
        batch: dict[Pair, int] = {}
        firsts: set[int] = set()
        lasts: set[int] = set()
        for left, right in ranked:
            if left not in lasts and right not in firsts:
                batch[left, right] = len(tokens)
                tokens.append(tokens[left] + tokens[right])
            firsts.add(left)
            lasts.add(right)
        sizes.append(len(batch))
        if len(tokens) < vocab_size:  # the last batch need not be applied
            words = _merge_batch(words, batch)
            counts = _count_pairs(words)
    if out:
        _write_tiktoken(out, tokens)
    return sizes


def _count_pairs(words: list[tuple[list[int], int]]) -> dict[Pair, int]:
    """A fresh dictionary, so that its order is the order of first appearance."""
    counts: dict[Pair, int] = defaultdict(int)
    for ids, n in words:
        for pair in pairwise(ids):
            counts[pair] += n
    return counts


def _merge_batch(words: list[tuple[list[int], int]], batch: dict[Pair, int]) -> list[tuple[list[int], int]]:
    """In place, left to right; what was merged is not merged again. Words of one token are dropped."""
    find = batch.get
    for ids, _ in words:
        i, last = 0, len(ids) - 1
        while i < last:
            new = find((ids[i], ids[i + 1]))
            if new is not None:
                ids[i] = new
                del ids[i + 1]
                last -= 1
            i += 1
    return [word for word in words if len(word[0]) > 1]


def read_table(table: str, rows: int | None = None) -> list[tuple[str, int]]:
    """Chunks and counts; the header and the row that holds the pattern (count 0) are left out."""
    import csv

    with open(table, newline="", encoding="utf-8") as lines:
        reader = csv.reader(lines)
        next(reader)
        found = ((chunk, int(n)) for chunk, n in reader if n != "0")
        return list(itertools.islice(found, rows))


# ---------------------------------------------------------------- reading what was learned


def learned_from(path: str) -> tuple[list[bytes], list[tuple[bytes, bytes]]]:
    """The tokens of any contender's result, in the order they were learned, base bytes left out; and their merges.

    Ranks as tiktoken stores them do not tell what a token was joined of: no merges then.
    """
    source = Path(path)
    if source.is_dir():
        source = source / "model.events.jsonl"
    with source.open("rb") as lines:
        start = lines.read(64)
    if b"streambpe-events" in start:
        merges = _merges_of_events(source)
    elif start.startswith(b"{"):
        merges = _merges_of_tokenizers(json.loads(source.read_text()))
    else:
        rows = [base64.b64decode(line.split()[0]) for line in source.read_bytes().splitlines()]
        return [token for token in rows if len(token) > 1], []
    return [left + right for left, right in merges], merges


def _merges_of_events(source: Path) -> list[tuple[bytes, bytes]]:
    from streambpe.model.eventlog import read_event_log
    from streambpe.model.replay import Model

    model = Model(read_event_log(source))
    return [(model.content(event.left), model.content(event.right)) for event in model.events]


def _merges_of_tokenizers(saved: dict[str, Any]) -> list[tuple[bytes, bytes]]:
    from streambpe.encode.formats.flat import unshown

    return [(unshown(left), unshown(right)) for left, right in saved["model"]["merges"]]


def summary(path: str, like: str | None = None) -> dict[str, Any]:
    """How many tokens were learned, a digest of them and of their merges in order; how far another result is equal."""
    tokens, merges = learned_from(path)
    found: dict[str, Any] = {"learned": len(tokens), "tokens": _digest(tokens)}
    if merges:
        found["merges"] = _digest([part for merge in merges for part in merge])
    if like and Path(like).exists():
        other, _ = learned_from(like)
        equal = sum(1 for _ in itertools.takewhile(lambda ab: ab[0] == ab[1], zip(tokens, other, strict=False)))
        found["equal_prefix"] = equal
        found["shared"] = len(set(tokens) & set(other))
    return found


def _digest(rows: list[bytes]) -> str:
    return hashlib.sha256(b"".join(len(row).to_bytes(4, "little") + row for row in rows)).hexdigest()[:12]
