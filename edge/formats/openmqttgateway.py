"""OpenMQTTGateway and Theengs gateway: one device per message, without a time.

Messages without `rssi` are not reads: absent tags, command responses, sensor values.
"""

from __future__ import annotations

from edge.formats import ble
from edge.formats.fields import Fields, first
from edge.formats.framing import IGNORED, OFFLINE, STATUS, bare, each, single
from edge.formats.reads import Parsed, PartialRead, Read
from edge.formats.sensor_values import of_numbers

_WILL = {b"online": STATUS, b"offline": OFFLINE}
_NO_SCANS = frozenset(("SYStoMQTT", "undecoded", "commands"))


def parse(topic: str, payload: bytes) -> Parsed:
    levels = topic.split("/")
    if not _NO_SCANS.isdisjoint(levels):
        return IGNORED
    if levels[-1] == "LWT" and (state := _WILL.get(bare(payload).lower())):
        return state
    return each(payload, _message)


def is_typical(topic: str, device: Fields) -> bool:
    """Return True if only these gateways send such messages. For recognizing the format only."""
    typical = ("mac_type", "mfid", "model_id", "servicedatauuid")
    return "id" in device and ("BTtoMQTT" in topic.split("/") or not device.keys().isdisjoint(typical))


def _message(device: Fields) -> Parsed:
    if type(device.get("id")) not in (str, int):
        return IGNORED
    return STATUS if first(device, "rssi") is None else single(device, _read)


def _read(device: Fields) -> Read | PartialRead:
    """Parse a device. `id` is the MAC, or depending on a setting the iBeacon's UUID, with the MAC in `mac`."""
    name = str(device["id"])
    address = first(device, "mac") or ble.mac(name)
    decoded = ble.ibeacon(first(device, "uuid") or name, device.get("major"), device.get("minor"))
    raw = ble.of_manufacturer_data(device.get("manufacturerdata"))
    frame = ble.of_service_data(device.get("servicedatauuid"), device.get("servicedata"))
    sensors = of_numbers(device.get("batt"), device.get("volt"), device.get("tempc")) or ble.sensors_of_service(
        device.get("servicedatauuid"), device.get("servicedata")
    )
    return ble.sighting(address, tuple(dict.fromkeys(decoded + raw + frame)), device["rssi"], None, sensors)
