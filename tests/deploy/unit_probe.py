"""Asks the service of the unit, beside a systemd of its own (boot_unit.sh); prints what it found.

Needs nothing but the standard library.
"""

import http.client
import json
import socket
import subprocess
import sys
import time
from pathlib import Path

SECONDS = 60


class Connection(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(SECONDS)
        self.sock.connect("/run/likewise/socket")


def ask(method, path, body=None):
    connection = Connection("localhost")
    sent = None if body is None else json.dumps(body)
    connection.request(method, path, sent, {"content-type": "application/json"})
    answer = connection.getresponse()
    return answer.status, json.loads(answer.read())


def is_ready():
    try:
        return ask("GET", "/readyz")[0] == 200
    except OSError:
        return False


def unit(*properties):
    command = ["systemctl", "show", *(f"--property={one}" for one in properties), "likewise"]
    told = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    return dict(line.split("=", 1) for line in told.stdout.splitlines())


end = time.monotonic() + SECONDS
while not is_ready() and time.monotonic() < end and unit("NRestarts") == {"NRestarts": "0"}:
    time.sleep(0.1)
found = {"started": unit("ActiveState", "NRestarts", "ExecMainStatus")}
if is_ready():
    path = "/v1/monitors/loans"
    found["first"] = ask("POST", f"{path}/observe?wait=durable", {"x": [0.5, 0.2], "z": "yes"})
    rows = {"x": [[0.5, 0.2]] * 2, "z": ["no", "yes"]}
    found["batch"] = ask("POST", f"{path}/batch", rows)
    found["verified"] = ask("POST", f"{path}/verify", {})
    subprocess.run(["systemctl", "stop", "likewise"], timeout=SECONDS, check=False)
    found["stopped"] = unit("Result", "ExecMainStatus")
found["errors"] = Path("/run/errors").read_text(encoding="utf-8")
json.dump(found, sys.stdout)
