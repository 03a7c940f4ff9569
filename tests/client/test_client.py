"""A client is a monitor: types, errors, verdicts, and what else works with one."""

import asyncio
import contextlib
import datetime
import decimal
import os
import socket
import subprocess
import sys
import time

import numpy as np
import pytest

import likewise as lw
from likewise.service.settings import Limits, Token
from likewise.service.tokens import new_token
from likewise.verdict.context import ComparedRows
from tests.support.lazily import pandas as pd
from tests.support.lazily import polars as pl
from tests.support.refusals import raises
from tests.support.served_monitors import Serving, connected, running

RULE = lw.Rule("linf", 0.15)
PEOPLE = lw.Rule(
    features={
        "age": lw.Feature("number", tolerance=5),
        "job": lw.Feature("category"),
        "sex": lw.Feature("protected"),
    },
    output_column="approved",
    favourable="yes",
)
DAY = datetime.date(2026, 1, 31)
LABELS = [
    "yes",
    1,
    2.5,
    True,
    None,
    b"\x00\xff",
    DAY,
    datetime.datetime(2026, 1, 31, 12, 30, 1, 5),
    datetime.time(12, 30),
    decimal.Decimal("1.10"),
    (1, ("a", DAY)),
    -0.5,
    2**70,
    "☂",
]


def same(one: lw.Verdict, other: lw.Verdict) -> bool:
    """Equal in all that they say; the past apart."""
    return one == other and one.context._replace(past=None) == other.context._replace(past=None)


@pytest.mark.parametrize("kind", [np.float64, np.float32, np.uint8, np.int16])
def test_inputs_are_judged_in_the_type_that_they_have(kind):
    rng = np.random.default_rng(5)
    x = (rng.random((60, 4)) * (200 if kind in (np.uint8, np.int16) else 1)).astype(kind)
    z = [str(one) for one in rng.integers(0, 3, 60)]
    rule = lw.Rule("l2", 90 if kind in (np.uint8, np.int16) else 0.4)
    here = lw.Monitor(rule)
    with connected(lw.Monitor(rule)) as there:
        for i in range(20):
            assert same(there.observe(x[i], z[i]), here.observe(x[i], z[i]))
        several, expected = there.observe_many(x[20:], z[20:]), here.observe_many(x[20:], z[20:])
        assert expected.pairs > 40
        assert all(same(*pair) for pair in zip(several, expected, strict=True))
        assert there.past.inputs([0]).dtype == here.past.inputs([0]).dtype
        assert same(there.check(x[0].tolist(), "new"), here.check(x[0].tolist(), "new"))


def test_labels_come_through_with_their_types():
    here = lw.Monitor(RULE)
    with connected(lw.Monitor(RULE)) as there:
        for label in LABELS:
            assert same(there.observe([0.5], label), here.observe([0.5], label))
        told = there.past.outputs(range(len(LABELS)))
        assert told == here.past.outputs(range(len(LABELS)))
        assert [type(one) for one in told] == [
            type(one) for one in here.past.outputs(range(len(LABELS)))
        ]
        again = there.observe_many([[9.0]] * len(LABELS), LABELS)
        expected = here.observe_many([[9.0]] * len(LABELS), LABELS)
        assert all(same(*pair) for pair in zip(again, expected, strict=True))
        with raises(lw.errors.UnexpectedValue):
            there.observe([0.5], object())
        assert there.rows == here.rows


@pytest.mark.parametrize("output", ["number", "probabilities"])
def test_other_outputs_and_long_shapes(output):
    rule = lw.Rule("linf", 0.2, output=output, delta=0.1)
    rng = np.random.default_rng(2)
    x = rng.random((30, 2, 2))
    z = rng.random(30) if output == "number" else rng.dirichlet([1, 1, 1], 30)
    here = lw.Monitor(rule)
    with connected(lw.Monitor(rule)) as there:
        assert same(there.observe(x[0], z[0]), here.observe(x[0], z[0]))
        several, expected = there.observe_many(x[1:], z[1:]), here.observe_many(x[1:], z[1:])
        assert expected.pairs and all(same(*pair) for pair in zip(several, expected, strict=True))
        assert np.array_equal(there.past.inputs(range(30)), x)


def people(count=40, seed=1):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "age": rng.integers(20, 60, count),
            "job": rng.choice(["cook", "nurse"], count),
            "sex": rng.choice(["f", "m"], count),
            "approved": rng.choice(["yes", "no"], count),
        }
    )


