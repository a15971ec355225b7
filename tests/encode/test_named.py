"""Vocabularies by name: hf:NAME from a folder or the cache, tiktoken:NAME; nothing is downloaded."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from streambpe.encode.formats.export import export
from streambpe.encode.formats.imports import import_file
from streambpe.encode.tokenizer import Tokenizer
from streambpe.errors import ModelError
from streambpe.inspect.evaluate import evaluate
from streambpe.model.eventlog import write_event_log
from tests.runs import cli
from tests.samples import natural_text, written
from tests.trained import TEXT, trained


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    """A model, and what other programs get of it."""
    folder = tmp_path_factory.mktemp("named")
    written(folder / "a.txt", natural_text(8, 40_000))
    write_event_log(folder / "mine.events.jsonl", trained("plain"))
    export(trained("plain"), "hf", f"{folder}/tok/", compare=False)
    export(trained("plain"), "tiktoken", folder / "x.tiktoken", compare=False)
    return folder


def bytes_per_token(model: Path, *names: str, **how: str) -> list[float]:
    found = evaluate(str(model / "mine.events.jsonl"), str(model / "a.txt"), tokenizer=names, **how)
    return [one.values["bytes_per_token"] for one in found]


@pytest.mark.long
def test_hf_from_a_folder_and_from_the_cache(model, tmp_path, monkeypatch):
    """The revision that refs/main names; a model that is not there is one message with the command that fetches it."""
    mine, theirs = bytes_per_token(model, f"hf:{model}/tok")
    assert mine == theirs
    cached = tmp_path / "hub/models--some--model"
    for revision, text in (("aaa", "{}"), ("bbb", (model / "tok/tokenizer.json").read_text()), ("ccc", "{}")):
        (cached / "snapshots" / revision).mkdir(parents=True)
        written(cached / "snapshots" / revision / "tokenizer.json", text)
    (cached / "refs").mkdir()
    written(cached / "refs/main", "bbb\n")
    monkeypatch.delenv("HF_HUB_CACHE", raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    assert bytes_per_token(model, "hf:some/model") == [mine, theirs]
    cli("import", "hf:some/model", "-o", tmp_path / "theirs.jsonl")
    assert Tokenizer(tmp_path / "theirs.jsonl").encode(TEXT) == Tokenizer(trained("plain")).encode(TEXT)
    assert "hf download no/such tokenizer.json" in cli("import", "hf:no/such", "-o", tmp_path / "x", expect=1).stderr
    assert "Is hf:some/model meant?" in cli("import", "hf:some-model", "-o", tmp_path / "x", expect=1).stderr


def test_an_encoding_of_tiktoken(model, monkeypatch):
    """Its ranks and its pattern, beside files of both kinds; an unknown one is one message."""
    tiktoken = pytest.importorskip("tiktoken")
    encoding = runpy.run_path(str(model / "x_tiktoken.py"))["encoding"]
    assert encoding.special_tokens_set == {special.text for special in trained("plain").header.specials}
    monkeypatch.setattr(tiktoken, "get_encoding", {"ours": encoding}.__getitem__)
    files = f"{model}/tok/tokenizer.json", f"{model}/x.tiktoken"
    mine, theirs = bytes_per_token(model, "tiktoken:ours")
    assert bytes_per_token(model, *files, pattern="gpt4o") == [mine, theirs, mine]
    assert mine == theirs
    assert Tokenizer(import_file("tiktoken:ours")).encode(TEXT) == encoding.encode(TEXT)
    with pytest.raises(ModelError, match=r"^tiktoken:o200k: .*\. Is tiktoken:o200k_base meant\?$"):
        import_file("tiktoken:o200k")


def test_tiktoken_is_never_made_to_download(tmp_path, monkeypatch):
    """What its cache has not got is refused with the command that fetches it; the library is left as it was."""
    load = pytest.importorskip("tiktoken.load")
    asked: list[str] = []
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(load, "read_file", asked.append)
    told = cli("import", "tiktoken:r50k_base", "-o", tmp_path / "x", expect=1).stderr
    assert "tiktoken.get_encoding('r50k_base')" in told
    assert (asked, load.read_file) == ([], asked.append)
