"""Outputs of an organization: device, topic and time. `worker` switches them.

Changes made by users are audited. What the broker has acknowledged is not; see `output_state`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from edge import clock
from edge.audit.actors import Actor
from edge.audit.audit import acting
from edge.audit.kinds import ALL, Kind
from edge.database.connection import execute, scalar
from edge.errors import Conflict
from edge.people.topic_owners import check_owned
from edge.readers import broker_files, output_topics
from edge.rules.outputs.forms import Command, Entered, Form
from edge.texts import N_, fill
from edge.validation.topics import overlap

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


def _row(row: Sequence[Any]) -> Output:
    output = Output(*row)
    return output._replace(form=Form(output.form), is_on=bool(output.is_on))


def _audit_detail(row: Output) -> dict[str, Any]:
    fields = ("name", "form", "topic", "on_payload", "off_payload", "seconds")
    return {name: getattr(row, name) for name in fields}


KIND = Kind(
    "output",
    "output",
    f"SELECT {', '.join(Output._fields)} FROM output",
    _row,
    taken=N_("An output %(name)s already exists; choose another name"),
    detail=_audit_detail,
)
get, list_outputs = KIND.get, KIND.list_of


def add(actor: Actor, name: str, entered: Entered) -> Output:
    """Add an output. Raises Conflict if the name or the topic is in use, or there are too many outputs."""
    with acting(actor):
        _check_topic(actor.organization_id, entered, None)
        return KIND.add(actor, _columns(name, entered))


def change(actor: Actor, no: int, name: str, entered: Entered) -> Output:
    """Change an output, which switches off and begins again. Raises NotFound and Conflict."""
    with acting(actor):
        before = get(actor.organization_id, no)
        _check_topic(actor.organization_id, entered, no)
        if before.command != entered.command:
            _keep_last_command(before)
        return KIND.change(actor, no, {**_columns(name, entered), "tested_at": None})


def remove(actor: Actor, no: int) -> None:
    """Remove an output, which is switched off first. Raises NotFound."""
    with acting(actor):
        _keep_last_command(KIND.remove(actor, no))


def enable(actor: Actor, no: int) -> None:
    """Let new alerts switch an output. Raises NotFound."""
    with acting(actor):
        KIND.mark(actor, no, "enabled", {"disabled_at": None, "after_alert": newest_alert()})


def disable(actor: Actor, no: int) -> None:
    """Switch an output off until `enable`. Raises NotFound."""
    with acting(actor):
        since = get(actor.organization_id, no).disabled_at or clock.now()
        KIND.mark(actor, no, "disabled", {"disabled_at": since, "tested_at": None})


def request_test(actor: Actor, no: int) -> None:
    """Have the service switch an output on for some seconds. Raises NotFound, and Conflict if it is disabled."""
    with acting(actor):
        KIND.check_enabled(actor.organization_id, no)
        KIND.mark(actor, no, "tested", {"tested_at": clock.now()})


def issue_account(actor: Actor, no: int, broker: str) -> tuple[str, str]:
    """Return account and new password of the device at the broker. Raises NotFound.

    `broker`: URL of the broker. The password is valid after the next `broker_files.write_files`.
    """
    password, own = broker_files.new_password(), broker_files.own_account(broker, "").name
    with acting(actor):
        row = get(actor.organization_id, no)
        account = row.account or _free_account(no, broker_files.reserved_names(own))
        columns = {"account": account, "password_hash": broker_files.new_hash(password)}
        KIND.change(actor, no, columns, account=account, password="changed")  # noqa: S106  a word of the audit
    return account, password


def all_outputs() -> list[Output]:
    """Return the outputs of all organizations. For the worker, metrics and checks."""
    return KIND.where(ALL, order="no")


def newest_alert() -> int:
    """Return the number of the newest alert of all organizations; alerts up to it switch nothing."""
    return scalar("SELECT ifnull(max(seq), 0) FROM sqlite_sequence WHERE name = 'alert'")


def troubles() -> list[str]:
    """Return the outputs that could not be switched for a minute, each with the reason."""
    failing = KIND.where("failing_since < ?", clock.now() - TROUBLE_AFTER, order="no")
    return [f"{row.name}: {row.last_error}" for row in failing]


def _columns(name: str, entered: Entered) -> dict[str, object]:
    columns = entered._asdict()
    return {"name": name, **columns.pop("command")._asdict(), **columns, "after_alert": newest_alert()}


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


def _check_topic(organization_id: int, entered: Entered, no: int | None) -> None:
    """Raise Conflict if the topic is in use by another output or by a reader of any organization.

    Relays of one Shelly share its topic.
    """
    topic = entered.command.topic
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
