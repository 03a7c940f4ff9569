"""Halves become pairs, whatever their order, and none is forgotten or used twice."""

from collections import Counter

from hypothesis import strategies as st

from likewise.service.cloudevents.event_decisions import CloudEvent
from likewise.service.cloudevents.receiver import EventHalf, JoinOutcome, PairJoiner
from tests.support.strategies import prove

MOST, SECONDS = 4, 10.0


def half(id_, kind, body=b"a", count=1):
    return EventHalf(CloudEvent(str(id_), kind, body), count)


class Oracle:
    """The same with lists, looked through from the beginning every time."""

    def __init__(self):
        self.waiting = []  # (id, kind, body, since), oldest first
        self.past = []  # [id, {kind: body}, since], oldest first
        self.gone = []

    def _remember(self, id_, bodies, now):
        self.past.append([id_, bodies, now])
        del self.past[:-MOST]

    def _give_up(self, now):
        id_, kind, body, _ = self.waiting.pop(0)
        self.gone.append((id_, kind))
        self._remember(id_, {kind: body}, now)

    def add(self, id_, kind, body, now):
        for known, bodies, _ in self.past:
            if known == id_:
                if kind not in bodies:
                    bodies[kind] = body
                    return "late"
                return "repeated" if bodies[kind] == body else "different"
        for i, (known, other, first, _) in enumerate(self.waiting):
            if known == id_:
                if other == kind:
                    return "repeated" if first == body else "different"
                del self.waiting[i]
                self._remember(id_, {other: first, kind: body}, now)
                return {other: first, kind: body}, other
        self.waiting.append((id_, kind, body, now))
        if len(self.waiting) > MOST:
            self._give_up(now)
        return "waiting"

    def put_back(self, id_, kind, body, now):
        self.past = [one for one in self.past if one[0] != id_]
        self.waiting.append((id_, kind, body, now))
        if len(self.waiting) > MOST:
            self._give_up(now)

    def expire(self, now):
        while self.waiting and now - self.waiting[0][3] >= SECONDS:
            self._give_up(now)
        while self.past and now - self.past[0][2] >= SECONDS:
            del self.past[0]
        gone, self.gone = self.gone, []
        return gone


STEPS = st.lists(
    st.tuples(
        st.integers(0, 6),
        st.sampled_from(("request", "response")),
        st.sampled_from((b"a", b"a", b"a", b"b")),
        st.sampled_from((0.0, 0.0, 0.5, 3.0, SECONDS)),
        st.booleans(),
    ),
    max_size=60,
)


def test_joiner_says_what_the_oracle_says():
    seen = Counter()

    @prove(300, steps=STEPS)
    def holds(steps):
        joiner, oracle = PairJoiner(MOST, SECONDS, 1 << 30), Oracle()
        now, added, settled = 0.0, 0, Counter()
        for id_, kind, body, wait, refused in steps:
            now += wait
            gone = joiner.expire(now)
            assert [one.kind for one in gone] == [kind for _, kind in oracle.expire(now)]
            settled["gone"] += len(gone)
            seen["gone"] += len(gone)
            added += 1
            expected = oracle.add(id_, kind, body, now)
            second = half(id_, kind, body)
            outcome = joiner.add(second, now)
            if isinstance(outcome, EventHalf):
                bodies, first = expected
                assert {one.kind: one.event.body for one in (outcome, second)} == bodies
                assert outcome.kind == first != second.kind
                assert outcome.id == second.id
                if refused:  # the queue was full: the second half is sent again, or never
                    joiner.put_back(outcome, now)
                    oracle.put_back(id_, first, bodies[first], now)
                    settled["refused"] += 1
                else:
                    settled["paired"] += 2
                seen["put back" if refused else "pair"] += 1
            else:
                assert outcome.value == expected
                seen[expected] += 1
                settled[expected] += outcome is not JoinOutcome.WAITING
            gone = joiner.expire(now)
            assert [one.kind for one in gone] == [kind for _, kind in oracle.expire(now)]
            settled["gone"] += len(gone)
            seen["gone"] += len(gone)
            assert len(joiner) == len(oracle.waiting) <= MOST
            assert len(joiner._settled) <= MOST
        del settled["waiting"]
        assert added == settled.total() + len(joiner), "a half is nowhere, or in two places"
        assert joiner.bytes == 513 * len(joiner)
        joiner.close(now)
        assert len(joiner) == joiner.bytes == 0

    wanted = {"pair", "put back", "waiting", "repeated", "different", "late", "gone"}
    assert wanted <= {name for name, times in seen.items() if times >= 10}, seen


def test_halves_of_two_services_with_one_id_do_not_meet():
    joiner = PairJoiner(10, 60, 1 << 20)
    assert (
        joiner.add(EventHalf(CloudEvent("1", "request", b"a", service="a"), 1), 0)
        is JoinOutcome.WAITING
    )
    other = EventHalf(CloudEvent("1", "response", b"a", service="b"), 1)
    assert joiner.add(other, 0) is JoinOutcome.WAITING
    assert len(joiner) == 2


def test_bytes_that_wait_are_bounded():
    joiner = PairJoiner(1_000, 60, 10_000)
    for i in range(100):
        joiner.add(half(i, "request", bytes(1_000), count=3), 0)
        assert joiner.bytes <= 10_000
    gone = joiner.expire(0)
    assert len(gone) + len(joiner) == 100
    assert {one.count for one in gone} == {3}
