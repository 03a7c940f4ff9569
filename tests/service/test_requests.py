"""Requests that come twice are done once; ids are kept in bounds."""

import asyncio

import pytest

import likewise as lw
from likewise.service import repeated_requests as kept
from likewise.service.repeated_requests import InDoubt, MaybeDone, RepeatedRequests, RequestIdentity


def test_an_id_is_done_once_and_in_doubt_when_it_is_forgotten(monkeypatch):
    monkeypatch.setattr(kept, "_IDS", 3)
    monkeypatch.setattr(kept, "_BYTES", 100)
    done = []

    async def do():
        await asyncio.sleep(0.01)
        done.append(1)
        return b"%040d" % len(done)

    async def fail():
        raise lw.errors.BadDecision("no")

    async def maybe():
        raise MaybeDone(lw.errors.BadFile("the disk is full"))

    async def told():
        requests = RepeatedRequests()

        def once(id, age=None, instance=None, do=do, if_unknown=None):
            header = (
                f"request-{id}"
                if age is None
                else f"request-{id} {age} {instance or requests.instance}"
            )
            return requests.answer_once("m", header, do, if_unknown=if_unknown)

        both = await asyncio.gather(once("first"), once("first", 0.0))
        assert both[0] == both[1] == await once("first", 1.0) and len(done) == 1
        for error in (
            lw.errors.BadDecision,
            lw.errors.BadDecision,
        ):  # refused: done anew, and refused again
            with pytest.raises(error):
                await once("refused", do=fail)
        assert await once("refused", 0.1) and len(done) == 2
        with pytest.raises(MaybeDone):
            await once("maybe", do=maybe)
        with pytest.raises(InDoubt):
            await once("maybe", 0.1)
        with pytest.raises(InDoubt):  # of an earlier process, with a ledger and without a key
            await once("unknown", 0.1, "another-process")
        assert await once("unknown", 0.1, "another-process", if_unknown=do) and len(done) == 3
        with pytest.raises(InDoubt):  # its answer has left: three of 40 bytes do not fit
            await once("first", 2.0)
        assert await once("next")
        with pytest.raises(InDoubt):  # its id has left
            await once("first", 2.0)
        assert requests._bytes <= 100 and len(requests._cached) <= 3
        assert len(done) == 4

    asyncio.run(told())


def test_answers_of_a_monitor_are_dropped_when_something_is_erased():
    async def run():
        requests = RepeatedRequests()

        async def once(monitor, id, do):
            return await requests.answer_once(monitor, f"request-{id}", do, if_unknown=None)

        async def observe():
            return b"a verdict"

        async def erase():
            requests.forget("m")
            return b"erased"

        for monitor in ("m", "other"):
            await once(monitor, "first", observe)
        assert await once("m", "erase", erase) == b"erased"
        with pytest.raises(InDoubt):
            await once("m", "first", observe)
        assert await once("other", "first", erase) == b"a verdict"
        assert await once("m", "erase", observe) == b"erased"
        assert requests._bytes == len(b"a verdict" + b"erased")

    asyncio.run(run())


def test_a_header_that_makes_no_sense_is_refused():
    assert RequestIdentity.parse("12345678") == RequestIdentity("12345678")
    assert RequestIdentity.parse("12345678 1.5 abc") == RequestIdentity("12345678", 1.5, "abc")
    for header in ("", "short", "12345678 1", "12345678 x y", "x" * 65, "12345678 nan y"):
        with pytest.raises(ValueError):
            RequestIdentity.parse(header)
