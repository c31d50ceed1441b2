"""Channels that notify people of alerts: list, state of delivery, management, and a test."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flask import render_template, request

from edge.errors import EdgeError, Invalid, SetupError
from edge.outbound import Network
from edge.pages.actions import add_actions
from edge.pages.double_submit import once
from edge.pages.forms import Errors, errors_of
from edge.pages.guard import Answer, actor, administrators, current_session
from edge.pages.notices import done
from edge.people import secrets
from edge.people.secrets import new_token
from edge.rules.channels import channels, outbox, settings
from edge.rules.channels.channels import Channel, ChannelKind, NewChannel
from edge.texts import N_, fill
from edge.validation import values

PATH = "/channels"
_SERVER = {ChannelKind.EMAIL: ("host", "port"), ChannelKind.NTFY: ("url",)}
_SECRET_FIELDS = {ChannelKind.EMAIL: "password", ChannelKind.NTFY: "token", ChannelKind.WEBHOOK: "url"}
_SECRET_FOR = {ChannelKind.EMAIL: ("host", "user"), ChannelKind.NTFY: ("url",), ChannelKind.WEBHOOK: ()}
_LONGEST_SECRET = {ChannelKind.EMAIL: 200, ChannelKind.NTFY: 200, ChannelKind.WEBHOOK: 1000}


@administrators.get(PATH, manual="channels#add-a-channel")
def list_channels() -> str:
    rows = channels.list_channels(current_session().organization_id)
    return render_template("rules/channels.html", rows=[(row, outbox.count_waiting(row.no)) for row in rows])


@administrators.get(f"{PATH}/new", manual="channels#add-a-channel")
def new_channel_form() -> str:
    entered = {"kind": _kind(request.args), "security": "starttls", "is_sent_when_over": "on", "digest": "0"}
    return _form(None, {}, entered)


@administrators.post(f"{PATH}/new")
@once
def new_channel() -> Answer:
    try:
        row = channels.add(actor(), _entered(request.form, None))
    except EdgeError as error:
        return _form(None, errors_of(error), request.form), 400
    return done(f"{PATH}/{row.no}", "channel-added")


@administrators.get(f"{PATH}/<int:no>", manual="channels#delivery")
def channel(no: int) -> str:
    row = channels.get(current_session().organization_id, no)
    return render_template("rules/channel.html", row=row, waiting=outbox.count_waiting(no))


@administrators.get(f"{PATH}/<int:no>/edit", manual="channels#add-a-channel")
def edit_channel_form(no: int) -> str:
    row = channels.get(current_session().organization_id, no)
    return _form(row, {}, _values(row))


@administrators.post(f"{PATH}/<int:no>/edit")
def edit_channel(no: int) -> Answer:
    row = channels.get(current_session().organization_id, no)
    try:
        channels.change(actor(), no, _entered(request.form, row))
    except EdgeError as error:
        return _form(row, errors_of(error), request.form), 400
    return done(f"{PATH}/{no}", "changed")


add_actions(PATH, "channel", channels)


def _kind(form: Mapping[str, str]) -> ChannelKind:
    kind = form.get("kind", "")
    return ChannelKind(kind) if kind in list(ChannelKind) else ChannelKind.EMAIL


def _entered(form: Mapping[str, str], row: Channel | None) -> NewChannel:
    """Parse the form; `row` is the channel that it changes. Raises Invalid.

    A saved secret is kept for the same server and user only, so it cannot be sent elsewhere. This box itself can be
    allowed as a destination only in its shell; that stays allowed for the same address only.
    """
    kind = row.kind if row else _kind(form)
    secret = form.get(_SECRET_FIELDS[kind], "")
    secret = secret if kind is ChannelKind.EMAIL else secret.strip()
    if len(secret) > _LONGEST_SECRET[kind]:
        raise Invalid.one(
            _SECRET_FIELDS[kind], "too_long", fill(N_("At most %(most)s characters"), most=_LONGEST_SECRET[kind])
        )
    if not secret.isascii() and kind is not ChannelKind.EMAIL:
        raise Invalid.one(_SECRET_FIELDS[kind], "invalid_value", N_("only ASCII characters"))
    network = Network.PRIVATE if form.get("private") else Network.INTERNET
    is_kept = not secret and row is not None and bool(row.secret) and _is_same(form, row, *_SECRET_FOR[kind])
    if kind is ChannelKind.EMAIL:
        checked = settings.checked_mail(form, has_password=bool(secret) or is_kept, network=network)
    elif kind is ChannelKind.NTFY:
        checked = settings.checked_ntfy(form, network=network)
    else:
        url = _saved_url(row) if is_kept and row else secret
        checked = settings.checked_webhook(form, url, network=network)
    if row and row.network is Network.LOOPBACK and _has_same_address(row, checked, is_kept=is_kept):
        network = row.network
    sealed = secrets.seal(secret) if secret else None if is_kept else b""
    name = values.name("name", form.get("name", "").strip())
    return NewChannel(kind, name, checked, sealed, settings.schedule(form), network)


def _has_same_address(row: Channel, checked: Mapping[str, Any], *, is_kept: bool) -> bool:
    if row.kind is ChannelKind.WEBHOOK:
        return is_kept
    return all(checked[field] == row.settings[field] for field in _SERVER[row.kind])


def _saved_url(row: Channel) -> str:
    """Return the URL of a webhook; empty, so that it must be entered, if it was sealed on another box."""
    try:
        return secrets.unseal(row.secret)
    except SetupError:
        return ""


def _is_same(form: Mapping[str, str], row: Channel, *fields: str) -> bool:
    return all(form.get(field, "").strip() == str(row.settings[field]) for field in fields)


def _values(row: Channel) -> dict[str, str]:
    """Return the values of the form for a channel. The secret is never shown."""
    return {
        **settings.shown(row.settings),
        "name": row.name,
        "kind": row.kind,
        "private": "on" if row.network is not Network.INTERNET else "",
        "digest": str(row.digest // 60),
        "quiet_from": values.time_of_day(row.quiet_from),
        "quiet_until": values.time_of_day(row.quiet_until),
        "is_sent_when_over": "on" if row.is_sent_when_over else "",
    }


def _form(row: Channel | None, errors: Errors, entered: Mapping[str, str]) -> str:
    kind = row.kind if row else _kind(entered)
    return render_template(
        "rules/channel-form.html", row=row, kind=kind, errors=errors, values=entered, once=new_token()
    )
