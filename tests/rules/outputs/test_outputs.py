"""Outputs: commands of devices, topics that are refused, and switching by alerts."""

from __future__ import annotations

import json
from zoneinfo import ZoneInfo

import pytest

from edge import clock
from edge.audit.actors import shell
from edge.clock import HOUR, SECOND
from edge.database.connection import execute
from edge.errors import Conflict, Invalid
from edge.events import detection
from edge.events.delivery import Outcome, Result
from edge.events.family import Destination
from edge.readers import readers
from edge.rules import alerts, rules
from edge.rules.conditions import Condition
from edge.rules.engine import Engine
from edge.rules.outputs import forms, outputs
from edge.rules.outputs.worker import OutputsWorker
from edge.runtime.readiness import check_destinations
from tests.conftest import Cast
from tests.events.conftest import SILENCE
from tests.rules.conftest import Site

LAMP = {"form": "topic", "device": "hall/lamp", "on_payload": "on", "off_payload": "off", "seconds": "10"}


class Device:
    """The broker with all devices."""

    def __init__(self) -> None:
        self.commands: list[tuple[str, str]] = []
        self.connections = 1
        self.is_up = True
        self.fault: Outcome | None = None
        self.refused_topic = ""

    def send(self, topic: str, payload: str) -> Outcome:
        if self.fault:
            return self.fault
        if topic == self.refused_topic:
            return Outcome(Result.REFUSED, "not authorized")
        self.commands.append((topic, payload))
        return Outcome(Result.DELIVERED, "")

    def close(self) -> None:
        """Do nothing."""