@pytest.mark.parametrize("form", ["pandas", "polars", "rows", "structured"])
def test_tables_come_in_every_form(form):
    frame = people()
    table = {
        "pandas": frame,
        "polars": pl.from_pandas(frame),
        "rows": frame.to_dict("records"),
        "structured": frame.to_records(index=False),
    }[form]
    here = lw.Monitor(PEOPLE, comparable=True)
    with connected(lw.Monitor(PEOPLE, comparable=True)) as there:
        several, expected = there.observe_many(table), here.observe_many(table)
        assert expected.pairs and all(same(*pair) for pair in zip(several, expected, strict=True))
        at = int(np.flatnonzero(expected.violations)[-1])
        assert str(several[at].explain()) == str(expected[at].explain())
        checked = there.check(frame.iloc[0].to_dict()), here.check(frame.iloc[0].to_dict())
        assert same(*checked) and checked[0].values == checked[1].values
        assert same(there.observe(frame[:1]), here.observe(frame[:1]))
        codes, expected_codes = (one.past.codes("sex", range(40)) for one in (there, here))
        assert codes.codes.tolist() == expected_codes.codes.tolist()
        assert there.past.values(3) == here.past.values(3)


def test_groups_are_compared_through_a_client():
    frame = people(200)
    here = lw.Monitor(PEOPLE)
    with connected(lw.Monitor(PEOPLE)) as there:
        told = there.observe_many(frame).by_group("sex")
        assert told == here.observe_many(frame).by_group("sex")


def test_errors_are_those_of_a_monitor(tmp_path):
    with connected(lw.open(tmp_path / "ledger", RULE)) as client:
        client.observe([0.5], "a", key="k")
        with pytest.raises(lw.errors.RepeatedKey) as repeated:
            client.observe([0.6], "a", key="k")
        assert repeated.value.row == 0 and "given to row 0" in str(repeated.value)
        client.erase(key="k")
        with pytest.raises(lw.errors.ErasedKey):
            client.observe([0.5], "a", key="k")
        with raises(lw.errors.BadRow):
            client.past.outputs([7])
        with pytest.raises(lw.errors.BadRow):
            client.forget([7])
        with raises(lw.errors.WrongShape):
            client.observe([0.5, 0.5], "a")
    with connected(lw.Monitor(RULE)) as client, raises(lw.errors.BadRule):
        client.ledger.head()


def test_what_a_ledger_has(tmp_path):
    with connected(lw.open(tmp_path / "ledger", RULE)) as client:
        client.observe([0.5], "a", key="one")
        head = client.ledger.head()
        found = client.observe([0.52], "b", key="two")
        assert found.violation and found.compared_with == ComparedRows(0, 1, 0)
        client.ledger.review(1, 0, "error", reason="a typing mistake", reviewer="kim")
        client.ledger.truth("one", "b")
        assert client.ledger.supersede("one", "b", by="kim", why="see above").row == 2
        assert client.ledger.stats().decisions == 3
        walk = client.ledger.verify(head)
        assert walk.ok and walk.head == client.ledger.head()
        client.flush()
        again = client.observe([0.52], "b", key="two")
        assert again.repeated and again.row == 1 and again.count == 1
        assert client.erase(key=["two"]).rows == (1,)


def test_all_witnesses_are_told_and_what_does_not_fit_is_counted():
    monitor = lw.Monitor(RULE)
    monitor.load(np.linspace(0, 0.1, 300)[:, None], ["a"] * 300)
    with connected(monitor) as client:
        assert len(client.check([0.05], "b").witnesses) == 300
    few = lw.Monitor(RULE)
    few.load(np.linspace(0, 0.1, 300)[:, None], ["a"] * 300)
    with connected(few, witnesses=7) as client:
        verdict, expected = client.check([0.0], "b"), few.check([0.0], "b")
        assert verdict.count == 300 and verdict.omitted_witnesses == 293
        assert verdict.witnesses.rows.tolist() == list(range(7))
        assert [one.row for one in verdict.witnesses] == [
            one.row for one in expected.witnesses.nearest(7)
        ]
        several = client.check_many([[0.0], [9.0]], ["b", "b"])
        assert several.counts.tolist() == [300, 0] and several.pairs == 300
        assert several[0].omitted_witnesses == 293 and several.violations.tolist() == [True, False]
    small = lw.Monitor(RULE)
    small.load(np.linspace(0, 0.1, 300)[:, None], ["a"] * 300)
    limits = Limits(body_bytes=4096, witnesses=5)
    name = running().host(small, limits)
    with lw.connect(running().url, name) as client:
        verdict = client.check([0.0], "b")
        assert len(verdict.witnesses) == 5 and verdict.count == 300
        assert len(client.past.inputs(range(300))) == 300


