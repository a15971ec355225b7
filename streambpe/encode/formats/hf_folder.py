"""A folder that `AutoTokenizer.from_pretrained` loads: tokenizer.json with roles, and the two files beside it.

tokenizer.json            the model; with --add-bos or --add-eos also the template that puts them around a text
tokenizer_config.json     which special token has which role, the chat template
special_tokens_map.json   the roles alone, for older readers
chat_template.jinja       --chat-template FILE, as newer readers want it
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from streambpe.encode.encoder import Encoder
from streambpe.encode.formats.flat import Made
from streambpe.encode.formats.foreign import read_text
from streambpe.encode.formats.hf import as_json, tokenizer_json
from streambpe.errors import UsageError

# Names that special tokens usually have, by role; the first that the model has is taken, if none is given.
USUAL = {
    "bos": ("<s>", "<bos>", "<|begin_of_text|>", "<|startoftext|>", "<|bos|>", "[bos]"),
    "eos": ("</s>", "<eos>", "<|end_of_text|>", "<|endoftext|>", "<|eos|>", "[eos]"),
    "pad": ("<pad>", "<|pad|>", "[pad]", "<|padding|>"),
    "unk": ("<unk>", "[unk]", "<|unk|>"),
}
FILES = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json")
CHAT_FILE = "chat_template.jinja"


@dataclass(frozen=True)
class Roles:
    """What special tokens are for. None: the usual name, if the model has a token of that name."""

    bos: str | None = None
    eos: str | None = None
    pad: str | None = None
    unk: str | None = None
    add_bos: bool = False
    add_eos: bool = False
    chat_template: str | None = None  # a file

    def chat_text(self) -> str | None:
        """The text of the chat template."""
        return None if self.chat_template is None else read_text(Path(self.chat_template))

    def settle(self, specials: Mapping[str, int]) -> dict[str, str]:
        """role -> the special token that has it; an error if one is asked for that the model does not have."""
        known = {text.lower(): text for text in specials}
        found = {}
        for role, usual in USUAL.items():
            asked = getattr(self, role)
            if asked is not None and asked not in specials:
                raise UsageError(
                    f"--{role} {asked}: the model has no such special token; it has {', '.join(specials) or 'none'}. "
                    f"Nothing was written. Train with --special '{asked}', or leave it out."
                )
            if text := asked or next((known[name] for name in usual if name in known), None):
                found[role] = text
            elif getattr(self, f"add_{role}", False):
                raise UsageError(
                    f"--add-{role}: say which special token it is, with --{role} TOKEN. Nothing was written."
                )
        return found


def names_folder(output: str | os.PathLike[str]) -> bool:
    """Whether -o means a folder: it ends with a slash, or is one already that is not named like a file."""
    path = Path(output)
    return str(output).endswith(("/", os.sep)) or (os.path.isdir(path) and path.suffix != ".json")


def hf_folder(roles: Roles, encoder: Encoder, folder: Path) -> Made:
    """The files of the folder."""
    document, lost = tokenizer_json(encoder)
    ids = {token["content"]: token["id"] for token in document["added_tokens"]}
    found, chat = roles.settle(ids), roles.chat_text()
    around = {role: found[role] for role in ("bos", "eos") if getattr(roles, f"add_{role}")}
    if around:
        document["post_processor"] = _template(around, ids)
    names = {f"{role}_token": text for role, text in found.items()}
    config: dict[str, Any] = {
        "added_tokens_decoder": {
            str(token["id"]): {key: value for key, value in token.items() if key != "id"}
            for token in document["added_tokens"]
        },
        **names,
        "add_bos_token": "bos" in around,
        "add_eos_token": "eos" in around,
        "clean_up_tokenization_spaces": False,
        "model_max_length": 10**30,  # what transformers takes for: no limit
        "tokenizer_class": "PreTrainedTokenizerFast",
    }
    if chat is not None:
        config["chat_template"] = chat
    documents = zip(FILES, (document, config, names), strict=True)
    files = {folder / name: as_json(content) for name, content in documents}
    return Made(files if chat is None else files | {folder / CHAT_FILE: chat.encode()}, lost)


def _template(around: Mapping[str, str], ids: Mapping[str, int]) -> dict[str, Any]:
    """The post-processor that puts the tokens around a text, and around each of two texts."""

    def wrapped(sequence: str, kind: int) -> list[dict[str, Any]]:
        steps = {role: {"SpecialToken": {"id": text, "type_id": kind}} for role, text in around.items()}
        steps["text"] = {"Sequence": {"id": sequence, "type_id": kind}}
        return [steps[step] for step in ("bos", "text", "eos") if step in steps]

    tokens = {text: {"id": text, "ids": [ids[text]], "tokens": [text]} for text in around.values()}
    return {
        "type": "TemplateProcessing",
        "single": wrapped("A", 0),
        "pair": [*wrapped("A", 0), *wrapped("B", 1)],
        "special_tokens": tokens,
    }
