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
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import unquote, urljoin, urlsplit
from urllib.request import getproxies, proxy_bypass

from streambpe.errors import SourceError, UsageError
from streambpe.sources.remote.address import credentials_for
from streambpe.sources.remote.place import Found, NoAnswer, Ranges, asked_again, changed, library, stamp_of

_SECONDS = 30  # without a byte
_AGAIN = (408, 425, 429, 500, 502, 503, 504)
_FIRST, _MOST = 1 << 20, 64 << 20  # bytes asked for in one request: more and more while they are read one after another
_PIECE = 1 << 20  # given on at once
_JUMP = 1 << 18  # bytes that are read over rather than asked for anew
_REDIRECTS = 8


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


def open_found(found: Found) -> Ranges:
    """See Place."""
    return WebRanges(found, found.name, {})


def look_elsewhere(name: str, url: str, headers: Mapping[str, str]) -> Found:
    """A file that is named otherwise than where it is read."""
    return asked_again(name, lambda: _look(name, url, headers), 3)


def _look(name: str, url: str, headers: Mapping[str, str]) -> Found:
    answer = _ask(name, url, headers, 0, 1)
    try:
        if answer.status == 416 or (answer.status == 200 and answer.headers.get("Content-Length") == "0"):
            return Found(name, 0, _stamp(answer))
        return Found(name, _place_in(name, answer)[1], _stamp(answer))
    finally:
        _let_go(answer)


class WebRanges:
    """A file of a web server that is open."""

    def __init__(self, found: Found, url: str, headers: Mapping[str, str]) -> None:
        self._found, self._url, self._headers = found, url, headers
        self._answer: Any = None
        self._at = self._stop = 0  # of what is left of the answer
        self._next = _FIRST  # how much to ask for

    def fetch(self, at: int, size: int) -> bytes:
        """See Ranges."""
        return asked_again(self._found.name, lambda: self._once(at, min(size, _PIECE)))

    def _once(self, at: int, size: int) -> bytes:
        try:
            if self._answer is not None and self._at < at <= min(self._stop, self._at + _JUMP):
                self._at += len(_read(self._answer, at - self._at))
            if self._answer is None or self._at != at or at == self._stop:
                self._ask_from(at, size)
            data = _read(self._answer, min(size, self._stop - at))
        except NoAnswer:
            self.close()
            raise
        if not data:
            self.close()
            raise NoAnswer("the answer is incomplete")
        self._at += len(data)
        return data

    def _ask_from(self, at: int, size: int) -> None:
        self._next = min(self._next * 4, _MOST) if at and at == self._stop else max(size, _FIRST)
        self.close()
        stop = min(at + self._next, self._found.bytes)
        answer = _ask(self._found.name, self._url, self._headers, at, stop)
        try:
            if answer.status == 416:
                raise changed(self._found.name)
            (begin, end), whole = _place_in(self._found.name, answer)
            if whole != self._found.bytes or _stamp(answer) != self._found.stamp:
                raise changed(self._found.name)
            if begin != at or end <= at:
                raise SourceError(f"{self._found.name} cannot be read: its server answers with another range.")
        except BaseException:
            _let_go(answer)
            raise
        self._answer, self._at, self._stop = answer, at, end

    def close(self) -> None:
        """See Ranges."""
        answer, self._answer = self._answer, None
        if answer is not None:
            _let_go(answer)


def _let_go(answer: Any) -> None:
    """Give the connection back if little of the answer is left, else close it."""
    if answer.length_remaining is not None and answer.length_remaining <= _JUMP:
        answer.drain_conn()
    else:
        answer.close()


def _stamp(answer: Any) -> int:
    return stamp_of(answer.headers.get("ETag") or answer.headers.get("Last-Modified") or "")


