"""sentencepiece's `.model`: encoded as the package does, measured, written where exact, refused where damaged."""

from __future__ import annotations

import io
import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streambpe.encode.formats import sentencepiece_file
from streambpe.encode.formats.export import export
from streambpe.encode.formats.sentencepiece_file import PieceKind, read_sentencepiece, sentencepiece_bytes
from streambpe.encode.sentencepiece import SentencePiece, Words
from streambpe.encode.tokenizer import Tokenizer
from streambpe.errors import LimitError, ModelError
from streambpe.inspect.evaluate import evaluate
from streambpe.inspect.pieces import count_pieces
from streambpe.model.eventlog import write_event_log
from streambpe.resources import Resources
from streambpe.sources.source import Source
from tests import hostile
from tests.conformance.golden import OURS, read_packed
from tests.runs import cli
from tests.samples import natural_text
from tests.trained import DOCUMENTS, HOSTILE, trained

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


# What decides about ids: normalizer, spaces, unknown characters, pieces given by the user, or over spaces.
OPTIONS: dict[str, dict[str, Any]] = {
    "usual": {},
    "bytes": {"byte_fallback": True, "split_digits": True},
    "as it is": {
        "normalization_rule_name": "identity", "remove_extra_whitespaces": False, "byte_fallback": True,
        "allow_whitespace_only_pieces": True,
    },
    "no space before": {
        "normalization_rule_name": "identity", "remove_extra_whitespaces": False, "add_dummy_prefix": False
    },
    "given": {"user_defined_symbols": ["<tool>", "日本", "the"], "byte_fallback": True},
    "given with spaces": {"user_defined_symbols": ["▁of", "the"], "normalization_rule_name": "nfkc_cf"},
    "over spaces": {"split_by_whitespace": False},
    "rules that keep spaces": {"normalization_rule_name": "nmt_nfkc_cf", "remove_extra_whitespaces": False},
}  # fmt: skip


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A function: the file that sentencepiece trains with some of OPTIONS."""
    folder, made = tmp_path_factory.mktemp("pieces"), {}

    def train(name: str) -> Path:
        if name not in made:
            lines = [*natural_text(3, 30_000).splitlines(), *(" ".join(_PARTS) for _ in range(3)), "日本 語の テキスト"]
            out = io.BytesIO()
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=iter(lines), model_writer=out, model_type="bpe", vocab_size=900, minloglevel=2,
                character_coverage=0.98, **OPTIONS[name],
            )  # fmt: skip
            made[name] = folder / f"{len(made)}.model"
            made[name].write_bytes(out.getvalue())
        return made[name]

    return train


@pytest.mark.every(4)
@pytest.mark.parametrize("name", OPTIONS)
def test_ids_are_those_of_the_package(model, name):
    """Text by text; and as counts, for which each word is encoded once, however a document is cut."""
    theirs, ours = sentencepiece.SentencePieceProcessor(model_file=str(model(name))), SentencePiece.load(model(name))
    assert len(ours) == theirs.get_piece_size()
    words, total = Words(ours), np.zeros(len(ours), np.int64)
    for text in strange_texts(300):
        ids = theirs.encode(text)
        assert ours.encode(text) == ids, text
        total += np.bincount(np.array(ids, np.int64), minlength=len(ours))
        cut = words.last_border(text) if ours.counts_words else 0
        words.add(text[:cut])
        words.add(text[cut:], begins=not cut)
    words.fold()
    assert words.n.tolist() == total.tolist()
    assert ours.counts_words == (name not in ("given with spaces", "over spaces", "rules that keep spaces"))


def test_pieces_that_are_not_used_are_what_they_were_made_of(model, tmp_path):
    """Unused pieces, as a vocabulary cut to what occurs has them; no piece for the space mark."""
    read = read_sentencepiece(model("bytes"))
    rng = random.Random(1)
    pieces = [
        replace(piece, kind=PieceKind.UNUSED)
        if piece.kind is PieceKind.NORMAL and (rng.random() < 0.3 or piece.text == "▁") else piece
        for piece in read.pieces
    ]  # fmt: skip
    for changed in (replace(read, pieces=tuple(pieces)), replace(read, add_dummy_prefix=False)):
        (tmp_path / "x.model").write_bytes(sentencepiece_bytes(changed))
        theirs = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "x.model"))
        ours = SentencePiece.load(tmp_path / "x.model")
        assert ours.file == changed
        for text in strange_texts(100):
            assert ours.encode(text) == theirs.encode(text), text


def test_it_is_measured_beside_a_model(model, tmp_path, monkeypatch):
    """Every measure from the package's ids, document by document; the text is read in small blocks."""
    monkeypatch.setattr("streambpe.inspect.pieces._BLOCK", 700)
    documents = [*DOCUMENTS[:40], *(text for text in HOSTILE if text)]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in documents))
    path = str(model("bytes"))
    theirs = sentencepiece.SentencePieceProcessor(model_file=path)
    ids = [number for text in documents for number in theirs.encode(text)]
    (found,) = evaluate([], [str(tmp_path / "a.jsonl")], rivals=[path])
    assert found.values["tokens"] == len(ids)
    assert found.values["vocab_used"] == len(set(ids))
    assert found.values["vocab_size"] == theirs.get_piece_size()
    assert found.values["documents"] == len(documents)
    assert found.values["bytes_per_token"] == sum(len(text.encode()) for text in documents) / len(ids)
    assert found.values["words"] == sum(len(text.split()) for text in documents)
    partial = [number for number in ids if theirs.is_byte(number) and int(theirs.id_to_piece(number)[3:5], 16) > 0x7F]
    assert found.values["partial_tokens"] == len(set(partial))
    one_line = tmp_path / "one.txt"
    one_line.write_text(" ".join(documents))
    (found,) = evaluate([], [str(one_line)], rivals=[path])
    assert found.values["tokens"] == len(theirs.encode(" ".join(documents)))
    write_event_log(tmp_path / "m.events.jsonl", trained("plain"))
    asked = ["evaluate", tmp_path / "m.events.jsonl", "--tokenizer", path, "--text", tmp_path / "a.jsonl"]
    assert [row["model"] for row in json.loads(cli(*asked, "--json").stdout)] == [str(asked[1]), path]


