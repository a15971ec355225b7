"""The page of a run that goes on: served on this machine only, read-only, and growing while the run counts and learns.

    http://127.0.0.1:PORT/TOKEN/       the page; TOKEN is drawn anew each time, and nothing else is answered
    http://127.0.0.1:PORT/TOKEN/data   tiles and cards as they are now (JSON), which the page asks for every second

The status is looked at every half second, as `watch` does it; the tables less often, the longer that takes.
Requests are answered from what was seen last and never touch the run.
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

import msgspec

from streambpe.count_config import SourceOptions
from streambpe.errors import StreambpeError, UsageError
from streambpe.inspect.embedded import read_asset
from streambpe.inspect.page import drawn, html_head, terms
from streambpe.inspect.page_facts import Facts, gather
from streambpe.inspect.page_panels import panels
from streambpe.inspect.status import describe_run, status_rows
from streambpe.inspect.watch import GOES_ON, View, sparkline
from streambpe.progress import Meter
from streambpe.resources import Resources
from streambpe.store.run import Run
from streambpe.text.shown import harmless

HOST = "127.0.0.1"
_TABLES_SECONDS, _TABLES_SHARE = 5.0, 20  # at least so long between two looks, and so many times what one takes
_DONE_SECONDS = 0.25  # between two looks at whether the run has ended
_RESOURCES = Resources(500 * 10**6, 1)
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; img-src data:"
_BODY = """
<body>
<header>
<h1 id="title">streambpe</h1>
<p id="note" role="status">Waiting for the first look at the run.</p>
<dl class="tiles" id="tiles"></dl>
</header>
<main id="cards"></main>
<aside id="lines" aria-label="Not in this page"></aside>
<div id="tip" hidden></div>
"""


class LiveRun(msgspec.Struct):
    """What is known of a run from looking at it, and the JSON that the page asks for."""

    view: View
    answer: bytes = b""
    state: str = "waiting"  # at the last look
    _tables: tuple[list[tuple[str, str]], str] = ([], "")  # cards and lines of what the tables said last

    def look(self) -> None:
        """Look at the status, and make the answer anew."""
        path = self.view.run.path
        if not self.view.run.status_file.exists():
            self.state, note = "waiting", "Nothing runs there yet; this page goes on when something does."
            self._answer(title=harmless(str(path)), note=note, tiles="", cards=[], lines="")
            return
        status = self.view.look()
        self.state = status["state"]
        rows = {"stage": harmless(status["stage"]), **status_rows(status)}
        rows["speed"] += f" {sparkline(list(self.view.rates))}"
        rows["latest tokens"] = "  ".join(f"{token} {n:,}" for token, n in self.view.latest)
        cards, lines = self._tables
        self._answer(
            title=harmless(f"{describe_run(path, status)}: {status['stage']}, {self.state}"),
            note=harmless(str(status.get("message") or f"As of {status['updated']}.")),
            tiles=terms(list(rows.items())),
            cards=cards,
            lines=lines,
        )

    def show(self, facts: Facts) -> None:
        """Draw what the tables say."""
        self._tables = drawn(panels(facts))

    def _answer(self, **parts: Any) -> None:
        self.answer = json.dumps({"state": self.state, **parts}, ensure_ascii=False).encode()


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

    def __init__(self, port: int, answer: Callable[[], bytes]) -> None:
        self.token = secrets.token_urlsafe(18)
        self.answer = answer
        scripts = f"<script>\n{read_asset('page.js')}{read_asset('live.js')}</script>\n</body>\n</html>\n"
        self.page = f"{html_head('streambpe')}{_BODY}{scripts}".encode()
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
    """Serve the page of a run until Ctrl-C (or `stop`). `tell` is given the address; `port` 0: any that is free."""
    view = View(Run(run), name)
    if view.run.path.is_file():
        view.run.refuse_missing()
    live, stop = LiveRun(view), stop or threading.Event()
    live.look()
    try:
        server = _Server(port, lambda: live.answer)
    except OSError as why:
        raise UsageError(
            f"--port {port}: nothing can be served there ({why.strerror}). Give another, or leave --port out."
        ) from None
    address = f"http://{HOST}:{server.server_address[1]}/{server.token}/"
    threads = [
        threading.Thread(target=server.serve_forever, args=(0.1,), daemon=True),
        threading.Thread(target=_read_tables, args=(live, stop), daemon=True),
    ]
    for thread in threads:
        thread.start()
    tell(f"{address} shows {harmless(str(run))}, on this machine only. Ctrl-C ends it.")
    try:
        while not stop.wait(every):
            live.look()
    finally:
        stop.set()
        server.shutdown()
        server.server_close()


def _read_tables(live: LiveRun, stop: threading.Event) -> None:
    """Read the tables again and again while something changes, and once more when the run is done."""
    seen: tuple[str, str] | None = None
    while not stop.is_set():
        took = 0.0
        with contextlib.suppress(StreambpeError, OSError):
            status = live.view.run.read_status()
            now = (str(status["state"]), str(status["updated"]))
            if now != seen:
                began = time.monotonic()
                name = live.view.name or status.get("training", "main")
                run = Run.open(live.view.run.path)
                live.show(gather(run, name, (), _RESOURCES, SourceOptions(), Meter("watching")))
                took, seen = time.monotonic() - began, now
        ends = time.monotonic() + max(_TABLES_SECONDS, _TABLES_SHARE * took if seen and seen[0] == "running" else 0.0)
        while time.monotonic() < ends and not stop.wait(_DONE_SECONDS):
            if seen and seen[0] == "running" and live.state not in (*GOES_ON, "waiting"):
                break  # it ended: what the page shows last is looked at now
