"""streambpe: learn BPE-family vocabularies from corpora far larger than memory.

    import streambpe

    result = streambpe.train("runs/en", ["corpus/"], vocab_size=32_000)
    for problem in streambpe.check("runs/en"):
        print(problem)

The names below are loaded on first use, so that importing the package (or a worker process doing so)
costs nothing. `train` is both the subpackage and the function: see streambpe/train/__init__.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOMES = {
    "count": "streambpe.train.counting.count",
    "count_from_iterator": "streambpe.train.counting.count",
    "train_from_iterator": "streambpe.train.commands",
    "resume": "streambpe.train.commands",
    "Trainer": "streambpe.train.trainer",
    "TrainResult": "streambpe.train.training",
    "plan": "streambpe.inspect.plan",
    "converge": "streambpe.inspect.converge",
    "export_counts": "streambpe.store.exchange",
    "merge_counts": "streambpe.store.exchange",
    "status": "streambpe.inspect.status",
    "sql": "streambpe.inspect.query",
    "check": "streambpe.inspect.check",
    "report": "streambpe.inspect.page",
    "evaluate": "streambpe.inspect.evaluate",
    "explain": "streambpe.inspect.explain",
    "diff": "streambpe.inspect.difference",
    "encode_corpus": "streambpe.encode.corpus",
    "export": "streambpe.encode.formats.export",
    "import_model": "streambpe.encode.formats.export",
    "prune": "streambpe.inspect.prune",
    "extend_report": "streambpe.inspect.extended",
    "Tokenizer": "streambpe.encode.tokenizer",
    "Run": "streambpe.store.run",
    "CountConfig": "streambpe.count_config",
    "TrainConfig": "streambpe.config",
    "SourceOptions": "streambpe.count_config",
    "Resources": "streambpe.resources",
    "StreambpeError": "streambpe.errors",
}

__all__ = ["__version__", "train", *_HOMES]

if TYPE_CHECKING:
    from streambpe.config import TrainConfig as TrainConfig
    from streambpe.count_config import CountConfig as CountConfig
    from streambpe.count_config import SourceOptions as SourceOptions
    from streambpe.encode.corpus import encode_corpus as encode_corpus
    from streambpe.encode.formats.export import export as export
    from streambpe.encode.formats.export import import_model as import_model
    from streambpe.encode.tokenizer import Tokenizer as Tokenizer
    from streambpe.errors import StreambpeError as StreambpeError
    from streambpe.inspect.check import check as check
    from streambpe.inspect.converge import converge as converge
    from streambpe.inspect.difference import diff as diff
    from streambpe.inspect.evaluate import evaluate as evaluate
    from streambpe.inspect.explain import explain as explain
    from streambpe.inspect.extended import extend_report as extend_report
    from streambpe.inspect.page import report as report
    from streambpe.inspect.plan import plan as plan
    from streambpe.inspect.prune import prune as prune
    from streambpe.inspect.query import sql as sql
    from streambpe.inspect.status import status as status
    from streambpe.resources import Resources as Resources
    from streambpe.store.exchange import export_counts as export_counts
    from streambpe.store.exchange import merge_counts as merge_counts
    from streambpe.store.run import Run as Run
    from streambpe.train.commands import resume as resume
    from streambpe.train.commands import train as train
    from streambpe.train.commands import train_from_iterator as train_from_iterator
    from streambpe.train.counting.count import count as count
    from streambpe.train.counting.count import count_from_iterator as count_from_iterator
    from streambpe.train.trainer import Trainer as Trainer
    from streambpe.train.training import TrainResult as TrainResult


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name == "train":
        return import_module("streambpe.train")
    if name not in _HOMES:
        raise AttributeError(f"module 'streambpe' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