def test_a_document_that_is_too_long_for_pieces_over_spaces(model):
    """It is needed whole, so --memory decides; other models take it in parts."""
    text = Source("text", "iterator", texts=["the end of it " * 50_000])
    small = Resources(1, 1)
    with pytest.raises(LimitError, match="needs it whole"):
        count_pieces(SentencePiece.load(model("over spaces")), text, small)
    assert count_pieces(SentencePiece.load(model("usual")), text, small).bytes == 700_000


def test_what_is_no_model_is_one_message(model, tmp_path):
    """Other kinds, and import: named, with what to do."""
    lines = natural_text(3, 20_000).splitlines()
    out = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_writer=out, model_type="unigram", vocab_size=100, minloglevel=2
    )
    path = tmp_path / "x.model"
    path.write_bytes(out.getvalue())
    told = cli("evaluate", "--tokenizer", path, "--text", path, expect=1).stderr
    assert "kind unigram" in told
    told = cli("import", path, "-o", tmp_path / "log", expect=1).stderr
    assert f"evaluate --tokenizer {path}" in told


@pytest.mark.long
def test_damage_is_never_a_traceback(model, tmp_path):
    """Bytes changed, files cut off: refused as what they are, or read as another model."""
    path = tmp_path / "x.model"
    whole = model("usual").read_bytes()
    rng = random.Random(3)
    refused = 0
    for _ in range(300):
        damaged = bytearray(whole[: rng.randrange(len(whole))] if rng.random() < 0.5 else whole)
        for _ in range(rng.randrange(1, 4)):
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        path.write_bytes(damaged)
        try:
            SentencePiece.load(path).encode("Å ﬁ the end")
        except ModelError:
            refused += 1
    assert refused > 100


def test_a_file_that_is_too_large_is_refused(model, monkeypatch):
    monkeypatch.setattr(sentencepiece_file, "MOST_FILE_BYTES", 1000)
    with pytest.raises(ModelError, match="larger than"):
        SentencePiece.load(model("usual"))


def exportable(folder: Path, *more: str) -> Path:
    """A run whose tokens are whole characters of one and two bytes."""
    text = "".join(c for c in natural_text(8, 40_000) if c < "\u0800") + "über Мир и война, où était l'été? " * 40
    (folder / "a.txt").write_text(text, encoding="utf-8")
    options = ["-s", "600", "--whole-characters", "--memory", "300MB", *more]
    cli("train", folder / "run", folder / "a.txt", *options)
    return folder / "run"


@pytest.mark.long
@pytest.mark.every(2)
@pytest.mark.parametrize("pattern", [" *[^ ]+| +", "none"])
def test_written_where_exact(tmp_path, pattern):
    """Golden texts, hostile ones: the package gives the model's ids, and so do we of the file; specials keep theirs."""
    run = exportable(tmp_path, "--pattern", pattern, "--special", "<s>", "--special", "</s>", "--reserve", "2")
    told = cli(
        "export", run, "--to", "sentencepiece", "-o", tmp_path / "x.model", "--verify", tmp_path / "a.txt", "--strict"
    )
    assert "are equal in sentencepiece" in told.stderr
    ours, theirs = Tokenizer.load(run), sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "x.model"))
    read = SentencePiece.load(tmp_path / "x.model")
    golden = [read_packed(OURS / "inputs", f"g_{name}.txt").decode() for name in ("code", "swift", "udhr6")]
    for text in [*golden, *strange_texts(500), "über " * 50]:
        ids = ours.encode_ordinary(text)
        assert theirs.encode(text) == ids
        assert len(text) > 5_000 or read.encode(text) == ids
        assert theirs.decode(ids) == text
    assert theirs.piece_to_id("<s>") == ours.special_tokens["<s>"]
    assert theirs.is_control(ours.special_tokens["</s>"])


def test_refused_by_name_elsewhere(tmp_path):
    """Each reason; nothing is written."""
    for kind, why in {
        "plain": "--pattern 'gpt4o'", "picky": "--tau", "stops": "stop words", "boundless": "superwords",
        "uw": "superwords", "whitespace": "characters as symbols",
    }.items():  # fmt: skip
        with pytest.raises(ModelError, match=why):
            export(trained(kind), "sentencepiece", tmp_path / "x.model")
    assert not list(tmp_path.iterdir())


@pytest.mark.long
def test_refused_for_what_was_learned(tmp_path):
    """A normalizer, and tokens that are no whole characters."""
    run = exportable(tmp_path, "--pattern", "none")
    log = Tokenizer.load(run).event_log
    with pytest.raises(ModelError, match="normalize"):
        export(replace(log, header=replace(log.header, config={**log.header.config, "normalize": "nfc"})),
               "sentencepiece", tmp_path / "x.model")  # fmt: skip
    (tmp_path / "b.txt").write_text("日本語の テキスト " * 300, encoding="utf-8")
    cli("train", tmp_path / "three", tmp_path / "b.txt", "-s", 270, "--pattern", "none", "--memory", "300MB")
    told = cli("export", tmp_path / "three", "--to", "sentencepiece", "-o", tmp_path / "x.model", expect=1).stderr
    assert "hold a part of a character" in told
    assert not (tmp_path / "x.model").exists()
