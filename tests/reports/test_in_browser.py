"""The page in a real browser: silent, offline, readable on a phone, and deaf to the data."""

import datetime

import pytest

import likewise as lw
from likewise.reports.page import write_page
from tests import hostile_text
from tests.report_streams import RULE, found, people

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
        source="people.csv",
    )
    assert findings.flagged and findings.groups and findings.curve and findings.by_time
    write_page(findings, folder / "plain.html")
    bad = found(
        hostile_text.rule(),
        hostile_text.rows(),
        source=hostile_text.STRINGS[0],
        head=hostile_text.STRINGS[3],
    )
    assert bad.flagged and bad.groups
    write_page(bad, folder / "hostile.html")
    return folder


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


@pytest.mark.parametrize("name", ["plain", "hostile"])
def test_page_is_silent_and_offline(opened, name):
    page = opened(name)
    assert page.evaluate("document.title").endswith("likewise report")
    assert page.complaints == []
    assert page.requests == []


@pytest.mark.parametrize("name", ["plain", "hostile"])
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
    assert page.evaluate("document.querySelectorAll('script, img, iframe, object').length") == 0
    assert page.evaluate("document.querySelectorAll('style').length") == 1
    assert page.evaluate("document.querySelectorAll('main').length") == 1
    told = page.evaluate("document.body.innerText")
    assert "<script>window.obeyed = true</script>" in told
    assert "right\\u202eto left" in told
    assert not set(told) & {"\u202e", "\u2066", "\x00", "\ufffd", "\ufffe"}


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