def test_tokens_say_what_a_client_may(monkeypatch):
    secret, digest = new_token()
    serving = Serving()
    try:
        name = serving.host(lw.Monitor(RULE))
        serving.service.tokens = type(serving.service.tokens)([Token("t", digest, ("observe",))])
        with lw.connect(serving.url, name, token=secret) as client:
            assert client.observe([0.5], "a").row == 0 and client.rows == 1
            with pytest.raises(lw.errors.Forbidden) as refused:
                client.forget([0])
            assert str(refused.value) == (
                f"the service at {serving.url} does not allow that (403): the token 't' may not"
                f" erase with the monitor {name!r}. Nothing was stored. Connect with a token that"
                " may do it, or change what this one may."
            )
            assert not refused.value.in_doubt
            with raises(lw.errors.Forbidden):
                client.past.outputs([0])
        nobody = lw.connect(serving.url, name)
        with nobody, raises(lw.errors.Forbidden):
            nobody.observe([0.5], "a")
        stranger = lw.connect(serving.url, name, token="lw_unknown")
        ask, sent = stranger._http.request, []
        monkeypatch.setattr(
            stranger._http, "request", lambda *of, **more: sent.append(of) or ask(*of, **more)
        )
        with stranger, pytest.raises(lw.errors.Forbidden) as refused:
            stranger.observe([0.5], "a")
        assert str(refused.value) == (
            f"the service at {serving.url} refused the token (401): it knows no such token."
            " Connect with a token that it knows."
        )
        assert len(sent) == 1  # it is not asked again
    finally:
        serving.close()


def test_administrative_calls_of_a_client_are_chained_with_the_name_of_its_token(tmp_path):
    secret, digest = new_token()
    serving = Serving()
    try:
        name = serving.host(lw.open(tmp_path / "ledger", RULE))
        tokens = [Token("auditor", digest, ("admin",))]
        serving.service.tokens = type(serving.service.tokens)(tokens)
        with lw.connect(serving.url, name, token=secret) as client:
            for i, z in enumerate("abab"):
                client.observe([0.5], z, key=f"case {i}")
            client.ledger.review(1, 0, "error", reason="typed wrongly")
            with raises(lw.errors.Forbidden, text=False):
                client.ledger.review(1, 0, "error", reason="typed wrongly", reviewer="R. Case")
            client.ledger.truth("case 0", "a")
            client.ledger.supersede("case 1", "a", by="auditor", why="typed wrongly")
            client.erase(key="case 2")
            client.forget([3])
            assert client.ledger.verify().ok
    finally:
        serving.close()
    with lw.Ledger(tmp_path / "ledger") as ledger:
        said = [event.body for event in ledger.events() if event.kind == "administration"]
        assert [one.reviewer for one in ledger.reviews()] == ["auditor"]
    assert [one["what"] for one in said] == [
        "review",
        "truth",
        "supersede",
        "erase",
        "forget",
        "verify",
    ]
    assert {one["who"] for one in said} == {"auditor"}
    assert "case" not in repr(said)


def test_a_model_is_watched_through_a_client():
    with connected(lw.Monitor(RULE)) as client:

        @lw.watch(rule=client, on_failure="raise")
        def approve(applicant):
            return "yes" if applicant[0] > 0.5 else "no"

        assert [approve([0.52]), approve([0.48])] == ["yes", "no"]
        assert approve.flush()
        assert approve.counts.violations == 1
        assert str(approve.violations[-1]).startswith("row 1 contradicts row 0")


def test_an_event_loop_awaits_the_same_verdicts(tmp_path):
    rng = np.random.default_rng(4)
    x, z = rng.random((40, 2)) / 4, [str(one) for one in rng.integers(0, 2, 40)]
    here = lw.Monitor(RULE)
    serving = running()
    name = serving.host(lw.open(tmp_path / "ledger", RULE))

    async def told():
        async with lw.client.AsyncClient(serving.url, name) as client:
            for i in range(10):
                assert await client.observe(x[i], z[i], key=f"k{i}") == here.observe(x[i], z[i])
            several = await client.observe_many(x[10:30], z[10:30])
            assert list(several) == list(here.observe_many(x[10:30], z[10:30]))
            assert await client.check(x[30], z[30]) == here.check(x[30], z[30])
            assert list(await client.check_many(x[30:], z[30:])) == list(
                here.check_many(x[30:], z[30:])
            )
            together = await asyncio.gather(*(client.observe(x[i], z[i]) for i in range(30, 40)))
            assert sorted(one.row for one in together) == list(range(30, 40))
            assert (await client.rule()) == RULE and await client.rows() == await client.count()
            await client.record_loss(2, "full")
            assert await client.missing_decisions() == 2
            assert await client.row_of("k3") == 3
            assert await client.forget([0]) == 1
            text = await asyncio.to_thread(
                lambda: str(several[int(several.violations.argmax())].explain())
            )
            assert "contradicts" in text
            assert (await client.ledger.verify()).ok
            with pytest.raises(lw.errors.BadRow):
                await client.erase(rows=[900])
        with raises(lw.errors.BadFile):
            await client.observe(x[0], z[0])

    asyncio.run(told())


