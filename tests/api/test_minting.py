"""Generated external keys (interface: Auto-mint)."""

from __future__ import annotations

import re

import pytest

from edge.database.connection import execute
from edge.records import external_keys
from tests.api.conftest import Api, codes, data

BOTH = pytest.mark.parametrize(
    ("path", "prefix", "width"), [("/assets", "ASSET-", 4), ("/locations", "LOC-", 3)], ids=["assets", "locations"]
)


def mint(api: Api, path: str) -> str:
    key: str = api.make(path)["external_key"]
    return key


def delete(api: Api, path: str, key: str) -> None:
    (row,) = data(api.get(path, external_key=key))
    assert api.delete(f"{path}/{row['id']}").status_code == 204


@BOTH
def test_minted_keys_follow_the_highest_live_number(acme: Api, path: str, prefix: str, width: int) -> None:
    """interface: Auto-mint 1, 2, 3"""
    first, second, third, fourth = (f"{prefix}{number:0{width}d}" for number in (1, 2, 3, 4))
    assert [mint(acme, path) for _ in range(3)] == [first, second, third]
    delete(acme, path, second)
    assert mint(acme, path) == fourth, "a gap in the middle stays"
    delete(acme, path, fourth)
    assert mint(acme, path) == fourth, "the highest number is given out again"


@BOTH
def test_a_minted_key_grows_past_its_padding(acme: Api, path: str, prefix: str, width: int) -> None:
    """interface: Auto-mint 2"""
    acme.make(path, external_key=prefix + "9" * width)
    assert mint(acme, path) == f"{prefix}1{'0' * width}"
    assert re.fullmatch(rf"{prefix}[0-9]{{{width},}}", mint(acme, path))


def test_assets_and_locations_and_organizations_count_by_themselves(acme: Api, rival: Api) -> None:
    """interface: Auto-mint 2; Service 5"""
    acme.make("/assets", external_key="LOC-500")
    acme.make("/locations", external_key="ASSET-5000")
    for api in (acme, rival):
        assert (mint(api, "/assets"), mint(api, "/locations")) == ("ASSET-0001", "LOC-001")


@BOTH
def test_only_live_keys_of_the_generated_form_count(acme: Api, path: str, prefix: str, width: int) -> None:
    """interface: Auto-mint 3"""
    short, word = "9" * (width - 1), prefix.lower()
    for key in (
        f"{prefix}{short}",
        f"{word}5000",
        f"X{prefix}5000",
        f"{prefix}5000-1",
        f"{prefix}5000A",
        f"{prefix}-5000",
    ):
        acme.make(path, external_key=key)
    gone = acme.make(path, external_key=f"{prefix}7000")
    acme.delete(f"{path}/{gone['id']}")
    assert mint(acme, path) == f"{prefix}{1:0{width}d}"
    acme.make(path, external_key=f"{prefix}00012")
    assert mint(acme, path) == f"{prefix}{13:0{width}d}", "more padding than needed is the minted form, too"


@BOTH
def test_a_rename_counts_like_a_create(acme: Api, path: str, prefix: str, width: int) -> None:
    """interface: Auto-mint 3"""
    made = acme.make(path)
    acme.post(f"{path}/{made['id']}/rename", {"external_key": f"{prefix}7000"})
    assert mint(acme, path) == f"{prefix}7001"
    acme.post(f"{path}/{made['id']}/rename", {"external_key": "OTHER"})
    delete(acme, path, f"{prefix}7001")
    assert mint(acme, path) == f"{prefix}{1:0{width}d}"


@BOTH
def test_a_number_of_more_than_18_digits_is_not_counted(acme: Api, path: str, prefix: str, width: int) -> None:
    """interface: Keys and filters"""
    acme.make(path, external_key=prefix + "9" * 19)
    assert mint(acme, path) == f"{prefix}{1:0{width}d}"
    acme.make(path, external_key=prefix + "9" * 18)
    beyond = [mint(acme, path), mint(acme, path)]
    assert beyond == [f"{prefix}1{'0' * 18}", f"{prefix}1{'0' * 17}1"]


@BOTH
def test_a_key_in_the_request_is_never_replaced(acme: Api, path: str, prefix: str, width: int) -> None:
    """interface: Auto-mint 4"""
    for text in ("", " ", "\t\n", "\u2003"):
        assert codes(acme.post(path, {"name": "x", "external_key": text})) == [("external_key", "too_short")]
    assert codes(acme.post(path, {"name": "x", "external_key": None})) == [("external_key", "invalid_value")]
    assert data(acme.get(path)) == []


@BOTH
def test_a_key_after_18_nines_takes_no_longer_for_each_one_before(
    acme: Api, monkeypatch: pytest.MonkeyPatch, path: str, prefix: str, width: int
) -> None:
    acme.make(path, external_key=prefix + "9" * 18)
    acme.make(path, external_key=f"{prefix}1{'0' * 16}-5")  # of the same length, but no number
    acme.make(path, external_key=f"{prefix}1{'0' * 16}5X")
    for _ in range(4):
        mint(acme, path)
    asked: list[str] = []
    monkeypatch.setattr(external_keys, "execute", lambda *sql: asked.append(sql[0]) or execute(*sql))
    assert mint(acme, path) == f"{prefix}1{'0' * 17}4"
    assert len([sql for sql in asked if sql.startswith("SELECT")]) == 3
