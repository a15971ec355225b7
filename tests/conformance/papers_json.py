"""JSON files of two research trainers, read: PickyBPE (pchizhov/picky_bpe) and SCRIPT-BPE."""

from __future__ import annotations

from typing import Any  # files of other programs: dict[str, Any], checked where they are read

from streambpe.encode.formats.foreign import preset_of
from streambpe.errors import ModelError, quoted
from streambpe.model.alphabet import bytes_alphabet, chars_alphabet, script_alphabet
from streambpe.model.eventlog import Event, EventLog, Header, Special, delete_event, merge_event
from streambpe.model.replay import Model
from streambpe.model.script import INDEX_SYMBOLS, symbol_table
from streambpe.text.patterns import PRESETS
from streambpe.text.script_blocks import UNICODE
from streambpe.text.script_rules import SPACED_SCRIPTS

_NO_SPLIT = r"\A.*\Z"  # the published trainer's way to say that a document is one chunk


def import_picky(document: dict[str, Any], name: str) -> EventLog:
    """PickyBPE's file: events are merges and splits by their common numbering; ids as in its `id2int`."""
    specials = [token for token in document["tokens"] if token["special"]]
    letters = [token for token in document["tokens"] if not token["special"] and len(token["str"]) == 1]
    offset = len(specials)
    found: list[tuple[int, Event]] = []
    for entry in document["merges"]:
        left, right = (part["id"] - offset for part in entry["pair"])
        found.append((entry["id"], merge_event(left, right, entry["new_token"]["id"] - offset, 0)))
    for entry in document["splits"]:
        into = [part["id"] - offset for part in entry["split"]]
        found.append((entry["id"], delete_event(entry["token"]["id"] - offset, into, 0)))
    header = Header(
        chars_alphabet((token["str"] for token in letters), in_given_order=True).to_header(),
        {"pattern": "whitespace", "token_order": "first-birth", "specials_first": True},
        unk="<UNK>" if any(token["str"] == "<UNK>" for token in specials) else None,
        specials=tuple(Special(token["str"], i) for i, token in enumerate(specials)),
    )
    log = EventLog(header, tuple(event for _, event in sorted(found, key=lambda item: item[0])))
    model = Model(log)
    theirs = {int(internal) - offset: number for internal, number in document["id2int"].items()}
    for log_id, number in model.model_id.items():
        if theirs.get(log_id) != number:
            raise ModelError(
                f"{name}: token {quoted(model.content(log_id))} has id {theirs.get(log_id)}, here {number}."
            )
    return log


def import_script(document: dict[str, Any], name: str) -> EventLog:
    """SCRIPT-BPE's file, over script symbols or over bytes with id = byte + 1; text is thinned and brought to NFC."""
    kind, config = document["pretokenizer"]["class"], document["pretokenizer"]["config"]
    if kind == "RegexBytePretokenizer":
        alphabet = bytes_alphabet(first_id=1)
    elif kind.startswith("ScriptEncodingPretokenizer"):
        _check_blocks(config, name)
        alphabet = script_alphabet("drop")
    else:
        raise ModelError(f"{name} was made by a pretokenizer that is not known here ({kind}).")
    pattern = "script"
    if "regex" in config:
        pattern = "none" if config["regex"] == _NO_SPLIT else preset_of(config["regex"])[0]
    settings: dict[str, Any] = {
        "pattern": pattern,
        "gaps": "refuse" if pattern in PRESETS else "drop",
        "whole_characters": bool(config.get("enforce_char_boundaries", False)),
    }
    if config.get("normalization", "NFC") == "NFC":
        settings |= {"normalize": "nfc", "unencodable": "drop"}
    events = []
    for rule in document["merge_rules"]:
        left, right = rule["tokens_from"]
        events.append(merge_event(left, right, rule["token_to"], 0))
    log = EventLog(Header(alphabet.to_header(), settings), tuple(events))
    Model(log)  # refuses merges whose ids are not the next ones
    return log


def _check_blocks(config: dict[str, Any], name: str) -> None:
    """ModelError unless the file's own table of characters, and its rules for spaces, are those here."""
    ours = [
        [
            block.symbol - block.sub_block - 1,
            block.script,
            block.supercategory,
            block.sub_block,
            "".join(map(chr, block.characters)),
        ]
        for block in symbol_table().blocks
    ]
    if config["num_index_tokens"] != INDEX_SYMBOLS or config["blocks"] != ours:
        raise ModelError(
            f"{name} has a table of characters of its own, not that of Unicode {UNICODE}: its symbols mean other "
            f"characters, which an event log cannot say."
        )
    spaced = {(script, "LM") for script in SPACED_SCRIPTS} | {("Common", "PS")}
    if "regex" not in config and {tuple(group) for group in config["script_cat_with_space"]} != spaced:
        raise ModelError(f"{name} joins spaces to other scripts than --pattern script does.")
