"""Optional fields of the built-in formats: an unreadable one is left out, as with mappings, and its read is kept."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from edge.formats import fields
from edge.formats.fields import Unreadable
from edge.formats.reads import UNREADABLE_ANTENNA, PartialRead, Read, WallTime
from edge.formats.sensor_values import SensorValues

Parameters = ParamSpec("Parameters")
Value = TypeVar("Value")


class LeftOut(str):
    """Reason why a field is left out, in place of its value."""

    __slots__ = ()


def optional(read: Callable[Parameters, Value]) -> Callable[Parameters, Value | LeftOut]:
    """Wrap a function that reads a field: for an unreadable field it returns the reason."""

    @wraps(read)
    def read_or_reason(*args: Parameters.args, **more: Parameters.kwargs) -> Value | LeftOut:
        try:
            return read(*args, **more)
        except Unreadable as reason:
            return LeftOut(reason)

    return read_or_reason


antenna, instant, rssi = optional(fields.antenna), optional(fields.instant), optional(fields.rssi)
port_or_name = optional(fields.port_or_name)


def read_of(
    tag_type: str,
    value: str,
    aliases: tuple[str, ...] = (),
    antenna: int | LeftOut | None = None,
    rssi: float | LeftOut | None = None,
    observed_at: int | WallTime | LeftOut | None = None,
    antenna_name: str | None = None,
    sensors: SensorValues | None = None,
) -> Read | PartialRead:
    """Return a read with the optional fields that were readable."""
    if not (isinstance(antenna, LeftOut) or isinstance(rssi, LeftOut) or isinstance(observed_at, LeftOut)):
        return Read(tag_type, value, aliases, antenna, rssi, observed_at, antenna_name, sensors)
    reasons = [field for field in (antenna, rssi, observed_at) if isinstance(field, LeftOut)]
    port = UNREADABLE_ANTENNA if isinstance(antenna, LeftOut) else antenna
    strength = None if isinstance(rssi, LeftOut) else rssi
    time = None if isinstance(observed_at, LeftOut) else observed_at
    return PartialRead(Read(tag_type, value, aliases, port, strength, time, antenna_name, sensors), reasons[0])
