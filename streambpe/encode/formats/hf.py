"""Hugging Face tokenizer.json: written and read.

Written: `Split` before `ByteLevel`, merges as pairs, every part and result of a merge in the vocabulary
(the library refuses the file otherwise). `transformers` loads it with
`PreTrainedTokenizerFast(tokenizer_file=...)`. Models of characters have no ByteLevel.

Read: byte-level BPE files whose ids can be kept, that is: alphabet, merged tokens in the order of the
merges, and special tokens before or behind them.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any  # tokenizer.json is JSON of another program: dict[str, Any], checked where it is read

from streambpe.encode.encoder import Encoder
from streambpe.encode.formats.flat import FlatModel, flatten, portable
from streambpe.errors import ModelError
from streambpe.model.alphabet import Alphabet, byte_to_character, bytes_alphabet, gpt2_alphabet
from streambpe.model.eventlog import EventLog, Header, Special, merge_event
from streambpe.model.replay import Model
from streambpe.model.vocabulary import Vocabulary
from streambpe.text.aliases import canonical
from streambpe.text.patterns import PRESETS
from streambpe.text.whitespace import WORD_MARK

_CHARACTER = byte_to_character()
_BYTE = {character: byte for byte, character in _CHARACTER.items()}


def shown(content: bytes) -> str:
    """Bytes as GPT-2's printable characters: b" the" -> "Ġthe"."""
    return "".join(map(_CHARACTER.__getitem__, content))


def unshown(text: str) -> bytes:
    """The bytes behind `shown`; KeyError if a character stands for none."""
    return bytes(map(_BYTE.__getitem__, text))


def token_text(flat: FlatModel, content: bytes) -> str:
    """How tokenizer.json and merges.txt write a token."""
    return content.decode() if flat.kind == "chars" else shown(content)


def tokenizer_json(encoder: Encoder) -> tuple[dict[str, Any], list[str]]:
    """(the content of tokenizer.json, what is lost)."""
    flat = flatten(encoder, "hf")
    header = encoder.header
    lost = list(flat.lost)
    vocab = {token_text(flat, content): number for number, content in flat.tokens.items()}
    added = [
        {
            "id": number,
            "content": text,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": True,
        }
        for text, number in flat.specials.items()
    ]
    vocab.update(flat.specials)
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    steps: list[dict[str, Any]] = []
    decoder: dict[str, Any] = byte_level
    if encoder.pattern.name == "whitespace":
        mark = {"type": "Metaspace", "replacement": WORD_MARK, "prepend_scheme": "always", "split": False}
        steps = [{"type": "WhitespaceSplit"}, mark]
        decoder = mark
        if flat.kind != "chars":  # after ByteLevel all is one piece, of which Metaspace would drop every mark
            unmark = {"type": "Replace", "pattern": {"String": WORD_MARK}, "content": " "}
            strip = {"type": "Strip", "content": " ", "start": 1, "stop": 0}
            decoder = {"type": "Sequence", "decoders": [byte_level, unmark, strip]}
    elif flat.expression:
        expression = portable(flat.expression, flat.is_preset, "oniguruma")
        behavior = {"type": "Split", "pattern": {"Regex": expression}, "behavior": "Isolated", "invert": False}
        steps = [behavior]
    if flat.kind == "chars":
        if encoder.pattern.name != "whitespace":
            decoder = {"type": "Fuse"}
    else:
        steps.append(byte_level)
    document = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "normalizer": {"type": "NFC"} if header.config.get("normalize") == "nfc" else None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": steps} if len(steps) > 1 else next(iter(steps), None),
        "post_processor": None,
        "decoder": decoder,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": header.unk,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": flat.ignore_merges,
            "vocab": vocab,
            "merges": [[token_text(flat, left), token_text(flat, right)] for left, right in flat.merges],
        },
    }
    return document, lost


