"""The recipe for Spark, as the documentation has it, run on this machine: the same pairs."""

import runpy
from pathlib import Path

import numpy as np
import pytest

import likewise as lw
from tests.audit.cells import judged_by_one, vectors
from tests.support.documentation_pages import steps

PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "audit-larger-than-memory.md"


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_the_recipe_for_spark_finds_the_same(tmp_path):
    sql = pytest.importorskip("pyspark.sql", reason="pyspark is not installed")
    recipe = next(one for one in steps("page", PAGE.read_text()) if one.file == "spark_audit.py")
    (tmp_path / "spark_audit.py").write_text(recipe.text)
    pairs_of = runpy.run_path(str(tmp_path / "spark_audit.py"))["pairs_of"]
    random = np.random.default_rng(4)
    frame = vectors(random.random((4_000, 3)), random.integers(0, 2, 4_000))
    rule = lw.Rule(metric="linf", epsilon=0.05)
    expected, _ = judged_by_one(rule, frame)
    frame.with_row_index("id").write_parquet(tmp_path / "decisions.parquet")
    spark = (
        sql.SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "4")
        .getOrCreate()
    )
    try:
        decisions = spark.read.parquet(str(tmp_path / "decisions.parquet"))
        decisions = decisions.selectExpr("cast(id as long) id", "x0", "x1", "x2", "z")
        found = pairs_of(decisions, rule, cell_rows=500).collect()
    finally:
        spark.stop()
    assert len(found) == len(expected)
    assert {(one["later"], one["earlier"], one["distance"]) for one in found} == {
        one[:3] for one in expected
    }
