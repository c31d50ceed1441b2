"""Writer: batches continuous messages, and commits immediately if the broker waits for acknowledgements."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence

import pytest

from edge.errors import Unavailable
from edge.ingest import writer as module
from edge.ingest import writer as writer_module
from edge.ingest.messages import Message
from edge.ingest.writer import Writer
from tests.ingest.packets import FakeBroker
from tests.ingest.subscribed import SOON, Handler, delivery, subscribed
from tests.service import wait_for


class Commits:
    """Writer with a gathering time longer than a test, and the sizes of its commits."""

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self.tried: list[Sequence[Message]] = []
        self.failures = 0  # number of commits that will fail
        self.most = 10_000  # messages in one commit
        self.stopping = threading.Event()
        self.writer = Writer(
            self._commit, lambda _: False, lambda: None, queue_size=10_000, batch_size=1_000, stopping=self.stopping
        )

    def _commit(self, messages: Sequence[Message]) -> int:
        self.tried.append(messages)
        if self.failures:
            self.failures -= 1
            raise Unavailable("The disk is full")
        self.sizes.append(len(messages[: self.most]))
        return len(messages[: self.most])

    def put(self, count: int, payload: bytes = b"{}") -> None:
        for _ in range(count):
            self.writer.put(Message("dock", payload, 0))
        self.writer.wake()


@pytest.fixture(autouse=True)
def _for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer_module, "QUIET_SECONDS", 2 * SOON)
    monkeypatch.setattr(writer_module, "BUSY_SECONDS", 2 * SOON)


@pytest.fixture
def commits() -> Iterator[Commits]:
    commits = Commits()
    commits.writer.thread.start()
    commits.put(1)
    commits.writer.note_pause(is_sure=True)
    wait_for(lambda: commits.sizes == [1], SOON)
    yield commits
    commits.stopping.set()
    commits.writer.wake()
    commits.writer.thread.join(SOON)


def test_the_first_message_after_a_pause_is_committed_with_its_neighbors() -> None:
    """It was committed alone before, which doubled what a quiet site writes to its disk."""
    commits = Commits()
    commits.put(1)
    commits.writer.thread.start()
    for _ in range(3):
        commits.put(1)
    commits.writer.note_pause(is_sure=True)
    wait_for(lambda: sum(commits.sizes) == 4, SOON)
    commits.stopping.set()
    commits.writer.wake()
    commits.writer.thread.join(SOON)
    assert commits.sizes == [4]


def test_continuous_messages_are_committed_together(commits: Commits) -> None:
    for _ in range(30):
        commits.put(10)
        commits.writer.note_pause(is_sure=False)
    commits.writer.note_pause(is_sure=True)
    wait_for(lambda: commits.sizes == [1, 300], SOON)


def test_a_full_batch_is_committed_immediately(commits: Commits) -> None:
    commits.put(module.WORTH_A_COMMIT)
    wait_for(lambda: commits.sizes == [1, module.WORTH_A_COMMIT], SOON)


def test_the_limit_of_unacknowledged_messages_is_detected(commits: Commits) -> None:
    commits.put(20)
    commits.writer.note_pause(is_sure=True)
    for number in range(3):
        wait_for(lambda number=number: commits.sizes == [1] + [20] * (number + 1), SOON)
        commits.put(20)
        commits.writer.note_pause(is_sure=False)
    wait_for(lambda: commits.sizes == [1] + [20] * 4, SOON)


def test_a_single_message_before_a_pause_is_not_taken_for_the_limit(commits: Commits) -> None:
    commits.put(1)
    commits.writer.note_pause(is_sure=True)
    wait_for(lambda: commits.sizes == [1, 1], SOON)
    commits.put(1)
    commits.writer.note_pause(is_sure=False)
    time.sleep(0.2)
    assert commits.sizes == [1, 1]
    commits.put(1)
    commits.writer.note_pause(is_sure=True)
    wait_for(lambda: commits.sizes == [1, 1, 2], SOON)


def test_a_retried_batch_may_be_partly_committed(commits: Commits, monkeypatch: pytest.MonkeyPatch) -> None:
    """Check the retry of a split batch: its messages are marked redelivered, so committed ones count as repeats."""
    monkeypatch.setattr(module, "RETRY_SECONDS", 0.0)
    commits.failures = 2
    commits.put(20)
    commits.writer.note_pause(is_sure=True)
    wait_for(lambda: commits.sizes == [1, 20], SOON)
    assert [{message.is_redelivered for message in batch} for batch in commits.tried] == [
        {False},
        {False},
        {True},
        {True},
    ]
    assert commits.writer.store_problem == ""


def test_messages_beyond_one_transaction_go_into_the_next(commits: Commits) -> None:
    commits.most = 8
    commits.put(20)
    commits.writer.note_pause(is_sure=True)
    wait_for(lambda: commits.sizes == [1, 8, 8, 4], SOON)
    assert [message for batch in commits.tried[1:] for message in batch[:8]] == list(commits.tried[1])


def test_a_batch_is_limited_in_bytes(commits: Commits) -> None:
    """Check the limit in bytes, because a parsed message needs many times its size."""
    commits.put(30, b" " * (module.BATCH_BYTES // 4 + 1))
    commits.writer.note_pause(is_sure=True)
    commits.stopping.set()
    wait_for(lambda: sum(commits.sizes) == 31, SOON)
    assert max(commits.sizes) == 4


def test_requeued_messages_do_not_change_the_queue_size(commits: Commits, monkeypatch: pytest.MonkeyPatch) -> None:
    """Check the byte count: requeued messages were never added to it, so they must not be subtracted."""
    monkeypatch.setattr(module, "QUEUE_BYTES", 1_000)
    for number in range(1, 21):
        commits.writer.requeue(Message("dock", b" " * 1_000, 0, dead_letter_id=number))
    commits.writer.note_pause(is_sure=True)
    commits.stopping.set()
    commits.writer.thread.join(SOON)
    assert sum(commits.sizes) == 21
    assert commits.writer.has_room()
    commits.writer.put(Message("dock", b" " * 1_000, 0))
    assert not commits.writer.has_room()


def test_a_few_messages_are_committed_when_the_time_to_gather_is_over(
    commits: Commits, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check a batch below the minimum size without a pause signal."""
    monkeypatch.setattr(writer_module, "QUIET_SECONDS", 0.0)
    monkeypatch.setattr(writer_module, "BUSY_SECONDS", 0.0)
    commits.put(3)
    wait_for(lambda: commits.sizes == [1, 3], SOON)


