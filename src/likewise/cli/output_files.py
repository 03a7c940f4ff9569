"""Output files: checked before the work begins, and written whole or not at all."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from likewise.cli.exit_codes import CommandError
from likewise.errors import BadFile
from likewise.runtime.atomic_file import name_write_errors, replace_file


def check_output_path(path: Path | None, option: str, suffixes: Sequence[str] = ()) -> None:
    """Raise CommandError now if nothing could be written there later."""
    if path is None:
        return
    if suffixes and path.suffix.lower() not in suffixes:
        raise CommandError(
            f"{option} {path}: expected a name that ends in {' or '.join(suffixes)}."
        )
    if path.is_dir():
        raise CommandError(f"{option} {path} is a folder; expected the name of a file.")
    folder = path.parent
    if not folder.is_dir():
        raise CommandError(
            f"{option} {path}: the folder {folder} does not exist. Make it: mkdir -p {folder}"
        )
    if not os.access(folder, os.W_OK):
        raise CommandError(f"{option} {path}: nothing may be written to the folder {folder}.")


def write_text(path: Path, text: str) -> None:
    """Write a file with this text, whole or not at all."""
    with refuse_unwritable(path), replace_file(path) as file, name_write_errors(path):
        file.write(text.encode("utf-8"))


@contextmanager
def refuse_unwritable(*paths: Path | None) -> Iterator[None]:
    """Raise CommandError if one of these paths cannot be written: bad usage, not bad data."""
    try:
        yield
    except BadFile as error:
        if error.path is None or error.path not in map(str, paths):
            raise
        raise CommandError(str(error)) from None


def check_pairs_path(path: Path | None, data: str) -> None:
    """Raise CommandError now if pairs could not be written there later."""
    check_output_path(path, "--out", (".xlsx", ".csv", ".jsonl", ".parquet"))
    if path is not None and path.exists() and Path(data).exists() and path.samefile(data):
        raise CommandError(f"--out {path} is the file of decisions itself; name another file.")
    if path is not None and path.suffix.lower() == ".xlsx" and find_spec("xlsxwriter") is None:
        raise CommandError(
            f"--out {path} needs xlsxwriter, which is not installed: pip install"
            " '.[excel]' in the clone of likewise. .csv and .parquet need nothing more."
        )
