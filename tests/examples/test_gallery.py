"""The page with pictures: what is given is shown, pixel for pixel, and nothing of it is obeyed."""

import base64
import io
import os
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from PIL import Image

import likewise as lw
from examples.gallery import Gallery
from examples.gallery.pictures import difference, pixels_of
from examples.gallery.rates import short_share
from examples.gallery.texts import marked
from tests.support import hostile_text
from tests.support.example_scripts import EXAMPLES
from tests.support.looping import each
from tests.support.programs import run_python
from tests.support.refusals import raises
from tests.support.strict_html import read_strictly

MORE = ("img", "mark", "blockquote", "caption")
SCREENS = {
    "desktop": (1200, False),
    "dark desktop": (1200, True),
    "phone": (390, False),
    "dark phone": (390, True),
}
GREY = np.arange(64, dtype=np.uint8).reshape(8, 8) * 4
COLOUR = np.random.default_rng(0).integers(0, 256, (12, 9, 3), dtype=np.uint8)


def read(gallery):
    return read_strictly(gallery.page(), MORE)


def pictures(gallery):
    """Every picture on the page, decoded."""
    sources = [value for tag, name, value in read(gallery).attributes if (tag, name) == PICTURE]
    heads, carried = zip(*(one.split(",", 1) for one in sources), strict=True)
    assert set(heads) == {"data:image/png;base64"}
    return [np.asarray(Image.open(io.BytesIO(base64.b64decode(one)))) for one in carried]


PICTURE = ("img", "src")


