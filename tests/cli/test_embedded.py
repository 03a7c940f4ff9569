"""Texts and pictures by command: audited end to end, and ledgers used without their model."""

import csv
import html
import json
import sys

import numpy as np
import pytest

import likewise as lw
from likewise.cli import main
from tests.support.commands import installed, likewise
from tests.support.onnx_models import picture_model
from tests.support.rule_texts import rule_text

RULE = rule_text(
    {
        "id": "key",
        "message": {"kind": "text", "embed": "wordllama", "tolerance": 0.9},
        "length": 50,
    },
    output={"column": "verdict"},
    metric="l2",
)

MESSAGES = [
    ("Your parcel is waiting at the post office.", "ham"),
    ("See you at the cinema tonight?", "ham"),
    ("URGENT! You have won a cash prize, call now", "spam"),
    ("At the post office a parcel is waiting for you.", "spam"),
    ("You have won a <b>cash</b> prize, call now, urgent", "ham"),
    ("The meeting was moved to Monday.", "ham"),
]


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rule.toml").write_text(RULE)
    with (tmp_path / "messages.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "message", "length", "verdict"])
        writer.writerows(
            (f"m{i}", text, len(text), verdict) for i, (text, verdict) in enumerate(MESSAGES)
        )
    return tmp_path


def test_an_audit_of_texts_shows_the_texts_of_a_pair(here):
    done = likewise(
        "audit", "messages.csv", "--rule", "rule.toml", "--report", "page.html", "--json"
    )
    found = json.loads(done.stdout)
    assert (found["rows"], found["violations"], found["pairs"]) == (6, 2, 2)
    assert sorted(one["row"] for one in found["worst"]) == [3, 4]
    page = (here / "page.html").read_text()
    for row in (0, 2, 3):
        assert MESSAGES[row][0] in page
    assert "a &lt;b&gt;cash&lt;/b&gt; prize" in page
    assert "<b>cash</b>" not in page
    assert "wordllama" in page, "the page says what embeds"
    assert MESSAGES[5][0] not in page


def test_an_audit_says_which_line_cannot_be_embedded(here, capsys):
    with (here / "messages.csv").open("a") as file:
        file.write('m6,"",3,ham\n')
    assert main(["audit", "messages.csv", "--rule", "rule.toml"]) == 3
    assert "messages.csv, line 8: 'message' is ''" in capsys.readouterr().err


def test_a_rule_for_texts_alone_says_what_to_write(here, capsys):
    (here / "texts.toml").write_text('metric = "l2"\nepsilon = 1\nembed = "wordllama"\n')
    assert main(["audit", "messages.csv", "--rule", "texts.toml"]) == 2
    assert "[features.NAME]" in capsys.readouterr().err


def test_an_audit_of_pictures_by_relative_paths(here, capsys):
    from PIL import Image

    picture_model(here / "model.onnx", (4, 4, 3))
    rng = np.random.default_rng(2)
    (here / "pictures").mkdir()
    first = rng.integers(0, 256, (4, 4, 3), dtype=np.uint8)
    pictures = [first, rng.integers(0, 256, (4, 4, 3), dtype=np.uint8), first.copy()]
    pictures[2][0, 0, 0] ^= 1
    with (here / "seen.csv").open("w") as file:
        file.write("picture,label\n")
        for i, picture in enumerate(pictures):
            Image.fromarray(picture).save(here / "pictures" / f"{i}.png")
            file.write(f"{i}.png,{['cat', 'dog', 'lion'][i]}\n")
    (here / "seen.toml").write_text(
        'metric = "l2"\n[output]\ncolumn = "label"\n[features.picture]\nkind = "image"\n'
        'embed = {name = "onnx:model.onnx", scale = 0.00392156862745098, normalise = true,'
        ' folder = "pictures"}\ntolerance = 0.1\n'
    )
    assert (
        main(["audit", "seen.csv", "--rule", "seen.toml", "--report", "page.html", "--json"]) == 0
    )
    found = json.loads(capsys.readouterr().out)
    assert (found["violations"], found["worst"][0]["row"]) == (1, 2)
    page = (here / "page.html").read_text()
    assert ">0.png<" in page and ">2.png<" in page
    (here / "pictures" / "1.png").write_text("no picture")
    assert main(["audit", "seen.csv", "--rule", "seen.toml"]) == 3
    assert "seen.csv, line 3: 'picture' is no picture" in capsys.readouterr().err
    rule = (here / "seen.toml").read_text().replace(', folder = "pictures"', "")
    (here / "seen.toml").write_text(rule)
    assert main(["audit", "seen.csv", "--rule", "seen.toml"]) == 3
    assert "the rule declares no folder to open files in" in capsys.readouterr().err


@pytest.fixture(params=["python", "wordllama"])
def ledger(here, request, monkeypatch):
    """A ledger whose model is gone: a function that nobody can import, or a missing package."""
    rule = RULE
    if request.param == "python":
        rule = RULE.replace("wordllama", "python:gone_by_now:embed").replace("0.9", "6")
        (here / "gone_by_now.py").write_text(
            "def embed(batch):\n"
            "    return [[float(one.count(c)) for c in 'aeiou'] for one in batch]\n"
        )
        monkeypatch.syspath_prepend(here)
    with lw.open(here / "led", lw.Rule.from_toml(rule)) as monitor:
        monitor.observe_many(
            [
                {"id": f"m{i}", "message": text, "length": len(text), "verdict": verdict}
                for i, (text, verdict) in enumerate(MESSAGES)
            ]
        )
    (here / "gone_by_now.py").unlink(missing_ok=True)
    sys.modules.pop("gone_by_now", None)
    monkeypatch.setitem(sys.modules, "wordllama", None)
    with pytest.raises(lw.errors.BadRule):
        lw.open(here / "led", models=True)
    return here / "led"


def told(capsys, *arguments):
    assert main([*map(str, arguments), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_a_ledger_is_used_without_its_model(ledger, here, capsys):
    shown = told(capsys, "show", "led", 3)
    columns = {one["column"]: one for one in shown["pairs"][0]["columns"]}
    assert columns["message"]["decision"] == MESSAGES[3][0]
    witness = shown["pairs"][0]["witness"]
    assert MESSAGES[witness][0] in columns["message"].values()
    assert main(["show", "led", "3"]) == 0
    assert "post office" in capsys.readouterr().out
    report = told(capsys, "report", "led", "--out", "page.html")
    assert report["rows"] == 6 and report["violations"] >= 2
    page, clearest = (here / "page.html").read_text(), report["worst"][0]
    assert all(html.escape(MESSAGES[clearest[one]][0]) in page for one in ("row", "witness"))
    assert told(capsys, "verify", "led")
    assert told(capsys, "replay", "led")
    assert told(capsys, "erase", "led", "--key", "m3", "--yes")["rows"] == [3]
    assert not any(MESSAGES[3][0].encode() in one.read_bytes() for one in ledger.iterdir())
    assert told(capsys, "verify", "led")
    assert told(capsys, "replay", "led")
    told(capsys, "report", "led", "--out", "page.html")
    assert MESSAGES[3][0] not in (here / "page.html").read_text()


def test_the_installed_command_erases_without_the_model(here):
    """In a process that has never seen the function."""

    def local(batch):
        return [[float(one.count(c)) for c in "aeiou"] for one in batch]

    given = lw.Rule.from_toml(RULE)
    features = dict(given.features) | {"message": lw.Feature("text", embed=local, tolerance=6)}
    with lw.open(
        here / "led", lw.Rule("l2", features=features, output_column="verdict")
    ) as monitor:
        monitor.observe({"id": "m0", "message": MESSAGES[0][0], "length": 3, "verdict": "ham"})
    installed("erase", "led", "--key", "m0", "--yes")
    assert not any(b"parcel" in one.read_bytes() for one in (here / "led").iterdir())
