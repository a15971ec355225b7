"""Hugging Face tokenizer.json: written and read.

Written: `Split` before `ByteLevel`, merges as pairs, every part and result of a merge in the vocabulary
(the library refuses the file otherwise). `transformers` loads it with
`PreTrainedTokenizerFast(tokenizer_file=...)`. Models of characters have no ByteLevel.

Read: byte-level BPE files whose ids can be kept, that is: alphabet, merged tokens in the order of the
merges, and special tokens and ids of nothing anywhere between them. A rule that would give plain text other ids is
refused; `not_kept` says what else is left out.
"""

from __future__ import annotations

import json
import os
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any  # tokenizer.json is JSON of another program: dict[str, Any], checked where it is read

from streambpe.encode.encoder import Encoder
from streambpe.encode.formats.flat import Made, flatten, not_made_of_their_bytes, portable, shown_tokens, unshown
from streambpe.encode.formats.foreign import last_merge, log_from_merges, read_json, split_config
from streambpe.errors import ModelError, quoted
from streambpe.model.alphabet import byte_to_character
from streambpe.model.eventlog import EventLog
from streambpe.text.patterns import PRESETS
from streambpe.text.whitespace import WORD_MARK


def tokenizer_json(encoder: Encoder) -> tuple[dict[str, Any], list[str]]:
    """(the content of tokenizer.json, what is lost)."""
    flat, header = flatten(encoder, "hf"), encoder.header
    vocab = {flat.text(content): number for number, content in flat.tokens.items()}
    lost = []
    if both := sorted(vocab.keys() & flat.specials.keys()):  # a vocabulary in JSON has one id for both
        names = ", ".join(both[:3])
        lost.append(f"learned tokens that are spelled like special tokens ({names}) share their ids.")
    plain = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    added = [{"id": number, "content": text, **plain, "special": True} for text, number in flat.specials.items()]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    steps: list[dict[str, Any]] = []
    decoder: dict[str, Any] = {"type": "Fuse"} if flat.of_characters else byte_level
    if encoder.pattern.name == "whitespace":
        mark = {"type": "Metaspace", "replacement": WORD_MARK, "prepend_scheme": "always", "split": False}
        lost.append(f"words that begin with `{WORD_MARK}`: tokenizers puts no second one before them.")
        steps = [_split(r"[\s\x{1C}-\x{1F}]+", "Removed"), mark]  # WhitespaceSplit leaves those four in words
        decoder = mark
        if not flat.of_characters:  # after ByteLevel all is one piece, of which Metaspace would drop every mark
            unmark = {"type": "Replace", "pattern": {"String": WORD_MARK}, "content": " "}
            strip = {"type": "Strip", "content": " ", "start": 1, "stop": 0}
            decoder = {"type": "Sequence", "decoders": [byte_level, unmark, strip]}
    elif flat.expression:
        expression = portable(flat.expression, encoder.pattern.name != "regex", "oniguruma")
        drops = header.config.get("gaps") == "drop" and encoder.pattern.name == "regex"
        steps = [_split(expression, "Removed", invert=True) if drops else _split(expression, "Isolated")]
    steps += [] if flat.of_characters else [byte_level]
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
            "vocab": vocab | flat.specials,
            "merges": [[flat.text(left), flat.text(right)] for left, right in flat.merges],
        },
    }
    return document, [*flat.lost, *lost]


def _split(expression: str, behavior: str, invert: bool = False) -> dict[str, Any]:
    """A step of a pre-tokenizer. Inverted, what the expression leaves between its matches is isolated, or removed."""
    return {"type": "Split", "pattern": {"Regex": expression}, "behavior": behavior, "invert": invert}


def hf_file(encoder: Encoder, path: Path) -> Made:
    """tokenizer.json alone."""
    document, lost = tokenizer_json(encoder)
    return Made({path: as_json(document)}, lost)


def as_json(document: Any) -> bytes:
    """JSON as it is written for other programs."""
    return (json.dumps(document, ensure_ascii=False, indent=1) + "\n").encode()


# Reading.

_FIELDS = {"added_tokens", "model", "normalizer", "pre_tokenizer", "post_processor", "decoder"}
_FIELDS |= {"version", "truncation", "padding"}
_MODEL_FIELDS = {"type", "vocab", "merges", "unk_token", "fuse_unk", "byte_fallback", "dropout", "ignore_merges"}
_MODEL_FIELDS |= {"continuing_subword_prefix", "end_of_word_suffix"}


