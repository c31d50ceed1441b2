"""Normalization of tag values for matching (interface: Tracking)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge.audit.actors import shell
from edge.database import migrate
from edge.database.connection import execute
from edge.errors import Invalid
from edge.records import assets, locations, lookup
from edge.records.tags import NewTag, match_key
from edge.validation import values
from tests.conftest import Cast

UUID = "FDA50693-A4E2-4FB1-AFCF-C6EB07647825"


@pytest.mark.parametrize("value", ["c3:00:00:11:22:33", "C3-00-00-11-22-33", "C3 00 00 11 22 33", "c30000112233"])
def test_a_ble_address_matches_in_any_notation(value: str) -> None:
    assert match_key("ble", value) == "C30000112233"


def test_a_beacon_triple_matches_with_and_without_dashes_and_in_any_case() -> None:
    assert match_key("ble", f"{UUID}:10:257") == match_key("ble", f"{UUID.replace('-', '').lower()}:10:257")


def test_beacons_with_different_major_and_minor_are_different() -> None:
    assert match_key("ble", f"{UUID}:10:257") != match_key("ble", f"{UUID}:102:57")


@pytest.mark.parametrize(
    "value", ["300833B2DDD9014000000000", "0x300833b2ddd9014000000000", "3008 33B2-DDD9 0140 00000000"]
)
def test_an_epc_matches_in_any_notation(value: str) -> None:
    assert match_key("rfid", value) == "300833B2DDD9014000000000"


def test_leading_zeros_of_an_epc_are_ignored() -> None:
    assert match_key("rfid", "000E2001") == match_key("rfid", "E2001")


@pytest.mark.parametrize("value", ["0", "0000", "0x00", "00-00 00"])
def test_an_unwritten_epc_never_matches(value: str) -> None:
    assert match_key("rfid", value) == ""


def test_an_rfid_value_that_is_no_hexadecimal_only_ignores_case() -> None:
    assert match_key("rfid", "pallet-07 x") == "PALLET-07 X"


@pytest.mark.parametrize("value", ["BC-71", " BC-71\r\n", "]E0BC-71", "\t]C1BC-71 "])
def test_a_barcode_matches_without_whitespace_and_symbology_prefix(value: str) -> None:
    assert match_key("barcode", value) == "BC-71"


# These tables are also those of the scan page: see `tests/browser/scripts/codes.test.mjs`.
def vectors(name: str) -> list[list[Any]]:
    table: list[list[Any]] = json.loads((Path(__file__).parent / name).read_text("utf-8"))
    return table


@pytest.mark.parametrize(("tag_type", "value", "key"), vectors("match-keys.json"))
def test_every_notation_has_its_match_key(tag_type: str, value: str, key: str) -> None:
    assert match_key(tag_type, value) == key


@pytest.mark.parametrize(("tag_type", "value", "code", "is_match"), vectors("matching.json"))
def test_a_code_matches_a_tag_or_not(cast: Cast, tag_type: str, value: str, code: str, is_match: bool) -> None:
    assets.create(shell(cast.acme), name="Pallet", tags=[NewTag(tag_type, value)])
    assert (lookup.by_code(cast.acme, code) is not None) is is_match


def test_the_upgrade_computes_keys_by_the_new_rules(cast: Cast) -> None:
    """Keys as an earlier release stored them become those of new tags."""
    spellings = ("036000291452", "0036000291452", "]E096385074", "036000291453", "ABC", "\u200bBC-71")
    codes = [NewTag("barcode", value) for value in spellings]
    codes += [NewTag("rfid", value) for value in ("3000E2009A9040060AF000003060", "3074257BF7194E4000001A85")]
    glns = (
        *("(414)0614141123452(254)DOCK1", "]C14140614141123452", "(414)1", "4140614141123469254DOCK2"),
        *("https://id.gs1.org/414/0614141123476/254/DOCK1", "]Q1HTTPS://ID.GS1.ORG/414/0614141123483"),
        *("https://id.gs1.org/01/00614141123452", "https://id.gs1.org/414/061"),
    )
    places = [NewTag("barcode", value) for value in glns]
    assets.create(shell(cast.acme), name="Pallet", tags=codes)
    locations.create(shell(cast.acme), name="Dock", tags=places)
    columns = "SELECT value, match_key, gs1_key FROM tag ORDER BY value"
    right = execute(columns).fetchall()
    execute(
        "UPDATE tag SET match_key = replace(value, ']E0', '') "
        "WHERE value GLOB '*[0-9]' AND tag_type = 'barcode' AND asset_id"
    )
    execute("UPDATE tag SET gs1_key = '(01)1(21)1' WHERE value LIKE '3000%'")
    execute("UPDATE tag SET gs1_key = NULL WHERE location_id IS NOT NULL")
    execute("UPDATE tag SET match_key = value WHERE value LIKE '%BC-71'")
    for subject in ("barcode:036000291452", "barcode:036000291453", "rfid:3000E2009A90"):
        execute("INSERT INTO dismissal VALUES (?, 'tag', ?, '', 0)", (cast.acme, subject))
    steps = [sql for name, sql in migrate.steps_after(0, migrate.newest_schema()) if "_matching" in name]
    for statement in "".join(steps).split(";\n")[:-1]:
        execute(statement)
    assert execute(columns).fetchall() == right
    dismissed = {subject for (subject,) in execute("SELECT subject FROM dismissal")}
    assert dismissed == {"barcode:00036000291452", "barcode:036000291453", "rfid:3000E2009A90"}


@pytest.mark.parametrize("letter", ["\u200b", "\ufeff", "\u2060", "\u202a", "\u00a0", "\u2009"])
def test_invisible_characters_are_refused_where_people_enter_tags(letter: str) -> None:
    assert values.trimmed(f"{letter} BC-71{letter}") == "BC-71"
    assert values.tag_value("value", f"BC{letter}71") == f"BC{letter}71", "the API keeps what it accepted"
    with pytest.raises(Invalid, match="value must not contain invisible characters"):
        values.typed_tag_value("value", f"BC{letter}71")


def test_a_barcode_keeps_its_case_and_its_leading_zeros() -> None:
    assert match_key("barcode", "00ab") == "00ab"


@given(st.sampled_from(["ble", "rfid"]), st.text())
def test_a_match_key_is_its_own_match_key(tag_type: str, value: str) -> None:
    key = match_key(tag_type, value)
    assert match_key(tag_type, key) == key


UUID = "5b2f0c1e-8d47-4f0a-9c33-71de20aa4b10"


@pytest.mark.parametrize(
    "spelt",
    [
        f"{UUID}:10:257",
        f"{UUID.upper()}-10-257",
        f"{UUID}_10_257",
        f"{UUID}/10/257",
        f"{UUID}.10.257",
        f"{UUID.replace('-', '')}:010:257",
        f"iBeacon:{UUID}-10-257",
        f" {UUID}, 10, 257".replace(", ", ","),
    ],
)
def test_every_spelling_of_a_beacon_matches(spelt: str) -> None:
    assert match_key("ble", spelt) == match_key("ble", f"{UUID}:10:257")
    assert match_key("ble", spelt) != match_key("ble", f"{UUID}:102:57")


@pytest.mark.parametrize(
    "spelt", ["C3:0A:11:4E:7F:21", "c3-0a-11-4e-7f-21", "C30A.114E.7F21", "c3_0a_11_4e_7f_21", "C3/0A/11/4E/7F/21"]
)
def test_every_spelling_of_an_address_matches(spelt: str) -> None:
    assert match_key("ble", spelt) == "C30A114E7F21"
