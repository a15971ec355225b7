"""Learn tokenizer vocabularies from corpora larger than memory.

    import streambpe

    result = streambpe.train("runs/en", ["corpus/"], vocab_size="32k")
    result.tokenizer.encode("the cat")

train                 count a corpus and learn a vocabulary from it
train_from_iterator   the same from texts that a program gives
count                 count only; also count_from_iterator
take_back             take the counts of a source out of a run
resume                continue what was stopped
plan                  forecast time, memory and disk
converge              find out whether more text would help
Tokenizer             encode, decode, show, export
evaluate              measure models on texts
sizes                 measure one model cut to several sizes, by group
explain               how a text is split, how a token was made
diff                  compare two vocabularies
prune                 make a vocabulary smaller
extend_report         what an extended vocabulary gained
encode_corpus         write files of ids for a training loop
export, import_model  write and read the formats of other programs
export_counts         write counts as a table; merge_counts adds up runs
status, check         what a run is doing, whether everything adds up
report, sql           a page about a run, a query on its tables

Keywords are the options of the command line; `streambpe train --help all`
explains those of train(). See also help(streambpe.train), and
`streambpe docs python`.
"""

from __future__ import annotations

from typing import Any

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """Names are loaded on first use, so that importing the package costs a worker process nothing."""
    from importlib import import_module

    # `train` is also a subpackage: see train/__init__.py
    return import_module("streambpe.train") if name == "train" else getattr(import_module("streambpe.api"), name)


def __dir__() -> list[str]:
    from streambpe.api import HOME_OF

    return sorted(["__version__", *HOME_OF])
