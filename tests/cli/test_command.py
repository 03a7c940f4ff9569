"""The command as a whole: light to start, readable help, documented ends."""

import likewise as lw
from tests.support.commands import COMMAND, installed, likewise
from tests.support.looping import each
from tests.support.programs import run_python

COMMANDS = (
    "demo", "init", "audit", "calibrate", "watch", "bench",
    "report", "show", "verify", "replay", "erase",
)  # fmt: skip


def test_version_is_told():
    assert installed("--version").stdout == f"likewise {lw.__version__}\n"


def test_help_names_every_command():
    shown = installed("--help").stdout
    assert all(f" {name} " in shown for name in COMMANDS)


@each("name", COMMANDS)
def test_help_of_a_command_fits_a_terminal_and_is_plain_in_a_pipe(name):
    shown = likewise(name, "--help").stdout
    assert f"likewise {name}" in shown
    assert max(map(len, shown.splitlines())) <= 80
    assert "\x1b" not in shown


def test_no_command_is_bad_usage_and_shows_help_once():
    done = installed(code=2)
    assert done.stdout.count("Usage: likewise") == 1 and done.stderr == ""


@each("name", [None, *COMMANDS, "warm"])
def test_wrong_option_is_one_line_on_standard_error(name):
    run = installed if name is None else likewise
    done = run(*filter(None, [name]), "--nonsense", code=2)
    see = " ".join(filter(None, ["likewise", name]))
    assert done.stdout == ""
    assert done.stderr == f"likewise: No such option: --nonsense. See: {see} --help\n"


def test_installed_command_is_what_is_tested():
    assert COMMAND[0].endswith("likewise") or COMMAND[1:] == ["-m", "likewise"]


def test_without_its_packages_it_says_what_to_install(tmp_path):
    code = (
        "import sys, importlib.util as u\n"
        "real = u.find_spec\n"
        "u.find_spec = lambda name, *more: None if name == 'typer' else real(name, *more)\n"
        "from likewise.cli import main\n"
        "sys.exit(main(['audit', 'x.csv']))"
    )
    done = run_python("-c", code, code=2)
    assert "pip install '.[cli]' in the clone of likewise" in done.stderr
