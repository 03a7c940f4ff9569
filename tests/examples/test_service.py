"""The examples in curl and JavaScript, against a real `likewise serve`."""

import json
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("example service")]

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples" / "service"


@pytest.fixture
def url(tmp_path):
    (tmp_path / "rule.toml").write_text('metric = "linf"\nepsilon = 0.16\n')
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "likewise", "serve", "--rule", "rule.toml"]
    process = subprocess.Popen([*command, "--ledger", "ledger", "--port", str(port)], cwd=tmp_path)
    try:
        until = time.monotonic() + 60
        while time.monotonic() < until:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5).close()
                break
            except OSError:
                time.sleep(0.05)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(30)


def printed(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.long
def test_curl_tells_decisions_and_may_tell_them_again(url):
    if shutil.which("curl") is None:
        pytest.skip("there is no curl here")
    first, second, checked, several = map(
        json.loads, printed("bash", str(EXAMPLES / "decide.sh"), url).splitlines()
    )
    assert first["row"] == 0 and not first["violation"]
    assert second["witnesses"][0]["key"] == "loan-1"
    assert checked["row"] is None and checked["count"] == 1
    assert several["first_row"] == 2 and several["decisions"] == 2


@pytest.mark.long
def test_javascript_tells_decisions_once_however_often_it_runs(url):
    if shutil.which("node") is None:
        pytest.skip("there is no node here")
    told = [printed("node", str(EXAMPLES / "decide.mjs"), url) for _ in range(2)]
    assert told == ["loan-2 contradicts loan-1, 0.05 away\n"] * 2


def test_the_how_to_shows_the_script_that_runs():
    page = (ROOT / "docs" / "how-to" / "use-the-service.md").read_text(encoding="utf-8")
    (shown,) = re.findall(r"^```js\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert shown in (EXAMPLES / "decide.mjs").read_text(encoding="utf-8")
