"""Libraries that most commands do without, loaded at their first use: some cost much to load, some need not be there.

Polars takes 0.12 s of processor time and 25 MB, Arrow's compute functions 0.04 s; counting and learning from text need
neither.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from streambpe.errors import ModelError


class _Later:
    """Stands for a module until something of it is asked for."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        return getattr(importlib.import_module(self._name), attribute)


if TYPE_CHECKING:
    import polars as polars
    from pyarrow import compute as compute
else:
    polars = _Later("polars")
    compute = _Later("pyarrow.compute")


def need(name: str, what: str, state: str = "") -> Any:
    """A package that is not required, for `what`; `state`: what was written without it."""
    try:
        return importlib.import_module(name)
    except ImportError:
        package = name.partition(".")[0]
        raise ModelError(f"{what} needs the package {package}: `pip install {package}`.{state}") from None
