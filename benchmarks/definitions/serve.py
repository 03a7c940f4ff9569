"""How many decisions a second does the service take, beside a bare ASGI application?

The server has one core and wrk the other; tokens and limits are on. Every run has a server of its
own, which has taken the same history before, so that no run pays for the rows of another. In a run
of batches the history grows by some hundred thousand rows a second all the same, and a search takes
longer in a longer one: so such a run lasts a second, and mean_rows says how many rows there were on
average. At EPSILON some six of a hundred decisions have a like case at first. One of every PLANTED
decisions is one of the history with the other output, so that it is flagged; in one row every
second is.
"""

from __future__ import annotations

import http.client
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import oracle
from benchmarks.harness import Answer, Row, Setting, Skipped, benchmark
from benchmarks.measure import cpu_seconds
from benchmarks.processes import ROOT, free_port, scratch, server
from likewise import Monitor, Rule
from likewise.ledger.ledger import Ledger

Array = NDArray[Any]
WIDTH, EPSILON = 12, 0.05
HISTORY = 100_000
EACH = 1_000  # decisions to a batch
BATCHES, SINGLES = 1_000, 40_000
PLANTED = 32
SECONDS, BATCH_SECONDS = 3.0, 1.0
ONE, COLUMNS, ARROW = "one a request", "batch, JSON columns", "batch, Arrow"
HALF_FLAGGED = "batch, JSON columns, half of it flagged"
ARROW_TYPE = "application/vnd.apache.arrow.stream"


@benchmark("The service")
def serve(setting: Setting) -> Answer:
    """How many decisions a second does the service take?

    rate: decisions a second; cpu_us: of the server, for a decision; flagged: in percent;
    mean_rows: in the history, on average.

    One core for the server and one for wrk; a token and all limits are on.
    """
    if shutil.which("wrk") is None or shutil.which("taskset") is None:
        raise Skipped("wrk is not installed (Debian has it), or taskset is not.")
    if len(os.sched_getaffinity(0)) < 2:
        raise Skipped("there is one core; the server needs one of its own.")
    with tempfile.TemporaryDirectory(dir=scratch()) as folder:
        load = _Load(Path(folder), setting)
        echo = load.run_echo()
        rows = [{"place": "none", "how": "bare ASGI echo", **echo}]
        for place in ("memory", "ledger"):
            for row in load.run_service(place):
                if (row["how"], row["connections"]) == (ONE, 32):
                    row["echo_ratio"] = row["rate"] / echo["rate"]
                rows.append(row)
    return Answer(
        {"serve": rows},
        [
            "every request was answered with 200",
            "every decision that was answered is in the history",
            "as many decisions of the history were flagged as by a monitor in this process",
            "in every run some decisions were flagged, and not all",
        ],
        [
            f"{WIDTH} numbers a decision, L∞ ε {EPSILON:g}, {setting.rows(HISTORY):,} decisions in"
            f" the history before, batches of {EACH:,}; wrk on loopback for"
            f" {load.seconds:g} s, of batches for {BATCH_SECONDS:g} s, best of {setting.rounds}."
            " What is sent joins the history. With a ledger every answer is durable."
        ],
    )


@dataclass
class _Server:
    """A server that was started on a core of its own."""

    port: int
    process: subprocess.Popen[bytes] | None = None
    token: str = "none"

    def ask(self, method: str, path: str, body: bytes | None = None) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        headers = {"authorization": f"Bearer {self.token}", "content-type": "application/json"}
        connection.request(method, path, body, headers)
        response = connection.getresponse()
        answer = response.read()
        connection.close()
        return response.status, answer

    def ask_monitor(self, method: str, what: str = "", body: bytes | None = None) -> Any:
        status, answer = self.ask(method, f"/v1/monitors/default{what}", body)
        oracle.require(status == 200, f"{status}: {answer[:200]!r}")
        return json.loads(answer)

    def is_ready(self, path: str) -> bool:
        try:
            return self.ask("GET", path)[0] == 200
        except OSError:
            return False


@contextmanager
def _started(words: list[str], ready: str) -> Iterator[_Server]:
    """Start a module on the first core, on a free port."""
    core, *_ = sorted(os.sched_getaffinity(0))
    one = _Server(free_port())
    command = ["taskset", "-c", str(core), sys.executable, "-m", *words, "--port", str(one.port)]
    with server(command, lambda: one.is_ready(ready)) as one.process:
        yield one


@dataclass(frozen=True)
class _Requests:
    """Bodies in a file, and how they are sent."""

    how: str
    path: str
    file: Path
    connections: int
    each: int  # decisions to a request
    kind: str = "application/json"