def test_a_pause_of_the_broker_is_detected() -> None:
    with FakeBroker() as broker, subscribed(broker.url, Handler()) as subscriber:
        wait_for(lambda: subscriber.state().is_connected, SOON)
        for mid in range(1, 5):
            broker.send(delivery(b"one", mid))
            wait_for(lambda mid=mid: mid in broker.acknowledged, SOON)


def test_held_messages_are_looked_at_while_no_message_arrives() -> None:
    looks, stopping = threading.Semaphore(0), threading.Event()

    def catch_up(_: bool) -> bool:
        looks.release()
        return False

    writer = Writer(len, catch_up, lambda: None, queue_size=10, batch_size=10, stopping=stopping)
    writer.thread.start()
    try:
        assert all(looks.acquire(timeout=SOON) for _ in range(2))
    finally:
        stopping.set()
        writer.wake()
        writer.thread.join(SOON)


def test_looks_between_commits_are_not_those_of_an_idle_writer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer_module, "CATCH_UP_SECONDS", -1.0)
    looks: list[bool] = []
    stopping = threading.Event()

    def catch_up(is_idle: bool) -> bool:
        looks.append(is_idle)
        return False

    writer = Writer(len, catch_up, lambda: None, queue_size=10, batch_size=1, stopping=stopping)
    for _ in range(3):
        writer.put(Message("dock", b"{}", 0))
    writer.wake()
    writer.thread.start()
    try:
        wait_for(lambda: len(looks) > 3, SOON)
    finally:
        stopping.set()
        writer.wake()
        writer.thread.join(SOON)
    assert looks[:4] == [False, False, False, True]


def test_only_messages_with_qos_1_are_acknowledged(commits: Commits) -> None:
    commits.writer.put(Message("dock", b"{}", 0, mid=0, qos=0))
    commits.writer.put(Message("dock", b"{}", 0, mid=7, qos=1))
    commits.stopping.set()
    commits.writer.wake()
    commits.writer.thread.join(SOON)
    assert commits.writer.take_done() == [(7, 0)]


def test_a_pause_before_a_message_does_not_end_its_gathering(commits: Commits) -> None:
    commits.writer.note_pause(is_sure=True)
    commits.put(1)
    time.sleep(0.2)
    assert commits.sizes == [1]