def plain():
    """Everything that a page can hold."""
    gallery = Gallery("Digits, attacked", "What a small change does.")
    gallery.figures([("attacked pictures that flipped the model", "412 of 500"), ("found", 1412)])
    gallery.say("Words on\n  two lines.")
    gallery.section("Rates", "By severity and by budget.")
    shares = np.linspace(0, 1, 30).reshape(6, 5)
    shares[0, 0] = np.nan
    rows = ["brightness", "blur", "noise", "contrast", "fog", "snow"]
    gallery.heatmap({"base": shares, "robust": shares / 2}, rows, range(1, 6), "Heat", caption="C")
    gallery.heatmap([[0, 12.5]], ["one"], ["a", "b"], as_shares=False)
    gallery.lines(
        {"base": [0.25, 0.75, 1], "robust": [0.0, 0.1, 0.5], "third": [0.1, 0.2, 0.6]},
        ["1/16", "2/16", "3/16"],
        "Lines",
        across="budget",
        up="share of pictures",
    )
    gallery.section("Pairs")
    gallery.pair(GREY, GREY[::-1], "Grey", note="Far", outputs=(3, 8), difference=True)
    gallery.pair(COLOUR, COLOUR // 2, "Colour", outputs=("frog", "frog"))
    gallery.pair("You won a prize", "You w0n a prize", "Text", outputs=("spam", "ham"))
    gallery.table([["leet", 12, 0.5, "yes"], ["space", 1300, 0.25, "no"]], ["kind", "n", "r", "w"])
    return gallery


def all_hostile():
    """Hostile strings wherever a string may be."""
    strings = hostile_text.STRINGS
    gallery = Gallery(strings[0], strings[2])
    for i, one in enumerate(strings):
        gallery.section(one, one)
        gallery.say(one)
        gallery.figures([(one, one)])
        gallery.table([[one, one]], [one, one], one)
        gallery.heatmap({one: [[0.5]]}, [one], [one], one, caption=one)
        gallery.lines({one: [0.5]}, [one], one, across=one, up=one, caption=one)
        gallery.pair(GREY, GREY, one, note=one, names=(one, one), outputs=(one, strings[i - 1]))
        gallery.pair(one, strings[i - 1], one)
    return gallery


# What is shown


def test_page_shows_what_was_given_in_its_order():
    told = " ".join(read(plain()).texts)
    assert "Words on two lines." in told
    places = [
        told.index(one)
        for one in ("Digits, attacked", "412 of 500", "1,412", "Rates", "brightness", "12.5")
    ]
    assert places == sorted(places)
    for words in ("budget", "share of pictures", "100%", "Far", "frog", "leet", "1,300", "0.25"):
        assert words in told


def test_page_is_the_same_when_asked_twice():
    gallery = plain()
    assert gallery.page() == gallery.page()


def test_pairs_that_follow_each_other_stand_in_one_grid():
    gallery = Gallery("Pairs")
    for _ in range(3):
        gallery.pair("a", "b")
    gallery.say("between")
    gallery.pair("a", "b")
    page = gallery.page()
    assert page.count('<div class="pairs">') == 2
    assert page.count('<article class="pair">') == 4


def test_outputs_are_marked_where_they_differ():
    gallery = Gallery("Pairs")
    gallery.pair("a", "b", outputs=(1, 1))
    assert "answer differs" not in gallery.page()
    gallery.pair("a", "b", outputs=(1, 2))
    assert gallery.page().count('class="answer differs"') == 2


@pytest.mark.parametrize("picture", [GREY, COLOUR], ids=["grey", "colour"])
def test_picture_decodes_to_the_pixels_given(picture):
    gallery = Gallery("Pictures")
    gallery.pair(picture, picture[::-1, ::-1])
    left, right = pictures(gallery)
    assert np.array_equal(left, picture)
    assert np.array_equal(right, picture[::-1, ::-1])


@given(
    arrays(
        st.sampled_from([np.float16, np.float32, np.float64]),
        array_shapes(min_dims=2, max_dims=2, max_side=12),
        elements=st.floats(0, 1, width=16),
    )
)
def test_floats_are_rounded_to_the_nearest_of_256_levels(picture):
    gallery = Gallery("Pictures")
    gallery.pair(picture, np.repeat(picture[..., None], 3, axis=2))
    grey, colour = pictures(gallery)
    assert np.abs(grey - picture.astype(np.float64) * 255).max() <= 0.5 + 1e-9
    assert np.array_equal(colour, np.repeat(grey[..., None], 3, axis=2))


def test_difference_shows_where_and_which_way():
    left = np.zeros((2, 2))
    right = np.array([[0.0, 0.5], [0.25, 0.0]])
    changed, largest = difference(left, right)
    assert largest == 0.5
    assert np.array_equal(changed[0, 0], changed[1, 1])  # nothing changed there
    assert changed[0, 1, 0] > changed[0, 1, 2]  # brighter: rust
    back, _ = difference(right, left)
    assert back[0, 1, 2] > back[0, 1, 0]  # darker: blue
    contrast = np.abs(changed.astype(int) - changed[0, 0].astype(int)).sum(axis=2)
    assert contrast[0, 1] > contrast[1, 0] > 0


def test_difference_of_bytes_does_not_wrap_around():
    changed, largest = difference(np.full((1, 1), 255, np.uint8), np.zeros((1, 1), np.uint8))
    assert largest == 1.0
    assert changed[0, 0, 2] > changed[0, 0, 0]


def test_equal_pictures_have_no_difference():
    gallery = Gallery("Pictures")
    gallery.pair(COLOUR, COLOUR, difference=True)
    assert len(np.unique(pictures(gallery)[2].reshape(-1, 3), axis=0)) == 1
    assert "none" in read(gallery).texts


@each(
    ("picture", "says"),
    [
        (np.zeros(64), r"shape \(64,\); expected \(height, width\)"),
        (np.zeros((8, 8, 4)), r"shape \(8, 8, 4\).*leave other channels out"),
        (np.zeros((0, 8)), r"shape \(0, 8\)"),
        (np.zeros((8, 8), np.int64), "int64; expected uint8, or floats"),
        (np.zeros((8, 8), bool), "bool; expected uint8"),
        (np.full((8, 8), 16.0), "from 16 to 16; expected floats from 0 to 1"),
        (np.full((8, 8), -0.1), "from -0.1 to -0.1"),
        (np.full((8, 8), np.nan), "from nan to nan"),
        (np.array([["a"]]), "<U1; expected uint8"),
    ],
    ids=str,
)
def test_what_is_no_picture_is_refused_and_leaves_the_page_as_it_was(picture, says):
    gallery = Gallery("Pictures")
    before = gallery.page()
    with pytest.raises(ValueError, match=says):
        gallery.pair(GREY, picture)
    assert gallery.page() == before


def test_misfits_are_refused():
    gallery = Gallery("Misfits")
    before = gallery.page()
    for says, refused in {
        "one text and one picture": lambda: gallery.pair("a", GREY),
        r"shapes \(8, 8\) and \(4, 8\).*difference=False": lambda: gallery.pair(
            GREY, GREY[:4], difference=True
        ),
        "row 1 of the table has 1 cells; expected 2": lambda: gallery.table(
            [[1, 2], [1]], ["a", "b"]
        ),
        r"has shape \(1, 2\); expected one line for each of 2 rows": lambda: gallery.heatmap(
            [[1, 2]], ["a", "b"], [1, 2]
        ),
        "holds -1; expected numbers from 0": lambda: gallery.heatmap([[-1]], ["a"], ["b"]),
        "holds inf; expected numbers": lambda: gallery.heatmap([[np.inf]], ["a"], ["b"]),
        "expected numbers$": lambda: gallery.heatmap([["x"]], ["a"], ["b"]),
        "5 lines; expected 1 to 4": lambda: gallery.lines({str(i): [0.5] for i in range(5)}, [1]),
        "expected a share from 0 to 1 for each of 2": lambda: gallery.lines({"a": [0.5]}, [1, 2]),
        "expected a share from 0 to 1 for": lambda: gallery.lines({"a": [50]}, [1]),
    }.items():
        with pytest.raises(ValueError, match=says):
            refused()
    assert gallery.page() == before


def test_pictures_without_pillow_say_what_to_install(tmp_path):
    (tmp_path / "PIL.py").write_text("raise ImportError('not here')")
    code = (
        "from gallery import Gallery\n"
        "gallery = Gallery('Texts need nothing')\n"
        "gallery.pair('a', 'b')\n"
        "try:\n"
        "    gallery.pair([[0.5]], [[0.5]])\n"
        "except ImportError as error:\n"
        "    print(error)\n"
        "assert gallery.page().count('<article') == 1\n"
    )
    done = run_python("-c", code, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(EXAMPLES)})
    assert "pip install '.[images]' in the clone" in done.stdout


