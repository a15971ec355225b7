"""The page of a run, served on this machine only, read-only, and growing while the run counts and learns.

    http://127.0.0.1:PORT/TOKEN/       the page; TOKEN is drawn anew each time, and nothing else is answered
    http://127.0.0.1:PORT/TOKEN/data   tiles and cards as they are now (JSON)

The run is looked at only when the page asks, and the page asks until the run has ended and everything is shown. The
tables are read less often, the longer that takes, by a thread of their own.
"""

from __future__ import annotations

import contextlib
import hmac
import json
import secrets
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from streambpe.count_config import SourceOptions
from streambpe.errors import StreambpeError, UsageError
from streambpe.inspect.embedded import fill, read_assets
from streambpe.inspect.page import html_head, terms
from streambpe.inspect.page_facts import gather
from streambpe.inspect.page_panels import panels
from streambpe.inspect.status import running_state, status_rows
from streambpe.inspect.watch import GOES_ON, View, sparkline
from streambpe.resources import Resources
from streambpe.store.run import Run
from streambpe.text.shown import harmless

HOST = "127.0.0.1"
_TABLES_SECONDS, _TABLES_SHARE = 5.0, 20  # at least so long between two looks, and so many times what one takes
_RESOURCES = Resources(500 * 10**6, 1)
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; img-src data:"


class LiveRun:
    """What is known of a run from looking at it."""

    def __init__(self, view: View) -> None:
        self.view = view
        self.asked = threading.Event()  # the page wants to know: the tables are worth a look
        self._looking = threading.Lock()
        self._cards: list[tuple[str, str]] = []  # what the tables said last
        self._seen = ("", "")  # state and time of the status at which they were read
        self._last: tuple[tuple[str, str] | None, bytes] = (None, b"")  # when its cards were read, and the last answer

    def answer(self) -> bytes:
        """The JSON that the page asks for, as things are now; `more`: whether it should ask again."""
        with self._looking:
            path, now, seen = self.view.run.path, self._now(), self._seen
            if now == seen == self._last[0] and now[0] not in GOES_ON:
                return self._last[1]
            self.asked.set()
            if not now[0]:
                note = "Nothing runs there yet; this page goes on when something does."
                return _json("waiting", True, title=harmless(str(path)), note=note, tiles="", cards=[])
            status = self.view.look()
            rows = {"stage": harmless(status.stage), **status_rows(status)}
            rows["speed"] += f" {sparkline(list(self.view.rates))}"
            rows["latest tokens"] = "  ".join(f"{token} {n:,}" for token, n in self.view.latest)
            told = [
                str(status.facts.get("message") or ""),
                f"As of {status.updated.replace('T', ' ').replace('+0000', ' UTC')}.",
            ]
            if status.state not in GOES_ON:
                told.append("Nothing runs now: the figures are of that moment. Reload the page to look again.")
            answer = _json(
                status.state,
                status.state != "done" or seen != now,
                title=harmless(f"{path}{status.title}"),
                note=harmless(" ".join(filter(None, told))),
                tiles=terms(rows.items()),
                cards=self._cards,
            )
            self._last = seen, answer
            return answer

    def _now(self) -> tuple[str, str]:
        """State and time of the status; nothing if there is none yet."""
        if not self.view.run.status_file.exists():
            return "", ""
        status = running_state(self.view.run.read_status(), self.view.run.path)
        return status["state"], status["updated"]

    def read_tables(self) -> None:
        """Read the tables if the run has gone on since."""
        now = self._now()
        if now == self._seen:
            return
        with contextlib.suppress(StreambpeError, OSError):  # they are held, or nothing is learned yet
            name = self.view.name or self.view.run.read_status().get("training", "main")
            facts = gather(Run.open(self.view.run.path), name, (), _RESOURCES, SourceOptions())
            self._cards = [(panel.name, panel.html) for panel in panels(facts)]
            self._seen = now

    def read_tables_until(self, stop: threading.Event) -> None:
        """Read them whenever the page has asked, and the less often the longer that takes."""
        while self.asked.wait() and not stop.is_set():
            self.asked.clear()
            began = time.monotonic()
            self.read_tables()
            took = time.monotonic() - began if self._now()[0] in GOES_ON else 0.0
            due = time.monotonic() + max(_TABLES_SECONDS, _TABLES_SHARE * took)
            while not stop.wait(_TABLES_SECONDS) and time.monotonic() < due and self._now()[0] in GOES_ON:
                pass


