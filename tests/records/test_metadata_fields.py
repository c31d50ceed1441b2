"""Metadata as fields: what people read and change, and what stays as the client wrote it."""

from __future__ import annotations

import json

import pytest

from edge.audit.actors import shell
from edge.errors import Invalid
from edge.records import assets, metadata_fields
from edge.records.assets import AssetRow
from edge.records.metadata_fields import Kind
from tests.conftest import Cast

METADATA = (
    '{"size_mm":[800,720,1700],"year":2026,"rate":1.50,"big":12345678901234567890123,"in_use":true,"maker":"Wanzl",'
    '"marks":["red","left"],"note":"a\\nb","nothing":null,"empty":"","by":{"name":"Ada","max_load_kg":500,"x":[{"y":1}]},'
    '"mixed":[1,"a"],"flags":[true]}'
)


@pytest.fixture
def asset(cast: Cast) -> AssetRow:
    return assets.create(shell(cast.acme), name="Cage", metadata=METADATA)


def test_values_are_shown_with_units_and_without_brackets() -> None:
    assert metadata_fields.shown(METADATA, ("yes", "no")) == [
        ("size_mm", "Size", "800 × 720 × 1700 mm"),
        ("year", "Year", "2026"),
        ("rate", "Rate", "1.50"),
        ("big", "Big", "12345678901234567890123"),
        ("in_use", "In use", "yes"),
        ("maker", "Maker", "Wanzl"),
        ("marks", "Marks", "red, left"),
        ("note", "Note", "a\nb"),
        ("nothing", "Nothing", "–"),
        ("empty", "Empty", "–"),
        ("by", "By", "Name: Ada\nMax load: 500 kg\nX: Y: 1"),
        ("mixed", "Mixed", "1, a"),
        ("flags", "Flags", "yes"),
    ]


def test_names_of_clients_are_readable() -> None:
    names = ["maxLoad", "_", "m", "vin-number", "temperature_c", "size_mm"]
    labels = ["MaxLoad", "_", "M", "Vin number", "Temperature", "Size"]
    assert [metadata_fields.label(name) for name in names] == labels
    assert [metadata_fields.unit(name) for name in names] == ["", "", "", "", "°C", "mm"]


def test_what_has_no_field_cannot_be_changed() -> None:
    kinds = {field.name: field.kind for field in metadata_fields.fields(METADATA)}
    assert kinds == {
        "size_mm": Kind.NUMBERS,
        "year": Kind.NUMBER,
        "rate": Kind.NUMBER,
        "big": Kind.NUMBER,
        "in_use": Kind.YES_NO,
        "maker": Kind.TEXT,
        "marks": Kind.LIST,
        "note": Kind.LINES,
        "empty": Kind.TEXT,
    }
    assert not metadata_fields.fields(json.dumps({"long": "x" * 2001, "tab": "a\tb", "edge": " a"}))


def test_values_keep_their_types_and_others_their_spelling(asset: AssetRow) -> None:
    entered = {"size_mm": "800\n 720 \n\n1500", "in_use": "false", "rate": "2", "maker": "12", "by": "gone", "new": "1"}
    changed = metadata_fields.change(asset, entered)
    assert changed == (
        METADATA.replace("800,720,1700", "800,720,1500")
        .replace('"in_use":true', '"in_use":false')
        .replace("1.50", "2")
        .replace('"Wanzl"', '"12"')
    )


def test_equal_values_change_nothing(asset: AssetRow) -> None:
    present = {field.name: field.value for field in metadata_fields.fields(METADATA)}
    assert metadata_fields.change(asset, present) is None
    assert metadata_fields.change(asset, {}) is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("year", value) for value in ("", "x", "1.5", '"1"', "[1]", "true", "1e400", "NaN")),
        *(("rate", "1,5"), ("rate", "1e400"), ("size_mm", "1\nx"), ("size_mm", "1.5"), ("marks", "a\n" * 51)),
        ("maker", "x" * 2001),
    ],
)
def test_other_types_are_refused(asset: AssetRow, name: str, value: str) -> None:
    with pytest.raises(Invalid) as raised:
        metadata_fields.change(asset, {name: value})
    assert raised.value.fields[0].field == f"metadata.{name}"
