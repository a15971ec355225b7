"""https:// and http://: one file an address, read in ranges.

A server that answers without ranges is refused: a count that is stopped could not go on where it was. Where an answer
breaks off, the rest is asked for again. What a server says of its content (ETag, else Last-Modified) has to be the same
in every answer.
"""

from __future__ import annotations

import base64
import functools
import glob
import http.client
import ipaddress
import netrc
import os
import re
import ssl
from collections.abc import Mapping
from typing import NoReturn
from urllib.parse import unquote, urljoin, urlsplit
from urllib.request import getproxies, proxy_bypass

import msgspec
import urllib3
from urllib3 import exceptions

from streambpe.errors import SourceError, UsageError
from streambpe.sources.remote.address import credentials_for
from streambpe.sources.remote.place import Fetch, Found, NoAnswer, asked_again, changed, stamp_of

_SECONDS = 30  # without a byte
_AGAIN = (408, 425, 429, 500, 502, 503, 504)
_REDIRECTS = 8
_LITTLE = 1 << 18  # bytes of an answer that are read over rather than a new connection made


class _Piece(msgspec.Struct):
    """What a server answers when it is asked for a range."""

    data: bytes
    at: int
    of: Found  # the whole file, as it is now


def file_at(address: str) -> Found:
    """See Place."""
    if glob.has_magic(address.replace("[", "", address.count("://["))):
        below(address)
    return look_elsewhere(address, address, {})


def below(folder: str) -> NoReturn:
    """See Place."""
    raise UsageError(
        f"{folder}: a web server does not list its files. Nothing was read. Name each file by its address."
    )


def open_found(found: Found) -> Fetch:
    """See Place."""
    return open_elsewhere(found, found.name, {})


def look_elsewhere(name: str, url: str, headers: Mapping[str, str]) -> Found:
    """A file that is named otherwise than where it is read."""
    return asked_again(name, lambda: _ask(name, url, headers, 0, 1), 3).of


def open_elsewhere(found: Found, url: str, headers: Mapping[str, str]) -> Fetch:
    """The same, opened."""

    def fetch(at: int, size: int) -> bytes:
        piece = asked_again(found.name, lambda: _ask(found.name, url, headers, at, size))
        if piece.of != found:
            raise changed(found.name)
        if piece.at != at or not piece.data:
            raise SourceError(f"{found.name} cannot be read: its server answers with another range.")
        return piece.data

    return fetch


def _ask(name: str, url: str, headers: Mapping[str, str], at: int, size: int) -> _Piece:
    """The answer to a request for a range; what there is of it, if it breaks off."""
    answer = _answer(name, url, headers, f"bytes={at}-{at + size - 1}")
    stamp = stamp_of(answer.headers.get("ETag") or answer.headers.get("Last-Modified") or "")
    data = bytearray()
    try:
        if answer.status == 416 or (answer.status == 200 and answer.headers.get("Content-Length") == "0"):
            return _Piece(b"", at, Found(name, 0, stamp))
        if answer.headers.get("Content-Encoding", "identity") != "identity":
            raise SourceError(f"{name} cannot be read: its server compresses it although that was not requested.")
        found = re.fullmatch(r"bytes (\d+)-\d+/(\d+)", answer.headers.get("Content-Range", ""))
        if answer.status != 206 or not found:
            raise SourceError(
                f"{name} cannot be read: its server does not serve ranges of a file, so a stopped count could not "
                "continue. None of it was read. Download it."
            )
        try:
            while len(data) < size and (more := answer.read(min(size - len(data), 1 << 16))):
                data += more
        except (exceptions.HTTPError, OSError) as why:
            if not data:
                raise NoAnswer(_said(why)) from None
        return _Piece(bytes(data), int(found[1]), Found(name, int(found[2]), stamp))
    finally:
        _let_go(answer)


def _let_go(answer: urllib3.BaseHTTPResponse) -> None:
    """Give the connection back if little of the answer is left, else close it."""
    if answer.length_remaining is not None and answer.length_remaining <= _LITTLE:
        answer.drain_conn()
    else:
        answer.close()


