"""A column that is declared for assets, and not part of version 1 of the protocol, is sent, kept and compared."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from edge.database.connection import execute
from edge.errors import Invalid
from edge.sync import batch_format, verify
from edge.sync.store import hub_link, record_lines
from edge.sync.store.exchange import AssetRecord
from edge.validation import bodies, values
from edge.validation.body import Field
from tests.sync.company import Company
from tests.sync.world import EPOCH, Box, SiteBox

SERIAL = Field("serial_number", "string", values.name, is_nullable=True)
PLAIN = AssetRecord(7, "P-1", "Pallet", None, 1, "{}", EPOCH, None, EPOCH, EPOCH, None, [("rfid", "AA01")])
NUMBERED = PLAIN._replace(more={"serial_number": "S-1"})


@pytest.fixture
def declared(monkeypatch: pytest.MonkeyPatch) -> None:
    declare(monkeypatch)


def declare(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(bodies.OWN_FIELDS, "asset", (*bodies.OWN_FIELDS["asset"], SERIAL))  # type: ignore[arg-type]


@pytest.fixture
def numbered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Company:
    """A hub with two sites that all have the column."""
    company = Company(tmp_path, monkeypatch)
    for box in (company.hub, company.ber, company.ham):
        box_has_column(box)
    declare(monkeypatch)
    company.settle()
    return company


def box_has_column(box: Box) -> None:
    with box.in_use():
        execute("ALTER TABLE asset ADD COLUMN serial_number TEXT")


def give(box: Box, key: str, serial: str | None) -> None:
    with box.in_use():
        execute(
            "UPDATE asset SET serial_number = ?, updated_at = updated_at + 1000 WHERE external_key = ?", (serial, key)
        )


def serial(box: Box, key: str) -> Any:
    [(value,)] = box.rows(f"SELECT serial_number FROM asset WHERE external_key = '{key}'")
    return value


def compare(site: SiteBox) -> list[str]:
    with site.in_use():
        here = hub_link.find()
        assert here
        return [difference.text for difference in verify.compare(here, site.call)]


def test_the_column_travels_up_and_down_and_is_emptied_again(numbered: Company) -> None:
    give(numbered.ber, "B-1", "S-1")
    numbered.settle()
    assert serial(numbered.hub, "B-1") == serial(numbered.ham, "B-1") == "S-1"
    assert compare(numbered.ber) == compare(numbered.ham) == []
    give(numbered.ber, "B-1", None)
    numbered.settle()
    assert serial(numbered.hub, "B-1") is serial(numbered.ham, "B-1") is None


def test_a_difference_in_the_column_is_found_and_mended(numbered: Company) -> None:
    give(numbered.ber, "B-1", "S-1")
    numbered.settle()
    with numbered.hub.in_use():
        execute("UPDATE asset SET serial_number = 'other' WHERE external_key = 'B-1'")
    assert compare(numbered.ber) == ["asset B-1"]


def test_a_box_that_does_not_know_the_column_ignores_it(declared: None, monkeypatch: pytest.MonkeyPatch) -> None:
    message = record_lines.parts("assets", [NUMBERED, PLAIN])
    assert message["assets"] == record_lines.parts("assets", [PLAIN, PLAIN])["assets"], "the lines of version 1"
    assert batch_format.asset_records(json.loads(json.dumps(message))) == [NUMBERED, PLAIN]
    monkeypatch.setitem(bodies.OWN_FIELDS, "asset", bodies.OWN_FIELDS["asset"][:-1])  # type: ignore[arg-type]
    assert batch_format.asset_records(json.loads(json.dumps(message))) == [PLAIN, PLAIN]


def test_a_site_with_the_column_and_a_hub_without_compare_the_columns_that_both_know(
    numbered: Company, monkeypatch: pytest.MonkeyPatch
) -> None:
    give(numbered.ber, "B-1", "S-1")
    numbered.settle()
    with numbered.hub.in_use():
        execute("UPDATE asset SET serial_number = 'other' WHERE external_key = 'B-1'")
    answer = numbered.ber.hub.answer

    def earlier(site_no: int, path: str, body: bytes) -> Any:
        question = batch_format.unpack(body)
        return answer(site_no, path, batch_format.pack({**question, "columns": []}))

    monkeypatch.setattr(numbered.ber.hub, "answer", earlier)
    assert compare(numbered.ber) == []


def test_a_record_in_conflict_keeps_the_column(declared: None) -> None:
    for record in (PLAIN, NUMBERED):
        kept = record_lines.of_stored(AssetRecord, record_lines.stored(record))
        assert kept._replace(tags=[tuple(tag) for tag in kept.tags]) == record
    assert len(json.loads(record_lines.stored(PLAIN))) == len(PLAIN) - 1, "as earlier releases have stored it"


@pytest.mark.parametrize("value", [7, "", "x" * 2_000, "a\ud800b"])
def test_values_of_the_column_are_checked_like_those_of_the_api(declared: None, value: object) -> None:
    with pytest.raises(Invalid, match="serial_number"):
        record_lines.checked(PLAIN._replace(more={"serial_number": value}), "P-1")
