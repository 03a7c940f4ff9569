"""Golden files: what users rely on, stored as JSON under tests/golden and compared with each run.

    from tests.support import golden_files as golden

    golden.check("http/observe.json", value)      # one test owns the whole file, in a folder
    golden.member("messages.json", test, case, text)  # many tests share a file of texts

A test fails with a unified diff when its value differs from the stored text. `make golden`, which
is `pytest --golden`, rewrites instead of comparing: every process collects what its tests ask for,
and the controlling process merges and writes it at the end of the run. It also removes

- files of `check` that no test asks for, if all tests below tests/golden ran;
- texts of `member` that a test does not ask for any more, if all its cases ran, and tests that are
  gone, if the whole suite ran (`make golden TESTS=tests`): without -k, and with -m leaving out
  nothing but slow tests and those that need torch;

and it removes nothing if a test failed, or if a test below tests/golden was skipped. What was
removed, or why nothing was, is said at the end.

Values that differ from run to run are replaced before they come here (placeholders.py). Floats are
stored with 12 significant digits, because the last ones depend on the machine's mathematics.
"""

import difflib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parent.parent / "golden"
WIDTH = 100
_TESTS = FOLDER.parent
_AGAIN = "If the change is intended: make golden, and look at the diff."
_LEFT_OUT_BY_MARK = ("slow", "torch")


def check(name: str, value: Any) -> None:
    """Fail unless a value is what the file of that name stores."""
    assert "/" in name, "a file of `check` is in a folder"
    text = text_of(value)
    if _run.rewrites:
        _run.ask_file(name, text)
    else:
        path = FOLDER / name
        _compare(path.read_text("utf-8") if path.exists() else None, text, name)


def check_all(values: dict[str, Any]) -> None:
    """Check several files, and fail once with all that differs."""
    __tracebackhide__ = True
    failed = []
    for name, value in values.items():
        try:
            check(name, value)
        except pytest.fail.Exception as difference:
            failed.append(str(difference))
    if failed:
        pytest.fail("\n\n".join(failed), pytrace=False)


def member(name: str, test: str, case: str, text: str) -> None:
    """Fail unless a text is one of those that the file of that name stores for a case of a test."""
    assert "/" not in name, "a file of `member` is in no folder"
    if _run.rewrites:
        _run.add_member(name, test, case, text)
    elif text not in _stored(name).get(test, {}).get(case, ()):
        known = "".join(f"\n  {one}" for one in _stored(name).get(test, {}).get(case, ()))
        __tracebackhide__ = True
        pytest.fail(
            f"tests/golden/{name} has no such text for {test}, {case!r}:\n  {text}\n"
            f"There are:{known}\n"
            f"{_AGAIN}",
            pytrace=False,
        )


def test_name(nodeid: str) -> str:
    """Return the name of a test without its case, such as "rules/test_rule.py::test_x"."""
    return nodeid.partition("[")[0].removeprefix("tests/")


def sorted_by_name(value: Any) -> Any:
    """Sort objects by the names of their fields: JSON promises no order of them."""
    if isinstance(value, dict):
        return {name: sorted_by_name(value[name]) for name in sorted(value)}
    return [sorted_by_name(one) for one in value] if isinstance(value, list) else value


def text_of(value: Any) -> str:
    """Pretty-print a value as JSON; what fits into a line stays on it."""
    return _text(_plain(value), 0, 0) + "\n"


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.12g}")
    if isinstance(value, dict):
        return {str(name): _plain(one) for name, one in value.items()}
    return [_plain(one) for one in value] if isinstance(value, list | tuple) else value


def _text(value: Any, depth: int, before: int) -> str:
    """Print a value that begins after so many characters of its line."""
    line = json.dumps(value, ensure_ascii=False)
    if not isinstance(value, dict | list) or before + len(line) < WIDTH:
        return line
    inner = "  " * (depth + 1)
    parts = []
    for one in value:
        name = f"{json.dumps(one, ensure_ascii=False)}: " if isinstance(value, dict) else ""
        item = value[one] if isinstance(value, dict) else one
        parts.append(inner + name + _text(item, depth + 1, len(inner) + len(name)))
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    return "\n".join([opening, ",\n".join(parts), "  " * depth + closing])


def _compare(before: str | None, now: str, name: str) -> None:
    __tracebackhide__ = True
    if before is None:
        pytest.fail(f"tests/golden/{name} is not stored yet. {_AGAIN}", pytrace=False)
    if before != now:
        lines = difflib.unified_diff(
            before.splitlines(), now.splitlines(), f"stored {name}", "now", lineterm=""
        )
        difference = "\n".join(lines)
        pytest.fail(f"{name} has changed.\n{difference}\n{_AGAIN}", pytrace=False)


_cache: dict[str, dict[str, Any]] = {}


def _stored(name: str) -> dict[str, Any]:
    """Read a file of texts, once."""
    if name not in _cache:
        path = FOLDER / name
        _cache[name] = json.loads(path.read_text("utf-8")) if path.exists() else {}
    return _cache[name]


