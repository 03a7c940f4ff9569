"""Starts the real server as a process on a free port of loopback, and ends it by its id."""

import http.client
import json
import os
import queue
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

SECONDS = 60
RULE = 'metric = "linf"\nepsilon = 0.1\n'


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=SECONDS)
        self._path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(SECONDS)
        self.sock.connect(self._path)


@dataclass
class Answer:
    status: int
    headers: dict
    body: bytes

    def json(self):
        return json.loads(self.body)


@dataclass
class Running:
    """A server that was started, and what it has said."""

    process: subprocess.Popen
    told: list = field(default_factory=list)
    lines: queue.Queue = field(default_factory=queue.Queue)
    host: str = "127.0.0.1"
    port: int = 0
    uds: str | None = None
    token: str | None = None
    name: str = "default"
    reader: threading.Thread | None = None

    @property
    def url(self):
        return f"http://{self.host}:{self.port}"

    def wait_for(self, words):
        """The first line with these words; fails if it ends without them."""
        end = time.monotonic() + SECONDS
        while True:
            try:
                line = self.lines.get(timeout=max(0.1, end - time.monotonic()))
            except queue.Empty:
                raise AssertionError(f"it does not say {words!r}: {self.told}") from None
            if line is None:
                raise AssertionError(f"it ended with {self.process.wait(5)}: {self.told}")
            self.told.append(line)
            if words in line:
                return line

    def connection(self):
        if self.uds is not None:
            return _UnixConnection(self.uds)
        return http.client.HTTPConnection(self.host, self.port, timeout=SECONDS)

    def ask(self, method, path, body=None, headers=None, *, token=None, connection=None):
        """One request; the body is JSON unless it is bytes."""
        own = connection is None
        connection = self.connection() if own else connection
        headers = dict(headers or {})
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
        if body is not None:
            headers.setdefault("content-type", "application/json")
        token = self.token if token is None else token
        if token:
            headers.setdefault("authorization", f"Bearer {token}")
        try:
            connection.request(method, path, body, headers)
            response = connection.getresponse()
            named = {key.lower(): value for key, value in response.getheaders()}
            return Answer(response.status, named, response.read())
        finally:
            if own:
                connection.close()

    def post(self, verb, body, **more):
        return self.ask("POST", f"/v1/monitors/{self.name}/{verb}", body, **more)

    def get(self, verb="", **more):
        path = f"/v1/monitors/{self.name}" + (f"/{verb}" if verb else "")
        return self.ask("GET", path, **more)

    def end(self):
        """Have it end in good order; its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(SECONDS)

    def kill(self):
        self.process.kill()
        self.process.wait(SECONDS)
        self.reader.join(SECONDS)
        self.process.stderr.close()


def command(*arguments):
    return [sys.executable, "-m", "likewise", "serve", *map(str, arguments)]


def started(*arguments, before=(), ready=True, **more):
    """A server, listening; `before` goes before its command."""
    given = [] if "--uds" in arguments else ["--port", more.pop("port", 0)]
    process = subprocess.Popen(
        [*before, *command(*arguments, *given)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
    )
    running = Running(process, **more)

    def read():
        for line in process.stderr:
            running.lines.put(line.rstrip("\n"))
        running.lines.put(None)

    running.reader = threading.Thread(target=read, daemon=True)
    running.reader.start()
    try:
        where = running.wait_for("opening ").rpartition(" for ")[2].rstrip('"}')  # of JSON
        if where.startswith("unix:"):
            running.uds = where.removeprefix("unix:")
        else:
            running.port = int(where.rpartition(":")[2])
        if ready:
            running.wait_for("ready")
    except BaseException:
        running.kill()
        raise
    return running


@contextmanager
def serving(*arguments, **more):
    """The same for a while; it is killed at the end if it has not ended by itself."""
    running = started(*arguments, **more)
    try:
        yield running
    finally:
        running.kill()


def settings(folder: Path, text: str = "", *, rule: str = RULE, monitors: str | None = None):
    """A file of settings, with one monitor `default` with a ledger unless told otherwise."""
    (folder / "rule.toml").write_text(rule)
    if monitors is None:
        monitors = '[monitors.default]\nrule = "rule.toml"\nledger = "ledger"\n'
    path = folder / "settings.toml"
    path.write_text(f"{text}\n{monitors}\n")
    return path


def reached_end(path):
    """How a command that does not serve ends: its code and what it says."""
    done = subprocess.run(path, capture_output=True, text=True, timeout=SECONDS, check=False)
    return done.returncode, done.stderr
