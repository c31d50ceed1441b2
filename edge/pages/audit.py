"""The audit trail with filters, and the history of changes of one record. For administrators."""

from __future__ import annotations

from urllib.parse import urlencode

from flask import render_template, request

from edge.audit import trail
from edge.audit.actors import ActorKind
from edge.audit.trail import BOX, AuditFilter
from edge.pages.dates import begin_of_day
from edge.pages.forms import search_text, typable
from edge.pages.guard import current_session, pages, require_role
from edge.pages.paging import offset_asked
from edge.people import api_keys, people
from edge.people.people import Role

PER_PAGE = 50
KINDS = {
    "": "Everything",
    "asset": "Assets",
    "bulk_change": "Changes of many assets",
    "location": "Locations",
    "saved_filter": "Saved filters",
    "reader": "Readers",
    "door": "Doors",
    "channel": "Channels",
    "output": "Outputs",
    "wall": "Walls",
    "rule": "Rules",
    "alert": "Alerts",
    "expected_list": "Expected lists",
    "muster": "Musters",
    "muster_plan": "Plans for musters",
    "person": "People and sign-ins",
    "people_setting": "Positions of people",
    "key": "API keys",
    "device": "Devices",
    "setting": "Settings",
    "event_destination": "Event destinations",
    "stock_take": "Stock-takes",
    "scan": "Undone scans",
    "unknown_tag": "Unknown tags",
    "topic": "Unassigned topics",
    "dead_letter": "Dead letters",
    "label_printer": "Label printer",
    "backup": "Downloaded backups",
    "site": "Sites",
    "hub": "The hub",
    "organization": "The organization",
    BOX: "This box",
}


@pages.get("/audit")
@require_role(Role.ADMINISTRATOR)
def show_audit() -> str:
    query, offset = _requested(), offset_asked()
    return render_template(
        "audit.html",
        page=trail.list_page(current_session().organization_id, query, limit=PER_PAGE, offset=offset),
        query=query,
        actors=_actors(),
        kinds=KINDS,
        given={name: request.args.get(name, "") for name in ("actor", "since", "until")},
        offset=offset,
        per_page=PER_PAGE,
        earlier=_address(max(offset - PER_PAGE, 0)),
        later=_address(offset + PER_PAGE),
    )


def _requested() -> AuditFilter:
    values = request.args
    kind, _, actor_id = values.get("actor", "").partition(":")
    return AuditFilter(
        actor_kind=typable(kind)[:20],
        actor_id=typable(actor_id)[:64],
        subject_kind=typable(values.get("kind", ""))[:20],
        subject_id=typable(values.get("id", ""))[:64],
        subject=search_text(values.get("q", "")),
        since=begin_of_day(values.get("since", "")),
        until=begin_of_day(values.get("until", ""), days_later=1),
    )


def _actors() -> dict[str, str]:
    """Return everybody who may have acted: people, API keys, the shell, the service."""
    organization_id = current_session().organization_id
    actors = {f"{ActorKind.PERSON}:{row.id}": row.name for row in people.list_people(organization_id)}
    actors |= {
        f"{ActorKind.API_KEY}:{row.id}": f"API key {row.name}"
        for row in api_keys.list_keys(organization_id, include_revoked=True)
    }
    return {"": "Anybody", **actors, f"{ActorKind.SHELL}:": "The shell", f"{ActorKind.SERVICE}:": "The service"}


def _address(offset: int) -> str:
    given = {name: value for name, value in request.args.items() if name != "offset" and value}
    return "/audit?" + urlencode(given | {"offset": offset})
