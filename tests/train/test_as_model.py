"""train --as MODEL: learned anew with everything of an existing tokenizer but its merges."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import streambpe
from streambpe.errors import StreambpeError
from streambpe.model.alphabet import bytes_alphabet
from streambpe.model.eventlog import EventLog, Header
from streambpe.train.as_model import options_as
from streambpe.train.commands import train
from tests.peers import by_tokenizers
from tests.runs import SMALL, cli
from tests.samples import natural_text, written
from tests.tiers import long

MADE = [
    {"vocab_size": 320, "pattern": "gpt4", "special": ("<s>", "</s>"), "reserve": 3, "specials_first": True},
    long({"vocab_size": 330, "superwords": "uw", "normalize": "nfc"}),
    long({"vocab_size": 300, "like": "kensho", "superwords": "boundless", "tau": "0.9", "pattern": "boundless"}),
    long({"vocab_size": 120, "like": "picky"}),
    long({"vocab_size": 300, "like": "batch", "stop_list": 5, "freq_cutoff": 2, "split_scripts": True}),
    long({"vocab_size": 300, "pattern": r"\w+|\W", "block_token": ("th", " a"), "whole_characters": True}),
]


@pytest.fixture
def text(tmp_path) -> Path:
    """One text."""
    return written(tmp_path / "a.txt", natural_text(5, 20_000))


@pytest.mark.parametrize("options", MADE, ids=str)
def test_as_a_model_learned_here_is_the_same_again(text, tmp_path, options):
    """From the same text the event log has the same bytes, whether the RUN or its log is named."""
    log = train(tmp_path / "one", [str(text)], resources=SMALL, **options).log
    for number, model in enumerate((tmp_path / "one", log)):
        again = train(tmp_path / f"again{number}", [str(text)], resources=SMALL, as_model=model)
        assert again.log.read_bytes() == log.read_bytes()


@pytest.mark.long
def test_as_a_tokenizer_json(text, tmp_path):
    """Size, pattern, normaliser and the places of special tokens are the file's; merges are those of the new text."""
    pytest.importorskip("tokenizers")
    file = tmp_path / "tokenizer.json"

    def trained_there(text: str, to: Path) -> dict:
        made = by_tokenizers([text], 500, normalizer="NFC", special_tokens=["<pad>", "<end of text>"])
        made.save(str(to))
        return json.loads(to.read_text(encoding="utf-8"))["model"]

    trained_there(natural_text(6, 20_000), file)
    wanted = trained_there(natural_text(5, 20_000), tmp_path / "wanted.json")
    run = tmp_path / "run"
    cli("train", run, text, "--as", file, "--progress", "none")
    streambpe.export(run, "hf", tmp_path / "made.json")
    made = json.loads((tmp_path / "made.json").read_text(encoding="utf-8"))["model"]
    assert (made["merges"], made["vocab"]) == (wanted["merges"], wanted["vocab"])
    given = cli("train", tmp_path / "given", text, "--as", file, "-s", "400", "--special", "<x>", "--progress", "none")
    assert "400 ids" in given.stderr
    taken = options_as(tmp_path / "given")
    assert (taken["specials"], taken["specials_first"], taken["normalize"]) == (("<x>",), True, "nfc")
    planned = cli("plan", text, "--as", file, "--rehearse", "1MB", "--json", "--progress", "none")
    assert json.loads(planned.stdout)


@pytest.mark.long
def test_what_cannot_be_taken_is_named(text, tmp_path):
    """Nothing is made."""
    without = EventLog(Header(bytes_alphabet().to_header(), config={}), ())
    for model, more, why in (
        (tmp_path / "none", {}, "none"),
        (text, {}, "a.txt"),
        (tmp_path, {"like": "hf"}, f"as_model {tmp_path} and like=.hf.: each sets"),
        (without, {}, "how text is split"),
    ):
        with pytest.raises(StreambpeError, match=why):
            streambpe.train(tmp_path / "run", [str(text)], as_model=model, **more)
    assert not (tmp_path / "run").exists()
