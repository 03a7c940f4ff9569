"""The page: one whole document, safe whatever the data holds, written whole or not at all."""

import base64
import dataclasses
import datetime
import hashlib
import re
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import likewise as lw
from likewise.explaining.pairs import DecisionOrigin
from likewise.reports.report_page import render_page, write_page
from likewise.verdict.html import display_both, escape_html
from tests.support import hostile_text
from tests.support.looping import each
from tests.support.programs import run_python
from tests.support.refusals import raises
from tests.support.report_streams import RULE, SCORES, found, people
from tests.support.strict_html import Reader, read_strictly


def read(findings):
    return read_strictly(render_page(findings), more=("a", "script"))


@pytest.fixture(scope="module")
def findings():
    rows = people(400, seed=1)
    start = datetime.datetime(2026, 1, 1)
    times = [start + datetime.timedelta(hours=7 * i) for i in range(400)]
    calibration = lw.calibrate(lw.Rule(epsilon=1), [[0.0], [0.4], [3.0]], ["a", "b", "a"])
    return found(
        RULE,
        rows,
        times=times,
        calibration=calibration,
        head="d34db33f",
        bad_rows=3,
        source="people.csv",
    )


def test_page_says_everything(findings):
    text = " ".join(" ".join(read(findings).texts).split())
    for words in (
        "people.csv",
        f"({findings.violations:,} of {findings.with_earlier:,}) contradict",
        f"have a similar case, earlier or later {findings.agreement.comparable:,} of 400",
        f"{findings.in_any_pair:,} of 400 decisions",
        f"{findings.pairs:,} ",
        "What counts as similar",
        "sex and race are protected",
        "Over time",
        "Who got less",
        "By sex",
        "By race",
        "Pairs to look at",
        f"Row {findings.worst[0].pair.row:,} contradicts row",
        "How near the contradictions are",
        "If the rule were stricter, or wider",
        "How this was computed",
        RULE.fingerprint,
        "chain head d34db33f",
        "3 rows that could not be used",
        "a part: the first 3 of 400 decisions judged",
        "no verdict is sampled or estimated",
        f"likewise {lw.__version__}",
        "likewise audit DATA --rule likewise.toml --report page.html",
    ):
        assert words in text, words


def test_page_carries_the_rule_as_it_can_be_used_again(findings):
    document = render_page(findings)
    toml = re.search(r'<pre class="rules"[^>]*>(.*?)</pre>', document, re.DOTALL)[1]
    reader = Reader()
    reader.feed(toml)
    assert lw.Rule.from_toml("".join(reader.texts)) == RULE


def test_page_loads_nothing_and_runs_its_own_script_alone(findings):
    reader = read(findings)
    assert reader.seen.count("script") == 1
    script = render_page(findings).partition("<script>")[2].partition("</script>")[0]
    written = (Path(lw.__file__).parent / "reports" / "tables.js").read_text()
    assert script == f"\n{written}"
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    for tag, name, value in reader.attributes:
        if name in ("src", "href", "action", "data", "srcset", "xlink:href"):
            inside = tag == "a" and re.fullmatch(r"#pair-\d+", value)
            assert value == "data:," or inside, (tag, name, value)
    assert "url(" not in render_page(findings) and "@import" not in render_page(findings)
    assert (
        "meta",
        "content",
        "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none';"
        f" script-src 'sha256-{digest}'",
    ) in reader.attributes


def test_page_says_on_paper_what_is_folded_away(findings):
    document = render_page(findings)
    folded = document.count("<details>")
    assert folded >= 2
    assert document.count('</details>\n<p class="on-paper small">') == folded
    assert f"Side by side, {len(findings.worst) - 6} more pairs can be seen in the page" in document


def test_cards_show_lines_times_and_ignored_columns(findings):
    later = DecisionOrigin(14, "line", "2026-01-03", (("note", "<i>"), ("desk", None)))
    earlier = DecisionOrigin(5, "line", "2026-01-01 10:00:00", (("note", "b"), ("desk", None)))
    first = dataclasses.replace(findings.worst[0], later=later, earlier=earlier)
    document = render_page(dataclasses.replace(findings, worst=(first,)))
    text = " ".join(" ".join(read_strictly(document, more=("a", "script")).texts).split())
    for words in (
        "Line 14 contradicts line 5",
        "2026-01-03 UTC",
        "2026-01-01 10:00:00 UTC",
        "2 columns ignored column earlier later note b <i> desk missing missing",
        "2 columns that the rule ignores are in the page and not printed",
    ):
        assert words in text, words


def test_page_can_be_heard(findings):
    reader = read(findings)
    headings = [int(tag[1]) for tag in reader.seen if re.fullmatch(r"h\d", tag)]
    assert headings[0] == 1 and headings.count(1) == 1
    assert all(b <= a + 1 for a, b in pairwise(headings))
    labels = [v for tag, name, v in reader.attributes if (tag, name) == ("svg", "aria-label")]
    assert len(labels) == reader.seen.count("svg") > 0
    assert all(len(label) > 30 for label in labels)
    assert ("html", "lang", "en") in reader.attributes