class Stage(Site):
    """A warehouse with a lamp that a rule switches when an asset enters the north dock."""

    def __init__(self, cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(cast.acme)
        self.rival = shell(cast.rival)
        self.engine = Engine(ZoneInfo("UTC"))
        self.now = clock.now()
        monkeypatch.setattr(clock, "now", lambda: self.now)
        self.device = Device()
        self.worker = OutputsWorker(lambda: self.device)
        self.pallet = self.add_asset("1")
        self.seen(self.pallet, "south dock", 0)

    def add_lamp(self, **changes: str) -> Destination:
        entered = forms.checked({**LAMP, **changes})
        return outputs.add(self.actor, changes.get("name", "Lamp"), entered)

    def enter(self, ago: int = 1) -> None:
        """Move the pallet into the north dock and out again, some seconds ago. Takes two seconds."""
        self.now += 2 * SECOND
        at = (self.now - self.began) // SECOND
        self.seen(self.pallet, "north dock", at - ago)
        self.seen(self.pallet, "south dock", at)
        self.evaluate()

    def work(self, after: float = 0) -> list[str]:
        """Let the worker look, some seconds later. Returns the new commands."""
        self.now += int(after * SECOND)
        before = len(self.device.commands)
        self.worker.work_once()
        return [payload for _, payload in self.device.commands[before:]]


@pytest.fixture
def stage(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> Stage:
    made = Stage(cast, monkeypatch)
    detection.start(SILENCE)
    return made


def test_each_kind_of_device_gets_its_own_command() -> None:
    def command(form: str, device: str, **more: str) -> forms.Command:
        return forms.checked({"form": form, "device": device, "seconds": "10", **more}).command

    shelly = command("shelly", "shellyplus1-a1", relay="1")
    assert shelly.topic == "shellyplus1-a1/rpc"
    call = json.loads(shelly.on_payload)
    assert (call["method"], call["params"]) == ("Switch.Set", {"id": 1, "on": True, "toggle_after": 12})
    assert call["src"] == "shellyplus1-a1/edge", "the answer is published below the topic of the device"
    assert json.loads(shelly.off_payload)["params"] == {"id": 1, "on": False}
    assert command("shelly1", "shelly1-C45") == ("shellies/shelly1-C45/relay/0/command", "on", "off")
    assert command("tasmota", "horn") == ("cmnd/horn/POWER", "ON", "OFF")
    assert command("tasmota", "horn", relay="2").topic == "cmnd/horn/POWER2"
    assert command("zigbee2mqtt", "Lamp") == ("zigbee2mqtt/Lamp/set", '{"state":"ON"}', '{"state":"OFF"}')


@pytest.mark.parametrize(
    "topic", ["edge/ping/x", "edge/events/a", "Edge/doctor", "$SYS/x", "a/#", "a/+/b", "", "a//b", "a\nb"]
)
def test_topics_of_edge_and_of_no_device_are_refused(topic: str) -> None:
    with pytest.raises(Invalid) as refused:
        forms.checked({**LAMP, "device": topic})
    assert refused.value.fields[0].field == "device"


@pytest.mark.parametrize(
    ("field", "value"), [("seconds", "3601"), ("seconds", "-1"), ("relay", "99"), ("form", "x"), ("on_payload", "")]
)
def test_wrong_values_are_refused(field: str, value: str) -> None:
    with pytest.raises(Invalid) as refused:
        forms.checked({**LAMP, field: value})
    assert refused.value.fields[0].field == field


def test_readers_and_outputs_never_share_a_topic(stage: Stage) -> None:
    with pytest.raises(Conflict):
        stage.add_lamp(device="portal")  # of the reader of the warehouse
    lamp = stage.add_lamp()
    for topic in ("hall/lamp", "hall/#", "+/lamp"):
        with pytest.raises(Conflict):
            readers.add_reader(stage.actor, name="Spy", topic=topic, format="edge")
    with pytest.raises(Conflict):
        stage.add_lamp(name="Other")
    with pytest.raises(Conflict):
        outputs.add(stage.rival, "Lamp", forms.checked(LAMP))
    outputs.remove(stage.actor, lamp.no)
    with pytest.raises(Conflict):  # until the last command is sent
        readers.add_reader(stage.actor, name="Spy", topic="hall/#", format="edge")
    assert stage.work() == ["off"]
    readers.add_reader(stage.actor, name="Spy", topic="hall/#", format="edge")


def test_an_alert_switches_the_lamp_on_for_its_time(stage: Stage) -> None:
    lamp = stage.add_lamp()
    stage.add_rule(Condition.ENTERS, "north dock", outputs=str(lamp.no))
    assert stage.work() == ["off"], "after a start the state is unknown"
    assert stage.work() == []
    stage.enter()
    assert stage.work() == ["on"]
    assert outputs.get(stage.organization_id, lamp.no).is_on
    assert stage.work(9) == []
    stage.enter()
    assert stage.work(9) == [], "each alert begins the time again"
    assert stage.work(1) == ["off"]
    assert not outputs.get(stage.organization_id, lamp.no).is_on


def test_an_acknowledgement_switches_off_when_no_other_alert_is_open(stage: Stage) -> None:
    lamp = stage.add_lamp(seconds="0")
    stage.add_rule(Condition.ENTERS, "north dock", outputs=str(lamp.no))
    stage.work()
    stage.enter()
    stage.enter()
    assert stage.work() == ["on"]
    first, second = (one.no for one in stage.alerts())
    assert stage.work(3600) == []
    alerts.acknowledge(stage.actor, second, "")
    assert stage.work() == []
    alerts.acknowledge(stage.actor, first, "")
    assert stage.work() == ["off"]
    stage.enter()
    assert stage.work() == ["on"]
    assert stage.work(24 * 3600) == ["off"], "at most a day"


def test_a_crash_at_any_step_leaves_the_lamp_in_the_right_state(stage: Stage) -> None:
    lamp = stage.add_lamp()
    stage.add_rule(Condition.ENTERS, "north dock", outputs=str(lamp.no))
    stage.work()
    stage.enter()
    stage.worker = OutputsWorker(lambda: stage.device)  # killed after the alert, before the command
    assert stage.work(1) == ["on"]
    stage.worker = OutputsWorker(lambda: stage.device)  # killed after the command
    assert stage.work(1) == ["on"]
    stage.worker = OutputsWorker(lambda: stage.device)
    assert stage.work(60) == ["off"], "killed while it was on"
    execute("UPDATE destination SET is_on = 0")  # killed between the command and its record
    stage.worker = OutputsWorker(lambda: stage.device)
    assert stage.work() == ["off"]


def test_the_command_to_switch_off_is_tried_until_the_broker_takes_it(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("edge.rules.outputs.worker.RETRY_SECONDS", (0.0,))
    lamp = stage.add_lamp()
    stage.add_rule(Condition.ENTERS, "north dock", outputs=str(lamp.no))
    stage.work()
    stage.enter()
    assert stage.work() == ["on"]
    stage.device.fault = Outcome(Result.FAILED, "the broker cannot be reached")
    stage.device.is_up = False
    assert stage.work(30) == []
    row = outputs.get(stage.organization_id, lamp.no)
    assert (row.is_on, row.last_error) == (True, "the broker cannot be reached")
    assert stage.work(61) == []
    (trouble,) = outputs.troubles()
    assert trouble.startswith("Lamp has failed since ")
    assert trouble.endswith(": the broker cannot be reached")
    stage.device.fault, stage.device.is_up, stage.device.connections = None, True, 2
    assert stage.work() == ["off"]
    assert outputs.troubles() == []


def test_a_refused_output_does_not_delay_another_one(stage: Stage) -> None:
    lamp, horn = stage.add_lamp(), stage.add_lamp(name="Horn", device="hall/horn")
    stage.add_rule(Condition.ENTERS, "north dock", outputs=f"{lamp.no} {horn.no}")
    stage.device.refused_topic = "hall/lamp"
    assert stage.work() == ["off"]
    stage.enter()
    assert stage.work() == ["on"]


def test_changes_and_removal_switch_off_and_old_alerts_do_not_switch_on(stage: Stage) -> None:
    lamp = stage.add_lamp(seconds="0")
    no = stage.add_rule(Condition.ENTERS, "north dock", outputs=str(lamp.no))
    stage.work()
    stage.enter()
    assert stage.work() == ["on"]
    outputs.change(stage.actor, lamp.no, "Lamp", forms.checked({**LAMP, "device": "hall/new", "seconds": "0"}))
    stage.work()
    assert stage.device.commands[-2:] == [("hall/lamp", "off"), ("hall/new", "off")]
    stage.enter()
    assert stage.work() == ["on"]
    outputs.disable(stage.actor, lamp.no)
    assert stage.work() == ["off"]
    outputs.enable(stage.actor, lamp.no)
    assert stage.work() == []
    stage.enter()
    assert stage.work() == ["on"]
    rules.disable_rule(stage.actor, no)
    assert stage.work() == ["off"]
    rules.enable_rule(stage.actor, no)
    assert stage.work() == []
    outputs.remove(stage.actor, lamp.no)
    stage.worker = OutputsWorker(lambda: stage.device)
    assert stage.work() == ["off"], "also after a crash"
    assert not outputs.is_needed()


@pytest.mark.parametrize("is_refused_first", [False, True])
def test_a_last_command_does_not_switch_off_a_new_output(stage: Stage, *, is_refused_first: bool) -> None:
    outputs.remove(stage.actor, stage.add_lamp().no)
    lamp = stage.add_lamp()
    stage.add_rule(Condition.ENTERS, "north dock", outputs=str(lamp.no))
    stage.enter()
    if is_refused_first:
        stage.device.refused_topic = "hall/lamp"
        assert stage.work() == []
        stage.device.refused_topic = ""
        stage.worker = OutputsWorker(lambda: stage.device)
    assert stage.work() == ["off", "on"]
    assert stage.work() == []


def test_a_test_switches_on_for_three_seconds(stage: Stage) -> None:
    lamp = stage.add_lamp()
    stage.work()
    outputs.request_test(stage.actor, lamp.no)
    assert stage.work() == ["on"]
    assert stage.work(3) == ["off"]
    outputs.disable(stage.actor, lamp.no)
    with pytest.raises(Conflict):
        outputs.request_test(stage.actor, lamp.no)


def test_a_horn_is_silent_for_what_happened_long_ago_and_a_lamp_is_not(stage: Stage) -> None:
    horn, lamp = stage.add_lamp(name="Horn"), stage.add_lamp(device="hall/2", seconds="0")
    stage.add_rule(Condition.ENTERS, "north dock", outputs=f"{horn.no} {lamp.no}")
    stage.work()
    stage.enter(ago=600)  # reads that arrive late
    stage.work()
    assert stage.device.commands[2:] == [("hall/2", "on")]


def test_a_clock_that_is_set_back_does_not_leave_the_lamp_on(stage: Stage) -> None:
    lamp = stage.add_lamp()
    stage.add_rule(Condition.ENTERS, "north dock", outputs=str(lamp.no))
    stage.work()
    stage.enter()
    assert stage.work() == ["on"]
    stage.now -= HOUR
    assert stage.work() == ["off"]


def test_the_end_of_the_service_switches_off(stage: Stage) -> None:
    lamp = stage.add_lamp()
    stage.add_rule(Condition.ENTERS, "north dock", outputs=str(lamp.no))
    stage.work()
    stage.enter()
    stage.worker.start_if_needed()
    stage.worker.stop()
    assert stage.device.commands[-1] == ("hall/lamp", "off")


def test_a_reader_may_use_the_topic_of_the_last_output_that_was_removed(stage: Stage) -> None:
    lamp = stage.add_lamp()
    stage.work()
    assert stage.worker.is_topic("hall/lamp")
    outputs.remove(stage.actor, lamp.no)
    stage.work()
    stage.worker._run()  # it is not needed any more
    assert not stage.worker.is_topic("hall/lamp")


def test_on_a_shared_box_a_check_names_no_output(stage: Stage, cast: Cast) -> None:
    lamp = stage.add_lamp()
    outputs.record_failure(lamp.id, "not authorized", stage.now - 2 * outputs.KIND.trouble_after)
    shared = check_destinations("outputs", stage.worker)
    assert (shared.ok, "Lamp" in shared.detail) == (False, False)
    execute("DELETE FROM audit WHERE organization_id = ?", (cast.rival,))
    execute("DELETE FROM organization WHERE id = ?", (cast.rival,))
    assert check_destinations("outputs", stage.worker).detail.endswith(": not authorized")


@pytest.mark.parametrize(("form", "commands"), [("shelly", 1), ("shelly1", 0)])
def test_a_further_alert_sets_the_timer_of_a_device_again(stage: Stage, form: str, commands: int) -> None:
    lamp = stage.add_lamp(form=form, device="shelly-1")
    stage.add_rule(Condition.ENTERS, "north dock", outputs=str(lamp.no))
    stage.work()
    stage.enter()
    assert len(stage.work()) == 1
    assert stage.work(4) == []
    stage.enter()
    assert len(stage.work()) == commands
    assert stage.work(9) == []
    assert stage.work(1) == [lamp.settings["off_payload"]]


def test_a_flood_of_alerts_sends_one_command(stage: Stage) -> None:
    lamp = stage.add_lamp()
    stage.add_rule(Condition.ENTERS, "north dock", outputs=str(lamp.no))
    stage.work()
    for _ in range(20):
        stage.enter()
    assert stage.work() == ["on"]


def test_a_rule_names_outputs_of_its_organization_only(stage: Stage) -> None:
    lamp = stage.add_lamp()
    foreign = outputs.add(stage.rival, "Lamp", forms.checked({**LAMP, "device": "rival/lamp"}))
    stage.add_rule(Condition.ENTERS, "north dock", outputs=str(lamp.no))
    with pytest.raises(Invalid):
        stage.add_rule(Condition.LEAVES, "north dock", outputs=str(foreign.no))


def test_two_relays_of_a_shelly_are_two_outputs(stage: Stage) -> None:
    shelly = {"form": "shelly", "device": "shellypro2-1", "seconds": "10"}
    first = stage.add_lamp(name="Lamp", relay="0", **shelly)
    second = stage.add_lamp(name="Horn", relay="1", **shelly)
    assert first.topic == second.topic
    with pytest.raises(Conflict, match="Horn uses relay 1"):
        stage.add_lamp(name="Siren", relay="1", **shelly)
    with pytest.raises(Conflict, match="Another output uses the topic"):
        stage.add_lamp(name="Siren", device=first.topic)
    stage.worker.work_once()
    outputs.request_test(stage.actor, second.no)
    stage.device.commands.clear()
    stage.worker.work_once()
    ((topic, payload),) = stage.device.commands
    assert (topic, json.loads(payload)["params"]["id"]) == (first.topic, 1)
    for row in (first, second):  # the last command of one must not replace that of the other
        outputs.remove(stage.actor, row.no)
    stage.device.commands.clear()
    stage.worker.work_once()
    assert sorted(json.loads(payload)["params"]["id"] for _, payload in stage.device.commands) == [0, 1]
