"""Runs a script of examples/ as a user would, in a folder of its own; the network is refused."""

import os
from pathlib import Path

from tests.support.programs import run_python

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
REFUSING = """
import socket
def refuse(*_):
    raise SystemExit("the script asked for the network")
socket.socket.connect = socket.getaddrinfo = refuse
"""


def run_alone(name: str, folder: Path, *arguments: str) -> str:
    """What it prints, if it ends well and without a warning; paths are relative to the folder."""
    startup = folder / "startup"
    startup.mkdir()
    (startup / "sitecustomize.py").write_text(REFUSING)
    done = run_python(
        "-W",
        "error",
        EXAMPLES / name,
        *arguments,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(startup)},
    )
    assert done.stderr == ""
    return done.stdout
