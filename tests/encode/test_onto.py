"""export --onto OLD: the old file, byte for byte, and the new tokens behind its own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import streambpe
from streambpe.encode.formats.hf import import_hf
from streambpe.encode.formats.imports import import_file
from streambpe.encode.tokenizer import Tokenizer
from streambpe.errors import ModelError, UsageError
from streambpe.model.alphabet import bytes_alphabet
from streambpe.model.eventlog import EventLog, Header, merge_event
from streambpe.model.replay import Model
from streambpe.train.commands import train
from tests.peers import by_tokenizers
from tests.runs import SMALL, cli, log_of
from tests.samples import natural_text, written
from tests.trained import HOSTILE

tokenizers = pytest.importorskip("tokenizers")

NEW = 40
pytestmark = pytest.mark.filterwarnings("ignore::streambpe.errors.NotKept")  # of the old file, which keeps it all


@pytest.fixture(scope="module")
def texts(tmp_path_factory) -> tuple[Path, Path]:
    """Two texts that differ."""
    folder = tmp_path_factory.mktemp("texts")
    return tuple(written(folder / f"{seed}.txt", natural_text(seed, 8_000)) for seed in (5, 6))


@pytest.fixture(scope="module")
def old(texts, tmp_path_factory) -> Path:
    """A folder of another program: its tokenizer.json has a template, truncation, tokens that are no special ones."""
    start = by_tokenizers([texts[0].read_text(encoding="utf-8")], 330, special_tokens=["<s>", "</s>"])
    start.add_tokens([tokenizers.AddedToken("<tool>", normalized=False)])
    start.post_processor = tokenizers.processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 1)]
    )
    start.enable_truncation(max_length=4096)
    folder = tmp_path_factory.mktemp("old")
    start.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text('{ "eos_token":"</s>" }', encoding="utf-8")
    (folder / "weights.bin").write_text("not copied")
    return folder


@pytest.fixture(scope="module")
def made(old, texts, tmp_path_factory) -> Path:
    """The RUN that extends it."""
    run = tmp_path_factory.mktemp("made") / "run"
    train(run, [str(texts[1])], resources=SMALL, extend=old, vocab_size=331 + NEW)
    return run


def document_in(file: Path) -> dict[str, Any]:
    """A tokenizer.json."""
    return json.loads(file.read_text(encoding="utf-8"))


def with_model(old: Path, new: Path, **model: Any) -> Path:
    """A tokenizer.json once more, with other values in its model."""
    document = document_in(old)
    document["model"] |= model
    return written(new, json.dumps(document))


def without_two_stretches(new: str, old: str) -> bool:
    """Whether `old` is left where two stretches of `new` are cut out."""
    head = next((i for i, (a, b) in enumerate(zip(new, old, strict=False)) if a != b), len(old))
    tail = next((i for i, (a, b) in enumerate(zip(new[::-1], old[::-1], strict=False)) if a != b), len(old))
    return head + tail >= len(old) or old[head : len(old) - tail] in new[head : len(new) - tail]


def with_legacy_merges(document: dict[str, Any]) -> dict[str, Any]:
    """Merges as older files have them: a blank between."""
    model = document["model"]
    merges = [" ".join(pair) for pair in model["merges"]]
    return {**document, "model": {**{key: model[key] for key in model if key != "merges"}, "merges": merges}}


FORMS = {
    "as saved": lambda text: text,
    "one line": lambda text: json.dumps(json.loads(text), ensure_ascii=False, separators=(",", ":")),
    "escapes": lambda text: json.dumps(json.loads(text), indent="\t"),
    "legacy": lambda text: json.dumps(with_legacy_merges(json.loads(text)), ensure_ascii=False, indent=2),
    "merges first": lambda text: json.dumps(dict(reversed(json.loads(text).items())), ensure_ascii=False),
    "windows": lambda text: text.replace("\n", "\r\n"),
}


@pytest.mark.every(2)
@pytest.mark.parametrize("form", FORMS)
def test_the_old_file_is_kept_byte_for_byte(old, made, tmp_path, form):
    """However it is written, two stretches are put in, and the library reads the file."""
    before = FORMS[form]((old / "tokenizer.json").read_text(encoding="utf-8"))
    (tmp_path / "old.json").write_bytes(before.encode())
    (result,) = streambpe.export(made, "hf", tmp_path / "new.json", onto=tmp_path / "old.json")
    assert result.exact
    after = (tmp_path / "new.json").read_bytes().decode()
    assert without_two_stretches(after, before)
    assert before.isascii() == after.isascii()
    then, now = json.loads(before), json.loads(after)
    for part in (then["model"], now["model"]):
        part["merges"] = [pair if isinstance(pair, list) else pair.split(" ") for pair in part["merges"]]
    vocab, merges = now["model"].pop("vocab"), now["model"].pop("merges")
    assert len(vocab) == len(then["model"]["vocab"]) + 1 + NEW  # the added token, which the library numbers anew else
    assert then["model"].pop("vocab").items() <= vocab.items()
    assert merges[: len(then["model"]["merges"])] == then["model"].pop("merges")
    assert now == then
    loaded, model = tokenizers.Tokenizer.from_file(str(tmp_path / "new.json")), Model(log_of(made))
    assert loaded.get_vocab_size() == model.n_vocab == 331 + NEW
    text = natural_text(9, 300)
    ids = Tokenizer(log_of(made)).encode_ordinary(text)
    assert loaded.encode(f"{text}<tool>").ids == [0, *ids, 330, 1]


def test_a_folder_is_written_again(old, made, texts, tmp_path):
    """All that speaks of the tokenizer is copied."""
    out = tmp_path / "new"
    cli("export", made, "--to", "hf", "--onto", old, "-o", f"{out}/", "--verify", texts[1], "--strict")
    assert sorted(file.name for file in out.iterdir()) == ["tokenizer.json", "tokenizer_config.json"]
    assert (out / "tokenizer_config.json").read_bytes() == (old / "tokenizer_config.json").read_bytes()
    assert document_in(out / "tokenizer.json")["model"]["vocab"]["<tool>"] == 330


def test_ranks_of_an_extended_model_are_the_old_ones_and_more(made, old, tmp_path):
    """They need no --onto."""
    streambpe.export(import_hf(old / "tokenizer.json"), "tiktoken", tmp_path / "old.tiktoken", compare=False)
    streambpe.export(made, "tiktoken", tmp_path / "new.tiktoken", compare=False)
    assert (tmp_path / "new.tiktoken").read_bytes().startswith((tmp_path / "old.tiktoken").read_bytes())


def test_what_is_not_the_old_one_is_refused(old, made, texts, tmp_path):
    """Another vocabulary, other merges, patterns, special tokens, forms; nothing is left behind."""
    document = document_in(old / "tokenizer.json")
    model = document["model"]
    merges = [model["merges"][1], model["merges"][0], *model["merges"][2:]]
    swapped = {**model["vocab"], **{"".join(pair): 258 + i for i, pair in enumerate(merges[:2])}}
    pieces = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    streambpe.export(made, "hf", tmp_path / "bigger.json", compare=False)
    bigger = document_in(tmp_path / "bigger.json")
    for changed, sizes, why in (
        ({"model": {**model, "merges": merges, "vocab": swapped}}, (), "its token .* has id 25[89], .* has id 25[89]"),
        ({"pre_tokenizer": pieces}, (), "the model splits or prepares text differently"),
        ({"added_tokens": document["added_tokens"][:2]}, (), "the model has other special tokens"),
        (bigger, [340], "the model has no such token"),
    ):
        path = written(tmp_path / "changed.json", json.dumps({**document, **changed}))
        with pytest.raises(ModelError, match=why):
            streambpe.export(made, "hf", tmp_path / "x.json", onto=path, vocab_size=sizes)
    for to, name, output, why in (
        ("tiktoken", old, "x", r"only a tokenizer\.json"),
        ("hf", old / "tokenizer.json", "x/", "is a folder, but onto.* is a file"),
        ("hf", tmp_path / "no", "x", "there is no such file"),
    ):
        with pytest.raises(UsageError, match=why):
            streambpe.export(made, to, f"{tmp_path}/{output}", onto=name)
    with pytest.raises(UsageError, match="the old files keep theirs"):
        Tokenizer(log_of(made)).export("hf", f"{tmp_path}/x/", onto=old, bos="<s>")
    assert not list(tmp_path.glob("x*"))
    assert not list(tmp_path.glob(".export*"))


# ---------------------------------------------------------------------------------------------------------
# tokens that are made again behind a merge that uses them


def _log(*merges: tuple[int, int, int]) -> EventLog:
    header = Header(bytes_alphabet().to_header(), config={"pattern": "gpt4o"})
    return EventLog(header, tuple(merge_event(*merge, 0) for merge in merges))


def test_a_token_made_again_behind_its_use_is_not_exact(tmp_path):
    """An export says so, and such a file is not read; nor is one in which a merge occurs twice."""
    log = _log((97, 98, 256), (256, 99, 257), (98, 98, 258), (97, 258, 259), (259, 99, 260))
    assert streambpe.export(log, "hf", tmp_path / "good.json")[0].exact
    assert import_hf(tmp_path / "good.json").events == log.events
    # "abc" is used by "abc" + "d", and then made again of "a" and "bc"
    log = _log((98, 99, 256), (97, 98, 257), (257, 99, 258), (258, 100, 259), (97, 256, 258))
    (result,) = streambpe.export(log, "hf", tmp_path / "again.json")
    assert not result.exact
    assert "tokens made again after a merge that uses them (b'abc')" in result.lost[0]
    theirs = tokenizers.Tokenizer.from_file(str(tmp_path / "again.json"))
    assert theirs.encode("abcd").ids == [259]
    assert Tokenizer(log).encode("abcd") == [258, 100]
    with pytest.raises(ModelError, match="made again by a merge after one that uses it"):
        import_hf(tmp_path / "again.json")
    merges = document_in(tmp_path / "good.json")["model"]["merges"]
    twice = with_model(tmp_path / "good.json", tmp_path / "twice.json", merges=[*merges, merges[0]])
    with pytest.raises(ModelError, match=r"the merge b'a' \+ b'b' occurs twice"):
        import_hf(twice)


# ---------------------------------------------------------------------------------------------------------
# ignore_merges: whole chunks that are tokens are taken without merging


def test_a_file_that_ignores_merges_is_refused_where_that_changes_a_chunk(tmp_path):
    """A token that only a whole chunk can become."""
    log = _log((98, 99, 256), (97, 98, 257), (257, 99, 258))  # "abc" is a + bc, unless it is taken whole
    streambpe.export(log, "hf", tmp_path / "plain.json", compare=False)
    assert import_hf(tmp_path / "plain.json").events == log.events
    path = with_model(tmp_path / "plain.json", tmp_path / "whole.json", ignore_merges=True)
    whole = tokenizers.Tokenizer.from_file(str(path))
    assert whole.encode("abc").ids == [258] != Tokenizer(log).encode("abc")
    with pytest.raises(ModelError, match=r"some tokens are not what the merges make of their bytes \(b'abc'\)"):
        import_hf(path)
    ranks = tmp_path / "tokenizer.model"  # ranks are given such names, too
    streambpe.export(_log((97, 98, 256)), "tiktoken", ranks, compare=False)
    assert import_file(ranks, pattern="gpt4o").events == _log((97, 98, 256)).events


@pytest.mark.long
def test_a_file_made_of_ranks_is_read_and_extended(old, texts, tmp_path):
    """As Llama 3's was made: by id, every pair of tokens that spells one; most are never used. Beside the library."""
    vocab = document_in(old / "tokenizer.json")["model"]["vocab"]
    splits = [
        [token[:i], token[i:]]
        for token, _ in sorted(vocab.items(), key=lambda item: item[1])
        for i in range(1, len(token))
        if token not in ("<s>", "</s>") and token[:i] in vocab and token[i:] in vocab
    ]
    plain = import_hf(old / "tokenizer.json")
    assert len(splits) > len(plain.events)
    ranks = with_model(old / "tokenizer.json", tmp_path / "old.json", merges=splits, ignore_merges=True)
    assert import_hf(ranks) == plain
    run, source = tmp_path / "run", str(texts[1])
    train(run, [source], resources=SMALL, extend=ranks, vocab_size=360)
    (result,) = streambpe.export(run, "hf", tmp_path / "new.json", onto=ranks, verify=source)
    assert result.exact
    assert document_in(tmp_path / "new.json")["model"]["ignore_merges"] is True
    theirs = tokenizers.Tokenizer.from_file(str(tmp_path / "new.json"))
    ours = Tokenizer(log_of(run))
    theirs.encode_special_tokens = True
    for text in HOSTILE:
        assert theirs.encode(text, add_special_tokens=False).ids == ours.encode_ordinary(text), text
    backwards = with_model(ranks, tmp_path / "backwards.json", merges=splits[::-1])
    with pytest.raises(ModelError, match="needs a token that does not exist yet"):
        import_hf(backwards)