def _answer(name: str, url: str, headers: Mapping[str, str], wanted: str) -> urllib3.BaseHTTPResponse:
    """What is answered. What the credentials are for is asked, and nobody it redirects to."""
    asked = {"Range": wanted, "Accept-Encoding": "identity", "User-Agent": "streambpe", **(headers or _login(url))}
    no_address = SourceError(f"{name} cannot be read: it, or what its server redirects to, is not an address.")
    for _ in range(_REDIRECTS):
        try:
            answer = _pool(_proxy(url)).request(
                "GET", url, headers=asked, preload_content=False, decode_content=False, retries=False, redirect=False
            )
        except exceptions.SSLError as why:
            raise SourceError(f"{name} cannot be read: {_said(why)}.") from None
        except (http.client.InvalidURL, exceptions.LocationValueError):
            raise no_address from None
        except (exceptions.HTTPError, OSError, ValueError) as why:
            raise NoAnswer(_said(why)) from None
        to = answer.get_redirect_location()
        if not to:
            break
        _let_go(answer)
        try:
            there = urljoin(url, to)
        except ValueError:
            raise no_address from None
        if urlsplit(there).netloc != urlsplit(url).netloc:
            asked.pop("Authorization", None)
        if urlsplit(url).scheme == "https" and urlsplit(there).scheme != "https":
            raise SourceError(f"{name} cannot be read: its server redirects to an address that is not https.")
        if _is_inside(urlsplit(there).hostname) and not _is_inside(urlsplit(url).hostname):
            raise SourceError(f"{name} cannot be read: its server redirects to an address inside this network.")
        url = there
    else:
        raise SourceError(f"{name} cannot be read: its server redirects without end.")
    if answer.status in (200, 206, 416):
        return answer
    _let_go(answer)
    answered = f"its server answers {answer.status} {answer.reason or ''}".rstrip()
    if answer.status in _AGAIN:
        raise NoAnswer(answered)
    if answer.status == 407:
        raise SourceError(
            f"{name} cannot be read: the proxy answers 407 and wants a user and a password. None of it was read. Give "
            f"them in {urlsplit(url).scheme}_proxy: http://USER:PASSWORD@HOST:PORT."
        )
    if answer.status in (401, 403):
        raise SourceError(
            f"{name} cannot be read: {answered}. None of it was read. Credentials come from "
            f"{credentials_for(name.partition(':')[0])}."
        )
    raise SourceError(f"{name} {'is not there' if answer.status in (404, 410) else 'cannot be read'}: {answered}.")


def _said(why: Exception) -> str:
    """What went wrong, as the end of a sentence. Never the text of the library: it names addresses with all in them."""
    causes: list[BaseException] = []
    cause: object = why
    while isinstance(cause, BaseException):
        causes.append(cause)
        cause = cause.__cause__ or cause.__context__ or getattr(cause, "reason", None)
    system = [f": {cause.strerror}" for cause in causes if isinstance(cause, OSError) and cause.strerror]
    for kind, told in (
        (ssl.SSLCertVerificationError, "the certificate of its server is not trusted ({0.verify_message})"),
        ((exceptions.SSLError, ssl.SSLError), "its server does not speak TLS properly"),
        (exceptions.NameResolutionError, "its server has no known address (DNS)"),
        (exceptions.NewConnectionError, f"no connection to its server{''.join(system[-1:])}"),
        ((exceptions.TimeoutError, TimeoutError), f"its server did not answer for {_SECONDS} seconds"),
        ((exceptions.ProtocolError, ConnectionError), "the answer is incomplete"),
    ):
        for cause in causes:
            if isinstance(cause, kind):
                return told.format(cause)
    return f"no connection to its server ({type(why).__name__})"


@functools.lru_cache
def _pool(proxy: str | None) -> urllib3.PoolManager:
    timeout, context = urllib3.Timeout(connect=_SECONDS, read=_SECONDS), ssl.create_default_context()
    if not proxy:
        return urllib3.PoolManager(timeout=timeout, ssl_context=context)
    login = unquote(urlsplit(proxy).netloc.rpartition("@")[0])  # urllib3 sends it only if it is asked to
    headers = urllib3.make_headers(proxy_basic_auth=login) if login else None
    return urllib3.ProxyManager(proxy, proxy_headers=headers, timeout=timeout, ssl_context=context)


def _proxy(url: str) -> str | None:
    parts = urlsplit(url)
    return None if proxy_bypass(parts.hostname or "") else getproxies().get(parts.scheme)


def _is_inside(host: str | None) -> bool:
    """Whether a host is named by an address that only this machine or its network knows, as 169.254.169.254 is: it may
    answer with secrets to whoever asks from inside."""
    try:
        return not ipaddress.ip_address(host or "").is_global
    except ValueError:
        return host == "localhost"


def _login(url: str) -> dict[str, str]:
    """The user and password that ~/.netrc (or $NETRC) has for the host of an address: for that host by its name, since
    whoever writes a list of sources names hosts, and never in the clear to another machine."""
    parts = urlsplit(url)
    if parts.scheme != "https" and parts.hostname not in ("localhost", "127.0.0.1", "::1"):
        return {}
    try:
        logins = netrc.netrc(os.path.expanduser(os.environ.get("NETRC") or "~/.netrc"))
    except (OSError, netrc.NetrcParseError):
        return {}
    user, _, password = logins.hosts.get(parts.hostname or "") or ("", "", "")
    login = base64.b64encode(f"{user}:{password}".encode()).decode()
    return {"Authorization": f"Basic {login}"} if user or password else {}
