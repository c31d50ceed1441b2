"""Normalization of tag values for matching (contract: Tracking, matching)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge.records.tags import match_key

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


@pytest.mark.parametrize("value", ["4006381333931", " 4006381333931\r\n", "]E04006381333931", "\t]C14006381333931 "])
def test_a_barcode_matches_without_whitespace_and_symbology_prefix(value: str) -> None:
    assert match_key("barcode", value) == "4006381333931"


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
