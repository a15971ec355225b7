"""JSON files of two research trainers, read: PickyBPE (pchizhov/picky_bpe) and SCRIPT-BPE over bytes.

Each may be gzipped. A SCRIPT-BPE file over script symbols needs the character tables; those over bytes do not.
"""

from __future__ import annotations

from typing import Any

from streambpe.encode.alphabet import bytes_alphabet, chars_alphabet
from streambpe.encode.eventlog import Event, EventLog, Header, Special, delete_event, merge_event
from streambpe.encode.formats.hf import preset_of
from streambpe.encode.patterns import PRESETS
from streambpe.encode.replay import Model
from streambpe.errors import ModelError


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
            raise ModelError(f"{name}: token {model.content(log_id)!r} has id {theirs.get(log_id)}, here {number}.")
    return log


def import_script_bytes(document: dict[str, Any], name: str) -> EventLog:
    """SCRIPT-BPE's file over bytes: id = byte + 1, merges from 257 on, text brought to NFC first."""
    kind = document["pretokenizer"]["class"]
    if kind != "RegexBytePretokenizer":
        raise ModelError(
            f"{name} is over script symbols ({kind}), which only this program's own script models carry; files over "
            f"bytes can be read."
        )
    config = document["pretokenizer"]["config"]
    pattern, _ = preset_of(config["regex"])
    settings: dict[str, Any] = {"pattern": pattern, "gaps": "refuse" if pattern in PRESETS else "drop"}
    if config.get("normalization", "NFC") == "NFC":
        settings |= {"normalize": "nfc", "unencodable": "drop"}
    events = []
    for rule in document["merge_rules"]:
        left, right = rule["tokens_from"]
        events.append(merge_event(left, right, rule["token_to"], 0))
    log = EventLog(Header(bytes_alphabet(first_id=1).to_header(), settings), tuple(events))
    Model(log)  # refuses merges whose ids are not the next ones
    return log
