"""A simulated day at two doors with 12 rules, a mail server and a lamp, compared with what really happened.

40 passages a door, between 06:00 and 22:00. A pallet stays where it is between its passages. The test moves the clock;
rules, channel and output work as in the service.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import NamedTuple
from zoneinfo import ZoneInfo

import pytest

from edge import clock
from edge.clock import HOUR, SECOND
from edge.doors.passage_rule import Direction
from edge.events import detection
from edge.ingest.pipeline import Pipeline
from edge.outbound import Network
from edge.records import locations
from edge.rules import alerts, rules
from edge.rules.alerts import AlertFilter
from edge.rules.channels import channels
from edge.rules.channels.channels import NewChannel, Schedule
from edge.rules.channels.worker import Messages
from edge.rules.conditions import AssetKind, Condition
from edge.rules.engine import Engine
from edge.rules.outputs import forms, outputs
from edge.rules.outputs.worker import OutputsWorker
from edge.rules.rules import RuleFields
from tests.conftest import Cast
from tests.doors.site import Gate, new_pipeline, passing
from tests.events.conftest import SILENCE, make_events
from tests.rules.channels.mail_server import MailServerOfTest, mail_server, send_due
from tests.rules.outputs.test_outputs import LAMP, Device

MORNING = clock.to_micros(datetime(2026, 3, 2, 6, 0, tzinfo=UTC))
PASSAGES = 40  # of each door
PALLETS = 12
SEED = 2711
LAMP_SECONDS = 10


class Passed(NamedTuple):
    """A passage as it happened: seconds after 06:00 at its middle."""

    at: float
    door: str
    asset: int
    direction: Direction


class Day:
    def __init__(self, cast: Cast, server: MailServerOfTest, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = MORNING - HOUR
        monkeypatch.setattr(clock, "now", lambda: self.now)
        self.gate = Gate(cast.acme, PALLETS)
        self.gate.began = MORNING
        self.doors = {"Gate": (self.gate.door, (1, 2)), "Ramp": (self.gate.add_door("Ramp", 3, 4), (3, 4))}
        self.server = server
        self.pipeline: Pipeline = new_pipeline()
        self.engine = Engine(ZoneInfo("UTC"))
        self.device = Device()
        self.outputs = OutputsWorker(lambda: self.device)
        self.messages = Messages(lambda: UTC)
        self.numbers: dict[str, int] = {}
        self.lamp_on: list[float] = []
        detection.start(SILENCE)

    def add_rules(self) -> None:
        actor = self.gate.actor
        settings = {
            "host": "127.0.0.1",
            "port": self.server.port,
            "security": "none",
            "user": "",
            "sender": "edge@example.com",
            "recipients": ["lead@example.com"],
        }
        mail = channels.add(
            actor,
            NewChannel("email", "Lead", settings, b"", Schedule(is_sent_when_over=False), Network.LOOPBACK),
        ).no
        lamp = outputs.add(actor, "Lamp", forms.checked({**LAMP, "seconds": str(LAMP_SECONDS)})).no
        yard = locations.create(actor, name="Yard").id
        common = {"kind": Condition.PASSES}
        gate, ramp = (door for door, _ in self.doors.values())
        some = {"asset_kind": AssetKind.METADATA, "asset_name": "kind", "asset_value": "tool"}
        entered = [
            RuleFields("Gate any", door_id=gate, **common),
            RuleFields("Gate out", door_id=gate, direction="out", outputs=str(lamp), **common),
            RuleFields("Gate in", door_id=gate, direction="in", **common),
            RuleFields("Ramp any", door_id=ramp, **common),
            RuleFields("Ramp out mailed", door_id=ramp, direction="out", channels=str(mail), **common),
            RuleFields("Ramp in", door_id=ramp, direction="in", **common),
            RuleFields("Gate out mornings", door_id=gate, direction="out", from_minute=360, until_minute=720, **common),
            RuleFields("Tuesdays", door_id=gate, days=0b10, **common),
            RuleFields("Tools out", door_id=gate, direction="out", **some, **common),
            RuleFields("Enters the yard", Condition.ENTERS, location_id=yard),
            RuleFields("Hall empty", Condition.FEWER, location_id=self.gate.hall, number=1),
            RuleFields("Stays in the hall", Condition.STAYS, location_id=self.gate.hall, span=30 * 60 * SECOND),
        ]
        assert len(entered) == 12
        for one in entered:
            self.numbers[one.name] = rules.add_rule(actor, one)
        self.follow()

    def follow(self) -> None:
        make_events()
        self.engine.follow()
        before = len(self.device.commands)
        self.outputs.work_once()
        self.lamp_on += [self.now for _, payload in self.device.commands[before:] if payload == "on"]
        send_due(self.messages)

    def run(self, truth: list[Passed]) -> None:
        for one in truth:
            _, ports = self.doors[one.door]
            reads = passing(one.at - 2, asset=one.asset, is_out=one.direction is Direction.OUT, ports=ports)
            self.now = MORNING + round((one.at + 3) * SECOND)
            self.gate.receive(reads, self.pipeline)
            while self.pipeline.catch_up():
                pass
            self.follow()
            self.now += LAMP_SECONDS * SECOND
            self.follow()

    def counted(self) -> dict[str, int]:
        rows = alerts.list_alerts(self.gate.organization_id, AlertFilter(is_open=False), 10_000)
        names = {no: name for name, no in self.numbers.items()}
        return Counter(names[row.rule_no] for row in rows)


def script() -> list[Passed]:
    """Return the passages of a day in the order of their times; those of one pallet alternate."""
    chance = random.Random(SEED)
    truth: list[Passed] = []
    inside = dict.fromkeys(range(PALLETS), True)
    for number in range(2 * PASSAGES):
        at = (number + chance.uniform(0.1, 0.7)) * 16 * 3600 / (2 * PASSAGES)
        asset = chance.randrange(PALLETS)
        direction = Direction.OUT if inside[asset] else Direction.IN
        inside[asset] = not inside[asset]
        truth.append(Passed(at, "Gate" if number % 2 else "Ramp", asset, direction))
    return truth


@pytest.fixture
def day(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> Iterator[Day]:
    with mail_server() as server:
        yield Day(cast, server, monkeypatch)


@pytest.mark.slow
def test_alerts_mails_and_the_lamp_agree_with_what_happened(day: Day) -> None:
    truth = script()
    day.add_rules()
    day.run(truth)

    def count(door: str, *directions: Direction, until: float = 24 * 3600) -> int:
        return sum(one.door == door and one.direction in directions and one.at < until for one in truth)

    outward, inward = Direction.OUT, Direction.IN
    assert [count(door, outward, inward) for door in ("Gate", "Ramp")] == [PASSAGES, PASSAGES]
    expected = {
        "Gate any": PASSAGES,
        "Gate out": count("Gate", outward),
        "Gate in": count("Gate", inward),
        "Ramp any": PASSAGES,
        "Ramp out mailed": count("Ramp", outward),
        "Ramp in": count("Ramp", inward),
        "Gate out mornings": count("Gate", outward, until=6 * 3600),
    }
    counted = day.counted()
    assert {name: counted.get(name, 0) for name in expected} == expected
    for never in ("Tuesdays", "Tools out", "Enters the yard", "Hall empty"):
        assert never not in counted
    # Every pallet is read in the hall and stays there, so each seen half an hour before the end has one alert.
    first = {one.asset: one.at for one in reversed(truth)}
    assert counted["Stays in the hall"] == sum(at + 1800 < truth[-1].at for at in first.values())
    assert len(day.server.mails) == expected["Ramp out mailed"]
    mailed = Counter(str(mail.parsed["Subject"]) for mail in day.server.mails)
    assert mailed == Counter(
        f"Ramp out mailed: Pallet {one.asset} passed Ramp"
        for one in truth
        if (one.door, one.direction) == ("Ramp", outward)
    )
    commands = [payload for _, payload in day.device.commands]
    assert commands == ["off", *["on", "off"] * count("Gate", outward)]
    passed = [one.at for one in truth if (one.door, one.direction) == ("Gate", outward)]
    delays = [on / SECOND - MORNING / SECOND - at for on, at in zip(day.lamp_on, passed, strict=True)]
    assert max(delays) < 5, "it waits for the evidence of the passage, simulated up to 3 s after its middle"
