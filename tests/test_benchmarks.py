"""The benchmark harness, on made-up rows and without peers: it measures what it says, and finds.

Times mean nothing at these sizes and are not looked at; answers are.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks import (
    cluster_simulation,
    harness,
    neighbours,
    oracle,
    pictures,
    processes,
    report,
    workloads,
)
from benchmarks.catalogue import BENCHMARKS
from benchmarks.contenders import PEERS, Question, installed
from benchmarks.definitions import first_use
from benchmarks.harness import Setting
from likewise.runtime.machine import MachineLoad

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("benchmarks"), pytest.mark.early]

NOT_INSTALLED = "watching texts, share of embedding them (MiniLM) and judging"
TWO_THREADS = "two threads over one, 1M × 12, ε 0.01"
ALONE = (
    "higgs",
    "single",
    "witnesses",
    "arrivals",
    "growth",
    "threads",
    "load",
    "labels",
    "ledger",
    "sizing",
    "buffering",
)
ON_REAL_DATA = (
    "acs",
    "paper",
    "memory",
    "first_use",
    "imagenet_embeddings",
    "people",
    "comparable",
    "support",
    "calibrate",
    "slope",
    "overhead",
    "huge",
)
WIDE = ("pictures", "imagenet_size", "embeddings", "embedding_batches", "dimensions")


@pytest.fixture(scope="module")
def written(tmp_path_factory) -> Iterator[Path]:
    """The folder that the benchmarks write to."""
    folder = tmp_path_factory.mktemp("benchmarks")
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("LIKEWISE_SCRATCH", str(folder))
        yield folder


@pytest.fixture(scope="module")
def setting(written) -> Setting:
    return Setting(source=workloads.generated(), scale=0.002, rounds=1, generated=True)


@pytest.fixture(scope="module")
def answers(setting: Setting) -> dict:
    return {name: BENCHMARKS[name].run(setting) for name in ALONE + WIDE}


@pytest.mark.long
@pytest.mark.parametrize("name", ALONE + WIDE)
def test_benchmark_is_run_and_checked(answers, name):
    answer = answers[name]
    if "skipped" in answer:  # only threads may: it needs two cores
        assert name == "threads"
        pytest.skip(answer["skipped"])
    assert "failed" not in answer, answer["failed"]
    assert answer["checks"], "a measurement nobody checked"
    assert all(answer["tables"].values())


@pytest.mark.slow
def test_cluster_is_measured_and_checked_and_can_be_simulated(setting):
    answer = BENCHMARKS["cluster"].run(setting)
    if "skipped" in answer:
        pytest.skip(answer["skipped"])
    assert "failed" not in answer, answer["failed"]
    assert len(answer["tables"]["overhead"]) == 9 and answer["checks"]
    told = cluster_simulation.measured_cases(answer["tables"])
    assert len(told) == 9 and all(simulated > 0 for _, _, simulated in told)


def test_the_simulation_finds_costs_from_one_shard_and_tells_what_more_would_take():
    costs = cluster_simulation.Costs(growth=0.3)
    rows = []
    for shards in (1, 2, 4):
        work = costs.search * shards ** (1 - costs.growth)  # of all shards, for a decision
        for batch in (1, 64, 1024):
            plan = cluster_simulation.Plan(shards, costs.rows, batch, ahead=1, shared_cores=2)
            taken = cluster_simulation.simulated(plan, costs, 300)
            rows.append(
                {
                    "shards": shards,
                    "batch": batch,
                    "p50_ms": taken["batch_ms"],
                    "bare_ms": 1e3 * (costs.trip + shards * costs.call),
                    "work_ms": 1e3 * batch * work,
                }
            )
    loss = {"rows_per_second": 1e6, "answered_s": 2.0, "replay_s": 0.5}
    tables = {"overhead": rows, "losses": [loss]}
    found = cluster_simulation.fitted(tables)
    for name in ("call", "trip", "batch", "decision", "search", "growth"):
        assert getattr(found, name) == pytest.approx(getattr(costs, name), rel=0.1)
    for _, measured, simulated in cluster_simulation.measured_cases(tables):
        assert simulated == pytest.approx(measured, rel=0.05)


@pytest.mark.slow
def test_service_is_measured_and_checked(setting):
    answer = BENCHMARKS["serve"].run(setting)
    if "skipped" in answer:
        pytest.skip(answer["skipped"])
    assert "failed" not in answer, answer["failed"]
    assert len(answer["tables"]["serve"]) == 11 and answer["checks"]


@pytest.mark.slow
def test_streams_are_measured_and_checked(setting):
    answer = BENCHMARKS["streams"].run(setting)
    if "skipped" in answer:
        pytest.skip(answer["skipped"])
    assert "failed" not in answer, answer["failed"]
    (row,) = answer["tables"]["redis"]
    assert row["rows"] == 2_000 and row["flagged"] > 0 and answer["checks"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ON_REAL_DATA)
def test_benchmark_of_real_data_is_run_and_checked(setting, name):
    folder = workloads.data_folder()
    if folder is None:
        pytest.skip("the folder of real data is not here")
    peers = tuple(peer for peer in PEERS if installed(peer.package))
    real = replace(setting, huge=True, source=workloads.higgs(folder), data=folder, peers=peers)
    answer = BENCHMARKS[name].run(replace(real, generated=False))
    assert "failed" not in answer, answer["failed"]
    assert "skipped" in answer or (answer["checks"] and all(answer["tables"].values()))


def test_every_benchmark_is_run_by_a_test():
    with_tests_of_their_own = {"cluster", "serve", "streams", "partition"}
    assert set(BENCHMARKS) == {*ALONE, *WIDE, *ON_REAL_DATA, *with_tests_of_their_own}


def test_workloads_find_violations(answers):
    found = [row["pairs"] for row in answers["higgs"]["tables"]["contenders"]]
    assert found[2] > 0, "1M × 12 at the widest radius found nothing"
    assert answers["single"]["tables"]["single"][0]["pairs"] > 0
    assert answers["labels"]["tables"]["labels"][-1]["many_pairs"] > 0


def test_wide_workloads_find_violations(answers):
    for name, table, key in (
        ("pictures", "pictures", "pairs"),
        ("imagenet_size", "pictures", "pairs"),
        ("embeddings", "embeddings", "witnesses"),
        ("embedding_batches", "batches", "pairs"),
        ("dimensions", "curve", "neighbours"),
    ):
        rows = answers[name]["tables"][table]
        assert all(row[key] > 0 for row in rows), f"{name} found nothing"


def test_rows_on_disk_are_measured_and_removed(answers, written):
    rows = answers["imagenet_size"]["tables"]["pictures"]
    assert [row["storage"] for row in rows] == ["uint8", "float32"]
    for row, size in zip(rows, (1, 4), strict=True):
        assert row["file_gb"] == row["rows"] * 224 * 224 * 3 * size / 1e9
        assert row["peak_gb"] >= row["rss_gb"] > 0
    assert not list(written.iterdir())


def test_every_bar_reads_a_number_of_what_was_measured_and_published():
    docs = Path(__file__).parents[1] / "docs"
    found = report.read(docs)
    judged = report.judge(found["answers"])
    assert {bar.benchmark for bar in harness.read_bars()} <= set(BENCHMARKS)
    assert [bar["bar"] for bar in judged if bar["value"] is None] == [NOT_INSTALLED]
    assert judged == found["bars"]
    assert report.markdown(docs, found) in (docs / "benchmarks.md").read_text(encoding="utf-8")


def test_bars_of_a_shrunk_run_are_never_reached(answers):
    judged = report.judge(answers)
    assert any(bar["value"] is not None for bar in judged)
    assert all(bar["reached"] is None and bar["why_not"] for bar in judged)


def test_bars_say_reached_or_not_at_full_scale():
    row = {"epsilon": 0.01, "threads": 2, "speedup": 1.5}
    answer = {"scale": 1, "tables": {"threads": [row]}}

    (bar,) = (b for b in report.judge({"threads": answer}) if b["bar"] == TWO_THREADS)
    assert (bar["value"], bar["reached"]) == (1.5, False)
    row["speedup"] = 1.6
    (bar,) = (b for b in report.judge({"threads": answer}) if b["bar"] == TWO_THREADS)
    assert bar["reached"] is True


def test_figures_at_a_high_load_are_marked_as_not_final(answers):
    row = {"epsilon": 0.01, "threads": 2, "speedup": 1.7}
    answer = {**answers["threads"], "scale": 1, "tables": {"threads": [row]}}
    for load, told in ((1.4, "| 1.7× | yes |"), (2.25, "| 1.7× | yes, not final (load 2.25) |")):
        table = report.format_bars(report.judge({"threads": {**answer, "load": load}}))
        (line,) = (line for line in table.splitlines() if TWO_THREADS in line)
        assert line.endswith(told)


@pytest.mark.long
def test_load_counts_the_work_of_others_and_not_ones_own():
    load, until = MachineLoad(), time.monotonic() + 0.5
    while time.monotonic() < until:
        pass
    alone = load.measure()
    load = MachineLoad()
    code = "import time\nend = time.monotonic() + 1\nwhile time.monotonic() < end: pass"
    with subprocess.Popen([sys.executable, "-c", code]) as other:
        time.sleep(0.8)
        beside = load.measure()
        other.wait(timeout=30)
    assert alone is not None and alone >= 1.0
    assert beside is not None and beside > 1.3, "another process was busy, and is not counted"


@pytest.mark.long
def test_firsts_are_measured_beside_the_next():
    for one in first_use.measure_firsts({}).values():
        assert one["first_ms"] > 0 and one["next_ms"] > 0


def test_commands_are_measured_beside_what_they_import():
    if not processes.PROJECT.exists():
        pytest.skip("this environment is not the project's own")
    rows = first_use.measure_commands(1)
    assert [row["command"].split(",")[0] for row in rows] == ["likewise --help", "likewise audit"]


@pytest.mark.long
def test_report_leaves_the_prose_around_the_markers(answers, tmp_path):
    page = tmp_path / "benchmarks.md"
    page.write_text(f"before\n{report.BEGIN}\nold\n{report.END}\nafter\n", encoding="utf-8")
    machine = {"processor": "p", "cores": 2, "memory_gb": 1.0, "system": "s", "python": "3"}
    found = report.save(tmp_path, {**machine, "versions": {"numpy": "2"}}, answers)
    report.publish(tmp_path, found)
    text = page.read_text(encoding="utf-8")
    assert text.startswith("before\n") and text.endswith("\nafter\n")
    assert "old" not in text.splitlines()
    assert "| 1M × 12, L∞ ε 0.01" in text
    assert json.loads((tmp_path / "benchmarks.json").read_text(encoding="utf-8")) == found


def test_a_failed_check_is_reported_as_a_failure(setting, monkeypatch):
    monkeypatch.setattr(oracle, "witnesses", lambda *_: np.array([1]))
    assert BENCHMARKS["growth"].run(setting)["failed"].startswith("Mismatch")


@pytest.mark.parametrize(
    "name", ("acs", "pictures", "embeddings", "embedding_batches", "imagenet_embeddings")
)
def test_missing_data_skips_the_benchmark(name):
    answer = BENCHMARKS[name].run(Setting(source=None))
    assert "was not found" in answer["skipped"]


def test_longer_stream_begins_with_the_shorter_one():
    source = workloads.generated()
    points, outputs = source.rows(300, 12)
    more, more_outputs = source.rows(500, 24)
    assert np.array_equal(points, more[:300, :12])
    assert np.array_equal(outputs, more_outputs[:300])
    fresh, _ = source.rows(300, 12, workloads.FRESH)
    assert not np.array_equal(points, fresh)


@pytest.mark.parametrize(
    "stream",
    [pictures.album(None, 8), pictures.Scenes(8, side=6, channels=3)],
    ids=lambda s: type(s).__name__,
)
def test_planted_pictures_are_near_their_origin_and_differ(stream):
    made, decisions = stream.rows(0, 60)
    more, _ = stream.rows(30, 90)
    assert np.array_equal(made[30:], more[:30]), "a row depends on where the stream begins"
    for i in (19, 39, 59):
        row = stream.row(i)
        gaps = np.abs(made[row.origin].astype(int) - made[i].astype(int))
        assert row.origin < i and 0 < gaps.max() <= 8
        assert decisions[i] != decisions[row.origin]


def test_longer_stream_of_texts_begins_with_the_shorter_one():
    source = workloads.texts(None)
    points, decisions = source.rows(500)
    more, more_decisions = source.rows(5_000)
    assert np.array_equal(points, more[:500])
    assert np.array_equal(decisions, more_decisions[:500])
    assert np.allclose(np.linalg.norm(more, axis=1), 1.0)


@pytest.mark.parametrize("metric", ["l2", "cosine"])
def test_oracle_agrees_with_plain_numpy(metric):
    points = np.random.default_rng(3).normal(size=(20, 13))
    x = points[0] + 0.1
    plain = {
        "l2": np.linalg.norm(points - x, axis=1),
        "cosine": 1 - points @ x / np.linalg.norm(points, axis=1) / np.linalg.norm(x),
    }
    assert np.allclose(oracle.distances(metric, points, x), plain[metric])


def test_sieve_keeps_every_row_that_is_near():
    points = np.random.default_rng(4).integers(0, 30, (200, 5, 4)).astype(np.uint8)
    question = Question("linf", 12.0, slack=0.0)
    labels = np.zeros(len(points), int)
    sieve = oracle.Sieve(points)
    for i in range(50, 60):
        some = sieve.rows(points[i], question.reach, i)
        kept = oracle.decide(question, points, labels, some, points[i], 1)
        assert np.array_equal(kept, oracle.witnesses(question, points[:i], labels, points[i], 1))
        assert len(some) < i


def test_faiss_that_disagrees_is_noticed():
    question = Question("l2", 1.0)
    found = [{"rows": [3, 5], "distances": [0.5, 1.0004]}]
    told = neighbours.same_within(question, [[3]], {"pinned": {"found": found, "version": "1"}})
    assert "same 1 neighbours" in told
    for near in ([[5]], [[3, 7]]):
        with pytest.raises(oracle.Mismatch):
            neighbours.same_within(question, near, {"pinned": {"found": found, "version": "1"}})
    neighbours.same_nearest([[4], []], [_nearest(4, 0.5), _nearest(2, 1.5)], 1.0)
    for near in ([[3], []], [[4], [2]], [[], []]):
        with pytest.raises(oracle.Mismatch):
            neighbours.same_nearest(near, [_nearest(4, 0.5), _nearest(2, 1.5)], 1.0)


def _nearest(row: int, distance: float) -> dict:
    return {"rows": [row], "distances": [distance]}


def test_bars_on_real_data_are_not_reached_on_made_up_rows():
    row = {"storage": "uint8", "source": "generated", "pinned_ratio": 9_999.0}
    answer = {"scale": 1, "tables": {"pictures": [row]}}
    name = "20k × 3,072 uint8, L∞ 8/255: FAISS flat (pinned) ÷ `observe`"
    (bar,) = (b for b in report.judge({"pictures": answer}) if b["bar"] == name)
    assert bar["reached"] is None
    row["source"] = "CIFAR-10"
    (bar,) = (b for b in report.judge({"pictures": answer}) if b["bar"] == name)
    assert bar["reached"] is True


def test_oracle_keeps_the_boundary_and_drops_equal_outputs():
    question = Question("linf", 0.25, slack=0.0)
    points = np.array([[0.0], [0.25], [0.5], [0.75]])
    outputs = np.array([0, 1, 1, 1])
    rows = oracle.witnesses(question, points, outputs, np.array([0.25]), 0)
    assert rows.tolist() == [1, 2]
