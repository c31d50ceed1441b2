"""The rules of a hub see the assets of all its sites; a site's rules work without the hub."""

from __future__ import annotations

from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from edge import clock
from edge.clock import SECOND
from edge.database import connection
from edge.database.connection import execute
from edge.events import detection
from edge.rules import rules
from edge.rules.alerts import AlertFilter, list_alerts
from edge.rules.conditions import Condition
from edge.rules.engine import Engine
from edge.rules.rules import RuleFields
from tests.events.conftest import SILENCE, make_events
from tests.sync.world import Box, Hub, SiteBox


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(connection.PRAGMAS, "synchronous", "off")


def add_rules(box: Box, place: str) -> None:
    """Add a rule about each location of this name."""
    with box.in_use():
        detection.start(SILENCE)
        ids = [row[0] for row in execute("SELECT id FROM location WHERE name = ? ORDER BY id", (place,))]
        for number, location_id in enumerate(ids):
            rules.add_rule(box.actor, RuleFields(f"Rule {number}", Condition.ENTERS, location_id=location_id))
        execute("UPDATE rule SET changed_at = 0")
    evaluate(box)


def evaluate(box: Box) -> list[str]:
    with box.in_use():
        make_events()
        Engine(ZoneInfo("UTC")).follow()
        return sorted(one.sentence for one in list_alerts(box.organization_id, AlertFilter(), 10))


def test_a_hub_sees_all_sites_and_a_site_needs_no_hub(tmp_path: Path) -> None:
    hub = Hub(tmp_path / "hub", "hub")
    sites = [SiteBox(tmp_path / code, code, hub) for code in ("BER", "MUC")]
    began = clock.now() - 600 * SECOND
    for site in sites:
        site.pallet = site.add_asset(f"P-{site.name}")
        site.scan(site.pallet, 0, began)
        site.join()
        site.sync()
        add_rules(site, "Dock 1")
    add_rules(hub, "Dock 1")
    for site in sites:
        site.scan(site.pallet, 1, began + 100 * SECOND)
    assert [evaluate(site) for site in sites] == [[f"Pallet P-{name} entered Dock 1"] for name in ("BER", "MUC")]
    assert evaluate(hub) == []
    for site in sites:
        site.sync()
    assert evaluate(hub) == ["Pallet P-BER entered Dock 1", "Pallet P-MUC entered Dock 1"]
    for site in sites:
        site.sync()
    assert [len(evaluate(box)) for box in (*sites, hub)] == [1, 1, 2], "alerts are not synced"
