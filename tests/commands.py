"""Running the command as a user does, and in this process where a message is all that matters."""

import subprocess
import sys
from pathlib import Path

INSTALLED = Path(sys.executable).with_name("likewise")
COMMAND = [str(INSTALLED)] if INSTALLED.is_file() else [sys.executable, "-m", "likewise"]


def likewise(*arguments, given=None, code=0, **settings):
    """The installed command, run to its end."""
    done = subprocess.run(
        [*COMMAND, *map(str, arguments)],
        input=given,
        capture_output=True,
        text=not isinstance(given, bytes),
        timeout=300,
        check=False,
        **settings,
    )
    assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
    return done
