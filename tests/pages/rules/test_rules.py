"""Pages of rules and alerts: setup and preview by an editor, acknowledgement by an operator."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from edge import clock
from edge.audit import quotas
from edge.audit.actors import shell
from edge.audit.trail import recent
from edge.clock import SECOND
from edge.database.connection import execute
from edge.events import detection
from edge.people.people import Role
from edge.rules import alerts, rules, states
from edge.rules.alerts import AlertFilter
from edge.rules.conditions import Condition
from edge.rules.rules import RuleFields
from edge.rules.states import Occurrence
from tests.conftest import Cast
from tests.events.conftest import SILENCE
from tests.pages.conftest import Browser
from tests.rules.conftest import Site


@pytest.fixture
def site(cast: Cast) -> Site:
    made = Site(cast.acme)
    detection.start(SILENCE)
    return made


def form_of(site: Site, **fields: object) -> dict[str, object]:
    return {
        "name": "Tools stay",
        "asset_kind": "key",
        "asset_value": "TOOL",
        "kind": "leaves",
        "location_id": site.places["north"],
        "days": [str(day) for day in range(7)],
        "once": "a",
        **fields,
    }


def test_an_editor_previews_and_creates_a_rule(sign_in_as: Callable[..., Browser], site: Site) -> None:
    tool = site.add_asset("TOOL-1")
    site.record([(tool, "north dock", 0), (tool, "south", 10)])
    editor = sign_in_as(Role.EDITOR)
    assert "No rules yet" in editor.get("/rules").text
    page = editor.post("/rules/new", form_of(site, preview="1")).text
    assert "1 alert" in page
    assert "Pallet TOOL-1" in page
    assert rules.list_rules(site.organization_id) == []
    assert editor.post("/rules/new", form_of(site)).status_code == 303
    (rule,) = rules.list_rules(site.organization_id)
    assert "When an asset with a key that begins with TOOL leaves North, at any time" in editor.get("/rules").text
    changed = form_of(site, name="Night", days=["0", "6"], **{"from": "22:00", "until": "06:30"})
    assert editor.post(f"/rules/{rule.no}", changed).status_code == 303
    assert "Monday, Sunday 22:00 to 06:30" in editor.get("/rules").text
    assert 'value="22:00"' in editor.get(f"/rules/{rule.no}").text
    assert editor.post(f"/rules/{rule.no}/disable").status_code == 303
    assert editor.post(f"/rules/{rule.no}/enable").status_code == 303
    assert editor.post(f"/rules/{rule.no}/remove").status_code == 303
    assert {line.action for line in recent(site.organization_id, 5)} >= {
        *("rule.created", "rule.changed", "rule.disabled", "rule.enabled", "rule.deleted")
    }


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"location_id": ""}, "Choose a location"),
        ({"asset_value": ""}, "Enter a value"),
        ({"days": []}, "Choose at least one day"),
        ({"kind": "stays"}, "Enter a time from 1 minute"),
        ({"kind": "passes"}, "Choose a door"),
        ({"from": "late"}, "Enter a time of day"),
        ({"kind": "fewer", "number": "x"}, "Enter a whole number"),
        ({"channels": ["7"]}, "There is no channel 7"),
    ],
)
def test_a_wrong_field_is_named(
    sign_in_as: Callable[..., Browser], site: Site, fields: dict[str, object], message: str
) -> None:
    answer = sign_in_as(Role.EDITOR).post("/rules/new", form_of(site, **fields))
    assert answer.status_code == 400
    assert message in answer.text


def test_a_rule_above_the_limit_is_refused_with_its_form(
    sign_in_as: Callable[..., Browser], site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(quotas.CAPS, "rule", quotas.CAPS["rule"]._replace(limit=1))
    editor = sign_in_as(Role.EDITOR)
    editor.post("/rules/new", form_of(site))
    answer = editor.post("/rules/new", form_of(site, name="Night", once="b"))
    assert answer.status_code == 409
    assert 'value="Night"' in answer.text
    (rule,) = rules.list_rules(site.organization_id)
    answer = editor.post(f"/rules/{rule.no}", form_of(site, name="Night", location_id=""))
    assert answer.status_code == 400
    assert f'action="/rules/{rule.no}"' in answer.text
    assert 'value="Night"' in answer.text


def test_an_operator_acknowledges_an_alert(sign_in_as: Callable[..., Browser], site: Site) -> None:
    site.add_rule(Condition.ENTERS, "north")
    site.seen(site.add_asset("P1"), "north", 0)
    site.evaluate()
    (alert,) = site.alerts()
    viewer = sign_in_as(Role.VIEWER)
    assert "Pallet P1 entered North" in viewer.get("/").text
    assert "Acknowledge</button>" not in viewer.get("/alerts").text
    assert viewer.post(f"/alerts/{alert.no}/acknowledge").status_code == 403
    operator = sign_in_as(Role.OPERATOR)
    assert "Acknowledge</button>" in operator.get("/alerts?q=pallet").text
    assert "No alerts" in operator.get("/alerts?q=else").text
    assert operator.post(f"/alerts/{alert.no}/acknowledge", {"note": "Put back"}).status_code == 303
    assert operator.post(f"/alerts/{alert.no}/acknowledge").status_code == 409
    assert "Pallet P1 entered North" not in operator.get("/alerts/open").text
    assert "Pallet P1" not in operator.get("/alerts/now").text
    assert "Put back" in operator.get("/alerts?show=all&q=put").text


def test_an_operator_acknowledges_all_alerts_of_a_search(sign_in_as: Callable[..., Browser], site: Site) -> None:
    site.add_rule(Condition.ENTERS, "north")
    for second, name in enumerate(("P1", "P2", "Q1")):
        site.seen(site.add_asset(name), "north", second)
    site.evaluate()
    newest = site.alerts()[-1].no
    viewer, operator = sign_in_as(Role.VIEWER), sign_in_as(Role.OPERATOR)
    assert "Acknowledge all" not in viewer.get("/alerts").text
    assert viewer.post("/alerts/acknowledge", {"newest": newest}).status_code == 403
    assert "Acknowledge all 3" in operator.get("/alerts").text
    assert "Acknowledge all" not in operator.get("/alerts?q=q1").text  # one has its own button
    assert "Acknowledge all 2" in operator.get("/alerts?q=pallet p").text
    assert operator.post("/alerts/acknowledge", {"q": "pallet p", "note": "Put back"}).status_code == 400
    answer = operator.post("/alerts/acknowledge", {"q": "pallet p", "newest": newest, "note": "Put back"})
    assert answer.status_code == 303
    assert operator.post("/alerts/acknowledge", {"q": "pallet p", "newest": newest}).status_code == 409
    assert [one.subject_key for one in site.alerts() if one.acknowledged_at is None] == ["Q1"]


def test_another_organization_sees_and_changes_nothing(
    sign_in_as: Callable[..., Browser], site: Site, cast: Cast
) -> None:
    rival = Site(cast.rival, prefix="rival/")
    no = rival.add_rule(Condition.ENTERS, "north")
    rival.seen(rival.add_asset("P1"), "north", 0)
    rival.evaluate()
    (alert,) = rival.alerts()
    admin = sign_in_as(Role.ADMINISTRATOR)
    assert "Pallet P1" not in admin.get("/alerts?show=all").text
    assert admin.get(f"/rules/{no}").status_code == 404
    for path in (f"/rules/{no}", f"/rules/{no}/remove", f"/rules/{no}/disable", f"/alerts/{alert.no}/acknowledge"):
        assert admin.post(path).status_code == 404
    answer = admin.post("/rules/new", form_of(rival))
    assert answer.status_code == 400
    assert alerts.list_alerts(cast.acme, AlertFilter(is_open=False), 9) == []


def test_alerts_are_deleted_by_age_and_number(site: Site) -> None:
    site.add_rule(Condition.ENTERS, "north")
    for number in range(3):
        site.seen(site.add_asset(f"P{number}"), "north", number)
        site.evaluate()
    alerts.acknowledge(site.actor, site.alerts()[1].no, "")
    assert alerts.drop_over(2) == 1
    assert site.sentences() == ["Pallet P0 entered North", "Pallet P2 entered North"]
    assert alerts.drop_old(site.alerts()[1].made_at) == 1
    assert site.sentences() == ["Pallet P2 entered North"]


def test_the_scan_page_gets_the_newest_open_alerts(sign_in_as: Callable[..., Browser], cast: Cast) -> None:
    browser = sign_in_as(Role.OPERATOR)
    assert browser.get("/scan/alerts").json == {"total": 0, "newest": []}
    no = rules.add_rule(shell(cast.acme), RuleFields("Faults", Condition.UNHEALTHY, span=600 * SECOND))
    for organization_id, cause in ((cast.acme, "1"), (cast.rival, "2")):
        execute(
            "INSERT INTO alert (organization_id, rule_no, cause, subject_id, subject_name, subject_key, place_name, "
            "amount, occurred_at, made_at) VALUES (?, ?, ?, 0, 'disk is full', '', '', 0, 5000, 5000)",
            (organization_id, no, cause),
        )
    assert browser.get("/scan/alerts").json == {"total": 1, "newest": [["This box has a fault: disk is full", 5]]}
    assert sign_in_as(Role.VIEWER).get("/scan/alerts").status_code == 403


def test_a_viewer_gets_no_link_to_a_page_of_editors(sign_in_as: Callable[..., Browser], cast: Cast) -> None:
    by = shell(cast.acme)
    rule_no = rules.add_rule(by, RuleFields("Box", Condition.UNHEALTHY, span=clock.HOUR))
    states.fire(rules.get(cast.acme, rule_no), Occurrence("0:1", 0, "no backup", "", clock.now()))
    assert 'href="/status"' in sign_in_as(Role.EDITOR).get("/alerts/now").text
    text = sign_in_as(Role.VIEWER).get("/alerts/now").text
    assert "no backup" in text
    assert "/status" not in text
