"""`train` and `count` from Python: flat keywords, errors that name them, a line in a notebook."""

from __future__ import annotations

import re
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import pytest

import streambpe
from streambpe import config
from streambpe.config import TrainConfig
from streambpe.encode.tokenizer import Tokenizer
from streambpe.errors import UsageError
from streambpe.store.job import read_jobs
from streambpe.store.run import Run
from tests.runs import SMALL, cli, log_of
from tests.samples import natural_text

ROOT = Path(__file__).parents[2]
TEXT = "the cat and the dog, the end of the day and the cat\n" * 40


@pytest.fixture
def source(tmp_path) -> str:
    (tmp_path / "a.txt").write_text(TEXT)
    return str(tmp_path / "a.txt")


@pytest.mark.long
def test_flat_keywords_are_what_objects_say(source, tmp_path):
    """The same job, the same vocabulary; None says nothing."""
    how = {"pattern": "o200k_base", "lines": True, "memory": "400MB", "threads": 2}
    counting = {"options": {"pattern": "gpt4o"}, "lines": True}
    streambpe.train(tmp_path / "flat", [source], vocab_size=265, **how)
    streambpe.train(tmp_path / "objects", [source], vocab_size=265, counting=counting, resources=SMALL)
    assert log_of(tmp_path / "flat") == log_of(tmp_path / "objects")
    mine, theirs = (read_jobs(Run(tmp_path / name)).trainings["main"] for name in ("flat", "objects"))
    assert mine == theirs
    assert streambpe.train(tmp_path / "int", [source], vocab_size=265, memory=400_000_000, lines=True).events
    again = streambpe.count(tmp_path / "flat", [source], pattern=None, lines=True, memory="400MB")
    assert (again.counted, again.skipped) == (0, 1)


@pytest.mark.parametrize(
    ("given", "error", "told"),
    [
        ({"vocab_sise": 300}, TypeError, "'vocab_size' meant"),
        ({"pattern": "gpt4", "counting": {"lines": True}}, UsageError, "pattern and counting"),
        ({"memory": "1GB", "resources": SMALL}, UsageError, "memory and resources"),
        ({"special": 3}, TypeError, "special=3: a text or a list of texts"),
        ({"lines": "yes"}, TypeError, "lines='yes': true or false"),
    ],
)
def test_errors_name_the_argument(source, tmp_path, given, error, told):
    """Before anything is made."""
    with pytest.raises(error, match=told):
        streambpe.train(tmp_path / "run", [source], **given)
    assert not (tmp_path / "run").exists()


def test_a_tokenizer_has_the_names_people_try(source, tmp_path):
    """len, a call, the vocabulary, tokens and ids, an export, and a picture in a notebook."""
    streambpe.train(tmp_path / "run", [source], vocab_size=270, special=["<s>"], resources=SMALL)
    tokenizer = Tokenizer(tmp_path / "run")
    assert len(tokenizer) == tokenizer.n_vocab == 270
    assert tokenizer("the cat") == tokenizer.encode("the cat")
    assert tokenizer(["the cat", "dog"]) == tokenizer.encode_batch(["the cat", "dog"])
    vocabulary = tokenizer.get_vocab()
    assert list(vocabulary.values()) == list(range(270))
    for token, number in vocabulary.items():
        assert tokenizer.token_to_id(token) == number
        assert tokenizer.id_to_token(number) == token
    assert tokenizer.token_to_id(" the") == tokenizer.encode(" the")[0]
    assert tokenizer.token_to_id("no such token") is None
    assert tokenizer.id_to_token(270) is None
    shown = tokenizer.show("the <cat>\n<s>")
    page = shown._repr_html_()
    assert "<cat>" not in page
    assert "&lt;s&gt;" in page
    assert page.count("<span") == len(shown.ids)
    assert repr(shown).startswith("the|")
    assert repr(shown).replace("|", "") == "the␠<cat>\\n<s>"
    assert "tokens</small>" in tokenizer._repr_html_()
    (result,) = Tokenizer(tmp_path / "run", vocab_size=265).export("hf", f"{tmp_path}/folder/", add_bos=True)
    assert (tmp_path / "folder/tokenizer_config.json").exists()
    assert result.n_vocab == 265


