"""Files of pictures: only regular ones, under the folder that the rule declares, and of a size."""

import contextlib
import io
import os
import signal
import socket
import struct
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import likewise as lw
from likewise import Embedder, Feature
from tests.support.letter_embedders import pixels
from tests.support.looping import each
from tests.support.onnx_models import picture_model
from tests.support.refusals import raises

RNG = np.random.default_rng(12)
PICTURE = RNG.integers(0, 256, (6, 5, 3), dtype=np.uint8)
OPENED = []


def _note(event, given):
    if event == "open":
        OPENED.append(str(given[0]))


sys.addaudithook(_note)


def encoded(array=PICTURE, form="PNG"):
    kept = io.BytesIO()
    Image.fromarray(array).save(kept, form)
    return kept.getvalue()


@pytest.fixture(autouse=True)
def in_time():
    """A file that blocks ends the test instead of stopping all of them."""

    def late(*_):
        raise TimeoutError("a file was waited for")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture
def folder(tmp_path):
    """Pictures in a folder, and one beside it."""
    made = tmp_path / "pictures"
    (made / "more").mkdir(parents=True)
    (made / "a.png").write_bytes(encoded())
    (made / "more" / "b.png").write_bytes(encoded())
    (tmp_path / "secret.png").write_bytes(encoded())
    return made


def table_rule(**settings):
    embed = Embedder(pixels, shape=[6, 5, 3], **settings)
    features = {"photo": Feature("image", embed=embed, tolerance=1e-6)}
    return lw.Rule("l2", features=features, output_column="z")


def inputs_rule(tmp_path, **settings):
    picture_model(tmp_path / "m.onnx", (6, 5, 3))
    return lw.Rule("l2", 1e-6, embed=Embedder(f"onnx:{tmp_path / 'm.onnx'}", **settings))


@pytest.fixture(params=["column", "input"])
def monitor_of(request, tmp_path):
    """A monitor of pictures in a table, or as inputs; settings are the embedder's."""

    def make(**settings):
        if request.param == "input":
            return lw.Monitor(inputs_rule(tmp_path, **settings))
        return lw.Monitor(table_rule(**settings))

    return make


def observe(monitor, picture, z="z"):
    if monitor.rule.features is None:
        return monitor.observe(picture, z)
    return monitor.observe({"photo": picture, "z": z})


def refusal(monitor, picture):
    """What is said of a picture; nothing is stored."""
    before = len(monitor)
    with pytest.raises(lw.errors.BadDecision) as error:
        observe(monitor, picture)
    assert len(monitor) == before
    assert "Nothing was stored" in str(error.value)
    return str(error.value)


# Which files


def test_no_file_is_opened_unless_a_folder_is_declared(monitor_of, folder):
    monitor = monitor_of()
    observe(monitor, encoded())
    OPENED.clear()
    for given in (str(folder / "a.png"), folder / "a.png", "a.png", "gone.png"):
        said = refusal(monitor, given)
        assert "folder" in said and "bytes" in said, "it says what to do"
    assert not [one for one in OPENED if ".png" in one or "pictures" in one]
    there, gone = (refusal(monitor, str(folder / one)) for one in ("a.png", "gone.png"))
    assert there == gone.replace("gone.png", "a.png")


def test_files_under_the_folder_are_pictures_like_their_bytes(monitor_of, folder, monkeypatch):
    monkeypatch.chdir(folder.parent)
    for declared in (str(folder), folder, "pictures", "./pictures/"):
        monitor = monitor_of(folder=declared)
        observe(monitor, encoded())
        ways = ["a.png", Path("a.png"), "./a.png", "more/b.png", "more//b.png"]
        for row, given in enumerate([*ways, folder / "a.png", str(folder / "more" / "b.png")], 1):
            verdict = observe(monitor, given, row)
            assert verdict.witnesses.rows.tolist() == list(range(row)), given


def test_the_folder_is_where_it_was_when_the_model_was_loaded(monitor_of, folder, monkeypatch):
    monkeypatch.chdir(folder.parent)
    monitor = monitor_of(folder="pictures")
    monkeypatch.chdir("/")
    assert observe(monitor, "a.png").row == 0


