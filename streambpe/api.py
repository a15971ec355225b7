"""The public names, and the module of each. An error of a public function names arguments instead of options."""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOMES = {
    "encode.corpus": ["encode_corpus", "EncodeResult"],
    "encode.formats.export": ["export"],
    "encode.formats.imports": ["import_model"],
    "encode.formats.verify": ["ExportResult"],
    "encode.tokenizer": ["Tokenizer"],
    "errors": ["StreambpeError"],
    "inspect.check": ["check", "Checked", "Problem"],
    "inspect.converge": ["converge", "Convergence"],
    "inspect.difference": ["diff", "Difference"],
    "inspect.evaluate": ["evaluate", "Evaluation"],
    "inspect.explain": ["explain", "Explanation"],
    "inspect.extended": ["extend_report", "Extended"],
    "inspect.page": ["report", "Report"],
    "inspect.plan": ["plan", "Plan"],
    "inspect.prune": ["prune", "Pruned"],
    "inspect.query": ["sql"],
    "inspect.sizes": ["sizes", "SizeFacts"],
    "inspect.status": ["status", "RunStatus"],
    "store.exchange": ["export_counts", "merge_counts", "MergeResult"],
    "train.commands": ["resume", "train", "train_from_iterator"],
    "train.counting.count": ["count", "count_from_iterator"],
    "train.counting.job": ["CountResult"],
    "train.counting.take_back": ["take_back"],
    "train.training": ["TrainResult"],
}
HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in HOME_OF:
        raise AttributeError(f"module 'streambpe' has no attribute {name!r}")
    thing = getattr(import_module(f"streambpe.{HOME_OF[name]}"), name)
    if name.islower():
        from streambpe.arguments import spoken

        thing = spoken(thing)
    globals()[name] = thing
    return thing
