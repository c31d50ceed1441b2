"""Payload shapes of vendors are read completely by a mapping: tag, antenna, signal strength, time and sensor values."""

from __future__ import annotations

import pytest

from edge.formats.mapping import parser_for
from edge.formats.mapping_settings import mapping_from
from edge.formats.reads import Malformed, Read, WallTime
from edge.formats.tag_values import value
from tests.formats.vendor_shapes import SHAPES, Shape

UNREAD = {"Sparkplug B, Protobuf"}  # it would need a schema and another library


def shown(read: Read) -> tuple[object, ...]:
    time = -read.observed_at.micros if isinstance(read.observed_at, WallTime) else read.observed_at
    sensors = read.sensors
    return (
        *(read.value, read.antenna_name or read.antenna, read.rssi, time),
        *((sensors.battery, sensors.temperature) if sensors else (None, None)),
    )


@pytest.mark.parametrize("shape", [shape for shape in SHAPES if shape.name not in UNREAD], ids=lambda shape: shape.name)
def test_a_shape_is_read_completely(shape: Shape) -> None:
    parsed = parser_for(mapping_from(shape.mapping))(shape.topic, shape.payload)
    assert len(parsed.reads) == 1, parsed
    tag = value("ble", shape.expected[0]) if "tag_type" in shape.mapping else shape.expected[0]
    assert shown(parsed.reads[0]) == (tag, *shape.expected[1:], *[None] * (6 - len(shape.expected)))
    assert not any(count.unreadable for count in parsed.fields.values())


@pytest.mark.parametrize("shape", [shape for shape in SHAPES if shape.name in UNREAD], ids=lambda shape: shape.name)
def test_binary_formats_of_their_own_are_refused(shape: Shape) -> None:
    with pytest.raises(Malformed):
        parser_for(mapping_from(shape.mapping))(shape.topic, shape.payload)


def test_forty_nine_of_fifty() -> None:
    assert (len(SHAPES), len({shape.name for shape in SHAPES}), len(UNREAD)) == (50, 50, 1)
