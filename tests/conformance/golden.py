"""Reading golden vectors: the folder named by STREAMBPE_GOLDEN, and the texts the vectors speak of.

A vector is a JSON file that says which published system ran on which input with which
parameters, and what came out: training events, vocabulary, encodings of some texts. Byte
strings are hex. Patterns stand in the vectors and are run here by the `regex` module as they are.
"""

from __future__ import annotations

import hashlib
import json
import os
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import regex
from regex import _regex_core

GOLDEN = os.environ.get("STREAMBPE_GOLDEN")
WHY_SKIPPED = "STREAMBPE_GOLDEN names no folder of golden vectors, so nothing is compared with the references"


@dataclass(frozen=True)
class Vector:
    """One JSON file."""

    path: Path
    data: dict[str, Any]

    @property
    def name(self) -> str:
        return self.path.stem

    @property
    def system(self) -> str:
        """Which system was run; files of tables have none and go by their file name."""
        return str(self.data.get("system", self.name))

    @property
    def params(self) -> dict[str, Any]:
        return dict(self.data["params"])

    @cached_property
    def text(self) -> str:
        """The input, checked to be the very file the reference read."""
        content = (self.path.parent / "inputs" / self.data["input"]).read_bytes()
        assert hashlib.sha256(content).hexdigest() == self.data["sha256"], f"{self.data['input']} is another file"
        return content.decode()

    @property
    def documents(self) -> list[str]:
        """The input cut as the vector says: the whole file, or its non-empty lines without line feeds."""
        if self.data["documents"] == "lines":
            return [line for line in self.text.split("\n") if line]
        return [self.text]


def vectors() -> list[Vector]:
    """All vectors of the folder, by name; none without a folder."""
    if not GOLDEN:
        return []
    return [Vector(path, json.loads(path.read_text())) for path in sorted(Path(GOLDEN).glob("*.json"))]


def pattern_named(name: str) -> str:
    """A pattern that vectors call by name only, from the folder's pretokenization.json."""
    table = json.loads((Path(str(GOLDEN)) / "pretokenization.json").read_text())["patterns"]
    return str(table[name])


def find_chunks(pattern: str, text: str, keep_gaps: bool = False) -> list[bytes]:
    """The text's chunks: every match, and with keep_gaps also what lies between matches."""
    chunks = []
    end = 0
    for match in regex.finditer(pattern, text):
        if keep_gaps and match.start() > end:
            chunks.append(text[end : match.start()])
        if match.group():
            chunks.append(match.group())
        end = match.end()
    if keep_gaps and end < len(text):
        chunks.append(text[end:])
    return [chunk.encode() for chunk in chunks]


@cache
def script_of(character: str) -> str:
    """A character's Unicode script, upper case; "UNKNOWN" if it has none."""
    by_number = {number: name for name, number in reversed(_regex_core.PROPERTIES["SCRIPT"][1].items())}
    for name in by_number.values():
        if name != "UNKNOWN" and regex.match(rf"\p{{Script={name}}}", character):
            return name
    return "UNKNOWN"


def script_aware_chunks(main: str, special: str, scripts: Iterable[str], text: str) -> list[bytes]:
    """Cut into script runs first; runs of the given scripts get the special pattern, others the main one.

    Common characters between two scripts go with the following run; Inherited ones with theirs.
    """
    wanted = {script.upper() for script in scripts}
    chunks: list[bytes] = []
    start, last, current = 0, -1, ""
    for i, character in enumerate(text):
        script = script_of(character)
        if script == current:
            last = i
        elif script == "INHERITED":
            current = current or "INHERITED"
            last = i
        elif script in ("COMMON", "UNKNOWN"):
            current = current or "COMMON"
        else:
            if current not in ("", "COMMON", "INHERITED"):
                chunks += find_chunks(special if current in wanted else main, text[start : last + 1])
                start = last + 1
            current, last = script, i
    return chunks + find_chunks(special if current in wanted else main, text[start:])


def pretokenizer_chunks(config: dict[str, Any], text: str) -> list[bytes]:
    """Chunks under a fastboundlessbpe pretokenizer's configuration."""
    if config["script_specific_regex"] is None:
        return find_chunks(config["main_regex"], text)
    return script_aware_chunks(
        config["main_regex"], config["script_specific_regex"], config["script_specific_scripts"], text
    )


def nfc(text: str) -> str:
    """The normalisation SCRIPT's pretokenizers apply (the inputs hold no character it would drop)."""
    return unicodedata.normalize("NFC", text)