def import_hf(path: str | os.PathLike[str], document: Any = None) -> EventLog:
    """A tokenizer.json as an event log with the same ids. `document`: its content, where it has been read."""
    document = read_json(Path(path)) if document is None else document
    model = document.get("model") if isinstance(document, dict) else None
    if not isinstance(model, dict) or model.get("type", "BPE") != "BPE" or "merges" not in model:
        raise ModelError(f"{path} is not a BPE model.")
    if document.get("version", "1.0") != "1.0":
        raise ModelError(f"{path} is of version {document['version']!r}; only 1.0 is known.")
    for name in ("continuing_subword_prefix", "end_of_word_suffix", "byte_fallback", "dropout"):
        if model.get(name):
            raise ModelError(f"{path} uses {name}, which byte-level event logs do not have.")
    config = _read_split(document, path)
    if normalizers := _steps(document.get("normalizer"), "normalizers"):
        if any(step["type"] != "NFC" for step in normalizers):
            raise ModelError(f"{path} has the normalizer {_named(normalizers)}; an event log can only store NFC.")
        config["normalize"] = "nfc"
    added = _added_tokens(document.get("added_tokens", []), model["vocab"], path)
    pairs = (m.split(" ", 1) if isinstance(m, str) else m for m in model["merges"])
    try:
        merges = [(unshown(left), unshown(right)) for left, right in pairs]
        contents = {unshown(text): number for text, number in model["vocab"].items() if text not in added}
    except KeyError as error:
        raise ModelError(f"{path} is not byte-level: its tokens hold the character {quoted(error.args[0])}.") from None
    has_all_bytes = sum(len(content) == 1 for content in contents) == 256
    unk = None if has_all_bytes else model.get("unk_token")
    if unk is not None and (model.get("fuse_unk") or unk not in added or unk not in model["vocab"]):
        what = "replaces several in a row (fuse_unk)" if model.get("fuse_unk") else "is not one of its tokens"
        raise ModelError(
            f"{path} lacks some bytes, and its unk_token {quoted(unk)} {what}; an event log has no such rule."
        )
    single = one_merge_each(contents, merges, str(path))
    log = log_from_merges(contents, single or merges, added, config, str(path), drop_unknown=True, unk=unk)
    if single is not None:
        refuse_unreachable(Encoder(log), f"{path} has several merges for one token, of which an event log takes one")
    if model.get("ignore_merges"):
        refuse_unreachable(Encoder(log), f"{path} {WHOLE_CHUNKS}")
    return log


def _added_tokens(listed: list[dict[str, Any]], vocab: dict[str, int], path: object) -> dict[str, int]:
    """The ids of the added tokens by their text. ModelError where one would be found in plain text, or where the
    library numbers one otherwise than the list does."""
    added: dict[str, int] = {}
    for token in listed:
        text, number = token["content"], token["id"]
        if not text or text in added or (text in vocab and text in byte_to_character().values()):
            raise ModelError(
                f"{path} has the added token {quoted(text)} twice, or it is a byte or empty; ids cannot be kept."
            )
        if not token.get("special", True) and all(unicodedata.category(c)[0] not in "PS" for c in text):
            raise ModelError(
                f"{path} has the added token {quoted(text)} with `special: false`: it is found in plain text before "
                "the text is split, and an event log has no such rule."
            )
        known = vocab.get(text, max(len(vocab), max(added.values(), default=-1) + 1))
        if number != known:
            raise ModelError(
                f"{path} lists the added token {quoted(text)} with id {number}, but the library gives it id {known}, "
                "so its id is ambiguous."
            )
        added[text] = number
    return added


def not_kept(document: dict[str, Any]) -> Iterator[str]:
    """What an event log does not keep of a tokenizer.json that was read. None of it changes the ids of plain text, that
    is, text that spells no added token, without what is put around it."""
    added, normalizes = document.get("added_tokens", []), _steps(document.get("normalizer"), "normalizers")
    flags = {
        "special": "found in every text there, but here only where special tokens are allowed",
        "single_word": "found only as separate words",
        "lstrip": "they include the white space before them",
        "rstrip": "they include the white space after them",
        "normalized": "found in normalized text, or after the others",
    }
    for flag, meaning in flags.items():
        wanted = flag != "special"
        having = [token["content"] for token in added if token.get(flag, not wanted) is wanted]
        if having and (flag != "normalized" or normalizes or len(having) < len(added)):
            more = f" and {len(having) - 3} more" if len(having) > 3 else ""
            yield f"`{flag}: {str(wanted).lower()}` of {', '.join(map(repr, having[:3]))}{more}: {meaning}"
    for step in _steps(document.get("post_processor"), "processors"):
        pieces = step.get("single", [])
        once = step.get("special_tokens") == {} and len(pieces) == 1
        if step["type"] != "ByteLevel" and not once:
            yield f"post_processor ({step['type']}): it adds special tokens to a text, or repeats it"
    decoders = _named(_steps(document.get("decoder"), "decoders"))
    if decoders != "ByteLevel":
        yield f"decoder ({decoders}): here ids become the text that their bytes spell"
    for part, known in ((document, _FIELDS), (document["model"], _MODEL_FIELDS)):
        if unknown := part.keys() - known:
            yield f"{', '.join(sorted(unknown))}: these fields are unknown here"
    for name, what in (("truncation", "cut at a length"), ("padding", "padded to a length")):
        if document.get(name):
            yield f"{name}: texts are {what} there"


