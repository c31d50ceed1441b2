"""Checks of the broker, of readers, and of messages that could not be used."""

from __future__ import annotations

from edge import clock
from edge.errors import EdgeError
from edge.formats.registry import proposed_filter, recognize
from edge.operations import stats
from edge.operations.doctor.findings import INSTALLER, Finding, Level, Subject, listing, ok, problem, some, warning
from edge.readers import broker_state, ignored_messages, ledger, mapped_fields
from edge.readers.broker_accounts import count_settled, list_accounts
from edge.readers.broker_files import shares_of
from edge.readers.clocks import describe_clock, is_off

SILENT = clock.DAY
LEAST_QUEUE = 100_000

WHY_DROPPED = (
    "edge was offline too long, a reader sends too much (see its ledger: edge reader show NAME), or another "
    "subscriber is slow; fix that reader, or raise max_queued_messages"
)
MANY_RETAINED = 10_000


def broker(subject: Subject) -> Finding:
    if subject.config.mqtt_broker == "embedded":
        return warning(
            "the embedded broker keeps no messages across a restart", f"use mosquitto for production: {INSTALLER}"
        )
    try:
        answer = subject.ask_broker()
    except EdgeError as error:
        if (accounts := broker_accounts(subject)).level is Level.PROBLEM:  # mosquitto does not start without them
            return accounts
        return problem(str(error), "systemctl restart mosquitto; if it stops again: journalctl -u mosquitto -n 20")
    return ok(f"{subject.config.mqtt_broker} answers: {answer.get('$SYS/broker/version', 'a broker of unknown make')}")


def broker_accounts(subject: Subject) -> Finding:
    """Check that mosquitto uses the accounts and permissions that edge wrote.

    Only mosquitto may read its files, so their sizes and times are compared.
    """
    folder = subject.config.mqtt_accounts_dir
    if folder is None and subject.config.mqtt_broker != "embedded" and (left := count_settled()):
        return problem(
            f"mqtt.accounts_dir is not set, but the broker delivers {left} readers only to edge's additional sessions",
            "set mqtt.accounts_dir again; or remove acl_file from mosquitto, then: edge accounts --end",
        )
    if folder is None or not (subject.machine.mosquitto / "conf.d" / "edge.conf").is_file():
        return ok("edge manages no mosquitto accounts")
    advice = "sudo edge accounts; sudo systemctl restart edge-accounts.service; systemctl status edge-accounts.path"
    for name, what in (("passwd", "accounts"), ("acl", "permissions")):
        written, used = folder / name, subject.machine.mosquitto / f"edge.{name}"
        if not written.is_file() or not used.is_file():
            missing = used if written.is_file() else written
            return problem(f"the {what} of readers are missing: {missing}", advice)
        if written.stat().st_size != used.stat().st_size or written.stat().st_mtime > used.stat().st_mtime + 60:
            return problem(
                f"mosquitto has other {what} of readers than edge wrote: {used} differs from {written}", advice
            )
    return ok("mosquitto uses the current accounts and permissions of the readers")


def broker_limits(subject: Subject) -> Finding:
    """Check mosquitto's queue. By default it holds 1,000 messages, none with QoS 0, and silently drops the rest."""
    if subject.config.mqtt_broker == "embedded" or not subject.machine.mosquitto.is_dir():
        return ok("no mosquitto on this box")
    settings = broker_state.settings(subject.machine.mosquitto)
    shares = shares_of(list_accounts())  # sessions of edge; mosquitto's limit applies to each
    share = int(settings.get("max_queued_messages", "1000"))
    queue = share * shares
    missing = [name for name in ("persistence", "queue_qos0_messages") if settings.get(name) != "true"]
    if missing or 0 < queue < LEAST_QUEUE:
        wrong = ", ".join([*(f"{name} is off" for name in missing), f"it can queue {queue} messages"])
        return problem(f"mosquitto would drop reads: {wrong}", f"{INSTALLER} rewrites conf.d/edge.conf")
    if not queue:
        return ok("mosquitto queues as many messages as fit in memory")
    busiest = max(stats.messages_by_session(clock.now() - clock.DAY).values(), default=0)
    days = share / max(busiest, 1)
    text = f"mosquitto can queue {queue:,} messages"
    if shares > 1:
        text += f", {share:,} for each reader or group of readers"
    if days < 1:
        return warning(
            f"{text}, about {days * 24:.0f} hours at today's rate", "raise max_queued_messages and max_queued_bytes"
        )
    return ok(f"{text}, about {f'{days:.0f} days' if days < 1000 else 'years'} at today's rate")


def broker_dropped(subject: Subject) -> Finding:
    dropped = _counted_by_broker(subject, broker_state.DROPPED)
    recent = ledger.dropped()
    if recent:
        return warning(f"the broker has dropped {recent} messages within one day", WHY_DROPPED)
    if isinstance(dropped, Finding):
        return dropped
    if dropped:
        return warning(f"the broker has dropped {dropped} messages since its start", WHY_DROPPED)
    return ok("the broker has dropped no messages")


