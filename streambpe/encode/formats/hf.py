"""Hugging Face tokenizer.json: written and read.

Written: `Split` before `ByteLevel`, merges as pairs, every part and result of a merge in the vocabulary
(the library refuses the file otherwise). `transformers` loads it with
`PreTrainedTokenizerFast(tokenizer_file=...)`. Models of characters have no ByteLevel.

Read: byte-level BPE files whose ids can be kept, that is: alphabet, merged tokens in the order of the
merges, and special tokens and ids of nothing anywhere between them. A rule that would give plain text other ids is
refused; `not_kept` says what else is left out.
"""

from __future__ import annotations

import gzip
import json
import os
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any  # tokenizer.json is JSON of another program: dict[str, Any], checked where it is read

from streambpe.encode.encoder import Encoder
from streambpe.encode.formats.flat import (
    again_after_use,
    flatten,
    merged_by_rank,
    not_made_of_their_bytes,
    shown_tokens,
    unshown,
)
from streambpe.errors import ModelError, quoted
from streambpe.model.alphabet import Alphabet, byte_to_character, bytes_alphabet, gpt2_alphabet
from streambpe.model.eventlog import EventLog, FixedIds, Header, Special, merge_event
from streambpe.model.line_shapes import MOST_EMPTY_IDS
from streambpe.model.replay import Model
from streambpe.model.vocabulary import Vocabulary
from streambpe.resources import format_size
from streambpe.text.aliases import canonical
from streambpe.text.dialects import Dialect, Unsayable, read, translated
from streambpe.text.patterns import PRESETS
from streambpe.text.whitespace import WORD_MARK


def tokenizer_json(encoder: Encoder) -> tuple[dict[str, Any], list[str]]:
    """(the content of tokenizer.json, what is lost)."""
    flat, header = flatten(encoder, "hf"), encoder.header
    vocab, merges, lost = flat.in_texts()
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
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    steps: list[dict[str, Any]] = []
    decoder: dict[str, Any] = byte_level
    if encoder.pattern.name == "whitespace":
        mark = {"type": "Metaspace", "replacement": WORD_MARK, "prepend_scheme": "always", "split": False}
        steps = [_split(r"[\s\x{1C}-\x{1F}]+", "Removed"), mark]  # WhitespaceSplit leaves those four in words
        decoder = mark
        if not flat.of_characters:  # after ByteLevel all is one piece, of which Metaspace would drop every mark
            unmark = {"type": "Replace", "pattern": {"String": WORD_MARK}, "content": " "}
            strip = {"type": "Strip", "content": " ", "start": 1, "stop": 0}
            decoder = {"type": "Sequence", "decoders": [byte_level, unmark, strip]}
    elif flat.expression:
        expression = flat.portable("oniguruma")
        drops = header.config.get("gaps") == "drop" and encoder.pattern.name == "regex"
        steps = [_split(expression, "Removed", invert=True) if drops else _split(expression, "Isolated")]
    if flat.of_characters:
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
            "merges": [list(pair) for pair in merges],
        },
    }
    return document, [*flat.lost, *lost]


def _split(expression: str, behavior: str, invert: bool = False) -> dict[str, Any]:
    """A step of a pre-tokenizer. Inverted, what the expression leaves between its matches is isolated, or removed."""
    return {"type": "Split", "pattern": {"Regex": expression}, "behavior": behavior, "invert": invert}