def export_hf(encoder: Encoder, path: Path) -> tuple[list[Path], list[str]]:
    """Write tokenizer.json; (the files, what is lost)."""
    document, lost = tokenizer_json(encoder)
    target = path / "tokenizer.json" if path.is_dir() else path
    target.write_text(json.dumps(document, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    return [target], lost


# Reading.


def import_hf(path: str | os.PathLike[str]) -> EventLog:
    """A tokenizer.json as an event log with the same ids."""
    try:
        document = json.loads(Path(path).read_bytes())
    except (OSError, ValueError) as why:
        raise ModelError(f"{path} is no tokenizer.json: {why}.") from None
    model = document.get("model") if isinstance(document, dict) else None
    if not isinstance(model, dict) or model.get("type", "BPE") != "BPE" or "merges" not in model:
        raise ModelError(f"{path} holds no BPE model; only those are merges.")
    for name in ("continuing_subword_prefix", "end_of_word_suffix", "byte_fallback"):
        if model.get(name):
            raise ModelError(f"{path} uses {name}, which byte-level event logs do not have.")
    if model.get("ignore_merges"):
        raise ModelError(
            f"{path} says ignore_merges: whole chunks that are tokens are taken without merging. An event log has no "
            f"such rule, so some chunks would encode otherwise."
        )
    pattern, keep = _read_split(document, path)
    config: dict[str, Any] = {"pattern": pattern, "gaps": "keep" if keep else "refuse"}
    normalizer = document.get("normalizer")
    if normalizer and normalizer.get("type") != "NFC":
        raise ModelError(f"{path} normalizes text ({normalizer.get('type')}); an event log can only say NFC.")
    if normalizer:
        config["normalize"] = "nfc"
    added = {token["content"]: token["id"] for token in document.get("added_tokens", [])}
    vocab: dict[str, int] = {text: number for text, number in model["vocab"].items() if text not in added}
    pairs = [tuple(m.split(" ", 1)) if isinstance(m, str) else tuple(m) for m in model["merges"]]
    try:
        merges = [(unshown(left), unshown(right)) for left, right in pairs]
        contents = {unshown(text): number for text, number in vocab.items()}
    except KeyError as error:
        raise ModelError(f"{path} is not byte-level: its tokens hold the character {error.args[0]!r}.") from None
    return log_from_merges(contents, merges, added, config, str(path), drop_unknown=True)


def _read_split(document: dict[str, Any], path: object) -> tuple[str, bool]:
    """(pattern, whether text between matches is kept) of a Split-then-ByteLevel or a ByteLevel pre-tokenizer."""
    steps = document.get("pre_tokenizer")
    steps = steps["pretokenizers"] if steps and steps.get("type") == "Sequence" else [steps] if steps else []
    if not steps or steps[-1].get("type") != "ByteLevel":
        raise ModelError(f"{path} does not cut text by ByteLevel; only byte-level files can be read.")
    if steps[-1].get("add_prefix_space"):
        raise ModelError(f"{path} puts a space before every text (add_prefix_space); an event log has no such rule.")
    if len(steps) == 1:
        return ("gpt2", False) if steps[0].get("use_regex", True) else ("none", False)
    if len(steps) == 2 and steps[0].get("type") == "Split" and not steps[-1].get("use_regex", True):
        split = steps[0]
        expression = split["pattern"].get("Regex")
        if expression and split.get("behavior") == "Isolated" and not split.get("invert"):
            return preset_of(expression)
    raise ModelError(
        f"{path} cuts text in a way an event log cannot say: one Split by a regular expression, isolated, and then "
        f"ByteLevel can be read."
    )


def preset_of(expression: str) -> tuple[str, bool]:
    """(the name of the preset with this name or expression, else the expression itself; whether gaps are kept)."""
    expression = canonical(expression)
    if expression in PRESETS:
        return expression, PRESETS[expression].keep_gaps
    for name, preset in PRESETS.items():
        if preset.expression and expression in (
            preset.expression,
            portable(preset.expression, True, "oniguruma"),
            portable(preset.expression, True, "rust"),
        ):
            return name, preset.keep_gaps
    return expression, True


def named_alphabet(symbols: tuple[bytes, ...]) -> Alphabet:
    """Single bytes in id order, under the name of the alphabet they are."""
    for known in (gpt2_alphabet(), bytes_alphabet()):
        if symbols == known.symbols:
            return known
    return Alphabet("seen", symbols)


def log_from_merges(
    contents: dict[bytes, int],
    merges: list[tuple[bytes, bytes]],
    specials: dict[str, int],
    config: dict[str, Any],
    name: str,
    drop_unknown: bool = False,
) -> EventLog:
    """An event log of plain merges, checked to give every token the id it has in `contents`."""
    symbols = tuple(sorted((c for c in contents if len(c) == 1), key=contents.__getitem__))
    alphabet = named_alphabet(symbols)
    vocabulary = Vocabulary(alphabet)
    number_of = {symbol: i for i, symbol in enumerate(symbols)}
    events = []
    for rank, (left, right) in enumerate(merges):
        if left not in number_of or right not in number_of or left + right not in contents:
            raise ModelError(f"{name}: merge {rank}, {left!r} + {right!r}, needs a token that is not there yet.")
        number = vocabulary.learn(number_of[left], number_of[right])
        number_of[left + right] = number
        events.append(merge_event(number_of[left], number_of[right], number, 0))
    if drop_unknown and len(symbols) < 256:
        config = {**config, "unknown": "drop"}
    ordered = sorted(specials.items(), key=lambda item: item[1])
    config = dict(config)
    first = min(contents.values(), default=0)
    if ordered and ordered[-1][1] < first:
        config["specials_first"] = True
    last = max([*contents.values(), *specials.values()], default=-1)
    header = Header(
        alphabet.to_header(), config=config, specials=tuple(Special(text, number) for text, number in ordered)
    )
    log = EventLog(header, tuple(events))
    model = Model(log)
    ours = {model.content(log_id): number for log_id, number in model.model_id.items()}
    for content, number in contents.items():
        if ours.get(content) != number:
            raise ModelError(
                f"{name}: token {content!r} has id {number}, but alphabet, merges and special tokens in their order "
                f"make it {ours.get(content)}. Its ids cannot be kept in an event log (last id {last})."
            )
    for text, number in ordered:
        if model.special_ids[text] != number:
            raise ModelError(
                f"{name}: special token {text!r} has id {number}; behind (or before) {len(contents)} tokens it would "
                f"have {model.special_ids[text]}. Its ids cannot be kept in an event log."
            )
    return log
