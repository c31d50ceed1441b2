"""The Sync page: state of the hub at a site, state of the sites at a hub, and their management."""

from __future__ import annotations

from typing import Any

from flask import render_template, request
from werkzeug.wrappers import Response as AnyResponse

from edge import clock
from edge.errors import Conflict, Invalid
from edge.pages.double_submit import once
from edge.pages.forms import whole
from edge.pages.guard import actor, current_session, pages, require_role
from edge.pages.notices import done
from edge.pages.paging import offset_asked
from edge.people.people import Role
from edge.people.secrets import hash_secret, new_token
from edge.services import services
from edge.sync import join
from edge.sync.join import JoinCode
from edge.sync.store import conflicts, hub_link, sites
from edge.sync.store import state as sync_state
from edge.sync.store.exchange import HUB
from edge.sync.store.sites import Site
from edge.validation import values


@pages.get("/sync")
@require_role(Role.ADMINISTRATOR)
def sync() -> str:
    return _page({}, {})


@pages.post("/sync/sites")
@require_role(Role.ADMINISTRATOR)
@once
def add_site() -> str | tuple[str, int]:
    """Add a site. The response is the only page that shows the join code."""
    secret = new_token()
    try:
        code = values.external_key("code", request.form.get("code", "").strip())
        name = values.name("name", request.form.get("name", "").strip())
        made = sites.add_site(actor(), code, name, hash_secret(secret))
    except Invalid as error:
        return _page({fault.field: fault.message for fault in error.fields}, request.form), 400
    except Conflict as error:
        return _page({"code": str(error)}, request.form), 409
    return _code_page(made, secret)


@pages.post("/sync/sites/<int:site_no>/code")
@require_role(Role.ADMINISTRATOR)
def new_code(site_no: int) -> str:
    secret = new_token()
    return _code_page(sites.renew_code(actor(), site_no, hash_secret(secret)), secret)


@pages.get("/sync/sites/<int:site_no>/remove")
@require_role(Role.ADMINISTRATOR)
def ask_to_remove_site(site_no: int) -> str:
    return render_template("sync/remove-site.html", site=sites.get_site(current_session().organization_id, site_no))


@pages.post("/sync/sites/<int:site_no>/remove")
@require_role(Role.ADMINISTRATOR)
def remove_site(site_no: int) -> AnyResponse:
    sites.remove_site(actor(), site_no)
    return done("/sync", "site-removed")


@pages.post("/sync/sites/<int:site_no>/merge")
@require_role(Role.ADMINISTRATOR)
def merge_agreeing(site_no: int) -> AnyResponse:
    while conflicts.merge_agreeing(actor(), site_no) == conflicts.MOST:
        pass
    return done("/sync", "merged")


@pages.post("/sync/conflicts/<int:site_no>/<int:remote_id>/same")
@require_role(Role.ADMINISTRATOR)
def same_thing(site_no: int, remote_id: int) -> AnyResponse:
    conflicts.merge(actor(), site_no, remote_id)
    return done("/sync", "same")


@pages.post("/sync/conflicts/<int:site_no>/<int:remote_id>/rename")
@require_role(Role.ADMINISTRATOR)
def rename_ours(site_no: int, remote_id: int) -> AnyResponse | tuple[str, int]:
    """Give the record of this hub another key, and leave the key to the record of the site."""
    field = f"key-{site_no}-{remote_id}"
    try:
        key = values.external_key(field, request.form.get(field, "").strip())
        conflicts.rename(actor(), site_no, remote_id, key)
    except Invalid as error:
        return _page({field: error.fields[0].message}, request.form), 400
    except Conflict as error:
        return _page({field: str(error)}, request.form), 409
    return done("/sync", "renamed")


@pages.post("/sync/pause")
@require_role(Role.ADMINISTRATOR)
def pause() -> AnyResponse:
    hub_link.steer(actor(), "hub.paused", paused_at=clock.now())
    return done("/sync", "pause")


@pages.post("/sync/resume")
@require_role(Role.ADMINISTRATOR)
def resume() -> AnyResponse:
    hub_link.steer(actor(), "hub.resumed", paused_at=None)
    return done("/sync", "resume")


@pages.post("/sync/verify")
@require_role(Role.ADMINISTRATOR)
def verify() -> AnyResponse:
    hub_link.steer(actor(), "hub.verification_asked", is_verify_requested=1)
    return done("/sync", "verify")


def _page(errors: dict[str, str], entered: object) -> str:
    organization_id = current_session().organization_id
    state = sync_state.site_state()
    if state and state.here.organization_id != organization_id:
        state = None
    reported = sync_state.site_statuses(organization_id)
    return render_template(
        "sync/sync.html",
        state=state,
        here=state.here if state else None,
        aside=sites.list_trouble(HUB) if state else [],
        sites=reported,
        set_aside=[(row.site, sites.list_set_aside(row.site.no)) for row in reported if row.set_aside],
        disk=next((check for check, _ in services().health.checks() if check.name == "disk"), None),
        **_conflicts(organization_id),
        errors=errors,
        values=entered,
        once=new_token(),
    )


def _conflicts(organization_id: int) -> dict[str, Any]:
    """Return one page of conflicts of the selected site, or of all sites."""
    offset, site_no = offset_asked(), request.args.get("site", type=whole)
    page = conflicts.list_conflicts(organization_id, site_no=site_no, offset=offset)
    site = f"&site={site_no}" if site_no is not None else ""
    return {
        "conflicts": page,
        "offset": offset,
        "per_page": conflicts.PER_PAGE,
        "shown_site": site_no,
        "present": f"?offset={offset}{site}",
        "earlier": f"/sync?offset={max(offset - conflicts.PER_PAGE, 0)}{site}#conflicts",
        "later": f"/sync?offset={offset + conflicts.PER_PAGE}{site}#conflicts",
    }


def _code_page(site: Site, secret: str) -> str:
    authority = services().config.http_authority_file
    pem = authority.read_text("ascii") if authority and authority.is_file() else ""
    code = join.write(JoinCode(request.url_root.rstrip("/"), secret, pem))
    return render_template("sync/join-code.html", made=site, code=code, days=sites.JOIN_DAYS, secure=request.is_secure)
