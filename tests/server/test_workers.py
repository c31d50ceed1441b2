"""Which worker answers a request."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge import rate_limits
from edge.server import workers
from edge.server.workers import Workers
from tests.service import wait_for

LONG = 30.0  # seconds that a test never takes


class Task:
    """A connection with one request."""

    def __init__(
        self, command: str = "GET", work: Callable[[], object] = lambda: None, path: str = "/", caller: str = ""
    ) -> None:
        headers = {"AUTHORIZATION": caller} if caller else {}
        self.requests = [SimpleNamespace(command=command, path=path, headers=headers)]
        self.begun, self.ended = threading.Event(), threading.Event()
        self.times_served = 0
        self.is_cancelled = False
        self._work = work

    def owner_of(self, _request: object) -> str:
        return "192.0.2.7" if self.requests[0].headers else ""

    def service(self) -> None:
        self.times_served += 1
        self.begun.set()
        try:
            self._work()
        finally:
            self.ended.set()

    def cancel(self) -> None:
        self.is_cancelled = True


@contextmanager
def working(count: int) -> Iterator[Workers]:
    crew = Workers(count)
    try:
        yield crew
    finally:
        crew.shutdown(timeout=LONG)


@pytest.fixture(autouse=True)
def _strangers() -> Iterator[None]:
    """Callers whom no other test has made known."""
    rate_limits.forget_callers()
    yield
    rate_limits.forget_callers()


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "MAX_LEAD_SECONDS", LONG)


@pytest.mark.usefixtures("patient")
def test_reads_are_answered_one_at_a_time_in_their_order() -> None:
    answered: list[int] = []
    alone = threading.Lock()

    def answer(number: int) -> None:
        assert alone.acquire(blocking=False)
        answered.append(number)
        alone.release()

    tasks = [Task(work=lambda number=number: answer(number)) for number in range(200)]  # type: ignore[misc]
    with working(4) as crew:
        for task in tasks:
            crew.add_task(task)
        assert tasks[-1].ended.wait(LONG)
    assert answered == list(range(200))


@pytest.mark.usefixtures("patient")
def test_a_read_that_finds_all_idle_is_answered_at_once() -> None:
    with working(2) as crew:
        for _ in range(50):
            task = Task()
            crew.add_task(task)
            assert task.ended.wait(LONG)


def test_a_slow_read_keeps_nobody_waiting_for_long() -> None:
    go_on = threading.Event()
    slow, quick = Task(work=lambda: go_on.wait(LONG)), Task()
    with working(2) as crew:
        crew.add_task(slow)
        crew.add_task(quick)
        assert quick.ended.wait(LONG)
        assert not slow.ended.is_set()
        go_on.set()


def test_a_probe_is_answered_while_all_others_are_slow() -> None:
    go_on = threading.Event()
    slow = [Task(work=lambda: go_on.wait(LONG)) for _ in range(3)]
    probe = Task(path=workers.PROBE)
    with working(2) as crew:
        for task in (*slow, probe):
            crew.add_task(task)
        assert probe.ended.wait(LONG)
        assert not slow[2].begun.is_set()
        go_on.set()


def test_requests_that_nobody_begins_are_noticed() -> None:
    go_on = threading.Event()
    slow = [Task(work=lambda: go_on.wait(LONG)) for _ in range(2)]
    with working(1) as crew:
        assert crew.stuck_seconds() == 0
        crew.add_task(slow[0])
        assert slow[0].begun.wait(LONG)
        assert crew.stuck_seconds() == 0  # it is slow, but nobody waits
        crew.add_task(slow[1])
        wait_for(lambda: crew.stuck_seconds() > 0.05, LONG)
        go_on.set()
        assert slow[1].ended.wait(LONG)
        assert crew.stuck_seconds() == 0


def test_the_first_worker_that_ends_goes_on_when_all_are_slow() -> None:
    go_on = threading.Event()
    slow = [Task(work=lambda: go_on.wait(LONG)) for _ in range(3)]
    waiting = Task()
    with working(3) as crew:
        for task in (*slow, waiting):
            crew.add_task(task)
        assert all(task.begun.wait(LONG) for task in slow)
        assert not waiting.begun.is_set()
        go_on.set()
        assert waiting.ended.wait(LONG)


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("command", ["POST", "PATCH", "DELETE"])
def test_writes_are_worked_on_together_and_hold_no_read_up(command: str) -> None:
    together = threading.Barrier(3)
    writes = [Task(command, lambda: together.wait(LONG)) for _ in range(2)]
    read = Task(work=lambda: together.wait(LONG))
    with working(3) as crew:
        for task in (*writes, read):
            crew.add_task(task)
        assert all(task.ended.wait(LONG) for task in (*writes, read))
    assert not together.broken


def test_a_connection_that_fails_costs_no_worker(caplog: pytest.LogCaptureFixture) -> None:
    def fail() -> None:
        raise ConnectionError("gone")

    after = Task()
    with working(1) as crew:
        crew.add_task(Task(work=fail))
        crew.add_task(after)
        assert after.ended.wait(LONG)
    assert [record.levelname for record in caplog.records] == ["ERROR"]


def test_a_shutdown_waits_for_what_was_begun_and_cancels_the_rest() -> None:
    go_on = threading.Event()
    begun, pending = Task(work=lambda: go_on.wait(LONG)), Task()
    crew = Workers(1)
    crew.add_task(begun)
    assert begun.begun.wait(LONG)
    crew.add_task(pending)
    crew.shutdown(timeout=0.01)
    assert pending.is_cancelled
    assert not begun.ended.is_set()
    go_on.set()
    crew.shutdown(timeout=LONG)
    assert begun.ended.is_set()
    assert not begun.is_cancelled
    assert pending.times_served == 0


@given(st.lists(st.sampled_from(["quick", "slow", "write", "slow write"]), max_size=30), st.integers(1, 4))
def test_every_request_is_answered_once_whatever_comes_together(kinds: list[str], count: int) -> None:
    go_on = threading.Event()
    tasks = [
        Task("POST" if "write" in kind else "GET", (lambda: go_on.wait(LONG)) if "slow" in kind else lambda: None)
        for kind in kinds
    ]
    with working(count) as crew:
        for task in tasks:
            crew.add_task(task)
        go_on.set()
        assert all(task.ended.wait(LONG) for task in tasks)
    assert [task.times_served for task in tasks] == [1] * len(tasks)


def test_only_the_caller_of_many_slow_requests_waits_for_them() -> None:
    """Before, it was refused with 429 although it kept to its rate."""
    rate_limits.note_caller("Bearer a", "key", 1)
    rate_limits.note_caller("Bearer a2", "key", 1)
    opened, at_once, most = threading.Event(), threading.Semaphore(6), []

    def slow() -> None:
        most.append(at_once.acquire(blocking=False))
        assert opened.wait(LONG)
        at_once.release()

    with working(8) as crew:
        own = [Task(work=slow, caller=("Bearer a", "Bearer a2")[number % 2]) for number in range(24)]
        for task in own:
            crew.add_task(task)
        wait_for(lambda: sum(task.begun.is_set() for task in own) == 6, LONG)
        for caller in ("Bearer b", ""):
            other = Task(caller=caller)
            crew.add_task(other)
            assert other.ended.wait(LONG)
        assert sum(task.begun.is_set() for task in own) == 6
        opened.set()
        assert all(task.ended.wait(LONG) for task in own)
        assert crew._held == {}
    assert all(most)
    assert [task.times_served for task in own] == [1] * 24


@pytest.fixture
def two_organizations() -> Iterator[None]:
    """Several credentials of organization 1, and one of organization 2."""
    for name in "abc":
        rate_limits.note_caller(f"Bearer {name}", name, 1)
    rate_limits.note_caller("Bearer other", "other", 2)
    yield
    rate_limits.forget_callers()


@pytest.mark.usefixtures("two_organizations")
def test_one_organization_never_has_all_threads() -> None:
    """Before, two people with slow requests kept those of all other organizations waiting."""
    opened = threading.Event()
    with working(8) as crew:
        slow = [Task(work=lambda: opened.wait(LONG), caller=f"Bearer {name}") for name in "abc" * 8]
        for task in slow:
            crew.add_task(task)
        wait_for(lambda: sum(task.begun.is_set() for task in slow) == 7, LONG)
        for _ in range(20):
            other = Task(caller="Bearer other")
            crew.add_task(other)
            assert other.ended.wait(LONG)
        assert sum(task.begun.is_set() for task in slow) == 7
        opened.set()
        assert all(task.ended.wait(LONG) for task in slow)
        assert crew._held == {}
    assert [task.times_served for task in slow] == [1] * 24


@pytest.mark.usefixtures("two_organizations")
def test_new_credentials_gain_no_more_threads() -> None:
    """A key may get any number of tokens, which are unknown until their first request is answered."""
    opened = threading.Event()
    with working(8) as crew:
        unknown = [Task(work=lambda: opened.wait(LONG), caller=f"Bearer new {number}") for number in range(12)]
        known = [Task(work=lambda: opened.wait(LONG), caller="Bearer a") for _ in range(12)]
        for task in (*unknown, *known):
            crew.add_task(task)
        wait_for(lambda: sum(task.begun.is_set() for task in (*unknown, *known)) == 7, LONG)
        other = Task(caller="Bearer other")
        crew.add_task(other)
        assert other.ended.wait(LONG)
        assert sum(task.begun.is_set() for task in unknown) == 4
        opened.set()
        assert all(task.ended.wait(LONG) for task in (*unknown, *known))


def test_strangers_of_one_network_leave_threads_to_others() -> None:
    rate_limits.note_caller("Bearer a", "key", 1)
    opened = threading.Event()
    with working(8) as crew:
        strangers = [Task(work=lambda: opened.wait(LONG), caller=f"Bearer {number}") for number in range(12)]
        for task in strangers:
            crew.add_task(task)
        wait_for(lambda: sum(task.begun.is_set() for task in strangers) == 6, LONG)
        known = Task(caller="Bearer a")
        crew.add_task(known)
        assert known.ended.wait(LONG)
        assert sum(task.begun.is_set() for task in strangers) == 6
        opened.set()
        assert all(task.ended.wait(LONG) for task in strangers)


def test_a_box_of_one_organization_uses_all_threads() -> None:
    for name in "abcdefgh":
        rate_limits.note_caller(f"Bearer {name}", name, 1)
    opened = threading.Event()
    with working(8) as crew:
        slow = [Task(work=lambda: opened.wait(LONG), caller=f"Bearer {name}") for name in "abcdefgh"]
        for task in slow:
            crew.add_task(task)
        assert all(task.begun.wait(LONG) for task in slow)
        opened.set()


@pytest.mark.usefixtures("two_organizations")
def test_the_session_of_a_browser_names_its_organization() -> None:
    rate_limits.note_caller("token", "person:1", 1)
    for cookie in ("edge_session=token", "a=b; edge_session=token; c=d", "__Host-edge_session=token"):
        task = Task()
        task.requests[0].headers = {"COOKIE": cookie}
        assert workers._caller(task).organization_id == 1
    assert workers._caller(Task(caller="Bearer a")).organization_id == 1
    assert workers._caller(Task()) == ("", None)
    assert workers._caller(Task(caller="Bearer unknown")) == ("192.0.2.7", None)


def test_only_the_newest_credentials_are_known(two_organizations: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rate_limits, "MOST_CALLERS", 4)
    rate_limits.note_caller("Bearer a", "a", 1)
    rate_limits.note_caller("Bearer new", "new", 1)
    known = [rate_limits.find_caller(f"Bearer {name}") for name in ("a", "b", "c", "other", "new")]
    assert [one and one.organization_id for one in known] == [1, None, 1, 2, 1]


def test_what_waits_for_its_caller_is_cancelled_at_the_end() -> None:
    rate_limits.note_caller("Bearer a", "a", 1)
    opened = threading.Event()
    crew = Workers(3)
    own = [Task(work=lambda: opened.wait(LONG), caller="Bearer a") for _ in range(3)]
    for task in own:
        crew.add_task(task)
    assert own[0].begun.wait(LONG)
    wait_for(lambda: not crew._tasks, LONG)
    crew.shutdown(timeout=0)
    assert [task.is_cancelled for task in own] == [False, True, True]
    opened.set()


def test_a_credential_that_another_thread_drops_meanwhile_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    class Dropping(OrderedDict[int, object]):
        def __setitem__(self, key: int, value: object) -> None:
            super().__setitem__(key, value)
            super().pop(key)

    monkeypatch.setattr(rate_limits, "_callers", Dropping())
    rate_limits.note_caller("Bearer x", "x", 1)
    assert rate_limits.find_caller("Bearer x") is None


def test_requests_that_waited_for_a_stranger_are_answered_once_the_credential_is_known() -> None:
    """They waited for the network of the client, and after it nobody of that name ended a request any more."""
    go_on = threading.Event()
    first = [Task(work=lambda: go_on.wait(LONG), caller="Bearer new") for _ in range(2)]
    waiting = [Task(caller="Bearer new") for _ in range(20)]
    with working(4) as crew:
        for task in (*first, *waiting):
            crew.add_task(task)
        assert all(task.begun.wait(LONG) for task in first)
        probe = Task()
        crew.add_task(probe)
        assert probe.ended.wait(LONG)  # after it was looked at, all others are held back
        rate_limits.note_caller("Bearer new", "key 1", 1)
        go_on.set()
        assert all(task.ended.wait(LONG) for task in waiting)


@pytest.mark.usefixtures("patient")
def test_a_person_has_at_most_three_pages_made_at_once() -> None:
    """Regression: six of the largest pages of one person took more memory than the service has."""
    rate_limits.note_caller("Bearer olga", f"{rate_limits.PERSON}7", 1)
    go = threading.Event()
    with working(8) as crew:
        tasks = [Task(work=lambda: go.wait(LONG), command="POST", caller="Bearer olga") for _ in range(6)]
        for task in tasks:
            crew.add_task(task)
        other = Task(command="POST", caller="Bearer somebody")
        crew.add_task(other)
        assert other.ended.wait(LONG)
        assert sum(task.begun.is_set() for task in tasks) == 3
        go.set()
        assert all(task.ended.wait(LONG) for task in tasks)
