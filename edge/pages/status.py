"""How the box is doing, part by part, and who changed what."""

from __future__ import annotations

from flask import current_app, render_template

from edge.pages.guard import current_session, has_role, pages, require_role
from edge.store import audit_trail, retention, storage
from edge.store.people import Role


@pages.get("/status")
@require_role(Role.EDITOR)
def show_status() -> str:
    health = current_app.extensions["health"]
    return render_template(
        "status.html",
        checks=health.checks(),
        storage=storage.facts(),
        dropped=retention.last_dropped(5),
        counts=storage.counts(current_session().organization_id),
        acts=audit_trail.recent(current_session().organization_id, 50) if has_role(Role.ADMINISTRATOR) else [],
    )
