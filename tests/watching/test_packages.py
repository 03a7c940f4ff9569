"""Watching a function needs neither scikit-learn nor torch; a missing one says how to get it."""

from tests.support.programs import run_python


def python(code):
    done = run_python("-c", code)
    return done.stdout


def test_missing_scikit_learn_says_its_install_line():
    code = (
        "import sys, likewise as lw\n"
        "sys.modules['sklearn'] = None\n"
        "try:\n"
        "    lw.WatchedEstimator\n"
        "except ImportError as error:\n"
        "    print(error)"
    )
    assert "pip install '.[scikit-learn]'" in python(code)
