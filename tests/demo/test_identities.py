"""Tag values match the examples of the standards."""

from __future__ import annotations

from edge.demo import identities


def test_epcs_are_the_worked_examples_of_the_standard() -> None:
    assert identities.sgtin_epc("0614141", 812345, 6789, filter_value=3) == "3074257BF7194E4000001A85"
    assert identities.grai_epc("0614141", 12345, 400, filter_value=3) == "3374257BF40C0E4000000190"
    assert identities.giai_epc("0614141", 12345400, filter_value=3) == "3474257BF400000000BC6038"


def test_a_grai_barcode_carries_its_check_digit() -> None:
    assert identities.grai_barcode("0614141", 12345, 400) == "80030" + "0614141123452" + "400"


def test_a_beacon_is_known_by_its_triple() -> None:
    assert identities.Beacon("5b2f0c1e-8d47-4f0a-9c33-71de20aa4b10", 10, 257).triple.endswith(":10:257")
