"""The audit trail with filters, and the history of changes of one record. For administrators."""

from __future__ import annotations

from urllib.parse import urlencode

from flask import render_template, request

from edge.audit import trail
from edge.audit.actors import ActorKind
from edge.audit.trail import BOX, AuditFilter
from edge.pages.dates import begin_of_day
from edge.pages.forms import search_text, typable
from edge.pages.guard import administrators, organization_id
from edge.pages.paging import offset_asked, pager
from edge.pages.translation import gettext
from edge.people import api_keys, people
from edge.texts import N_

PER_PAGE = 50
KINDS = {
    "": N_("Everything"),
    "asset": N_("Assets"),
    "bulk_change": N_("Changes of many assets"),
    "location": N_("Locations"),
    "saved_filter": N_("Saved filters"),
    "reader": N_("Readers"),
    "door": N_("Doors"),
    "channel": N_("Channels"),
    "output": N_("Outputs"),
    "wall": N_("Kiosk displays"),
    "rule": N_("Rules"),
    "alert": N_("Alerts"),
    "expected_list": N_("Expected lists"),
    "muster": N_("Musters"),
    "muster_plan": N_("Plans for musters"),
    "person": N_("People and sign-ins"),
    "people_setting": N_("Positions of people"),
    "key": N_("API keys"),
    "device": N_("Devices"),
    "setting": N_("Settings"),
    "event_destination": N_("Event destinations"),
    "upstream": N_("The upstream service"),
    "upstream_bridge": N_("Bridge to another broker"),
    "stock_take": N_("Stock-takes"),
    "scan": N_("Undone scans"),
    "unknown_tag": N_("Unknown tags"),
    "topic": N_("Unassigned topics"),
    "dead_letter": N_("Dead letters"),
    "label_printer": N_("Label printer"),
    "backup": N_("Downloaded backups"),
    "site": N_("Sites"),
    "hub": N_("The hub"),
    "organization": N_("The organization"),
    BOX: N_("This box"),
}


@administrators.get("/audit", manual="office#audit")
def show_audit() -> str:
    query, offset = _requested(), offset_asked()
    return render_template(
        "audit.html",
        page=trail.list_page(organization_id(), query, limit=PER_PAGE, offset=offset),
        query=query,
        actors=_actors(),
        kinds={kind: gettext(title) for kind, title in KINDS.items()},
        given={name: request.args.get(name, "") for name in ("actor", "since", "until")},
        **pager(PER_PAGE, _address),
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
    actors = {f"{ActorKind.PERSON}:{row.id}": row.name for row in people.list_people(organization_id())}
    actors |= {
        f"{ActorKind.API_KEY}:{row.id}": gettext("API key %(name)s") % {"name": row.name}
        for row in api_keys.list_keys(organization_id(), include_revoked=True)
    }
    return {
        "": gettext("Anybody"),
        **actors,
        f"{ActorKind.SHELL}:": gettext("The shell"),
        f"{ActorKind.SERVICE}:": gettext("The service"),
    }


def _address(offset: int) -> str:
    given = {name: value for name, value in request.args.items() if name != "offset" and value}
    return "/audit?" + urlencode(given | {"offset": offset})
