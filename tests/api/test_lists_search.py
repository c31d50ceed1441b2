"""Lists: `q` (interface: Keys and filters)."""

from __future__ import annotations

import pytest

from tests.api.conftest import Api, data
from tests.api.test_lists import BOTH, keys


@BOTH
@pytest.mark.parametrize(
    ("q", "expected"),
    [
        ("", ["A-1", "B-2", "C-3", "D-4"]),
        ("pallet", ["A-1"]),
        ("PALLET", ["A-1"]),
        ("a-1", ["A-1"]),
        ("-", ["A-1", "B-2", "C-3", "D-4"]),
        ("ll", ["A-1"]),
        ("grün", ["B-2"]),
        ("GRÜN", ["B-2"]),
        ("STRASSE", ["B-2"]),
        ("straße", ["B-2"]),
        ("100%", ["C-3"]),
        ("_x", ["C-3"]),
        ("%", ["C-3"]),
        ("e200", ["D-4"]),
        ("0abc", ["D-4"]),
        ("中文", ["D-4"]),
        ("文", ["D-4"]),
        ("\U0001f4e6", ["D-4"]),
        ('"', ["D-4"]),
        ("a two", []),
        ("two lines", ["A-1"]),
        (" lines", ["A-1"]),
        ("lines ", []),
        ("a-1pallet", []),
        ("nothing like this", []),
        ("pallet OR grün", []),
    ],
)
def test_q_is_a_substring_of_a_name_key_description_or_live_tag(
    acme: Api, path: str, q: str, expected: list[str]
) -> None:
    """interface: Keys and filters"""
    acme.make(path, external_key="A-1", name="Pallet", description="two lines")
    acme.make(path, external_key="B-2", name="Grün, Straße")
    acme.make(path, external_key="C-3", name="100% _x")
    tags = [{"tag_type": "rfid", "value": "E200ABC"}, {"tag_type": "ble", "value": '中文 " \U0001f4e6'}]
    acme.make(path, external_key="D-4", tags=tags)
    assert keys(acme, path, q=q) == expected


@BOTH
def test_q_follows_every_change(acme: Api, path: str) -> None:
    """interface: Lists"""
    made = acme.make(path, name="first")
    one = f"{path}/{made['id']}"
    acme.patch(one, {"name": "second", "description": "described"})
    acme.post(f"{one}/rename", {"external_key": "RENAMED"})
    tag = data(acme.post(f"{one}/tags", {"tag_type": "rfid", "value": "TAGGED"}))
    assert [len(keys(acme, path, q=q)) for q in ("first", "second", "describe", "renam", "tagged")] == [0, 1, 1, 1, 1]
    acme.delete(f"{one}/tags/{tag['id']}")
    assert keys(acme, path, q="tagged") == []
    acme.patch(one, {"description": None})
    assert keys(acme, path, q="describe") == []
    acme.delete(one)
    assert keys(acme, path, q="second") == []
    assert keys(acme, path, q="second", include_deleted="true") == ["RENAMED"]


@BOTH
def test_q_narrows_the_other_filters_and_its_pages(acme: Api, path: str) -> None:
    for number in range(5):
        acme.make(path, name=f"drum {number}", is_active=number % 2 == 0)
    answer = acme.get(path, q="drum", is_active="true", limit=2, offset=1, sort="-name").json or {}
    assert ([row["name"] for row in answer["data"]], answer["total_count"]) == (["drum 2", "drum 0"], 3)
