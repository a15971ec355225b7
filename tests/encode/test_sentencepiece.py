"""sentencepiece's `.model`: encoded as the package does, measured, refused where damaged."""

from __future__ import annotations

import io
import random
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streambpe.errors import LimitError, ModelError
from streambpe.inspect.evaluate import evaluate
from streambpe.inspect.pieces import SentencePiece, count_pieces
from streambpe.resources import Resources
from streambpe.sources.source import Source
from tests import hostile
from tests.runs import cli
from tests.samples import json_lines, natural_text, written
from tests.trained import DOCUMENTS, HOSTILE

sentencepiece = pytest.importorskip("sentencepiece")

_PARTS = [
    *(hostile.SPACES + hostile.ALMOST_SPACES + hostile.MARKS + hostile.APOSTROPHES + hostile.DIGITS + hostile.LETTERS),
    *(hostile.SYMBOLS + hostile.EMOJI + hostile.CONTROLS),
    *["▁", " ", " ", "´", "ﬁ", "½", "Å", "<s>", "<unk>", "<0x41>", "the", "<tool>", "日本"],
]


def strange_texts(count: int, seed: int = 5) -> list[str]:
    """Random strings of parts that normalizers, spaces and unknown characters make difficult."""
    rng = random.Random(seed)
    made = ["".join(rng.choice(_PARTS) for _ in range(rng.randint(1, 25))) for _ in range(count)]
    return [*HOSTILE, *DOCUMENTS[:30], *made, "▁", "a ▁ b▁", "  a  b  ", "´ a"]


OPTIONS: dict[str, dict[str, Any]] = {
    "usual": {"model_type": "bpe"},
    "bytes": {"model_type": "bpe", "byte_fallback": True, "split_digits": True},
    "unigram": {"model_type": "unigram", "vocab_size": 300},
}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A function: the file that sentencepiece trains with some of OPTIONS."""
    folder = tmp_path_factory.mktemp("pieces")

    @cache
    def train(name: str) -> Path:
        lines = [*natural_text(3, 30_000).splitlines(), *(" ".join(_PARTS) for _ in range(3)), "日本 語の テキスト"]
        out, how = io.BytesIO(), {"vocab_size": 900, "character_coverage": 0.98, "minloglevel": 2} | OPTIONS[name]
        sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(lines), model_writer=out, **how)
        return written(folder / f"{name}.model", out.getvalue())

    return train


def counted_by_the_package(file: Path, documents: list[str]) -> list[int]:
    """How often each id occurs, documents encoded whole by the package itself."""
    theirs = sentencepiece.SentencePieceProcessor(model_file=str(file))
    ids = [number for text in documents for number in theirs.encode(text)]
    return np.bincount(np.array(ids, np.int64), minlength=theirs.get_piece_size()).tolist()


def counted(file: Path, documents: list[str]) -> list[int]:
    return count_pieces(SentencePiece(file), Source("text", "iterator", texts=documents)).n.tolist()


@pytest.mark.parametrize("name", OPTIONS)
def test_ids_are_those_of_the_package(model, name, monkeypatch):
    """Of documents that end within blocks, and go on over many."""
    monkeypatch.setattr("streambpe.inspect.pieces._BLOCK", 700)
    texts = [text for text in strange_texts(300) if text]
    documents = [*texts, " ".join(texts), "\n".join(texts)]
    assert counted(model(name), documents) == counted_by_the_package(model(name), documents)


def test_it_is_measured_as_a_model_is(model, tmp_path, monkeypatch):
    """Every measure from the package's ids, document by document; the text is read in small blocks."""
    monkeypatch.setattr("streambpe.inspect.pieces._BLOCK", 700)
    documents = [*DOCUMENTS[:40], *(text for text in HOSTILE if text)]
    source, path = json_lines(tmp_path / "a.jsonl", documents), str(model("bytes"))
    theirs = sentencepiece.SentencePieceProcessor(model_file=path)
    ids = [number for text in documents for number in theirs.encode(text)]
    (found,) = evaluate([], [source], tokenizer=[path])
    values = found.values
    assert (values["tokens"], values["vocab_used"]) == (len(ids), len(set(ids)))
    assert (values["documents"], values["vocab_size"]) == (len(documents), theirs.get_piece_size())
    assert values["bytes_per_token"] == sum(len(text.encode()) for text in documents) / len(ids)
    assert values["words"] == sum(len(text.split()) for text in documents)
    partial = [number for number in ids if theirs.is_byte(number) and int(theirs.id_to_piece(number)[3:5], 16) > 0x7F]
    assert values["partial_tokens"] == len(set(partial))


def test_a_document_that_is_too_long(model):
    """It is needed whole, so --memory decides."""
    text = Source("text", "iterator", texts=["the end of it " * 50_000])
    with pytest.raises(LimitError, match="needs it whole"):
        count_pieces(SentencePiece(model("usual")), text, Resources(1, 1))
    assert count_pieces(SentencePiece(model("usual")), text).bytes == 700_000


def test_without_the_package_one_message_says_what_to_install(model, monkeypatch):
    monkeypatch.setitem(sys.modules, "sentencepiece", None)
    with pytest.raises(ModelError, match=r"`pip install sentencepiece`\. Nothing was measured"):
        SentencePiece(model("usual"))


def test_it_is_not_imported_and_damage_is_one_message(model, tmp_path):
    told = cli("import", model("unigram"), "-o", tmp_path / "log", expect=1).stderr
    assert f"evaluate --tokenizer {model('unigram')}" in told
    whole = model("usual").read_bytes()
    for damaged in (whole[:5000], whole.replace("▁the".encode(), b"\xe2\x96\xffthe")):
        path = written(tmp_path / "x.model", damaged)
        told = cli("evaluate", "--tokenizer", path, "--text", path, expect=1).stderr
        assert told.strip() == f"streambpe: {path} is not a sentencepiece .model, or is damaged."
