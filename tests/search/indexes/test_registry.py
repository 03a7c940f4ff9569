"""What may be asked for as an index; what is refused, and what the refusal says."""

import pytest

import likewise as lw
from likewise.search.indexes.registry import METRICS
from tests.support.index_cases import Scan, scan_of
from tests.support.programs import run_python

pytestmark = pytest.mark.pairwise

ALL = "auto, live, flat, brute, kdtree, snn, bdd"


def refusal(index: object, metric: str = "linf") -> str:
    with pytest.raises(lw.errors.BadRule) as error:
        lw.Monitor(lw.Rule(metric, 0.1), index=index)
    return str(error.value)


@pytest.mark.parametrize(
    ("name", "metric"), [(name, metric) for name, served in METRICS.items() for metric in served]
)
def test_a_name_serves_the_metrics_it_says(name, metric):
    monitor = lw.Monitor(lw.Rule(metric, 0.1), index=name)
    monitor.observe([0.5, 0.2], "yes")
    assert monitor.observe([0.5, 0.2], "no").witnesses.rows.tolist() == [0]
    assert monitor.explain().index == ("live" if name == "auto" else name)


@pytest.mark.parametrize(
    ("name", "meant"),
    [("", ""), ("KDTree", "kdtree"), ("balltree", ""), ("periodic", ""), ("BDD ", "bdd")],
)
def test_an_unknown_name_is_refused_with_those_expected(name, meant):
    suggested = f"; did you mean {meant!r}?" if meant else ""
    assert refusal(name) == f"index is {name!r}; expected one of {ALL}{suggested}"


SERVED = {
    "linf": "Indexes for that: auto, live, brute, kdtree, bdd",
    "l1": "Indexes for that: auto, live, brute, kdtree",
    "l2": "Indexes for that: auto, live, flat, brute, kdtree, snn",
    "cosine": "Indexes for that: auto, live, flat, brute, kdtree, snn",
}


@pytest.mark.parametrize(
    ("index", "metric", "says"),
    [
        ("snn", "linf", "index 'snn' serves l2, cosine, and the metric is 'linf'."),
        ("snn", "l1", "index 'snn' serves l2, cosine, and the metric is 'l1'."),
        ("flat", "linf", "index 'flat' serves l2, cosine, and the metric is 'linf'."),
        ("bdd", "l2", "index 'bdd' serves linf, and the metric is 'l2'."),
        ("bdd", "l1", "index 'bdd' serves linf, and the metric is 'l1'."),
        ("bdd", "cosine", "index 'bdd' serves linf, and the metric is 'cosine'."),
        (
            lw.Split("kdtree", 2),
            "l2",
            "index Split('kdtree', parts=2) serves linf, and the metric is 'l2'.",
        ),
        (
            lw.Split("live"),
            "cosine",
            "index Split('live', parts='auto') serves linf, and the metric is 'cosine'.",
        ),
        (lw.Split("snn"), "linf", "index 'snn' serves l2, cosine, and the metric is 'linf'."),
        (lw.Periodic("snn"), "linf", "index 'snn' serves l2, cosine, and the metric is 'linf'."),
        (
            lw.Split(lw.Periodic("snn", 5)),
            "linf",
            "index 'snn' serves l2, cosine, and the metric is 'linf'.",
        ),
    ],
    ids=str,
)
def test_a_metric_that_is_not_served_is_refused_with_the_indexes_that_serve_it(index, metric, says):
    assert refusal(index, metric) == f"{says} {SERVED[metric]}"


def test_the_indexes_named_for_a_metric_serve_it():
    for metric, says in SERVED.items():
        for name in says.removeprefix("Indexes for that: ").split(", "):
            lw.Monitor(lw.Rule(metric, 0.1), index=name)


@pytest.mark.parametrize("inner", ["bdd", "live", "brute", "auto", "flat", "nonesuch"])
def test_only_what_is_built_once_can_be_built_again_and_again(inner):
    assert refusal(lw.Periodic(inner)) == f"index is {inner!r}; expected one of kdtree, snn"