# Texts


def unmarked(html):
    return re.sub("</?mark>", "", html)


@pytest.mark.parametrize(
    ("left", "right", "marks"),
    [
        ("free prize", "free prize", ([], [])),
        ("a free prize now", "a fr3e prize now", (["free"], ["fr3e"])),
        ("call me", "call me now", ([], [" now"])),
        ("free", "f r e e", (["free"], ["f r e e"])),
        ("paypal", "p\u0430ypal", (["paypal"], ["p\u0430ypal"])),
        ("free", "fr\u200bee", (["free"], ["fr\\u200bee"])),
    ],
)
def test_texts_mark_what_differs(left, right, marks):
    shown = marked(left, right)
    assert tuple(re.findall("<mark>(.*?)</mark>", one) for one in shown) == marks


@given(st.text(max_size=60), st.text(max_size=60))
def test_texts_are_whole_and_equal_ones_bear_no_mark(left, right):
    one, other = marked(left, right)
    assert unmarked(one) == unmarked(marked(left, left)[0])
    assert unmarked(other) == unmarked(marked(right, right)[1])
    assert ("<mark>" in one + other) == (left != right) or not (left.strip() and right.strip())
    assert "<mark>" not in marked(left, left)[0]


# Heat maps


@pytest.mark.parametrize(
    ("share", "said"),
    [(0, "0%"), (0.001, "<1%"), (0.0051, "1%"), (0.5, "50%"), (0.999, ">99%"), (1, "100%")],
)
def test_share_in_a_cell_is_never_nothing_for_something(share, said):
    assert short_share(share) == said


def test_heat_maps_side_by_side_have_one_scale():
    gallery = Gallery("Heat")
    gallery.heatmap({"a": [[0.8]], "b": [[0.2]]}, ["row"], ["column"])
    assert re.findall(r"--shade:(\d+)%", gallery.page()) == ["100", "25"]
    gallery.heatmap([[0.8]], ["row"], ["column"], most=1)
    assert re.findall(r"--shade:(\d+)%", gallery.page())[-1] == "80"


def test_heat_map_is_a_table_that_can_be_read_aloud():
    seen = read(plain())
    scopes = [value for tag, name, value in seen.attributes if (tag, name) == ("th", "scope")]
    assert scopes.count("row") >= 13
    assert "–" in seen.texts


# Hostile strings and files


