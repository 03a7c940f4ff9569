"""The page in a real browser: silent, offline, readable on a phone, and deaf to the data."""

import datetime

import numpy as np
import pytest

import likewise as lw
from likewise.reports.compare_page import compare_page
from likewise.reports.comparison import compare
from likewise.reports.document import write_document
from likewise.reports.evidence import Evidence, build_provenance
from likewise.reports.judged_history import HistoryTally
from likewise.reports.report_page import write_page
from tests.support import hostile_text
from tests.support.report_streams import RULE, found, people

SCREENS = {"desktop": (1200, False), "phone": (390, False), "dark phone": (390, True)}
VISIBLE_PLOTS = "[...document.querySelectorAll('svg.plot')].filter(one => one.checkVisibility())"


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """An ordinary report with everything on it, and a hostile one."""
    folder = tmp_path_factory.mktemp("pages")
    rows = people(600, seed=1)
    start = datetime.datetime(2026, 1, 1)
    plain = [{**row, "c": row["c"] or "w"} for row in rows]
    findings = found(
        RULE,
        plain,
        times=[start + datetime.timedelta(hours=i) for i in range(600)],
        calibration=lw.calibrate(RULE, plain),
        varied=lw.vary(RULE, plain),
        source="people.csv",
    )
    assert findings.violations and findings.groups and findings.curve and findings.by_time
    write_page(findings, folder / "plain.html")
    bad = found(
        hostile_text.rule(),
        hostile_text.rows(),
        varied=lw.vary(hostile_text.rule(), hostile_text.rows()),
        source=hostile_text.STRINGS[0],
        head=hostile_text.STRINGS[3],
    )
    assert bad.violations and bad.groups
    write_page(bad, folder / "hostile.html")
    names = hostile_text.STRINGS[0], hostile_text.STRINGS[3]
    rows = hostile_text.rows()
    compared = compare(judged(names[0], rows), judged(names[1], [*rows[5:], *rows[:3]]))
    assert compared.new.count and compared.gone.count and compared.one.groups
    write_document(compare_page(compared), folder / "compared.html")
    return folder


def judged(name, rows):
    monitor, tally = lw.Monitor(hostile_text.rule(), comparable=True), HistoryTally()
    tally.add(monitor.observe_many(rows), np.arange(len(rows)))
    done = build_provenance(Evidence(name), monitor.rule, monitor.explain(), None)
    return tally.history(name, monitor.past, done, keys=None)


@pytest.fixture(params=SCREENS)
def screen(request):
    return SCREENS[request.param]


@pytest.fixture
def opened(browser, pages, screen):
    """Opens a page on a screen, and closes it."""
    width, dark = screen
    shown = []

    def open_page(name):
        shown.append(browser.open(pages / f"{name}.html", width=width, dark=dark))
        return shown[-1]

    yield open_page
    for page in shown:
        page.close()


@pytest.mark.parametrize("name", ["plain", "hostile", "compared"])
def test_page_is_silent_and_offline(opened, name):
    page = opened(name)
    assert page.evaluate("document.title").endswith(
        "likewise compare" if name == "compared" else "likewise report"
    )
    assert page.complaints == []
    assert page.requests == []


@pytest.mark.parametrize("name", ["plain", "hostile", "compared"])
def test_page_does_not_scroll_sideways(opened, screen, name):
    page = opened(name)
    page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true })")
    assert page.evaluate("document.documentElement.scrollWidth") == screen[0]
    wide = page.evaluate(
        "[...document.querySelectorAll('body *')].filter(one => one.checkVisibility()"
        " && one.getBoundingClientRect().right > innerWidth + 1).map(one => one.outerHTML)"
    )
    assert wide == []


def test_plots_are_seen_and_readable(opened):
    page = opened("plain")
    page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true })")
    assert page.evaluate(f"{VISIBLE_PLOTS}.length") == 6  # time, order, two groups, margins, curve
    for check in (
        "one.getBoundingClientRect().width > 300 && one.getBoundingClientRect().height > 50",
        "one.getAttribute('role') === 'img' && one.getAttribute('aria-label').length > 30",
        "[...one.querySelectorAll('text')].every(text =>"
        " text.getBoundingClientRect().height >= 11)",
        "[...one.querySelectorAll('text')].every(text =>"
        " text.getBoundingClientRect().left >= 0 &&"
        " text.getBoundingClientRect().right <= innerWidth)",
    ):
        assert page.evaluate(f"{VISIBLE_PLOTS}.every(one => {check})"), check


