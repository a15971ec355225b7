"""tokenizer.json of the families that are in use: imported, and exported again, they encode as `tokenizers` does, or
they are refused by the name of what they have. The files have the parts of the real ones and a small vocabulary."""

from __future__ import annotations

import copy
import json
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import tokenizers
from tokenizers import Tokenizer as HfTokenizer

from streambpe.encode.formats.hf import tokenizer_json
from streambpe.encode.formats.imports import import_file
from streambpe.encode.tokenizer import Tokenizer
from streambpe.errors import ModelError, NotKept
from tests.encode.test_patterns_elsewhere import REAL
from tests.peers import by_tokenizers
from tests.runs import cli
from tests.samples import natural_text, written
from tests.text.test_dialects import TEXTS
from tests.trained import HOSTILE

Part = dict[str, Any] | None


def split(expression: str, behavior: str = "Isolated", invert: bool = False) -> dict[str, Any]:
    return {"type": "Split", "pattern": {"Regex": expression}, "behavior": behavior, "invert": invert}


def level(**more: bool) -> dict[str, Any]:
    return {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True} | more


def in_a_row(*steps: Any, of: str = "pretokenizers") -> dict[str, Any]:
    return {"type": "Sequence", of: list(steps)}


def around(text: str, number: int) -> dict[str, Any]:
    """The template that puts a token before a text."""
    before, body = {"SpecialToken": {"id": text, "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}
    tokens = {text: {"id": text, "ids": [number], "tokens": [text]}}
    return {"type": "TemplateProcessing", "single": [before, body], "pair": [body, body], "special_tokens": tokens}


NFC, RAW = {"type": "NFC"}, level(use_regex=False)
DIGIT, DIGITS = ({"type": "Digits", "individual_digits": single} for single in (True, False))
DEEPSEEK = split(r"\p{N}{1,3}"), split(REAL["DeepSeek V3's of Han"]), split(REAL["DeepSeek V3"])
SPACES = {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}
TEKKEN = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
    r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
# The parts that differ from those of GPT-2: splits, normalizer, template.
FAMILIES: dict[str, tuple[Part, Part, Part]] = {
    "GPT-2": (level(), None, level(trim_offsets=False)),
    "GPT-NeoX": (level(), NFC, level()),
    "Llama 3": (in_a_row(split(REAL["Llama 3"]), RAW), None, in_a_row(level(), around("<s>", 1), of="processors")),
    "Qwen": (in_a_row(split(REAL["Qwen 2"]), RAW), NFC, level()),
    "Mistral (tekken)": (in_a_row(split(TEKKEN), RAW), None, around("<s>", 1)),
    "DeepSeek V3": (in_a_row(*DEEPSEEK, RAW), in_a_row(of="normalizers"), around("<s>", 1)),
    "StarCoder": (in_a_row(DIGIT, level()), None, level()),
    "runs of digits": (in_a_row(DIGITS, level()), in_a_row(NFC, of="normalizers"), None),
    "Phi-4": (in_a_row(split(REAL["cl100k"]), RAW), None, None),
    "BLOOM": (in_a_row(split(REAL["BLOOM"]), RAW), None, None),
}
MORE = [*HOSTILE, *TEXTS, "a<think> b<|im|>c <s><|end|>\n<|im|> <think", "12 3456a7 8 \u0661\u0662x\u00b2 \u2460  9 b2"]


@cache
def learned() -> dict[str, Any]:
    """A document of GPT-2's parts, with special tokens and one that is found in every text."""
    made = by_tokenizers([natural_text(3, 30_000)], 400, special_tokens=["<|end|>", "<s>"])
    made.add_special_tokens(["<|im|>"])
    made.add_tokens([tokenizers.AddedToken("<think>", normalized=False)])
    return json.loads(made.to_str())


def document_of(family: str) -> dict[str, Any]:
    document = copy.deepcopy(learned())
    document["pre_tokenizer"], document["normalizer"], document["post_processor"] = FAMILIES[family]
    document["model"]["ignore_merges"] = family == "Llama 3"
    return document


def read(document: Any, folder: Path) -> tuple[Tokenizer, list[str]]:
    """The import of a document, and what it says is left out."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", NotKept)
        log = import_file(written(folder / "t.json", json.dumps(document)))
    return Tokenizer(log), [str(warning.message) for warning in told]


def ids_there(document: Any, texts: list[str], **how: bool) -> list[list[int]]:
    there = HfTokenizer.from_str(json.dumps(document))
    return [there.encode(text, **how).ids for text in texts]


def ids_here(tokenizer: Tokenizer, texts: list[str]) -> list[list[int]]:
    return [tokenizer.encode(text, allowed_special="all") for text in texts]


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_is_kept_there_and_back(tmp_path, family):
    """Special and added tokens included. All that is not kept is told: the template, and that `<think>` is in texts."""
    document = document_of(family)
    expected = ids_there(document, MORE, add_special_tokens=False)
    ours, told = read(document, tmp_path)
    assert ids_here(ours, MORE) == expected
    back = tokenizer_json(ours.encoder)[0]
    assert ids_there(back, MORE, add_special_tokens=False) == expected
    assert back["model"]["vocab"] == document["model"]["vocab"] | ours.special_tokens
    puts_around = "TemplateProcessing" in json.dumps(document)
    assert [("special: false" in one, "TemplateProcessing" in one) for one in told] == [
        (True, False),
        *[(False, True)] * puts_around,
    ]
    again, nothing = read(back, tmp_path)
    assert (again.event_log.events, nothing) == (ours.event_log.events, [])
    assert ids_here(again, MORE) == expected


LLAMA_2 = in_a_row({"type": "Prepend", "prepend": "\u2581"}, SPACES, of="normalizers")
GEMMA = split("", "MergedWithPrevious") | {"pattern": {"String": " "}}
FALCON = {"type": "Punctuation", "behavior": "Contiguous"}, level(), DIGITS, split("[0-9][0-9][0-9]")
LACKS_BYTES = {"vocab": {"a": 0, "<s>": 1}, "merges": [], "unk_token": "<s>", "fuse_unk": True}


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"normalizer": LLAMA_2, "pre_tokenizer": None, "model": {"byte_fallback": True}}, "byte_fallback"),
        ({"normalizer": SPACES, "pre_tokenizer": GEMMA, "model": {"byte_fallback": True}}, "byte_fallback"),
        ({"pre_tokenizer": in_a_row(*FALCON)}, "pre_tokenizer: Punctuation, ByteLevel, Digits, Split"),
        ({"pre_tokenizer": in_a_row(split("(?i:[ab]+)c"), level())}, "no run of one class"),
        ({"pre_tokenizer": in_a_row(split("a{1,3}"), split("a"), RAW)}, "splits what the one before it cut off"),
        ({"pre_tokenizer": in_a_row(DIGIT, split(r"a$|."), RAW)}, "a place in the text"),
        ({"added_tokens": [{"id": 5000, "content": "<x>"}]}, "is ambiguous"),
        ({"added_tokens": [{"id": 400, "content": "<x>"}, {"id": 401, "content": "<x>"}]}, "twice"),
        ({"added_tokens": [{"id": 16, "content": "1"}]}, "is a byte"),
        ({"added_tokens": [{"id": 400, "content": "  ", "special": False}]}, "found in plain text"),
        ({"added_tokens": [{"id": 1, "content": "<s>"}], "model": LACKS_BYTES}, "fuse_unk"),
    ],
)  # fmt: skip
def test_what_a_log_cannot_hold_is_refused_by_name(tmp_path, changes, named):
    """Mistral 7B and Llama 2, Gemma, Falcon, steps of splits that are not known to be one: an import never drops a rule
    in silence."""
    document = document_of("GPT-2")
    document["model"] |= changes.pop("model", {})
    with pytest.raises(ModelError, match=named):
        read(document | changes, tmp_path)


def test_the_command_warns_of_what_a_log_does_not_keep(tmp_path):
    file = written(tmp_path / "t.json", json.dumps(document_of("GPT-2") | {"truncation": {"max_length": 3}}))
    told = cli("import", file, "-o", tmp_path / "m.jsonl").stderr.splitlines()
    told = [line for line in told if line.startswith("warning: ")]
    wanted = ["`special: false` of '<think>'", "truncation"]
    assert [what in line for what, line in zip(wanted, told, strict=True)] == [True, True], told


# Each field, and other values for it.
STEPS = [
    {"type": "Whitespace"}, {"type": "WhitespaceSplit"}, {"type": "BertPreTokenizer"}, {"type": "UnicodeScripts"},
    {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always", "split": True}, FALCON[0], DIGIT, DIGITS,
    {"type": "CharDelimiterSplit", "delimiter": "a"}, {"type": "FixedLength", "length": 3}, GEMMA, split("a"),
    *(split("[ab]+", behavior, invert)
      for behavior in ("Isolated", "Removed", "MergedWithPrevious", "MergedWithNext", "Contiguous")
      for invert in (False, True)),
    split("gpt4"), split("none"),
]  # fmt: skip
FIRSTS = r"\p{N}{1,3}", "[ab]+", "[^ab]", r"[\s.]+", "b+"
LASTS = REAL["Qwen 2"], r"(?<=a)b|\s+(?!\S)", r"(?>a+)b?|(?:a|b\d)+", "[a1]", "a(?!b)"
NORMALIZERS = [{"type": "NFD"}, {"type": "NFKC"}, {"type": "Lowercase"}, {"type": "ByteLevel"}, LLAMA_2, SPACES]
BARE = {"single": around("", 0)["single"][1:], "special_tokens": {}}
MUTATIONS: dict[str, list[Any]] = {
    "normalizer": [None, NFC, in_a_row(NFC, NFC, of="normalizers"), *NORMALIZERS]
    + [in_a_row(NFC, one, of="normalizers") for one in NORMALIZERS],
    "pre_tokenizer": [None, in_a_row(), RAW, level(add_prefix_space=True), level(trim_offsets=False)]
    + [part for one in STEPS for part in (
        one, in_a_row(one), in_a_row(one, RAW), in_a_row(one, level()), in_a_row(RAW, one), in_a_row(one, DIGIT, RAW),
        in_a_row(DIGIT, in_a_row(one, level())), in_a_row(one, level(add_prefix_space=True)),
    )]
    + [in_a_row(split(first), split(last), RAW) for first in FIRSTS for last in LASTS],
    "post_processor": [None, level(add_prefix_space=True), around("<s>", 1), around("<s>", 1) | BARE,
        around("<s>", 1) | BARE | {"single": 2 * BARE["single"]},
        {"type": "BertProcessing", "sep": ["<s>", 1], "cls": ["<s>", 1]}],
    "decoder": [None, {"type": "Fuse"}, {"type": "WordPiece", "prefix": "#", "cleanup": True}],
    "truncation": [{"direction": "Right", "max_length": 2, "strategy": "LongestFirst", "stride": 0}],
    "padding": [{"strategy": {"Fixed": 40}, "direction": "Right", "pad_to_multiple_of": None, "pad_id": 1,
                 "pad_type_id": 0, "pad_token": "<s>"}],
    "version": ["2.0"],
    "model.dropout": [0.0, 0.5, 1.0],
    "model.unk_token": ["<s>", "a", "<no>"],
    "model.continuing_subword_prefix": ["", "#"],
    "model.end_of_word_suffix": ["", "</w>"],
    "model.fuse_unk": [True], "model.byte_fallback": [True], "model.ignore_merges": [True],
    "model.type": ["WordPiece", "Unigram", "WordLevel"],
    "model.cache": [1], "more": [1],
    **{f"added_tokens.{token}.{flag}": [True, False]
       for token in (0, 1, 3) for flag in ("single_word", "lstrip", "rstrip", "normalized", "special")},
}  # fmt: skip


SAID = {"type": ["is not a BPE model"], "pre_tokenizer": ["splits text by"]}  # where a field's name would say less


def read_or_why(document: Any, folder: Path) -> tuple[Tokenizer, list[str]] | str:
    try:
        return read(document, folder)
    except ModelError as why:
        return str(why)


def same_decoding(document: Any, tokenizer: Tokenizer) -> bool:
    there = HfTokenizer.from_str(json.dumps(document))
    return all(
        there.decode(ids, skip_special_tokens=False) == tokenizer.decode(ids) for ids in ids_here(tokenizer, MORE)
    )


@pytest.mark.every(2)
@pytest.mark.parametrize("field", MUTATIONS)
@pytest.mark.parametrize("lacks_bytes", [False, True])
def test_no_field_is_dropped_without_a_word(tmp_path, field, lacks_bytes):
    """Every other value of it gives equal ids, there and back, or a warning or a refusal that names it."""
    base = document_of("GPT-2")
    if lacks_bytes:  # which no merge has, and are no text's but MORE's
        base["model"]["vocab"] = {text: number for text, number in base["model"]["vocab"].items() if number < 200}
        base["model"]["merges"], base["added_tokens"] = [], base["added_tokens"][:2]
    for value in MUTATIONS[field] if not lacks_bytes or field.startswith("model") else ():
        document = copy.deepcopy(base)
        *path, name = field.split(".")
        part: Any = document
        for step in path:
            part = part[int(step) if step.isdigit() else step]
        part[name] = value
        read_or_refused = read_or_why(document, tmp_path)
        if isinstance(read_or_refused, str):
            assert any(word in read_or_refused for word in (name, *SAID.get(name, ()))), (value, read_or_refused)
            continue
        ours, told = read_or_refused
        named = any(name in one for one in told)
        if field == "more":  # the library refuses the file
            assert named
            continue
        expected = ids_there(document, MORE)
        equal = ids_here(ours, MORE) == expected == ids_there(tokenizer_json(ours.encoder)[0], MORE)
        assert named or (equal and same_decoding(document, ours)), (value, told)
