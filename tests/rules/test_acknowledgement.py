"""Many alerts are acknowledged at once: those of the list that a person has seen, and no others."""

from __future__ import annotations

import pytest

from edge.audit.actors import shell
from edge.audit.trail import recent
from edge.database.connection import execute, hide_people
from edge.errors import Conflict, Invalid
from edge.rules import alerts
from edge.rules.alerts import AlertFilter, acknowledge_all, list_alerts
from edge.rules.conditions import Condition
from edge.tracking import tracked_people
from edge.tracking.tracked_people import PeopleSetting
from tests.conftest import Cast
from tests.rules.conftest import Site


def raise_alerts(site: Site, names: list[str], place: str = "north") -> list[int]:
    """Let assets enter a location. Returns the numbers of the alerts, oldest first."""
    for second, name in enumerate(names):
        asset_id = site.add_asset(name)
        site.seen(asset_id, "south", 10 * second)
        site.seen(asset_id, place, 10 * second + 5)
    site.evaluate()
    return [one.no for one in site.alerts()]


def open_keys(site: Site) -> set[str]:
    return {one.subject_key for one in list_alerts(site.organization_id, AlertFilter(), 1000)}


def test_alerts_that_were_raised_since_the_page_was_shown_stay_open(site: Site) -> None:
    site.add_rule(Condition.ENTERS, "north")
    newest = raise_alerts(site, ["P1", "P2"])[-1]
    raise_alerts(site, ["P3"])
    assert acknowledge_all(site.actor, AlertFilter(), newest, " Put back ") == 2
    assert open_keys(site) == {"P3"}
    closed = [one for one in site.alerts() if one.acknowledged_at]
    assert {(one.acknowledged_by, one.note) for one in closed} == {(site.actor.name, "Put back")}
    entry = recent(site.organization_id, 1)[0]
    assert (entry.action, entry.subject_name, entry.detail) == (
        "alert.acknowledged_all",
        "2 alerts",
        {"note": "Put back"},
    )


def test_only_alerts_of_the_search_and_the_rule_are_acknowledged(site: Site) -> None:
    north, hall = site.add_rule(Condition.ENTERS, "north"), site.add_rule(Condition.LEAVES, "south")
    newest = raise_alerts(site, ["P1", "P2"])[-1]
    assert acknowledge_all(site.actor, AlertFilter("p1", rule_no=north), newest, "") == 1
    assert acknowledge_all(site.actor, AlertFilter(rule_no=hall), newest, "") == 2
    left = list_alerts(site.organization_id, AlertFilter(), 1000)
    assert [(one.subject_key, one.rule_no) for one in left] == [("P2", north)]


def test_who_comes_second_keeps_the_note_of_the_first(site: Site) -> None:
    site.add_rule(Condition.ENTERS, "north")
    newest = raise_alerts(site, ["P1"])[-1]
    acknowledge_all(site.actor, AlertFilter(is_open=False), newest, "First")
    for query in (AlertFilter(), AlertFilter(is_open=False)):
        with pytest.raises(Conflict):
            acknowledge_all(site.actor, query, newest, "Second")
    assert [one.note for one in site.alerts()] == ["First"]


def test_a_note_that_is_too_long_changes_nothing(site: Site) -> None:
    site.add_rule(Condition.ENTERS, "north")
    newest = raise_alerts(site, ["P1"])[-1]
    with pytest.raises(Invalid):
        acknowledge_all(site.actor, AlertFilter(), newest, "x" * 501)
    assert open_keys(site) == {"P1"}


def test_alerts_of_others_and_about_hidden_people_stay_open(site: Site, cast: Cast) -> None:
    site.add_rule(Condition.ENTERS, "north")
    newest = raise_alerts(site, ["P1", "BADGE-1"])[-1]
    with pytest.raises(Conflict):
        acknowledge_all(shell(cast.rival), AlertFilter(), newest, "")
    tracked_people.save(site.actor, PeopleSetting(key_prefix="BADGE-"))
    hide_people(True)
    acknowledge_all(site.actor, AlertFilter(), newest, "")
    hide_people(False)
    is_open = execute("SELECT subject_key FROM alert WHERE acknowledged_at IS NULL").fetchall()
    assert is_open == [("BADGE-1",)]


def test_at_most_some_thousand_are_acknowledged_at_once_newest_first(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(alerts, "MOST_AT_ONCE", 2)
    site.add_rule(Condition.ENTERS, "north")
    oldest, _, newest = raise_alerts(site, ["P1", "P2", "P3"])
    assert acknowledge_all(site.actor, AlertFilter(), newest, "") == 2
    assert [one.no for one in list_alerts(site.organization_id, AlertFilter(), 1000)] == [oldest]
