"""Options in a TOML file: every key is an option's name without the dashes.

vocab-size = 131072
special = ["<s>", "</s>"]
split-scripts = true
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from streambpe.errors import UsageError
from streambpe.options import Option, fitting


def read_options(path: Path | str, known: Iterable[Option]) -> dict[str, Any]:
    """The options in a file, by the names of their fields; an unknown option or a wrong kind of value is refused."""
    options = {option.key: option for option in known}
    try:
        entries = tomllib.loads(Path(path).read_bytes().decode())
    except OSError as why:
        raise UsageError(f"--config {path} cannot be read: {why.strerror}.") from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as why:
        raise UsageError(f"--config {path} is not TOML: {why}.") from None
    for key in entries:
        if key not in options:
            near = get_close_matches(key.replace("_", "-"), options, 1)
            meant = f"Is {near[0]} meant?" if near else "Its keys are the options of train without dashes."
            raise UsageError(f"--config {path}: there is no option {key}. Nothing was changed. {meant}")
    return {options[key].name: _value(path, options[key], entry) for key, entry in entries.items()}


def _value(path: Path | str, option: Option, entry: Any) -> Any:
    try:
        return fitting(option, None if isinstance(entry, dict) else entry)
    except TypeError as wanted:
        quotes = " in quotes" if "text" in str(wanted) else ""
        raise UsageError(f"--config {path}: {option.key} takes {wanted}{quotes}. Nothing was changed.") from None


def format_options(values: Mapping[str, Any], parts: Mapping[str, Iterable[Option]]) -> str:
    """The text of a file that `read_options` reads again. `parts`: for each heading, the options below it."""
    blocks = []
    for heading, options in parts.items():
        lines = [f"{option.key} = {_toml(values[option.name])}" for option in options if option.name in values]
        if lines:
            blocks.append("\n".join([f"# {heading}", *lines, ""]))
    return "\n".join(blocks)


def _toml(value: Any) -> str:
    """A value in TOML, which writes texts, numbers and lists as JSON does, except for one control character."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
