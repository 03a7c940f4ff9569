"""Pictures, whatever they come as: the same picture becomes the same vector."""

import io
import pathlib

import numpy as np
import pytest
from PIL import Image

import likewise as lw
from likewise import Embedder
from likewise.embedders.pictures import PicturePreprocessor, PictureReader
from tests.support.looping import each
from tests.support.onnx_models import picture_model
from tests.support.refusals import raises

RNG = np.random.default_rng(8)
PICTURE = RNG.integers(0, 256, (6, 5, 3), dtype=np.uint8)


def encoded(array, form="PNG", **settings):
    kept = io.BytesIO()
    Image.fromarray(array).save(kept, form, **settings)
    return kept.getvalue()


@pytest.fixture
def model(tmp_path):
    picture_model(tmp_path / "m.onnx", (6, 5, 3))
    return Embedder(f"onnx:{tmp_path / 'm.onnx'}", folder=tmp_path)


def array_of(picture):
    return PictureReader(Embedder("onnx:m.onnx")).array_of(picture)


def ways(folder):
    """One picture in every form in which it may come."""
    path = folder / "picture.png"
    path.write_bytes(encoded(PICTURE))
    content = path.read_bytes()
    opened = Image.open(path)
    return {
        "path": path,
        "path as text": str(path),
        "bytes": content,
        "bytearray": bytearray(content),
        "memoryview": memoryview(content),
        "opened": opened,
        "loaded": Image.fromarray(PICTURE),
        "array": PICTURE,
        "array in columns": np.asfortranarray(PICTURE),
        "list": PICTURE.tolist(),
    }


def test_a_picture_has_one_vector_whatever_it_comes_as(model, tmp_path):
    expected = model.embedding.embed_one(PICTURE)
    for name, given in ways(tmp_path).items():
        model.embedding._cache.clear()
        assert model.embedding.embed_one(given).tobytes() == expected.tobytes(), name
    model.embedding._cache.clear()
    together = model.embedding.embed_many(list(ways(tmp_path).values()))
    assert (together == expected).all()


def test_a_monitor_sees_that_pictures_are_the_same(model, tmp_path):
    monitor = lw.Monitor(lw.Rule("l2", 1e-6, embed=model))
    for row, given in enumerate(ways(tmp_path).values()):
        assert monitor.observe(given, row).witnesses.rows.tolist() == list(range(row))


@pytest.mark.parametrize("turned", range(1, 9))
def test_a_picture_is_turned_upright_as_its_camera_says(tmp_path, turned):
    """Both from a file and as Pillow opened it; NumPy's turns are the twin."""
    tags = Image.Exif()
    tags[0x0112] = turned
    content = encoded(PICTURE, exif=tags)
    upright = {
        1: PICTURE,
        2: PICTURE[:, ::-1],
        3: PICTURE[::-1, ::-1],
        4: PICTURE[::-1],
        5: PICTURE.swapaxes(0, 1),
        6: np.rot90(PICTURE, -1),
        7: PICTURE[::-1, ::-1].swapaxes(0, 1),
        8: np.rot90(PICTURE),
    }[turned]
    assert array_of(content).tolist() == upright.tolist()
    assert array_of(Image.open(io.BytesIO(content))).tolist() == upright.tolist()


@pytest.mark.parametrize("mode", ["L", "RGBA", "P", "1", "LA", "CMYK"])
def test_files_and_images_of_any_mode_become_rgb(mode):
    image = Image.fromarray(PICTURE).convert(mode)
    assert array_of(image).shape == (6, 5, 3)
    assert array_of(image).tolist() == np.asarray(image.convert("RGB")).tolist()
    if mode != "CMYK":
        kept = io.BytesIO()
        image.save(kept, "PNG")
        assert array_of(kept.getvalue()).tolist() == array_of(image).tolist()


