"""`likewise calibrate`: the share flagged at every epsilon, drawn, and the epsilon for a share."""

import json

import numpy as np
import pytest

import likewise as lw
from likewise.cli import main
from likewise.cli.braille_curve import draw_curve
from likewise.reports.findings import Curve
from tests.support.commands import likewise
from tests.support.lazily import polars as pl
from tests.support.looping import each


@pytest.fixture(scope="module")
def frame():
    random = np.random.default_rng(3)
    x = random.random((2_000, 2))
    z = x.sum(axis=1) + random.normal(0, 0.05, len(x)) > 1
    return pl.DataFrame({"a": x[:, 0], "b": x[:, 1], "z": z})


@pytest.fixture(scope="module")
def data(frame, tmp_path_factory):
    where = tmp_path_factory.mktemp("calibrate")
    frame.write_csv(where / "d.csv")
    features = "".join(f'[features.{n}]\nkind = "number"\ntolerance = 0.1\n' for n in "ab")
    (where / "r.toml").write_text(f'[output]\ncolumn = "z"\n{features}')
    return where


@pytest.fixture(scope="module")
def truth(frame):
    return lw.calibrate(lw.Rule("linf", 1), frame.select("a", "b").to_numpy(), frame["z"].to_list())


def test_epsilon_for_a_rate_is_the_librarys(data, truth, capsys):
    asked = ["calibrate", str(data / "d.csv"), "--output-column", "z", "--rate", "0.02", "--json"]
    assert main(asked) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["epsilon_for_target"] == truth.epsilon_for(0.02)
    assert told["rows"] == 2_000
    for one in told["targets"]:
        assert truth.rate(one["epsilon"]) <= one["rate"]
        assert one["epsilon"] == pytest.approx(truth.epsilon_for(one["rate"]), rel=1e-4)


@pytest.fixture(scope="module")
def shown(data):
    asked = ("calibrate", data / "d.csv", "--rule", data / "r.toml", "--rate", "0.03")
    return likewise(*asked).stdout


def test_epsilon_typed_from_the_screen_flags_no_more(data, shown, capsys):
    line = next(one for one in shown.splitlines() if one.strip().startswith("3.0%"))
    audit = ["audit", str(data / "d.csv"), "--rule", str(data / "r.toml"), "--epsilon"]
    assert (
        main([*audit, line.split()[-1], "--max-rate", "0.03", "--max-rate-of", "later", "--json"])
        == 0
    )
    assert json.loads(capsys.readouterr().out)["rate"] > 0.02


def test_plot_fits_eighty_columns_and_is_plain_in_a_pipe(shown):
    assert max(map(len, shown.splitlines())) <= 80
    assert "\x1b" not in shown and "ε = 1" in shown


@each("width", [40, 80, 120])
@each("chosen", [0.0, 0.5, 1.0])
def test_curve_never_falls_and_keeps_its_width(width, chosen):
    epsilons = tuple(np.linspace(0, 1, 50).tolist())
    curve = Curve(epsilons, tuple(e**2 for e in epsilons), chosen, chosen**2, 9)
    lines = draw_curve(curve, width)
    assert max(map(len, lines)) <= width
    columns = list(zip(*(line.ljust(width) for line in lines[:-2]), strict=True))
    tops = [next((i for i, one in enumerate(c) if "⠀" < one <= "⣿"), None) for c in columns]
    drawn = [top for top in tops if top is not None]
    assert drawn == sorted(drawn, reverse=True) and len(drawn) >= width - 12
    assert any("ε" in line for line in lines)


def test_curve_of_nothing_is_drawn():
    lines = draw_curve(Curve((0.0, 1.0), (0.0, 0.0), 1.0, 0.0, 9), 60)
    assert len(lines) == 14


def test_page_holds_the_curve(data, tmp_path, capsys):
    page = tmp_path / "curve.html"
    assert main(["calibrate", str(data / "d.csv"), "--rule", str(data / "r.toml"),
                 "--report", str(page)]) == 0  # fmt: skip
    text = page.read_text()
    assert text.startswith("<!doctype html>") and "<svg" in text and "://" not in text


def test_rate_that_no_epsilon_gives_is_told(tmp_path, capsys):
    (tmp_path / "d.csv").write_text("a,z\n1,x\n1,y\n1,x\n5,y\n")
    asked = ["calibrate", str(tmp_path / "d.csv"), "--output-column", "z", "--rate", "0.1"]
    assert main(asked) == 3
    assert "no epsilon flags a share of 0.1 or less" in capsys.readouterr().err


def test_bad_rows_are_left_out(tmp_path, capsys):
    (tmp_path / "d.csv").write_text("a,z\n1,x\n2,y\nno,x\n5,y\n")
    asked = ["calibrate", str(tmp_path / "d.csv"), "--output-column", "z"]
    assert main(asked) == 3
    assert "line 4" in capsys.readouterr().err
    assert main([*asked, "--on-bad-row", "skip", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["bad_row_examples"][0]["line"] == 4


def test_share_comparable_at_each_epsilon_is_that_of_all_pairs(data, frame, capsys):
    x = frame.select("a", "b").to_numpy()
    apart = np.abs(x[:, None] - x[None]).max(axis=2)
    apart[np.triu_indices(len(x))] = np.inf  # only earlier ones
    nearest = apart.min(axis=1)
    asked = [
        "calibrate",
        str(data / "d.csv"),
        "--output-column",
        "z",
        "--epsilon",
        "0.01",
        "--json",
    ]
    assert main(asked) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["comparable"] == (nearest <= 0.01 * (1 + 1e-9)).sum() > 0
    curve = told["curve"]
    assert len(curve["epsilons"]) == len(curve["comparable"]) > 10
    for epsilon, share in zip(curve["epsilons"], curve["comparable"], strict=True):
        assert share == (nearest <= epsilon * (1 + 1e-9)).mean()
    for one in told["targets"]:
        assert one["comparable"] == (nearest <= one["epsilon"] * (1 + 1e-9)).mean()


def test_epsilon_with_which_nothing_is_alike_is_said_aloud(data, capsys):
    asked = ["calibrate", str(data / "d.csv"), "--output-column", "z", "--epsilon", "1e-9"]
    assert main(asked) == 0
    assert "nothing could be compared, so nothing follows" in capsys.readouterr().out
