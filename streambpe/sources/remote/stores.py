"""s3://, gs://, abfss://, https:// and http://, by obstore: listed where a server lists, and read in ranges.

Every answer tells which content it is of, by an ETag or else a time stamp, and bytes are given on only if that is the
one that was found. A server that answers without ranges is refused: a count that is stopped could not go on where it
was. Where an answer breaks off, obstore asks for the rest of it.
"""

from __future__ import annotations

import base64
import contextlib
import functools
import glob
import io
import netrc
import os
import re
from datetime import timedelta
from typing import Any
from urllib.parse import unquote, urlsplit

import obstore
from obstore.exceptions import BaseError, NotSupportedError, PermissionDeniedError, UnauthenticatedError
from obstore.store import AzureStore, GCSStore, HTTPStore, S3Store

from streambpe.errors import SourceError, SourceUnreachable, UsageError
from streambpe.sources.remote import place
from streambpe.sources.remote.address import WEB, credentials_for, scheme_of
from streambpe.sources.remote.place import Found, NoAnswer, asked_again, changed, explaining, missing, stamp_of

_SECONDS = 30  # without a byte
_SHORTLY, _LONG = timedelta(milliseconds=100), timedelta(hours=1)
_AGAIN = (408, 425, 429, 500, 502, 503, 504)
_LONGEST = 500  # of what a server says, in characters
_STATUS = re.compile(r"status code: ((\d+)[^:\n]*)")
_NO_LOGIN = re.compile(r"metadata\.google|169\.254\.169\.254|credential|Azure ?CLI|\baz\b|oauth2|\bsign", re.I)
# What stands in an error of obstore, whose own sentences do not say what went wrong, and what it means.
_FINAL = {
    "Requested .*, got ": "its server answers with another range",
    "TooManyRedirects": "its server redirects without end",
    "kind: Redirect|BadScheme": "its server redirects to no https address",
    r"InvalidCertificate\(\s*(\w+)": "the certificate of its server is not trusted ({})",
    "InvalidMessage|InvalidContentType|kind: InvalidData": "its server does not speak TLS properly",
}
_PASSING = {
    "dns error": "its server has no known address (DNS)",
    r'message: "([^"]+)"': "no connection to its server: {}",
    "TimedOut|timed out": f"its server did not answer for {_SECONDS} seconds",
    "Incomplete|kind: Body|ConnectionReset|ConnectionClosed": "the answer is incomplete",
}


def file_at(address: str) -> Found | None:
    """See Place."""
    on_web = scheme_of(address) in WEB
    if on_web and glob.has_magic(address.replace("[", "", address.count("://["))):
        below(address)
    store, path = _opened(address)
    found = look(address, store, path) if path else None
    if found is None and on_web:
        raise missing(address)
    return found


def below(folder: str) -> list[Found]:
    """See Place."""
    if scheme_of(folder) in WEB:
        raise UsageError(
            f"{folder}: a web server does not list its files. Nothing was read. Name each file by its address."
        )
    store, path = _opened(folder)

    def listed() -> list[Any]:
        with _explaining(folder):
            return [info for infos in obstore.list(store, path.rstrip("/")) for info in infos]

    bucket = "/".join(folder.split("/")[:3])
    files = [_found(f"{bucket}/{info['path']}", info) for info in asked_again(folder, listed)]
    if not files:
        raise missing(folder)
    return files


def open_found(found: Found) -> StoredFile:
    """See Place."""
    return StoredFile(found, *_opened(found.name))


def look(name: str, store: Any, path: str) -> Found | None:
    """A file of a store, which may have another name there, as it is now; None if there is none."""

    def looked() -> Any:
        with _explaining(name), contextlib.suppress(FileNotFoundError):
            try:
                answer = obstore.get(store, path, options={"range": (0, 1)})
            except BaseError:
                meta = obstore.head(store, path)
                if meta["size"]:  # a file without a byte has no range
                    raise
                return meta
            if scheme_of(name) in WEB and answer.attributes.get("Content-Encoding", "identity") != "identity":
                raise SourceError(f"{name} cannot be read: its server compresses it although that was not requested.")
            return answer.meta
        return None

    meta = asked_again(name, looked, 3)
    return None if meta is None else _found(name, meta)


class StoredFile(io.RawIOBase):
    """A file of a store, which may have another name there, that can be read from any place."""

    def __init__(self, found: Found, store: Any, path: str) -> None:
        self._found, self._store, self._path, self._at = found, store, path, 0

    def readable(self) -> bool:
        """It is."""
        return True

    def seekable(self) -> bool:
        """It is."""
        return True

    def seek(self, to: int, whence: int = io.SEEK_SET) -> int:
        """Go to a place; nothing is asked for yet."""
        self._at = to + (0, self._at, self._found.bytes)[whence]
        return self._at

    def readinto(self, into: memoryview) -> int:  # type: ignore[override]
        """Fill some of `into`; 0 at the end."""
        stop = min(self._at + min(len(into), place.BUFFER_BYTES), self._found.bytes)
        if stop <= self._at:
            return 0
        name = self._found.name

        def answered() -> tuple[Any, memoryview]:
            with _explaining(name):
                answer = obstore.get(self._store, self._path, options={"range": (self._at, stop)})
                return answer.meta, memoryview(answer.bytes())

        try:
            meta, data = asked_again(name, answered)
        except SourceError as why:
            if isinstance(why, SourceUnreachable) or look(name, self._store, self._path) == self._found:
                raise
            raise changed(name) from None
        if _found(name, meta) != self._found:
            raise changed(name)
        into[: len(data)] = data
        self._at += len(data)
        return len(data)


def _found(name: str, meta: Any) -> Found:
    time = meta["last_modified"]
    return Found(name, meta["size"], stamp_of(meta["e_tag"] or (time.isoformat() if time.timestamp() else "")))


