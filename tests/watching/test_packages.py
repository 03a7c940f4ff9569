"""Watching a function needs neither scikit-learn nor torch; a missing one says how to get it."""

import subprocess
import sys


def python(code):
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_watching_a_function_loads_neither_scikit_learn_nor_torch():
    code = (
        "import sys, likewise as lw\n"
        "watched = lw.watch(lambda x: 1, lw.Rule('linf', 1))\n"
        "watched([0.0])\n"
        "print(watched.counts.decisions, sorted({'sklearn', 'torch'} & set(sys.modules)))"
    )
    assert python(code) == "1 []\n"


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
