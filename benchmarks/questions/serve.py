"""How many decisions a second does the service take, beside a bare ASGI application?

The server has one core and wrk the other; tokens and limits are on. Every run has a server of its
own, which has taken the same history before, so that no run pays for the rows of another. In a run
of batches the history grows by some hundred thousand rows a second all the same, and a search takes
longer in a longer one: so such a run lasts a second, and the table says how many rows there were on
average. At EPSILON some six of a hundred decisions have a like case at first. One of every PLANTED
decisions is one of the history with the other output, so that it is flagged; in one row every
second is.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import oracle
from benchmarks.answer import Answer, Setting, Skipped, Table
from benchmarks.child import ROOT
from benchmarks.scratch import scratch
from likewise import Monitor, Rule
from likewise.ledger.ledger import Ledger

Array = NDArray[Any]
COLUMNS_WIDE, EPSILON = 12, 0.05
HISTORY = 100_000
EACH = 1_000  # decisions to a batch
BATCHES, SINGLES = 1_000, 40_000
PLANTED = 32
HALF_FLAGGED = "batch, JSON columns, half of it flagged"
SECONDS, BATCH_SECONDS = 3.0, 1.0
ARROW = "application/vnd.apache.arrow.stream"
COLUMNS = {
    "place": "history",
    "how": "how",
    "connections": "connections",
    "rate": "decisions a second",
    "p50_ms": "p50, ms",
    "p99_ms": "p99, ms",
    "cpu_us": "server CPU, µs a decision",
    "flagged": "flagged, %",
    "mean_rows": "rows in the history, on average",
    "echo_ratio": "÷ bare ASGI echo",
}
Bodies = Sequence[bytes]


def ask(setting: Setting) -> Answer:
    if shutil.which("wrk") is None or shutil.which("taskset") is None:
        raise Skipped("wrk is not installed (Debian has it), or taskset is not.")
    if len(os.sched_getaffinity(0)) < 2:
        raise Skipped("there is one core; the server needs one of its own.")
    history = setting.rows(HISTORY)
    batches, singles = setting.rows(BATCHES, 5), setting.rows(SINGLES, 200)
    points, outputs = setting.rows_source().rows(history + batches * EACH + singles, COLUMNS_WIDE)
    points = points.astype("float64").round(5)
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(dir=scratch()) as folder:
        told = _Told(Path(folder), setting, points, outputs, history, batches)
        echo = told.echo()
        rows.append({"place": "none", "how": "bare ASGI echo", **echo})
        for place in ("memory", "ledger"):
            found = told.served(place)
            for row in found:
                if row["how"] == "one a request" and row["connections"] == 32:
                    row["echo_ratio"] = row["rate"] / echo["rate"]
            rows += found
    return Answer(
        "The service",
        {
            "serve": Table(
                COLUMNS,
                rows,
                f"{COLUMNS_WIDE} numbers a decision, L∞ ε {EPSILON:g}, {history:,} decisions in the"
                f" history before, batches of {EACH:,}; wrk on loopback for"
                f" {_seconds(setting):g} s, of batches for {BATCH_SECONDS:g} s, best of"
                f" {setting.rounds}. What is sent joins the history. With a ledger every answer is"
                " durable.",
            )
        },
        [
            "every request was answered with 200",
            "every decision that was answered is in the history",
            "as many decisions of the history were flagged as by a monitor in this process",
            "in every run some decisions were flagged, and not all",
        ],
        ["One core for the server and one for wrk; a token and all limits are on."],
    )


def _seconds(setting: Setting) -> float:
    return SECONDS if setting.scale >= 1 else 1.0


class _Told:
    """Bodies that are sent, and servers to send them to."""

    def __init__(
        self,
        folder: Path,
        setting: Setting,
        points: Array,
        outputs: Array,
        history: int,
        batches: int,
    ) -> None:
        self.folder, self.setting = folder, setting
        self.history = points[:history], outputs[:history]
        monitor = Monitor(Rule("linf", EPSILON), comparable=True)
        self.flagged = int(monitor.observe_many(*self.history).violations.sum())
        stop = history + batches * EACH
        spans = [slice(i, i + EACH) for i in range(history, stop, EACH)]
        half = _planted(points, outputs, history, 2)
        self.half = _written(folder / "half", [_columns(*_part(half, span)) for span in spans])
        few = _planted(points, outputs, history, PLANTED)
        self.columns = _written(folder / "columns", [_columns(*_part(few, span)) for span in spans])
        self.arrow = _written(folder / "arrow", [_arrow(*_part(few, span)) for span in spans])
        rest = zip(*(column.tolist() for column in _part(few, slice(stop, None))), strict=True)
        single = [json.dumps({"x": x, "z": z}, separators=(",", ":")).encode() for x, z in rest]
        self.single = _written(folder / "single", single)

    def echo(self) -> dict[str, Any]:
        command = [sys.executable, "-m", "uvicorn", "benchmarks.echo:app", "--log-level", "error"]
        runs = []
        for _ in range(self.setting.rounds):
            port = _free_port()
            with _server([*command, "--no-access-log", "--port", str(port)], port) as server:
                runs.append(self._run(server, "/", self.single, "application/json", 32, 1))
        return {"connections": 32, **_best(runs)}

    def served(self, place: str) -> list[dict[str, Any]]:
        rows = []
        for how, verb, file, kind, connections, each in (
            ("one a request", "observe", self.single, "application/json", 32, 1),
            ("one a request", "observe", self.single, "application/json", 1, 1),
            ("batch, JSON columns", "batch", self.columns, "application/json", 2, EACH),
            ("batch, Arrow", "batch", self.arrow, ARROW, 2, EACH),
            (HALF_FLAGGED, "batch", self.half, "application/json", 2, EACH),
        ):
            runs = []
            for _ in range(self.setting.rounds):
                with self._with_history(place) as server:
                    before, path = server.get("/stats"), f"/v1/monitors/default/{verb}"
                    there = server.get()["rows"]
                    run = self._run(server, path, file, kind, connections, each)
                    after, kept = server.get("/stats"), server.get()["rows"]
                decisions = after["decisions"] - before["decisions"]
                flagged = after["violations"] - before["violations"]
                oracle.require(0 < flagged < decisions, f"{flagged} of {decisions} were flagged")
                beside = {"flagged": 100 * flagged / decisions, "mean_rows": (there + kept) // 2}
                runs.append(run | beside)
                self._check_kept(place, kept, run["requests"] * each)
            rows.append({"place": place, "how": how, "connections": connections, **_best(runs)})
        return rows

    @contextmanager
    def _with_history(self, place: str) -> Iterator[_Server]:
        """A new server, which has taken the history."""
        from likewise.service.tokens import new_token

        shutil.rmtree(self.folder / "ledger", ignore_errors=True)
        token, hashed = new_token()
        ledger = f'ledger = "{place}"\n' if place == "ledger" else ""
        (self.folder / "rule.toml").write_text(f'metric = "linf"\nepsilon = {EPSILON}\n')
        settings = self.folder / f"{place}.toml"
        settings.write_text(
            f'[limits]\nrate = 1e9\n[[tokens]]\nname = "wrk"\nhash = "{hashed}"\n'
            f'scopes = ["observe", "read"]\n[monitors.default]\nrule = "rule.toml"\n{ledger}'
        )
        port = _free_port()
        command = [sys.executable, "-m", "likewise", "serve", str(settings), "--port", str(port)]
        with _server(command, port) as server:
            server.token = token
            x, z = self.history
            flagged = 0
            for i in range(0, len(x), 10_000):
                body = _columns(x[i : i + 10_000], z[i : i + 10_000])
                flagged += server.post("batch", body)["violations"]
            oracle.require(
                flagged == self.flagged, f"{flagged} were flagged; a monitor says {self.flagged}"
            )
            yield server

    def _check_kept(self, place: str, kept: int, sent: int) -> None:
        least = len(self.history[0]) + sent
        oracle.require(kept >= least, f"{least} decisions were answered, {kept} are there")
        if place == "ledger":
            with Ledger(self.folder / "ledger") as ledger:
                oracle.require(ledger.rows >= least, "the ledger has fewer than were answered")

    def _run(
        self, server: _Server, path: str, file: Path, kind: str, connections: int, each: int
    ) -> dict[str, Any]:
        before = server.cpu_seconds()
        seconds = _seconds(self.setting) if each == 1 else BATCH_SECONDS
        run = _wrk(server, path, file, kind, connections, seconds)
        cpu = server.cpu_seconds() - before
        oracle.require(run["bad"] == 0, f"{run['bad']} requests were not answered with 200")
        oracle.require(run["requests"] > 0, "nothing was answered")
        count = run["requests"] * each
        return {**run, "rate": count / run["seconds"], "cpu_us": cpu / count * 1e6}


def _best(runs: list[dict[str, Any]]) -> dict[str, Any]:
    best = max(runs, key=lambda run: run["rate"])
    return {name: best[name] for name in COLUMNS if name in best}


class _Server:
    """A server that was started on a core of its own."""

    def __init__(self, process: subprocess.Popen[bytes], port: int) -> None:
        self.process, self.port = process, port
        self.token = "none"

    def post(self, verb: str, body: bytes) -> Any:
        return json.loads(self._ask("POST", f"/v1/monitors/default/{verb}", body))

    def get(self, what: str = "") -> Any:
        return json.loads(self._ask("GET", f"/v1/monitors/default{what}", None))

    def _ask(self, method: str, path: str, body: bytes | None) -> bytes:
        import http.client

        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        headers = {"authorization": f"Bearer {self.token}", "content-type": "application/json"}
        connection.request(method, path, body, headers)
        response = connection.getresponse()
        answer = response.read()
        connection.close()
        oracle.require(response.status == 200, f"{response.status}: {answer[:200]!r}")
        return answer

    def cpu_seconds(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def _server(command: list[str], port: int) -> Iterator[_Server]:
    first, *_ = sorted(os.sched_getaffinity(0))
    process = subprocess.Popen(
        ["taskset", "-c", str(first), *command], cwd=ROOT, stderr=subprocess.DEVNULL
    )
    try:
        _wait_until_ready(process, port, readyz="likewise" in command)
        yield _Server(process, port)
        process.send_signal(signal.SIGTERM)
        process.wait(60)
    finally:
        process.kill()
        process.wait()


def _wait_until_ready(process: subprocess.Popen[bytes], port: int, *, readyz: bool) -> None:
    import http.client

    end = time.monotonic() + 60
    while time.monotonic() < end and process.poll() is None:
        try:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
            connection.request("GET", "/readyz" if readyz else "/")
            ready = connection.getresponse().status == 200
            connection.close()
        except OSError:
            ready = False
        if ready:
            return
        time.sleep(0.05)
    raise RuntimeError("the server did not start")


def _wrk(
    server: _Server, path: str, file: Path, kind: str, connections: int, seconds: float
) -> dict[str, Any]:
    *_, last = sorted(os.sched_getaffinity(0))
    script = Path(__file__).parents[1] / "wrk.lua"
    command = f"taskset -c {last} wrk -t1 -c{connections} -d{round(seconds)}s -s {script}".split()
    where = f"http://127.0.0.1:{server.port}{path}"
    done = subprocess.run(
        [*command, where, "--", str(file), kind, f"Bearer {server.token}"],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    found: dict[str, Any] = json.loads(done.stdout.rpartition("SUMMARY ")[2])
    return found


def _planted(points: Array, outputs: Array, history: int, every: int) -> tuple[Array, Array]:
    """The same decisions, but of every so many behind the history one contradicts one in it."""
    places = np.arange(history, len(points), every)
    origins = np.arange(len(places)) % history
    points, outputs = points.copy(), outputs.copy()
    points[places], outputs[places] = points[origins], 1 - outputs[origins]
    return points, outputs


def _part(decisions: tuple[Array, Array], span: slice) -> tuple[Array, Array]:
    return decisions[0][span], decisions[1][span]


def _columns(x: Array, z: Array) -> bytes:
    return json.dumps({"x": x.tolist(), "z": z.tolist()}, separators=(",", ":")).encode()


def _arrow(x: Array, z: Array) -> bytes:
    import pyarrow as pa

    values = pa.array(np.ascontiguousarray(x).reshape(-1))
    table = pa.table({"x": pa.FixedSizeListArray.from_arrays(values, x.shape[1]), "z": z})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    body: bytes = sink.getvalue().to_pybytes()
    return body


def _written(path: Path, bodies: Bodies) -> Path:
    path.write_bytes(b"".join(b"%d\n%s" % (len(body), body) for body in bodies))
    return path


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port
