"""The health report of this box: read from the last run of the doctor, backups, disk and ledger, and rounded."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from edge import __version__, clock
from edge.database.connection import execute, writing
from edge.operations import own_health
from edge.operations.doctor import findings
from edge.people.organizations import list_organizations
from edge.readers.ledger import hour_of
from tests.operations.doctor.test_doctor import subject

__all__ = ["subject"]


def test_a_box_without_doctor_and_backup_reports_the_rest(site: Path) -> None:
    health = own_health.read(site, site / "backups", list_organizations()[0].id)
    assert health.version == __version__
    assert (health.findings, health.examined_at, health.backup_at, health.reads_per_minute) == ({}, None, None, 0)
    assert health.disk_free_mb


def test_only_findings_that_are_not_ok_are_reported(site: Path) -> None:
    checks = [{"id": "disk", "level": "ok"}, {"id": "clock", "level": "warning"}, {"id": "backup", "level": "problem"}]
    findings.keep(site, json.dumps({"checks": checks}), 1_800_000_000)
    health = own_health.read(site, site / "backups", list_organizations()[0].id)
    assert health.findings == {"clock": 1, "backup": 2}
    assert health.certificate_ends_at == 1_800_000_000
    assert health.examined_at


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"at": 1, "checks": [{"id": "x", "level": "new"}]}', "\x00"])
def test_an_unreadable_file_of_the_doctor_is_no_obstacle(site: Path, content: str) -> None:
    (site / findings.FILE_NAME).write_text(content)
    assert own_health.read(site, site / "backups", list_organizations()[0].id).findings == {}


def test_reads_per_minute_are_those_of_one_organization(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    organization_id = list_organizations()[0].id
    now = 500_000 * clock.HOUR + 30 * 60 * clock.SECOND
    monkeypatch.setattr(clock, "now", lambda: now)
    with writing():
        execute(
            "INSERT INTO reader (id, organization_id, name, topic, format, created_at, updated_at) "
            "VALUES (7, ?, 'x', 'x', 'edge', 0, 0)",
            (organization_id,),
        )
        for reader_id in (7, 8):
            execute(
                "INSERT INTO ledger (reader_id, hour, bucket, messages, reads) VALUES (?, ?, 'recorded', 1, 9000)",
                (reader_id, hour_of(now) - 1),
            )
    assert own_health.read(site, site, organization_id).reads_per_minute == 100


@pytest.mark.parametrize(("number", "rounded"), [(0, 0), (7, 7), (99, 99), (101, 100), (12_345, 12_000)])
def test_numbers_are_rounded_to_change_rarely(number: int, rounded: int) -> None:
    assert own_health._rounded(number) == rounded
