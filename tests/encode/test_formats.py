"""Exports say the same as the model where they can and say what is lost where they cannot; imports keep ids."""

from __future__ import annotations

import contextlib
import json
from dataclasses import replace

import numpy as np
import pytest

from streambpe.encode.formats.export import FORMATS, cut_log, export
from streambpe.encode.formats.hf import tokenizer_json
from streambpe.encode.formats.imports import import_file
from streambpe.encode.tokenizer import Tokenizer
from streambpe.errors import ModelError, StreambpeError, UsageError
from streambpe.model.alphabet import bytes_alphabet, script_alphabet
from streambpe.model.eventlog import EventLog, Header, merge_event, read_event_log, write_event_log
from streambpe.train.as_model import model_log
from tests.runs import cli
from tests.samples import written
from tests.trained import DOCUMENTS, HOSTILE, KINDS, TEXT, configured, trained

EXACT = {("plain", "hf"), ("plain", "tiktoken"), ("uw", "hf")}
LOST = {"picky": "deletions", "stops": "stop words", "boundless": "superwords", "whitespace": "words that begin with"}


def with_specials(*specials):
    """The plain model with other special tokens."""
    log = trained("plain")
    return replace(log, header=replace(log.header, specials=specials))


@pytest.fixture(scope="module")
def held_out(tmp_path_factory):
    """A text to verify on, hostile parts included."""
    path = written(tmp_path_factory.mktemp("text") / "held-out.txt", "\n\n".join([*HOSTILE, TEXT]))
    return str(path)


# Exports.


@pytest.mark.every(5)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("to", [f for f in FORMATS if f not in ("gguf", "token-bytes")])
def test_every_export_is_exact_or_says_what_is_lost(tmp_path, held_out, kind, to):
    """Encoded by the other library: ids equal, or a list of losses that is not empty."""
    output = tmp_path / ("out.parquet" if to == "events" else f"out.{to}")  # a log's name says nothing of what it is
    if kind == "whitespace" and to in ("tiktoken", "boundless"):
        with pytest.raises(ModelError, match=r"splits by rules|base symbols of kind"):
            export(trained(kind), to, output, verify=held_out)
        return
    [result] = export(trained(kind), to, output, verify=held_out)
    assert all(file.exists() for file in result.files)
    assert result.comparison.documents >= len(HOSTILE) - 1
    if (kind, to) in EXACT or to == "events":
        assert result.exact
        assert result.lost == []
    assert result.exact or result.lost, list(result.lines())
    assert "lost:" in "\n".join(result.lines()) or not result.lost
    if to == "hf":
        assert LOST.get(kind, "") in " ".join(result.lost)
    if kind in ("boundless", "superbpe") and to != "boundless":  # words stay together there
        assert result.comparison.spans_lost < result.comparison.spans / 100


@pytest.mark.every(2)
@pytest.mark.parametrize("kind", KINDS)
def test_the_bytes_of_tokens_are_those_of_the_text(tmp_path, kind):
    """As an array and as a list; special and reserved ids have none, and what does not add up is told."""
    log = trained(kind)
    [result] = export(log, "token-bytes", tmp_path / "m-1.5")  # of a name only .npy and .json are an ending
    array, numbers = (tmp_path / f"m-1.5.{suffix}" for suffix in ("npy", "json"))
    sizes, tokenizer = np.load(array), Tokenizer(log)
    assert result.files == [array, numbers]
    assert json.loads(numbers.read_text()) == sizes.tolist()
    assert len(sizes) == tokenizer.max_token_value + 1
    special = {*tokenizer.special_tokens.values(), *tokenizer.encoder.model.reserved_ids}
    assert not sizes[[*special]].any()
    for text in [*DOCUMENTS[:20], *HOSTILE]:
        with contextlib.suppress(ModelError):  # of a deleted token
            same = sizes[tokenizer.encode_ordinary(text)].sum() == len(text.encode())
            assert same or result.lost
    assert len(result.lost) == (2 if kind == "whitespace" else 0)
    assert not result.exact


