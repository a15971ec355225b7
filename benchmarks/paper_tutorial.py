"""The tutorial of plain BPE: its run on another text, its sentence, its toy line as its code makes it.

WikiText-2 comes from a hub and not from a package registry. `wiki_like` makes a text like it of the English one: lines
of prose, with a space before and behind every mark of punctuation, and one at the beginning of a line.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

from harness import untimed
from paper_texts import Row, Table, Texts, trained

from streambpe import Tokenizer
from streambpe.encode.encoder import Encoder
from streambpe.store.models import read_model

PATTERN = r"'s|'t|'re|'ve|'m|'ll|'d|\s?[A-Za-z]+|\s?\d+|\s?[^A-Za-z\d\s]+|\s+"
MERGES = (
    " t", "he", " a", "in", " the", "er", "on", " ,", "re", " s",
    "ed", " o", " w", "nd", "at", " .", "or", "it", " c", "en",
)  # fmt: skip
SENTENCE = "Natural language processing is interesting"
WIKI_BYTES = 10_900_000  # of the training part of WikiText-2
_MARKS = re.compile(r"\s*([,.;:!?()\"])\s*")
_CODE = re.compile(r"[{}<>=_|\\/#*\[\]`@~+]")
TOY = "the lowest price is lower than the last one"


def wiki_like(texts: Texts) -> Path:
    """Lines of prose as WikiText writes them."""
    made = texts.work / "wiki-like.txt"
    if not made.exists():
        left, unfinished = WIKI_BYTES, made.with_suffix(".unfinished")
        with texts.learn.open("rb") as documents, unfinished.open("w", encoding="utf-8") as out:
            for document in documents:
                for line in json.loads(document)["text"].split("\n"):
                    letters = sum(letter.isalpha() or letter == " " for letter in line)
                    if len(line) > 60 and letters > 0.9 * len(line) and line.isascii() and not _CODE.search(line):
                        left -= out.write(" " + _MARKS.sub(r" \1 ", " ".join(line.split())).rstrip() + " \n")
                if left <= 0:
                    break
        unfinished.rename(made)
    return made


def rows(texts: Texts) -> Iterator[Row]:
    """How much of it comes again."""
    options = ("--lines", "--vocab-size", "2000", "--pattern", PATTERN, "--min-frequency", "2")
    run = trained(texts, "tutorial", *options, learn=wiki_like(texts))
    tokenizer = Tokenizer(run)
    first = [tokenizer.decode_bytes([256 + i]) for i in range(20)]
    again = sum(token.encode() in first for token in MERGES)
    yield "of its first 20 tokens, among our first 20", "20", str(again)
    yield "merges for 2 000 ids", "1744", f"{len(read_model(run).events)}"
    ids = tokenizer.encode_ordinary(SENTENCE)
    yield f"bytes per token of: {SENTENCE}", "3.0 (14 tokens)", f"{len(SENTENCE) / len(ids):.1f} ({len(ids)} tokens)"
    toy, folder = texts.work / "toy.txt", texts.work / "toy"
    toy.write_text(TOY)
    if not folder.exists():
        options = ("--vocab-size", "263", "--pattern", PATTERN, "--min-frequency", "2", "--like", "kensho")
        untimed("train", str(folder), str(toy), *options)
    log = read_model(folder)
    contents = {token.id: token.content.decode(errors="replace") for token in Encoder(log).model.vocabulary.tokens}
    yield (
        "merges of its toy line",
        "th, ' l', the, ' lo', ' low', ' lowe', st",
        ", ".join(repr(text) if " " in text else text for text in (contents[event.id] for event in log.events)),
    )


TABLE = Table(
    "The tutorial learned from WikiText-2; here as many bytes of lines of prose from documentation, written as "
    "WikiText is. Of equal counts the tutorial takes the pair that it counted first, and we the one with the smaller "
    "ids, so that the toy's first merges change places.",
    rows,
)
