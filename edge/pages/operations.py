"""The Status page: health of the service and, for administrators, backups, settings and log.

The certificate of the authority behind HTTPS is public, because devices have to install it.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Sequence
from hashlib import sha256

from flask import Response, abort, render_template, request, send_file

from edge import clock, logs
from edge.config.live import SettingState
from edge.operations import backup, downloads, stats
from edge.operations.backup import Backup
from edge.operations.retention import REASONS
from edge.operations.upgrade import pending_upgrade
from edge.pages import upstream
from edge.pages.guard import actor, administrators, current_session, editors, has_role, public
from edge.pages.translation import gettext, translated
from edge.people import organizations
from edge.people.people import Role
from edge.services import services
from edge.texts import N_, refill
from edge.tracking import deletion

GENERAL = N_("General")
GROUPS = {
    "ingest": N_("Reads and positions"),
    "retention": N_("How long data is kept"),
    "backup": N_("Backups"),
    "audit": N_("Audit"),
    "security": N_("Network"),
    "pages": N_("Pages"),
    "sync": N_("Sync"),
    "events": N_("Events"),
    "limits": N_("Limits"),
    "rate": N_("Limits"),
    "http": N_("Network"),
    "mqtt": N_("Broker"),
    "": GENERAL,
}  # sections of the settings file

DELETED = {
    "history": N_("%(number)s history"),
    "records": N_("%(number)s records"),
    "rows_of_people": N_("%(number)s rows of people"),
    "stock_take_rows": N_("%(number)s stock take rows"),
    "expected_list_rows": N_("%(number)s expected list rows"),
    "sensor_values": N_("%(number)s sensor values"),
    "notes": N_("%(number)s notes"),
    "photos": N_("%(number)s photos"),
    "musters": N_("%(number)s musters"),
    "audit": N_("%(number)s audit"),
    "alerts": N_("%(number)s alerts"),
    "dead_letters": N_("%(number)s dead letters"),
    "unknown_tags": N_("%(number)s unknown tags"),
    "unassigned_topics": N_("%(number)s unassigned topics"),
    "raw_messages": N_("%(number)s raw messages"),
}  # by the names in the audit

SECURITY_TXT_DAYS = 180  # after today, when it expires
_PORT = re.compile(r":[0-9]*$")


@public.get("/certificate", manual="installation#https")
def certificate() -> str:
    pem = _pem()
    host = _PORT.sub("", request.host)
    return render_template("operations/certificate.html", fingerprint=_fingerprint(pem) if pem else None, host=host)


@public.get("/certificate/edge-authority.crt")
def authority() -> Response:
    pem = _pem()
    if pem is None:
        abort(404, N_("HTTPS is off on this box."))
    # Android and iOS offer to install files of this type.
    return Response(
        pem,
        mimetype="application/x-x509-ca-cert",
        headers={"Content-Disposition": 'attachment; filename="edge-authority.crt"'},
    )


@public.get("/.well-known/security.txt")
def security_txt() -> Response:
    """Return the contact for vulnerability reports (RFC 9116)."""
    config = services().config
    policy = f"{config.http_public_url or request.host_url.rstrip('/')}/manual/security#vulnerability-reports"
    expires = clock.rfc3339((clock.now() // clock.DAY + SECURITY_TXT_DAYS) * clock.DAY)
    lines = [f"Contact: {config.security_contact or policy}", f"Expires: {expires}", f"Policy: {policy}"]
    if config.security_supported_until:
        lines.append(f"# Security updates until {config.security_supported_until}")
    return Response("".join(f"{line}\n" for line in lines), mimetype="text/plain")


def _pem() -> str | None:
    file = services().config.http_authority_file
    return file.read_text("ascii") if file and file.is_file() else None


def _fingerprint(pem: str) -> str:
    """Format as devices and OpenSSL do: `AB:CD:…`."""
    return sha256(ssl.PEM_cert_to_DER_cert(pem)).digest().hex(":").upper()


@editors.get("/status", manual="office#status")
def show_status() -> str:
    sees_box = may_see_the_box()
    checks = services().health.checks()
    settings = services().settings.states() if sees_box else []
    return render_template(
        "operations/status.html",
        checks=checks,
        problems=sorted(((check, vital) for check, vital in checks if not check.ok), key=lambda one: not one[1]),
        upstream=upstream.summary(),
        storage=stats.storage(),
        dropped=[(row, _counts(row), translated(refill(row.reason, REASONS))) for row in deletion.last_dropped(5)],
        counts=stats.counts(current_session().organization_id),
        sees_box=sees_box,
        is_upgrading=pending_upgrade.is_pending(services().config.data_dir),
        backups=_backups() if sees_box else (),
        settings=_grouped(settings),
        differing=sum(not setting.is_default for setting in settings),
        log_lines=logs.HANDLER.lines() if sees_box else (),
        is_shared=has_role(Role.ADMINISTRATOR) and not sees_box,
    )


def _counts(row: deletion.Dropped) -> str:
    """Return how much was deleted, such as `3 history, 12 dead letters`."""
    return ", ".join(
        gettext(DELETED[name]) % {"number": count} if name in DELETED else f"{count} {name.replace('_', ' ')}"
        for name, count in row.counts.items()
    )


def _grouped(settings: Sequence[SettingState]) -> list[tuple[str, list[SettingState]]]:
    """Return the settings by group, those that can be changed here first."""
    groups: dict[str, list[SettingState]] = {title: [] for title in dict.fromkeys(GROUPS.values())}
    for setting in sorted(settings, key=lambda one: not one.is_changeable):
        groups[GROUPS.get(setting.name.partition(".")[0], GENERAL)].append(setting)
    shown = [(title, group) for title, group in groups.items() if group]
    return sorted(shown, key=lambda one: not one[1][0].is_changeable)


@administrators.post("/status/backups/<name>")
def download_backup(name: str) -> Response:
    """Send a backup file."""
    if not may_see_the_box():
        abort(403)
    path = next((row.path for row, _ in _backups() if row.path.name == name), None) or abort(404)
    downloads.record_download(actor(), name)
    return send_file(path.resolve(), mimetype="application/octet-stream", as_attachment=True, download_name=name)


def _backups() -> list[tuple[Backup, int]]:
    """Return all backups with their times in microseconds, newest first."""
    backups = backup.list_backups(services().config.backup_folder)
    return [(row, clock.to_micros(row.made_at)) for row in backups]


def may_see_the_box() -> bool:
    """True for administrators if the box has one organization: backups and log contain data of all organizations."""
    return has_role(Role.ADMINISTRATOR) and len(organizations.list_organizations()) == 1
