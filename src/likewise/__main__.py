"""`python -m likewise` is the command `likewise`."""

import sys

from likewise.cli import main

if __name__ == "__main__":
    sys.exit(main())
