"""Plan of the demo site, read from `data/demo`: locations, readers, and the simulated items."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from edge.demo import identities
from edge.demo.identities import Beacon


class PlannedLocation(NamedTuple):
    """A location to create."""

    key: str
    name: str
    parent: str | None
    description: str | None


class Reader(NamedTuple):
    """`antennas` read RFID, each at its location. `location` is where the reader's BLE radio reads.

    A reader without a `device` is not simulated.
    """

    name: str
    format: str
    topic: str
    device: str
    repeat_seconds: int
    min_rssi: float | None
    location: str | None
    antennas: Mapping[int, str]


class Stop(NamedTuple):
    """A step of a route: at one of these locations, or off site if empty, for a time in this range."""

    at: Sequence[str]
    seconds: tuple[float, float]


class Item(NamedTuple):
    """A simulated item with tags. An item without a key is not registered as an asset."""

    key: str | None
    name: str
    metadata: Mapping[str, Any]
    route: Sequence[Stop]
    epc: str | None
    mac: str | None
    beacon: Beacon | None
    barcode: str | None


class Plan(NamedTuple):
    locations: Sequence[PlannedLocation]
    readers: Sequence[Reader]
    items: Sequence[Item]

    @property
    def simulated(self) -> list[Reader]:
        return [reader for reader in self.readers if reader.device]


def demo_folder() -> Path:
    """Return the data folder: in the package if installed, next to it in a checkout."""
    package = Path(__file__).resolve().parent.parent
    installed = package / "data" / "demo"
    return installed if installed.is_dir() else package.parent / "data" / "demo"


def read_plan(folder: Path) -> Plan:
    assets = _toml(folder / "assets.toml")
    return Plan(
        [
            PlannedLocation(entry["key"], entry["name"], entry.get("parent"), entry.get("description"))
            for entry in _toml(folder / "locations.toml")["locations"]
        ],
        [_reader(entry) for entry in _toml(folder / "readers.toml")["readers"]],
        list(_items(assets["company_prefix"], assets["beacon_uuid"], assets["kinds"])),
    )


def _toml(file: Path) -> dict[str, Any]:
    return tomllib.loads(file.read_text("utf-8"))


def _reader(entry: Mapping[str, Any]) -> Reader:
    return Reader(
        entry["name"],
        entry["format"],
        entry["topic"],
        entry.get("device", ""),
        entry.get("repeat_seconds", 0),
        entry.get("min_rssi"),
        entry.get("location"),
        {int(port): key for port, key in entry.get("antennas", {}).items()},
    )


def _items(prefix: str, beacon_uuid: str, kinds: Sequence[Mapping[str, Any]]) -> Iterator[Item]:
    mac_serial = 0
    for major, kind in enumerate(kinds, start=10):
        route = [Stop(stop["at"], tuple(stop["seconds"])) for stop in kind["route"]]
        width = len(str(kind["count"]))
        for number in range(1, kind["count"] + 1):
            mac_serial += 1
            key = f"{kind['key']}-{number:03d}" if "key" in kind else None
            ble = kind["tags"].get("ble")
            yield Item(
                key,
                f"{kind['name']} {number:0{width}d}",
                kind.get("metadata", {}),
                route,
                _epc(kind, prefix, number),
                ble and (identities.private_mac if ble == "random" else identities.static_mac)(mac_serial),
                Beacon(beacon_uuid, major, number) if ble == "ibeacon" else None,
                _barcode(kind, prefix, number, key),
            )


def _epc(kind: Mapping[str, Any], prefix: str, number: int) -> str | None:
    match kind["tags"].get("rfid"):
        case "grai":
            return identities.grai_epc(prefix, kind["reference"], number)
        case "sgtin":
            return identities.sgtin_epc(prefix, kind["reference"], number)
        case "giai":
            return identities.giai_epc(prefix, kind["reference"] * 1000 + number)
        case "chip":
            return identities.chip_epc(number)
    return None


def _barcode(kind: Mapping[str, Any], prefix: str, number: int, key: str | None) -> str | None:
    match kind["tags"].get("barcode"):
        case "grai":
            return identities.grai_barcode(prefix, kind["reference"], number)
        case "giai":
            return identities.giai_barcode(prefix, kind["reference"] * 1000 + number)
        case "plain":
            return key
    return None
