"""Reading golden vectors: those of tests/golden, or of the folder that STREAMBPE_GOLDEN names.

A vector is a JSON file that says which published system ran on which input with which
parameters, and what came out: training events, vocabulary, encodings of some texts. Byte
strings are hex. Patterns stand in the vectors and are run here by the `regex` module as they are.
Any file of a folder may be packed: NAME, NAME.xz and NAME.gz are the same file.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import lzma
import os
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import regex
from regex import _regex_core

OURS = Path(__file__).parents[1] / "golden"
GOLDEN = Path(os.environ.get("STREAMBPE_GOLDEN") or OURS)
UNPACK = {"": bytes, ".xz": lzma.decompress, ".gz": gzip.decompress}


def read_packed(folder: Path, name: str) -> bytes:
    """A file of a folder of vectors, packed or not."""
    for suffix, unpack in UNPACK.items():
        if (folder / f"{name}{suffix}").is_file():
            return unpack((folder / f"{name}{suffix}").read_bytes())
    raise FileNotFoundError(f"{folder} has no {name}, packed (.xz, .gz) or not")


def folder_of(name: str) -> Path:
    """The folder to take a table or the model files from: another folder of vectors need not have them."""
    there = GOLDEN / name
    return GOLDEN if any(there.with_name(f"{there.name}{suffix}").exists() for suffix in UNPACK) else OURS


def names_in(folder: Path) -> list[str]:
    """The files of a folder by the names they have unpacked, sorted."""
    files = (path for path in folder.iterdir() if path.is_file())
    return sorted({path.name.removesuffix(".xz").removesuffix(".gz") for path in files})


class Params(dict[str, Any]):
    """Parameters that know which of them were looked at: a judge has to take every one from its vector."""

    def __init__(self, params: dict[str, Any]) -> None:
        super().__init__({key: Params(value) if isinstance(value, dict) else value for key, value in params.items()})
        self._taken: set[str] = set()

    def __getitem__(self, key: str) -> Any:
        self._taken.add(key)
        return super().__getitem__(key)

    def get(self, key: str, default: Any = None) -> Any:
        """As of a dict."""
        self._taken.add(key)
        return super().get(key, default)

    def asked_elsewhere(self, *keys: str) -> None:
        """These say nothing to this judge, or were looked at before it was called."""
        self._taken.update(keys)

    def passed_over(self) -> list[str]:
        """What nothing has looked at; a null says nothing, and a pattern's name is only a name."""
        found = []
        for key, value in self.items():
            if key not in self._taken and value is not None and key != "pattern_name":
                found.append(key)
            elif isinstance(value, Params):
                found += [f"{key}.{inner}" for inner in value.passed_over()]
        return found


@dataclass(frozen=True)
class Vector:
    """One JSON file."""

    folder: Path
    name: str
    data: dict[str, Any]

    @property
    def system(self) -> str:
        """Which system was run; files of tables have none and go by their file name."""
        return str(self.data.get("system", self.name))

    @cached_property
    def params(self) -> Params:
        return Params(self.data.get("params", {}))

    @cached_property
    def text(self) -> str:
        """The input, checked to be the very file the reference read."""
        try:
            content = read_packed(self.folder / "inputs", self.data["input"])
        except FileNotFoundError:  # new vectors may be about our texts
            content = read_packed(OURS / "inputs", self.data["input"])
        assert hashlib.sha256(content).hexdigest() == self.data["sha256"], f"{self.data['input']} is another file"
        return content.decode()

    @property
    def documents(self) -> list[str]:
        """The input cut as the vector says: the whole file, or its non-empty lines without line feeds."""
        ways = {"lines": [line for line in self.text.split("\n") if line], "whole": [self.text]}
        return ways[self.data["documents"]]


def vectors(folder: Path = GOLDEN) -> list[Vector]:
    """All vectors of the folder, by name; none without a folder."""
    if not folder.is_dir():
        return []
    names = [name for name in names_in(folder) if name.endswith(".json")]
    return [Vector(folder, name.removesuffix(".json"), json.loads(read_packed(folder, name))) for name in names]


def pattern_named(name: str) -> str:
    """A pattern that vectors call by name only, from pretokenization.json."""
    table = json.loads(read_packed(OURS, "pretokenization.json"))["patterns"]
    return str(table[name])


def find_chunks(pattern: str, text: str, keep_gaps: bool = False, flags: int = 0) -> list[bytes]:
    """The text's chunks: every match, and with keep_gaps also what lies between matches."""
    chunks = []
    end = 0
    for match in regex.finditer(pattern, text, flags):
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
