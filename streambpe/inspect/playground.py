"""What a reader in a browser needs beside the event log: how the model splits text, all character classes spelled out.

    splitting(log)  ->  {"kind": "expression", "source": ["'(?:[sdmt]|ll|ve|re)| ?[", 0, "]+| ?[", ...],
                         "classes": ["1t,q,6,q,..."], "gaps": False, ...}

`inspect/reader.js` reads it. A model that it could not follow exactly is refused with the reason.
"""

from __future__ import annotations

import json
import re
from html import escape
from typing import Any

import numpy as np
import numpy.typing as npt

from streambpe.errors import StreambpeError
from streambpe.inspect.embedded import fill, packed, read_assets
from streambpe.model.eventlog import EventLog, log_lines
from streambpe.model.script import FIRST_ESCAPE, INDEX_SYMBOLS, symbol_table
from streambpe.store.models import encoding_pattern
from streambpe.text.dialects import Unsayable
from streambpe.text.javascript import CharacterClasses, base36, translate
from streambpe.text.patterns import Pattern
from streambpe.text.script_blocks import MOVED, character_groups
from streambpe.text.script_rules import TAKE_SPACE
from streambpe.text.script_runs import script_table
from streambpe.text.shown import HIDDEN
from streambpe.text.whitespace import SPACES

# Characters that Unicode 16.0.0 was the first to compose: a browser that does not know them is refused by the reader.
_NFC_PROBE = [["\U000105d2\u0307", "\U000105c9"], ["\U00016d67\U00016d67", "\U00016d68"], ["e\u0301", "\xe9"]]


class PlaygroundLeftOut(StreambpeError):
    """Why there is no playground."""


def splitting(log: EventLog) -> dict[str, Any]:
    """How a browser splits text as the model does; PlaygroundLeftOut if it cannot."""
    config = log.header.config
    pattern = encoding_pattern(config)
    how: dict[str, Any] = {
        "gaps": pattern.keep_gaps,
        "normalize": config.get("normalize", "none"),
        "unencodable": config.get("unencodable", "bytes"),
    }
    if how["normalize"] == "nfc":
        how["nfcProbe"] = _NFC_PROBE
    if log.header.alphabet["kind"] == "script" or pattern.name == "script" or pattern.prepared:
        how["characters"] = _characters()
    if pattern.name == "script":
        return {"kind": "script", **how}
    if pattern.name == "whitespace":
        return {"kind": "words", "mark": pattern.word_mark, "spaces": SPACES, **how}
    if not pattern.expression:
        return {"kind": "whole", **how}
    try:
        return {"kind": "expression", **_expressions(pattern), **how}
    except Unsayable as why:
        raise PlaygroundLeftOut(
            f"a browser cannot split as this model does, because its pattern {pattern.expression!r:.120} has {why}."
        ) from None


def _expressions(pattern: Pattern) -> dict[str, Any]:
    classes = CharacterClasses()
    found: dict[str, Any] = {"source": translate(pattern.expression, classes)}
    if pattern.script_expression:
        table, spaceless = script_table()
        found["runs"] = {
            **_packed(table),
            "spaceless": np.flatnonzero(spaceless).tolist(),
            "source": translate(pattern.script_expression, classes),
        }
    return {**found, "classes": classes.packed}


def _packed(table: npt.NDArray[Any]) -> dict[str, str]:
    """What stands at each code point: where something new begins, as gaps, and what; both in base 36."""
    starts = np.concatenate([[0], np.flatnonzero(np.diff(table.astype(np.int64))) + 1])
    gaps = np.diff(starts, prepend=0).tolist()
    return {"gaps": ",".join(map(base36, gaps)), "values": ",".join(map(base36, table[starts].tolist()))}


def _characters() -> dict[str, Any]:
    """SCRIPT's table: the group of every character, and the first block of each group."""
    names, group_of = character_groups()
    block_of = {(b.script, b.supercategory): b.symbol for b in reversed(symbol_table().blocks)}
    twins = {"Han": "Hiragana", "Hiragana": "Han"}
    groups = []
    for number, (script, category) in enumerate(names):
        twin = (twins.get(script, ""), category)
        groups.append(
            {
                "block": block_of.get((script, category), 0) if number else 0,
                "moved": [point for point in MOVED if group_of[point] == number],
                "takesSpace": (script, category) in TAKE_SPACE,
                "inherited": script == "Inherited",
                "twin": names.index(twin) if twin in names else -1,
            }
        )
    return {**_packed(group_of), "groups": groups, "indexSymbols": INDEX_SYMBOLS, "firstEscape": FIRST_ESCAPE}


_SAMPLE = "In the beginning 1,234 words were counted;\n\tnaïve tokens — 中文, 👋🏽 — came after."
_LONG = re.compile(r"\\U([0-9a-fA-F]{8})")
_MOST_TYPED = 20_000  # characters


def playground_html(log: EventLog, name: str, beside: EventLog | None) -> str:
    """The box to type into, with all that it needs; `name`, `beside`: a model that splits the same text below.

    PlaygroundLeftOut of a model that a browser cannot follow exactly.
    """
    return fill(
        "playground.html",
        most=_MOST_TYPED,
        sample=escape(_SAMPLE),
        second="" if beside is None else fill("second.html", model=escape(name), **_embedded(beside)),
        hidden=json.dumps(_LONG.sub(lambda found: f"\\u{{{found[1]}}}", HIDDEN)),  # as JavaScript writes such a set
        scripts=read_assets("reader.js", "playground.js"),
        **_embedded(log),
    )


def _embedded(log: EventLog) -> dict[str, str]:
    """A model for the page."""
    how = json.dumps(splitting(log), separators=(",", ":"))
    return {"splitting": packed(how.encode()), "log": packed(b"".join(log_lines(log)[0]))}
