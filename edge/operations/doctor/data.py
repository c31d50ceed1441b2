"""Checks of stored data: the database, the backups, and data dropped for lack of space."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

from edge import clock
from edge.audit import quotas, trail
from edge.database.connection import FILE_NAME
from edge.database.migrate import newest_schema, present_schema
from edge.errors import EdgeError
from edge.operations import audit_export, continuous_backup, stats
from edge.operations import restore_drill as drill
from edge.operations.backup import check_backup, list_backups, newest_backup
from edge.operations.doctor.findings import Finding, Subject, listing, ok, problem, warning
from edge.operations.doctor.machine import missing_disk
from edge.operations.health import persisted_warnings
from edge.people.organizations import list_organizations
from edge.tracking.deletion import last_dropped
from edge.validation import times

LATE = timedelta(hours=36)
LOST = timedelta(days=7)
BEHIND = 10  # transactions of Litestream, one a second during changes
LARGE_LOG = 200 << 20  # bytes; usual are a few MB
NEAR = 0.8  # of a maximum
DRILL_LATE = 40 * clock.DAY
WAITING = clock.HOUR // 6
WARNED = 30 * clock.DAY


def database(subject: Subject) -> Finding:
    faults = stats.faults()
    if faults:
        return problem(
            f"the database is damaged: {'; '.join(faults)}",
            "systemctl stop edge; edge repair; systemctl start edge. If that fails: edge restore",
        )
    size = (subject.data_dir / FILE_NAME).stat().st_size
    return ok(f"checked completely, no damage, {size >> 10} KB")


def write_ahead_log(subject: Subject) -> Finding:
    """Check that the log of the database shrinks again: each read searches all of it."""
    file = subject.data_dir / f"{FILE_NAME}-wal"
    size = file.stat().st_size if file.exists() else 0
    if size > LARGE_LOG:
        return warning(
            f"{file.name} has {size >> 20} MB, because something reads the database without an end",
            "systemctl restart edge; if it grows again, find the other program: fuser -v " + str(file),
        )
    return ok(f"{size >> 10} KB")


def schema(_: Subject) -> Finding:
    present, newest = present_schema(), newest_schema()
    if present > newest:
        return problem(
            f"schema {present}, this version supports up to {newest}", "install the newer version of edge again"
        )
    if not present:
        return problem("the database is empty", "systemctl stop edge; edge restore")
    if present < newest:
        return problem(f"schema {present}, this version needs {newest}", "systemctl restart edge, which upgrades it")
    return ok(f"schema {present}")


def records(_: Subject) -> Finding:
    damaged = stats.damaged_records(times.FIRST, times.LAST)
    if damaged:
        named = ", ".join(f"{kind} {key}" for kind, key in damaged[:5])
        return problem(
            f"{len(damaged)} or more records are unreadable: {named}",
            "another box sent them before this version checked records; remove that site, then retire them",
        )
    return ok("all records are readable")


def record_limits(subject: Subject) -> Finding:
    """Check whether an organization comes close to its maximum number of assets or locations."""
    organizations = list_organizations()
    near = [
        f"{organization.name} has {count:,} of {limit:,} {kind}s"
        for organization in organizations
        for kind, limit in subject.config.record_limits.items()
        if (count := quotas.count_of(organization.id, kind)) >= limit * NEAR
    ]
    advice = "delete what is no longer used, or raise limits.assets or limits.locations"
    fine = "no organization is close to its maximum number of records"
    return listing(near, "more are refused at the limit", advice, fine)


def administrators(_: Subject) -> Finding:
    number = stats.administrators()
    if not number:
        return problem("this site has no administrator", "edge user add --role administrator ...")
    return ok(f"{number} administrators")


def audit_outside(subject: Subject) -> Finding:
    """Check that the entries of the audit reach the log server."""
    if not subject.config.audit_syslog:
        return ok("only this box has the audit; audit.syslog sends it to a log server, too")
    known = audit_export.sent(subject.data_dir)
    see = f"check {subject.config.audit_syslog}; the reason is on the Status page and in: journalctl -u edge"
    if known.lost_at > clock.now() - WARNED:
        return problem(f"{known.lost} entries of the audit were deleted before the log server had them", see)
    waiting = trail.entries_after(known.no, 1)
    if waiting and waiting[0].at < clock.now() - WAITING:
        return warning(f"entries of the audit wait for the log server since {clock.rfc3339(waiting[0].at)}", see)
    return ok(f"{subject.config.audit_syslog} has the audit")


def backup_recent(subject: Subject) -> Finding:
    backups, newest = list_backups(subject.config.backup_folder), newest_backup(subject.config.backup_folder)
    advice = "edge backup creates one now; then see: systemctl status edge-backup.timer edge-backup.service"
    if newest is None:
        return problem(f"there is no backup in {subject.config.backup_folder}", advice)
    age = datetime.now(UTC) - newest.made_at
    if age < -LATE:
        return warning(f"{newest.path.name} has a date in the future; the clock was wrong", advice)
    text = f"{len(backups)} backups, the newest {age.days} days and {age.seconds // 3600} hours old"
    if age > LOST:
        return problem(text, advice)
    return warning(text, advice) if age > LATE else ok(text)


def backup_sound(subject: Subject) -> Finding:
    newest = newest_backup(subject.config.backup_folder)
    if newest is None:
        return ok("no backup to check")
    try:
        summary = check_backup(newest.path, subject.data_dir)
    except EdgeError as error:
        return problem(str(error), "edge backup creates a new one; if that also fails, the disk may be failing")
    return ok(f"{newest.path.name} was checked completely: {summary.assets} assets")


def backup_second(subject: Subject) -> Finding:
    folder = subject.config.backup_second_dir
    if folder is None:
        return warning(
            "backups exist only on this disk", "set backup.second_dir to a folder on a USB drive or another disk"
        )
    if remedy := _remedy_of_folder(folder):
        return problem(f"{folder} {'cannot be written' if folder.is_dir() else 'is not there'}", remedy)
    if folder.stat().st_dev == subject.data_dir.stat().st_dev:
        return warning(f"{folder} is on the same disk as the database", "check that the USB drive is mounted")
    first, second = list_backups(subject.config.backup_folder), list_backups(folder)
    if first and (not second or second[0].made_at < first[0].made_at):
        return problem(
            f"{folder} lacks the newest backup",
            f"sudo edge backup makes one there, or shows the reason; df -h {folder}",
        )
    return ok(f"{len(second)} backups in {folder}")


def _remedy_of_folder(folder: Path) -> str:
    """Return how the service can write to a folder on another disk, or an empty string if it can."""
    if os.access(folder, os.W_OK | os.X_OK):
        return ""
    if disk := missing_disk(folder):
        return f"sudo mount {disk}"
    if folder.is_dir() and os.statvfs(folder).f_flag & os.ST_RDONLY:
        return f'sudo mount -o remount,rw "$(findmnt -no TARGET -T {folder})"; if that fails: dmesg | tail'
    return f"plug in its disk and mount it. If it is mounted: sudo install -d -o edge -g edge -m 750 {folder}"


def backup_continuous(subject: Subject) -> Finding:
    folder = subject.config.backup_continuous_dir
    if folder is None:
        return ok("none: scans since the newest backup exist only on this disk")
    fault = continuous_backup.drive_fault(folder, subject.data_dir)
    if fault:
        return problem(fault, _remedy_of_folder(folder) or "the copy resumes by itself when the cause is gone")
    taken, copied = continuous_backup.position(subject.data_dir, next(iter(continuous_backup.folders(folder)), folder))
    if not copied:
        return problem(f"{folder} is still empty", "journalctl -u edge shows the reason one minute after the start")
    if taken > copied + BEHIND:
        return problem(f"{folder} is {taken - copied} changes behind", "journalctl -u edge shows the reason")
    return ok(f"changes are copied to {folder} within seconds")


def restore_drill(subject: Subject) -> Finding:
    report = drill.last(subject.data_dir)
    if report is None:
        return ok("none yet; run edge restore-drill (a timer runs it every month)")
    if not report.is_ok:
        return problem(f"the last restore drill failed: {report.text}", "edge backup, then edge restore-drill")
    if clock.now() - report.at > DRILL_LATE:
        return warning(f"the last restore drill was on {clock.rfc3339(report.at)}", "systemctl status edge-drill.timer")
    return ok(f"on {clock.rfc3339(report.at)} restored {report.text}")


def history(_: Subject) -> Finding:
    """Warn if history was dropped for lack of disk space. Dropping by age is normal."""
    since = clock.now() - 7 * clock.DAY
    for row in last_dropped(50):
        if row.at >= since and row.reason.startswith("only"):
            return warning(
                f"history was deleted at {clock.rfc3339(row.at)}, because {row.reason}",
                "free disk space or lower retention.history_days",
            )
    return ok("nothing was deleted for lack of space")


def warnings(subject: Subject) -> Finding:
    check = persisted_warnings(subject.data_dir)
    return (
        ok("no reports") if check.ok else warning(check.detail, "follow the reports; delete each file once it is read")
    )