def test_a_function_can_tell_images_apart_that_are_the_same_in_rgb():
    """Its cache must not: two images of one colour may differ in what is seen through."""
    clear = Image.new("RGBA", (2, 2), (9, 9, 9, 0))
    solid = Image.new("RGBA", (2, 2), (9, 9, 9, 255))
    embedding = Embedder(lambda batch: [[one.getpixel((0, 0))[3] / 1.0] for one in batch]).embedding
    assert embedding.embed_many([clear, solid]).tolist() == [[0.0], [255.0]]


def cut():
    noise = RNG.integers(0, 256, (40, 40, 3), dtype=np.uint8)
    return encoded(noise)[:1500]


BROKEN = {
    "a text file": lambda folder: _written(folder / "notes.txt", b"no picture at all"),
    "an empty file": lambda folder: _written(folder / "empty.png", b""),
    "a missing file": lambda folder: folder / "gone.png",
    "a folder": lambda folder: folder,
    "a cut PNG": lambda folder: _written(folder / "cut.png", cut()),
    "bytes of nothing": lambda folder: b"GIF89a nothing",
    "a text": lambda folder: "what a nice picture of a cat",
    "a number": lambda folder: 7,
    "none": lambda folder: None,
    "an array of words": lambda folder: np.array(["a", "b"]),
    "an array of nothing": lambda folder: np.zeros((0, 3)),
    "a film": lambda folder: np.zeros((2, 6, 5, 3)),
}


def _written(path, content):
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("which", BROKEN)
def test_what_is_no_picture_is_named_and_nothing_is_stored(model, tmp_path, which):
    broken = BROKEN[which](tmp_path)
    monitor = lw.Monitor(lw.Rule("l2", 1, embed=model))
    with raises(lw.errors.UnexpectedValue):
        monitor.observe(broken, "z")
    with raises(lw.errors.UnexpectedValue, place=2):
        monitor.observe_many([PICTURE, PICTURE + 1, broken, PICTURE], list("abcd"))
    assert len(monitor) == 0
    assert monitor.observe(PICTURE, "z").row == 0


def test_a_missing_file_is_named_by_its_path(model, tmp_path):
    with raises(lw.errors.UnexpectedValue):
        model.embedding.embed_one(tmp_path / "gone.png")


def test_a_file_that_changed_is_another_picture(model, tmp_path):
    path = _written(tmp_path / "a.png", encoded(PICTURE))
    before = model.embedding.embed_one(path)
    path.write_bytes(encoded(255 - PICTURE))
    assert (model.embedding.embed_one(path) != before).any()


# Preparing, beside NumPy


def prepared(array, **settings):
    return PicturePreprocessor(Embedder("onnx:m.onnx", **settings))(array)


def resized(array, size):
    return np.asarray(Image.fromarray(array).resize((size[1], size[0]), Image.Resampling.BILINEAR))


