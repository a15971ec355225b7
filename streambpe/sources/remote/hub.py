"""hf://: files of a repository of the Hugging Face Hub, listed by huggingface_hub and read in ranges.

    hf://datasets/OWNER/NAME[@REVISION]/PATH      or models/, spaces/; without one of them it is a model

A branch may move, so a file is opened at the commit that the branch names then, and has to be the one that was found.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
from collections.abc import Iterator

import msgspec
from huggingface_hub import HfApi, get_token, hf_hub_url
from huggingface_hub.hf_api import RepoFile

from streambpe.errors import SourceError, UsageError
from streambpe.sources.remote import web
from streambpe.sources.remote.address import credentials_for
from streambpe.sources.remote.place import Fetch, Found, changed, missing, stamp_of, unreachable

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
    return _look(_Address.of(address))[0]


def below(folder: str) -> list[Found]:
    """See Place."""
    asked = _Address.of(folder)
    with _explaining(folder):
        tree = _api().list_repo_tree(
            asked.repository,
            asked.path.rstrip("/") or None,
            recursive=True,
            revision=_commit(asked),
            repo_type=asked.kind,
        )
        files = [_found(asked, file) for file in tree if isinstance(file, RepoFile)]
    if not files:
        raise missing(folder)
    return files


def _look(asked: _Address) -> tuple[Found | None, str]:
    """(the file at an address, the commit that it is looked at in)"""
    address = f"{asked.prefix}/{asked.path}"
    with _explaining(address):
        commit = _commit(asked)
        paths = [asked.path] if asked.path else []
        infos = paths and _api().get_paths_info(asked.repository, paths, revision=commit, repo_type=asked.kind)
    return next((_found(asked, info) for info in infos if isinstance(info, RepoFile)), None), commit


def open_found(found: Found) -> Fetch:
    """See Place."""
    asked = _Address.of(found.name)
    now, commit = _look(asked)
    url = hf_hub_url(
        asked.repository, asked.path, repo_type=asked.kind, revision=commit, endpoint=os.environ.get("HF_ENDPOINT")
    )
    token = get_token()
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    if now != found or (stored := web.look_elsewhere(found.name, url, headers)).bytes != found.bytes:
        raise changed(found.name)
    return web.open_elsewhere(stored, url, headers)


def _commit(asked: _Address) -> str:
    return str(_api().repo_info(asked.repository, revision=asked.revision, repo_type=asked.kind).sha)


def _found(asked: _Address, file: RepoFile) -> Found:
    return Found(f"{asked.prefix}/{file.path}", file.size, stamp_of(file.lfs.sha256 if file.lfs else file.blob_id))


@contextlib.contextmanager
def _explaining(address: str) -> Iterator[None]:
    """Errors of the library as ours; its own texts name addresses, tokens' names and more."""
    try:
        yield
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
def _api() -> HfApi:
    return HfApi(endpoint=os.environ.get("HF_ENDPOINT"))
