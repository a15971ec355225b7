"""What a function gives back, in a notebook."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from html import escape
from typing import Any

from streambpe.errors import shortened

_ROWS = 20  # of a table within the table


class Result:
    """A dataclass that a notebook shows as a table of its fields."""

    def _repr_html_(self) -> str:
        return _table([escape(name), _shown(value)] for name, value in _held(self).items())


def _table(lines: Iterable[Iterable[str]]) -> str:
    return f"<table>{''.join('<tr><td>' + '</td><td>'.join(line) + '</td></tr>' for line in lines)}</table>"


def _held(thing: Any) -> dict[str, Any]:
    """The fields of a dataclass; in the place of a mapping, its entries."""
    entries = (
        thing if isinstance(thing, Mapping) else {field.name: getattr(thing, field.name) for field in fields(thing)}
    )
    held: dict[str, Any] = {}
    for name, value in entries.items():
        held |= value if isinstance(value, Mapping) else {name: value}
    return held


def _shown(value: Any) -> str:
    if isinstance(value, list | tuple) and value and (is_dataclass(value[0]) or isinstance(value[0], Mapping)):
        rows = [_held(one) for one in value[:_ROWS]]
        return _table([map(escape, rows[0]), *(map(_shown, row.values()) for row in rows)])
    if isinstance(value, int | float) and not isinstance(value, bool):
        return f"{value:,.3f}" if isinstance(value, float) else f"{value:,}"
    return escape(shortened(str(value), 400))
