"""`exact` is said of an export that was loaded in its library and compared, and of no other."""

from __future__ import annotations

import hashlib
import json
import tempfile
from unittest.mock import Mock

import pytest
import regex

from streambpe.encode.formats import export as exporting
from streambpe.encode.formats import verify
from streambpe.encode.formats.battery import of_all_models
from streambpe.encode.formats.export import export
from streambpe.encode.formats.flat import Made
from streambpe.encode.formats.hf import hf_file
from streambpe.encode.tokenizer import Tokenizer
from streambpe.errors import ModelError, Stopped, StreambpeError, UsageError
from streambpe.model.alphabet import gpt2_alphabet
from streambpe.text.patterns import PRESETS
from tests import oracles
from tests.runs import StopAfter
from tests.samples import written
from tests.trained import chunks_of, configured, log_of, trained

DIGEST = "3b049628e5ffb7d6"


def log_with(text):
    counts = oracles.count_chunks([chunks_of("gpt4o", text)])
    return log_of(oracles.train_words(counts, gpt2_alphabet(), 280), {"pattern": "gpt4o"})


WITH_PICTOGRAPHS = log_with("\u26451\u26461" * 30)


def test_the_texts_are_always_the_same():
    """With every version of Python and `regex`; whoever changes them changes the digest."""
    texts = of_all_models()
    assert len(texts) > 5000
    assert hashlib.sha256(json.dumps(texts).encode()).hexdigest()[:16] == DIGEST


@pytest.mark.every(7)
@pytest.mark.parametrize("name", [name for name, p in PRESETS.items() if not p.by_rules])
@pytest.mark.parametrize("to", ["hf", "tiktoken"])
def test_presets_are_exact_but_for_newer_characters(tmp_path, name, to):
    """In the library; what it does not know of Unicode is told with the version."""
    [result] = export(configured(trained("plain"), pattern=name), to, tmp_path / "t.json")
    assert result.exact, list(result.lines())
    told = "\n".join(result.lines())
    assert "texts gave the same ids in t" in told
    assert bool(result.unicode) == ("for characters of Unicode" in told) == bool(result.battery.without_newer)


@pytest.mark.parametrize(
    ("failing", "why"),
    [
        (None, "--no-compare leaves it out"),
        (ModuleNotFoundError(name="tokenizers"), "it needs `pip install tokenizers`"),
        (ImportError("libstdc++ is too old"), "tokenizers is installed, but does not load: libstdc++ is too old"),
    ],
)
def test_what_was_not_compared_is_not_exact(tmp_path, monkeypatch, failing, why):
    """--no-compare, no library, or one that does not load: it is written, says why, and --verify is refused."""
    if failing is not None:
        monkeypatch.setattr(exporting, "import_module", Mock(side_effect=failing))
    [result] = export(trained("plain"), "hf", tmp_path / "t.json", compare=failing is not None)
    assert not result.exact
    assert f"  not compared: {why}" in list(result.lines())
    with pytest.raises(UsageError, match="cannot compare this export"):
        export(trained("plain"), "hf", tmp_path / "u.json", compare=failing is not None, verify="x.txt")
    assert not (tmp_path / "u.json").exists()


def two_symbols(document):
    """They change ids: chunks stay equal. One Unicode calls both pictographs, which the pattern does not ask."""
    vocab, log = document["model"]["vocab"], Tokenizer(WITH_PICTOGRAPHS)
    a, b = (next(name for name, number in vocab.items() if number == log.token_to_id(sign)) for sign in "\u2645\u2646")
    vocab[a], vocab[b] = vocab[b], vocab[a]


@pytest.mark.parametrize("text", [None, "a \u2645 b"])
def test_a_file_that_was_broken_is_not_exact(tmp_path, monkeypatch, text):
    """By the texts that every export is compared on, or by the user's alone."""

    def write(encoder, path):
        made = hf_file(encoder, path)
        document = json.loads(made.files[path])
        two_symbols(document)
        return Made({path: json.dumps(document).encode()}, made.lost)

    monkeypatch.setitem(exporting._WRITERS, "hf", write)
    if text is not None:
        monkeypatch.setattr(verify, "battery", lambda encoder, specials: ["plain"])
    given = None if text is None else str(written(tmp_path / "v.txt", text))
    [result] = export(WITH_PICTOGRAPHS, "hf", tmp_path / "t.json", verify=given)
    assert not result.exact
    assert "exact: " not in "\n".join(result.lines()).replace("not exact: ", "")
    assert text is None or result.comparison.documents_that_differ == 1


@pytest.mark.parametrize("to", ["hf", "tiktoken"])
def test_characters_that_both_know_are_told_and_not_excused_in_the_users_text(tmp_path, to):
    """U+0295 is a lower-case letter to Unicode 16, and has no case here."""
    if regex.match(r"\p{Ll}", "\u0295"):
        pytest.skip("this Unicode has it as the libraries do")
    text = written(tmp_path / "v.txt", "\u0295Ab")
    [result] = export(log_with("\u0295Ab \u0295Ab"), to, tmp_path / "t.json", verify=str(text))
    assert result.comparison.documents_that_differ == 1
    assert not result.comparison.exact
    assert result.battery.exact
    assert result.battery.reclassed == "\u0295"


@pytest.mark.long
def test_a_slow_pattern_ends_in_one_sentence(tmp_path):
    """It never ended; nothing is written, and without the comparison the file is."""
    log = configured(trained("plain"), pattern="(?:a|aa)+b|(?s:.)")
    with pytest.raises(ModelError, match=r"takes longer .* nothing was written, and --no-compare"):
        export(log, "tiktoken", tmp_path / "t.tiktoken")
    assert not list(tmp_path.iterdir())
    export(log, "tiktoken", tmp_path / "t.tiktoken", compare=False)


def test_a_stop_ends_the_comparison_and_leaves_nothing(tmp_path, monkeypatch):
    """The temporary copy stayed behind."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(Stopped, match="nothing was written"):
        export(trained("plain"), "hf", tmp_path / "t.json", stop=StopAfter(2))
    assert not list(tmp_path.iterdir())


def test_without_a_temporary_folder_it_is_not_compared(tmp_path, monkeypatch):
    """Nothing is written, and the message says what to do."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))
    with pytest.raises(StreambpeError, match=r"temporary folder \(No such file or directory\)\. Nothing was written"):
        export(trained("plain"), "hf", tmp_path / "t.json")
    export(trained("plain"), "hf", tmp_path / "t.json", compare=False)
