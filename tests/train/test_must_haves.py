"""train --must: chunks that are tokens in the end."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import duckdb
import pytest

from streambpe.encode.formats.export import export
from streambpe.encode.formats.verify import loaded
from streambpe.errors import UsageError
from streambpe.inspect.check import check
from streambpe.text.shown import shown
from streambpe.train.commands import resume, train
from tests.runs import SMALL, cli, killed_at, log_of, text_run
from tests.samples import natural_text

LISTED = ["hypertension", " hypertensive", "\t\t\t\t\t\t\t", "日本国", " zzz"]


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    return text_run(tmp_path_factory.mktemp("must") / "run", natural_text(3, 20_000))


@pytest.mark.long
def test_exports_give_one_id(run, tmp_path):
    """In tokenizers and in tiktoken too; the file's lines are read as tokens are shown."""
    (tmp_path / "list.txt").write_text("\n".join(shown(text.encode()) for text in LISTED) + "\n", encoding="utf-8")
    result = train(run, name="listed", vocab_size=500, must=str(tmp_path / "list.txt"), resources=SMALL)
    tokenizer, log = result.tokenizer, log_of(run, "listed")
    assert log.header.config["must"] == LISTED
    ids = [tokenizer.encode(text) for text in LISTED]
    assert [len(one) for one in ids] == [1] * len(LISTED)
    for to, name in (("hf", "tokenizer.json"), ("tiktoken", "a.tiktoken")):
        (told,) = export(result.log, to, tmp_path / name)
        assert told.exact
        assert loaded(to, told.files).encode(LISTED) == ids


@pytest.mark.long
def test_a_training_goes_on_and_grows(run, tmp_path):
    """Killed, grown to a larger size, like itself, by its option file: the events of one training."""
    options: dict[str, Any] = {"must": [*LISTED[:3], "<U+003C>-"], "resources": SMALL, "checkpoint_seconds": 0.0}
    whole = train(run, name="whole", vocab_size=400, **options)
    for name, place in (("a", "events-committed:2"), ("b", "tables-committed"), ("c", "log-written")):
        with killed_at(place):
            train(run, name=name, vocab_size=400, **options)
        assert resume(run, name=name).sha256 == whole.sha256
    train(run, name="small", vocab_size=330, **options)
    assert train(run, name="small", vocab_size=400).sha256 == whole.sha256
    cli("train", run, "--name", "filed", "--config", run / "whole.train.toml", "--memory", "400MB")
    assert log_of(run, "filed").events == log_of(run, "whole").events
    assert check(run, resources=SMALL) == []


@pytest.mark.long
def test_an_extended_model_grows_though_its_tables_are_lost(run, tmp_path):
    """Nobody knows then which events made must-haves: all but the model's own are learned again."""
    model = train(text_run(tmp_path / "model", natural_text(4, 5_000)), vocab_size=280, resources=SMALL).log
    options: dict[str, Any] = {"extend": model, "must": LISTED[0], "resources": SMALL}
    wanted = train(run, name="at_once", vocab_size=330, **options).sha256
    train(run, name="grown", vocab_size=310, **options)
    with duckdb.connect(str(run / "state.duckdb")) as con:
        con.execute("DROP SCHEMA grown CASCADE")
    assert train(run, name="grown", vocab_size=330, **options).sha256 == wanted


@pytest.mark.parametrize(
    ("must", "options", "told"),
    [
        ("two words", {}, "two and ␠words"),
        ("", {}, "at least one character"),
        ("<E2 82>", {}, "a part of a character"),
        ("<U+D800>", {}, "surrogates"),
        ("<U+110000>", {}, "characters are U+0000 to U+10FFFF"),
        ("missing.txt", {}, "No such file or directory. Nothing was changed. What ends in .txt is a file"),
        ("e\u0301", {"normalize": "nfc"}, "changed, into é"),
        ("the", {"special": "the"}, "special token"),
        ("other", {"block_token": "th"}, "--block-token"),
        ("other", {"max_token_length": 4}, "--max-token-length"),
        ("日", {"alphabet": "seen"}, "not in the alphabet"),
        ("日", {"encoding": "chars"}, "not in the alphabet"),
        ("hypertension", {"vocab_size": 260}, "needs 11 ids, and --vocab-size leaves 4"),
        ("other", {"until_bytes_per_token": 3, "text": __file__}, "with --must a smaller training"),
    ],
)
def test_what_cannot_be_is_refused(tmp_path, must, options, told):
    """One sentence, and nothing of the training is left."""
    source = tmp_path / "a.txt"
    source.write_text(natural_text(3, 3000).encode("ascii", "ignore").decode(), encoding="utf-8")
    with pytest.raises(UsageError, match=re.escape(told)):
        train(tmp_path / "run", [str(source)], resources=SMALL, must=must, **{"vocab_size": 300, **options})
    assert not list((tmp_path / "run").glob("*events*"))


def test_a_file_is_refused_by_its_line(tmp_path, monkeypatch):
    """Without the hint that is for a file which is missing."""
    monkeypatch.chdir(tmp_path)
    Path("a.txt").write_text("the text")
    for content, told in (
        (b"a\xff\n", "--must bad.txt: it is not UTF-8. Nothing was changed."),
        (b"a\nb\n\nc\n", "--must bad.txt line 3: a text has at least one character. Nothing was changed."),
        (b"a\ntwo words\n", "--must bad.txt line 2: two␠words: the text is cut, or changed, into two and ␠words"),
    ):
        Path("bad.txt").write_bytes(content)
        with pytest.raises(UsageError, match=re.escape(told)) as refused:
            train("run", "a.txt", resources=SMALL, must=["x", "bad.txt"], vocab_size=300)
        assert "What ends in .txt" not in str(refused.value)


def test_a_must_have_of_a_token_that_may_not_grow_is_refused(tmp_path):
    """The model that is extended has half of é and half of ã as one token: --whole-characters keeps é from using it."""
    old = text_run(tmp_path / "old", "éã ĩä ũà ǩå " * 5, r"\S+|\s+")
    train(old, vocab_size=257, alphabet="bytes")
    assert log_of(old).events[0].pair == (0xA9, 0xC3)
    new, given = text_run(tmp_path / "new", "ééé", r"\S+|\s+"), {"extend": str(old), "whole_characters": True}
    with pytest.raises(UsageError, match="ééé: no merges that are allowed make it a token"):
        train(new, vocab_size=270, must=("ééé",), **given)
    train(new, vocab_size=270, must=("é",), **given)
    assert log_of(new).events[-1].pair == (0xC3, 0xA9)
