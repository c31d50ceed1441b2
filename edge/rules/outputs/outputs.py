"""Outputs of an organization: device, topic and time, and whether an alert or a test has them switched on.

An output has no queue of commands: its state follows from the alerts, so a crash at any point loses none. `worker`
switches them.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple

from edge import clock
from edge.audit.actors import Actor
from edge.audit.audit import acting
from edge.database.connection import execute, scalar, writing
from edge.errors import Conflict
from edge.events.family import Destination, columns, declare
from edge.outbound import Network
from edge.people.topic_owners import check_owned
from edge.readers import broker_files, output_topics
from edge.rules.outputs.forms import LONGEST_ON, Command, Entered, Form
from edge.texts import N_, fill
from edge.validation import json_text
from edge.validation.topics import overlap

MOST_LAST_COMMANDS = 100
TEST_SECONDS = 3
LATE = 5 * 60 * clock.SECOND  # from the occurrence to the alert: too late for a horn or a gate
CLOCK_STEP = 5 * clock.SECOND  # an alert that is further in the future was made before the clock was set back
MOST_READ = 100  # newest alerts of each rule
MAX_ERROR = 300

_NEWEST = """
SELECT made_at, occurred_at FROM alert
WHERE rule_no = ? AND acknowledged_at IS NULL AND made_at > ? AND made_at <= ? AND no > ? ORDER BY made_at DESC LIMIT ?
"""


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


class LastCommand(NamedTuple):
    topic: str
    payload: str


def rules_of_outputs() -> dict[int, list[tuple[int, int]]]:
    """Return the enabled rules that switch each output, each with the alert after which it does."""
    switching: dict[int, list[tuple[int, int]]] = {}
    rows = execute(
        "SELECT no, after_alert, outputs FROM rule "
        "WHERE outputs != '' AND deleted_at IS NULL AND disabled_at IS NULL ORDER BY no"
    )
    for no, after_alert, numbers in rows:
        for number in numbers.split():
            switching.setdefault(int(number), []).append((no, after_alert))
    return switching


def on_until(row: Destination, rules: list[tuple[int, int]], now: int) -> int:
    """Return the time until which an output is switched on; at most `now` if it is off.

    Alerts from before the output or the rule was changed do not count.
    """
    if row.disabled_at is not None:
        return 0
    until = 0
    if row.tested_at is not None and row.tested_at <= now + CLOCK_STEP:
        until = row.tested_at + TEST_SECONDS * clock.SECOND
    seconds = row.settings["seconds"]
    lasting = (seconds or LONGEST_ON) * clock.SECOND
    for rule_no, after_alert in rules:
        values = (rule_no, now - lasting, now + CLOCK_STEP, max(row.position, after_alert), MOST_READ)
        for made_at, occurred_at in execute(_NEWEST, values):
            if seconds == 0 or made_at - occurred_at <= LATE:
                until = max(until, made_at + lasting)
                break
    return until


def record(key: int, now: int, *, is_on: bool) -> None:
    """Store that the broker has acknowledged a command."""
    with writing():
        execute(
            "UPDATE destination SET is_on = ?, last_success_at = ?, failing_since = NULL, last_error = NULL "
            "WHERE id = ?",
            (is_on, now, key),
        )


def record_failure(key: int, error: str, now: int) -> None:
    with writing():
        execute(
            "UPDATE destination SET failing_since = ifnull(failing_since, ?), last_error = ? WHERE id = ?",
            (now, error[:MAX_ERROR], key),
        )


def last_commands() -> list[LastCommand]:
    rows = execute("SELECT topic, payload FROM output_last_command ORDER BY made_at")
    return [LastCommand(*row) for row in rows]


def drop_last_command(one: LastCommand) -> None:
    """Delete a command that the broker has acknowledged, unless another one has replaced it."""
    with writing():
        execute("DELETE FROM output_last_command WHERE topic = ? AND payload = ?", one)


def drop_old_commands(now: int) -> None:
    """Delete commands that no broker has taken for a day."""
    if execute("SELECT 1 FROM output_last_command WHERE made_at < ?", (now - clock.DAY,)).fetchone():
        with writing():
            execute("DELETE FROM output_last_command WHERE made_at < ?", (now - clock.DAY,))


def is_needed() -> bool:
    """Return True if there is an output, or a last command to send."""
    return KIND.exists() or bool(last_commands())
