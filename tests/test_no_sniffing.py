"""Nobody looks at classes or signatures to find out what they hold: contracts say it."""

import ast
from pathlib import Path

import likewise

ROOT = Path(likewise.__file__).parent
OURS = {"AsyncClient", "Buffered", "Client", "Monitor", "ServedMonitor", "Verdict", "Verdicts"}
ROOMS = [
    "audit",
    "cli",
    "client",
    "explaining",
    "monitor",
    "pages",
    "proposing",
    "queueing",
    "reports",
]
ROOMS += ["service", "sharding", "sources", "watching"]
DOORS = tuple(
    ROOT / one for one in ("watching/settings.py", "cli/options.py", "client/exchange.py")
)
"""Where what a user gave is sorted out (a rule, a monitor or a buffer), and where signatures are
made: of commands for the library that parses them, of a client's methods for whoever reads them."""


def sniffs(tree: ast.AST):
    """The lines at which a class of ours, a signature or a monitor's attributes are looked at."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        called = ast.unparse(node.func)
        if called == "inspect.signature":
            yield node.lineno, called
        if called == "isinstance" and len(node.args) == 2:
            asked = {one.id for one in ast.walk(node.args[1]) if isinstance(one, ast.Name)}
            if asked & OURS:
                yield node.lineno, ast.unparse(node)
        if called in ("hasattr", "getattr") and "monitor" in ast.unparse(node.args[0]):
            yield node.lineno, ast.unparse(node)


def test_nobody_looks_at_classes_to_find_out_what_they_hold():
    paths = [path for room in ROOMS for path in sorted((ROOT / room).rglob("*.py"))]
    assert len(paths) > 100 and set(DOORS) <= set(paths)
    found = [
        (path.relative_to(ROOT).as_posix(), *sniff)
        for path in paths
        if path not in DOORS
        for sniff in sniffs(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert found == []
