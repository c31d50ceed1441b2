"""Outputs of an organization: device, topic and time. `worker` switches them.

Changes made by users are audited. What the broker has acknowledged is not; see `output_state`.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple

from edge import clock
from edge.audit.actors import Actor
from edge.audit.audit import Subject, acting, changed
from edge.database.connection import execute
from edge.errors import Conflict, NotFound
from edge.people.topic_owners import check_owned
from edge.readers import broker_files, output_topics
from edge.rules.outputs.forms import Command, Entered, Form
from edge.texts import N_, fill
from edge.validation.topics import overlap

NEWEST_ALERT = "(SELECT ifnull(max(seq), 0) FROM sqlite_sequence WHERE name = 'alert')"
MOST_LAST_COMMANDS = 100
TROUBLE_AFTER = 60 * clock.SECOND  # tolerates a restart of the broker


class Output(NamedTuple):
    """A row of the table `output`."""

    no: int
    organization_id: int
    name: str
    form: Form
    device: str
    relay: int
    topic: str
    on_payload: str
    off_payload: str
    seconds: int
    created_at: int
    after_alert: int
    disabled_at: int | None
    tested_at: int | None
    account: str | None
    is_on: bool
    switched_at: int | None
    failing_since: int | None
    last_error: str | None

    @property
    def command(self) -> Command:
        return Command(self.topic, self.on_payload, self.off_payload)


_SELECT = f"SELECT {', '.join(Output._fields)} FROM output"


def add(actor: Actor, name: str, entered: Entered) -> Output:
    """Add an output. Raises Conflict if the name or the topic is in use, or there are too many outputs."""
    with acting(actor) as act:
        _check(actor.organization_id, name, entered, None)
        no = execute(
            "INSERT INTO output (organization_id, name, form, device, relay, topic, on_payload, off_payload, seconds, "
            f"created_at, after_alert) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, {NEWEST_ALERT}) RETURNING no",
            (actor.organization_id, name, *_columns(entered), clock.now()),
        ).fetchone()[0]
        row = get(actor.organization_id, no)
        act.note("output.created", _subject(row), _audit_detail(row))
    return row


def change(actor: Actor, no: int, name: str, entered: Entered) -> Output:
    """Change an output, which switches off and begins again. Raises NotFound and Conflict."""
    with acting(actor) as act:
        before = get(actor.organization_id, no)
        _check(actor.organization_id, name, entered, no)
        if before.command != entered.command:
            _keep_last_command(before)
        execute(
            "UPDATE output SET name = ?, form = ?, device = ?, relay = ?, topic = ?, on_payload = ?, off_payload = ?, "
            f"seconds = ?, after_alert = {NEWEST_ALERT}, tested_at = NULL WHERE no = ?",
            (name, *_columns(entered), no),
        )
        row = get(actor.organization_id, no)
        act.note_changes("output.changed", _subject(row), changed(_audit_detail(before), _audit_detail(row)))
    return row


def remove(actor: Actor, no: int) -> None:
    """Remove an output, which is switched off first. Raises NotFound."""
    with acting(actor) as act:
        row = get(actor.organization_id, no)
        _keep_last_command(row)
        execute("DELETE FROM output WHERE no = ?", (no,))
        act.note("output.deleted", _subject(row))


def enable(actor: Actor, no: int) -> None:
    """Let new alerts switch an output. Raises NotFound."""
    with acting(actor) as act:
        row = get(actor.organization_id, no)
        execute(f"UPDATE output SET disabled_at = NULL, after_alert = {NEWEST_ALERT} WHERE no = ?", (no,))
        act.note("output.enabled", _subject(row))


def disable(actor: Actor, no: int) -> None:
    """Switch an output off until `enable`. Raises NotFound."""
    with acting(actor) as act:
        row = get(actor.organization_id, no)
        execute(
            "UPDATE output SET disabled_at = ifnull(disabled_at, ?), tested_at = NULL WHERE no = ?", (clock.now(), no)
        )
        act.note("output.disabled", _subject(row))


def request_test(actor: Actor, no: int) -> None:
    """Have the service switch an output on for some seconds. Raises NotFound, and Conflict if it is disabled."""
    with acting(actor) as act:
        row = get(actor.organization_id, no)
        if row.disabled_at is not None:
            raise Conflict(fill(N_("%(name)s is disabled; enable it first"), name=row.name))
        execute("UPDATE output SET tested_at = ? WHERE no = ?", (clock.now(), no))
        act.note("output.tested", _subject(row))


def issue_account(actor: Actor, no: int, broker: str) -> tuple[str, str]:
    """Return account and new password of the device at the broker. Raises NotFound.

    `broker`: URL of the broker. The password is valid after the next `broker_files.write_files`.
    """
    password, own = broker_files.new_password(), broker_files.own_account(broker, "").name
    with acting(actor) as act:
        row = get(actor.organization_id, no)
        account = row.account or _free_account(no, broker_files.reserved_names(own))
        execute(
            "UPDATE output SET account = ?, password_hash = ? WHERE no = ?",
            (account, broker_files.new_hash(password), no),
        )
        act.note("output.changed", _subject(row), {"account": account, "password": "changed"})
    return account, password


def get(organization_id: int, no: int) -> Output:
    """Return an output. Raises NotFound."""
    row = execute(f"{_SELECT} WHERE organization_id = ? AND no = ?", (organization_id, no)).fetchone()
    if row is None:
        raise NotFound("no such output")
    return _output(row)


def list_outputs(organization_id: int) -> list[Output]:
    rows = execute(f"{_SELECT} WHERE organization_id = ? ORDER BY name COLLATE NOCASE", (organization_id,))
    return [_output(row) for row in rows]


def all_outputs() -> list[Output]:
    """Return the outputs of all organizations. For the worker, metrics and checks."""
    return [_output(row) for row in execute(f"{_SELECT} ORDER BY no")]


def troubles() -> list[str]:
    """Return the outputs that could not be switched for a minute, each with the reason."""
    since = clock.now() - TROUBLE_AFTER
    failing = [row for row in all_outputs() if row.failing_since is not None and row.failing_since < since]
    return [f"{row.name}: {row.last_error}" for row in failing]


def _output(row: tuple[Any, ...]) -> Output:
    output = Output(*row)
    return output._replace(form=Form(output.form), is_on=bool(output.is_on))


def _columns(entered: Entered) -> tuple[str | int, ...]:
    return (entered.form, entered.device, entered.relay, *entered.command, entered.seconds)


def _keep_last_command(row: Output) -> None:
    """Keep the command that switches off, because the device may be on."""
    if not row.off_payload:
        return
    execute("INSERT OR REPLACE INTO output_last_command VALUES (?, ?, ?)", (row.topic, row.off_payload, clock.now()))
    execute(
        "DELETE FROM output_last_command WHERE (topic, payload) NOT IN "
        "(SELECT topic, payload FROM output_last_command ORDER BY made_at DESC LIMIT ?)",
        (MOST_LAST_COMMANDS,),
    )


def _check(organization_id: int, name: str, entered: Entered, no: int | None) -> None:
    """Raise Conflict if the name is in use, or the topic by another output or by a reader of any organization.

    Relays of one Shelly share its topic.
    """
    topic = entered.command.topic
    taken = execute(
        "SELECT 1 FROM output WHERE organization_id = ? AND name = ? COLLATE NOCASE AND no IS NOT ?",
        (organization_id, name, no),
    ).fetchone()
    if taken:
        raise Conflict(fill(N_("An output %(name)s already exists; choose another name"), name=name))
    check_owned(organization_id, topic)
    for form, relay, name in execute(
        "SELECT form, relay, name FROM output WHERE topic = ? AND no IS NOT ?", (topic, no)
    ):
        if not form == entered.form == Form.SHELLY:
            raise Conflict(fill(N_("Another output uses the topic %(topic)s"), topic=topic))
        if relay == entered.relay:
            raise Conflict(fill(N_("%(name)s uses relay %(relay)s of this device"), name=name, relay=relay))
    for read in execute("SELECT topic, status_topic FROM reader WHERE deleted_at IS NULL"):
        if any(overlap(topic, one) for one in filter(None, read)):
            raise Conflict(fill(N_("A reader uses the topic %(topic)s; choose another topic"), topic=topic))


def _free_account(no: int, reserved: Collection[str]) -> str:
    name, number = f"output-{no}", 1
    while name in reserved or output_topics.is_account_taken(name):
        number += 1
        name = f"output-{no}-{number}"
    return name


def _subject(row: Output) -> Subject:
    return Subject("output", row.no, row.name)


def _audit_detail(row: Output) -> dict[str, Any]:
    fields = ("name", "form", "topic", "on_payload", "off_payload", "seconds")
    return {name: getattr(row, name) for name in fields}