def _json(state: str, more: bool, **parts: Any) -> bytes:
    return json.dumps({"state": state, "more": more, **parts}, ensure_ascii=False).encode()


class _Handler(BaseHTTPRequestHandler):
    """Answers two addresses, to whoever knows them, under this machine's own name."""

    server: _Server
    timeout = 10  # seconds without a byte: a connection that says nothing holds a thread
    server_version, sys_version = "streambpe", ""

    def do_GET(self) -> None:
        """The page, or what is new."""
        port = self.server.server_address[1]
        if self.headers.get("Host") not in (f"{HOST}:{port}", f"localhost:{port}"):
            self._send(403, b"", "text/plain")  # another site's name that leads here
            return
        _, token, *rest = self.path.split("/") if self.path.count("/") == 2 else ["", "", ""]
        if not hmac.compare_digest(token.encode(), self.server.token.encode()) or rest[0] not in ("", "data"):
            self._send(404, b"", "text/plain")
        elif rest[0] == "data":
            self._send(200, self.server.answer(), "application/json")
        else:
            self._send(200, self.server.page, "text/html; charset=utf-8")

    do_HEAD = do_GET

    def _send(self, code: int, body: bytes, kind: str) -> None:
        self.send_response(code)
        for name, value in (
            ("Content-Type", kind), ("Content-Length", str(len(body))), ("Cache-Control", "no-store"),
            ("Content-Security-Policy", _POLICY), ("X-Content-Type-Options", "nosniff"),
            ("X-Frame-Options", "DENY"), ("Referrer-Policy", "no-referrer"),
        ):  # fmt: skip
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            with contextlib.suppress(ConnectionError):
                self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing is written about requests."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, port: int, every: float, answer: Callable[[], bytes]) -> None:
        self.token = secrets.token_urlsafe(18)
        self.answer = answer
        scripts = read_assets("page.js", "live.js")
        self.page = fill("live.html", head=html_head("streambpe"), every=every, scripts=scripts).encode()
        super().__init__((HOST, port), _Handler)

    def handle_error(self, *_: object) -> None:
        """A browser that went away is no news."""


def watch_page(
    run: Path | str,
    tell: Callable[[str], None],
    *,
    name: str | None = None,
    every: float = 0.5,
    port: int = 0,
    stop: threading.Event | None = None,
) -> None:
    """Serve the page of a run until Ctrl-C (or `stop`). `tell` is given the address; `port` 0: any that is free. The
    page asks `every` so many seconds."""
    view = View(Run(run), name)
    if view.run.path.is_file():
        view.run.refuse_missing()
    live, stop = LiveRun(view), stop or threading.Event()
    try:
        server = _Server(port, every, live.answer)
    except OSError as why:
        raise UsageError(
            f"--port {port}: nothing can be served there ({why.strerror}). Give another, or leave --port out."
        ) from None
    address = f"http://{HOST}:{server.server_address[1]}/{server.token}/"
    for work in (server.serve_forever, lambda: live.read_tables_until(stop)):
        threading.Thread(target=work, daemon=True).start()
    tell(f"{address} shows {harmless(str(run))}, on this machine only. Ctrl-C ends it.")
    try:
        while not stop.wait(1.0):
            pass
    finally:
        stop.set()
        live.asked.set()
        server.shutdown()
        server.server_close()
