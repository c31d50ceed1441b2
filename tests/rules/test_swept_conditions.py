"""Conditions that are looked up instead of read from events: a low battery, and a fault of the box."""

from __future__ import annotations

import pytest

from edge import clock
from edge.clock import SECOND
from edge.database.connection import writing
from edge.errors import Invalid
from edge.rules import alerts, box_faults
from edge.rules.conditions import AssetKind, Condition
from edge.tracking import asset_values
from edge.tracking.asset_values import NewValues
from tests.rules.conftest import Site


@pytest.fixture(autouse=True)
def _sweep_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edge.rules.engine.UNSEEN_SECONDS", 0.0)


def charge(site: Site, asset_id: int, battery: int, second: int) -> None:
    with writing():
        at = site.began + second * SECOND
        asset_values.record([NewValues(site.organization_id, asset_id, at, battery, None, None, is_pressed=False)])
    site.evaluate()


def test_a_low_battery_alerts_once_and_is_over_when_it_is_charged(site: Site) -> None:
    freezer, other = site.add_asset("F1"), site.add_asset("X1")
    charge(site, other, 5, 0)
    site.add_rule(Condition.BATTERY, number=20)
    charge(site, freezer, 21, 10)
    assert site.alerts() == [], "the other one was low before"
    charge(site, freezer, 18, 20)
    charge(site, freezer, 10, 30)
    (alert,) = site.alerts()
    assert (alert.sentence, alert.subject_id) == ("Pallet F1 has a low battery: 18 %", freezer)
    charge(site, freezer, 22, 40)
    assert site.alerts()[0].over_at is None, "within the margin"
    charge(site, freezer, 99, 50)
    assert site.alerts()[0].over_at is not None
    charge(site, freezer, 12, 60)
    assert len(site.alerts()) == 2


def test_a_battery_rule_is_about_its_assets_only(site: Site) -> None:
    freezer, other = site.add_asset("F1"), site.add_asset("X1")
    site.add_rule(Condition.BATTERY, number=20, asset_kind=AssetKind.KEY, asset_value="F")
    charge(site, other, 5, 10)
    charge(site, freezer, 5, 10)
    assert site.sentences() == ["Pallet F1 has a low battery: 5 %"]
    with pytest.raises(Invalid):
        site.add_rule(Condition.BATTERY, number=0)


def test_a_fault_that_lasts_alerts_and_is_over_without_it(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not box_faults.is_needed()
    now = clock.now()
    monkeypatch.setattr(clock, "now", lambda: now)
    site.add_rule(Condition.UNHEALTHY, span=600 * SECOND)
    assert box_faults.is_needed()
    box_faults.record("disk: only 5 MB are free")
    site.evaluate()
    now += 300 * SECOND
    site.evaluate()
    assert site.alerts() == []
    box_faults.record("disk: only 4 MB are free")
    now += 301 * SECOND
    site.evaluate()
    assert site.sentences() == ["This box has a fault: disk: only 4 MB are free"]
    box_faults.record("")
    site.evaluate()
    assert site.alerts()[0].over_at == now
    alerts.acknowledge(site.actor, site.alerts()[0].no, "Cleaned up")
