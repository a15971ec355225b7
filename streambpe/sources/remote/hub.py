"""hf://: files of a repository of the Hugging Face Hub, listed by huggingface_hub and read in ranges.

    hf://datasets/OWNER/NAME[@REVISION]/PATH      or models/, spaces/; without one of them it is a model

A branch may move, so a file is opened at the commit that the branch names then, and has to be the one that was found.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from streambpe.errors import SourceError, UsageError
from streambpe.sources.remote import web
from streambpe.sources.remote.address import credentials_for
from streambpe.sources.remote.place import Found, Ranges, changed, library, missing, stamp_of, unreachable

_KINDS = "datasets|models|spaces"
_ADDRESS = re.compile(rf"hf://((?:(?:{_KINDS})/|(?!(?:{_KINDS}|buckets)/))[^/@]+/[^/@]+(?:@[^/]+)?)(?:/(.*))?")


class _Address(msgspec.Struct, frozen=True):
    prefix: str  # hf://datasets/owner/name@revision
    kind: str
    repository: str
    revision: str
    path: str

    @classmethod
    def of(cls, address: str) -> _Address:
        """The parts of an address."""
        found = _ADDRESS.fullmatch(address)
        if not found:
            raise UsageError(
                f"{address}: write hf://datasets/OWNER/NAME/PATH, or models/ or spaces/. Nothing was read."
            )
        first, _, _ = found[1].partition("/")
        kind = first.removesuffix("s") if first in ("datasets", "models", "spaces") else "model"
        rest = found[1].removeprefix(f"{kind}s/")
        repository, _, revision = rest.partition("@")
        return cls(f"hf://{found[1]}", kind, repository, revision.replace("%2F", "/") or "main", found[2] or "")


def file_at(address: str) -> Found | None:
    """See Place."""
    return _look(_Address.of(address), address)[0]


def below(folder: str) -> Iterator[Found]:
    """See Place."""
    asked = _Address.of(folder)
    with _explaining(folder):
        listing = functools.partial(_api().list_repo_tree, recursive=True)
        files = _files(listing, asked, asked.path.rstrip("/") or None, _commit(asked))
    if not files:
        raise missing(folder)
    return (_found(asked, file) for file in files)


def _look(asked: _Address, address: str) -> tuple[Found | None, str]:
    with _explaining(address):
        commit = _commit(asked)
        files = _files(_api().get_paths_info, asked, asked.path, commit) if asked.path else []
    return _found(asked, files[0]) if files else None, commit


def open_found(found: Found) -> Ranges:
    """See Place."""
    asked = _Address.of(found.name)
    now, commit = _look(asked, found.name)
    if now != found:
        raise changed(found.name)
    hub = library("huggingface_hub", "hf")
    url = hub.hf_hub_url(
        asked.repository, asked.path, repo_type=asked.kind, revision=commit, endpoint=os.environ.get("HF_ENDPOINT")
    )
    token = hub.get_token()
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    stored = web.look_elsewhere(found.name, url, headers)
    if stored.bytes != found.bytes:
        raise changed(found.name)
    return web.WebRanges(stored, url, headers)


def _commit(asked: _Address) -> str:
    return str(_api().repo_info(asked.repository, revision=asked.revision, repo_type=asked.kind).sha)


def _files(listing: Callable[..., Any], asked: _Address, path: str | None, commit: str) -> list[Any]:
    infos = listing(asked.repository, path, revision=commit, repo_type=asked.kind)
    return [info for info in infos if hasattr(info, "blob_id")]


def _found(asked: _Address, file: Any) -> Found:
    return Found(f"{asked.prefix}/{file.path}", file.size, stamp_of(file.lfs.sha256 if file.lfs else file.blob_id))


@contextlib.contextmanager
def _explaining(address: str) -> Iterator[None]:
    """Errors of the library as ours; its own texts name addresses, tokens' names and more."""
    for package, scheme in (("huggingface_hub", "hf"), ("urllib3", "https")):
        library(package, scheme)
    try:
        yield
    except (SourceError, UsageError):
        raise
    except Exception as why:
        raise _explained(address, why) from None


def _explained(address: str, why: Exception) -> SourceError | UsageError:
    status = getattr(getattr(why, "response", None), "status_code", None)
    names = {kind.__name__ for kind in type(why).__mro__}
    if "GatedRepoError" in names or status in (401, 403):
        return SourceError(
            f"{address} cannot be read or does not exist: the Hub answers {status}. None of it was read. Credentials "
            f"come from {credentials_for('hf')}."
        )
    if names & {"RepositoryNotFoundError", "RevisionNotFoundError", "EntryNotFoundError"} or status == 404:
        return missing(address)
    if isinstance(why, ValueError) and status is None:
        return UsageError(f"{address} is not the address of a file or folder on the Hub. Nothing was read.")
    told = f"the Hub answers {status}" if status else f"the Hub cannot be reached ({type(why).__name__})"
    return unreachable(address, told)


@functools.lru_cache
def _api() -> Any:
    return library("huggingface_hub", "hf").HfApi(endpoint=os.environ.get("HF_ENDPOINT"))
