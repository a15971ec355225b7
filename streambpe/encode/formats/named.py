"""Vocabularies by name: `hf:NAME` from a folder or the cache of Hugging Face, `tiktoken:NAME` from tiktoken.

Nothing is downloaded: what is not on this machine is refused with the command that fetches it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from streambpe.encode.formats.tiktoken_ranks import log_of_ranks
from streambpe.errors import ModelError, meant
from streambpe.later import need
from streambpe.model.eventlog import EventLog

HF, TIKTOKEN = "hf:", "tiktoken:"


def find_tokenizer_json(name: str) -> Path:
    """The tokenizer.json of a folder, or of a model that was downloaded before, as `hf:meta-llama/Llama-3.2-1B`."""
    wanted = name.removeprefix(HF)
    here = Path(wanted) / "tokenizer.json"
    if here.is_file():
        return here
    home = os.environ.get("HF_HOME") or Path.home() / ".cache/huggingface"
    cache = Path(os.environ.get("HF_HUB_CACHE") or Path(home) / "hub")
    model = cache / f"models--{wanted.replace('/', '--')}"
    try:
        revision = (model / "refs/main").read_text(encoding="utf-8").strip()
    except OSError:
        revision = "*"
    found = sorted(model.glob(f"snapshots/{revision}/tokenizer.json"))
    if not found:
        raise ModelError(
            f"{name}: there is neither a folder {wanted} with a tokenizer.json, nor a model of that name in {cache}."
            f"{meant(name, _in_cache(cache))} `hf download {wanted} tokenizer.json` fetches one."
        )
    return found[-1]


def _in_cache(cache: Path) -> list[str]:
    """The models that Hugging Face's cache has, as they are named here."""
    return [HF + "/".join(folder.name.split("--")[1:]) for folder in cache.glob("models--*")]


def log_of_encoding(name: str) -> EventLog:
    """An encoding of tiktoken, as `tiktoken:o200k_base`."""
    wanted = name.removeprefix(TIKTOKEN)
    tiktoken, load = need("tiktoken", name), need("tiktoken.load", name)
    read = load.read_file

    def read_here(path: str) -> Any:
        """What is in the cache and in files, but at no address."""
        if "://" in path:
            raise _Absent
        return read(path)

    load.read_file = read_here
    try:
        encoding = tiktoken.get_encoding(wanted)
    except _Absent:
        fetch = f"import tiktoken; tiktoken.get_encoding('{wanted}')"
        raise ModelError(
            f"{name}: it is not in tiktoken's cache, and nothing is downloaded without being asked. "
            f'`python -c "{fetch}"` fetches it.'
        ) from None
    except Exception as why:  # an unknown name, a plugin that fails in a way of its own
        known = (TIKTOKEN + one for one in tiktoken.list_encoding_names())
        said = str(why).partition("\n")[0].rstrip(".")
        raise ModelError(f"{name}: tiktoken cannot load it: {said:.200}.{meant(name, known)}") from None
    finally:
        load.read_file = read
    return log_of_ranks(encoding._mergeable_ranks, encoding._pat_str, dict(encoding._special_tokens), name)


class _Absent(Exception):
    pass
