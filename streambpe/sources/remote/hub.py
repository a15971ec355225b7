"""hf://: files of a repository of the Hugging Face Hub, listed by huggingface_hub and read in ranges.

    hf://datasets/OWNER/NAME[@REVISION]/PATH      or models/, spaces/; without one of them it is a model

A branch may move, so a file is opened at the commit that the branch names then, and has to be the one that was found.
"""

from __future__ import annotations

import functools
import os
from urllib.parse import unquote

from huggingface_hub import HfApi, HfUri, RepoFile, get_token, hf_hub_url, parse_hf_uri
from huggingface_hub.errors import (
    EntryNotFoundError,
    GatedRepoError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from streambpe.errors import SourceError, UsageError
from streambpe.sources.remote import stores
from streambpe.sources.remote.address import credentials_for
from streambpe.sources.remote.place import Found, changed, explaining, missing, stamp_of, unreachable


def file_at(address: str) -> Found | None:
    """See Place."""
    return _look(address)[0]


def below(folder: str) -> list[Found]:
    """See Place."""
    with _explaining(folder):
        asked = parse_hf_uri(folder)
        path = asked.path_in_repo.rstrip("/")
        prefix = folder.rstrip("/").removesuffix(path).rstrip("/")
        tree = _api().list_repo_tree(
            asked.id, path or None, recursive=True, revision=_commit(asked), repo_type=asked.type
        )
        files = [_found(f"{prefix}/{file.path}", file) for file in tree if isinstance(file, RepoFile)]
    if not files:
        raise missing(folder)
    return files


def open_found(found: Found) -> stores.StoredFile:
    """See Place."""
    asked, (now, commit) = parse_hf_uri(found.name), _look(found.name)
    url = hf_hub_url(
        asked.id, asked.path_in_repo, repo_type=asked.type, revision=commit, endpoint=os.environ.get("HF_ENDPOINT")
    )
    token = get_token()
    folder, _, name = url.rpartition("/")
    store = stores.web_store(folder, f"Bearer {token}" if token else None)
    stored = stores.look(found.name, store, unquote(name)) if now == found else None
    if stored is None or stored.bytes != found.bytes:
        raise changed(found.name)
    return stores.StoredFile(stored, store, unquote(name))


def _look(address: str) -> tuple[Found | None, str]:
    """(the file at an address, the commit that it is looked at in)"""
    with _explaining(address):
        asked = parse_hf_uri(address)
        commit = _commit(asked)
        paths = [asked.path_in_repo] if asked.path_in_repo else []
        infos = paths and _api().get_paths_info(asked.id, paths, revision=commit, repo_type=asked.type)
    return next((_found(address, info) for info in infos if isinstance(info, RepoFile)), None), commit


def _commit(asked: HfUri) -> str:
    return str(_api().repo_info(asked.id, revision=asked.revision, repo_type=asked.type).sha)


def _found(name: str, file: RepoFile) -> Found:
    return Found(name, file.size, stamp_of(file.lfs.sha256 if file.lfs else file.blob_id))


def _explained(address: str, why: Exception) -> SourceError | UsageError:
    status = getattr(getattr(why, "response", None), "status_code", None)
    if isinstance(why, GatedRepoError) or status in (401, 403):
        return SourceError(
            f"{address} cannot be read or does not exist: the Hub answers {status}. None of it was read. Credentials "
            f"come from {credentials_for('hf')}."
        )
    if status == 404 or isinstance(why, RepositoryNotFoundError | RevisionNotFoundError | EntryNotFoundError):
        return missing(address)
    if isinstance(why, ValueError) and status is None:
        return UsageError(f"{address}: write hf://datasets/OWNER/NAME/PATH, or models/ or spaces/. Nothing was read.")
    told = f"the Hub answers {status}" if status else f"the Hub cannot be reached ({type(why).__name__})"
    return unreachable(address, told)


_explaining = functools.partial(explaining, _explained, Exception)


@functools.lru_cache
def _api() -> HfApi:
    return HfApi(endpoint=os.environ.get("HF_ENDPOINT"))
