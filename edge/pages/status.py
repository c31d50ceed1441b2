"""How the box is doing, part by part; for administrators also its backups, settings and log."""

from __future__ import annotations

from flask import Response, abort, render_template, send_file

from edge.pages import box_facts
from edge.pages.guard import actor, current_session, has_role, pages, require_role
from edge.pages.installation import installation
from edge.store import downloads, organizations, retention, storage
from edge.store.people import Role


@pages.get("/status")
@require_role(Role.EDITOR)
def show_status() -> str:
    health, facts, sees_box = installation().health, box_facts.facts(), may_see_the_box()
    return render_template(
        "status.html",
        checks=health.checks(),
        storage=storage.facts(),
        dropped=retention.last_dropped(5),
        counts=storage.counts(current_session().organization_id),
        box=facts if sees_box else None,
        backups=facts.backups() if sees_box else (),
        settings=facts.settings() if sees_box else (),
        log_lines=facts.log_lines() if sees_box else (),
        is_shared=has_role(Role.ADMINISTRATOR) and not sees_box,
    )


@pages.post("/status/backups/<name>")
@require_role(Role.ADMINISTRATOR)
def download_backup(name: str) -> Response:
    """The file as it is, to be kept outside of this box."""
    if not may_see_the_box():
        abort(403)
    found = [backup.path for backup in box_facts.facts().backups() if backup.path.name == name]
    if not found:
        abort(404)
    downloads.note_backup(actor(), name)
    return send_file(found[0].resolve(), mimetype="application/octet-stream", as_attachment=True, download_name=name)


def may_see_the_box() -> bool:
    """A backup, and the log, are of all organizations on the box: where there are several, they are for its shell."""
    return has_role(Role.ADMINISTRATOR) and len(organizations.list_organizations()) == 1
