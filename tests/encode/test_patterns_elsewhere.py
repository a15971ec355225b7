"""Patterns of other programs' files, read and written: texts are encoded there and here, and ids compared."""

from __future__ import annotations

import json
import runpy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import tiktoken
from tokenizers import Regex, pre_tokenizers
from tokenizers import Tokenizer as HfTokenizer

from streambpe.encode.formats.export import export
from streambpe.encode.formats.foreign import split_config
from streambpe.encode.formats.gguf import _IMPORTED
from streambpe.encode.formats.hf import tokenizer_json
from streambpe.encode.formats.imports import import_file
from streambpe.encode.formats.tiktoken_ranks import log_of_ranks, ranks_and_pattern, snippet_of
from streambpe.encode.tokenizer import Tokenizer
from streambpe.errors import ModelError
from streambpe.text.chunker import chunks_of
from streambpe.text.patterns import PRESETS, find_pattern
from tests.samples import written
from tests.text.test_dialects import TEXTS
from tests.trained import HOSTILE, configured, trained

ALL_TEXTS = [*HOSTILE, *TEXTS]
_TAIL = r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_SUFFIX = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_NO_HAN = [rf"[{case}\p{{Lm}}\p{{Lo}}\p{{M}}&&[^\p{{Han}}]]" for case in (r"\p{Lu}\p{Lt}", r"\p{Ll}")]
REAL = {
    "Kimi K2": r"[\p{Han}]+"
    + "".join(
        rf"|[^\r\n\p{{L}}\p{{N}}]?{_NO_HAN[0]}{first}{_NO_HAN[1]}{second}{_SUFFIX}?" for first, second in ("*+", "+*")
    )
    + _TAIL,
    "GPT-2": PRESETS["gpt2"].expression,
    "cl100k": PRESETS["cl100k"].expression,
    "o200k": PRESETS["gpt4o"].expression,
    "Llama 3": _SUFFIX + r"|[^\r\n\p{L}\p{N}]?\p{L}+" + _TAIL,
    "Qwen 2": _SUFFIX + r"|[^\r\n\p{L}\p{N}]?\p{L}+" + _TAIL.replace("{1,3}", ""),
    "Llama 3's beside U+0345": _SUFFIX + r"|[^\p{L}\p{N}]",
    "DeepSeek V3": r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
    r"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "DeepSeek V3's of Han": "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+",
    "BLOOM": r" ?[^(\s|[.,!?…。，、।۔،])]+",
    "digits": r"\p{N}{1,3}+|\D",
    "lines in Oniguruma": r"^a|.$|\s+\Z|\x{4e00}|[^\n]|\n",
    "dots in Oniguruma": r"(?m:a.)|[a[bc]]+|.",
}


def file_with(folder: Path, **pattern: Any) -> Path:
    """A tokenizer.json with this pattern."""
    document, _ = tokenizer_json(Tokenizer(trained("plain")).encoder)
    document["pre_tokenizer"]["pretokenizers"][0]["pattern"] = pattern
    return written(folder / "t.json", json.dumps(document))


def ids_there(path: Path, to: str) -> list[list[int]]:
    """The texts as the file encodes them."""
    if to == "tiktoken":
        encoding = runpy.run_path(str(snippet_of(path)))["encoding"]
        return [encoding.encode_ordinary(text) for text in ALL_TEXTS]
    loaded = HfTokenizer.from_file(str(path))
    loaded.encode_special_tokens = True
    return [loaded.encode(text, add_special_tokens=False).ids for text in ALL_TEXTS]


@pytest.mark.parametrize(
    ("name", "other"),
    [(name, other) for name in REAL for other in ("hf", "tiktoken") if other == "hf" or "Oniguruma" not in name],
)
def test_a_pattern_that_is_read_splits_as_it_does_there(tmp_path, name, other):
    """Kimi K2's tokenizer.json was imported in silence and gave other ids for two thirds of the texts; BLOOM's was not
    read at all; in Oniguruma `\\p{N}{1,3}+` is a whole run of digits."""
    if other == "hf":
        path = file_with(tmp_path, Regex=REAL[name])
        ours, expected = Tokenizer(import_file(path)), ids_there(path, "hf")
    else:
        ranks = ranks_and_pattern(Tokenizer(trained("plain")).encoder)[0]
        there = tiktoken.Encoding("t", pat_str=REAL[name], mergeable_ranks=ranks, special_tokens={})
        ours = Tokenizer(log_of_ranks(ranks, REAL[name], {}, "ranks"))
        expected = [there.encode_ordinary(text) for text in ALL_TEXTS]
    assert [ours.encode_ordinary(text) for text in ALL_TEXTS] == expected


@pytest.mark.parametrize(
    ("expression", "construct"),
    [
        (r"\b\w+|.", r"\\b"),
        (r"a*", "may be empty"),
        (r"(?i:ss)|.", "upper and lower case of 'ss'"),
        (r"(?s:.)", "the flag 's'"),
        ("(" * 100_000, "too deep"),
    ],
)
def test_an_expression_that_is_not_understood_is_refused_by_what_it_holds(tmp_path, expression, construct):
    """`\\b`, `\\h` and empty matches were read as Python's and gave other ids in silence."""
    with pytest.raises(ModelError, match=construct):
        import_file(file_with(tmp_path, Regex=expression))