@each("layout", [None, "channels first", "channels last"])
@each("grey", [False, True], ids=["colour", "grey"])
@each("size", [None, (6, 5), (3, 9)])
@each(
    "numbers",
    [
        {},
        {"scale": 1 / 255},
        {"mean": 3.5, "std": 2},
        {"scale": 0.5, "mean": [0.25], "std": [4.0]},
        {"scale": 1 / 255, "mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225]},
    ],
    ids=["as it is", "scaled", "one mean", "one in a list", "by channel"],
)
def test_preparing_is_what_was_declared(layout, grey, size, numbers):
    picture = PICTURE[:, :, 0] if grey else PICTURE
    by_channel = isinstance(numbers.get("mean"), list) and len(numbers["mean"]) == 3
    if grey and by_channel:  # it has no three channels
        with pytest.raises(ValueError):
            prepared(picture, layout=layout, size=size, **numbers)
        return
    expected = (picture if size in (None, (6, 5)) else resized(picture, size)).astype(np.float32)
    if "scale" in numbers:
        expected = expected * np.float32(numbers["scale"])
    if "mean" in numbers:
        expected = expected - np.array(numbers["mean"], np.float32)
        expected = expected / np.array(numbers["std"], np.float32)
    if layout is not None and grey:
        expected = expected[:, :, None]
    if layout == "channels first":
        expected = np.transpose(expected, (2, 0, 1))
    made = prepared(picture, layout=layout, size=size, **numbers)
    assert made.dtype == np.float32
    assert made.flags.c_contiguous
    assert (made.shape, made.tobytes()) == (expected.shape, expected.tobytes())


def test_preparing_does_not_touch_what_it_was_given():
    picture = RNG.normal(size=(4, 4, 3)).astype(np.float32)
    before = picture.copy()
    prepared(picture, scale=2.0, mean=1.0, std=3.0)
    assert picture.tobytes() == before.tobytes()


def test_one_channel_stays_one_channel():
    picture = PICTURE[:, :, :1]
    assert prepared(picture, size=(3, 2)).shape == (3, 2, 1)
    assert prepared(picture, size=(3, 2), layout="channels first").shape == (1, 3, 2)
    assert prepared(np.arange(8.0)).shape == (8,)


def test_only_pictures_of_levels_are_brought_to_a_size(tmp_path):
    picture_model(tmp_path / "m.onnx", (6, 5, 3))
    sized = Embedder(f"onnx:{tmp_path / 'm.onnx'}", size=(6, 5))
    assert sized.embedding.embed_one(PICTURE.astype(float)).shape == (5,), (
        "it has that size already"
    )
    with raises(lw.errors.UnexpectedValue):
        sized.embedding.embed_one(np.zeros((9, 9, 3)))


def test_pictures_of_different_shapes_need_a_size(tmp_path):
    picture_model(tmp_path / "m.onnx", (6, 5, 3), fixed=False)
    large = RNG.integers(0, 256, (12, 10, 3), dtype=np.uint8)
    plain = Embedder(f"onnx:{tmp_path / 'm.onnx'}")
    with raises(lw.errors.UnexpectedValue, place=0):
        plain.embedding.embed_many([PICTURE, large])
    sized = Embedder(f"onnx:{tmp_path / 'm.onnx'}", size=(6, 5))
    both = sized.embedding.embed_many([PICTURE, large])
    assert both[1].tobytes() == sized.embedding.embed_one(resized(large, (6, 5))).tobytes()


def test_paths_of_every_kind(model, tmp_path, monkeypatch):
    _written(tmp_path / "päth wíth spaces.png", encoded(PICTURE))
    monkeypatch.chdir(tmp_path)
    expected = model.embedding.embed_one(PICTURE).tobytes()
    assert model.embedding.embed_one("päth wíth spaces.png").tobytes() == expected
    assert (
        model.embedding.embed_one(pathlib.PurePosixPath("päth wíth spaces.png")).tobytes()
        == expected
    )


def test_pictures_that_differ_in_their_palette_alone_are_two():
    def colours(batch):
        return [np.asarray(one.convert("RGB"))[0, 0] / 255 for one in batch]

    embed, made = Embedder(colours), []
    for colour in ((255, 0, 0), (0, 0, 255)):
        picture = Image.new("P", (2, 2), 0)
        picture.putpalette(colour)
        made.append(embed([picture])[0].tolist())
    assert made == [[1, 0, 0], [0, 0, 1]]


def test_a_column_of_pictures_is_decoded_a_batch_at_a_time(tmp_path):
    held = []

    class Model:
        def __call__(self, batch):
            held.append(len(batch))
            return [[float(np.mean(one)), 1.0] for one in batch]

    embed = Embedder(Model(), batch=4, shape=[6, 5, 3], folder=tmp_path)
    features = {"photo": lw.Feature("image", embed=embed, tolerance=1.0)}
    monitor = lw.Monitor(lw.Rule("l2", features=features, output_column="z"))
    paths = []
    for i in range(10):
        paths.append(tmp_path / f"{i}.png")
        paths[-1].write_bytes(encoded(PICTURE // (i + 1)))
    verdicts = monitor.observe_many([{"photo": path, "z": 0} for path in paths])
    assert len(verdicts) == 10
    assert max(held) == 4
    with raises(lw.errors.UnexpectedValue, column="photo", place=7):
        monitor.observe_many([{"photo": one, "z": 0} for one in [*paths[:7], tmp_path / "none"]])
    assert len(monitor) == 10
