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
    "check": "streambpe.inspect.check",
    "evaluate": "streambpe.inspect.evaluate",
    "export": "streambpe.encode.formats.export",
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
    from streambpe.encode.formats.export import export as export
    from streambpe.encode.tokenizer import Tokenizer as Tokenizer
    from streambpe.errors import StreambpeError as StreambpeError
    from streambpe.inspect.check import check as check
    from streambpe.inspect.evaluate import evaluate as evaluate
    from streambpe.resources import Resources as Resources
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
