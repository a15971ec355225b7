"""Object stores: s3://, gs:// and abfss://, by pyarrow.

A store lists size and time stamp (whole seconds) of each object, so a folder costs one request for a thousand files.
After each read the object is looked at again: bytes are given on only if it is still the one that was found.
"""

from __future__ import annotations

import contextlib
import functools
import glob
import os
import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

from streambpe.errors import SourceError, UsageError
from streambpe.sources.remote.address import credentials_for, scheme_of
from streambpe.sources.remote.place import Fetch, Found, changed, missing, unreachable

_SECOND = 1_000_000_000
_TRIES = 5
_SECONDS = 30  # without a byte
_LONGEST = 500  # of what a store says, in characters
_REFUSED = re.compile(
    r"ACCESS.DENIED|Access.?Denied|Forbidden|InvalidAccessKey|SignatureDoesNotMatch|INVALID_(ACCESS_KEY|SIGNATURE)|"
    r"Authentication(Failed|Required)|AuthorizationFailure|PERMISSION_DENIED|UNAUTHENTICATED|"
    r"(HTTP status|code:) 40[13]|CredentialUnavailable|DefaultAzureCredential|OAuth2 access token"
)
_MISSING = re.compile(r"NO_SUCH_BUCKET|NO_SUCH_KEY|NoSuchBucket|NoSuchKey|ContainerNotFound|NOT_FOUND|not found", re.I)


def file_at(address: str) -> Found | None:
    """See Place."""
    with _explaining(address):
        files, _, path = _opened(address)
        info = files.get_file_info(path)
    return _found(address, info) if info.is_file else None


def below(folder: str) -> Iterator[Found]:
    """See Place."""
    from pyarrow.fs import FileSelector

    with _explaining(folder):
        files, prefix, path = _opened(folder)
        infos = files.get_file_info(FileSelector(path.rstrip("/"), recursive=True))
    bucket = path.partition("/")[0]
    return (_found(prefix + info.path.removeprefix(bucket), info) for info in infos if info.is_file)


def open_found(found: Found) -> Fetch:
    """See Place."""
    name = found.name
    with _explaining(name):
        files, _, path = _opened(name)
        file = files.open_input_file(path)

    def fetch(at: int, size: int) -> bytes:
        try:
            with _explaining(name):
                data: bytes = file.read_at(size, at)
        except SourceError:
            if file_at(name) == found:
                raise
            data = b""
        if not data or file_at(name) != found:
            raise changed(name)
        return data

    return fetch


def _found(address: str, info: Any) -> Found:
    """The stamp in whole seconds: some stores list fractions of them, and leave them out for a single object."""
    return Found(address, info.size, (info.mtime_ns or 0) // _SECOND * _SECOND)


def _opened(address: str) -> tuple[Any, str, str]:
    """(file system, the address of the bucket, the path: the bucket's name and the key)."""
    scheme = str(scheme_of(address))
    host, _, key = address.split("://", 1)[1].partition("/")
    user, at, server = host.rpartition("@")
    if glob.has_magic(host):
        raise UsageError(f"{address} has a * or ? in the name of its bucket. Nothing was read. Name one bucket.")
    if scheme == "abfss":
        if not user:
            raise UsageError(f"{address}: write abfss://CONTAINER@ACCOUNT.dfs.core.windows.net/PATH.")
        return _azure(server), f"abfss://{user}@{server}", f"{user}/{key}"
    make = _s3 if scheme == "s3" else _google
    return make(server, bool(at)), f"{scheme}://{host}", f"{server}/{key}"


@functools.lru_cache
def _s3(bucket: str, anonymous: bool) -> Any:
    from pyarrow.fs import AwsStandardS3RetryStrategy, S3FileSystem, resolve_s3_region

    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or ""
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    other = urlsplit(endpoint)
    return S3FileSystem(
        anonymous=anonymous,
        region=region or ("us-east-1" if endpoint else resolve_s3_region(bucket)),
        endpoint_override=other.netloc + other.path.rstrip("/") if endpoint else None,
        scheme=other.scheme if endpoint else None,
        connect_timeout=_SECONDS,
        request_timeout=_SECONDS,
        retry_strategy=AwsStandardS3RetryStrategy(max_attempts=_TRIES),
    )


@functools.lru_cache
def _google(bucket: str, anonymous: bool) -> Any:
    from pyarrow.fs import GcsFileSystem

    other = urlsplit(os.environ.get("STORAGE_EMULATOR_HOST", ""))
    more = {"endpoint_override": other.netloc, "scheme": other.scheme} if other.netloc else {}
    return GcsFileSystem(anonymous=anonymous, retry_time_limit=timedelta(seconds=_SECONDS), **more)


@functools.lru_cache
def _azure(server: str) -> Any:
    from pyarrow.fs import AzureFileSystem

    account, _, rest = server.partition(".")
    more = {}
    if rest and rest != "dfs.core.windows.net":  # another cloud
        more = {"dfs_storage_authority": f".{rest}", "blob_storage_authority": f".{rest}".replace(".dfs.", ".blob.")}
    return AzureFileSystem(
        account,
        account_key=os.environ.get("AZURE_STORAGE_KEY"),
        sas_token=os.environ.get("AZURE_STORAGE_SAS_TOKEN"),
        **more,
    )


@contextlib.contextmanager
def _explaining(address: str) -> Iterator[None]:
    """Errors of pyarrow as ours. What it has no error of the system for (Azure's credentials), it raises bare."""
    from pyarrow import ArrowException

    try:
        yield
    except (OSError, ArrowException) as why:
        raise _explained(address, why) from None


def _explained(address: str, why: Exception) -> SourceError:
    text = str(why)
    if isinstance(why, FileNotFoundError) or _MISSING.search(text):
        return missing(address)
    if isinstance(why, PermissionError) or _REFUSED.search(text):
        return SourceError(
            f"{address} cannot be read: its store refuses the credentials, or there are none. None of it was read. "
            f"Credentials come from {credentials_for(str(scheme_of(address)))}."
        )
    return unreachable(address, _said(text))


def _said(text: str) -> str:
    """What a library says, in one line and without what may be a secret."""
    line = re.sub(r"\?\S+", "", (text.splitlines() or ["no reason is given"])[0])
    found = re.search(r"(AWS Error .*? during \w+ operation)(?:: (?:curlCode: \d+, )?(.*))?", line)
    if found:
        line = f"{found[1]}: {found[2]}" if found[2] else found[1]
    if google := re.match(r"google::cloud::Status\((.*)", line):
        line = google[1]  # what follows says the same again, for programs
    line = re.split(r" \(Request ID|; Details:| error_info=", line)[0].rstrip(" .")
    return line if len(line) <= _LONGEST else line[:_LONGEST].rpartition(" ")[0] + " .."