def _opened(address: str) -> tuple[Any, str]:
    """(the store of an address, the path there)"""
    scheme = str(scheme_of(address))
    host, _, key = address.split("://", 1)[1].partition("/")
    user, _, server = host.rpartition("@")
    if scheme in WEB:
        folder, _, name = address.rpartition("/")
        if not key:
            below(address)
        return web_store(folder, _login(address)), unquote(name)
    if glob.has_magic(host):
        raise UsageError(f"{address} has a * or ? in the name of its bucket. Nothing was read. Name one bucket.")
    if scheme == "abfss" and not user:
        raise UsageError(f"{address}: write abfss://CONTAINER@ACCOUNT.dfs.core.windows.net/PATH.")
    with _explaining(address):
        return {"s3": _s3, "gs": _google, "abfss": _azure}[scheme](server, user), key


def _client(url: str, **more: Any) -> dict[str, Any]:
    """How obstore asks: a few times at once, and again by `asked_again`, whose waits a stop ends."""
    seconds = timedelta(seconds=_SECONDS)
    client = {"connect_timeout": seconds, "read_timeout": seconds, "timeout": _LONG, "user_agent": "streambpe", **more}
    retries = {"init_backoff": _SHORTLY, "max_backoff": _SHORTLY, "base": 2}
    return {
        "client_options": {"allow_http": url.startswith("http:"), **client},
        "retry_config": {"max_retries": 3, "backoff": retries, "retry_timeout": seconds},
    }


@functools.lru_cache
def web_store(folder: str, authorization: str | None = None) -> HTTPStore:
    """The files of a folder of a web server. Whom it redirects to is asked without this header."""
    headers = {"authorization": authorization} if authorization else {}
    return HTTPStore(folder, **_client(folder, default_headers=headers))


@functools.lru_cache
def _s3(bucket: str, user: str) -> S3Store:
    from pyarrow.fs import resolve_s3_region

    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or ""
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    more: dict[str, Any] = {"endpoint": endpoint} if endpoint else {}
    if not user and "AWS_ACCESS_KEY_ID" not in os.environ:
        with contextlib.suppress(ImportError, ValueError):  # a profile in ~/.aws
            from obstore.auth.boto3 import Boto3CredentialProvider

            more["credential_provider"] = Boto3CredentialProvider()
    return S3Store(
        bucket,
        region=region or ("us-east-1" if endpoint else resolve_s3_region(bucket)),
        skip_signature=bool(user),
        **more,
        **_client(endpoint),
    )


@functools.lru_cache
def _google(bucket: str, user: str) -> GCSStore:
    return GCSStore(bucket, skip_signature=bool(user), **_client(""))


@functools.lru_cache
def _azure(server: str, container: str) -> AzureStore:
    account, _, rest = server.partition(".")
    more: dict[str, Any] = {}
    if rest and rest != "dfs.core.windows.net":  # another cloud
        more["endpoint"] = f"https://{account}.{rest.replace('dfs.', 'blob.')}"
    if "AZURE_STORAGE_KEY" in os.environ:
        more["account_key"] = os.environ["AZURE_STORAGE_KEY"]
    elif not any(name.startswith("AZURE_") for name in os.environ):
        more["credential_type"] = "azure_cli"
    return AzureStore(container, account_name=account, **more, **_client(""))


def _login(url: str) -> str | None:
    """The user and password that ~/.netrc (or $NETRC) has for the host of an address: for that host by its name, since
    whoever writes a list of sources names hosts, and never in the clear to another machine."""
    parts = urlsplit(url)
    if parts.scheme != "https" and parts.hostname not in ("localhost", "127.0.0.1", "::1"):
        return None
    try:
        logins = netrc.netrc(os.path.expanduser(os.environ.get("NETRC") or "~/.netrc"))
    except (OSError, netrc.NetrcParseError):
        return None
    found = logins.hosts.get(parts.hostname or "")
    return "Basic " + base64.b64encode(f"{found[0]}:{found[2]}".encode()).decode() if found else None


def _explained(name: str, why: Exception) -> Exception:
    text, scheme = str(why), str(scheme_of(name))
    found = _STATUS.search(text)
    status, answered = (int(found[2]), f"its server answers {found[1].strip()}") if found else (0, "")
    refused = isinstance(why, PermissionDeniedError | UnauthenticatedError)
    if isinstance(why, FileNotFoundError) or status in (404, 410):
        return missing(name)
    if isinstance(why, NotSupportedError):
        final = (
            "its server does not serve ranges of a file, so a stopped count could not continue. None of it was read. "
        )
        final += "Download it"
    elif status == 407:
        final = "the proxy answers 407 and wants a user and a password. None of it was read. Give them in "
        final += f"{scheme}_proxy: http://USER:PASSWORD@HOST:PORT"
    elif refused or (scheme not in WEB and _NO_LOGIN.search(text)):
        final = f"{answered or 'its server refuses the credentials, or there are none'}. None of it was read. "
        final += f"Credentials come from {credentials_for(scheme)}"
    else:
        final = _meaning(text, _FINAL) or answered * (status not in _AGAIN)
    if final:
        return SourceError(f"{name} cannot be read: {final}.")
    line = re.sub(r"\?\S+", "", text.partition("\n")[0])
    line = line if len(line) <= _LONGEST else line[:_LONGEST].rpartition(" ")[0] + " .."
    return NoAnswer(answered or _meaning(text, _PASSING) or line)


_explaining = functools.partial(explaining, _explained, (BaseError, OSError))


def _meaning(text: str, known: dict[str, str]) -> str:
    """What an error means, if that is known."""
    for pattern, told in known.items():
        if match := re.search(pattern, text):
            return told.format(*match.groups())
    return ""
