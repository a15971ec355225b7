"""A headless Chromium, driven through pipes: pages are opened, scripts are run in them, and every complaint is kept.

with Browser(folder) as browser:
    browser.open(path.as_uri(), width=390, dark=True)
    browser.run("document.title")          any JSON value; promises are waited for
    browser.complaints                     what the page wrote to the console, and errors that nobody caught
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any

import pytest

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
needs_chromium = pytest.mark.skipif(
    CHROMIUM is None or os.name != "posix", reason="no Chromium here: nothing is opened in a browser"
)


class Browser:
    """One Chromium with one page."""

    def __init__(self, folder: Path) -> None:
        assert CHROMIUM is not None
        self.complaints: list[str] = []
        self._number, self._left = 0, b""
        to_read, self._write = os.pipe()
        self._read, to_write = os.pipe()
        self._process = subprocess.Popen(
            ["bash", "-c", f'exec 3<&{to_read} 4>&{to_write}; exec "$@"', "browser", CHROMIUM, "--headless=new",
             "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--remote-debugging-pipe",
             "--force-color-profile=srgb", f"--user-data-dir={folder / 'profile'}", "about:blank"],
            pass_fds=(to_read, to_write),
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(to_read)
        os.close(to_write)
        self._session: str | None = None
        (page,) = [t for t in self.ask("Target.getTargets")["targetInfos"] if t["type"] == "page"]
        self._session = self.ask("Target.attachToTarget", targetId=page["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.ask(f"{domain}.enable")

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: object, traceback: TracebackType | None) -> None:
        os.close(self._write)  # Chromium ends when its pipe does
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._read)

    def _message(self) -> dict[str, Any]:
        while b"\0" not in self._left:
            more = os.read(self._read, 1 << 16)
            if not more:
                raise EOFError("Chromium ended")
            self._left += more
        message, _, self._left = self._left.partition(b"\0")
        found: dict[str, Any] = json.loads(message)
        method, params = found.get("method"), found.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.complaints.append(str(params["exceptionDetails"].get("exception", params)))
        elif method == "Runtime.consoleAPICalled":
            self.complaints.append(str([one.get("value") for one in params["args"]]))
        elif method == "Log.entryAdded":
            self.complaints.append(f"{params['entry']['level']}: {params['entry']['text']}")
        return found

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """One command of the DevTools protocol -> its result."""
        self._number += 1
        command: dict[str, Any] = {"id": self._number, "method": method, "params": params}
        if self._session:
            command["sessionId"] = self._session
        data = json.dumps(command).encode() + b"\0"
        while data:
            data = data[os.write(self._write, data) :]
        while True:
            message = self._message()
            if message.get("id") == self._number:
                assert "error" not in message, message
                result: dict[str, Any] = message["result"]
                return result

    def open(self, address: str, width: int = 1300, height: int = 900, dark: bool = False) -> None:
        """Open a page and wait until it is loaded."""
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.ask("Emulation.setEmulatedMedia", features=[scheme])
        self.ask("Page.navigate", url=address)
        while self._message().get("method") != "Page.loadEventFired":
            pass

    def run(self, script: str) -> Any:
        """The value of an expression in the page."""
        done = self.ask("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in done, done["exceptionDetails"]
        return done["result"].get("value")

    def wait_for(self, condition: str) -> None:
        """Until an expression in the page is true."""
        self.run(
            f"new Promise(done => {{ const look = () => ({condition}) ? done() : setTimeout(look, 20); look(); }})"
        )

    def press(self, key: str) -> None:
        """A key on what has the focus."""
        for kind in ("keyDown", "keyUp"):
            self.ask("Input.dispatchKeyEvent", type=kind, key=key, code=key)
