"""Outputs of an organization: device, topic and time. `worker` switches them, see `output_state`."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from edge import clock
from edge.audit.actors import Actor
from edge.audit.audit import acting
from edge.database.connection import execute, scalar
from edge.errors import Conflict
from edge.events.family import Destination, columns, declare
from edge.outbound import Network
from edge.people.topic_owners import check_owned
from edge.readers import broker_files, output_topics
from edge.rules.outputs.forms import Command, Entered, Form
from edge.texts import N_, fill
from edge.validation import json_text
from edge.validation.topics import overlap

MOST_LAST_COMMANDS = 100


def entered_of(row: Destination) -> Entered:
    """Return the fields of the form of an output."""
    names = ("device", "relay", *Command._fields, "seconds")
    device, relay, *command, seconds = (row.settings[name] for name in names)
    return Entered(Form(row.kind), device, relay, Command(*command), seconds)


def _audit_detail(row: Destination) -> dict[str, Any]:
    fields = ("topic", "on_payload", "off_payload", "seconds")
    return {"name": row.name, "form": row.kind, **{name: row.settings[name] for name in fields}}


KIND = declare(
    "output",
    "output",
    N_("An output %(name)s already exists; choose another name"),
    _audit_detail,
    trouble_after=60 * clock.SECOND,  # tolerates a restart of the broker
)
get, list_outputs, troubles = KIND.get, KIND.list_of, KIND.troubles
disable, request_test = KIND.disable, KIND.request_test


def add(actor: Actor, name: str, entered: Entered) -> Destination:
    """Add an output. Raises Conflict if the name or the topic is in use, or there are too many outputs."""
    with acting(actor):
        _check_topic(actor.organization_id, entered, None)
        return KIND.add(actor, {**_columns(name, entered), "secret": b""})


def change(actor: Actor, no: int, name: str, entered: Entered) -> Destination:
    """Change an output, which switches off and begins again. Raises NotFound and Conflict."""
    with acting(actor):
        before = get(actor.organization_id, no)
        _check_topic(actor.organization_id, entered, no)
        if entered_of(before).command != entered.command:
            _keep_last_command(before)
        changed = _columns(name, entered, before.settings["account"])
        return KIND.change(actor, no, {**changed, "tested_at": None})


def remove(actor: Actor, no: int) -> None:
    """Remove an output, which is switched off first. Raises NotFound."""
    with acting(actor):
        _keep_last_command(KIND.remove(actor, no))


def enable(actor: Actor, no: int) -> None:
    """Let new alerts switch an output. Raises NotFound."""
    with acting(actor):
        KIND.enable(actor, no, position=newest_alert())


def issue_account(actor: Actor, no: int, broker: str) -> tuple[str, str]:
    """Return account and new password of the device at the broker. Raises NotFound.

    `broker`: URL of the broker. The password is valid after the next `broker_files.write_files`.
    """
    password, own = broker_files.new_password(), broker_files.own_account(broker, "").name
    with acting(actor):
        row = get(actor.organization_id, no)
        account = row.settings["account"] or _free_account(no, broker_files.reserved_names(own))
        settings = json_text.text({**row.settings, "account": account})
        stored = {"settings": settings, "secret": broker_files.new_hash(password).encode()}
        KIND.change(actor, no, stored, account=account, password="changed")  # noqa: S106  a word of the audit
    return account, password


def newest_alert() -> int:
    """Return the number of the newest alert of all organizations; alerts up to it switch nothing."""
    return scalar("SELECT ifnull(max(seq), 0) FROM sqlite_sequence WHERE name = 'alert'")


def _columns(name: str, entered: Entered, account: str | None = None) -> dict[str, Any]:
    settings = {"device": entered.device, "relay": entered.relay, **entered.command._asdict()}
    settings |= {"seconds": entered.seconds, "account": account}
    return {**columns(entered.form, name, settings, Network.LOOPBACK), "position": newest_alert()}


def _keep_last_command(row: Destination) -> None:
    """Keep the command that switches off, because the device may be on."""
    payload = row.settings["off_payload"]
    if not payload:
        return
    execute("INSERT OR REPLACE INTO output_last_command VALUES (?, ?, ?)", (row.topic, payload, clock.now()))
    execute(
        "DELETE FROM output_last_command WHERE (topic, payload) NOT IN "
        "(SELECT topic, payload FROM output_last_command ORDER BY made_at DESC LIMIT ?)",
        (MOST_LAST_COMMANDS,),
    )


def _check_topic(organization_id: int, entered: Entered, no: int | None) -> None:
    """Raise Conflict if the topic is in use by another output or by a reader of any organization.

    Relays of one Shelly share its topic.
    """
    topic = entered.command.topic
    check_owned(organization_id, topic)
    for row in KIND.where("settings ->> 'topic' = ? AND no IS NOT ?", topic, no):
        if not row.kind == entered.form == Form.SHELLY:
            raise Conflict(fill(N_("Another output uses the topic %(topic)s"), topic=topic))
        if row.settings["relay"] == entered.relay:
            text = N_("%(name)s uses relay %(relay)s of this device")
            raise Conflict(fill(text, name=row.name, relay=entered.relay))
    for read in execute("SELECT topic, status_topic FROM reader WHERE deleted_at IS NULL"):
        if any(overlap(topic, one) for one in filter(None, read)):
            raise Conflict(fill(N_("A reader uses the topic %(topic)s; choose another topic"), topic=topic))


def _free_account(no: int, reserved: Collection[str]) -> str:
    name, number = f"output-{no}", 1
    while name in reserved or output_topics.is_account_taken(name):
        number += 1
        name = f"output-{no}-{number}"
    return name
