"""Addresses of remote sources: which are read, and what may not stand in one.

    s3://bucket/corpus/            a folder     gs://bucket/de/*.jsonl.gz          a glob
    abfss://CONTAINER@ACCOUNT.dfs.core.windows.net/part.parquet
    hf://datasets/OWNER/NAME@REVISION/data/*.parquet
    https://example.org/text.jsonl.zst

A run keeps the names of its sources, so no secret may stand in them: an address with a password, or with a query, which
may hold a signature, is refused before anything is written, and never shown. Credentials come from the environment.
"""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import urlsplit

from streambpe.errors import UsageError

WEB = ("https", "http")
_KNOWN = ("s3", "gs", "abfss", "hf", *WEB)
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://")
_ANONYMOUS = "anonymous"  # s3://anonymous@bucket/key: read without credentials
_FROM_ENVIRONMENT = {
    "s3": "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or a profile in ~/.aws, which boto3 reads",
    "gs": "GOOGLE_APPLICATION_CREDENTIALS, or `gcloud auth application-default login`",
    "abfss": "AZURE_STORAGE_KEY, AZURE_STORAGE_SAS_TOKEN, or `az login`",
    "hf": "HF_TOKEN, or `hf auth login`",
    "https": "an entry for the host in ~/.netrc",
}


def scheme_of(name: str) -> str | None:
    """What stands before `://`, in small letters; None for a file of this machine."""
    found = _SCHEME.match(name)
    return found[1].lower() if found else None


def is_remote(name: str) -> bool:
    """Whether a source of this name lies on another machine."""
    return scheme_of(name) is not None


def has_place(name: str) -> bool:
    """Whether it is an absolute path or an address, not the name of a stream."""
    return is_remote(name) or Path(name).is_absolute()


def credentials_for(scheme: str) -> str:
    """Where the credentials for addresses of this kind come from."""
    return _FROM_ENVIRONMENT["https" if scheme in WEB else scheme]


def checked(address: str) -> str:
    """An address in its one form; an error if it is of no kind that is read, or holds what may be a secret."""
    scheme = scheme_of(address) or ""
    if scheme not in _KNOWN:
        known = ", ".join(f"{name}://" for name in _KNOWN)
        raise UsageError(
            f"{scheme}:// is not a kind of address that streambpe reads. Nothing was read. Sources are files of this "
            f"machine, and {known}."
        )
    rest = address.split("://", 1)[1]
    host, slash, path = rest.partition("/")
    user, at, server = host.rpartition("@")
    allowed = user == _ANONYMOUS if scheme in ("s3", "gs") else ":" not in user if scheme == "abfss" else False
    if at and not allowed:
        raise UsageError(
            f"The address {scheme}://...@{server}{slash}{_without_query(path)} names a user. Nothing was read: a RUN "
            "stores the names of its sources, so they must not contain a password. Leave it out; credentials come "
            f"from {credentials_for(scheme)}."
        )
    if ("?" in rest or "#" in rest) if scheme in WEB else re.search(r"\?[^/]*=", rest):
        raise UsageError(
            f"The address {scheme}://{_without_query(rest)} has a ? or #. Nothing was read: a RUN keeps the names of "
            "its sources, and what follows may be a signature. Leave it out, or download the file; credentials come "
            f"from {credentials_for(scheme)}."
        )
    if not server or (scheme in WEB and not _is_host(address)):
        raise UsageError(f"{address} names no server. Nothing was read.")
    return f"{scheme}://{host.lower() if scheme in WEB else host}{slash}{path}"


def _without_query(text: str) -> str:
    return re.split(r"[?#]", text)[0]


def _is_host(address: str) -> bool:
    try:
        parts = urlsplit(address)
        return bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
