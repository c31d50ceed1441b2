"""Checks of sync: this box as a site, and as a hub."""

from __future__ import annotations

from edge.errors import EdgeError
from edge.operations.doctor.findings import Finding, Subject, listing, ok, problem, some, warning
from edge.sync.store import state as sync_state
from edge.tracking import history_engine

SECRET = "sync-secret"  # noqa: S105  a file name


def upstream(subject: Subject) -> Finding:
    """Check this box as a site."""
    state = sync_state.site_state()
    if state is None:
        return ok("reports to no hub")
    hub = f"{state.here.hub_name} at {state.here.url}"
    if state.here.stopped:
        return problem(
            f"stopped: {state.here.stopped}", "create a new code on the hub's Sync page, then: edge sync join CODE"
        )
    if not (subject.data_dir / SECRET).is_file():
        return problem(
            "the key of this site is missing, for example after a restore on another box",
            "create a new code on the hub's Sync page, then: edge sync recover CODE",
        )
    if state.mode == "paused":
        return warning(f"paused; {sync_state.waiting(state.waiting)} for {hub}", "edge sync resume")
    trouble = sync_state.site_trouble()
    if trouble:
        return warning(trouble, "edge sync status; check that the hub is reachable")
    if state.here.restored_from is not None:
        return warning(
            "this box was restored from a backup; the hub may have newer data", "edge sync recover, or resend"
        )
    if state.set_aside:
        return warning(f"set aside: {state.set_aside}", "edge sync conflicts lists them with reasons")
    return ok(f"{sync_state.waiting(state.waiting)} for {hub}")


def downstream(_: Subject) -> Finding:
    """Check this box as a hub, for all organizations."""
    reported = sync_state.site_statuses(None)
    if not reported:
        return ok("is a hub without sites")
    troubled = [f"{row.site.code}: {row.trouble}" for row in reported if row.trouble]
    if troubled:
        return warning(some(troubled, 3), "edge sync status at those sites; check their connection to this hub")
    unsettled = [row.site.code for row in reported if row.conflicts or row.set_aside]
    if unsettled:
        return warning(f"conflicts or items set aside: {some(unsettled)}", "Sync page, or: edge sync conflicts")
    ill = [f"{row.site.code}: {row.site_problems}" for row in reported if row.site_problems]
    fine = f"{len(reported)} sites are up to date" if len(reported) > 1 else "1 site is up to date"
    return listing(ill, "problems at sites", "edge doctor on the box of that site", fine)


def history_database(subject: Subject) -> Finding:
    """Check that a hub with its history in PostgreSQL reaches it."""
    if not subject.config.hub_history:
        return ok("the history is in this box's own database")
    try:
        history_engine.use(subject.config.hub_history, history_engine.this_hub())
        number = history_engine.lent_rows.count_partitions()
        is_empty = history_engine.are_missing_there()
    except EdgeError as error:
        return problem(
            f"{history_engine.why_away() or error}. History is not shown, and sites wait",
            "correct this; if PostgreSQL does not answer, check hub.history and: systemctl status postgresql",
        )
    if is_empty:
        return problem(
            "PostgreSQL answers, but this database has no stays, and the hub has some",
            "correct the name of the database in hub.history; if it was lost, sites send their stays again at night",
        )
    return ok(f"PostgreSQL answers; the stays have {number} partitions")