def test_plots_have_a_line_and_bars_of_some_size(opened):
    page = opened("plain")
    for kind in ("path.line", "path.area", "rect.bar"):
        assert page.evaluate(
            f"{VISIBLE_PLOTS}.some(one => [...one.querySelectorAll('{kind}')].some(part =>"
            " part.getBoundingClientRect().width * part.getBoundingClientRect().height > 50))"
        ), kind


def test_hostile_strings_stay_text(opened):
    page = opened("hostile")
    assert page.evaluate("window.obeyed === undefined")
    assert page.evaluate("document.querySelectorAll('img, iframe, object').length") == 0
    assert page.evaluate("document.querySelectorAll('script').length") == 1  # the page's own
    assert page.evaluate("document.querySelectorAll('style').length") == 1
    assert page.evaluate("document.querySelectorAll('main').length") == 1
    told = page.evaluate("document.body.innerText")
    assert "<script>window.obeyed = true</script>" in told
    assert "right\\u202eto left" in told
    assert not set(told) & {"\u202e", "\u2066", "\x00", "\ufffd", "\ufffe"}


# Tables that sort and filter

COLUMN = (
    "[...document.querySelectorAll('.glance tbody tr')].filter(one => one.checkVisibility())"
    ".map(one => one.cells[{}].textContent)"
)
HEAD = "document.querySelectorAll('.glance thead th')[{}]"


def press(page, key):
    for kind in ("rawKeyDown", "char", "keyUp"):
        text = {"text": "\r"} if kind == "char" else {}
        page._call("Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=13, **text)


def test_table_sorts_by_a_column_with_the_keyboard_alone(opened):
    page = opened("plain")
    original = page.evaluate(COLUMN.format(1))
    numbers = [int(one.replace(",", "")) for one in original]
    assert len(numbers) == 20 and sorted(numbers) != numbers
    page.evaluate(f"{HEAD.format(1)}.querySelector('button').focus()")
    for direction, expected in (
        ("ascending", sorted(numbers)),
        ("descending", sorted(numbers, reverse=True)),
        ("none", numbers),
    ):
        press(page, "Enter")
        assert page.evaluate(f"{HEAD.format(1)}.getAttribute('aria-sort')") == direction
        shown = page.evaluate(COLUMN.format(1))
        assert [int(one.replace(",", "")) for one in shown] == expected
    page.evaluate(f"{HEAD.format(3)}.querySelector('button').click()")
    assert page.evaluate(f"{HEAD.format(1)}.getAttribute('aria-sort')") == "none"
    assert page.evaluate(COLUMN.format(3)) == sorted(page.evaluate(COLUMN.format(3)))


def test_filter_shows_lines_and_cards_with_its_words_and_paper_shows_all(opened, tmp_path):
    page = opened("plain")
    page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true })")
    lines = page.evaluate(
        "[...document.querySelectorAll('.glance tbody tr')].map(one => one.textContent)"
    )
    expected = [str(i) for i, line in enumerate(lines, 1) if "yes → no" in line]
    assert 0 < len(expected) < len(lines)
    page.evaluate(
        "{ const box = [...document.querySelectorAll('.filter input')].pop();"
        " box.value = ' YES →  no'; box.dispatchEvent(new Event('input')) }"
    )
    shown = page.evaluate(COLUMN.format(0))
    assert shown == expected
    cards = page.evaluate(
        "[...document.querySelectorAll('.pair')].filter(one => one.checkVisibility())"
        ".map(one => one.id.slice(5))"
    )
    assert cards == expected
    told = page.evaluate("[...document.querySelectorAll('.told')].pop().textContent")
    assert told == f" {len(expected)} of {len(lines)} shown"
    page._call("Emulation.setEmulatedMedia", media="print")
    assert len(page.evaluate(COLUMN.format(0))) == len(lines)
    assert "A filter is set on the screen; all lines are printed." in page.evaluate(
        "document.body.innerText"
    )
    assert page.complaints == []


