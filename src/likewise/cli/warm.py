"""`likewise warm`: compile the kernels before the first decision waits for that."""

import sys

from likewise.cli.exit_codes import FINE
from likewise.cli.terminal import progress, say


def warm() -> int:
    """Compile the kernels now, where they are compiled at run time, and store them.

    Use it in container images, and on processors that no kernels are built for. Elsewhere the
    kernels are compiled already, and there is nothing to do.
    """
    from likewise.search.kernels.compile import way
    from likewise.search.kernels.native import ENTRIES, choose_level, library_path

    level = choose_level()
    if way == "plain":
        say("The kernels are not compiled.")
    elif level is None:
        from likewise.search.kernels.jit import announcement, compile_entry

        announcement.was_made = True  # the bar says it
        with progress("compiling kernels") as bar:
            for i, name in enumerate(ENTRIES):
                bar.update(i, len(ENTRIES), name)
                compile_entry(name)
        say("The kernels are compiled.")
    elif all(library_path(level, name).exists() for name in ENTRIES):
        say("The kernels are compiled already.")
    else:
        from likewise.search.kernels.building import build

        build([level], list(ENTRIES), sys.stderr)
        say("The kernels are compiled.")
    return FINE
