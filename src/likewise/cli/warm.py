"""`likewise warm`: have the kernels compiled before the first decision waits for it."""

from likewise.cli.screen import progress, say


def warm() -> int:
    """Compile the kernels now, where they are compiled at run time, and keep them.

    For images of containers, and for processors that no kernels are built for. Elsewhere the
    kernels are compiled already, and there is nothing to do.
    """
    from likewise.cli.endings import FINE
    from likewise.kernels.compile import way
    from likewise.kernels.native import ENTRIES

    if way != "jit":
        say(f"The kernels are {'compiled already' if way == 'native' else 'not compiled'}.")
        return FINE
    from likewise.kernels.jit import compile_entry

    with progress("compiling kernels", compiles=False) as bar:
        for i, name in enumerate(ENTRIES):
            bar.update(i, len(ENTRIES), name)
            compile_entry(name)
    say("The kernels are compiled.")
    return FINE