def test_slopes_come_through_with_their_question():
    rng = np.random.default_rng(8)
    x, z = rng.random((30, 2)), rng.random(30)
    rule = lw.Rule("l2", 0.4, output="number")

    def steep():
        return lw.Monitor(rule, slope=True, slope_limit=3.0, input_exponent=2)

    here = steep()
    with connected(steep()) as there:
        for i in range(5):
            one, other = there.observe(x[i], z[i]), here.observe(x[i], z[i])
            assert same(one, other) and one.slope == other.slope
        several, expected = there.observe_many(x[5:], z[5:]), here.observe_many(x[5:], z[5:])
        assert several == expected and np.array_equal(several.slopes, expected.slopes)
        assert several.violations.any()


def test_counts_of_a_ledger_come_through_and_memory_has_none(tmp_path):
    monitor = lw.open(tmp_path / "ledger", RULE, comparable=True)
    with connected(monitor) as client:
        client.load([[0.5]], ["a"])
        client.observe_many([[0.5], [9.0]], ["b", "b"])
        for last in (None, "1 hour"):
            told, expected = client.ledger.stats(last), monitor.ledger.stats(last)
            assert told.decisions == 3 and told.comparability_known == 2 and told.comparable == 1
            assert (told.since is None) == (expected.since is None) == (last is None)
            names = (
                "decisions",
                "judged",
                "comparability_known",
                "comparable",
                "violations",
                "missing_decisions",
            )
            assert all(getattr(told, name) == getattr(expected, name) for name in names)
        walked, expected = client.ledger.verify(), monitor.ledger.verify()
        assert walked.rows == expected.rows and walked.erased == expected.erased == 0
    with connected(lw.Monitor(RULE)) as client, raises(lw.errors.BadRule):
        client.ledger.stats()


def test_what_waits_takes_no_client_that_is_awaited():
    client = lw.client.AsyncClient("http://127.0.0.1:9")
    with raises(lw.errors.BadRule):
        lw.watch(len, client)
    with raises(lw.errors.BadRule):
        lw.buffered(client)
    with pytest.raises(TypeError, match="expected a client"):
        lw.WatchRequests(len, client, path="/")
    asyncio.run(client.close())


def wait_for(path):
    """Until somebody listens at a socket: httpx2 leaves its own open where nobody does."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        with socket.socket(socket.AF_UNIX) as trying, contextlib.suppress(OSError):
            trying.connect(str(path))
            return
        time.sleep(0.05)
    raise AssertionError(f"nobody listens at {path}")


@pytest.mark.long
def test_a_socket_of_the_file_system(tmp_path):
    path, rule = tmp_path / "lw.sock", tmp_path / "rule.toml"
    rule.write_text(RULE.to_toml())
    command = [sys.executable, "-m", "likewise", "serve", "--rule", str(rule), "--ledger"]
    process = subprocess.Popen([*command, str(tmp_path / "ledger"), "--uds", str(path)])
    try:
        wait_for(path)
        for given in ({"url": f"http+unix://{path}"}, {"url": "http://any", "uds": path}):
            with lw.connect(**given, retries=60, timeout=60) as client:
                client.observe([0.5], "a")
                assert "Monitor" in repr(client)
        with lw.connect("http://any", uds=path) as client:
            assert client.rows == 2
    finally:
        process.terminate()
        process.wait(30)


def test_a_forked_process_has_connections_of_its_own():
    with connected(lw.Monitor(RULE)) as client:
        client.observe([0.5], "a")
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.write(writing, str(client.observe([0.5], "b").count).encode())
            os._exit(0)
        assert client.observe([9.0], "a").row in (1, 2)
        assert os.read(reading, 10) == b"1" and os.waitpid(child, 0)[1] == 0
        assert client.rows == 3
        os.close(reading)
        os.close(writing)


@pytest.mark.parametrize(
    "url", ["localhost:8800", "ftp://x", "http://", "http://x?y", "http+unix:"]
)
def test_a_url_that_makes_no_sense_is_refused(url):
    with pytest.raises(lw.errors.BadRule):
        lw.connect(url)
