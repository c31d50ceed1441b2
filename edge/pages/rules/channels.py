"""Channels that notify people of alerts: list, state of delivery, management, and a test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from flask import render_template, request

from edge.errors import Invalid, SetupError
from edge.events.family import Destination, last_test
from edge.outbound import Network
from edge.pages.actions import add_actions, add_forms
from edge.pages.forms import Errors
from edge.pages.guard import administrators, current_session
from edge.people import secrets
from edge.people.secrets import new_token
from edge.rules.channels import channels, outbox
from edge.rules.channels import schedule as channel_schedule
from edge.rules.channels.channels import NewChannel, schedule_of
from edge.rules.channels.kind import ChannelKind
from edge.rules.channels.kinds import KINDS
from edge.texts import N_, fill
from edge.validation import values

PATH = "/channels"
FIRST_KIND = next(iter(KINDS))
EMPTY = {"is_sent_when_over": "on", "digest": "0"}


@administrators.get(PATH, manual="channels#add-a-channel")
def list_channels() -> str:
    rows = channels.list_channels(current_session().organization_id)
    found = [(row, outbox.count_waiting(row), KINDS[row.kind].facts(row.settings)) for row in rows]
    return render_template("rules/channels.html", rows=found, kinds=KINDS, first=FIRST_KIND)


@administrators.get(f"{PATH}/<int:no>", manual="channels#delivery")
def channel(no: int) -> str:
    row = channels.get(current_session().organization_id, no)
    return render_template(
        "rules/channel.html",
        row=row,
        waiting=outbox.count_waiting(row),
        facts=KINDS[row.kind].facts(row.settings),
        schedule=schedule_of(row),
        test=last_test(row),
    )


def _kind(name: str) -> str:
    return name if name in KINDS else FIRST_KIND


def _entered(form: Mapping[str, str], row: Destination | None) -> tuple[NewChannel]:
    """Parse the form; `row` is the channel that it changes. Raises Invalid.

    A saved secret is kept for the same server and user only, so it cannot be sent elsewhere. This box itself can be
    allowed as a destination only in its shell; that stays allowed for the same address only.
    """
    name = row.kind if row else _kind(form.get("kind", ""))
    kind = KINDS[name]
    secret = _secret(form, kind)
    network = Network.PRIVATE if form.get("private") else Network.INTERNET
    is_kept = not secret and row is not None and bool(row.secret) and _is_same(form, row, kind.secret_for)
    checked = kind.check(form, _saved(row) if row and is_kept else secret, network)
    if row and row.network is Network.LOOPBACK and _has_same_address(row, checked, is_kept=is_kept):
        network = row.network
    sealed = secrets.seal(secret) if secret else None if is_kept else b""
    title = values.name("name", form.get("name", "").strip())
    return (NewChannel(name, title, checked, sealed, channel_schedule.checked(form), network),)


def _secret(form: Mapping[str, str], kind: ChannelKind) -> str:
    secret = form.get(kind.secret, "")
    secret = secret if kind.is_secret_typed else secret.strip()
    if len(secret) > kind.longest_secret:
        message = fill(N_("At most %(most)s characters"), most=kind.longest_secret)
        raise Invalid.one(kind.secret, "too_long", message)
    if not secret.isascii() and not kind.is_secret_typed:
        raise Invalid.one(kind.secret, "invalid_value", N_("only ASCII characters"))
    return secret


def _has_same_address(row: Destination, checked: Mapping[str, Any], *, is_kept: bool) -> bool:
    kind = KINDS[row.kind]
    return all(is_kept if name == kind.secret else checked[name] == row.settings[name] for name in kind.address)


def _saved(row: Destination) -> str:
    """Return the saved secret, or an empty text if it was sealed on another box and must be entered."""
    try:
        return secrets.unseal(row.secret)
    except SetupError:
        return ""


def _is_same(form: Mapping[str, str], row: Destination, names: Sequence[str]) -> bool:
    return all(form.get(name, "").strip() == str(row.settings[name]) for name in names)


def _values(row: Destination) -> dict[str, str]:
    """Return the values of the form for a channel. The secret is never shown."""
    schedule = schedule_of(row)
    return {
        **{field: ", ".join(one) if isinstance(one, list) else str(one) for field, one in row.settings.items()},
        "name": row.name,
        "private": "on" if row.network is not Network.INTERNET else "",
        "digest": str(schedule.digest // 60),
        "quiet_from": values.time_of_day(schedule.quiet_from),
        "quiet_until": values.time_of_day(schedule.quiet_until),
        "is_sent_when_over": "on" if schedule.is_sent_when_over else "",
    }


def _form(row: Destination | None, errors: Errors | None = None, entered: Mapping[str, str] | None = None) -> str:
    if entered is None:
        entered = _values(row) if row else {**EMPTY, "kind": request.args.get("kind", "")}
    name = row.kind if row else _kind(entered.get("kind", ""))
    return render_template(
        "rules/channel-form.html",
        row=row,
        name=name,
        kind=KINDS[name],
        errors=errors or {},
        values=entered,
        once=new_token(),
    )


add_forms(PATH, "channel", "channels#add-a-channel", channels, _form, _entered)
add_actions(PATH, "channel", channels)