def test_published_patterns_have_names():
    """An import finds them, and DeepSeek's three steps are the chunks of its one expression."""
    steps = _IMPORTED["deepseek-v3"]
    assert split_config("oniguruma", False, "t", *steps)["pattern"] == "deepseek-v3"
    for source in ("oniguruma", "rust"):
        assert split_config(source, source == "rust", "t", REAL["Kimi K2"])["pattern"] == "kimi-k2"
    assert split_config("rust", True, "t", *_IMPORTED["tekken"])["digits"] == "single"
    assert find_pattern("llama4") == PRESETS["gpt4o"]
    there = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(step), "isolated") for step in steps])
    for text in ALL_TEXTS:
        assert chunks_of(PRESETS["deepseek-v3"], text) == [chunk for chunk, _ in there.pre_tokenize_str(text)]


OWN = [
    r"\w+|\W", r"(?s)\w+|.", r"\s+$|^a|\S+", r"[a&&b]+|[\s\S]", r"(?i:it's|this|kind)|\S+|\s",
    r"\p{N}{1,3}+|[[a-z]+|.",
    r"(a|b)+|\d{2}?|\D", r"[^\W\d_]+|[\x00-\x7f]|\u3000|\U0001F600", r"(?<=\s)\w+|(?<!a|\d)b|.",
    r"\S+\s*|\s+", r"^\s|\S", r"~~|--|#\S",
]  # fmt: skip


@pytest.mark.every(24)
@pytest.mark.parametrize("expression", OWN)
@pytest.mark.parametrize("gaps", ["keep", "drop"])
@pytest.mark.parametrize("to", ["hf", "tiktoken"])
def test_an_expression_of_ones_own_is_written_as_the_reader_reads_it(tmp_path, expression, gaps, to):
    """A third of such exports, all called exact, differed in tokenizers, and a third could not be loaded; text that
    `gaps: drop` leaves out was put back. The file is read again as the same model, too."""
    log = configured(trained("plain"), pattern=expression, gaps=gaps)
    [result] = export(log, to, tmp_path / "t.json")
    ours = [Tokenizer(log).encode_ordinary(text) for text in ALL_TEXTS]
    assert result.exact
    assert ids_there(tmp_path / "t.json", to) == ours
    if to == "hf":
        back = Tokenizer(import_file(tmp_path / "t.json"))
        assert [back.encode_ordinary(text) for text in ALL_TEXTS] == ours


@pytest.mark.parametrize(
    "expression", [r"\b\w+|.", r"\X", r"a*|.", r"(?i:é)|.", r"(\w)\1|.", r"\p{Lowercase}|.", r"\h+|.", r"(?m)^a"]
)
@pytest.mark.parametrize("to", ["hf", "tiktoken"])
def test_an_expression_that_cannot_be_said_elsewhere_is_not_exported(tmp_path, expression, to):
    """An empty match brought tiktoken down when it encoded; the others were written unchanged, and called exact."""
    with pytest.raises(ModelError, match=r"cannot say exactly.*Nothing was written"):
        export(configured(trained("plain"), pattern=expression), to, tmp_path / "t.json")
    assert not list(tmp_path.iterdir())


@pytest.mark.long
def test_repetitions_that_tiktoken_does_not_compile_are_refused(tmp_path):
    """They were written, and the file could not be loaded."""
    many, too_many = r"\p{L}{1,100}|[a-z]{1,900}|(?s:.)", r"(?:\p{L}{1,20}a){1,20}|(?s:.)"
    export(configured(trained("plain"), pattern=many), "tiktoken", tmp_path / "a.tiktoken")
    assert ids_there(tmp_path / "a.tiktoken", "tiktoken")
    with pytest.raises(ModelError, match=r"tiktoken .* cannot use what would be written"):
        export(configured(trained("plain"), pattern=too_many), "tiktoken", tmp_path / "b.tiktoken")


def test_white_space_is_the_same_in_the_exported_file(tmp_path):
    """U+001C to U+001F separate words under --pattern whitespace, and were parts of words in tokenizers."""
    log = trained("whitespace")
    export(log, "hf", tmp_path / "t.json", compare=False)
    text = "the\x1ccat\x1d\x1e\x1fthe\x85cat\u2028the cat"
    loaded = HfTokenizer.from_file(str(tmp_path / "t.json"))
    assert loaded.encode(text, add_special_tokens=False).ids == Tokenizer(log).encode_ordinary(text)


@pytest.mark.every(14)
@pytest.mark.parametrize("digits", ["single", "two", "left3", "right3"])
@pytest.mark.parametrize("name", ["gpt2", "gpt4o", "cl100k", "boundless", "word-level", "superbpe2"])
def test_numbers_cut_otherwise_go_there_and_come_back(tmp_path, name, digits):
    """Equal there on hostile texts, and read back as the preset that cuts numbers so, which the core splits."""
    log = configured(trained("plain"), pattern=name, digits=digits)
    for to, file in (("hf", "t.json"), ("tiktoken", "t.tiktoken")):
        if PRESETS[name].keep_gaps and to == "tiktoken":
            continue  # it has no gaps
        [result] = export(log, to, tmp_path / file)
        assert result.exact, list(result.lines())
        ours = Tokenizer(log).encoder.pattern
        back = import_file(tmp_path / file, pattern=ours.expression if to == "tiktoken" else None)
        assert replace(Tokenizer(back).encoder.pattern, digits=digits) == ours  # left3 may be the preset's own
