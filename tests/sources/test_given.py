"""What a program names as its sources: paths as words or as Path, one alone or many; anything else is told."""

from __future__ import annotations

import pytest

import streambpe
from streambpe.encode.corpus import encode_corpus
from streambpe.errors import UsageError
from tests.samples import written


@pytest.mark.long
def test_a_path_is_a_source_as_a_word_is(tmp_path):
    """Alone, in a list, beside a word: the same model, measures and ids, and no source is left out."""
    text = tmp_path / "text"
    text.mkdir()
    for name in ("a.txt", "b.txt"):
        written(text / name, f"some words of {name}, and some more words\n" * 50)
    runs = {
        "word": [str(text)], "path": [text], "alone": text, "one word": str(text),
        "both": [text / "a.txt", str(text / "b.txt")],
    }  # fmt: skip
    made = set()
    for name, sources in runs.items():
        run = tmp_path / name
        streambpe.train(run, sources, vocab_size=290)
        encode_corpus(streambpe.Tokenizer(run), sources, run / "ids.npy")
        made.add(((run / "model.events.jsonl").read_bytes(), (run / "ids.npy").read_bytes()))
    assert len(made) == 1
    (by_path,) = streambpe.evaluate(tmp_path / "path", text)
    (by_word,) = streambpe.evaluate([str(tmp_path / "path")], [str(text)])
    assert by_path == by_word
    assert streambpe.count(tmp_path / "counted", text / "a.txt").counted == 1


@pytest.mark.parametrize("source", [b"text", 3, None, ["a.txt"]])
def test_what_is_no_source_is_told(source, tmp_path):
    """Its value and its kind, where texts in memory go instead; no RUN is left behind."""
    for call in (streambpe.count, streambpe.train):
        with pytest.raises(UsageError, match=r"is a (bytes|int|NoneType|list)") as told:
            call(tmp_path / "run", [source], **({"vocab_size": 300} if call is streambpe.train else {}))
        assert "count_from_iterator" in str(told.value)
        assert not (tmp_path / "run").exists()