@pytest.mark.parametrize(
    "changes",
    [
        {"violations": 0, "pairs": 0, "worst": (), "curve": None},
        {"groups": (), "no_groups_reason": "the rule has no favourable output"},
        {"by_time": (), "without_time": 400},
        {"rows": 0, "violations": 0, "worst": (), "by_row": (), "by_time": ()},
        {"curve": None},
    ],
)
def test_page_is_whole_where_something_is_missing(findings, changes):
    read(dataclasses.replace(findings, **changes))


def test_page_of_nothing_is_whole():
    assert "There were no decisions" in "".join(read(found(RULE, [])).texts)


def test_page_of_one_pair_is_whole():
    read(found(lw.Rule(epsilon=1), [[0.0], [0.0]], outputs=["a", "b"]))


def test_page_of_scores_is_whole():
    text = "".join(read(found(SCORES, people(200, seed=2, kind="number"))).texts)
    assert "mean output" in text


def test_page_of_pictures_and_embeddings_is_whole():
    rng = np.random.default_rng(3)
    x = rng.integers(0, 3, (60, 5, 6), dtype=np.uint8)
    read(found(lw.Rule(epsilon=2), x, outputs=rng.integers(0, 2, 60).tolist()))
    x = rng.normal(size=(60, 50)).astype(np.float32)
    read(found(lw.Rule("cosine", 0.9), x, outputs=rng.integers(0, 2, 60).tolist()))


def test_page_of_hostile_data_is_whole_and_small():
    findings = found(
        hostile_text.rule(), hostile_text.rows(), source=hostile_text.STRINGS[1], head="<b>"
    )
    assert findings.violations > 0 and findings.groups
    read(findings)
    assert len(render_page(findings)) < 3_000_000


TEXT = st.text(st.characters(exclude_categories=()), max_size=40)
NAME = st.text(max_size=40)  # no lone surrogates: TOML cannot hold them


@given(source=TEXT, name=NAME, value=TEXT, output=TEXT)
def test_page_is_whole_whatever_the_text(source, name, value, output):
    rule = lw.Rule(
        features={
            f"x{name}": lw.Feature("number", tolerance=1),
            f"g{name}": lw.Feature("protected"),
        },
        output_column=f"z{name}",
        favourable="yes",
    )
    rows = [
        {f"x{name}": 1, f"g{name}": f"{value}{i}", f"z{name}": answer}
        for i, answer in enumerate(("yes", f"not {output}"))
    ]
    read(found(rule, rows, source=source))


@each("text", hostile_text.STRINGS, ids=lambda text: repr(text[:20]))
def test_safe_text_has_no_markup_and_nothing_unseen(text):
    made = escape_html(text)
    assert not set(made) & set("<>\"'")
    assert len(made) < 1_500
    assert made.isprintable() or "\u200d" in made
    made.encode("utf-8")


def test_safe_text_says_how_long_it_was():
    assert escape_html("x" * 1_000).endswith("… (1,000 characters)")


def test_values_that_differ_look_different():
    assert display_both(0.1, 0.2) == ("0.1", "0.2")
    assert display_both(0.1 + 0.2, 0.3) == ("0.30000000000000004", "0.3")
    assert display_both(None, "a") == ("missing", "a")


# Writing


def names_in(folder):
    return sorted(path.name for path in folder.iterdir())


def test_page_is_written_as_any_file(findings, tmp_path):
    path = tmp_path / "page.html"
    path.write_text("old")
    write_page(findings, path)
    assert path.read_text(encoding="utf-8") == render_page(findings)
    assert names_in(tmp_path) == ["page.html"]
    (tmp_path / "beside").write_text("")
    assert path.stat().st_mode == (tmp_path / "beside").stat().st_mode


@pytest.mark.parametrize("where", ["no/such/folder/page.html", "folder", "file/page.html"])
def test_page_that_cannot_be_written_says_so(findings, tmp_path, where):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("kept")
    before = names_in(tmp_path)
    with raises(lw.errors.BadFile):
        write_page(findings, tmp_path / where)
    assert names_in(tmp_path) == before
    assert (tmp_path / "file").read_text() == "kept"


def test_page_for_which_there_is_no_room_leaves_the_old_one(tmp_path):
    path = tmp_path / "page.html"
    path.write_text("old")
    code = f"""
import resource, signal
import likewise as lw
from likewise.reports.findings import Tally
from likewise.reports.report_page import write_page
findings = Tally(lw.Monitor(lw.Rule(epsilon=1))).findings(source="nothing")
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    write_page(findings, {str(path)!r})
except lw.errors.BadFile as error:
    print(error)
"""
    done = run_python("-B", "-c", code)
    assert "File too large" in done.stdout
    assert path.read_text() == "old"
    assert names_in(tmp_path) == ["page.html"]
