"""What `help` shows of a monitor, which is how people find what it can do."""

import pydoc

import likewise as lw

TWO_SCREENS = 130


def test_help_of_a_monitor_fits_on_two_screens():
    text = pydoc.render_doc(lw.Monitor, renderer=pydoc.plaintext)
    assert len(text.splitlines()) <= TWO_SCREENS
