"""`export --to hf -o FOLDER/`: what transformers needs to load a tokenizer, pad, and put tokens around a text."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from streambpe.encode.formats.hf_folder import FILES, USUAL
from streambpe.encode.tokenizer import Tokenizer
from tests.runs import cli
from tests.samples import natural_text

TEXTS = ["the cat", "the house of the people, and the time", "", "\n\n x"]
CHAT = "{% for m in messages %}<s>{{ m.role }}: {{ m.content }}</s>{% endfor %}"


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    """A run with special tokens of usual names, and one of another."""
    folder = tmp_path_factory.mktemp("hf")
    (folder / "a.txt").write_text(natural_text(8, 40_000))
    specials = [word for text in ("<s>", "</s>", "<PAD>", "<tool>") for word in ("--special", text)]
    cli("train", folder / "run", folder / "a.txt", "-s", 500, *specials, "--memory", "300MB")
    return folder / "run"


def test_a_folder_has_all_files_and_the_usual_roles(model, tmp_path):
    """Folders around it are made; roles go to special tokens of usual names; the ids are those of the model."""
    place = tmp_path / "deep" / "er"
    told = cli("export", model, "--to", "hf", "-o", f"{place}/", "--verify", model.parent / "a.txt", "--strict").stderr
    assert "exact: " in told
    assert sorted(file.name for file in place.iterdir()) == sorted(FILES)
    config = json.loads((place / "tokenizer_config.json").read_text())
    roles = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<PAD>"}
    assert json.loads((place / "special_tokens_map.json").read_text()) == roles
    assert roles.items() <= config.items()
    tokenizer = Tokenizer(model)
    added = {entry["content"]: int(number) for number, entry in config["added_tokens_decoder"].items()}
    assert added == tokenizer.special_tokens
    assert json.loads((place / "tokenizer.json").read_text())["post_processor"] is None


def test_tokens_around_a_text_and_a_batch(model, tmp_path):
    """--add-bos and --add-eos, as tokenizers applies them, to one text and to two."""
    tokenizers = pytest.importorskip("tokenizers")
    roles = ("--add-bos", "--add-eos", "--pad", "<tool>")
    cli("export", model, "--to", "hf", "-o", f"{tmp_path}/t/", *roles, "--no-compare")
    loaded = tokenizers.Tokenizer.from_file(str(tmp_path / "t/tokenizer.json"))
    ours = Tokenizer(model)
    bos, eos = (ours.special_tokens[text] for text in ("<s>", "</s>"))
    for text in TEXTS:
        assert loaded.encode(text).ids == [bos, *ours.encode(text), eos]
        assert loaded.encode(text, add_special_tokens=False).ids == ours.encode(text)
    pair = loaded.encode("the cat", "the time")
    assert pair.ids == [bos, *ours.encode("the cat"), eos, bos, *ours.encode("the time"), eos]
    assert json.loads((tmp_path / "t/special_tokens_map.json").read_text())["pad_token"] == "<tool>"


def test_several_sizes_are_several_folders(model, tmp_path):
    """Each has its size in its name, and its own ids of special tokens."""
    cli("export", model, "--to", "hf", "-o", f"{tmp_path}/t/", "--vocab-size", "300,400", "--no-compare")
    for size in (300, 400):
        config = json.loads((tmp_path / f"t-{size}/tokenizer_config.json").read_text())
        assert sorted(map(int, config["added_tokens_decoder"])) == list(range(size - 4, size))


def test_the_docs_have_the_usual_names():
    """The table in docs/encode.md."""
    page = (Path(__file__).parents[2] / "docs/encode.md").read_text(encoding="utf-8")
    for role, names in USUAL.items():
        (line,) = re.findall(rf"^\| {role} \| (.*) \|$", page, re.M)
        assert tuple(re.findall("`([^`]+)`", line.replace("\\|", "|"))) == names


def test_transformers_loads_it(model, tmp_path):
    """AutoTokenizer: equal ids, padding with its mask, a token before the text, a conversation."""
    transformers = pytest.importorskip("transformers")
    (tmp_path / "chat.jinja").write_text(CHAT)
    cli("export", model, "--to", "hf", "-o", f"{tmp_path}/t/", "--add-bos", "--chat-template", tmp_path / "chat.jinja")
    loaded, ours = transformers.AutoTokenizer.from_pretrained(str(tmp_path / "t")), Tokenizer(model)
    assert loaded(TEXTS, add_special_tokens=False)["input_ids"] == [ours.encode(text) for text in TEXTS]
    batch = loaded(TEXTS[:2], padding=True)
    long, short = (len(ours.encode(text)) + 1 for text in (TEXTS[1], TEXTS[0]))
    pad = ours.special_tokens["<PAD>"]
    assert batch["input_ids"][0] == [ours.special_tokens["<s>"], *ours.encode(TEXTS[0]), *[pad] * (long - short)]
    assert batch["attention_mask"][0] == [1] * short + [0] * (long - short)
    said = loaded.apply_chat_template([{"role": "user", "content": "hi"}], tokenize=False)
    assert said == "<s>user: hi</s>"
    assert len(loaded) == ours.n_vocab
    assert ours.to_hf()(TEXTS, add_special_tokens=False)["input_ids"] == [ours.encode(text) for text in TEXTS]
