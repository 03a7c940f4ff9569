"""The spam example, run as a user would: what it prints and shows is counted again here.

The real messages are not part of the project: the folder is LIKEWISE_DATA, else ../shared/data
beside the checkout, and without it the slow test says that it was skipped.
"""

import csv
import gzip
import os
import random
import re
import runpy
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from tests.support import hostile_text
from tests.support.example_scripts import EXAMPLES, run_alone
from tests.support.lazily import wordllama

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("example spam"), pytest.mark.early]

SCRIPT = EXAMPLES / "spam.py"
REAL = Path(os.environ.get("LIKEWISE_DATA") or EXAMPLES.parents[1] / "shared" / "data")
REAL_FILES = ("SMSSpamCollection.tsv.gz", "spam_variants.txt.gz")
FILTERS = ("words", "characters")
RATE, LAST = 0.01, 10
DISGUISES = (
    "leetspeak",
    "spaces or dots",
    "lookalike letters",
    "misspelling",
    "synonyms",
    "innocent words",
)


class Run(NamedTuple):
    folder: Path
    printed: str
    rows: list[dict[str, str]]

    def of(self, name: str) -> list[dict[str, str]]:
        return [row for row in self.rows if row["filter"] == name]

    def told(self, name: str) -> dict[str, str]:
        """The lines of a filter, as printed: what, and how many."""
        part = self._part(name).split("disguise  sent")[0]
        return dict(re.findall(r"^(\S.*?\S) {2,}(\d\S*(?: of \S+)?)$", part, re.MULTILINE))

    def tally(self, name: str) -> dict[str, list[int]]:
        """The table of a filter, as printed: sent, got through, flagged, original named."""
        found = re.findall(r"^ *([a-z ]+?) +((?:\d+ +){4})\d\.\d+$", self._part(name), re.MULTILINE)
        return {kind: list(map(int, rest.split())) for kind, rest in found}

    def _part(self, name: str) -> str:
        return self.printed.split(f"The filter by {name}\n")[1].split("\n\n")[0]


def run_of(made: Path, printed: str) -> Run:
    assert sorted(path.name for path in made.iterdir()) == ["spam.csv", "spam.html"]
    with (made / "spam.csv").open(encoding="utf-8", newline="") as file:
        return Run(made, printed, list(csv.DictReader(file)))


def run_script(folder: Path, data: Path) -> Run:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LIKEWISE_DATA", str(data))
        printed = run_alone("spam.py", folder, "made/here")
    return run_of(folder / "made" / "here", printed)


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Run:
    """On made-up messages."""
    return run_script(tmp_path_factory.mktemp("spam"), tmp_path_factory.mktemp("nothing"))