class _Load:
    """The requests, and servers to send them to."""

    def __init__(self, folder: Path, setting: Setting) -> None:
        self.folder, self.rounds = folder, setting.rounds
        self.seconds = SECONDS if setting.scale >= 1 else 1.0
        history, batches = setting.rows(HISTORY), setting.rows(BATCHES, 5)
        stop = history + batches * EACH
        points, outputs = setting.rows_source().rows(stop + setting.rows(SINGLES, 200), WIDTH)
        points = points.astype("float64").round(5)
        self.history = points[:history], outputs[:history]
        monitor = Monitor(Rule("linf", EPSILON), comparable=True)
        self.flagged = int(monitor.observe_many(*self.history).violations.sum())
        spans = [slice(i, i + EACH) for i in range(history, stop, EACH)]
        x, z = _planted(points, outputs, history, PLANTED)
        half_x, half_z = _planted(points, outputs, history, 2)

        def write(name: str, bodies: Iterator[bytes]) -> Path:
            path = folder / name
            path.write_bytes(b"".join(b"%d\n%s" % (len(body), body) for body in bodies))
            return path

        rest = zip(x[stop:].tolist(), z[stop:].tolist(), strict=True)
        one = write("single", (_dump({"x": x, "z": z}) for x, z in rest))
        columns = write("columns", (_columns(x[span], z[span]) for span in spans))
        arrow = write("arrow", (_arrow(x[span], z[span]) for span in spans))
        half = write("half", (_columns(half_x[span], half_z[span]) for span in spans))
        observe, batch = (f"/v1/monitors/default/{verb}" for verb in ("observe", "batch"))
        self.echoed = _Requests("", "/", one, 32, 1)
        self.sent = (
            _Requests(ONE, observe, one, 32, 1),
            _Requests(ONE, observe, one, 1, 1),
            _Requests(COLUMNS, batch, columns, 2, EACH),
            _Requests(ARROW, batch, arrow, 2, EACH, ARROW_TYPE),
            _Requests(HALF_FLAGGED, batch, half, 2, EACH),
        )

    def run_echo(self) -> Row:
        words = ["uvicorn", "benchmarks.echo:app", "--log-level", "error", "--no-access-log"]
        return self._best(lambda: _started(words, "/"), self.echoed, self._send)

    def run_service(self, place: str) -> Iterator[Row]:
        for requests in self.sent:
            run = self._best(lambda: self._with_history(place), requests, self._send_and_check)
            yield {"place": place, "how": requests.how, **run}

    def _best(self, start: Any, requests: _Requests, send: Callable[..., Row]) -> Row:
        """Return the fastest of several runs, each with a server of its own."""
        runs = []
        for _ in range(self.rounds):
            with start() as one:
                runs.append(send(one, requests))
        best = max(runs, key=lambda run: float(run["rate"]))
        best.pop("decisions", None)
        return {"connections": requests.connections, **best}

    @contextmanager
    def _with_history(self, place: str) -> Iterator[_Server]:
        """Start a new service, which takes the history."""
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
        with _started(["likewise", "serve", str(settings)], "/readyz") as one:
            one.token = token
            x, z = self.history
            flagged = 0
            for i in range(0, len(x), 10_000):
                body = _columns(x[i : i + 10_000], z[i : i + 10_000])
                flagged += one.ask_monitor("POST", "/batch", body)["violations"]
            complaint = f"{flagged} were flagged; a monitor says {self.flagged}"
            oracle.require(flagged == self.flagged, complaint)
            yield one

    def _send_and_check(self, one: _Server, requests: _Requests) -> Row:
        """Send requests; require that what was answered is there, and some of it flagged."""
        before, there = one.ask_monitor("GET", "/stats"), one.ask_monitor("GET")["rows"]
        run = self._send(one, requests)
        after, kept = one.ask_monitor("GET", "/stats"), one.ask_monitor("GET")["rows"]
        decisions, flagged = (after[key] - before[key] for key in ("decisions", "violations"))
        oracle.require(0 < flagged < decisions, f"{flagged} of {decisions} were flagged")
        least = there + run.pop("decisions")
        oracle.require(kept >= least, f"{least} decisions were answered, {kept} are there")
        if (self.folder / "ledger").exists():
            with Ledger(self.folder / "ledger") as ledger:
                oracle.require(ledger.rows >= least, "the ledger has fewer than were answered")
        return {**run, "flagged": 100 * flagged / decisions, "mean_rows": (there + kept) // 2}

    def _send(self, one: _Server, requests: _Requests) -> Row:
        """Have wrk send requests from the last core, and sum up."""
        assert one.process is not None
        *_, core = sorted(os.sched_getaffinity(0))
        seconds = round(self.seconds if requests.each == 1 else BATCH_SECONDS)
        wrk = f"taskset -c {core} wrk -t1 -c{requests.connections} -d{seconds}s -s"
        where = f"http://127.0.0.1:{one.port}{requests.path}"
        words = [str(ROOT / "benchmarks" / "wrk.lua"), where, "--", str(requests.file)]
        before = cpu_seconds(one.process.pid)
        done = subprocess.run(
            [*wrk.split(), *words, requests.kind, f"Bearer {one.token}"],
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
        )
        cpu = cpu_seconds(one.process.pid) - before
        run = json.loads(done.stdout.rpartition("SUMMARY ")[2])
        oracle.require(run["bad"] == 0, f"{run['bad']} requests were not answered with 200")
        oracle.require(run["requests"] > 0, "nothing was answered")
        count = run["requests"] * requests.each
        return {
            "rate": count / run["seconds"],
            "p50_ms": run["p50_ms"],
            "p99_ms": run["p99_ms"],
            "cpu_us": cpu / count * 1e6,
            "decisions": count,
        }


def _planted(points: Array, outputs: Array, history: int, every: int) -> tuple[Array, Array]:
    """Have one of every so many decisions behind the history contradict one in it."""
    places = np.arange(history, len(points), every)
    origins = np.arange(len(places)) % history
    points, outputs = points.copy(), outputs.copy()
    points[places], outputs[places] = points[origins], 1 - outputs[origins]
    return points, outputs


def _dump(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _columns(x: Array, z: Array) -> bytes:
    return _dump({"x": x.tolist(), "z": z.tolist()})


def _arrow(x: Array, z: Array) -> bytes:
    import pyarrow as pa

    values = pa.array(np.ascontiguousarray(x).reshape(-1))
    table = pa.table({"x": pa.FixedSizeListArray.from_arrays(values, x.shape[1]), "z": z})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    body: bytes = sink.getvalue().to_pybytes()
    return body
