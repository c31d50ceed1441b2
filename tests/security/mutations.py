"""Mutated messages: samples of every format, changed in their bytes or their structure."""

from __future__ import annotations

import random
from typing import Any

import msgspec

from edge.formats.registry import FORMATS
from tests.formats.reader_samples import SAMPLES

_ODD_TEXTS = (
    "",
    "\x00",
    "\x1b[2J",
    "\u202e",
    "0" * 5_000,
    "٣",
    "Ω" * 300,
    "%s",
    "'; --",
    "../..",
    "NaN",
    "1e999",
    "-0",
)
_ODD_VALUES: tuple[Any, ...] = (
    *(None, True, 0, -1, 2**31, 2**53, 2**63 - 1, -(2**63), 1e308, -1e-308, 0.1),
    *([], {}, [[]], [{}], {"": ""}, *_ODD_TEXTS),
)
_ODD_BYTES = (
    *(b"\x00", b"\xff\xfe", b"\xed\xa0\x80", b"\xf0\x9f\x92", b"\r\n", b"\t", b"1e999", b"-", b"NaN", b"\\ud800"),
    *(b"[" * 2_000, b'{"a":' * 500, b"9" * 5_000, b'"', b"}", b"]", b",", b":", b"\x81\xa1", b"\xdf\xff\xff\xff\xff"),
)
_DEEPEST = 60
_LONGEST = 20_000


MAPPING = {
    "list_path": "reads",
    "tag_path": "EPC",
    "tag_prefix": "urn:",
    "epc_strip": ["pc", "crc"],
    "rssi_path": "rssi",
    "antenna_path": "ant",
    "time_path": "ts",
    "time_unit": "ms",
}
MAPPED = {"reads": [{"EPC": "urn:30003074257BF7194E4000001A85ABCD", "ant": 2, "rssi": "-58 dBm", "ts": 1772439330412}]}


def messages_of(name: str) -> list[Any]:
    """Return the values of a payload; for formats other than JSON, a similar structure."""
    if name == "mapping":
        return [MAPPED]
    if name in SAMPLES:
        return [SAMPLES[name].message, SAMPLES[name].bare]
    return [{"v": "1.3.8", "mid": 1, "time": 1, "ip": "10.0.0.1", "mac": "C30A114E7F21", "devices": [b"\x00" * 20]}]


class Mutator:
    """Mutated messages, the same for the same seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._names = [*sorted(FORMATS), "mapping"]
        self._seeds = {name: messages_of(name) for name in self._names}
        self._lines = [b"$GPRP,C30A114E7F21,D4226B905C3E,-58,0201061AFF4C000215,1772439330\r\n"]

    def message(self) -> tuple[str, bytes]:
        """Return (format of the sending reader, payload)."""
        name = self._random.choice(self._names)
        origin = name if self._random.random() < 0.9 else self._random.choice(self._names)
        value = self._random.choice(self._seeds[origin])
        if self._random.random() < 0.6:
            value = self._changed(value, 0)
        payload = self._encoded(value)
        for _ in range(self._random.choice((0, 0, 1, 1, 2, 5))):
            payload = self._damaged(payload)
        return name, payload[:_LONGEST]

    def _encoded(self, value: Any) -> bytes:
        kind = self._random.random()
        if kind < 0.1:
            return msgspec.msgpack.encode(value, enc_hook=str)
        if kind < 0.15:
            return self._random.choice(self._lines)
        return msgspec.json.encode(value, enc_hook=lambda _: "")

    def _changed(self, value: Any, depth: int) -> Any:
        """Replace, remove or repeat one value at a random place."""
        choose = self._random
        if depth > _DEEPEST or choose.random() < 0.15 or not isinstance(value, dict | list) or not value:
            return choose.choice((choose.choice(_ODD_VALUES), [value] * choose.choice((2, 50)), {"x": value}))
        if isinstance(value, list):
            at = choose.randrange(len(value))
            return [*value[:at], self._changed(value[at], depth + 1), *value[at + 1 :]]
        key = choose.choice(list(value))
        rest = {name: one for name, one in value.items() if name != key}
        if choose.random() < 0.1:
            return rest
        return rest | {key if choose.random() < 0.95 else key.upper(): self._changed(value[key], depth + 1)}

    def _damaged(self, payload: bytes) -> bytes:
        choose = self._random
        at = choose.randrange(len(payload) + 1)
        match choose.randrange(6):
            case 0:
                return payload[:at]
            case 1:
                return payload[:at] + choose.choice(_ODD_BYTES) + payload[at:]
            case 2:
                return payload[:at] + bytes([choose.randrange(256)]) + payload[at + 1 :]
            case 3:
                return payload[:at] + payload[at + choose.randrange(1, 9) :]
            case 4:
                return payload[at:] + payload[:at]
            case _:
                return payload + payload[at:]
