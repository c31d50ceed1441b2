"""`edge doctor`: runs all checks of a site. Each returns one line with the fault and its remedy."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator
from typing import NamedTuple

from edge.errors import EdgeError, SetupError
from edge.operations.doctor import box, data, https, outgoing, readers, surroundings, sync, units, upstream
from edge.operations.doctor.findings import Finding, Level, Subject, ok, problem, some

# The names are stable: monitoring may rely on them.
CHECKS: dict[str, Callable[[Subject], Finding]] = {
    "permissions": box.permissions,
    "disk": box.disk,
    "inodes": box.inodes,
    "disk-errors": box.disk_errors,
    "memory": box.memory,
    "clock": box.clock_correct,
    "clock-kept": box.clock_synchronized,
    "time-zone": surroundings.time_zone,
    "journal": surroundings.journal,
    "service": box.service,
    "units": units.units,
    "restarts": units.restarts,
    "upgrade": units.upgrade,
    "settings": units.settings_in_force,
    "pages": box.pages,
    "https": https.https,
    "http-listen": surroundings.http_behind_https,
    "certificates": https.certificates,
    "name": units.name_in_network,
    "public-url": box.public_url,
    "version": box.version,
    "database": data.database,
    "write-ahead-log": data.write_ahead_log,
    "schema": data.schema,
    "records": data.records,
    "record-limits": data.record_limits,
    "administrators": data.administrators,
    "audit-outside": data.audit_outside,
    "backup": data.backup_recent,
    "backup-sound": data.backup_sound,
    "backup-second": data.backup_second,
    "backup-continuous": data.backup_continuous,
    "restore-drill": data.restore_drill,
    "history": data.history,
    "warnings": data.warnings,
    "broker": readers.broker,
    "broker-reachable": surroundings.broker_reachable,
    "firewall": surroundings.firewall,
    "broker-tls": https.mqtts,
    "broker-accounts": readers.broker_accounts,
    "broker-limits": readers.broker_limits,
    "broker-dropped": readers.broker_dropped,
    "broker-retained": readers.broker_retained,
    "readers": readers.readers_seen,
    "reader-qos": readers.readers_qos,
    "reader-clock": readers.readers_clock,
    "antennas": readers.antennas,
    "topics": readers.topics,
    "reader-formats": readers.formats,
    "reader-mappings": readers.mappings,
    "dead-letters": readers.dead_letters,
    "events": outgoing.events_delivered,
    "channels": outgoing.channels_send,
    "outputs": outgoing.outputs_switch,
    "dns": outgoing.names_resolved,
    "hub": sync.upstream,
    "sites": sync.downstream,
    "upstream": upstream.upstream_equal,
    "upstream-bridge": upstream.bridge_connected,
    "history-database": sync.history_database,
}

# These read the whole database and the newest backup; the hourly timer leaves them out.
SLOW = {"database", "backup-sound"}
WITHOUT_DATA = {"https", "certificates", "broker", "broker-tls", "time-zone", "http-listen", "version", "settings"}
ON_SITES = {"time-zone", "units", "restarts", "settings", "name", "broker-reachable"}  # that install.sh has made
WITHOUT_SETTINGS = {"memory", "clock-kept", "journal", "units", "restarts", "upgrade", "name"}


class Examined(NamedTuple):
    name: str
    finding: Finding


def examine(
    subject: Subject, without: Collection[str] = (), cause: Examined | None = None, possible: Collection[str] = CHECKS
) -> Iterator[Examined]:
    """Yield the finding of each check. A `cause` comes first, and checks that fail by one cause share one line.

    `possible`: the checks that can run in spite of the cause.
    """
    if cause:
        yield cause
    failed: dict[str, list[str]] = {}
    for name in CHECKS:
        if name in without or (cause and name == cause.name):
            continue
        result = _run_check(name, subject) if name in possible else SetupError()
        if isinstance(result, Finding):
            yield Examined(name, result)
        elif cause or isinstance(result, EdgeError):
            failed.setdefault("the cause above" if cause else str(result), []).append(name)
        else:
            advice = "if the cause is unclear, send a support bundle: edge doctor --bundle FILE"
            yield Examined(name, problem(f"check failed: {result!r}", advice))
    if failed:
        text = "; ".join(f"{some(names)}, because of {why}" for why, names in failed.items())
        yield Examined("unchecked", problem(f"not checked: {text}", "fix that first"))


def exit_code(examined: list[Examined]) -> int:
    """Return the exit code for monitoring: 0 ok, 1 warning, 2 problem."""
    levels = [Level.OK, Level.WARNING, Level.PROBLEM]
    return max((levels.index(item.finding.level) for item in examined), default=0)


def as_json(examined: list[Examined]) -> str:
    worst = [Level.OK, Level.WARNING, Level.PROBLEM][exit_code(examined)]
    checks = [{"id": item.name, **item.finding._asdict()} for item in examined]
    return json.dumps({"status": worst, "checks": checks}, indent=2, ensure_ascii=False)


def _run_check(name: str, subject: Subject) -> Finding | Exception:
    """Run a check. One that breaks does not hide the others."""
    if name in ON_SITES and not subject.machine.is_site:
        return ok("not installed by systemd/install.sh")
    try:
        return CHECKS[name](subject)
    except Exception as error:  # noqa: BLE001  any error is reported
        return error