def one_merge_each(
    contents: dict[bytes, int], merges: list[tuple[bytes, bytes]], name: str
) -> list[tuple[bytes, bytes]] | None:
    """The merges used of a file made of ranks (Llama 3's), which has every pair that spells a token, by its id.

    None if the file is of another kind. When all merges of the tokens before one are done, neighbours that spell it are
    what those make of its bytes, if they make two tokens of them and no merge reached across its ends: one pair. It
    becomes the token there and then, so pairs with a token behind it never come to stand in its place.
    """
    made = [contents.get(left + right, -1) for left, right in merges]
    if len(set(made)) == len(made) or made != sorted(made):
        return None
    tokens = sorted((number, content) for content, number in contents.items() if len(content) > 1)
    try:
        used = [last_merge(content, number, contents, name) for number, content in tokens]
    except ModelError:
        return None
    return used if set(used) <= set(merges) else None


# Of Llama 3's files. An event log needs no such rule where the merges make every token of its own bytes.
WHOLE_CHUNKS = "says ignore_merges: whole chunks that are tokens are not merged; an event log has no such rule"


def refuse_unreachable(encoder: Encoder, what: str) -> None:
    """A ModelError that begins with `what`, unless the merges make every token of its own bytes."""
    if others := not_made_of_their_bytes(encoder):
        raise ModelError(
            f"{what}, and some tokens are not what the merges make of their bytes ({shown_tokens(encoder, others)}): "
            "some texts would encode differently. Nothing was written."
        )


def _read_split(document: dict[str, Any], path: object) -> dict[str, Any]:
    """What a header's config says of a pre-tokenizer: steps that split by expressions, and then ByteLevel."""
    steps = _steps(document.get("pre_tokenizer"), "pretokenizers")
    if not steps or steps[-1]["type"] != "ByteLevel":
        raise ModelError(
            f"{path} does not split text by ByteLevel in the end (pre_tokenizer: {_named(steps)}); only byte-level "
            "files can be read."
        )
    *splits, level = steps
    if level.get("add_prefix_space"):
        raise ModelError(
            f"{path} puts a space before every text (add_prefix_space of its pre_tokenizer); an event log has no such "
            "rule."
        )
    expressions, drops = [], False
    by_itself = level.get("use_regex", True)
    for split in splits:
        how = split.get("behavior"), bool(split.get("invert"))
        drops = how == ("Removed", True) and len(splits) == 1 and not by_itself
        if split["type"] == "Digits":
            expressions.append(r"\p{N}" if split["individual_digits"] else r"\p{N}+")
        elif split["type"] == "Split" and "Regex" in split["pattern"] and (drops or how == ("Isolated", False)):
            expressions.append(split["pattern"]["Regex"])
        else:
            raise ModelError(
                f"{path} splits text by {_named(steps)} (pre_tokenizer), and an event log cannot store this step: "
                f"{json.dumps(split, ensure_ascii=False):.200}. What can be read is Digits, and Splits by a regular "
                "expression, isolated (or a single one, removed and inverted), before ByteLevel."
            )
    if by_itself:
        expressions.append(PRESETS["gpt2"].expression)
    if not expressions:
        return {"pattern": "none", "gaps": "refuse"}
    return split_config("oniguruma", drops, path, *expressions)


def _steps(part: Any, members: str) -> list[dict[str, Any]]:
    """What a field of a tokenizer.json does in turn: nothing, one thing, or those of a Sequence."""
    if not part or part["type"] != "Sequence":
        return [part] if part else []
    return [step for one in part[members] for step in _steps(one, members)]


def _named(steps: list[dict[str, Any]]) -> str:
    return ", ".join(step["type"] for step in steps) or "nothing"
