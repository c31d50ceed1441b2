"""`edge reader offset` and `edge reader offsets`: RSSI offsets between makes of readers."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from edge import clock
from edge.database.connection import FILE_NAME, execute, open_database
from edge.tracking.positions import record
from edge.tracking.stays import Quality, Scan
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


def test_a_changed_location_offers_the_command_that_corrects_history(
    gate: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command begins at the second in which the location was set, so each step is in a second of its own."""
    moment = clock.now()
    monkeypatch.setattr(clock, "now", lambda: moment)
    for name in ("Yard", "Dock"):
        gate.ok("location", "add", name, "--key", name.upper())
    gate.ok("reader", "change", "gate", "--location", "YARD")
    assert "correct" not in gate.ok("reader", "change", "gate", "--location", "DOCK")  # no reads at the old location
    for change in (("change", "gate", "--location", "YARD"), ("antenna", "gate", "1", "--location", "YARD")):
        moment += 10 * clock.SECOND
        gate.ok("asset", "add", "Pallet", "--key", f"P-{change[0]}")
        read_at_dock(tmp_path, f"P-{change[0]}")
        moment += 10 * clock.SECOND
        offered = gate.ok("reader", *change)
        assert "Earlier reads are recorded at Dock" in offered
        command = shlex.split(offered.splitlines()[-1])
        assert command[0] == "edge"
        assert command[3:8] == ["gate", "--was", "DOCK", "--is", "YARD"]
        assert ("--antenna" in command) == (change[0] == "antenna")
        assert "Would change 1 rows of history of 1 assets" in gate.ok(*command[1:])
        moment += 10 * clock.SECOND
        gate.ok("reader", "change", "gate", "--location", "DOCK")
    assert "Earlier reads" not in gate.ok("reader", "antenna", "gate", "2", "--location", "YARD")
    assert "Earlier reads" not in gate.ok("reader", "change", "gate", "--location", "")  # no new location


def read_at_dock(folder: Path, key: str) -> None:
    """Record one read of an asset by antenna 1."""
    open_database(folder / FILE_NAME)
    (organization_id, asset_id), (reader_id,) = (
        execute("SELECT organization_id, id FROM asset WHERE external_key = ?", (key,)).fetchone(),
        execute("SELECT id FROM reader").fetchone(),
    )
    at, (dock,) = clock.now(), execute("SELECT id FROM location WHERE external_key = 'DOCK'").fetchone()
    record([Scan(organization_id, asset_id, dock, reader_id, 1, at, at, Quality.READER, None)], 300 * clock.SECOND)