class _Run:
    """What the tests of this process have asked for while files are rewritten."""

    def __init__(self) -> None:
        self.rewrites = False
        self.files: dict[str, str] = {}
        self.members: dict[str, dict[str, dict[str, set[str]]]] = {}
        self.deselected_golden = self.deselected_other = False
        self.partly: set[str] = set()  # tests of which some cases did not run
        self.skipped_golden = self.incomplete = False
        self.conflicts: list[str] = []
        self.report: list[str] = []

    def ask_file(self, name: str, text: str) -> None:
        if self.files.setdefault(name, text) != text:
            pytest.fail(f"two tests disagree about tests/golden/{name}", pytrace=False)

    def add_member(self, name: str, test: str, case: str, text: str) -> None:
        cases = self.members.setdefault(name, {}).setdefault(test, {})
        cases.setdefault(case, set()).add(text)

    def to_text(self) -> str:
        """What the controlling process needs to know."""
        members = [
            [name, test, case, sorted(texts)]
            for name, some in self.members.items()
            for test, cases in some.items()
            for case, texts in cases.items()
        ]
        deselected = self.deselected_golden, self.deselected_other, sorted(self.partly)
        return json.dumps([self.files, members, *deselected])

    def merge(self, text: str) -> None:
        files, members, golden, other, partly = json.loads(text)
        for name, one in files.items():
            if self.files.setdefault(name, one) != one:
                self.conflicts.append(f"two tests disagree about {name}")
        for name, test, case, texts in members:
            for one in texts:
                self.add_member(name, test, case, one)
        self.deselected_golden |= golden
        self.deselected_other |= other
        self.partly |= set(partly)

    def write(self, config: pytest.Config, failed: bool) -> None:
        for name, text in self.files.items():
            self._write(name, text)
        whole_folder, whole_suite = self._ran(config)
        passed = not (failed or self.incomplete)
        for name, members in self.members.items():
            known = _stored(name)
            merged = dict(known)
            if whole_suite and passed:  # but for tests that were left out, such as those of torch
                merged = {test: cases for test, cases in known.items() if test in self.partly}
            for test, cases in members.items():
                stored = {} if passed and test not in self.partly else known.get(test, {})
                texts = stored | {case: sorted(some) for case, some in cases.items()}
                merged[test] = {case: texts[case] for case in sorted(texts)}
            self._write(name, text_of({test: merged[test] for test in sorted(merged)}))
            self._remark_removed(name, known.keys() - merged.keys())
        if not passed or self.skipped_golden or not whole_folder:
            self.report.append("no file was removed: not all tests of tests/golden ran and passed")
            return
        for path in self._unused():
            if path.parent != FOLDER or whole_suite:
                path.unlink()
                self.report.append(f"removed {path.relative_to(_TESTS.parent)}")

    def _ran(self, config: pytest.Config) -> tuple[bool, bool]:
        """Whether all tests of tests/golden were to run, and whether all tests were."""
        begin = config.invocation_params.dir
        places = [(begin / one).resolve() for one in config.args]
        folder = any(FOLDER.is_relative_to(place) for place in places)
        suite = any(_TESTS.is_relative_to(place) for place in places)
        return folder and not self.deselected_golden, suite and not self.deselected_other

    def _unused(self) -> Iterable[Path]:
        asked = {FOLDER / name for name in (*self.files, *self.members)}
        return sorted(path for path in FOLDER.rglob("*.json") if path not in asked)

    def _remark_removed(self, name: str, keys: Iterable[str]) -> None:
        self.report += [f"removed {key!r} from tests/golden/{name}" for key in sorted(keys)]

    def _write(self, name: str, text: str) -> None:
        path = FOLDER / name
        if not path.exists() or path.read_text("utf-8") != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
            self.report.append(f"wrote tests/golden/{name}")


_run = _Run()


# Hooks of pytest; tests/conftest.py names this module as a plugin.


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--golden", action="store_true", help="rewrite the golden files instead of comparing"
    )


def pytest_configure(config: pytest.Config) -> None:
    _run.rewrites = bool(config.getoption("--golden"))


def pytest_deselected(items: list[pytest.Item]) -> None:
    for item in items:
        _run.deselected_golden |= item.path.is_relative_to(FOLDER)
        by_mark = any(item.get_closest_marker(mark) for mark in _LEFT_OUT_BY_MARK)
        _run.deselected_other |= not by_mark
        _run.partly.add(test_name(item.nodeid))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    _run.skipped_golden |= report.skipped and report.nodeid.startswith("tests/golden/")


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: Any) -> None:
    """Take what a process of pytest-xdist has collected."""
    output = getattr(node, "workeroutput", {})
    if error or "golden" not in output:
        _run.incomplete = True
    else:
        _run.merge(output["golden"])


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    config = session.config
    if not _run.rewrites or config.option.collectonly:
        return
    if hasattr(config, "workerinput"):
        config.workeroutput["golden"] = _run.to_text()
        return
    _run.write(config, failed=exitstatus != pytest.ExitCode.OK)
    if _run.conflicts:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: Any) -> None:
    for line in (*_run.conflicts, *_run.report):
        terminalreporter.write_line(f"golden files: {line}")
