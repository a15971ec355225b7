"""GGUF: tokens, merges and token types as llama.cpp's vocabulary metadata. Needs the package `gguf`.

A GGUF file does not carry a pattern, only the name of one compiled into llama.cpp; a model whose pattern
has no name there is refused. What llama.cpp itself makes of such files is compared by tests/encode/test_llama_cpp.py.
"""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path

from streambpe.encode.encoder import Encoder
from streambpe.encode.formats.flat import FlatModel, Made, flatten, not_made_of_their_bytes, shown_tokens
from streambpe.encode.formats.foreign import split_config
from streambpe.encode.formats.hf_folder import Roles
from streambpe.errors import ModelError
from streambpe.later import need
from streambpe.text.patterns import PRESETS, find_pattern

# Our patterns that llama.cpp has compiled in, by its names.
_NAMES = {
    "gpt2": "gpt-2", "r50k": "gpt-2", "gpt4": "llama-bpe", "gpt4 --digits single": "qwen2", "gpt4o": "gpt-4o",
    "kimi-k2": "kimi-k2", "deepseek-v3": "deepseek-v3",
}  # fmt: skip
_LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+"
)
_DEEPSEEK = (
    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
# And those of imported files, as tokenizer.json has them: one expression, or several in turn.
_IMPORTED: dict[str, tuple[str, ...]] = {
    "llama-bpe": (_LLAMA3,),
    "qwen2": (_LLAMA3.replace("{1,3}", ""),),
    "tekken": (PRESETS["superbpe1"].expression.replace("{1,3}", ""),),
    "starcoder": (r"\p{N}", PRESETS["gpt2"].expression),
    "deepseek-v3": (r"\p{N}{1,3}", "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+", _DEEPSEEK),
}
_NORMAL, _CONTROL, _UNUSED = 1, 3, 5


def gguf_file(given: Roles, encoder: Encoder, path: Path) -> Made:
    """A vocabulary-only GGUF file."""
    library = need("gguf", "--to gguf", " Nothing was written.")
    flat = flatten(encoder, "gguf")
    if encoder.has_superwords:
        raise ModelError(
            "llama.cpp has no pattern that keeps words together, so superwords cannot be exported. Nothing was "
            "written. Use --to hf."
        )
    name = _NAMES.get(encoder.pattern.name) or next(filter(partial(_splits_so, flat.expression), _IMPORTED), None)
    if name is None:
        raise ModelError(
            f"llama.cpp has no pattern named like {encoder.pattern.name!r}: a GGUF file can only name one of its own. "
            f"Nothing was written. Train with --pattern {' or '.join(sorted(_NAMES))}, or use --to hf."
        )
    lost = list(flat.lost)
    if name in ("llama-bpe", "tekken"):  # a chunk that is a token is taken as a whole there
        if not flat.ignore_merges and (others := not_made_of_their_bytes(encoder)):
            lost.append(
                f"tokens that are not what the merges make of their bytes ({shown_tokens(encoder, others)}): "
                "llama.cpp takes a chunk that is one of them as a whole under this pattern's name."
            )
    elif flat.ignore_merges:
        lost.append("GGUF cannot store ignore_merges: llama.cpp decides it by the pattern's name.")
    if name in ("gpt-4o", "kimi-k2", "tekken"):
        lost.append(f"pattern: llama.cpp has its own version of it ({name}), which differs on a few texts.")
    if name in ("llama-bpe", "qwen2"):
        lost.append("letters after 'ſ (an apostrophe and a long s): llama.cpp does not split before them.")
    roles = {role: flat.specials[text] for role, text in given.settle(flat.specials).items()}
    chat = given.chat_text()
    if "eos" not in roles:
        lost.append(
            "end of text: the model has no such special token, and llama.cpp takes id 11 where a file names none. "
            "Train with --special '</s>'."
        )
    if chat is None:
        lost.append("chat template: none is written. --chat-template FILE writes one.")
    lost.append("not run in llama.cpp by this command: `streambpe docs encode` has what was compared there.")
    tokens, types = _tokens(flat)
    merges = [f"{flat.text(left)} {flat.text(right)}" for left, right in flat.merges]
    writer = library.GGUFWriter(None, "llama")
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(name)
    writer.add_token_list(tokens)
    writer.add_token_types(types)
    writer.add_token_merges(merges)
    for role, number in roles.items():
        getattr(writer, f"add_{role}_token_id")(number)
    writer.add_add_bos_token(given.add_bos)  # without it, ids are those of `streambpe encode`
    writer.add_add_eos_token(given.add_eos)
    if chat is not None:
        writer.add_chat_template(chat)
    with tempfile.TemporaryDirectory(prefix="streambpe-gguf-") as folder:
        writer.write_header_to_file(Path(folder) / "vocabulary")
        writer.write_kv_data_to_file()
        writer.close()
        return Made({path: (Path(folder) / "vocabulary").read_bytes()}, lost)


def _splits_so(expression: str, name: str) -> bool:
    """Whether an expression is that of one of llama.cpp's names, as it stands there or as an import stores it."""
    steps = _IMPORTED[name]
    if (expression,) == steps:
        return True
    split = split_config("oniguruma", False, name, *steps)
    return expression == find_pattern(split["pattern"], gaps="drop", digits=split.get("digits", "keep")).expression


def _tokens(flat: FlatModel) -> tuple[list[str], list[int]]:
    size = flat.encoder.model.alphabet.first_id + flat.encoder.model.n_vocab
    tokens = [f"<|unused_{i}|>" for i in range(size)]
    types = [_UNUSED] * size
    for number, content in flat.tokens.items():
        tokens[number], types[number] = flat.text(content), _NORMAL
    for text, number in flat.specials.items():
        tokens[number], types[number] = text, _CONTROL
    return tokens, types
