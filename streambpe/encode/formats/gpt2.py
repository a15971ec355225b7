"""vocab.json and merges.txt, as GPT-2 had them. The two files hold no pattern: readers use GPT-2's own.

    vocab.json    {"!": 0, ..., "\u0120the": 262, ..., "<|endoftext|>": 50256}
    merges.txt    #version: 0.2, and a merge a line: \u0120 t

A token that is no byte, and that no merge makes, is a special token; so are those of added_tokens.json beside them.
"""

from __future__ import annotations

import json
from pathlib import Path

from streambpe.encode.encoder import Encoder
from streambpe.encode.formats.flat import FlatModel, Made, flatten
from streambpe.encode.formats.foreign import in_bytes, log_from_merges, read_json, read_text
from streambpe.errors import ModelError, quoted, typed
from streambpe.model.alphabet import byte_to_character
from streambpe.model.eventlog import EventLog

FILES = ("vocab.json", "merges.txt")
# Classes of transformers that split these files' text by GPT-2's pattern; a class of another name may split otherwise.
_CLASSES = ("GPT2Tokenizer", "RobertaTokenizer", "BartTokenizer", "LongformerTokenizer")


def gpt2_folder(path: Path) -> Path | None:
    """The folder of the two files, if `path` is that folder (and no tokenizer.json says more) or one of them."""
    folder = path.parent if path.name in FILES else path
    if folder is path and (path / "tokenizer.json").is_file():
        return None
    return folder if all((folder / name).is_file() for name in FILES) else None


def import_gpt2(folder: Path, pattern: str | None = None) -> EventLog:
    """Read FOLDER/vocab.json and FOLDER/merges.txt; without a pattern it is GPT-2's."""
    vocab, merges = read_vocabulary(folder / FILES[0]), read_merges(folder / FILES[1])
    specials = read_vocabulary(folder / "added_tokens.json") if (folder / "added_tokens.json").is_file() else {}
    _refuse_class(folder, pattern)
    made = {left + right for left, right in merges} | {*byte_to_character().values()}
    learned = {text: number for text, number in vocab.items() if text in made and text not in specials}
    specials |= {text: number for text, number in vocab.items() if text not in learned}
    contents, pairs = in_bytes(learned, merges, folder / FILES[1])
    return log_from_merges(
        contents, pairs, specials, {"pattern": pattern or "gpt2", "gaps": "refuse"}, str(folder), drop_unknown=True
    )


def read_vocabulary(file: Path) -> dict[str, int]:
    """Tokens and their ids."""
    found = read_json(file)
    if not isinstance(found, dict) or not all(type(number) is int for number in found.values()):
        raise ModelError(f"{file} is not a JSON object of tokens and their ids.")
    return found


def read_merges(file: Path) -> list[tuple[str, str]]:
    """The merges in their order."""
    found = []
    for number, line in enumerate(read_text(file).split("\n"), 1):
        if not line.strip() or (number == 1 and line.startswith("#version")):
            continue
        left, space, right = line.rstrip("\r").partition(" ")
        if not (left and space and right) or " " in right:
            raise ModelError(f"{file} line {number} is {quoted(line)}: a merge is two tokens with one space between.")
        if right.endswith("</w>"):
            raise ModelError(
                f"{file} line {number}: words end with </w>, which byte-level event logs do not have. Only files like "
                "those of GPT-2 can be read."
            )
        found.append((left, right))
    return found


def _refuse_class(folder: Path, pattern: str | None) -> None:
    """What tokenizer_config.json, where there is one, says against reading the files as GPT-2's."""
    file = folder / "tokenizer_config.json"
    facts = read_json(file) if file.is_file() else {}
    if not isinstance(facts, dict):
        return
    if facts.get("add_prefix_space"):
        raise ModelError(f"{file} puts a space before every text (add_prefix_space); an event log has no such rule.")
    name = str(facts.get("tokenizer_class") or _CLASSES[0])
    if pattern is None and name.removesuffix("Fast") not in _CLASSES:
        raise ModelError(
            f"{file} names {name}, which may split text differently from GPT-2, and the files beside it have no "
            f"pattern. Nothing was written. Give one: `streambpe import {typed(folder)} --pattern PATTERN -o "
            "old.events.jsonl`, and give that file as MODEL."
        )


def gpt2_files(encoder: Encoder, path: Path) -> Made:
    """PATH/vocab.json and PATH/merges.txt."""
    flat = flatten(encoder, "gpt2")
    lost = lost_in_gpt2(encoder, flat)
    vocab, merges, names = flat.in_texts()
    lines = ["#version: 0.2\n", *(f"{left} {right}\n" for left, right in merges)]
    texts = json.dumps(vocab, ensure_ascii=False), "".join(lines)
    return Made({path / name: text.encode() for name, text in zip(FILES, texts, strict=True)}, lost + names)


def lost_in_gpt2(encoder: Encoder, flat: FlatModel) -> list[str]:
    """What the two files cannot say. ModelError if they can say nothing."""
    if flat.of_characters:
        raise ModelError("vocab.json and merges.txt are for bytes, but this model's symbols are characters. Use hf.")
    lost = list(flat.lost)
    if encoder.pattern.name not in ("gpt2", "r50k"):
        lost.append(
            f"the pattern ({encoder.pattern.name}): the two files cannot store it, and readers of GPT-2 files use "
            "GPT-2's. --to hf stores it."
        )
    if flat.ignore_merges:
        lost.append("the two files cannot store ignore_merges either: all chunks are merged.")
    return lost
