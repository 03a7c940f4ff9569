"""What commands write is written whole, under a name that nobody can guess before it is there."""

import os
import stat
from pathlib import Path

import pytest

from likewise.cli import main
from tests.support.lazily import polars as pl

QUICK = ["--metric", "linf", "--epsilon", "0.1", "--output-column", "z"]
pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs links and permissions of POSIX")


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("data.csv").write_text("a,z\n0.5,yes\n0.55,no\n0.9,yes\n")
    Path("victim").write_text("precious")
    return tmp_path


def run(name):
    """Have a command write a file of that name."""
    commands = {
        ".html": ["audit", "data.csv", *QUICK, "--report", name],
        ".toml": ["init", "data.csv", "--output-column", "z", "--force", "--out", name],
    }
    known = commands.get(Path(name).suffix, ["audit", "data.csv", *QUICK, "--out", name])
    assert main(known) == 0


NAMES = ["pairs.csv", "pairs.jsonl", "pairs.parquet", "page.html", "rule.toml"]


@pytest.mark.parametrize("name", NAMES)
def test_file_beside_is_not_written_through_a_link_under_a_name_that_can_be_guessed(
    here, name, capsys
):
    names = [f".{name}.{os.getpid()}.partial", f".{name}.partial", f"{name}.tmp"]
    planted = list(map(Path, names))
    for one in planted:
        one.symlink_to("victim")
    run(name)
    assert Path("victim").read_text() == "precious"
    assert all(one.is_symlink() for one in planted)  # they are somebody else's
    assert Path(name).is_file() and not Path(name).is_symlink()


@pytest.mark.parametrize("name", NAMES)
def test_link_in_the_place_of_a_file_is_replaced_and_not_followed(here, name, capsys):
    Path(name).symlink_to("victim")
    run(name)
    assert Path("victim").read_text() == "precious"
    assert not Path(name).is_symlink()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("mask", [0o022, 0o077])
def test_written_file_has_the_permissions_of_any_new_file(here, name, mask, capsys):
    before = os.umask(mask)
    try:
        run(name)
    finally:
        os.umask(before)
    assert stat.S_IMODE(Path(name).stat().st_mode) == 0o666 & ~mask
    assert {one.name for one in here.iterdir()} == {"data.csv", "victim", name}


def test_pairs_are_whole_in_every_format(here, capsys):
    for name, read in (
        ("p.csv", pl.read_csv),
        ("p.CSV", pl.read_csv),
        ("p.jsonl", pl.read_ndjson),
        ("p.xlsx", pl.read_excel),
    ):
        run(name)
        assert read(name)["earlier_row"].to_list() == [0]
    run("p.parquet")
    assert pl.read_parquet("p.parquet")["earlier_row"].to_list() == [0]


def test_demo_writes_through_no_link(here, capsys):
    pytest.importorskip("sklearn")
    names = ["likewise-demo.csv", "likewise-demo.toml", "likewise-report.html"]
    for name in names:
        Path(name).symlink_to("victim")
    assert main(["demo"]) == 0
    assert Path("victim").read_text() == "precious"
    assert not any(Path(name).is_symlink() for name in names)
