"""An audit that is killed goes on: the same pairs, none lost and none twice."""

import multiprocessing
import os
import signal
import time
from dataclasses import replace

import numpy as np
import pytest

import likewise as lw
from likewise.auditing.cell_folder import AuditFolder
from likewise.auditing.cells import audit_partitioned, encode_totals
from likewise.auditing.job import ProcessRunner
from likewise.errors import BadFile
from tests.audit.cells import audited, job_over, judged_by_one, vectors
from tests.support.lazily import polars as pl
from tests.support.refusals import raises

LONGEST = 120.0
"""Seconds that a life may take, on a busy machine."""


def stream(count):
    random = np.random.default_rng(11)
    x = random.random((count, 3))
    frame = vectors(x, random.choice(["a", "b"], count))
    step = count // 5
    return frame, [frame[i * step : (i + 1) * step if i < 4 else count] for i in range(5)]


def live(job, workers):
    """One life of an audit."""
    audit_partitioned(job, ProcessRunner(workers) if workers > 1 else None)


def killed(job, seconds, workers):
    """Start an audit and kill it after so long; whether it came to its end before."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["likewise.auditing.cells", "tests.audit.cells"])
    life = context.Process(target=live, args=(job, workers))
    life.start()
    life.join(seconds)
    if life.is_alive():
        os.kill(life.pid, signal.SIGKILL)  # its workers find out for themselves
    life.join(LONGEST)
    assert life.exitcode in (0, -signal.SIGKILL)
    return life.exitcode == 0


def kill_and_resume(tmp_path, kills, workers, count):
    rule = lw.Rule(metric="linf", epsilon=0.05)
    frame, parts = stream(count)
    job = job_over(tmp_path, rule, parts, cell_rows=count // 12)
    done, expected = audited(job)
    assert (expected, done.finished.totals.comparable) == judged_by_one(rule, frame)
    random = np.random.default_rng(kills)
    again = job_over(tmp_path, rule, parts, cell_rows=count // 12)
    killed(again, LONGEST, workers)  # the first life starts the server from which others fork
    again = job_over(tmp_path, rule, parts, cell_rows=count // 12)
    began = time.monotonic()
    assert killed(again, LONGEST, workers)
    seconds = time.monotonic() - began
    again = job_over(tmp_path, rule, parts, cell_rows=count // 12)
    left, rounds = kills, 0
    while left > 0 and rounds < 20 * kills:
        rounds += 1
        if killed(again, random.uniform(0.02, 0.6) * seconds, workers):
            again = job_over(tmp_path, rule, parts, cell_rows=count // 12)  # done: begin another
        else:
            left -= 1
    assert left == 0
    resumed, found = audited(again)
    assert found == expected
    one, other = resumed.finished.totals, done.finished.totals
    assert encode_totals(one) == encode_totals(other)
    assert one.in_pairs.rows.tolist() == other.in_pairs.rows.tolist()
    assert [one.pair.to_dict() for one in resumed.finished.worst] == [
        one.pair.to_dict() for one in done.finished.worst
    ]
    for cell in resumed.cells:  # nothing is left over in the cells that count
        there = {path.name for path in AuditFolder(again.folder).cell(cell.number).iterdir()}
        assert there >= {piece.name for piece in cell.pieces}


@pytest.mark.long
def test_a_killed_audit_goes_on(tmp_path):
    kill_and_resume(tmp_path, kills=4, workers=1, count=6_000)


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_an_audit_killed_twenty_times_goes_on(workers, tmp_path):
    kill_and_resume(tmp_path, kills=20, workers=workers, count=60_000)


def test_two_audits_do_not_work_in_one_folder(tmp_path):
    _, parts = stream(200)
    job = job_over(tmp_path, lw.Rule(epsilon=0.05), parts)
    with AuditFolder(job.folder).lock(), raises(BadFile):
        audit_partitioned(job)


def test_a_cell_that_is_done_is_not_judged_again(tmp_path):
    _, parts = stream(2_000)
    job = job_over(tmp_path, lw.Rule(epsilon=0.05), parts, cell_rows=200)
    first, found = audited(job)
    folder = AuditFolder(job.folder)
    lost = first.cells[0].number
    folder.result(lost).unlink()
    others = [folder.result(cell.number) for cell in first.cells[1:]]
    stamps = {path: path.stat().st_mtime_ns for path in others}
    _, found_again = audited(job)
    assert found_again == found
    assert folder.result(lost).exists()
    assert stamps == {path: path.stat().st_mtime_ns for path in others}


@pytest.mark.long
def test_a_bad_row_that_a_process_finds_is_told_as_it_is(tmp_path):
    _, parts = stream(500)
    parts[3] = parts[3].with_columns(x1=pl.lit(None, pl.Float64))
    job = job_over(tmp_path, lw.Rule(epsilon=0.05), parts)
    with raises(BadFile):
        audit_partitioned(job, ProcessRunner(2))


@pytest.mark.long
def test_several_processes_find_the_same(tmp_path):
    frame, parts = stream(3_000)
    rule = lw.Rule(epsilon=0.05)
    expected, _ = judged_by_one(rule, frame)
    job = job_over(tmp_path, rule, parts, cell_rows=400)
    _, found = audited(job, ProcessRunner(2))
    assert found == expected


def names_in(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_a_folder_with_other_things_is_refused_and_left_as_it_is(tmp_path):
    _, parts = stream(200)
    other = tmp_path / "other"
    other.mkdir()
    (other / "mine.txt").touch()
    (other / ".likewise-x.partial").touch()
    job = replace(job_over(tmp_path, lw.Rule(epsilon=0.05), parts), folder=other)
    with raises(BadFile):
        audit_partitioned(job)
    assert names_in(other) == [".likewise-x.partial", "mine.txt"]


@pytest.mark.parametrize("there", [True, False])
def test_an_audit_that_is_refused_before_it_begins_leaves_no_folder(there, tmp_path):
    _, parts = stream(200)
    parts[3] = parts[3].drop("x1")
    job = job_over(tmp_path, lw.Rule(epsilon=0.05), parts)
    job = replace(job, folder=tmp_path / "deep" / "cells")
    if there:
        job.folder.mkdir(parents=True)
    with raises(BadFile):
        audit_partitioned(job)
    assert job.folder.exists() == there
    assert job.folder.parent.exists() == there
    if there:
        assert names_in(job.folder) == []