def test_what_cannot_be_exported_is_refused(tmp_path):
    """A SCRIPT token may be half of a character; GGUF holds only what llama.cpp has a name for; no folder is the name
    of a file; roles need tokens, and a folder that holds them. Nothing is written."""
    plain, script = trained("plain"), Header(script_alphabet().to_header(), {"pattern": "script"})
    for log, to, output, options, told in (
        (EventLog(script, ()), "token-bytes", "x.npy", {}, "half of a character"),
        (trained("boundless"), "gguf", "x.gguf", {}, "superwords"),
        (configured(plain, pattern="punct"), "gguf", "x.gguf", {}, "no pattern named like 'punct'"),
        (with_specials(), "gguf", "x.gguf", {"add_eos": True}, "--add-eos"),
        (plain, "hf", "x.json", {"vocab_size": [9999]}, "does not reach 9999"),
        (configured(plain, batch="paper"), "hf", "x.json", {"vocab_size": [300]}, "--batch paper"),
        (plain, "token-bytes", "", {}, "is a folder, not a file"),
        (plain, "tiktoken", "new/", {}, "is a folder, not a file"),
        (plain, "hf", "new/", {"pad": "<nothing>"}, "--pad <nothing>"),
        (plain, "hf", "new/", {"chat_template": str(tmp_path / "none.jinja")}, "none.jinja"),
        (plain, "hf", "x.json", {"add_bos": True}, "belong in a folder that transformers loads"),
        (plain, "tiktoken", "x", {"bos": "<s>"}, "--to hf"),
        (trained("stops"), "hf", "new/", {"add_bos": True}, "--bos TOKEN"),
    ):
        with pytest.raises(StreambpeError, match=told):
            export(log, to, f"{tmp_path}/{output}", **options)
    assert not list(tmp_path.iterdir())


def test_sizes_are_cut_from_one_model(tmp_path, held_out):
    """--vocab-size A,B writes a file for each, exact, with special tokens at their ids there."""
    results = export(trained("plain"), "hf", tmp_path / "t.json", vocab_size=[300, 400], verify=held_out)
    assert [(one.n_vocab, one.files[0].name, one.exact) for one in results] == [
        (300, "t-300.json", True),
        (400, "t-400.json", True),
    ]
    log = cut_log(trained("plain"), 300)
    assert log.header.specials[0].id == 300 - 2 - 2


def test_strict_exits_4_unless_exact(tmp_path, held_out):
    """The file is written either way; the exit code tells a script."""
    for kind, code in (("plain", 0), ("picky", 4)):
        write_event_log(tmp_path / "m.jsonl", trained(kind))
        arguments = ["export", str(tmp_path / "m.jsonl"), "--to", "hf", "-o", str(tmp_path / f"{kind}.json")]
        run = cli(*arguments, "--verify", held_out, "--strict", expect=code)
        assert ("  exact: " in run.stderr) == (code == 0)
        assert (tmp_path / f"{kind}.json").exists()
        assert "--no-compare leaves out" in cli(*arguments, "--strict", "--no-compare", "--force", expect=2).stderr
    for to in ("gguf", "token-bytes"):
        run = cli("export", tmp_path / "m.jsonl", "--to", to, "-o", tmp_path / to, "--strict", expect=2)
        assert f"--strict needs a comparison, and {to} has none: " in run.stderr
    assert not [*tmp_path.glob("gguf*"), *tmp_path.glob("token*")]


