"""A web server for tests, in a thread: it serves bytes in ranges, notes what it is asked, and misbehaves when told."""

from __future__ import annotations

import contextlib
import re
import ssl
import threading
import zlib
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast

Mood = Callable[["Asked"], object]  # answers a request itself; False: it did not


class Server(ThreadingHTTPServer):
    """What is served, and what was asked for."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Asked)
        self.files: dict[str, bytes] = {}
        self.asked: list[tuple[str, int, int]] = []  # path, first byte, how many were sent
        self.headers: list[dict[str, str]] = []
        self.mood: Mood | None = None
        self.has_marks = True  # whether it tells ETags
        self.scheme = "http"

    def handle_error(self, *_: Any) -> None:
        """Say nothing of clients that hang up."""

    def url(self, path: str) -> str:
        """The address of a file."""
        return f"{self.scheme}://127.0.0.1:{self.server_port}{path}"

    def sent(self, path: str, above: int = 1) -> int:
        """How many bytes of a file were sent, in answers of more than `above`."""
        return sum(size for name, _, size in self.asked if name == path and size > above)


class Asked(BaseHTTPRequestHandler):
    """One request."""

    protocol_version = "HTTP/1.1"
    body = b""  # of a POST

    def do_GET(self) -> None:
        """Serve a file, or a range of it."""
        server = cast(Server, self.server)
        server.headers.append({name.lower(): value for name, value in self.headers.items()})
        if server.mood is not None and server.mood(self) is not False:
            return
        data = server.files.get(self.path)
        if data is None:
            self.answer(404)
            return
        begin, end = self.asked_range(len(data))
        if begin >= len(data):
            server.asked.append((self.path, begin, 0))
            self.answer(416, b"", {"Content-Range": f"bytes */{len(data)}"})
            return
        server.asked.append((self.path, begin, end - begin))
        self.answer(206, data[begin:end], {"Content-Range": f"bytes {begin}-{end - 1}/{len(data)}", **self.mark(data)})

    def do_HEAD(self) -> None:
        """Its size."""
        self.answer(200, headers={"Content-Length": str(len(cast(Server, self.server).files[self.path]))})

    def do_POST(self) -> None:
        """Only what the mood answers."""
        self.body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        mood = cast(Server, self.server).mood
        if mood is None or mood(self) is False:
            self.answer(404)

    def mark(self, data: bytes) -> dict[str, str]:
        """What tells one content from another."""
        return {"ETag": f'"{zlib.crc32(data):08x}"'} if cast(Server, self.server).has_marks else {}

    def asked_range(self, size: int) -> tuple[int, int]:
        """The range that is asked for."""
        found = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        assert found, "always asked in ranges"
        return int(found[1]), min(int(found[2]) + 1 if found[2] else size, size)

    def answer(self, status: int, data: bytes = b"", headers: dict[str, str] | None = None, cut: int = 0) -> None:
        """Send an answer; without its last `cut` bytes."""
        self.send_response(status)
        for name, value in {"Content-Length": str(len(data)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        with contextlib.suppress(OSError):
            self.wfile.write(data[: len(data) - cut])
            if cut:
                self.wfile.flush()
                self.close_connection = True

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@contextlib.contextmanager
def web_server(certificate: str | None = None) -> Iterator[Server]:
    """A server, until the end of the block. `certificate`: a file with one and its key, for https."""
    server = Server()
    if certificate:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        server.scheme = "https"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
