"""Clients that others generate from /openapi.json work: Python and TypeScript.

The generators are of an environment of their own (`make .venv-clients/packages`) and of npm.
`LIKEWISE_CLIENTS=required` has a missing one fail, not skip.
"""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from likewise.service.tokens import new_token
from tests.support.serving import serving, settings

ROOT = Path(__file__).parents[2]
TYPESCRIPT = Path(__file__).parent / "typescript"
TABLE = (
    'output_column = "approved"\n[features.age]\nkind = "number"\ntolerance = 5\n'
    '[features.job]\nkind = "category"\n'
)
CONFIG = """
content_type_overrides:
  application/vnd.apache.arrow.stream: application/octet-stream
  application/x-ndjson: application/octet-stream
  application/vnd.likewise+msgpack: application/octet-stream
"""
CALLS = """
import json, sys
from generated import AuthenticatedClient
from generated.api.decisions import batch, check, observe
from generated.models import ColumnsBody, DecisionBody, DecisionBodyValuesType0, RowsBody

url, token = sys.argv[1:]

def values(**columns):
    return DecisionBody(values=DecisionBodyValuesType0.from_dict(columns))

with AuthenticatedClient(base_url=url, token=token) as client:
    vectors, table = {"client": client, "name": "default"}, {"client": client, "name": "loans"}
    first = observe.sync(**vectors, body=DecisionBody(x=[1.0, 2.0], z="a", key="one"))
    checked = check.sync(**vectors, body=DecisionBody(x=[1.05, 2.0], z="b"))
    columns = ColumnsBody(x=[[1.0, 2.0], [9.0, 9.0]], z=["b", "b"])
    together = batch.sync(**vectors, body=columns)
    rows = RowsBody(decisions=[values(age=41, job="nurse", approved="no")])
    of_table = batch.sync(**table, body=rows)
    row = observe.sync(**table, body=values(age=42, job="nurse", approved="yes"))
    again = DecisionBody(x=[1.0, 2.0], z="b", key="one")
    refused = observe.sync(**vectors, body=again)
print(json.dumps({
    "row": first.row,
    "checked": [witness.key for witness in checked.witnesses],
    "violations": together.violations,
    "decisions": of_table.decisions,
    "contradicts": row.violation,
    "refused": refused.code,
}))
"""
EXPECTED = {
    "row": 0,
    "checked": ["one"],
    "violations": 1,
    "decisions": 1,
    "contradicts": True,
    "refused": "repeated-key",
}


def run(*command, **more):
    done = subprocess.run(
        list(map(str, command)), capture_output=True, text=True, timeout=300, check=False, **more
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def need(program, how):
    if program is None or not Path(program).exists():
        assert os.environ.get("LIKEWISE_CLIENTS") != "required", f"there is none: {how}"
        pytest.skip(f"no generator of clients: {how}")
    return program


@pytest.fixture
def server(tmp_path):
    """A server with a monitor of vectors and one of a table, and its description in a file."""
    token, hashed = new_token()
    (tmp_path / "loans.toml").write_text(TABLE)
    monitors = '[monitors.default]\nrule = "rule.toml"\n[monitors.loans]\nrule = "loans.toml"\n'
    tokens = f'[[tokens]]\nname = "a"\nhash = "{hashed}"\nscopes = ["observe"]\n'
    with serving(settings(tmp_path, tokens, monitors=monitors), token=token) as running:
        (tmp_path / "openapi.json").write_bytes(running.ask("GET", "/openapi.json").body)
        yield running


@pytest.mark.long
def test_python_client_that_was_generated_observes_batches_and_checks(server, tmp_path):
    programs = ROOT / ".venv-clients" / "bin"
    generate = need(programs / "openapi-python-client", "make .venv-clients/packages")
    (tmp_path / "config.yml").write_text(CONFIG)
    paths = ["--path", tmp_path / "openapi.json", "--output-path", tmp_path / "generated"]
    options = ["--meta", "none", "--config", tmp_path / "config.yml", "--fail-on-warning"]
    found = f"{programs}:{os.environ['PATH']}"  # it formats with ruff
    run(generate, "generate", *paths, *options, env=os.environ | {"PATH": found})
    (tmp_path / "calls.py").write_text(CALLS)
    said = run(programs / "python", tmp_path / "calls.py", server.url, server.token)
    assert json.loads(said) == EXPECTED


@pytest.mark.long
def test_typescript_client_that_was_generated_observes_batches_and_checks(server, tmp_path):
    npm = need(shutil.which("npm"), "apt install npm")
    folder = tmp_path / "typescript"
    shutil.copytree(TYPESCRIPT, folder)
    assert '"resolved"' not in (folder / "package-lock.json").read_text()
    run(npm, "ci", "--no-audit", "--no-fund", "--ignore-scripts", cwd=folder)
    programs = folder / "node_modules" / ".bin"
    run(programs / "openapi-typescript", tmp_path / "openapi.json", "-o", folder / "api.d.ts")
    run(programs / "tsc", cwd=folder)
    said = run("node", folder / "main.js", server.url, server.token)
    assert json.loads(said) == EXPECTED
