"""A rule, a plan and the setting for people can name exact keys: P-71 without P-710."""

from __future__ import annotations

import pytest

from edge.errors import Invalid
from edge.muster import plans
from edge.muster.plans import Chosen, NewPlan
from edge.records.external_keys import chosen_keys
from edge.rules import rules, sentences
from edge.rules.conditions import AssetKind, Condition
from edge.tracking import tracked_people
from edge.tracking.tracked_people import PeopleSetting
from tests.rules.conftest import Site

KEYS = ["P-71", "P-710", "AP-71", "P-72"]
CHOICES = [
    ("P-71", ["P-71", "P-710"]),
    ("=P-71", ["P-71"]),
    (" = P-72,P-71 ;", ["P-71", "P-72"]),
    ("=P-7", []),
    ("=P-71 =P-72", ["P-71", "P-72"]),
]


@pytest.mark.parametrize(
    ("entered", "stored"), [("P-", "P-"), ("=P-71", "=P-71"), ("= P-71, P-72;P-73 ", "=P-71 P-72 P-73"), ("=", "=")]
)
def test_entered_keys_are_stored_in_one_form(entered: str, stored: str) -> None:
    assert chosen_keys(entered) == stored


@pytest.mark.parametrize(("entered", "chosen"), CHOICES)
def test_a_rule_takes_exactly_the_keys(site: Site, entered: str, chosen: list[str]) -> None:
    ids = {site.add_asset(key): key for key in KEYS}
    no = site.add_rule(Condition.ENTERS, "north", asset_kind=AssetKind.KEY, asset_value=entered.strip())
    for asset_id in ids:
        site.seen(asset_id, "north", 0)
    site.evaluate()
    assert sorted(ids[alert.subject_id or 0] for alert in site.alerts()) == chosen
    said = sentences.describe(rules.get(site.organization_id, no).fields, "North")
    assert ("with the key" in said) is entered.strip().startswith("=")
    assert "=" not in said


@pytest.mark.parametrize(("entered", "chosen"), CHOICES)
def test_people_and_a_plan_are_exactly_the_keys(site: Site, entered: str, chosen: list[str]) -> None:
    ids = {site.add_asset(key): key for key in KEYS}
    tracked_people.save(site.actor, PeopleSetting(key_prefix=entered.strip()))
    assert sorted(ids[asset_id] for asset_id in tracked_people.among(ids)) == chosen
    later = site.add_asset("P-7")
    assert bool(tracked_people.among({later})) is (entered == "=P-7")
    tracked_people.save(site.actor, PeopleSetting(key_prefix="P"))
    point = site.places["north"]
    no = plans.create(site.actor, NewPlan("Hall", [point], Chosen.KEY, "", entered.strip()))
    people = [key for _, key, _ in plans.people_of(plans.find_plan(site.organization_id, no))]
    assert sorted(people) == (["P-7"] if entered == "=P-7" else chosen)


def test_no_key_at_all_is_refused(site: Site) -> None:
    with pytest.raises(Invalid):
        site.add_rule(Condition.ENTERS, "north", asset_kind=AssetKind.KEY, asset_value="=")
    with pytest.raises(Invalid):
        plans.create(site.actor, NewPlan("Hall", [site.places["north"]], Chosen.KEY, "", "= ,"))
    with pytest.raises(Invalid):
        tracked_people.save(site.actor, PeopleSetting(key_prefix="="))