def test_a_path_is_kept_as_it_was_given(folder):
    monitor = lw.Monitor(table_rule(folder=folder))
    observe(monitor, "more/b.png")
    assert monitor.past.values(0)["photo"] == "more/b.png"


def closed(folder):
    """Names that must not be opened, each for another reason."""
    outside = folder.parent
    (folder / "out.png").symlink_to(outside / "secret.png")
    (folder / "relative.png").symlink_to("../secret.png")
    (folder / "outside").symlink_to(outside)
    (folder / "zero.png").symlink_to("/dev/zero")
    (folder / "circle.png").symlink_to("circle.png")
    (folder / "nowhere.png").symlink_to("gone.png")
    os.mkfifo(folder / "fifo.png")
    with contextlib.closing(socket.socket(socket.AF_UNIX)) as listening:
        here = Path.cwd()
        os.chdir(folder)  # a socket's path is short
        listening.bind("socket.png")
        os.chdir(here)
    return {
        "missing": "gone.png",
        "missing, absolute": str(folder / "gone.png"),
        "in a missing folder": "gone/a.png",
        "under a file": "a.png/b.png",
        "outside": str(outside / "secret.png"),
        "outside, a Path": outside / "secret.png",
        "outside and missing": str(outside / "gone.png"),
        "a neighbour whose name begins alike": f"{folder}-too/a.png",
        "up": "../secret.png",
        "up and missing": "../gone.png",
        "up and down again": f"../{folder.name}/a.png",
        "up inside": "more/../a.png",
        "up, absolute": f"{folder}/../secret.png",
        "a link to a file outside": "out.png",
        "a relative link to a file outside": "relative.png",
        "through a link to a folder outside": "outside/secret.png",
        "through a link, missing": "outside/gone.png",
        "a link to a device": "zero.png",
        "a device": "/dev/zero",
        "a link to itself": "circle.png",
        "a link to nothing": "nowhere.png",
        "a queue": "fifo.png",
        "a socket": "socket.png",
        "a folder": "more",
        "the folder": ".",
        "the folder, absolute": str(folder),
        "nothing": " ",
        "a zero": "a\0.png",
        "too long": "x" * 5000,
        "no Unicode": "a\udcff\ud800.png",
    }


def test_what_is_missing_outside_or_no_regular_file_is_refused_in_the_same_words(
    monitor_of, folder
):
    monitor = monitor_of(folder=folder)
    said = {}
    for why, given in closed(folder).items():
        message = refusal(monitor, given)
        start, _, rest = message.partition(" is no picture: ")
        what, _, words = rest.partition(" is ")
        said[why] = (start, words)
        assert what.startswith(repr(os.fspath(given))[:20]), "it names what came"
    assert len(set(said.values())) == 1, said
    assert "folder" in said["missing"][1]
    assert observe(monitor, "a.png").row == 0, "the good one is still good"


def test_a_file_without_permission_is_refused_in_the_same_words(monitor_of, folder):
    monitor = monitor_of(folder=folder)
    (folder / "locked.png").write_bytes(encoded())
    (folder / "locked.png").chmod(0)
    (folder / "shut").mkdir()
    (folder / "shut" / "a.png").write_bytes(encoded())
    (folder / "shut").chmod(0)
    missing = refusal(monitor, "gone.png")
    with without_rights():
        for name in ("locked.png", "shut/a.png", "shut/gone.png"):
            assert refusal(monitor, name) == missing.replace("gone.png", name)
    (folder / "shut").chmod(0o700)


