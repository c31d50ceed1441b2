"""Doctor and /metrics: sync."""

from __future__ import annotations

from pathlib import Path

import pytest

from edge import clock
from edge.audit.actors import shell
from edge.database.change_log import Kind
from edge.database.connection import execute
from edge.operations import metrics
from edge.operations.doctor import doctor
from edge.operations.doctor.findings import Level, Subject
from edge.people.organizations import list_organizations
from edge.sync.store import change_feed, hub_link, site_health, sites
from edge.sync.store.hub_link import HubAccess
from edge.sync.store.site_health import SiteHealth
from tests.operations.doctor.test_doctor import finding_of, subject

__all__ = ["subject"]


@pytest.fixture
def organization_id(site: Path) -> int:
    return list_organizations()[0].id


@pytest.fixture
def joined(site: Path, organization_id: int) -> Path:
    hub_link.begin(shell(organization_id), HubAccess("https://hub", "BER", "The hub", "key"))
    (site / "sync-secret").write_text("secret")
    return site


def test_a_box_without_sync_has_no_findings(subject: Subject) -> None:
    assert finding_of(subject, "hub") == (Level.OK, "reports to no hub")
    assert finding_of(subject, "sites") == (Level.OK, "is a hub without sites")
    assert not [name for name in figures(subject) if "sync" in name or "edge_site" in name]


@pytest.mark.parametrize(
    ("values", "level", "text"),
    [
        ({}, Level.OK, "1 change waits for The hub at https://hub"),
        ({"stopped": "another database reports as this site"}, Level.PROBLEM, "another database"),
        ({"paused_at": 1}, Level.WARNING, "paused"),
        ({"recovering": '["assets", [0]]'}, Level.WARNING, "being recovered"),
        ({"restored_from": 1}, Level.WARNING, "the hub may have newer data"),
        ({"clock_offset": -90 * clock.SECOND}, Level.WARNING, "90 s apart"),
    ],
)
def test_a_site(subject: Subject, joined: Path, values: dict[str, object], level: Level, text: str) -> None:
    change_feed.add(Kind.RANGE, 1, 0, 0)
    if values:
        hub_link.update(**values)
    finding = finding_of(subject, "hub")
    assert finding[0] == level
    assert text in finding[1]


def test_a_site_whose_hub_does_not_answer(subject: Subject, joined: Path) -> None:
    change_feed.add(Kind.RANGE, 1, 0, 0)
    hub_link.update(last_commit_at=clock.now() - 5 * clock.HOUR, last_error="no route")
    finding = finding_of(subject, "hub")
    assert finding[0] == Level.WARNING
    assert "no route" in finding[1]


def test_a_site_without_its_key(subject: Subject, joined: Path) -> None:
    (joined / "sync-secret").unlink()
    assert finding_of(subject, "hub")[0] == Level.PROBLEM


def test_a_hub_names_the_sites_that_are_silent_or_refused(subject: Subject, organization_id: int) -> None:
    for code in ("BER", "HAM", "MUC"):
        made = sites.add_site(shell(organization_id), code, code, code.encode())
        sites.join(code.encode(), b"secret of " + code.encode())
        sites.note_contact(made.no, {"waiting": 7}, 100)
    assert finding_of(subject, "sites") == (Level.OK, "3 sites are up to date")
    execute("UPDATE site SET last_contact_at = ? WHERE code = 'BER'", (clock.now() - 5 * clock.HOUR,))
    sites.note_refusal(2, "another database reports as this site")
    level, text = finding_of(subject, "sites")
    assert level == Level.WARNING
    assert "BER: no contact for 300 minutes" in text
    assert "HAM: another database" in text
    assert "MUC" not in text
    finding = figures(subject)
    assert finding["edge_site_waiting_changes"] == [7, 7, 7]
    assert len(finding["edge_site_heard_timestamp_seconds"]) == 3


def test_a_hub_names_the_problems_of_its_sites(subject: Subject, organization_id: int) -> None:
    made = sites.add_site(shell(organization_id), "BER", "BER", b"BER")
    sites.join(b"BER", b"secret")
    sites.note_contact(made.no, {}, 100)
    now = clock.now() // clock.SECOND
    site_health.keep(made.no, SiteHealth("0.2.0", {"backup": 2, "disk": 1}, now, now + 86400, None, 500, 12))
    assert finding_of(subject, "sites") == (Level.WARNING, "problems at sites: BER: backup")
    finding = figures(subject)
    assert finding["edge_site_silent"] == [0]
    assert finding["edge_site_doctor_findings"] == [1, 1]
    assert finding["edge_site_certificate_end_timestamp_seconds"] == [now + 86400]
    assert finding["edge_site_reads_per_minute"] == [12]
    assert finding["edge_site_backup_timestamp_seconds"] == [], "unknown"


def test_metrics_of_a_site(subject: Subject, joined: Path) -> None:
    hub_link.count_bytes(5000, 300)
    finding = figures(subject)
    assert finding["edge_sync_running"] == [1]
    assert finding["edge_sync_bytes_today"] == [5000, 300]
    assert finding["edge_sync_waiting_changes"] == [0]


def figures(subject: Subject) -> dict[str, list[float]]:
    sampled = metrics.sample(subject.data_dir, subject.config.backup_folder, dict)
    return {metric.name: [sample.value for sample in metric.samples] for metric in sampled}


def test_every_check_of_sync_is_listed() -> None:
    assert {"hub", "sites"} <= set(doctor.CHECKS)
