"""Parquet and Arrow files, a few batches at a time, by Polars.

Such files are read by seeking, so what comes through a pipe or packed is first copied into a
temporary file. They bring types of their own and rows have no lines: a place is a row, from 1.

Cost: a few batches, whatever the length of the file.
"""

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import IO, Any, cast

import numpy as np
import polars as pl

from likewise.sources.chunk import Chunk, Types
from likewise.sources.remarks import Remark
from likewise.sources.streams import Stream
from likewise.values.errors import BadFile


class Columnar:
    """A Parquet file, or an Arrow file (the IPC format with a footer)."""

    unit = "row"
    remarks: tuple[Remark, ...] = ()  # it brings types of its own

    def __init__(self, stream: Stream, format: str) -> None:
        self.stream = stream
        self._format = format
        self._copy: IO[bytes] | None = None
        path = stream.path
        if stream.path == "-" or stream.packed:
            self._copy = tempfile.NamedTemporaryFile(suffix=".likewise")  # noqa: SIM115
            shutil.copyfileobj(cast(Any, stream), self._copy, 1 << 20)
            self._copy.flush()
            path = self._copy.name
        self.by_name = self._copy is None
        """Whether Polars reads the file by its name, beside the stream."""
        with told(stream.name, format):
            if format == "Parquet":
                self._frame = pl.scan_parquet(path, glob=False, hive_partitioning=False)
            else:
                self._frame = pl.scan_ipc(path, glob=False, hive_partitioning=False)
            self.columns = self._frame.collect_schema().names()
            self.rows = int(self._frame.select(pl.len()).collect().item())

    def chunks(self, types: Types, wanted: Sequence[str], rows: int) -> Iterator[Chunk]:
        """The wanted columns, so many rows at a time at most."""
        first = 1
        with told(self.stream.name, self._format):
            batches = iter(self._frame.select(wanted).collect_batches(chunk_size=rows))
            while (frame := next(batches, None)) is not None:
                for some in frame.iter_slices(rows):
                    yield Chunk(some, np.arange(first, first + some.height, dtype=np.int64))
                    first += some.height


@contextmanager
def told(name: str, format: str) -> Iterator[None]:
    """What Polars says of a file that it cannot read, with the name of the file."""
    try:
        yield
    except (pl.exceptions.PolarsError, OSError) as error:
        first = (str(error).strip().splitlines() or ["no reason given"])[0]
        raise BadFile(
            f"{name} is damaged, or not all of it is there: as {format} it cannot be read"
            f" ({first[:200]}). Copy or write it again.",
            path=name,
        ) from None