def test_hostile_strings_stay_text_in_the_document():
    seen = read(all_hostile())
    assert "script" not in seen.seen
    assert seen.seen.count("style") == seen.seen.count("main") == 1
    for _, name, value in seen.attributes:
        if name in ("src", "href"):
            assert value.startswith("data:")
        if name == "style":
            assert re.fullmatch(r"--shade:\d+%", value)
    assert len(all_hostile().page()) < 2_000_000


def test_page_is_written_whole_or_not_at_all(tmp_path):
    gallery = plain()
    gallery.write(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text(encoding="utf-8") == gallery.page()
    with raises(lw.errors.BadFile):
        gallery.write(tmp_path / "no" / "page.html")
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]


def test_page_forbids_itself_to_load_anything():
    policy = next(value for _, name, value in read(plain()).attributes if name == "content")
    assert policy.startswith("default-src 'none'; style-src 'unsafe-inline'; img-src data:;")


# In a browser

CONTRAST = """
(() => {
  const parse = text => text.match(/[\\d.]+/g).map(Number)
    .map((v, i) => i < 3 && !text.startsWith('color(') ? v / 255 : v);
  const shade = rgb => rgb.slice(0, 3)
    .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = one => {
    for (; one; one = one.parentElement) {
      const colour = parse(getComputedStyle(one).backgroundColor.replace('srgb', ''));
      if (colour.length === 3 || colour[3] === 1) return colour;
    }
  };
  return [...document.querySelectorAll(
    'p, li, dt, dd, th, td, h1, h2, h3, figcaption, caption, blockquote, mark, .answer, .name')]
    .filter(one => one.checkVisibility() && one.innerText.trim())
    .map(one => {
      const [a, b] = [shade(parse(getComputedStyle(one).color)), shade(behind(one))];
      return [(Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05), one.tagName, one.innerText];
    })
    .filter(([ratio]) => ratio < 4.5);
})()
"""


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("galleries")
    plain().write(folder / "plain.html")
    all_hostile().write(folder / "hostile.html")
    heat = Gallery("Every shade")
    heat.heatmap(np.linspace(0, 1, 101).reshape(-1, 1), range(101), ["shade"])
    heat.write(folder / "heat.html")
    return folder


@pytest.fixture(params=SCREENS)
def screen(request):
    return SCREENS[request.param]


@pytest.fixture
def opened(browser, pages, screen):
    shown = []

    def open_page(name):
        shown.append(browser.open(pages / f"{name}.html", width=screen[0], dark=screen[1]))
        return shown[-1]

    yield open_page
    for page in shown:
        page.close()


@pytest.mark.parametrize("name", ["plain", "hostile"])
def test_page_is_silent_offline_and_does_not_scroll_sideways(opened, screen, name):
    page = opened(name)
    assert page.evaluate("document.title").endswith("likewise")
    assert page.complaints == []
    assert page.requests == []
    assert page.evaluate("document.documentElement.scrollWidth") == screen[0]


def test_pictures_are_seen_enlarged_and_pixelated(opened):
    page = opened("plain")
    assert page.evaluate("document.images.length") == 5
    for check in (
        "one.complete && one.naturalWidth > 0",
        "one.getBoundingClientRect().width > 80",
        "getComputedStyle(one).imageRendering === 'pixelated'",
        "one.alt.length > 3",
    ):
        assert page.evaluate(f"[...document.images].every(one => {check})"), check


def test_hostile_strings_are_shown_and_not_obeyed(opened):
    page = opened("hostile")
    assert page.evaluate("window.obeyed === undefined")
    assert page.evaluate("document.querySelectorAll('script, iframe, object').length") == 0
    told = page.evaluate("document.body.innerText")
    assert "<script>window.obeyed = true</script>" in told
    assert "right\\u202eto left" in told
    assert not set(told) & {"\u202e", "\u2066", "\x00", "\ufffd", "\ufffe"}


@pytest.mark.parametrize("name", ["plain", "heat"])
def test_text_stands_out_from_its_background(opened, name):
    assert opened(name).evaluate(CONTRAST) == []


def test_page_prints(browser, pages, tmp_path):
    page = browser.open(pages / "plain.html")
    page.pdf(tmp_path / "page.pdf")
    page.close()
    assert (tmp_path / "page.pdf").read_bytes().startswith(b"%PDF")


def test_pixels_of_bytes_are_the_same_bytes():
    assert pixels_of(COLOUR) is COLOUR
