"""How the box is doing, part by part."""

from __future__ import annotations

from flask import current_app, render_template

from edge.pages.guard import current_session, pages, require_role
from edge.store import retention, storage
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
    )