def test_paper_says_what_is_folded_away_and_screens_do_not(browser, pages):
    page = browser.open(pages / "plain.html")
    words = "14 more pairs can be seen in the page"
    assert words not in page.evaluate("document.body.innerText")
    page._call("Emulation.setEmulatedMedia", media="print")
    assert words in page.evaluate("document.body.innerText")
    page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true })")
    assert words not in page.evaluate("document.body.innerText")
    page.close()


def test_page_says_everything_without_script(browser, pages, tmp_path):
    text = (pages / "plain.html").read_text()
    (tmp_path / "quiet.html").write_text(text.partition("<script>")[0] + "</body></html>")
    page = browser.open(tmp_path / "quiet.html")
    assert page.evaluate("document.querySelectorAll('button, input').length") == 0
    assert len(page.evaluate(COLUMN.format(0))) == 20
    page.close()


def test_hostile_table_is_sorted_and_filtered_and_stays_text(opened):
    page = opened("hostile")
    page.evaluate("document.querySelectorAll('button.sort').forEach(one => one.click())")
    page.evaluate(
        "document.querySelectorAll('.filter input').forEach(box => {"
        " box.value = '<script>'; box.dispatchEvent(new Event('input')) })"
    )
    assert page.evaluate("window.obeyed === undefined")
    assert page.evaluate("document.querySelectorAll('script').length") == 1
    assert page.complaints == []


def test_no_other_script_runs(browser, pages, tmp_path):
    """The policy of the page lets its own script run, and none that got in some other way."""
    text = (pages / "plain.html").read_text()
    other = text.replace("<main>", "<main><script>window.obeyed = true</script>")
    (tmp_path / "other.html").write_text(other)
    page = browser.open(tmp_path / "other.html")
    assert page.evaluate("window.obeyed === undefined")
    assert page.evaluate("document.querySelectorAll('button.sort').length") > 0
    assert any("Content Security Policy" in one for one in page.complaints)
    page.close()


CONTRAST = """
(() => {
  const parse = text => text.match(/[\\d.]+/g).map(Number);
  const shade = ([r, g, b]) => [r, g, b].map(v => v / 255)
    .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = one => {
    for (; one; one = one.parentElement) {
      const colour = parse(getComputedStyle(one).backgroundColor);
      if (colour.length === 3 || colour[3] === 1) return colour;
    }
  };
  return [...document.querySelectorAll('p, li, dt, dd, th, td, h1, h2, h3, summary, figcaption')]
    .filter(one => one.checkVisibility() && one.innerText.trim())
    .map(one => {
      const [a, b] = [shade(parse(getComputedStyle(one).color)), shade(behind(one))];
      return [(Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05), one.tagName, one.className];
    })
    .filter(([ratio]) => ratio < 4.5);
})()
"""


def test_text_stands_out_from_its_background(opened):
    assert opened("plain").evaluate(CONTRAST) == []


def test_page_prints(browser, pages, tmp_path):
    page = browser.open(pages / "plain.html")
    page.pdf(tmp_path / "page.pdf")
    page.close()
    printed = (tmp_path / "page.pdf").read_bytes()
    assert printed.startswith(b"%PDF")
    assert 2 <= printed.count(b"/Type /Page\n") + printed.count(b"/Type /Page ") <= 20


def test_browser_hears_what_it_should(browser, tmp_path):
    """The checks above would notice: a page that complains, loads and obeys."""
    (tmp_path / "bad.html").write_text(
        "<!doctype html><img src='http://127.0.0.1:9/x.png'><div style='width:3000px'>wide</div>"
        "<script>window.obeyed = true; console.log('heard'); nowhere()</script>"
    )
    page = browser.open(tmp_path / "bad.html", width=390)
    assert any("heard" in one for one in page.complaints)
    assert any("nowhere" in one for one in page.complaints)
    assert page.requests == ["http://127.0.0.1:9/x.png"]
    assert page.evaluate("window.obeyed")
    assert page.evaluate("document.documentElement.scrollWidth") > 390
    page.close()
