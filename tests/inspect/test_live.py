"""`watch --page`: who is answered, what the page says while a run learns and when it is done, and how it ends."""

from __future__ import annotations

import http.client
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from streambpe.errors import UsageError
from streambpe.inspect import live
from streambpe.inspect.live import LiveRun, watch_page
from streambpe.inspect.page_facts import gather
from streambpe.inspect.watch import View
from streambpe.store.run import Run
from streambpe.train.commands import train
from tests.inspect.browser import Browser, needs_chromium
from tests.runs import SMALL, break_off, cli, rows, text_run
from tests.samples import natural_text


@contextmanager
def served(run: Path, **options: Any) -> Iterator[str]:
    """The address of a run's page."""
    stop, told, found = threading.Event(), threading.Event(), []

    def tell(text: str) -> None:
        found.append(text.split(" ")[0])
        told.set()

    thread = threading.Thread(target=watch_page, args=(run, tell), kwargs={"every": 0.05, "stop": stop, **options})
    thread.start()
    try:
        assert told.wait(120)
        yield found[0]
    finally:
        stop.set()
        thread.join(120)
        assert not thread.is_alive()


def ask(address: str, path: str, method: str = "GET", host: str | None = None) -> tuple[int, bytes, dict[str, str]]:
    """(status, body, headers) of one request."""
    parts = urlsplit(address)
    connection = http.client.HTTPConnection("127.0.0.1", parts.port, timeout=20)
    connection.request(method, path, headers={"Host": host or parts.netloc})
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer.status, body, dict(answer.getheaders())


def test_only_who_knows_the_address_is_answered(tmp_path):
    """The token, this machine's own name, reading only; another token each time."""
    with served(tmp_path / "run") as address:
        path = urlsplit(address).path
        assert urlsplit(address).hostname == "127.0.0.1"
        assert len(path) > 20
        code, body, headers = ask(address, path)
        assert code == 200
        assert b"<h1" in body
        assert headers["Cache-Control"] == "no-store"
        assert "default-src 'none'" in headers["Content-Security-Policy"]
        code, body, _ = ask(address, path + "data")
        assert (code, json.loads(body)["state"]) == (200, "waiting")
        port = urlsplit(address).port
        assert ask(address, path + "data", host=f"localhost:{port}")[0] == 200
        for host in ("evil.example", f"evil.example:{port}", "127.0.0.1", f"127.0.0.1:{port}.evil.example"):
            assert ask(address, path + "data", host=host)[:2] == (403, b"")
        for wrong in ("/", "/data", path[:-2] + "/", path + "../x", path + "data/", "//"):
            assert ask(address, wrong)[:2] == (404, b""), wrong
        for method in ("POST", "PUT", "DELETE"):
            assert ask(address, path, method)[0] == 501
        assert ask(address, path, "HEAD")[1] == b""
        with pytest.raises(UsageError, match="nothing can be served there"):
            watch_page(tmp_path / "run", print, port=int(port or 0))
    with served(tmp_path / "run") as other:
        assert urlsplit(other).path != path
    with pytest.raises(ConnectionError):
        ask(address, path)
    assert not (tmp_path / "run").exists()


def test_a_connection_that_says_nothing_is_given_up(tmp_path, monkeypatch):
    """It held a thread for as long as the page was served."""
    assert live._Handler.timeout
    monkeypatch.setattr(live._Handler, "timeout", 0.2)
    with served(tmp_path / "run") as address:
        silent = socket.create_connection(("127.0.0.1", urlsplit(address).port), 20)
        with silent:
            assert silent.recv(1) == b""


def half_learned(folder: Path) -> Path:
    """A run whose training was broken off."""
    run = text_run(folder / "run", natural_text(2, 20_000) + "</script><img src=x onerror=alert(1)> " * 30)
    break_off(run, passes=8, vocab_size=600)
    return run


def test_what_the_page_is_told(tmp_path):
    """Status and the latest tokens, of which nothing is a tag."""
    run = half_learned(tmp_path)
    data = json.loads(LiveRun(View(Run(run), None)).answer())
    assert data["state"] != "waiting"
    ((last, n),) = rows(run, "SELECT shown, n FROM merge_curve ORDER BY seq DESC LIMIT 1")
    assert f"<dt>latest tokens</dt><dd>{escape(last)} {n:,}" in data["tiles"]
    assert "onerror=alert(1)>" not in data["tiles"]


def test_a_finished_run_is_looked_at_only_when_the_page_asks(tmp_path, monkeypatch):
    """And its tables once: then the page is told to ask no more, and of when the figures are."""
    run = text_run(tmp_path / "run", natural_text(2, 20_000))
    train(run, resources=SMALL, vocab_size=300)
    looks, reads = [], []

    class Noted(View):
        def look(self):
            looks.append(1)
            return super().look()

    def noted(*arguments):
        reads.append(1)
        return gather(*arguments)

    monkeypatch.setattr(live, "View", Noted)
    monkeypatch.setattr(live, "gather", noted)
    with served(run) as address:
        path = urlsplit(address).path + "data"
        assert not looks
        asked = 1
        while (data := json.loads(ask(address, path)[1]))["more"]:
            asked += 1
        assert {name for name, _ in data["cards"]} == {"sizes", "frequencies", "merge-counts"}
        assert "Nothing runs now: the figures are of that moment" in data["note"]
        for _ in range(3):
            assert json.loads(ask(address, path)[1]) == data
        assert len(looks) == asked
    assert len(reads) == 1


def test_options_that_make_no_sense_are_refused(tmp_path):
    """--port without --page, --once with it."""
    assert "--port is the port of --page" in cli("watch", tmp_path, "--port", "8000", expect=2).stderr
    assert "leave one of them out" in cli("watch", tmp_path, "--page", "--once", expect=2).stderr


@needs_chromium
@pytest.mark.long
def test_the_page_grows(tmp_path):
    """It waits, shows a run that was broken off, then the finished one, without being loaded again; no complaints."""
    with Browser(tmp_path) as browser, served(tmp_path / "run") as address:
        browser.open(address, width=390)
        browser.wait_for("document.body.dataset.ready === 'waiting'")
        run = half_learned(tmp_path)
        browser.wait_for("document.getElementById('chart-merge-counts')")
        assert browser.run("document.documentElement.scrollWidth") <= 390
        before = browser.run("document.getElementById('merge-counts').textContent")
        train(run, resources=SMALL, vocab_size=600)
        browser.wait_for("document.getElementById('chart-sizes')")
        assert browser.run("document.body.dataset.ready") == "done"
        assert browser.run("document.getElementById('merge-counts').textContent") != before
        assert browser.run("document.images.length") == 0
        browser.wait_for("document.getElementById('note').textContent.includes('Nothing runs now')")
        asked = "performance.getEntriesByType('resource').length"
        n = browser.run(asked)
        assert browser.run(f"new Promise(done => setTimeout(() => done({asked}), 500))") <= n + 1
        assert browser.complaints == []
