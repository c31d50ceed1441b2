"""No site has more than its share of the hub's time, whatever it sends. Others are answered meanwhile."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from edge import rate_limits
from edge.api import sync as api
from edge.database.connection import held_seconds, writing
from edge.errors import Conflict
from edge.rate_limits import Buckets
from edge.sync import batch_format, hub
from edge.sync.sender import LinkError, Sender
from tests.sync.http import Connected
from tests.sync.world import EPOCH, Hub, SiteBox

BURST = 3
SPENT = 0.4  # seconds of a request


class Clock:
    """Time of the processor, and of the wall, in which nothing but `spend` passes."""

    def __init__(self) -> None:
        self.spent = self.now = 0.0

    def thread_time(self) -> float:
        return self.spent

    def monotonic(self) -> float:
        return self.now

    def spend(self, seconds: float) -> None:
        self.spent += seconds
        self.now += seconds


@pytest.fixture(autouse=True)
def hub_clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(api, "time", made)
    monkeypatch.setattr(rate_limits, "time", made)
    monkeypatch.setattr(api, "_time", Buckets(BURST, api.SHARE))
    monkeypatch.setattr(api, "_usual", Buckets(2, api.USUAL_SHARE))
    monkeypatch.setattr(api, "_shared", Buckets(2 * BURST, api.SHARED))
    return made


@pytest.fixture
def lines(tmp_path: Path) -> tuple[Connected, Connected]:
    """Return the lines of two sites to their hub: of one that floods it, and of an honest one."""
    one = Hub(tmp_path / "hub", "hub")
    boxes = [SiteBox(tmp_path / name, name.upper(), one) for name in ("ber", "ham")]
    for box in boxes:
        box.join()
    return Connected(boxes[0]), Connected(boxes[1])


def ask(line: Connected, path: str, content: dict[str, Any]) -> Any:
    with line.site.in_use():
        return line.client.call(path, batch_format.pack(content))


QUESTION = {"range": [0, 1], "days": []}


def test_a_site_that_floods_the_hub_is_refused_and_the_others_are_not(
    lines: tuple[Connected, Connected], hub_clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before, a stolen key was enough to keep the hub busy with valid questions or batches."""
    flooding, honest = lines
    asked = []

    def slow(site: Any, _content: Any) -> dict[str, Any]:
        asked.append(site.code)
        hub_clock.spend(SPENT if site.code == "BER" else 0)
        return {}

    monkeypatch.setattr(hub, "digests", slow)
    refusals = []
    for _ in range(30):
        try:
            ask(flooding, "digests", QUESTION)
        except LinkError as error:
            refusals.append(error)
        ask(honest, "digests", QUESTION)
    served = asked.count("BER")
    assert BURST / SPENT <= served <= 2 * BURST / SPENT  # half of the time comes back meanwhile
    assert len(refusals) == 30 - served
    assert "has used its share of this hub's time" in str(refusals[0])
    assert refusals[0].wait_seconds >= 1
    assert asked.count("HAM") == 30
    hub_clock.now += refusals[-1].wait_seconds
    ask(flooding, "digests", QUESTION)
    assert asked.count("BER") == served + 1


def test_several_stolen_keys_do_not_add_up(tmp_path: Path, hub_clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before, each had half of the hub's time, so two of them had all."""
    one = Hub(tmp_path / "hub", "hub")
    boxes = [SiteBox(tmp_path / name, name.upper(), one) for name in ("ber", "ham", "muc", "honest")]
    for box in boxes:
        box.join()
    *stolen, honest = map(Connected, boxes)
    asked = []

    def slow(site: Any, _content: Any) -> dict[str, Any]:
        asked.append(site.code)
        hub_clock.spent += 0.01 if site.code == "HONEST" else SPENT
        return {}

    monkeypatch.setattr(hub, "digests", slow)
    rounds = 200
    for _ in range(rounds):
        hub_clock.now += 1.0
        ask(honest, "digests", QUESTION)
        for line in stolen:
            with suppress(LinkError):
                ask(line, "digests", QUESTION)
    used = (len(asked) - rounds) * SPENT
    assert asked.count("HONEST") == rounds
    assert api.SHARED * rounds * 0.8 <= used <= (api.SHARED + 3 * api.USUAL_SHARE) * rounds + 2 * BURST + 3 * 2 + 3


def test_a_request_that_fails_is_charged_as_well(
    lines: tuple[Connected, Connected], hub_clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> dict[str, Any]:
        hub_clock.spend(SPENT)
        raise Conflict("no")

    monkeypatch.setattr(hub, "digests", fail)
    told = []
    for _ in range(12):
        with pytest.raises(Exception, match=r"rejected this box|share of this hub") as error:
            ask(lines[0], "digests", QUESTION)
        told.append(str(error.value))
    assert "share of this hub's time" in told[-1]


def test_many_small_requests_are_a_flood_as_well(
    lines: tuple[Connected, Connected], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The work of a small one is less than that of its HTTP: 600 a second took half a core, without an end."""
    monkeypatch.setattr(api, "LEAST_SECONDS", 0.25)
    for _ in range(int((BURST - 1) / 0.25) + 1):
        ask(lines[0], "digests", QUESTION)
    with pytest.raises(LinkError, match="share of this hub"):
        ask(lines[0], "digests", QUESTION)
    ask(lines[1], "digests", QUESTION)


def test_a_site_that_catches_up_is_asked_to_wait_before_it_is_refused(lines: tuple[Connected, Connected]) -> None:
    flooding, _ = lines
    for number in range(3):
        flooding.site.scan(flooding.site.add_asset(f"P-{number}"), 0, EPOCH)
    answers = []
    send = flooding.client.call
    flooding.client.call = lambda path, body: answers.append(send(path, body)) or answers[-1]  # type: ignore[method-assign,func-returns-value]
    with flooding.site.in_use():
        sender = Sender(flooding.client.call)
        sender.connect()
        api._time.charge(str(flooding.site.site_no), (BURST - 0.5) / api.SHARE)
        with pytest.raises(LinkError, match="share"):
            sender.push()
        api._time.fill(str(flooding.site.site_no))
        api._time.charge(str(flooding.site.site_no), (BURST - 1.0001) / api.SHARE)
        sent = sender.push()
    assert answers[0]["wait_ms"] == 0
    assert answers[-1]["wait_ms"] > 0
    assert sent.wait_seconds == answers[-1]["wait_ms"] / 1000


def test_the_time_of_the_write_lock_counts(cast: Any) -> None:
    before = held_seconds()
    with writing():
        until = time.monotonic() + 0.05
        while time.monotonic() < until:
            pass
    assert 0.05 <= held_seconds() - before < 5
