"""Headless Chromium for tests: open a page, ask what happened, take a picture.

Speaks the DevTools protocol over a pipe (NUL-separated JSON on two file descriptors), so it needs
no port, no driver and no package, only the browser. `find()` says where that is;
`LIKEWISE_CHROMIUM` names another.
"""

import base64
import json
import os
import selectors
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
PATIENCE = 60.0  # seconds for an answer

# The browser reads from descriptor 3 and writes to 4. Both ends move out of the way first.
_PUT_PIPES = """
import fcntl, os, sys
ends = [fcntl.fcntl(int(end), fcntl.F_DUPFD, 10) for end in sys.argv[1:3]]
for place, end in zip((3, 4), ends):
    os.dup2(end, place)
os.execv(sys.argv[3], sys.argv[3:])
"""


def find() -> str | None:
    named = os.environ.get("LIKEWISE_CHROMIUM")
    return named or next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    """One headless browser, with a profile of its own that goes with it."""

    def __init__(self, program: str) -> None:
        self._profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        to_browser, self._out = os.pipe()
        self._in, from_browser = os.pipe()
        command = [
            *(sys.executable, "-c", _PUT_PIPES, str(to_browser), str(from_browser), program),
            *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"),
            *("--no-first-run", "--disable-background-networking", "--disable-sync"),
            *("--disable-component-update", "--disable-extensions", "--hide-scrollbars"),
            *("--remote-debugging-pipe", f"--user-data-dir={self._profile.name}", "about:blank"),
        ]
        self._process = subprocess.Popen(
            command,
            pass_fds=(to_browser, from_browser),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_browser)
        os.close(from_browser)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._in, selectors.EVENT_READ)
        self._buffer = b""
        self._last = 0
        self.events: list[dict[str, Any]] = []

    def call(self, method: str, session: str | None = None, **params: Any) -> dict[str, Any]:
        """Send a command and wait for its answer; events that come meanwhile are kept."""
        self._last += 1
        sent = {"id": self._last, "method": method, "params": params}
        if session is not None:
            sent["sessionId"] = session
        os.write(self._out, json.dumps(sent).encode() + b"\0")
        while True:
            message = self._receive()
            if message.get("id") == self._last:
                assert "error" not in message, f"{method}: {message['error']}"
                return message["result"]
            self.events.append(message)

    def wait_for(self, method: str, session: str) -> None:
        def seen() -> bool:
            return any(
                one.get("method") == method and one.get("sessionId") == session
                for one in self.events
            )

        while not seen():
            self.events.append(self._receive())

    def _receive(self) -> dict[str, Any]:
        end = time.monotonic() + PATIENCE
        while b"\0" not in self._buffer:
            ready = self._selector.select(max(0.0, end - time.monotonic()))
            assert ready, f"the browser did not answer within {PATIENCE:g} seconds"
            part = os.read(self._in, 1 << 16)
            assert part, "the browser is gone"
            self._buffer += part
        message, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(message)

    def open(self, path: Path, *, width: int = 1200, height: int = 900, dark: bool = False):
        return Page(self, path, width, height, dark)

    def close(self) -> None:
        os.close(self._out)  # which tells the browser to go
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._selector.close()
        os.close(self._in)
        self._profile.cleanup()


class Page:
    """A page that was opened and has loaded, and what was noticed on the way."""

    def __init__(self, browser: Browser, path: Path, width: int, height: int, dark: bool) -> None:
        self._browser = browser
        self._target = browser.call("Target.createTarget", url="about:blank")["targetId"]
        attached = browser.call("Target.attachToTarget", targetId=self._target, flatten=True)
        self.session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self._call(f"{domain}.enable")
        self._call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._call("Emulation.setEmulatedMedia", features=[scheme])
        self.url = path.resolve().as_uri()
        self._call("Page.navigate", url=self.url)
        browser.wait_for("Page.loadEventFired", self.session)

    def _call(self, method: str, **params: Any) -> dict[str, Any]:
        return self._browser.call(method, self.session, **params)

    def _events(self, method: str) -> list[dict[str, Any]]:
        return [
            one["params"]
            for one in self._browser.events
            if one.get("method") == method and one.get("sessionId") == self.session
        ]

    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression."""
        answer = self._call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    @property
    def complaints(self) -> list[str]:
        """Whatever was written to the console, thrown, or logged by the browser."""
        self.evaluate("1")  # everything before has arrived by now
        said = [str(one["args"]) for one in self._events("Runtime.consoleAPICalled")]
        said += [str(one["exceptionDetails"]) for one in self._events("Runtime.exceptionThrown")]
        said += [one["entry"]["text"] for one in self._events("Log.entryAdded")]
        return said

    @property
    def requests(self) -> list[str]:
        """The addresses asked for, beside the page itself and what it carries along."""
        self.evaluate("1")
        urls = [one["request"]["url"] for one in self._events("Network.requestWillBeSent")]
        return [url for url in urls if url != self.url and not url.startswith("data:")]

    def picture(self, path: Path, *, whole: bool = True) -> None:
        """Save what the page looks like as PNG: all of it, or one screen."""
        shot = self._call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        if whole:
            size = self._call("Page.getLayoutMetrics")["cssContentSize"]
            clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
            shot = self._call("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)
        path.write_bytes(base64.b64decode(shot["data"]))

    def pdf(self, path: Path) -> None:
        """Save what a printer would get."""
        printed = self._call("Page.printToPDF", printBackground=True, preferCSSPageSize=True)
        path.write_bytes(base64.b64decode(printed["data"]))

    def close(self) -> None:
        self._browser.call("Target.closeTarget", targetId=self._target)


if __name__ == "__main__":  # python tests/support/browser.py PAGE.html PICTURE.png [WIDTH [HEIGHT]]
    where, to, *size = sys.argv[1:]
    chromium = Browser(find() or "chromium")
    try:
        width, height = [*map(int, size), *(1200, 900)[len(size) :]]
        chromium.open(Path(where), width=width, height=height).picture(Path(to), whole=False)
    finally:
        chromium.close()
