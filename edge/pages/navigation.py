"""The places that a person can go to, for the sidebar and the bar of a phone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from edge.pages.guard import has_role, organization_id
from edge.pages.muster.musters import may_muster
from edge.people.people import Role
from edge.rules import alerts
from edge.rules.alerts import AlertFilter
from edge.texts import N_


class Place(NamedTuple):
    """A page, the lowest role that may see it, and the beginnings of other addresses that belong to it."""

    address: str
    name: str
    icon: str
    role: Role = Role.VIEWER
    also: tuple[str, ...] = ()

    def has(self, path: str) -> bool:
        return any(path == one or path.startswith(f"{one}/") for one in (self.address, *self.also))


HOME = Place("/home", N_("Home"), "home")
ASSETS = Place("/", N_("Assets"), "board", also=("/assets", "/bulk", "/past", "/not-seen", "/battery-low", "/filters"))
ALERTS = Place("/alerts", N_("Alerts"), "alerts")
SCAN = Place("/scan", N_("Scan"), "scan", Role.OPERATOR)
MUSTERS = Place("/musters", N_("Musters"), "musters")
OWN = (  # the account menu (interface: Authentication 1)
    Place("/account", N_("My account"), "account"),
    Place("/keys", N_("API Keys"), "keys", Role.ADMINISTRATOR),
    Place("/manual", N_("Manual"), "help", also=("/api/docs",)),
)
BAR = (HOME, ASSETS, SCAN, ALERTS)  # at the bottom of phones

GROUPS = (
    (N_("Overview"), (HOME, ALERTS, Place("/plans", N_("Floor plans"), "plans"))),
    (
        N_("Inventory"),
        (
            ASSETS,
            Place("/locations", N_("Locations"), "locations"),
            Place("/doors", N_("Doors"), "doors", also=("/passages",)),
        ),
    ),
    (
        N_("Work"),
        (
            SCAN,
            Place("/expected-lists", N_("Expected lists"), "lists"),
            Place("/stock-takes", N_("Stock-takes"), "stock-takes"),
            MUSTERS,
        ),
    ),
    (
        N_("Setup"),
        (
            Place("/readers", N_("Readers"), "readers", Role.EDITOR),
            Place("/rules", N_("Rules"), "rules"),
            Place("/channels", N_("Channels"), "channels", Role.ADMINISTRATOR),
            Place("/event-destinations", N_("Events"), "events", Role.ADMINISTRATOR),
            Place("/outputs", N_("Outputs"), "outputs", Role.ADMINISTRATOR),
            Place("/walls", N_("Kiosk displays"), "displays", Role.ADMINISTRATOR),
            Place("/labels", N_("Labels"), "labels"),
            Place("/import", N_("Import"), "import", Role.EDITOR),
            Place("/export", N_("Export"), "export"),
        ),
    ),
    (
        N_("Administration"),
        (
            Place("/people", N_("People"), "people", Role.ADMINISTRATOR),
            Place("/devices", N_("Devices"), "devices", Role.ADMINISTRATOR),
            Place("/keys", N_("API Keys"), "keys", Role.ADMINISTRATOR),
            Place("/sync", N_("Sync"), "sync", Role.ADMINISTRATOR),
            Place("/status", N_("Status"), "status", Role.EDITOR, also=("/certificate",)),
            Place("/audit", N_("Audit"), "audit", Role.ADMINISTRATOR),
        ),
    ),
)


def groups() -> list[tuple[str, list[Place]]]:
    """Return the groups of places for the role of the signed-in person, without empty ones."""
    shown = [(title, visible(places)) for title, places in GROUPS]
    return [(title, places) for title, places in shown if places]


def open_alerts() -> int:
    return alerts.count_alerts(organization_id(), AlertFilter())


def visible(places: Sequence[Place]) -> list[Place]:
    """Return the places for the role of the signed-in person."""
    return [one for one in places if has_role(one.role) and (one is not MUSTERS or may_muster())]
