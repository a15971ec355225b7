"""vocab.json and merges.txt, as GPT-2 had them: read as MODEL and by `import`, by their folder or either file."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from streambpe.encode.formats.export import export
from streambpe.encode.formats.imports import import_file
from streambpe.encode.tokenizer import Tokenizer
from streambpe.errors import ModelError
from streambpe.train.as_model import model_log
from streambpe.train.commands import train
from tests.runs import SMALL
from tests.samples import natural_text


@pytest.fixture(scope="module")
def template(tmp_path_factory) -> Path:
    """A folder with a text, a RUN, and the two files that it is exported to."""
    folder = tmp_path_factory.mktemp("template")
    (folder / "a.txt").write_text(natural_text(3, 3000))
    train(folder / "run", [str(folder / "a.txt")], vocab_size=300, pattern="gpt2", special=["<|end|>"], resources=SMALL)
    export(folder / "run", "gpt2", folder / "old")
    return folder


@pytest.fixture
def learned(template, tmp_path) -> Path:
    """A copy that a test may change."""
    return shutil.copytree(template, tmp_path / "learned")


def test_what_is_written_is_read(learned):
    """The same ids, and the special token; the pattern is GPT-2's, or the one that is given."""
    ours, text = Tokenizer(learned / "run"), natural_text(5, 2000)
    for place in ("old", "old/vocab.json", "old/merges.txt"):
        log = model_log(learned / place)
        theirs = Tokenizer(log)
        assert theirs.encode(text) == ours.encode(text)
        assert theirs.special_tokens == ours.special_tokens
        assert log.header.config["pattern"] == "gpt2"
    assert import_file(learned / "old", pattern="gpt4").header.config["pattern"] == "gpt4"
    (learned / "old" / "added_tokens.json").write_text('{"<pad>": 300}')
    assert Tokenizer(model_log(learned / "old")).special_tokens == {"<|end|>": 299, "<pad>": 300}


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("vocab.json", '{"a": 0', "is not JSON: line 1"),
        ("vocab.json", '{"a": "b"}', "tokens and their ids"),
        ("merges.txt", "#version: 0.2\na b c\n", "line 2"),
        ("merges.txt", "#version: 0.2\na b</w>\n", "</w>"),
        ("merges.txt", "zz b\n", "does not exist yet"),
        ("tokenizer_config.json", '{"tokenizer_class": "Qwen2TokenizerFast"}', "--pattern PATTERN"),
        ("tokenizer_config.json", '{"add_prefix_space": true}', "add_prefix_space"),
    ],
)
def test_what_cannot_be_read_so_is_refused(learned, name, text, message):
    """One message that names the file."""
    (learned / "old" / name).write_text(text)
    with pytest.raises(ModelError, match=message) as told:
        model_log(learned / "old")
    assert str(learned / "old") in str(told.value)


@pytest.mark.parametrize("name", ["vocab.json", "merges.txt"])
def test_one_of_two_is_not_enough(learned, name):
    """The message names the other."""
    other = {"vocab.json": "merges.txt", "merges.txt": "vocab.json"}[name]
    (learned / "old" / other).unlink()
    with pytest.raises(ModelError, match=f"{other}, which has the .*is missing beside it"):
        model_log(learned / "old" / name)
