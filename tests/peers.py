"""Vocabularies of other programs: byte-level BPE as the library `tokenizers` learns it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from streambpe.encode.formats.flat import unshown


def by_tokenizers(
    texts: Iterable[str], vocab_size: int, *, pattern: str | None = None, all_bytes: bool = True,
    unk: str | None = None, normalizer: Any = None, **more: Any,
) -> Any:  # fmt: skip
    """A Tokenizer of the library, learned from texts. `pattern`: instead of GPT-2's; `more`: for its trainer."""
    from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

    made = Tokenizer(models.BPE(unk_token=unk))
    if normalizer is not None:
        made.normalizer = getattr(normalizers, normalizer)()
    made.pre_tokenizer = level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=pattern is None)
    if pattern is not None:
        made.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "isolated"), level])
    made.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet() if all_bytes else []
    how = {"vocab_size": vocab_size, "initial_alphabet": alphabet, "show_progress": False, **more}
    made.train_from_iterator(texts, trainers.BpeTrainer(**how))
    return made


def merges_of(made: Any) -> list[tuple[bytes, bytes]]:
    """The merges of such a Tokenizer, in order, as bytes."""
    return [(unshown(left), unshown(right)) for left, right in json.loads(made.to_str())["model"]["merges"]]
