"""Musters that rules start: what hinders one is in the form, in the alert and in its message."""

from __future__ import annotations

import pytest

from edge import clock
from edge.audit.actors import shell
from edge.database.connection import execute
from edge.errors import Invalid
from edge.muster import musters, plans
from edge.rules import alerts, rules, states
from edge.rules.alerts import AlertFilter
from edge.rules.conditions import Condition
from edge.rules.rules import RuleFields
from edge.rules.states import Occurrence
from edge.tracking import tracked_people
from tests.conftest import Cast
from tests.muster.hall import SETTING, Hall


@pytest.fixture
def hall(cast: Cast) -> Hall:
    return Hall(cast.acme)


def fire(hall: Hall, rule_no: int, cause: str) -> str:
    """Raise an alert and return what it says about musters."""
    rule = rules.get(hall.organization_id, rule_no)
    no = states.fire(rule, Occurrence(cause, hall.pallet, "Pallet", "PALLET-1", clock.now()))
    return next(one.not_started for one in alerts.list_alerts(hall.organization_id, AlertFilter(), 50) if one.no == no)


def test_an_alert_says_why_its_muster_did_not_start(hall: Hall) -> None:
    by = shell(hall.organization_id)
    fields = RuleFields("Smoke", Condition.UNSEEN, span=clock.HOUR, musters=str(hall.plan))
    rule_no = rules.add_rule(by, fields)
    assert fire(hall, rule_no, "1") == ""
    (open_one,) = musters.open_musters(hall.organization_id)
    assert fire(hall, rule_no, "2") == "open Hall"
    musters.end(hall.olga, open_one.id, musters.find_state(hall.organization_id, open_one.id).version, "")
    drill = hall.start(is_drill=True)
    assert fire(hall, rule_no, "3") == "drill Hall"
    musters.end(hall.olga, drill, musters.find_state(hall.organization_id, drill).version, "")
    tracked_people.save(by, SETTING._replace(key_prefix="NOBODY-"))
    assert fire(hall, rule_no, "4") == "people Hall"
    with pytest.raises(Invalid, match="Hall would not start: This plan has no people"):
        rules.change_rule(by, rule_no, fields._replace(name="Fire"))
    tracked_people.save(by, SETTING)
    execute("DELETE FROM muster_plan_point")
    assert fire(hall, rule_no, "5") == "points Hall"
    plans.remove(by, hall.plan)
    assert fire(hall, rule_no, "6") == "removed "
    newest = alerts.list_alerts(hall.organization_id, AlertFilter(), 1)[0]
    assert newest.obstacles == [(musters.Obstacle.REMOVED, "")]