@pytest.mark.long
def test_a_notebook_gets_a_line_below_its_cell(source, tmp_path, monkeypatch):
    """With progress="auto", and once; outside a notebook nothing is drawn."""
    drawn: list[Any] = []
    handle = types.SimpleNamespace(update=lambda data, raw: drawn.append(data["text/plain"]))

    def display(data: dict[str, str], raw: bool, display_id: bool) -> Any:
        drawn.append("begun")
        return handle

    ipython, shown = types.ModuleType("IPython"), types.ModuleType("IPython.display")
    ipython.get_ipython = lambda: types.SimpleNamespace(kernel=object())  # type: ignore[attr-defined]
    shown.display = display  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", shown)
    streambpe.train(tmp_path / "run", [source], vocab_size=265, resources=SMALL, progress="auto")
    assert drawn[0] == "begun"
    assert drawn[-1].startswith("trained")


@pytest.mark.long
def test_growing_takes_over_what_is_not_given(source, tmp_path):
    """The vocabulary size alone is enough; the result is that of one command; what differs is still refused."""
    Path(source).write_text(natural_text(9, 20_000))
    options: dict[str, Any] = {"special": ["<s>"], "min_frequency": 2, "max_token_length": 5, "tau": "0.9"}
    whole = streambpe.train(tmp_path / "whole", [source], vocab_size=275, resources=SMALL, **options)
    run = tmp_path / "run"
    streambpe.train(run, [source], vocab_size=262, resources=SMALL, **options)
    assert streambpe.train(run, resources=SMALL).skipped, "without any option it is as it was"
    grown = streambpe.train(run, vocab_size=275, resources=SMALL)
    assert grown.sha256 == whole.sha256
    assert grown.size == 275
    with pytest.raises(UsageError, match="leave the option out"):
        streambpe.train(run, vocab_size=280, min_frequency=3, resources=SMALL)
    with pytest.raises(UsageError, match="started with"):
        streambpe.train(run, vocab_size=280, like="hf", resources=SMALL)
    other = streambpe.train(run, vocab_size=265, name="other", resources=SMALL)
    assert not Tokenizer(f"{run}:other").special_tokens
    assert other.size == 265
    cli("train", f"{run}:grown", "-s", 262, "--ties", "bytes", "--special", "<s>")
    cli("train", f"{run}:grown", "-s", 270)
    kept = (run / "grown.train.toml").read_text()
    assert 'ties = "bytes"' in kept
    assert "vocab-size = 270" in kept


def test_type_checkers_see_the_keywords_as_they_are():
    """Whoever changes an option runs tools/keywords.py."""
    if not (ROOT / "tools").is_dir():
        pytest.skip("an sdist has no tools")
    code = "from keywords import *; assert all((PACKAGE / name).read_text() == made() for name, made in MADE.items())"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT / "tools", check=True)


VALUES = {
    "tau": "0.9", "batch": "paper", "ties": "bytes", "whole_characters": True, "encoding": "chars", "alphabet": "seen",
    "extends": "0" * 64, "superwords": "boundless", "weights": ["a=2"], "stop_list": 3, "freq_cutoff": 2,
    "block_tokens": ("a",), "must": ("a",), "alpha": "0.3", "balance": True, "balanced_on": {"a": "0" * 64},
}  # fmt: skip


@pytest.mark.parametrize(("one", "other", "why"), config._CONFLICTS)
def test_options_that_cannot_be_combined_are_refused(one, other, why):
    """Each pair, with the reason; and neither of the two without the other."""
    given = {name: value or VALUES[name] for name, _, value in (one.partition(" "), other.partition(" "))}
    given |= {"balance": True} if "balanced_on" in given else {}
    with pytest.raises(UsageError, match=rf"--.* with --.*: {re.escape(why)}\. Leave one of the two out\."):
        TrainConfig.from_options("hf", vocab_size=5000, **given)
    for name in given:
        if name not in ("extends", "balanced_on", "superwords"):
            TrainConfig.from_options("hf", vocab_size=5000, **{name: given[name]})
