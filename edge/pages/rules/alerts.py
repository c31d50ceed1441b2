"""Alerts: list, search and acknowledgement, and the newest ones on other pages."""

from __future__ import annotations

from typing import Any, NamedTuple

from flask import Response, abort, render_template, request
from werkzeug.datastructures import MultiDict

from edge.pages.actions import add_fragment
from edge.pages.forms import search_text, text, whole
from edge.pages.guard import Answer, actor, current_session, has_role, operators, viewers
from edge.pages.notices import done
from edge.pages.polling import fragment
from edge.pages.translation import gettext
from edge.people.people import Role
from edge.rules import alerts, rules
from edge.rules.alerts import Alert, AlertFilter
from edge.rules.conditions import CONDITIONS

SHOWN = 50
NEWEST = 3


@viewers.get("/alerts", manual="rules#alerts")
def list_alerts() -> str:
    return render_template(
        "rules/alerts.html", rules=rules.list_rules(current_session().organization_id), **_alerts_now()
    )


@viewers.get("/alerts/open")
def open_alerts_now() -> Response:
    """Return the newest open alerts. Board and plans poll this."""
    return fragment("rules/_open.html", open_alerts())


@operators.post("/alerts/<int:no>/acknowledge")
def acknowledge_alert(no: int) -> Answer:
    alerts.acknowledge(actor(), no, text(request.form, "note"))
    return done("/alerts", "acknowledged")


@operators.post("/alerts/acknowledge")
def acknowledge_alerts() -> Answer:
    """Acknowledge the open alerts of the list, up to the newest one that the page showed."""
    newest = request.form.get("newest", type=whole)
    if newest is None:
        abort(400)
    alerts.acknowledge_all(actor(), _query(request.form), newest, text(request.form, "note"))
    return done("/alerts", "acknowledged")


class OpenAlerts(NamedTuple):
    """The newest open alerts, with what happened, and the number of all."""

    newest: list[tuple[Alert, str]]
    total: int


def open_alerts() -> OpenAlerts:
    """Return the open alerts for `_open.html`."""
    organization_id = current_session().organization_id
    newest = alerts.list_alerts(organization_id, AlertFilter(), NEWEST)
    total = alerts.count_alerts(organization_id, AlertFilter()) if len(newest) == NEWEST else len(newest)
    return OpenAlerts([(alert, sentence(alert)) for alert in newest], total)


def sentence(alert: Alert) -> str:
    """Return what happened, and which musters did not start, in the language of the page."""
    failed = [gettext(alerts.NOT_STARTED[reason]) % {"name": name} for reason, name in alert.obstacles]
    return ". ".join([gettext(CONDITIONS[alert.kind].alert) % alert.values, *failed])


def address_of(alert: Alert) -> str | None:
    """Return the page of the subject of an alert, None if it is not for the role of the person."""
    subject = CONDITIONS[alert.kind].subject
    if subject.is_for_editors and not has_role(Role.EDITOR):
        return None
    return subject.page.format(alert.subject_id)


def _alerts_now() -> dict[str, Any]:
    before = request.args.get("before", type=whole)
    query, organization_id = _query(request.args), current_session().organization_id
    rows = alerts.list_alerts(organization_id, query, SHOWN + 1, before)
    is_listed_whole = before is None and len(rows) <= SHOWN
    return {
        "total": len(rows) if is_listed_whole else alerts.count_alerts(organization_id, query),
        "rows": rows[:SHOWN],
        "is_newest_page": before is None,
        "more": rows[SHOWN - 1].no if len(rows) > SHOWN else None,
        "query": query,
        "sentence": sentence,
        "address_of": address_of,
        "asked": request.query_string.decode("ascii", "replace"),
    }


add_fragment(viewers, "/alerts/now", "rules/_alerts.html", _alerts_now, "rows", "more", "total")


def _query(values: MultiDict[str, str]) -> AlertFilter:
    return AlertFilter(
        search_text(values.get("q", "")),
        values.get("show") != "all",
        values.get("rule", type=whole),
    )
