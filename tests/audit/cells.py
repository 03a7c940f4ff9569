"""Jobs over small files, and the pairs that their cells have found."""

import itertools
from dataclasses import fields

import numpy as np

import likewise as lw
from likewise.auditing.cell_folder import AuditFolder
from likewise.auditing.cells import audit_partitioned
from likewise.auditing.job import AuditOptions, Job
from likewise.sources.binding import bind_features, bind_vectors
from tests.support.lazily import polars as pl


def bound(rule, frame, beside=()):
    """A rule for the columns of a frame; without features, "z" is the output."""
    columns = [name for name in frame.columns if name not in beside]
    if rule.features is None:
        binding = bind_vectors(
            rule, columns, "z", source="a frame", rule_name="the rule", named_by="the test"
        )
    else:
        binding = bind_features(rule, columns, source="a frame", rule_name="the rule")
    return binding.with_extra_columns(beside)


def job_over(folder, rule, frames, *, beside=(), **settings):
    """A job over frames, each a Parquet file, in folders that no other job has."""
    number = len(list(folder.glob("data-*-00.parquet")))
    names = []
    for i, frame in enumerate(frames):
        path = folder / f"data-{number}-{i:02d}.parquet"
        frame.write_parquet(path)
        names.append(str(path))
    settings = {"threads": 1, "pairs": True, "cell_rows": 20, **settings}
    options = {
        one.name: settings.pop(one.name) for one in fields(AuditOptions) if one.name in settings
    }
    return Job(
        folder / f"cells-{number}",
        tuple(names),
        bound(rule, frames[0], beside),
        AuditOptions(**options),
        **settings,
    )


def pairs_found(job, done):
    """Later and earlier row, and both distances, of every pair that the cells have found."""
    columns = ("later", "earlier", "distances", "output_distances")
    found = []
    for cell in done.cells:
        with np.load(AuditFolder(job.folder).result(cell.number, "pairs.npz")) as arrays:
            found += zip(*(arrays[name].tolist() for name in columns), strict=True)
    return found


def audited(job, workers=None):
    """What came of a job, and its pairs, of which none was found twice."""
    done = audit_partitioned(job, workers)
    found = pairs_found(job, done)
    assert len({one[:2] for one in found}) == len(found), "a pair was found twice"
    return done, set(found)


def judged_by_one(rule, frame, beside=(), *, within=None, times=None, models=None):
    """The pairs, and who is comparable, as one monitor finds them."""
    monitor = lw.Monitor(rule, comparable=True, within=within)
    arguments = bound(rule, frame, beside).arguments(frame)
    settings = {"times": times if within is not None else None, "models": models}
    verdicts = monitor.observe_many(*arguments, **settings)
    found = verdicts.witnesses
    columns = (verdicts.rows[verdicts.owners], found.rows, found.input_distances)
    pairs = zip(*(one.tolist() for one in (*columns, found.output_distances)), strict=True)
    return set(pairs), int(verdicts.comparable.sum())


def parts_of(frame, random, most=4):
    """A frame cut into some files, none of them empty."""
    count = int(random.integers(1, most + 1))
    inner = np.sort(random.choice(np.arange(1, frame.height), min(count, frame.height) - 1, False))
    edges = [0, *inner.tolist(), frame.height]
    return [frame[low:high] for low, high in itertools.pairwise(edges)]


def vectors(x, z):
    """Vectors and their outputs as a frame."""
    return pl.DataFrame({**{f"x{j}": x[:, j] for j in range(x.shape[1])}, "z": z})
