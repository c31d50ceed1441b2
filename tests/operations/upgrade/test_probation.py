"""Probation: when a release is rolled back and when it stays."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from edge.operations.upgrade.probation import Observation, Probation, Sample, Tally, rates

DOCK, GATE = "reader dock of Acme", "reader gate of Acme"
SWITCH = {DOCK: Tally(72_000, 135_900), GATE: Tally(7_200, 0)}
BEFORE = [Sample(100.0, {DOCK: Tally(71_400, 134_800), GATE: Tally(7_140, 0)}), Sample(160.0, SWITCH)]


def observation(at: float, **changes: object) -> Observation:
    """Return a healthy observation. Reader dock sends ten messages a second, gate one, none of them recorded."""
    seconds = int(at)
    readers = {
        DOCK: Tally(72_000 + 10 * seconds, 135_900 + 19 * seconds),
        GATE: Tally(7_200 + seconds, 0),
    }
    well = Observation(float(at), 0, "", "", 0, 0.3, readers)
    return well._replace(**changes)  # type: ignore[arg-type]


def fault(changes: Mapping[str, object], *, has_been_ready: bool = True, seconds: int = 600) -> tuple[int, str]:
    """Return the second and the text of the first fault; values in `changes` may be functions of the second."""
    probation = Probation(BEFORE, SWITCH, has_been_ready)
    for at in range(0, seconds, 5):
        reason = probation.fault(observation(at, **{k: v(at) if callable(v) else v for k, v in changes.items()}))
        if reason:
            return at, reason
    return seconds, ""


def test_a_release_that_does_as_well_stays() -> None:
    assert fault({}) == (600, "")


def test_a_release_that_ends_every_12_s_fails_at_its_second_restart() -> None:
    at, said = fault({"restarts": lambda at: at // 14})
    assert (at, said) == (30, "the service stopped unexpectedly 2 times")


def test_one_end_is_nothing() -> None:
    assert fault({"restarts": lambda at: int(at > 100)}) == (600, "")


def test_a_dropped_reader_topic_is_a_fault() -> None:
    at, said = fault({"readers": lambda at: {**observation(at).readers, DOCK: SWITCH[DOCK]}})
    assert at <= 10
    assert "reader dock of Acme has 0 messages" in said


def test_a_gate_may_be_silent_after_a_burst_before_the_upgrade() -> None:
    before = [Sample(100.0, {GATE: Tally(0, 0)}), Sample(110.0, {GATE: Tally(100, 300)})]
    probation = Probation(before, before[-1].readers, has_been_ready=True)
    idle = {GATE: Tally(100, 300)}
    assert [probation.fault(observation(at, readers=idle)) for at in range(0, 600, 5)] == [""] * 120


def test_a_reader_that_sends_seldom_is_given_more_time() -> None:
    at, said = fault({"readers": lambda at: {**observation(at).readers, GATE: SWITCH[GATE]}})
    assert 25 <= at <= 40
    assert "reader gate" in said


def test_reads_that_are_not_recorded_are_a_fault() -> None:
    unmatched = {
        "readers": lambda at: {
            **observation(at).readers,
            DOCK: observation(at).readers[DOCK]._replace(recorded=SWITCH[DOCK].recorded),
        }
    }
    at, said = fault(unmatched)
    assert at <= 10
    assert said == "reader dock of Acme has 0 recorded reads in 50 messages, before the upgrade 92"


def test_ignored_messages_are_a_fault_after_one_read_of_the_previous_release() -> None:
    """Regression: reads were compared with parsed reads only, and a reader whose messages are ignored has none."""
    last = SWITCH[DOCK]._replace(recorded=SWITCH[DOCK].recorded + 1)
    ignored = {"readers": lambda at: {**observation(at).readers, DOCK: last._replace(messages=72_000 + 10 * int(at))}}
    assert fault(ignored) == (5, "reader dock of Acme has 1 recorded reads in 50 messages, before the upgrade 92")


def test_reads_of_the_previous_release_after_its_last_sample_do_not_count_for_the_new_one() -> None:
    stopped = {**SWITCH, DOCK: Tally(72_400, 136_600)}
    probation = Probation(BEFORE, stopped, has_been_ready=True)
    silent = [probation.fault(observation(at, readers=stopped)) for at in (0, 5)]
    assert silent == ["", "reader dock of Acme has 0 messages in 5 s, before the upgrade 50"]


def test_a_reader_whose_reads_were_never_recorded_is_no_fault() -> None:
    assert rates(BEFORE)[GATE].recorded == 0.0
    assert fault({})[1] == ""


@pytest.mark.parametrize(
    ("trouble", "seconds", "said"),
    [
        ({"unanswered": "/sign-in"}, 20, "/sign-in is not served"),
        ({"not_ready": "see /readyz"}, 60, "it is not ready"),
        ({"memory_share": 0.95}, 30, "it uses 95% of its memory limit"),
    ],
)
def test_what_may_pass_is_a_fault_when_it_lasts(trouble: dict[str, object], seconds: int, said: str) -> None:
    at, reason = fault(trouble)
    assert at == seconds
    assert said in reason
    name, value = next(iter(trouble.items()))
    usual = getattr(observation(0), name)
    assert fault({name: lambda at: value if at % 20 == 0 else usual}) == (600, "")


def test_a_service_that_was_not_ready_before_need_not_be() -> None:
    assert fault({"not_ready": "no broker"}, has_been_ready=False) == (600, "")


def test_a_service_stopped_by_an_administrator_is_not_judged() -> None:
    """Its readers wait at the broker meanwhile. A service that is still down after the stop is judged again."""
    stopped = {**observation(100).readers}
    down = {"unanswered": "/healthz", "readers": stopped}
    probation = Probation(BEFORE, SWITCH, has_been_ready=True)
    for at in range(0, 100, 5):
        assert probation.fault(observation(at)) == ""
    for at in range(100, 4_000, 5):
        assert probation.fault(observation(at, is_stopped=True, **down)) == ""
    assert probation.watched_seconds == 95
    assert probation.fault(observation(4_000, readers=stopped)) == ""
    assert [probation.fault(observation(at, **down)) for at in (4_005, 4_025)] == ["", "/healthz is not served"]


def test_internal_errors_are_counted() -> None:
    assert fault({"errors": lambda at: at // 10})[1] == "5 requests failed with an internal error"


def test_without_two_samples_readers_are_not_judged() -> None:
    assert rates([]) == rates(BEFORE[1:]) == {}
    probation = Probation([], {}, True)
    assert [probation.fault(observation(at, readers={})) for at in (0, 300)] == ["", ""]
