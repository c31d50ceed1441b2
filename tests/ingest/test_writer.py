"""When the writer commits: together what keeps coming, at once where the broker waits for acknowledgements."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence

import pytest

from edge.ingest import writer as module
from edge.ingest.messages import Message
from edge.ingest.writer import Writer
from tests.ingest.packets import FakeBroker
from tests.ingest.subscribed import SOON, Handler, delivery, subscribed
from tests.service import wait_for


class Commits:
    """A writer that gathers for longer than a test takes, and how many messages it committed each time."""

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self.stopping = threading.Event()
        self.writer = Writer(
            self._commit, lambda: False, lambda: None, queue_size=10_000, batch_size=1_000, stopping=self.stopping
        )

    def _commit(self, messages: Sequence[Message]) -> None:
        self.sizes.append(len(messages))

    def put(self, count: int) -> None:
        for _ in range(count):
            self.writer.put(Message("dock", b"{}", 0))
        self.writer.wake()


@pytest.fixture(autouse=True)
def _for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "GATHER_SECONDS", 2 * SOON)


@pytest.fixture
def commits() -> Iterator[Commits]:
    found = Commits()
    found.writer.thread.start()
    found.put(1)
    wait_for(lambda: found.sizes == [1], SOON)  # the first one after a pause goes at once
    yield found
    found.stopping.set()
    found.writer.wake()
    found.writer.thread.join(SOON)


def test_messages_that_keep_coming_are_committed_together(commits: Commits) -> None:
    for _ in range(30):
        commits.put(10)
        commits.writer.be_quiet(is_sure=False)
    commits.writer.be_quiet(is_sure=True)
    wait_for(lambda: commits.sizes == [1, 300], SOON)


def test_so_are_as_many_as_are_worth_a_commit(commits: Commits) -> None:
    commits.put(module.WORTH_A_COMMIT)
    wait_for(lambda: commits.sizes == [1, module.WORTH_A_COMMIT], SOON)


def test_a_broker_that_waits_for_acknowledgements_is_known_by_how_many_it_waits_for(commits: Commits) -> None:
    commits.put(20)
    commits.writer.be_quiet(is_sure=True)
    for number in range(3):
        wait_for(lambda number=number: commits.sizes == [1] + [20] * (number + 1), SOON)
        commits.put(20)
        commits.writer.be_quiet(is_sure=False)
    wait_for(lambda: commits.sizes == [1] + [20] * 4, SOON)


def test_that_the_broker_sends_nothing_more_is_noticed() -> None:
    with FakeBroker() as broker, subscribed(broker.url, Handler()) as subscriber:
        wait_for(lambda: subscriber.state().is_connected, SOON)
        for mid in range(1, 5):
            broker.send(delivery(b"one", mid))
            wait_for(lambda mid=mid: mid in broker.acknowledged, SOON)
