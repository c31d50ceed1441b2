"""Account menu, API Keys, New Key: the only place to create credentials for the API (interface: Authentication 1)."""

from __future__ import annotations

from flask import render_template, request

from edge import clock
from edge.errors import Invalid
from edge.pages.actions import add_action
from edge.pages.double_submit import once
from edge.pages.forms import Errors
from edge.pages.guard import actor, administrators, organization_id
from edge.pages.translation import gettext
from edge.people import api_keys
from edge.people.secrets import hash_secret, new_client_secret
from edge.texts import N_

RESOURCES = {"assets": N_("Assets"), "locations": N_("Locations"), "tracking": N_("Tracking"), "feed": N_("Open feed")}
LEVELS = {"": (), "read": ("read",), "write": ("read", "write"), "write-only": ("write",)}
LEVEL_TITLES = {"": N_("No access"), "read": N_("Read"), "write": N_("Read and write"), "write-only": N_("Write only")}
EXPIRIES = {"": N_("Never"), "30": N_("In 30 days"), "90": N_("In 90 days"), "365": N_("In a year")}


@administrators.get("/keys", manual="api#keys-and-tokens")
def list_keys() -> str:
    return render_template("people/api-keys.html", keys=api_keys.list_keys(organization_id()), now=clock.now())


def _form(errors: Errors) -> str:
    return render_template(
        "people/new-api-key.html",
        errors=errors,
        values=request.form or {"tracking": "read"},
        resources=[(name, title, levels_of(name)) for name, title in RESOURCES.items()],
        expiries={days: gettext(words) for days, words in EXPIRIES.items()},
    )


@administrators.form("/keys/new", _form, "api#keys-and-tokens")
@once
def new_key() -> str:
    """Create a key. The response is the only page that shows the secret, so it is not a redirect."""
    form, secret = request.form, new_client_secret()
    days = form.get("expires", "")
    if days not in EXPIRIES:
        raise Invalid.one("expires", "invalid_value", N_("Choose one from the list"))
    expires_at = clock.now() + int(days) * clock.DAY if days else None
    name = form.get("name", "").strip()
    key = api_keys.add_key(actor(), name, _chosen_scopes(), hash_secret(secret), expires_at=expires_at)
    return render_template("people/api-key-created.html", key=key, secret=secret)


@administrators.get("/keys/<key_id>/revoke", manual="api#keys-and-tokens")
def ask_to_revoke(key_id: str) -> str:
    key = api_keys.get(organization_id(), key_id)
    return render_template("people/revoke-api-key.html", key=key)


add_action(administrators, "/keys/<key_id>/revoke", api_keys.revoke_key, "/keys", "revoked")


def levels_of(resource: str) -> dict[str, str]:
    """Return the access levels that the resource has scopes for."""
    return {
        level: LEVEL_TITLES[level]
        for level, steps in LEVELS.items()
        if all(f"{resource}:{step}" in api_keys.KEY_SCOPES for step in steps)
    }


def _chosen_scopes() -> list[str]:
    scopes = []
    for resource in RESOURCES:
        level = request.form.get(resource, "")
        if level not in levels_of(resource):
            raise Invalid.one("scopes", "invalid_value", N_("Choose one from the list"))
        scopes += [f"{resource}:{step}" for step in LEVELS[level]]
    return scopes
