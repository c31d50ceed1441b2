"""`edge reader offset` and `edge reader offsets`: makes that report differently are made comparable."""

from __future__ import annotations

import pytest

from tests.commands.conftest import Shell


@pytest.fixture
def gate(edge: Shell) -> Shell:
    edge.ok("reader", "add", "gate", "--topic", "site/gate", "--format", "csl")
    return edge


def test_an_offset_is_set_listed_and_removed(gate: Shell) -> None:
    assert "gate: -10 dB" in gate.ok("reader", "offset", "gate", "-10")
    assert "gate, antenna 2: +3.5 dB" in gate.ok("reader", "offset", "gate", "--antenna", "2", "3.5")
    listed = gate.ok("reader", "offsets")
    assert "-10 dB" in listed
    assert "+3.5 dB" in listed
    assert "No offset is proposed" in listed
    assert "no offset" in gate.ok("reader", "offset", "gate", "")
    assert "-10 dB" not in gate.ok("reader", "offsets", "gate")


@pytest.mark.parametrize("decibels", ["31", "-30.5", "much"])
def test_what_is_no_offset_is_refused(gate: Shell, decibels: str) -> None:
    code, text = gate("reader", "offset", "gate", decibels)
    assert code != 0
    assert "between -30 and 30 dB" in text


def test_a_correction_is_shown_before_it_is_done(gate: Shell) -> None:
    for name in ("Yard", "Dock"):
        gate.ok("location", "add", name, "--key", name.upper())
    asked = ("reader", "correct", "gate", "--was", "YARD", "--is", "DOCK", "--since", "2026-01-01T00:00:00Z")
    assert "Would change 0 rows of history of 0 assets" in gate.ok(*asked)
    assert "Changed 0 rows" in gate.ok(*asked, "--antenna", "2", "--yes")
    assert gate(*asked[:-1], "yesterday")[0] != 0
    assert gate(*asked[:5], "--is", "YARD", *asked[7:])[0] != 0
