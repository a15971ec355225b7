"""Where the public names are, and what a function does for people beside its work: its errors speak Python."""

from __future__ import annotations

from importlib import import_module
from typing import Any

FUNCTIONS = {
    "check": "inspect.check",
    "converge": "inspect.converge",
    "count": "train.counting.count",
    "count_from_iterator": "train.counting.count",
    "diff": "inspect.difference",
    "encode_corpus": "encode.corpus",
    "evaluate": "inspect.evaluate",
    "explain": "inspect.explain",
    "export": "encode.formats.export",
    "export_counts": "store.exchange",
    "extend_report": "inspect.extended",
    "import_model": "encode.formats.export",
    "merge_counts": "store.exchange",
    "plan": "inspect.plan",
    "prune": "inspect.prune",
    "report": "inspect.page",
    "resume": "train.commands",
    "sql": "inspect.query",
    "status": "inspect.status",
    "train": "train.commands",
    "train_from_iterator": "train.commands",
}
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
