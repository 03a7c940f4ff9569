"""Processes that benchmarks start: a function in a Python of its own, and servers.

`call` runs any function of the harness in this Python or in another one; `python -m
benchmarks.processes module:function` is what runs there.
Invariants: a child measures itself, its parent only waits; a server ends with its block.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
NEWEST_FAISS = ROOT / ".venv-faiss" / "bin" / "python"
TORCH = ROOT / ".venv-torch" / "bin" / "python"
PROJECT = ROOT / ".venv" / "bin" / "python"


def scratch() -> Path:
    """Return where to write: `build`, or LIKEWISE_SCRATCH; a temporary folder may be memory."""
    folder = Path(os.environ.get("LIKEWISE_SCRATCH") or ROOT / "build")
    folder.mkdir(exist_ok=True)
    return folder


def call(
    where: str,
    given: Mapping[str, Any],
    python: str = sys.executable,
    env: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Run module:function in a fresh process; it is given the mapping and answers as JSON."""
    done = subprocess.run(
        [python, "-m", "benchmarks.processes", where, json.dumps(given)],
        cwd=ROOT,
        env={**os.environ, **(env or {})},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{where} ended with:\n{done.stderr[-2000:]}")
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def faiss_releases() -> dict[str, str]:
    """Return the releases of FAISS that are here: a name for each, and the Python that has it."""
    pythons = {}
    if importlib.util.find_spec("faiss") is not None:
        pythons["pinned"] = sys.executable
    if NEWEST_FAISS.exists():
        pythons["newest"] = str(NEWEST_FAISS)
    return pythons


def free_port() -> int:
    """Return a port of this machine on which nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


@contextmanager
def server(
    command: Sequence[str], is_ready: Callable[[], bool]
) -> Iterator[subprocess.Popen[bytes]]:
    """Start a server, wait until it is ready, and end it with the block."""
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        end = time.monotonic() + 60
        while not is_ready():
            if time.monotonic() > end or process.poll() is not None:
                raise RuntimeError(f"{command[0]} did not start")
            time.sleep(0.02)
        yield process
        process.send_signal(signal.SIGTERM)
        process.wait(60)
    finally:
        process.kill()
        process.wait()


if __name__ == "__main__":
    module, _, function = sys.argv[1].partition(":")
    print(json.dumps(getattr(importlib.import_module(module), function)(json.loads(sys.argv[2]))))
