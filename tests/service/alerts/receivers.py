"""A real receiver on loopback: takes what it is posted, unless it is told to be ill."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

SERVE = [sys.executable, "-m", "likewise", "serve"]


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


class Receiver:
    """Listens on a port; `taken` are the messages that it answered with 200, as they came."""

    def __init__(self, port=None):
        self.port = port or free_port()
        self.taken: list[tuple[str, dict[str, str], bytes]] = []
        self.refused = 0
        self.status = 200
        self.slow_seconds = 0.0
        self.most_bytes = 1 << 30
        self._server = None

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}/hook"

    def start(self):
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["content-length"]))
                time.sleep(outer.slow_seconds)
                status = 413 if len(body) > outer.most_bytes else outer.status
                if status == 200:
                    headers = {name.lower(): value for name, value in self.headers.items()}
                    outer.taken.append((self.path, headers, body))
                else:
                    outer.refused += 1
                with contextlib.suppress(OSError):
                    self.send_response(status)
                    self.send_header("content-length", "0")
                    self.end_headers()

            def log_message(self, *_):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", self.port), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def stop(self):
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def alerts(self):
        """All that were told, in order: (status, alertname, monitor, id)."""
        return [
            (
                one["status"],
                one["labels"]["alertname"],
                one["labels"]["monitor"],
                one["fingerprint"],
            )
            for _, _, body in self.taken
            for one in json.loads(body)["alerts"]
        ]


class Server:
    """`likewise serve` in a process of its own."""

    def __init__(self, config: Path, before=(), **environment):
        """before: what the command is an argument of"""
        self.port = free_port()
        self.process = subprocess.Popen(
            [*before, *SERVE, str(config), "--port", str(self.port)],
            env={**os.environ, **environment},
            stderr=subprocess.DEVNULL,
        )
        try:
            until(self.ready)
        except BaseException:
            self.kill()
            raise

    def ready(self):
        assert self.process.poll() is None, "the server has ended"
        with contextlib.suppress(OSError):
            return self.get("/readyz")[0] == 200

    def get(self, path):
        return self._asked(urllib.request.Request(f"http://127.0.0.1:{self.port}{path}"))

    def post(self, path, body, **headers):
        url, sent = f"http://127.0.0.1:{self.port}{path}", json.dumps(body).encode()
        headers = {"content-type": "application/json"} | headers
        return self._asked(urllib.request.Request(url, sent, headers))

    def _asked(self, request):
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return answer.status, json.loads(answer.read())
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read())

    def kill(self):
        self.process.kill()
        self.process.wait(30)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)


def until(true, seconds=60.0):
    """Wait until something is so; a bound, not a measurement."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := true():
            return found
        time.sleep(0.02)
    raise AssertionError("it did not become so in time")