def test_a_gguf_file_has_every_field_that_llama_cpp_reads(tmp_path):
    """Field by field, by the reader of the package: names, types, merges, what tokens are for, the template."""
    gguf = pytest.importorskip("gguf")
    [result] = export(trained("plain"), "gguf", tmp_path / "v.gguf")
    assert {line.partition(":")[0] for line in result.lost} >= {"chat template", "not run in llama.cpp by this command"}
    (tmp_path / "chat.jinja").write_text("{{ messages }} é", encoding="utf-8")
    given = {"bos": "<s>", "add_bos": True, "chat_template": str(tmp_path / "chat.jinja")}
    [result] = export(trained("plain"), "gguf", tmp_path / "v.gguf", force=True, **given)
    assert "chat template" not in "".join(result.lost)
    tokenizer, kinds = Tokenizer(trained("plain")), gguf.TokenType
    fields = gguf.GGUFReader(tmp_path / "v.gguf").fields
    found = {name: field.contents() for name, field in fields.items() if not name.startswith("GGUF.")}
    there = tokenizer_json(tokenizer.encoder)[0]["model"]
    text_of = {number: text for text, number in there["vocab"].items()}
    special = tokenizer.special_tokens
    reserved = set(range(tokenizer.n_vocab)) - set(text_of)
    assert found == {
        "general.architecture": "llama",
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "gpt-4o",
        "tokenizer.ggml.tokens": [text_of.get(n, f"<|unused_{n}|>") for n in range(tokenizer.n_vocab)],
        "tokenizer.ggml.token_type": [
            kinds.UNUSED if n in reserved else kinds.CONTROL if n in special.values() else kinds.NORMAL
            for n in range(tokenizer.n_vocab)
        ],
        "tokenizer.ggml.merges": [" ".join(pair) for pair in there["merges"]],
        "tokenizer.ggml.bos_token_id": special["<s>"],
        "tokenizer.ggml.eos_token_id": special["<|endoftext|>"],
        "tokenizer.ggml.add_bos_token": True,
        "tokenizer.ggml.add_eos_token": False,
        "tokenizer.chat_template": "{{ messages }} é",
    }


A, B, C = b"abc"
# abc is a and bc, but ab is joined before: the merges never make it
NEVER_MADE = (merge_event(A, B, 256, 3), merge_event(B, C, 257, 2), merge_event(A, 257, 258, 1))


def log_of_abc(pattern, *events):
    return EventLog(Header(bytes_alphabet().to_header(), {"pattern": pattern}), events)


def test_gguf_says_which_chunks_llama_cpp_takes_as_a_whole(tmp_path):
    """Under llama-bpe it does so with every token, and only under that name: ab c here, abc there."""
    pytest.importorskip("gguf")
    for pattern, told in (("gpt4", True), ("gpt2", False)):
        [result] = export(log_of_abc(pattern, *NEVER_MADE), "gguf", tmp_path / f"{pattern}.gguf")
        assert ("tokens that are not what the merges make of their bytes" in "\n".join(result.lost)) == told


def test_tokens_that_tiktoken_would_make_otherwise_are_told(tmp_path):
    """An imported list may hold a token that its own merges never make: tiktoken does, and exact is not claimed."""
    text = str(written(tmp_path / "t.txt", "abc"))
    [result] = export(log_of_abc("gpt2", *NEVER_MADE), "tiktoken", tmp_path / "t.tiktoken", verify=text)
    assert "what the merges make from their bytes: 1." in result.lost[0]
    assert result.comparison.spans_lost == 2  # ab c there, abc here
    twice = (*NEVER_MADE[:2], merge_event(256, C, 258, 2), merge_event(A, 257, 258, 1))
    [result] = export(log_of_abc("gpt2", *twice), "tiktoken", tmp_path / "v.tiktoken")
    assert "that several pairs make" in result.lost[0]


def test_a_second_pattern_of_uw_keeps_its_gaps():
    """The header's stage2_pattern splits, also one of a user's own; what it does not match is chunks, never lost."""
    for pattern in ("superbpe2", r"\p{N}{1,3}"):
        tokenizer = Tokenizer(configured(trained("uw"), stage2_pattern=pattern))
        assert tokenizer.decode(tokenizer.encode_ordinary(TEXT + " 123")) == TEXT + " 123"
    assert tokenizer.encoder.split("a b12c") == ["a b", "12", "c"]


