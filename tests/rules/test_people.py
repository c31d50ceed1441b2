"""Rules are never about people, also not about assets that have just become people."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from edge import clock
from edge.clock import SECOND
from edge.records import assets
from edge.rules.conditions import Condition
from edge.rules.engine import Engine
from edge.tracking import tracked_people
from edge.tracking.tracked_people import PeopleSetting
from tests.rules.conftest import UTC, Site

BADGES = PeopleSetting(key_prefix="BADGE-")


def by_setting(site: Site, _asset_id: int) -> None:
    tracked_people.save(site.actor, BADGES)


def by_key(site: Site, asset_id: int) -> None:
    assets.rename(site.actor, asset_id, "PERSON-1")


def after_a_restart(site: Site, _asset_id: int) -> None:
    tracked_people.save(site.actor, BADGES)
    site.engine = Engine(UTC)


@pytest.mark.parametrize("become_person", [by_setting, by_key, after_a_restart])
def test_who_becomes_a_person_raises_no_alert_and_is_not_counted(
    site: Site, monkeypatch: pytest.MonkeyPatch, become_person: Callable[[Site, int], None]
) -> None:
    if become_person is by_key:
        tracked_people.save(site.actor, PeopleSetting(key_prefix="PERSON-"))
    site.add_rule(Condition.STAYS, "north", span=2 * clock.HOUR)
    site.add_rule(Condition.MORE, "north", number=1)
    mara, pallet = site.add_asset("BADGE-1"), site.add_asset("P1")
    site.seen(mara, "north", 0)
    site.evaluate()
    become_person(site, mara)
    site.evaluate()
    site.seen(pallet, "north dock", 10)
    site.evaluate()
    assert site.sentences() == []
    later = site.began + 2 * clock.HOUR + 5 * SECOND
    monkeypatch.setattr(clock, "now", lambda: later)
    site.evaluate()
    assert site.sentences() == []


def test_who_is_no_person_any_longer_is_counted_again(site: Site) -> None:
    tracked_people.save(site.actor, BADGES)
    site.add_rule(Condition.MORE, "north", number=1)
    badge, pallet = site.add_asset("BADGE-1"), site.add_asset("P1")
    site.seen(badge, "north", 0)
    site.evaluate()
    tracked_people.save(site.actor, PeopleSetting())
    site.seen(badge, "north dock", 10)
    site.seen(pallet, "north dock", 20)
    site.evaluate()
    assert site.sentences() == ["North holds too many assets: 2"]