@pytest.mark.parametrize("inner", ["auto", "flat", "nonesuch"])
def test_parts_are_of_what_can_be_made_for_a_part(inner):
    expected = "kdtree, snn, live, brute, bdd"
    assert refusal(lw.Split(inner)) == f"index is {inner!r}; expected one of {expected}"


@pytest.mark.parametrize(
    "index", [None, 7, 2.5, object(), ["kdtree"], b"live"], ids=lambda one: type(one).__name__
)
def test_what_is_no_index_is_refused(index):
    for asked in (index, lw.Split(index, 2)):
        said = refusal(asked)
        assert said.startswith(f"index is {index!r}; expected one of ")
        assert "an object with add and candidates, or a function that makes one" in said
    assert refusal(lw.Periodic(index)) == (
        f"the index in {lw.Periodic(index)!r} is {index!r}; expected one of kdtree, snn, or a"
        " function that builds one over points in a space"
    )


def test_an_object_is_not_taken_for_something_that_builds():
    """It cannot be called: the first rebuild would fail, some hundred decisions later."""
    refusal(lw.Periodic(scan_of("linf", 2)))


@pytest.mark.parametrize("tau", [0, -1, 1.5, True, "often", None, "64", float("nan")], ids=repr)
def test_a_period_is_a_whole_number_from_one_or_auto(tau):
    with pytest.raises(lw.errors.BadRule) as error:
        lw.Periodic("kdtree", tau)
    assert str(error.value) == f"tau is {tau!r}; expected a whole number from 1, or 'auto'"


@pytest.mark.parametrize("parts", [0, -1, 1.5, False, "many", None, "2", float("inf")], ids=repr)
def test_parts_are_a_whole_number_from_one_or_auto(parts):
    with pytest.raises(lw.errors.BadRule) as error:
        lw.Split("kdtree", parts)
    assert str(error.value) == f"parts is {parts!r}; expected a whole number from 1, or 'auto'"


@pytest.mark.parametrize(
    "index", ["nonesuch", "bdd", lw.Split("kdtree"), lw.Periodic("live"), 7], ids=str
)
def test_a_refused_index_is_refused_before_there_is_a_monitor(index, tmp_path):
    rows = tmp_path / "rows"
    with pytest.raises(lw.errors.BadRule):
        lw.Monitor(lw.Rule("l2", 0.1), index=index, row_file=rows)
    assert not rows.exists()


def test_wrappers_are_named_as_they_were_written():
    assert repr(lw.Periodic("kdtree", 500)) == "Periodic('kdtree', tau=500)"
    assert repr(lw.Periodic(Scan)) == "Periodic(Scan, tau='auto')"
    assert (
        repr(lw.Split(lw.Periodic("kdtree", 5), 3)) == "Split(Periodic('kdtree', tau=5), parts=3)"
    )


MISSING = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("faiss", "scipy", "dd"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Missing())
import likewise as lw

for name in ("brute", "kdtree", "bdd", "snn", "live"):
    for index in (name, lw.Split(name, 2), lw.Periodic(name, 5)):
        try:
            monitor = lw.Monitor(lw.Rule("l2" if name == "snn" else "linf", 0.1), index=index)
            print(monitor.observe([0.5, 0.2], "yes").row)
        except lw.errors.BadRule as error:
            print(error)
"""


def test_a_missing_package_is_named_with_the_line_that_installs_it():
    """In an interpreter that cannot import them; what needs none of them works as ever."""
    done = run_python("-c", MISSING)
    said = done.stdout.splitlines()
    brute, kdtree, bdd = (
        f"index {name!r} needs the package {package}, which is not installed."
        f" Install it with: pip install '.[{name}]' in the clone of likewise"
        for name, package in (("brute", "faiss"), ("kdtree", "scipy"), ("bdd", "dd.cudd"))
    )
    assert said[:2] == [brute, brute]
    assert said[3:6] == [kdtree, kdtree, kdtree]
    assert said[6:8] == [bdd, bdd]
    assert (said[9], said[11]) == ("0", "0"), "snn needs nothing"
    assert (said[12], said[13]) == ("0", "0"), "nor does live"
