"""What is shown while something runs."""

from likewise.cli import terminal


def test_where_nobody_looks_nothing_is_shown(capsys):
    with terminal.progress("judging") as bar:
        bar.update(1, 2, "half")
    assert capsys.readouterr() == ("", "")
