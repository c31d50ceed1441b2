"""Steps of a reader's clock of less than 30 s, and cases that look similar."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import accumulate, groupby
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge.clock import SECOND
from edge.database.connection import execute
from edge.ingest.reader_clock import ReaderClock, Sample
from tests.conftest import Cast
from tests.ingest.clock_world import GATE, START, Sent, World, batched, live
from tests.ingest.site import buckets

OTHER = "30FF00000000000000000001"  # unmatched tag; its reads still measure the clock


@pytest.fixture
def world(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> World:
    """Site with a history of every read."""
    return World(cast.acme, monkeypatch, gap=0)


def set_back(by: float, at: float) -> Callable[[float], float]:
    return lambda moment: -by if moment >= at else 0.0


def right(_: float) -> float:
    return 0.0


def on_a_line(begins: int, ends: int, delay: Callable[[int], float]) -> Iterable[Sent]:
    """Yield a message every second, in order."""
    arrivals = accumulate((second + delay(second) for second in range(begins, ends)), lambda a, b: max(a + 0.01, b))
    return [Sent(arrival, (second,)) for second, arrival in zip(range(begins, ends), arrivals, strict=True)]


@pytest.mark.parametrize(
    ("messages", "ahead", "early", "held"),
    [
        pytest.param(live(0, 140), set_back(3, at=90), 0, 6, id="set back by 3 s"),
        pytest.param(live(0, 140), set_back(29, at=90), 0, 6, id="set back by 29 s"),
        pytest.param(
            live(0, 140), lambda at: 3600 - 8 * (at >= 90) - 8 * (at >= 110), 0, 12, id="wrong, and set back twice"
        ),
        pytest.param(live(0, 140), lambda at: 5 if at == 90 else 0, 0, 6, id="one read from the future"),
        pytest.param(
            on_a_line(0, 140, lambda second: 0.1 + max(0, 8 - abs(second - 105) / 2)), right, 0, 0, id="a slower line"
        ),
        pytest.param(
            on_a_line(0, 140, lambda second: 12 if 90 <= second < 120 else 0.1), right, 0, 0, id="a slow line for 30 s"
        ),
        pytest.param(
            [*live(0, 140), *(Sent(100.5 + number / 100, (90 + number,), tag=OTHER) for number in range(10))],
            right, 0, 11, id="ten messages delivered again",
        ),
        pytest.param([*live(0, 100), Sent(100.2, (92,), tag=OTHER)], right, 0, 1, id="an old one, then silence"),
        # Cases that are not distinguished within seconds, see edge/ingest/reader_clock.py.
        pytest.param(batched(0, 280, 10), set_back(8, at=140), 42, 1, id="batches of 10 s, set back by 8 s"),
        pytest.param(live(0, 140), set_back(5, at=30), 105, 0, id="set back in the first minute"),
    ],
)  # fmt: skip
def test_steps_in_history(
    world: World, messages: Iterable[Sent], ahead: Callable[[float], float], early: int, held: int
) -> None:
    """Check the history. `early`: reads recorded too early. `held`: messages after which some were on hold."""
    sent = sorted(messages)
    waits = 0
    for one in sent:
        world.send([one], ahead)
        waits += "held" in buckets()
    world.wait_until(sent[-1].arrives + 15)
    wrong = errors(sent)
    assert (len([error for error in wrong if error < -2]), waits) == (early, held)
    assert max(wrong) < 3  # the newest read of a batch is 2.6 s old


def errors(sent: Iterable[Sent]) -> list[float]:
    """Return the error of each recorded read in seconds."""
    made = {round(one.arrives * SECOND): one.made for one in sent}
    rows = execute("SELECT observed_at + delay, observed_at FROM history ORDER BY 1, 2").fetchall()
    differences = []
    for arrived, group in groupby(rows, lambda row: row[0] - START):
        recorded = [(at - START) / SECOND for _, at in group]
        differences += [one - other for one, other in zip(recorded, made[arrived], strict=False)]
    return differences


def test_a_read_after_the_step_is_not_dated_before_a_move(world: World) -> None:
    """Check a move from the gate to the dock shortly after the dock's clock was set back."""
    steady = [sent._replace(tag=OTHER) for sent in live(0, 130)]
    world.send([*steady, *live(95, 105, GATE), *(Sent(at + 0.2, (at,)) for at in range(106, 116))], set_back(20, at=90))
    assert {stay.location for stay in world.stays()[:10]} == {"gate"}
    assert [stay.location for stay in world.stays()[10:]] == ["dock"] * 10


PERIODS = st.sampled_from([0.2, 0.5, 1.0, 1.5])


@given(PERIODS, st.floats(3.5, 29), st.floats(0, 0.5), st.floats(-4000, 4000), st.randoms(use_true_random=True))
def test_a_prompt_reader_is_followed_within_seconds(
    period: float, by: float, jitter: float, ahead: float, chance: Random
) -> None:
    reader = ReaderClock()
    for number in range(round(130 / period)):
        moment = number * period
        is_back = moment >= 120
        offset = ahead - (by if is_back else 0) - chance.uniform(0, jitter)
        is_held = reader.observe(Sample(START + round(moment * SECOND), round(offset * SECOND)), 100)
        assert not is_held or (ahead < 0 and moment < 10) or 120 <= moment < 127
    assert reader.offset is not None
    assert abs(reader.offset / SECOND - (ahead - by)) <= jitter + 0.1


@given(
    st.lists(st.tuples(st.floats(0, 25), st.integers(1, 40)), min_size=1, max_size=8),
    st.floats(0, 1),
    st.randoms(use_true_random=True),
)
def test_jitter_without_reordering_never_looks_like_a_step_back(
    delays: list[tuple[float, int]], age: float, chance: Random
) -> None:
    """Check a connection with jitter that keeps the order of messages."""
    reader, arrives = ReaderClock(0), 0.0
    slow = [delay for delay, lasts in delays for _ in range(lasts)][:110]
    for second, delay in enumerate([0.0] * 70 + slow):
        arrives = max(arrives + 0.01, second + delay)
        made = second - chance.uniform(0, age)
        sample = Sample(START + round(arrives * SECOND), round((made - arrives) * SECOND))
        assert not reader.observe(sample, 100)
    assert reader.correction == 0