def _place_in(name: str, answer: Any) -> tuple[tuple[int, int], int]:
    """((begin, end), size of the whole file) of an answer."""
    if answer.headers.get("Content-Encoding", "identity") != "identity":
        raise SourceError(f"{name} cannot be read: its server compresses it although that was not requested.")
    found = re.fullmatch(r"bytes (\d+)-(\d+)/(\d+)", answer.headers.get("Content-Range", ""))
    if answer.status != 206 or not found:
        raise SourceError(
            f"{name} cannot be read: its server does not serve ranges of a file, so a stopped count could not "
            "continue. None of it was read. Download it."
        )
    first, last, whole = map(int, found.groups())
    return (first, last + 1), whole


def _read(answer: Any, size: int) -> bytes:
    urllib3 = library("urllib3", "https")
    try:
        data: bytes = answer.read(size)
        return data
    except (urllib3.exceptions.HTTPError, OSError) as why:
        raise NoAnswer(_said(why)) from None


def _ask(name: str, url: str, headers: Mapping[str, str], begin: int, stop: int) -> Any:
    """The answer to a request for a range. What the credentials are for is asked, and nobody it redirects to."""
    urllib3 = library("urllib3", "https")
    asked = {"Range": f"bytes={begin}-{stop - 1}", "Accept-Encoding": "identity", "User-Agent": "streambpe"}
    asked |= headers or _login(url)
    no_address = SourceError(f"{name} cannot be read: it, or what its server redirects to, is not an address.")
    for _ in range(_REDIRECTS):
        try:
            answer = _pool(_proxy(url)).request(
                "GET", url, headers=asked, preload_content=False, decode_content=False, retries=False, redirect=False
            )
        except urllib3.exceptions.SSLError as why:
            raise SourceError(f"{name} cannot be read: {_said(why)}.") from None
        except (http.client.InvalidURL, urllib3.exceptions.LocationValueError):
            raise no_address from None
        except (urllib3.exceptions.HTTPError, OSError, ValueError) as why:
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
    known = library("urllib3", "https").exceptions
    causes: list[BaseException] = []
    cause: object = why
    while isinstance(cause, BaseException):
        causes.append(cause)
        cause = cause.__cause__ or cause.__context__ or getattr(cause, "reason", None)
    system = [f": {cause.strerror}" for cause in causes if isinstance(cause, OSError) and cause.strerror]
    for kind, told in (
        (ssl.SSLCertVerificationError, "the certificate of its server is not trusted ({0.verify_message})"),
        ((known.SSLError, ssl.SSLError), "its server does not speak TLS properly"),
        (known.NameResolutionError, "its server has no known address (DNS)"),
        (known.NewConnectionError, f"no connection to its server{''.join(system[-1:])}"),
        ((known.TimeoutError, TimeoutError), f"its server did not answer for {_SECONDS} seconds"),
        ((known.ProtocolError, ConnectionError), "the answer is incomplete"),
    ):
        for cause in causes:
            if isinstance(cause, kind):
                return told.format(cause)
    return f"no connection to its server ({type(why).__name__})"


@functools.lru_cache
def _pool(proxy: str | None) -> Any:
    urllib3 = library("urllib3", "https")
    how = {"timeout": urllib3.Timeout(connect=_SECONDS, read=_SECONDS), "ssl_context": ssl.create_default_context()}
    if not proxy:
        return urllib3.PoolManager(**how)
    login = unquote(urlsplit(proxy).netloc.rpartition("@")[0])  # urllib3 sends it only if it is asked to
    headers = urllib3.make_headers(proxy_basic_auth=login) if login else None
    return urllib3.ProxyManager(proxy, proxy_headers=headers, **how)


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
        known = _netrc()
        found = known.hosts.get(parts.hostname or "") if known else None
    except (OSError, netrc.NetrcParseError):
        return {}
    if not found:
        return {}
    return {"Authorization": "Basic " + base64.b64encode(f"{found[0]}:{found[2]}".encode()).decode()}


@functools.lru_cache
def _netrc() -> netrc.netrc | None:
    path = Path(os.environ.get("NETRC") or "~/.netrc").expanduser()
    return netrc.netrc(str(path)) if path.is_file() else None