def export_hf(encoder: Encoder, path: Path) -> tuple[list[Path], list[str]]:
    """Write tokenizer.json; (the files, what is lost)."""
    document, lost = tokenizer_json(encoder)
    target = path / "tokenizer.json" if path.is_dir() else path
    target.write_text(json.dumps(document, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    return [target], lost


# Reading.

_MOST_JSON = 256 << 20  # bytes of a tokenizer.json, unpacked: those of 256 000 tokens have 35 MB


def read_json(file: Path) -> Any:
    """What a file of JSON holds, gzipped or not; an error if it holds more than any tokenizer has."""
    try:
        with open(file, "rb") as opened, gzip.GzipFile(fileobj=opened) as unpacked:
            packed = opened.peek(2).startswith(b"\x1f\x8b")
            data = (unpacked if packed else opened).read(_MOST_JSON + 1)
        if len(data) > _MOST_JSON:
            raise ModelError(f"{file} holds more than {format_size(_MOST_JSON)} of JSON, too much for a tokenizer.")
        return json.loads(data)
    except json.JSONDecodeError as why:
        raise ModelError(f"{file} is not JSON: line {why.lineno}, column {why.colno}: {why.msg}. Was it cut?") from None
    except (OSError, EOFError, UnicodeDecodeError, RecursionError) as why:
        raise ModelError(f"{file} cannot be read: {why}.") from None


def import_hf(path: str | os.PathLike[str], document: Any = None) -> EventLog:
    """A tokenizer.json as an event log with the same ids. `document`: its content, where it has been read."""
    if document is None:
        document = read_json(Path(path))
    model = document.get("model") if isinstance(document, dict) else None
    if not isinstance(model, dict) or model.get("type", "BPE") != "BPE" or "merges" not in model:
        raise ModelError(f"{path} is not a BPE model.")
    for name in ("continuing_subword_prefix", "end_of_word_suffix", "byte_fallback", "dropout"):
        if model.get(name):
            raise ModelError(f"{path} uses {name}, which byte-level event logs do not have.")
    pattern, gaps = _read_split(document, path)
    config: dict[str, Any] = {"pattern": pattern, "gaps": gaps}
    normalizer = document.get("normalizer")
    if normalizer and normalizer.get("type") != "NFC":
        raise ModelError(f"{path} normalizes text ({normalizer.get('type')}); an event log can only store NFC.")
    if normalizer:
        config["normalize"] = "nfc"
    added = _added_tokens(document.get("added_tokens", []), model["vocab"], path)
    vocab: dict[str, int] = {text: number for text, number in model["vocab"].items() if text not in added}
    pairs = [tuple(m.split(" ", 1)) if isinstance(m, str) else tuple(m) for m in model["merges"]]
    contents, merges = in_bytes(vocab, pairs, path)
    if sum(len(content) == 1 for content in contents) == 256:
        unk = None
    else:
        unk = model.get("unk_token")
        if unk is not None and (model.get("fuse_unk") or unk not in added or unk not in model["vocab"]):
            raise ModelError(
                f"{path} lacks some bytes, and its unk_token {quoted(unk)} "
                + ("replaces several in a row (fuse_unk)" if model.get("fuse_unk") else "is not one of its tokens")
                + "; an event log has no such rule."
            )
    single = one_merge_each(contents, merges, str(path))
    log = log_from_merges(contents, single or merges, added, config, str(path), drop_unknown=True, unk=unk)
    if single is not None and (others := not_made_of_their_bytes(encoder := Encoder(log))):
        raise ModelError(
            f"{path} has several merges for one token, and some tokens are not what the merges make from their bytes "
            f"({shown_tokens(encoder, others)}), so more than one of them may be used. Nothing was written."
        )
    if model.get("ignore_merges"):
        refuse_whole_chunks(Encoder(log), str(path))
    return log


def in_bytes(
    vocab: Mapping[str, int], pairs: Iterable[Sequence[str]], path: object
) -> tuple[dict[bytes, int], list[tuple[bytes, bytes]]]:
    """The ids of tokens, and merges, by the bytes that GPT-2's printable characters stand for."""
    try:
        merges = [(unshown(left), unshown(right)) for left, right in pairs]
        return {unshown(text): number for text, number in vocab.items()}, merges
    except KeyError as error:
        raise ModelError(f"{path} is not byte-level: its tokens hold the character {quoted(error.args[0])}.") from None


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
    added = document.get("added_tokens", [])
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
        if having and (flag != "normalized" or document.get("normalizer") or len(having) < len(added)):
            more = f" and {len(having) - 3} more" if len(having) > 3 else ""
            yield f"`{flag}: {str(wanted).lower()}` of {', '.join(map(repr, having[:3]))}{more}: {meaning}"
    processors = [document.get("post_processor")]
    for processor in processors:
        if processor is None or processor["type"] == "ByteLevel":
            continue
        if processor["type"] == "Sequence":
            processors += processor["processors"]
        elif processor["type"] != "TemplateProcessing" or processor["special_tokens"]:
            yield f"post_processor ({processor['type']}): it puts special tokens around a text"
    yield from (
        f"{name}: texts are {what} there"
        for name, what in (("truncation", "cut at a length"), ("padding", "padded to a length"))
        if document.get(name)
    )


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


def refuse_whole_chunks(encoder: Encoder, name: str) -> None:
    """For files that say ignore_merges (Llama 3's): chunks that are tokens are taken without merging. An event log has
    no such rule, and needs none where the merges make every token of its own bytes; a ModelError if they do not."""
    others = not_made_of_their_bytes(encoder)
    if others:
        raise ModelError(
            f"{name} says ignore_merges: whole chunks that are tokens are not merged. An event log has no such rule, "
            f"and some tokens are not what the merges make of their bytes ({shown_tokens(encoder, others)}), so those "
            "chunks would encode differently. Nothing was written."
        )


def _read_split(document: dict[str, Any], path: object) -> tuple[str, str]:
    """(pattern, what becomes of text between matches) of a Split-then-ByteLevel or a ByteLevel pre-tokenizer."""
    steps = document.get("pre_tokenizer")
    steps = steps["pretokenizers"] if steps and steps.get("type") == "Sequence" else [steps] if steps else []
    if not steps or steps[-1].get("type") != "ByteLevel":
        raise ModelError(f"{path} does not split text by ByteLevel; only byte-level files can be read.")
    if steps[-1].get("add_prefix_space"):
        raise ModelError(f"{path} puts a space before every text (add_prefix_space); an event log has no such rule.")
    if len(steps) == 1:
        return "gpt2" if steps[0].get("use_regex", True) else "none", "refuse"
    if len(steps) == 2 and steps[0].get("type") == "Split" and not steps[-1].get("use_regex", True):
        split = steps[0]
        expression = split["pattern"].get("Regex")
        drops = split.get("behavior") == "Removed"
        if expression and split.get("behavior") in ("Isolated", "Removed") and bool(split.get("invert")) is drops:
            try:
                pattern, keeps = preset_of(expression, "oniguruma", drops)
                return pattern, "keep" if keeps else "refuse" if pattern in PRESETS else "drop"
            except Unsayable as why:
                raise ModelError(not_read(path, expression, str(why))) from None
    raise ModelError(
        f"{path} splits text in a way that an event log cannot store. One Split by a regular expression, isolated (or "
        "removed and inverted), and then ByteLevel can be read."
    )


def not_read(path: object, expression: str, why: str) -> str:
    """What to tell of another program's expression."""
    return (
        f"{path} splits text by {expression!r:.200}, which has {why}; which may mean something else here. Nothing was "
        "written. If there is another way to write it, change the expression in a copy and give that."
    )


def preset_of(expression: str, source: Dialect = "regex", drops: bool = False) -> tuple[str, bool]:
    """(the name of the preset with this name or meaning, else the expression in words of the `regex` module; whether
    gaps are kept). `drops`: they are not, where the expression comes from. Unsayable where it is not understood."""
    expression = canonical(expression)
    if expression in PRESETS:
        return expression, PRESETS[expression].keep_gaps
    try:
        meaning = read(expression, source)
    except Unsayable:
        if source != "regex":
            raise
        return expression, not drops
    for name, preset in PRESETS.items():
        if preset.expression and not preset.by_rules and not (drops and preset.keep_gaps):
            meant = read(preset.expression, "regex"), read(preset.expression, "rust")  # its $ is just the end
            if meaning in meant:
                return name, preset.keep_gaps
    return translated(expression, source, "regex"), not drops


def named_alphabet(symbols: tuple[bytes, ...]) -> Alphabet:
    """Single bytes in id order, under the name of the alphabet they are."""
    for known in (gpt2_alphabet(), bytes_alphabet()):
        if symbols == known.symbols:
            return known
    return Alphabet("seen", symbols)


def _with_fixed_ids(header: Header, contents: dict[bytes, int], specials: dict[str, int], events: int) -> Header:
    """The header where special tokens stand between tokens, or ids are left out; unchanged if there are too many or one
    is given twice."""
    taken = sorted([-1, *contents.values(), *specials.values()])
    free = tuple((low + 1, high - low - 1) for low, high in pairwise(taken) if high > low + 1)
    many = sum(size for _, size in free)
    if len(set(taken)) < len(taken) or many > MOST_EMPTY_IDS:
        return header
    config = {key: value for key, value in header.config.items() if key != "specials_first"}
    return replace(header, config=config, reserved=many, fixed=FixedIds(events, free))


def log_from_merges(
    contents: dict[bytes, int],
    merges: list[tuple[bytes, bytes]],
    specials: dict[str, int],
    config: dict[str, Any],
    name: str,
    drop_unknown: bool = False,
    unk: str | None = None,
) -> EventLog:
    """An event log of plain merges, checked to give every token the id it has in `contents`."""
    symbols = tuple(sorted((c for c in contents if len(c) == 1), key=contents.__getitem__))
    alphabet = named_alphabet(symbols)
    vocabulary = Vocabulary(alphabet)
    number_of = {symbol: i for i, symbol in enumerate(symbols)}
    if len(set(merges)) < len(merges):
        twice = Counter(merges).most_common(1)[0][0]
        raise ModelError(
            f"{name}: the merge {quoted(twice[0])} + {quoted(twice[1])} occurs twice, and programs differ in which of "
            "them counts. Leave all but one out."
        )
    events = []
    for rank, (left, right) in enumerate(merges):
        if left not in number_of or right not in number_of or left + right not in contents:
            raise ModelError(
                f"{name}: merge {rank}, {quoted(left)} + {quoted(right)}, needs a token that does not exist yet."
            )
        number = vocabulary.learn(number_of[left], number_of[right])
        number_of[left + right] = number
        events.append(merge_event(number_of[left], number_of[right], number, 0))
    again = again_after_use(events)
    if again:
        raise ModelError(
            f"{name}: the token {quoted(vocabulary[again[0]].content)} is made again by a merge after one that uses "
            "it. Programs that take the first of all merges that apply go back to that one, and an event log goes "
            "through its merges once, so some texts would encode differently."
        )
    if drop_unknown and unk is None and len(symbols) < 256:
        config = {**config, "unknown": "drop"}
    ordered = sorted(specials.items(), key=lambda item: item[1])
    config = dict(config)
    first = min(contents.values(), default=0)
    if ordered and ordered[-1][1] < first:
        config["specials_first"] = True
    last = max([*contents.values(), *specials.values()], default=-1)
    header = Header(
        alphabet.to_header(), config=config, specials=tuple(Special(text, number) for text, number in ordered), unk=unk
    )
    log = EventLog(header, tuple(events))
    model = Model(log)
    as_they_are = model.special_ids == specials and set(model.model_id.values()) == set(contents.values())
    if not as_they_are and len(model.model_id) == len(contents):
        log = EventLog(_with_fixed_ids(header, contents, specials, len(events)), tuple(events))
        model = Model(log)
    ours = {model.content(log_id): number for log_id, number in model.model_id.items()}
    for content, number in contents.items():
        if ours.get(content) != number:
            raise ModelError(
                f"{name}: token {quoted(content)} has id {number}, but by the order of alphabet, merges and special "
                f"tokens it would be {ours.get(content)}. Its ids cannot be kept in an event log (last id {last})."
            )
    for text, number in ordered:
        if model.special_ids[text] != number:
            raise ModelError(
                f"{name}: special token {quoted(text)} has id {number}; after (or before) {len(contents)} tokens it "
                f"would have {model.special_ids[text]}. Its ids cannot be kept in an event log."
            )
    return log


def last_merge(content: bytes, rank: int, ranks: dict[bytes, int], name: str) -> tuple[bytes, bytes]:
    """The two tokens that the ranks below `rank` make of a token's bytes."""
    symbols = [content[i : i + 1] for i in range(len(content))]
    parts = merged_by_rank(symbols, lambda left, right: ranks.get(left + right), rank)
    if len(parts) > 2:
        raise ModelError(
            f"{name}: the token {quoted(content)} (rank {rank}) is {len(parts)} tokens under the ranks below it, not "
            "two, so these ranks are not a list of merges."
        )
    return parts[0], parts[1]
