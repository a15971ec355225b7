"""GGUF files in llama.cpp itself: it loads what `export --to gguf` writes, and gives the same ids.

llama.cpp comes with the package xllamacpp, which holds its C interface (`pip install '.[llamacpp]'`).
"""

from __future__ import annotations

import ctypes
import importlib.util
import json
import random
from pathlib import Path

import gguf
import pytest

from streambpe.encode.formats.export import export
from streambpe.encode.formats.imports import import_file
from streambpe.encode.tokenizer import Tokenizer
from streambpe.train.commands import train
from tests.encode.test_imports import FAMILIES
from tests.peers import by_tokenizers
from tests.runs import SMALL, text_run
from tests.samples import natural_text, written
from tests.trained import HOSTILE

FOUND = importlib.util.find_spec("xllamacpp")
pytestmark = [pytest.mark.long, pytest.mark.skipif(FOUND is None, reason="xllamacpp is not installed")]
VOCAB_ONLY = 72  # where this switch stands in struct llama_model_params of the version that pyproject.toml names


class Params(ctypes.Structure):
    """struct llama_model_params, of which one field is set."""

    _fields_ = (("before", ctypes.c_char * VOCAB_ONLY), ("vocab_only", ctypes.c_bool), ("behind", ctypes.c_char * 7))


class LlamaCpp:
    """The vocabulary of a GGUF file in llama.cpp."""

    def __init__(self, path: Path) -> None:
        assert FOUND is not None
        (folder,) = FOUND.submodule_search_locations or ()
        lib = ctypes.CDLL(f"{folder}/xllamacpp.abi3.so")
        lib.llama_model_default_params.restype = Params
        lib.llama_model_load_from_file.argtypes = [ctypes.c_char_p, Params]
        for name in ("llama_model_load_from_file", "llama_model_get_vocab"):
            getattr(lib, name).restype = ctypes.c_void_p
        for name in ("llama_model_get_vocab", "llama_vocab_eos", "llama_vocab_bos", "llama_vocab_n_tokens"):
            getattr(lib, name).argtypes = [ctypes.c_void_p]
        numbers, switch = ctypes.POINTER(ctypes.c_int32), ctypes.c_bool
        lib.llama_tokenize.argtypes = [
            ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int32, numbers, ctypes.c_int32, switch, switch,
        ]  # fmt: skip
        lib.llama_backend_init()
        params = lib.llama_model_default_params()
        params.vocab_only = True
        model = lib.llama_model_load_from_file(str(path).encode(), params)
        assert model, "llama.cpp does not load it"
        self.lib, self.vocab = lib, lib.llama_model_get_vocab(model)

    def encode(self, text: str) -> list[int]:
        """Ids, with special tokens in the text as ordinary text, and none added."""
        data = text.encode()
        ids = (ctypes.c_int32 * (len(data) + 8))()
        n = self.lib.llama_tokenize(self.vocab, data, len(data), ids, len(ids), True, False)
        return list(ids[:n])


NAMES = ("gpt2", "r50k", "gpt4", "gpt4o", "kimi-k2", "deepseek-v3")
CASES = [*((name, "keep", False) for name in NAMES), ("gpt4", "single", False)]


@pytest.mark.parametrize(("pattern", "digits", "extended"), [*CASES, ("gpt2", "keep", True), ("gpt4", "keep", True)])
def test_llama_cpp_gives_the_same_ids(tmp_path, pattern, digits, extended):
    """Of natural and hostile texts; the patterns that llama.cpp rewrites differ on a few, and the export says so. In an
    extended model special tokens and reserved ids stand between tokens."""
    run = text_run(tmp_path / "run", natural_text(5, 60_000), pattern=pattern, digits=digits)
    train(run, resources=SMALL, vocab_size=1500, special=("<s>", "</s>"), reserve=5)
    if extended:
        text, old, run = written(tmp_path / "more.txt", natural_text(7, 30_000)), run, tmp_path / "more"
        train(run, [str(text)], resources=SMALL, extend=old, vocab_size=1800)
    [result] = export(str(run), "gguf", tmp_path / "v.gguf")
    theirs, ours = LlamaCpp(tmp_path / "v.gguf"), Tokenizer(run)
    assert theirs.lib.llama_vocab_n_tokens(theirs.vocab) == len(ours)
    assert theirs.lib.llama_vocab_eos(theirs.vocab) == ours.token_to_id("</s>")
    assert theirs.lib.llama_vocab_bos(theirs.vocab) == ours.token_to_id("<s>")
    texts = [text for text in (*HOSTILE, *natural_text(6, 20_000).split("\n")) if text and "\0" not in text]
    differ = [text for text in texts if theirs.encode(text) != ours.encode_ordinary(text)]
    assert len(texts) > 50
    assert not differ or any(line.startswith("pattern:") for line in result.lost), differ[:3]
    assert len(differ) <= len(texts) // 10, differ


def test_letters_after_a_long_s_are_told(tmp_path):
    run = text_run(tmp_path / "run", "ſm " * 900 + "a'ſ x " * 200, pattern="gpt4")
    train(run, resources=SMALL, vocab_size=270)
    [result] = export(str(run), "gguf", tmp_path / "v.gguf")
    assert LlamaCpp(tmp_path / "v.gguf").encode("it'ſm") != Tokenizer(run).encode_ordinary("it'ſm")
    assert any("'ſ" in line for line in result.lost)


# Characters of many classes, of which merges over all borders are learned, so that a border in another place is seen.
MANY = "aaBb  \n\r\t'.,1２٣²①x日ア・ー々가ßÉéΣяЖ\u0301\u0903\u200d\u3000\u00a0\u2028👍!/-_ǅʰªº€+'sdmtlvreİK़ा"


@pytest.mark.parametrize(
    ("family", "name"),
    [("GPT-2", "gpt-2"), ("Llama 3", "llama-bpe"), ("Qwen", "qwen2"), ("StarCoder", "starcoder"),
     ("DeepSeek V3", "deepseek-v3"), ("Mistral (tekken)", "tekken")],
)  # fmt: skip
def test_llama_cpp_splits_as_imported_files_do(tmp_path, family, name):
    """Under the name that the export finds; tekken is one of those that llama.cpp rewrites, and the export says so."""
    rng = random.Random(5)

    def texts(many, longest):
        return ["".join(rng.choices(MANY, k=rng.randrange(1, longest))) for _ in range(many)]

    made = json.loads(by_tokenizers(texts(20_000, 8), 6000, pattern=r"[\s\S]+", special_tokens=["</s>"]).to_str())
    made["pre_tokenizer"] = FAMILIES[family][0]
    log = import_file(written(tmp_path / "t.json", json.dumps(made)))
    [result] = export(log, "gguf", tmp_path / "v.gguf")
    assert gguf.GGUFReader(tmp_path / "v.gguf").fields["tokenizer.ggml.pre"].contents() == name
    theirs, ours = LlamaCpp(tmp_path / "v.gguf"), Tokenizer(log)
    differ = [text for text in texts(4000, 12) if theirs.encode(text) != ours.encode_ordinary(text)]
    assert bool(differ) == (name == "tekken") == any(line.startswith("pattern:") for line in result.lost), differ[:3]