@pytest.fixture(scope="module")
def example(tmp_path_factory) -> Iterator[dict[str, Any]]:
    """What the script defines; its messages are the made-up ones."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(EXAMPLES)
        patch.setenv("LIKEWISE_DATA", str(tmp_path_factory.mktemp("nothing")))
        yield runpy.run_path(str(SCRIPT))


# Counting again, without likewise


def embedded(texts: list[str]) -> np.ndarray:
    home = Path(find_spec("wordllama").origin).parent
    model = wordllama.WordLlama.load(cache_dir=home, disable_download=True)
    vectors = model.embed(texts, norm=False, batch_size=64).astype(np.float64)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def gaps(texts: list[str]) -> np.ndarray:
    """The distances of all from all; of equal texts exactly 0."""
    vectors = embedded(texts)
    apart = np.sqrt(np.maximum(0, 2 - 2 * vectors @ vectors.T))
    codes = np.unique(texts, return_inverse=True)[1]
    return np.where(codes[:, None] == codes, 0.0, apart)


def counts(rows: list[dict[str, str]]) -> Iterator[tuple[list[int], int]]:
    """Of each decision its witnesses, and how many of the last ten are near."""
    apart, reach = gaps([row["text"] for row in rows]), float(rows[0]["epsilon"]) * (1 + 1e-5)
    assert not np.any(np.abs(apart - reach) < 1e-7), "a pair on the very edge: count it by hand"
    answers = np.array([row["answer"] for row in rows])
    for i in range(len(rows)):
        near = apart[i, :i] <= reach
        yield np.flatnonzero(near & (answers[:i] != answers[i])).tolist(), int(near[-LAST:].sum())


def assert_counts_hold(run: Run) -> None:
    """What was printed is what is there, decision by decision."""
    for name in FILTERS:
        rows = run.of(name)
        tally: dict[str, list[int]] = {}
        flagged, erred, alarms = [], 0, set()
        for i, (row, (witnesses, near)) in enumerate(zip(rows, counts(rows), strict=True)):
            assert int(row["row"]) == i
            assert (row["flagged"] == "True") == bool(witnesses)
            assert int(row["neighbours"]) == near
            if row["disguise"] == "plain":
                flagged += [i] if witnesses else []
                erred += bool(witnesses) and rows[int(row["nearest"])]["truth"] == row["truth"]
                continue
            through = row["answer"] == "ham"
            named = int(row["original"]) in witnesses
            told = tally.setdefault(row["disguise"], [0, 0, 0, 0])
            for place, one in enumerate((True, through, through and witnesses, through and named)):
                told[place] += bool(one)
            if row["alarm"] == "True":
                alarms.add(row["original"])
        assert run.tally(name) == tally
        sent, through, caught, _ = np.sum(list(tally.values()), axis=0)
        ordinary = [row for row in rows if row["disguise"] == "plain"]
        right = np.mean([row["answer"] == row["truth"] for row in ordinary])
        raised = sum(row["alarm"] == "True" for row in ordinary)
        spammers = len({row["original"] for row in rows if row["disguise"] != "plain"})
        assert run.told(name) == {
            "epsilon": f"{float(rows[0]['epsilon']):.4f}",
            "ordinary messages told rightly": f"{right:.1%}",
            "disguised messages that got through": f"{through:,} of {sent:,}",
            "of these flagged": f"{caught:,} of {through:,}",
            "ordinary messages flagged": f"{len(flagged)} of {len(ordinary):,}",
            "of these with the filter wrong about one of the two": f"{erred} of {len(flagged)}",
            "spammers whose probing raised an alarm": f"{len(alarms)} of {spammers}",
            "ordinary messages that raised one": f"{raised} of {len(ordinary):,}",
        }


@pytest.mark.long
def test_counts_are_those_of_brute_force(run):
    assert_counts_hold(run)


def test_nearest_is_the_nearest_with_another_answer(run):
    for name in FILTERS:
        rows = run.of(name)
        apart = gaps([row["text"] for row in rows])
        answers = np.array([row["answer"] for row in rows])
        for i, row in enumerate(rows):
            others = apart[i, :i][answers[:i] != answers[i]]
            expected = others.min() if len(others) else np.inf
            assert float(row["away"]) == pytest.approx(expected, abs=1e-6)
            moved = apart[i, int(row["original"])]
            assert float(row["moved"]) == pytest.approx(moved, abs=1e-6)


def test_epsilon_and_alarm_are_what_the_share_allows(run, example):
    _, messages = example["given"]()
    learnt, chosen = messages[::3], messages[1::3].reset_index(drop=True)
    apart = gaps(chosen.text.tolist())
    for name in FILTERS:
        answers = example["FILTERS"][name].fit(learnt.text, learnt.truth).predict(chosen.text)
        nearest = [
            apart[i, :i][answers[:i] != answers[i]].min(initial=np.inf) for i in range(len(chosen))
        ]
        step = np.sort(nearest)[int(RATE * len(chosen))]  # from here on it would be one too many
        rows = run.of(name)
        epsilon = float(rows[0]["epsilon"])
        assert epsilon * (1 + 1e-5) == pytest.approx(step, abs=1e-6)
        near = [
            int((apart[i, max(0, i - LAST) : i] <= step - 1e-7).sum()) for i in range(len(chosen))
        ]
        alarm = np.sort(near)[-1 - int(RATE * len(chosen))] + 1
        assert np.mean(np.array(near) >= alarm) <= RATE
        for row in rows:
            assert (row["alarm"] == "True") == (int(row["neighbours"]) >= alarm)


# What the numbers are about


def test_example_shows_what_it_is_about(run):
    for name in FILTERS:
        told, tally = run.told(name), run.tally(name)
        assert list(tally) == list(DISGUISES)
        right = float(told["ordinary messages told rightly"].rstrip("%"))
        assert right > 90
        for kind, (sent, through, caught, named) in tally.items():
            assert 0 < named <= caught <= through < sent, kind
        sent, through, caught, _ = np.sum(list(tally.values()), axis=0)
        assert caught > through / 2
        assert caught < through, "nothing was missed: the page would have nothing to admit"
        assert int(told["ordinary messages flagged"].split()[0]) < 0.03 * 600
    worse, better = (np.sum(list(run.tally(name).values()), axis=0) for name in FILTERS)
    assert better[1] / better[0] < worse[1] / worse[0]


def test_disguises_are_of_spam_that_was_caught(run, example):
    _, messages = example["given"]()
    live = messages[2::3].reset_index(drop=True)
    for name in FILTERS:
        rows = run.of(name)
        plain = [row for row in rows if row["disguise"] == "plain"]
        assert [row["text"] for row in plain] == live.text.tolist()
        assert [row["truth"] for row in plain] == live.truth.tolist()
        assert rows[: len(plain)] == plain
        caught = [i for i, row in enumerate(plain) if row["answer"] == row["truth"] == "spam"]
        for row in rows[len(plain) :]:
            original = plain[int(row["original"])]
            assert int(row["original"]) in caught
            assert row["truth"] == "spam"
            assert row["text"] != original["text"]
            if row["disguise"] == "innocent words":
                assert row["text"].startswith(f"{original['text']} ")
        assert {int(row["original"]) for row in rows[len(plain) :]} == set(caught)


def test_each_disguise_does_what_it_is_called(example):
    told = example["disguised"]("Text WIN to 80123 for cash", ["See you."], random.Random(2))
    assert told["leetspeak"] == "73x7 W1N to 80123 for c45h"
    assert told["spaces or dots"] in {
        f"{a.join('Text')} {b.join('WIN')} to 80123 for {c.join('cash')}"
        for a in " ."
        for b in " ."
        for c in " ."
    }
    assert told["lookalike letters"] == "Т\u0435\u0445t W\u0406N to 80123 for \u0441\u0430sh"
    assert told["misspelling"] == "Txet WNI to 80123 for csah"
    assert told["synonyms"] == "message gain to 80123 for money"
    assert told["innocent words"] == "Text WIN to 80123 for cash See you."


def test_messages_are_the_same_each_time(example):
    first, second = (example["given"]()[1] for _ in range(2))
    assert first.equals(second)
    assert len(first) == 1800
    assert (first.truth == "spam").sum() > 500
    assert first.text.nunique() > 1700


# The page


@pytest.mark.parametrize(("width", "dark"), [(1200, False), (390, True)])
def test_report_opens_and_shows_pairs(run, browser, width, dark):
    page = browser.open(run.folder / "spam.html", width=width, dark=dark)
    try:
        assert page.complaints == []
        assert page.requests == []
        assert page.evaluate("document.documentElement.scrollWidth") == width
        assert page.evaluate("document.querySelectorAll('article.pair').length") >= 12
        assert page.evaluate("document.querySelectorAll('svg.plot').length") >= 1
        assert page.evaluate("document.querySelectorAll('article mark').length") > 30
        text = page.evaluate("document.body.innerText")
        assert re.search(r"this looks like row \d+, which you called spam", text)
        assert "no warning" in text
        assert "made-up messages" in text
        for name in FILTERS:
            assert all(value in text for value in run.told(name).values())
    finally:
        page.close()


@pytest.mark.long
def test_report_shows_messages_without_obeying_them(
    tmp_path, monkeypatch, capsys, example, browser
):
    data = tmp_path / "data"
    data.mkdir()
    unwelcome = [
        one
        for one in hostile_text.STRINGS
        if len(one) < 1_000 and not set(one) & set("\n\r\t\0\ud800")
    ]
    made = example["given"]()[1][:450]
    texts = [
        f"{text} {hostile_text.STRINGS[0]} {unwelcome[i % len(unwelcome)]}"
        for i, text in enumerate(made.text)
    ]
    lines = [f"{truth}\t{text}\n" for truth, text in zip(made.truth, texts, strict=True)]
    spam = [i for i, truth in enumerate(made.truth) if truth == "spam"]
    recorded = [f"{i}\t{texts[i]} again {hostile_text.STRINGS[1]}\n" for i in spam]
    for name, content in zip(REAL_FILES, (lines, recorded), strict=True):
        (data / name).write_bytes(gzip.compress("".join(content).encode()))
    monkeypatch.setenv("LIKEWISE_DATA", str(data))
    example["main"]([str(tmp_path / "made")])
    run = run_of(tmp_path / "made", capsys.readouterr().out)
    assert_counts_hold(run)
    assert "recorded" in run.tally("words")
    page = browser.open(run.folder / "spam.html", width=390)
    try:
        assert page.complaints == []
        assert page.requests == []
        assert page.evaluate("window.obeyed === undefined")
        assert page.evaluate("document.querySelectorAll('script, img, iframe').length") == 0
        assert page.evaluate("document.documentElement.scrollWidth") == 390
        text = page.evaluate("document.body.innerText")
        assert text.count("<script>window.obeyed = true</script>") > 4
        assert "messages of the SMS Spam Collection" in text
    finally:
        page.close()


def test_script_is_short():
    assert len(SCRIPT.read_text(encoding="utf-8").splitlines()) < 150


@pytest.mark.slow
@pytest.mark.skipif(
    not all((REAL / name).is_file() for name in REAL_FILES),
    reason="the folder of real data is not here",
)
def test_real_messages_and_recorded_disguises(tmp_path):
    run = run_script(tmp_path, REAL)
    assert_counts_hold(run)
    for name in FILTERS:
        tally = run.tally(name)
        assert set(tally) == {*DISGUISES, "recorded"}
        _, through, caught, named = np.sum(list(tally.values()), axis=0)
        assert through > 100
        assert caught > 0.95 * through
        assert named > 0.95 * through
        flagged, _, ordinary = run.told(name)["ordinary messages flagged"].split()
        assert int(flagged) < 0.02 * int(ordinary.replace(",", ""))
        assert float(run.told(name)["ordinary messages told rightly"].rstrip("%")) > 97
