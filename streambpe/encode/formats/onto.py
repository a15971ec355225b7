"""export --to hf --onto OLD: a tokenizer.json that exists, plus the tokens that a model has beyond it.

    "vocab": {..., "Ġthe": 262},     ->  "vocab": {..., "Ġthe": 262,
                                                   "Ġkazi": 50257},

All else is kept, in its order: templates, post-processors and the like. JSON is written in the form of the old file,
which leaves every old byte where a program wrote that; merges as pairs or with a blank between, as the last one is.

What is refused: a model that does not have all tokens of OLD under their ids, OLD's merges before its own, and OLD's
way to split text; and one that a tokenizer.json does not hold exactly.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from streambpe.encode.encoder import Encoder
from streambpe.encode.formats.flat import Made
from streambpe.encode.formats.foreign import read_text
from streambpe.encode.formats.hf import WHOLE_CHUNKS, import_hf, refuse_unreachable, tokenizer_json
from streambpe.encode.formats.hf_folder import CHAT_FILE, FILES, names_folder
from streambpe.encode.formats.named import HF, find_tokenizer_json
from streambpe.errors import ModelError, UsageError, quoted

# What lies beside a tokenizer.json and speaks of the tokenizer, but has no list of its tokens.
_BESIDE = (*FILES[1:], CHAT_FILE, "added_tokens.json")
_EXTEND = "Give the file that was extended: `streambpe train RUN SOURCE... --extend FILE` makes such a model."

Merges = Sequence[tuple[str, str]]


def writer_onto(
    old: str | os.PathLike[str], to: str, output: str | os.PathLike[str]
) -> Callable[[Encoder, Path], Made]:
    """What writes OLD again with what is new. An error if there is no OLD, or if `to` or `output` is something else."""
    name, file, wants_folder = str(old), Path(old), names_folder(output)
    if to != "hf":
        raise UsageError(
            f"--onto {name} with --to {to}: only a tokenizer.json (--to hf) holds more than tokens and merges. Nothing "
            "was written. Leave --onto out: extended models keep the old ids."
        )
    if name.startswith(HF) or file.is_dir():
        file = find_tokenizer_json(name)
    elif not file.is_file():
        raise UsageError(f"--onto {name}: there is no such file. Nothing was written.")
    elif wants_folder:
        raise UsageError(
            f"-o {output} is a folder, but --onto {name} is a file. Nothing was written. Give the folder of "
            "tokenizer.json, or a file for -o."
        )
    return partial(_extended, name, file, wants_folder)


def _extended(name: str, file: Path, with_others: bool, encoder: Encoder, path: Path) -> Made:
    """The old file plus what is new, at `path`. `with_others`: that is a folder, for all that speaks of the
    tokenizer."""
    split, vocab, merges, lost = _shown(encoder)
    if lost:
        raise ModelError(
            f"--onto {name}: hf cannot store this model exactly, so it would not extend the old one. Nothing was "
            f"written. This would be lost: {' '.join(lost)}"
        )
    old = Encoder(import_hf(file))
    then, old_vocab, old_merges, _ = _shown(old)
    if (then, old.model.special_ids) != (split, encoder.model.special_ids):
        what = "splits or prepares text differently" if then != split else "has other special tokens"
        raise ModelError(f"--onto {name}: the model {what}. Nothing was written. {_EXTEND}")
    for token, number in old_vocab.items():
        if vocab.get(token) != number:
            has = f"id {vocab[token]}" if token in vocab else "no such token"
            raise ModelError(
                f"--onto {name}: its token {quoted(token)} has id {number}, and the model has {has}. Nothing was "
                f"written. {_EXTEND}"
            )
    for rank, pair in enumerate(old_merges):
        if merges[rank : rank + 1] != [pair]:
            raise ModelError(
                f"--onto {name}: its merge {rank} is {' + '.join(map(repr, pair))}, but the model's is different. "
                f"Nothing was written. {_EXTEND}"
            )
    text = read_text(file)
    if json.loads(text)["model"].get("ignore_merges"):
        refuse_unreachable(encoder, f"--onto {name} {WHOLE_CHUNKS}")
    content = _with_more(text, vocab, merges[len(old_merges) :]).encode()
    if not with_others:
        return Made({path: content})
    beside = [file.with_name(other) for other in _BESIDE if file.with_name(other).is_file()]
    return Made({path / FILES[0]: content} | {path / other.name: other.read_bytes() for other in beside})


def _shown(encoder: Encoder) -> tuple[tuple[Any, ...], dict[str, int], list[tuple[str, str]], list[str]]:
    """(how text is split and prepared, ids, merges, what is lost), as a tokenizer.json has them."""
    document, lost = tokenizer_json(encoder)
    model = document["model"]
    split = (encoder.pattern.expression, encoder.pattern.keep_gaps, encoder.normalize, model["ignore_merges"])
    return split, model["vocab"], [(left, right) for left, right in model["merges"]], lost


def _with_more(text: str, vocab: Mapping[str, int], merges: Merges) -> str:
    """A tokenizer.json with what a vocabulary has beyond it, by id, and with more merges.

    Added tokens that the file has in its list of them only come into the vocabulary, too: `tokenizers` numbers those
    anew, behind the vocabulary, whatever the list says.
    """
    document = json.loads(text)
    model = document["model"]
    model["vocab"] |= sorted(((t, n) for t, n in vocab.items() if t not in model["vocab"]), key=lambda item: item[1])
    joined = bool(model["merges"]) and isinstance(model["merges"][-1], str)
    model["merges"] += [f"{left} {right}" if joined else [left, right] for left, right in merges]
    # in the form of the old text, as far as programs differ in that: indents, blanks, escapes, ends of lines
    found = re.match(r"\{\s*?\n([ \t]*)", text)
    indent = None if found is None else found[1]
    blank = " " if '": ' in text else ""
    separators = ("," + blank if indent is None else ",", ":" + blank)
    written = json.dumps(document, ensure_ascii=text.isascii(), indent=indent, separators=separators)
    return (written.replace("\n", "\r\n") if "\r\n" in text else written) + text[len(text.rstrip()) :]
