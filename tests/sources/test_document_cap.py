"""--document-cap N against its definition: the longest beginning of at most N characters up to a certain border."""

from __future__ import annotations

import random

import pytest
import regex

from streambpe.resources import Resources
from streambpe.sources.samples import capped
from streambpe.sources.source import Block, BlockText, Source
from streambpe.text.patterns import PRESETS, Pattern, find_pattern
from streambpe.text.prepare import is_stable, prepare
from streambpe.train.commands import train
from tests.hostile import random_text
from tests.oracles.splits import split_text
from tests.runs import log_of
from tests.samples import natural_text
from tests.tiers import share

ONE = Resources(400 * 10**6, 1, engine="threads")
PATTERNS = {
    **{name: find_pattern(name) for name, preset in PRESETS.items() if preset.border},
    "prepared": find_pattern("gpt4o", prepared=True),
    "scripts": find_pattern("gpt4o", split_scripts=True),
    "digits": find_pattern("cl100k", digits="right3"),
}


def beginning(pattern: Pattern, text: str, cap: int) -> str:
    """The slow meaning of --document-cap, place by place."""
    if len(text) <= cap:
        return text
    border = regex.compile(pattern.border or "")
    for end in range(cap, 0, -1):
        if border.match(text, end - 1) and (not pattern.prepared or is_stable(text[end - 1])):
            return text[:end]
    return ""


def text_of(rng: random.Random) -> str:
    """Words and anything else that there is, of all lengths."""
    if rng.random() < 0.5:
        return random_text(rng, rng.choice([3, 30, 120]))
    pieces = [
        "a", "Ab", " ", "  ", "\n", "\r\n", ".", "'s", "12", "1234567", "é", "e\u0301",
        "东京", "。", "ー", "😀", "\u00a0", "x" * 30,
    ]  # fmt: skip
    return "".join(rng.choices(pieces, k=rng.choice([1, 8, 40])))


@pytest.mark.parametrize("name", PATTERNS)
def test_a_beginning_has_the_first_chunks_of_its_document(name):
    """Of documents in one block: what is left is as defined, its chunks are a prefix, what is cut off is counted."""
    pattern, rng = PATTERNS[name], random.Random(name)

    def chunks(text: str) -> list[str]:
        if pattern.prepared:
            text = prepare(text.encode(), "nfc", "drop")[0].decode()
        return split_text(pattern, text)

    for _ in range(share(1600)):
        texts = [text_of(rng) for _ in range(rng.randint(1, 4))]
        cap = rng.choice([1, 2, 5, 17, 60, 10_000])
        data = b"".join(text.encode() + b"\xff" for text in texts)
        block = Block(Source("/x.jsonl", "jsonl"), 0, 1, b"", True)
        made = capped(block, BlockText(data, len(texts), ""), cap, "replace", pattern)
        wanted = [beginning(pattern, text, cap) for text in texts]
        assert made.text.decode("utf-8", "surrogateescape").split("\udcff")[:-1] == wanted
        assert (made.documents, made.cut_documents) == (len(texts), sum(map(str.__ne__, texts, wanted)))
        assert made.cut_bytes == len(data) - len(made.text)
        for text, first in zip(texts, wanted, strict=True):
            found = chunks(first)
            assert found == chunks(text)[: len(found)]


def test_a_document_whose_last_piece_holds_no_text_is_cut_once(tmp_path):
    """Its bytes are left out by --bad-utf8 skip, so only what came before says that it was too long."""
    (tmp_path / "a.txt").write_bytes(b"aa bb cc dd \x80\x80")
    source, text, gpt4o = Source(str(tmp_path / "a.txt"), "txt"), "aa bb cc dd ", PRESETS["gpt4o"]
    for cap, cut in ((4, 1), (11, 1), (12, 0)):
        made = []
        for start, stop, piece in ((0, 5, b"aa bb"), (5, 12, b" cc dd "), (12, 14, b"\xff")):
            whole = BlockText(piece, int(stop == 14), "")
            made.append(capped(Block(source, start, stop, b"", stop == 14), whole, cap, "skip", gpt4o))
        assert sum(one.cut_documents for one in made) == cut
        assert b"".join(one.text for one in made) == beginning(gpt4o, text, cap).encode() + b"\xff"


def documents(seed: int, many: int) -> list[str]:
    """Documents without line breaks; some are long."""
    rng = random.Random(seed)
    words = natural_text(seed, 30_000).split()
    return [
        " ".join(rng.choices(words, k=rng.choice([1, 5, 60, 900]))) + rng.choice(["", "é東 words", " " + "x" * 90])
        for _ in range(many)
    ]


@pytest.mark.long
def test_texts_to_measure_on_are_read_whole(tmp_path):
    """By --until-bytes-per-token: as with a RUN of texts that were cut by hand."""
    text, held = natural_text(3, 20_000), tmp_path / "held.txt"
    (tmp_path / "run.txt").write_text(text)
    (tmp_path / "want.txt").write_text(beginning(PATTERNS["gpt2"], text, 4000))
    held.write_text(natural_text(4, 6000) + "Zz 9 " * 1000)
    how = {"vocab_size": 330, "text": str(held), "resources": ONE}
    found = []
    for name, cap in (("run", 4000), ("want", None)):
        source = str(tmp_path / f"{name}.txt")
        train(tmp_path / name, source, document_cap=cap, until_bytes_per_token="1.15", **how)
        found.append(log_of(tmp_path / name).events)
    assert found[0] == found[1]
    assert 0 < len(found[0]) < 74