@contextlib.contextmanager
def without_rights():
    """As somebody who is not root, for whom every file is open."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def test_links_within_the_folder_and_to_the_folder_are_followed(monitor_of, folder):
    (folder / "link.png").symlink_to("more/b.png")
    (folder / "absolute.png").symlink_to(folder / "a.png")
    (folder / "same").symlink_to("more")
    (folder.parent / "alias").symlink_to(folder)
    monitor = monitor_of(folder=folder.parent / "alias")
    names = ["link.png", "absolute.png", "same/b.png"]
    paths = [str(folder / "a.png"), str(folder.parent / "alias" / "a.png")]
    for row, given in enumerate([*names, *paths]):
        assert observe(monitor, given, row).row == row


def test_a_batch_names_the_row_whose_file_is_closed(folder):
    monitor = lw.Monitor(table_rule(folder=folder))
    rows = [{"photo": one, "z": 0} for one in ("a.png", "more/b.png", "../secret.png")]
    with raises(lw.errors.UnexpectedValue, column="photo", place=2):
        monitor.observe_many(rows)
    assert len(monitor) == 0


def test_a_function_of_ones_own_gets_a_path_that_is_not_opened_for_it(folder):
    seen = []

    def own(batch):
        seen.extend(batch)
        return [[1.0] for _ in batch]

    embed = Embedder(own)
    OPENED.clear()
    assert embed([folder / "a.png", folder / "a.png"]).tolist() == [[1.0], [1.0]]
    assert seen == [folder / "a.png"] * 2
    assert not [one for one in OPENED if "a.png" in one]
    declared = Embedder(own, folder=folder)
    with raises(lw.errors.UnexpectedValue, place=1):
        declared([folder / "a.png", folder.parent / "secret.png"])


# How large


def test_a_file_of_more_bytes_than_declared_is_not_read(monitor_of, folder):
    size = len(encoded())
    assert observe(monitor_of(folder=folder, limit_bytes=size), "a.png").row == 0
    monitor = monitor_of(folder=folder, limit_bytes=size - 1)
    assert f"limit_bytes, {size - 1:,}" in refusal(monitor, "a.png")
    assert f"limit_bytes, {size - 1:,}" in refusal(monitor, encoded())
    assert f"limit_bytes, {size - 1:,}" in refusal(monitor, bytearray(encoded()))


def test_a_huge_file_is_refused_by_default(monitor_of, folder):
    with (folder / "huge.png").open("wb") as file:
        file.truncate(1 << 40)  # with nothing in it, on disk it takes no room
    assert "limit_bytes" in refusal(monitor_of(folder=folder), "huge.png")


def chunk(name, content):
    checked = name + content
    return struct.pack(">I", len(content)) + checked + struct.pack(">I", zlib.crc32(checked))


def bomb(width, height):
    """A small PNG that becomes width by height pixels."""
    lines = zlib.compress(b"\0" * ((width // 8 + 2) * 200), 9)
    header = struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", lines)


@pytest.mark.parametrize("side", [8_100, 12_000, 30_000])
def test_a_small_file_of_very_many_pixels_is_refused_by_default(monitor_of, folder, side):
    content = bomb(side, side)
    assert len(content) < 100_000
    (folder / "bomb.png").write_bytes(content)
    monitor = monitor_of(folder=folder)
    for given in ("bomb.png", content):
        assert "pixels" in refusal(monitor, given)


@pytest.mark.parametrize("form", ["PNG", "GIF", "BMP", "TIFF", "WEBP", "JPEG"])
def test_pixels_are_counted_before_they_are_decoded(monitor_of, form):
    content = encoded(form=form)
    opened = Image.open(io.BytesIO(content))
    assert observe(monitor_of(limit_pixels=30), content).row == 0
    monitor = monitor_of(limit_pixels=29)
    for given in (content, opened):
        said = refusal(monitor, given)
        assert "6" in said and "limit_pixels, 29" in said


def test_pictures_that_are_large_together_are_not_decoded_together(folder, tmp_path):
    held = []

    def model(batch):
        held.append(len(batch))
        return [[float(np.mean(one)), 1.0] for one in batch]

    embed = Embedder(model, shape=[6, 5, 3], limit_pixels=70, folder=folder)
    features = {"photo": Feature("image", embed=embed, tolerance=1.0)}
    monitor = lw.Monitor(lw.Rule("l2", features=features, output_column="z"))
    pictures = [encoded(PICTURE // (i + 1)) for i in range(9)]
    held.clear()
    monitor.observe_many([{"photo": one, "z": 0} for one in pictures])
    assert held == [2, 2, 2, 2, 1]
    picture_model(tmp_path / "m.onnx", (6, 5, 3))
    small = Embedder(f"onnx:{tmp_path / 'm.onnx'}", limit_pixels=70)
    large = Embedder(f"onnx:{tmp_path / 'm.onnx'}")
    assert np.allclose(small(pictures), large(pictures), rtol=1e-5)


@pytest.mark.parametrize(
    "content",
    [
        b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 5 6\n%%EndComments\nshowpage\n",
        b"",
        b"GIF89a nothing",
        encoded()[:60],
        b"II*\0\x08\0\0\0\xff\xff" + b"\xff" * 40,
    ],
    ids=["a program", "nothing", "a GIF's beginning", "a cut PNG", "a broken TIFF"],
)
def test_what_is_no_picture_or_is_a_program_that_draws_one_is_refused(monitor_of, folder, content):
    (folder / "x.png").write_bytes(content)
    monitor = monitor_of(folder=folder)
    for given in ("x.png", content):
        assert "it is no picture that can be read" in refusal(monitor, given)


# What a rule says of it


def test_folder_and_limits_are_written_and_read_with_a_rule(folder):
    rule = table_rule(folder=folder, limit_bytes=5_000, limit_pixels=900)
    embed = lw.Rule.from_toml(rule.to_toml()).features["photo"].embed
    assert (embed.folder, embed.limit_bytes, embed.limit_pixels) == (str(folder), 5_000, 900)
    text = 'metric = "l2"\nepsilon = 1\n[embed]\nname = "onnx:m.onnx"\nfolder = "pictures"\n'
    assert lw.Rule.from_toml(text).embed == Embedder("onnx:m.onnx", folder=Path("pictures"))


@each(
    "wrong",
    [
        {"folder": 7},
        {"folder": ""},
        {"folder": b"pictures"},
        {"folder": "a\0b"},
        {"limit_bytes": 0},
        {"limit_bytes": "1 MB"},
        {"limit_pixels": -1},
        {"limit_pixels": 1.5},
        {"limit_pixels": True},
    ],
    ids=str,
)
def test_a_folder_or_a_limit_that_makes_no_sense_is_refused(wrong):
    (setting,) = wrong
    with raises(lw.errors.BadRule, setting=setting):
        Embedder("onnx:m.onnx", **wrong)


def test_a_folder_says_nothing_for_texts():
    with raises(lw.errors.BadRule):
        Embedder("wordllama", folder="pictures")
    with raises(lw.errors.BadRule):
        Embedder("onnx:m.onnx", tokenizer="t.json", folder="pictures")


@pytest.mark.parametrize("name", ["gone", "a.png"])
def test_a_folder_that_is_not_there_is_told_before_a_decision_comes(folder, name):
    with raises(lw.errors.BadRule, setting="folder"):
        lw.Monitor(table_rule(folder=folder / name))


def test_a_ledger_goes_on_where_the_pictures_were_moved(folder, tmp_path):
    with lw.open(tmp_path / "led", table_rule(folder=folder)) as monitor:
        observe(monitor, "a.png", "cat")
    moved = folder.rename(tmp_path / "moved")
    with lw.open(tmp_path / "led", table_rule(folder=moved)) as monitor:
        assert observe(monitor, "more/b.png", "dog").witnesses.rows.tolist() == [0]
    OPENED.clear()
    with lw.open(tmp_path / "led") as monitor:
        said = refusal(monitor, "more/b.png")
    assert "opened without its models" in said
    assert not [one for one in OPENED if "b.png" in one]


@pytest.mark.parametrize("which", ["model", "tokenizer"])
def test_a_model_that_is_no_regular_file_is_refused_and_not_waited_for(tmp_path, which):
    os.mkfifo(tmp_path / "queue")
    picture_model(tmp_path / "m.onnx", (6, 5, 3))
    embed = Embedder(f"onnx:{tmp_path / 'queue'}")
    if which == "tokenizer":
        embed = Embedder(f"onnx:{tmp_path / 'm.onnx'}", tokenizer=str(tmp_path / "queue"))
    with raises(lw.errors.BadRule):
        lw.Monitor(lw.Rule("l2", 1, embed=embed))
