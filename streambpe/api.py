"""Where the public names are, and what a function does for people beside its work: its errors speak Python."""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOMES = {
    "encode.corpus": ["encode_corpus"],
    "encode.formats.export": ["export", "import_model"],
    "inspect.check": ["check"],
    "inspect.converge": ["converge"],
    "inspect.difference": ["diff"],
    "inspect.evaluate": ["evaluate"],
    "inspect.explain": ["explain"],
    "inspect.extended": ["extend_report"],
    "inspect.page": ["report"],
    "inspect.plan": ["plan"],
    "inspect.prune": ["prune"],
    "inspect.query": ["sql"],
    "inspect.status": ["status"],
    "store.exchange": ["export_counts", "merge_counts"],
    "train.commands": ["resume", "train", "train_from_iterator"],
    "train.counting.count": ["count", "count_from_iterator"],
    "train.counting.take_back": ["take_back"],
}
FUNCTIONS = {name: home for home, names in _HOMES.items() for name in names}
CLASSES = {"StreambpeError": "errors", "Tokenizer": "encode.tokenizer"}


def __getattr__(name: str) -> Any:
    home = FUNCTIONS.get(name) or CLASSES.get(name)
    if home is None:
        raise AttributeError(f"module 'streambpe' has no attribute {name!r}")
    thing = getattr(import_module(f"streambpe.{home}"), name)
    if name in FUNCTIONS:
        from streambpe.arguments import spoken

        thing = spoken(thing)
    globals()[name] = thing
    return thing