def test_the_name_of_an_output_is_never_run(tmp_path):
    """It stands in a Python file that --verify runs at once; here it ended a docstring there, and its rest was run."""
    import builtins

    name = 'x""";import builtins;builtins.was_run = 1;"""y\\'
    (tmp_path / "t.txt").write_text("the day")
    [result] = export(trained("plain"), "tiktoken", tmp_path / name, verify=str(tmp_path / "t.txt"))
    assert result.exact
    assert not hasattr(builtins, "was_run")


# Imports.


CAN_RETURN = {"hf": ("plain", "uw"), "tiktoken": ("plain",), "boundless": ("picky", "boundless", "superbpe")}


@pytest.mark.parametrize(("kind", "to"), [(kind, to) for to, kinds in CAN_RETURN.items() for kind in kinds])
def test_what_was_exported_can_be_imported(tmp_path, kind, to):
    """Export, import: the same ids on every text."""
    [result] = export(trained(kind), to, tmp_path / f"out.{'model' if to == 'boundless' else to}", compare=False)
    specials = [special.text for special in trained(kind).header.specials] if to == "tiktoken" else []
    log = import_file(result.files[0], pattern="gpt4o" if to == "tiktoken" else None, specials=specials)
    ours, back = Tokenizer(trained(kind)), Tokenizer(log)
    for text in [*HOSTILE, TEXT]:
        assert back.encode_ordinary(text) == ours.encode_ordinary(text)
    write_event_log(tmp_path / "back.jsonl", log)
    assert read_event_log(tmp_path / "back.jsonl") == log


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("v.gguf", b"GGUF\x03\0\0\0", r"Import the tokenizer\.json"),
        ("vocab.json", b'{"a": 0}', r"AutoTokenizer\.from_pretrained"),
        ("merges.txt", b"#version: 0.2\na b\n", r"AutoTokenizer\.from_pretrained"),
        ("x", b"# A page\nof text", "begins with '# A page'.*tokenizer.json of Hugging Face"),
        ("x", b"", "is empty"),
        ("x", b"\x7fELF\0\1", "is not text"),
        ("t.json", b"{", "is not JSON"),
        ("m.model", b"BoundlessBPE v2 word\nvocabulary\nx\n", "line 3"),
        ("m.model", b"BoundlessBPE v9\n", "known are"),
    ],
)
@pytest.mark.parametrize("pattern", [None, "gpt2"])
def test_a_file_that_is_no_tokenizer_is_told_as_what_it_looks_like(tmp_path, name, content, told, pattern):
    """And the message says what can be read instead; it was called tiktoken ranks without a pattern."""
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ModelError, match=told):
        import_file(tmp_path / name, pattern=pattern, if_needed=True)


def test_what_is_given_instead_is_told(tmp_path):
    """An event log, a RUN, a folder that hf: reads, and one of GPT-2's two files; ranks need a pattern."""
    export(trained("plain"), "tiktoken", tmp_path / "r.tiktoken", compare=False)
    with pytest.raises(UsageError, match="--pattern cl100k"):
        import_file(tmp_path / "r.tiktoken")
    write_event_log(tmp_path / "m.events.jsonl", trained("plain"))
    with pytest.raises(UsageError, match="give it as MODEL"):
        import_file(tmp_path / "m.events.jsonl")
    for name, told in (("state.duckdb", "It is a RUN"), ("tokenizer.json", "hf:"), ("merges.txt", "AutoTokenizer")):
        (tmp_path / name).touch()
        with pytest.raises(ModelError, match=told):
            import_file(tmp_path)
        (tmp_path / name).unlink()


def test_a_log_is_extended_whatever_its_name(tmp_path):
    """`prune -o p.ev` writes a log; --extend and --as called it tiktoken ranks."""
    write_event_log(tmp_path / "p.ev", trained("plain"))
    assert model_log(tmp_path / "p.ev").events == trained("plain").events


def test_gguf_without_the_package_says_so(tmp_path, monkeypatch):
    """One line that names the package."""
    import sys

    monkeypatch.setitem(sys.modules, "gguf", None)
    with pytest.raises(ModelError, match="pip install gguf"):
        export(trained("plain"), "gguf", tmp_path / "v.gguf")