def broker_retained(subject: Subject) -> Finding:
    """Check the retained messages, which mosquitto does not limit except by its memory.

    An account with a wildcard can retain a message on any number of topics. Forbidding them would shut out the many
    gateways with a retained last will. When they fill the memory, a restart of mosquitto deletes them.
    """
    retained = _counted_by_broker(subject, broker_state.RETAINED)
    if isinstance(retained, Finding):
        return retained
    if broker_state.is_filled_by_readers(subject.ask_broker(), broker_state.settings(subject.machine.mosquitto)):
        return problem(
            f"retained messages ({retained}) or subscriptions of readers fill the memory of the broker",
            "it restarts within ten minutes and deletes them; find the reader in journalctl -u mosquitto, and give it "
            "a new password: edge account NAME",
        )
    if retained > MANY_RETAINED:
        return warning(
            f"the broker holds {retained} retained messages, which edge does not read",
            "a reader with + or # in its topic sends retained messages: turn that off, or remove its account",
        )
    if names := stats.retaining_readers(clock.now() - 7 * clock.DAY):
        return warning(
            f"readers with retained messages: {some(names)}; edge ignores the copy that the broker keeps",
            "turn off Retain in the MQTT settings of these readers",
        )
    return ok(f"the broker holds {retained} retained messages")


def _counted_by_broker(subject: Subject, topic: str) -> int | Finding:
    """Return a counter that the broker publishes, or a finding if it is unknown."""
    if subject.config.mqtt_broker == "embedded":
        return ok("not counted by the embedded broker")
    try:
        return int(subject.ask_broker().get(topic, "0"))
    except EdgeError:
        return ok("the broker does not respond")


def readers_seen(_: Subject) -> Finding:
    rows = [row for row in stats.reader_figures() if row.is_enabled]
    since = clock.now() - SILENT
    offline = [row.name for row in rows if row.is_offline]
    unheard = [row for row in rows if (row.last_received_at or 0) < since and not row.is_offline]
    names = {
        "silent for a day": [row.name for row in unheard if row.last_received_at is not None],
        "no message since they were set up": [row.name for row in unheard if row.last_received_at is None],
        "reported offline": offline,
    }
    if any(names.values()):
        return warning(
            "; ".join(f"{trouble}: {some(names[trouble])}" for trouble in names if names[trouble]),
            "edge reader show NAME; the reader's MQTT settings, above all the topic; power and network",
        )
    return ok(f"{len(rows)} readers, all active within one day")


def readers_qos(_: Subject) -> Finding:
    weak = [row.name for row in stats.reader_figures() if row.is_enabled and row.qos == 0]
    advice = "set QoS 1 in the reader; with QoS 0, reads are lost when the connection fails"
    return listing(weak, "publish at QoS 0", advice, "every active reader publishes at QoS 1 or higher")


def readers_clock(_: Subject) -> Finding:
    off = [
        f"{row.name} ({describe_clock(row.clock_setting, row.clock_offset, row.clock_stands_at)})"
        for row in stats.reader_figures()
        if row.is_enabled and is_off(row.clock_setting, row.clock_offset, row.clock_stands_at)
    ]
    advice = "set this box or your time server as the reader's NTP server"
    return listing(off, "clocks are off", advice, "the readers' clocks are correct")


def antennas(_: Subject) -> Finding:
    unplaced = [f"{name} antenna {port}" for name, port in stats.unplaced_antennas(clock.now() - 7 * clock.DAY)]
    if unplaced:
        return warning(f"antennas without a location: {some(unplaced)}", "edge reader antenna NAME PORT --location KEY")
    fault, advice = "sleds of people or handhelds that cannot scan", "choose their operator on the page"
    return listing(stats.sleds_without_operator(), fault, advice, "every active antenna has a location")


def topics(_: Subject) -> Finding:
    """Check for unassigned topics. A gateway with a topic for each tag is listed once, by its proposed filter."""
    unassigned: dict[str, bool] = {}
    for topic, is_owned, sample in stats.unassigned_topics(clock.now() - clock.DAY):
        unassigned[proposed_filter(topic, sample)] = is_owned
    outside = [topic for topic, is_owned in unassigned.items() if not is_owned]
    if outside:
        return warning(
            f"topics of no organization: {some(outside)}",
            "let these readers publish below a prefix of `edge org list`, or change the prefix: edge org topics",
        )
    advice = "set them up on the Readers page or with: edge reader add"
    return listing(list(unassigned), "unassigned topics", advice, "no unassigned topics")


def formats(_: Subject) -> Finding:
    """Check for readers with the wrong format: it loses every read without any unreadable message."""
    names = []
    for name, newest in ignored_messages.newest_of_each(clock.now() - clock.DAY):
        guess = recognize(newest.topic, newest.payload)
        names.append(f"{name} (looks like {guess.name})" if guess.name else name)
    return listing(
        names,
        "readers sending messages in another format",
        "choose the right format or fix the mapping; the last message: edge reader show NAME",
        "all messages of the last day matched their reader's format",
    )


def mappings(_: Subject) -> Finding:
    """Check for mappings with a wrong optional path: no read is lost, but its location or time is wrong."""
    remarks = [f"{name}: {remark}" for name, remark in mapped_fields.remarks_of_all()]
    advice = "fix the path or unit in the mapping, then test a message: edge reader try NAME"
    return listing(remarks, "mappings with missing values", advice, "all mapping paths match")


def dead_letters(_: Subject) -> Finding:
    number = stats.dead_letters(clock.now() - clock.DAY)
    if number:
        names = stats.unreadable_readers(clock.now() - clock.DAY)
        whose = f", of {some(names)}" if names else ""
        return warning(f"{number} messages of the last day were unreadable{whose}", "see Readers, Unreadable messages")
    return ok("all messages of the last day were readable")
