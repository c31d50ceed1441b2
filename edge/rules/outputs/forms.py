"""Commands of devices: topic and payloads of Shelly, Tasmota and Zigbee2MQTT devices, or free ones."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

from edge.errors import Invalid
from edge.events.validation import invalid, whole_number
from edge.texts import N_, fill
from edge.validation import json_text
from edge.validation.topics import check_plain

MOST_RELAYS = 32
MOST_PAYLOAD = 500  # characters
MOST_TOPIC = 250
MOST_SECONDS = 3600
LONGEST_ON = 24 * 3600  # s, until the alert is acknowledged
OWN_PREFIX = "edge"


class Form(StrEnum):
    SHELLY = "shelly"  # generation 2 and later
    SHELLY_1 = "shelly1"
    TASMOTA = "tasmota"
    ZIGBEE2MQTT = "zigbee2mqtt"
    TOPIC = "topic"


WITH_RELAYS = (Form.SHELLY, Form.SHELLY_1, Form.TASMOTA)


class Command(NamedTuple):
    """Where to publish what. An empty `off_payload` means that the device switches off by itself."""

    topic: str
    on_payload: str
    off_payload: str


class Entered(NamedTuple):
    """The checked fields of a form."""

    form: Form
    device: str
    relay: int
    command: Command
    seconds: int


def checked(entered: Mapping[str, str]) -> Entered:
    """Return the settings of an output. Raises Invalid, by field."""
    if entered.get("form", "") not in list(Form):
        raise invalid("form", N_("choose one from the list"))
    form = Form(entered["form"])
    device = entered.get("device", "").strip()
    relay = _number("relay", entered.get("relay", ""), 0, MOST_RELAYS)
    relay = relay if form in WITH_RELAYS else 0
    seconds = _number("seconds", entered.get("seconds", ""), 0, MOST_SECONDS)
    if form is Form.TOPIC:
        payloads = [entered.get(name, "").replace("\r\n", "\n") for name in ("on_payload", "off_payload")]
        for name, payload in zip(("on_payload", "off_payload"), payloads, strict=True):
            if len(payload) > MOST_PAYLOAD:
                raise invalid(name, fill(N_("enter at most %(most)s characters"), most=MOST_PAYLOAD))
        if not payloads[0]:
            raise invalid("on_payload", N_("enter the message that switches the device on"))
        command = Command(device, *payloads)
    else:
        command = _command(form, device, relay, seconds)
    _check_topic(device, command.topic)
    return Entered(form, device, relay, command, seconds)


def _command(form: Form, device: str, relay: int, seconds: int) -> Command:
    """Return the command of a device with this name or topic prefix."""
    if form is Form.SHELLY:
        return Command(f"{device}/rpc", *(_shelly(device, relay, seconds, is_on=is_on) for is_on in (True, False)))
    if form is Form.SHELLY_1:
        return Command(f"shellies/{device}/relay/{relay}/command", "on", "off")
    if form is Form.TASMOTA:
        return Command(f"cmnd/{device}/POWER{relay or ''}", "ON", "OFF")
    return Command(f"zigbee2mqtt/{device}/set", '{"state":"ON"}', '{"state":"OFF"}')


def _shelly(device: str, relay: int, seconds: int, *, is_on: bool) -> str:
    """Return a call of a Shelly, which switches itself off in time even if edge or the broker fails."""
    parameters: dict[str, object] = {"id": relay, "on": is_on}
    if is_on:
        parameters["toggle_after"] = (seconds or LONGEST_ON) + 2
    return json_text.text({"id": 1, "src": f"{device}/edge", "method": "Switch.Set", "params": parameters})


def _check_topic(device: str, topic: str) -> None:
    if not device or device != device.strip() or len(topic) > MOST_TOPIC:
        text = N_("enter the name of the device or its topic, at most %(most)s characters")
        raise invalid("device", fill(text, most=MOST_TOPIC))
    try:
        check_plain(topic)
    except Invalid as error:
        raise invalid("device", error.fields[0].message) from error
    if topic.split("/")[0].casefold() == OWN_PREFIX:
        text = N_("topics below %(prefix)s/ belong to this program; choose another one")
        raise invalid("device", fill(text, prefix=OWN_PREFIX))


def _number(field: str, text: str, least: int, most: int) -> int:
    advice = fill(N_("enter %(least)s to %(most)s"), least=least, most=most)
    return whole_number(field, text.strip() or "0", least, most, advice)
