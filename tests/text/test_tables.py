"""A RUN and a model know which character tables split text; others are refused in counting, told in encoding."""

from __future__ import annotations

import functools
import json
from dataclasses import replace
from importlib.metadata import version

import pytest
import regex

from streambpe.encode.tokenizer import Tokenizer
from streambpe.errors import RunMismatch, TablesDiffer
from streambpe.model.eventlog import write_event_log
from streambpe.store.exchange import merge_counts
from streambpe.store.run import Run
from streambpe.text import characters
from streambpe.text import unicode_tables as tables
from streambpe.text.characters import unicode_version
from streambpe.text.patterns import find_pattern
from streambpe.train.commands import train
from streambpe.train.counting.count import count
from tests.runs import SMALL, cli, log_of, rows
from tests.samples import natural_text


@pytest.fixture
def texts(tmp_path) -> list[str]:
    """Two files."""
    for number, name in enumerate("ab"):
        (tmp_path / f"{name}.txt").write_text(natural_text(number, 3000))
    return [str(tmp_path / f"{name}.txt") for name in "ab"]


@pytest.fixture
def other_regex(monkeypatch):
    """From the call on another version of `regex` is installed, whose tables are others unless `same`."""

    def install(same: bool = False) -> None:
        monkeypatch.setattr(regex, "__version__", "2031.1.1")
        if not same:
            monkeypatch.setattr(tables, "unicode_version", lambda: "19.0.0")
            monkeypatch.setattr(tables, "tables_digest", lambda named=(): "f" * 16)

    return install


@pytest.mark.long
def test_a_run_counted_with_other_tables(texts, tmp_path, other_regex):
    """Going on is refused, naming both and the way back, and so is merging with others; what is counted already is
    learned from as before."""
    run, new = tmp_path / "run", tmp_path / "new"
    count(run, texts[:1], resources=SMALL)
    merge_counts(tmp_path / "sum", [run], resources=SMALL)
    fact = {"regex": regex.__version__, "version": unicode_version(), "digest": tables.tables_digest()}
    for each in (run, tmp_path / "sum"):
        assert json.loads(Run(each).facts()["unicode"]) == fact
    before = rows(run, "FROM chunk_counts ORDER BY ALL")
    other_regex()
    with pytest.raises(RunMismatch, match=rf"Unicode {fact['version']} .*19\.0\.0.*pip install regex=={fact['regex']}"):
        count(run, texts, resources=SMALL)
    assert rows(run, "FROM chunk_counts ORDER BY ALL") == before
    assert count(run, texts[:1], resources=SMALL).skipped == 1
    train(run, vocab_size=300, resources=SMALL)
    assert log_of(run).header.unicode == fact["version"], "what split the text, not what is installed"
    count(new, texts[1:], resources=SMALL)
    assert json.loads(Run(new).facts()["unicode"]) == {"regex": "2031.1.1", "version": "19.0.0", "digest": "f" * 16}
    with pytest.raises(RunMismatch, match=r"19\.0\.0 .*cannot be"):
        merge_counts(tmp_path / "mixed", [run, new], resources=SMALL)
    assert not (tmp_path / "mixed").exists()


def test_what_is_known_of_the_tables_is_what_they_say(monkeypatch):
    """Of the installed version as the code has it, and of one that the code does not know."""
    if regex.__version__ in tables.KNOWN:
        assert tables.KNOWN[regex.__version__] == tables.tables_digest()
    assert version("regex") == regex.__version__
    monkeypatch.setattr(characters, "WRITTEN_WITH", "2001.1.1")
    assert unicode_version.__wrapped__() == unicode_version()


def test_a_digest_sees_one_code_point(monkeypatch):
    """A letter that becomes a mark, or folds otherwise, in an expression's own classes too."""
    digest = tables.tables_digest.__wrapped__
    before, text = digest(("Han",)), tables.every_character()
    for letter, other in (("é", "\u0301"), ("ſ", "é")):
        monkeypatch.setattr(tables, "every_character", functools.partial(text.replace, letter, other))
        assert digest(("Han",)) != before
    assert tables.named_properties(find_pattern(r"[[:alpha:]]+|\p{Han}|\P{L}|\p{^Greek}|(?s:.)")) == (
        "Greek", "Han", "alpha",
    )  # fmt: skip


def test_the_same_tables_under_another_version(texts, tmp_path, other_regex):
    """The tables count, not the package; rules with tables of their own go on under any. Which chunks may join is asked
    while superwords are learned: refused under others."""
    runs = {pattern: tmp_path / pattern for pattern in ("gpt4o", "script")}
    for pattern, run in runs.items():
        count(run, texts[:1], pattern=pattern, resources=SMALL)
        assert ("unicode" in Run(run).facts()) == (pattern == "gpt4o")
    count(tmp_path / "ordered", texts, pattern="boundless", sequences=True, resources=SMALL)
    other_regex(same=True)
    assert count(runs.pop("gpt4o"), texts, resources=SMALL).counted == 1
    other_regex()
    assert count(runs.pop("script"), texts, resources=SMALL).counted == 1
    with pytest.raises(RunMismatch, match="learning superwords would mix two splits"):
        train(tmp_path / "ordered", superwords="boundless", vocab_size=300, resources=SMALL)


@pytest.mark.long
def test_encoding_with_other_tables_is_told(texts, tmp_path, other_regex):
    """Once, on stderr; decoding splits nothing and says nothing; the API warns. Of a model that says nothing about
    tables, as of an imported one, nothing is told."""
    run = tmp_path / "run"
    train(run, texts, vocab_size=300, resources=SMALL)
    assert cli("encode", run, texts[0]).stderr == ""
    ids, log = Tokenizer(run).encode("some words"), log_of(run)
    write_event_log(tmp_path / "m.jsonl", replace(log, header=replace(log.header, unicode=None)))
    other_regex()
    told = cli("encode", run, texts[0]).stderr
    assert told.count("warning:") == 1
    assert f"was learned with the character tables of Unicode {unicode_version()}; here are those of 19.0.0" in told
    assert "character tables" in cli("evaluate", run, "--text", texts[0]).stderr
    decoded = cli("decode", run, input=" ".join(map(str, ids)))
    assert (decoded.stdout, decoded.stderr) == ("some words\n", "")
    with pytest.warns(TablesDiffer, match="split otherwise than in training"):
        Tokenizer(run)
    assert cli("encode", tmp_path / "m.jsonl", texts[0]).stderr == ""
