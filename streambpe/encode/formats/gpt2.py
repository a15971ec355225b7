"""vocab.json and merges.txt, as GPT-2 had them. The two files hold no pattern: readers use GPT-2's own."""

from __future__ import annotations

import json
from pathlib import Path

from streambpe.encode.encoder import Encoder
from streambpe.encode.formats.flat import flatten
from streambpe.encode.formats.hf import token_text
from streambpe.errors import ModelError


def export_gpt2(encoder: Encoder, path: Path) -> tuple[list[Path], list[str]]:
    """Write PATH/vocab.json and PATH/merges.txt; (files, what is lost)."""
    flat = flatten(encoder, "gpt2")
    if flat.kind == "chars":
        raise ModelError("vocab.json and merges.txt are read as bytes; this model's symbols are characters. Use hf.")
    lost = list(flat.lost)
    if encoder.pattern.name not in ("gpt2", "r50k"):
        lost.append(
            f"the pattern ({encoder.pattern.name}): the two files have no place for one, and readers of GPT-2 files "
            f"split by GPT-2's. --to hf carries it."
        )
    if flat.ignore_merges:
        lost.append("ignore_merges cannot be said in the two files either: no chunk is taken as a whole.")
    path.mkdir(parents=True, exist_ok=True)
    vocab = {token_text(flat, content): number for number, content in flat.tokens.items()}
    vocab.update(flat.specials)
    vocab_file, merges_file = path / "vocab.json", path / "merges.txt"
    vocab_file.write_text(json.dumps(vocab, ensure_ascii=False), encoding="utf-8")
    lines = [f"{token_text(flat, left)} {token_text(flat, right)}\n" for left, right in flat.merges]
    merges_file.write_text("#version: 0.2\n" + "".join(lines), encoding="utf-8")
    return [vocab_file, merges_file], lost
