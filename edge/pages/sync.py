"""The Sync page: state of the hub at a site, state of the sites at a hub, and their management."""

from __future__ import annotations

import threading
from functools import partial
from typing import Any

from flask import render_template, request

from edge import clock
from edge.errors import Conflict, EdgeError, Invalid, Unavailable
from edge.outbound import Network
from edge.pages.actions import add_action
from edge.pages.double_submit import once
from edge.pages.forms import Errors, errors_of, message_of, whole
from edge.pages.guard import Answer, actor, administrators, organization_id
from edge.pages.notices import done
from edge.pages.paging import pager
from edge.pages.translation import gettext, translated
from edge.people.secrets import hash_secret, new_token
from edge.rate_limits import Buckets
from edge.records import keys_in_bulk
from edge.records.keys_in_bulk import Prefixed
from edge.services import services
from edge.sync import enrollment, preview
from edge.sync.preview import Preview
from edge.sync.store import conflicts, hub_link, site_lifecycle, sites, state
from edge.sync.store.exchange import HUB
from edge.sync.store.sites import Site
from edge.texts import N_
from edge.validation import values

MODES = {
    "running": N_("running"),
    "trying": N_("trying"),
    "paused": N_("paused"),
    "stopped": N_("stopped"),
    "recovering": N_("recovering"),
}
PREVIEW_SECONDS = 15.0  # for a page; the shell compares all
_comparing = threading.Lock()  # one at a time: another machine decides how long it takes
_previews = Buckets(burst=10, per_second=1 / 6)


def _page(errors: Errors, **_ids: int) -> str:
    current = state.site_state()
    if current and current.here.organization_id != organization_id():
        current = None
    reported = state.worst_first(state.site_statuses(organization_id()))
    return render_template(
        "sync/sync.html",
        state=current,
        here=current.here if current else None,
        modes=MODES,
        aside=sites.list_trouble(HUB) if current else [],
        sites=reported,
        set_aside=[
            (row.site, sites.list_trouble(row.site.no, with_conflicts=False)) for row in reported if row.set_aside
        ],
        disk=next((check for check, _ in services().health.checks() if check.name == "disk"), None),
        **_conflicts(),
        errors=errors,
        values=request.form,
        once=new_token(),
    )


@administrators.get("/sync", manual="sites#status")
def sync() -> str:
    return _page({})


@administrators.post("/sync/sites", again=_page)
@once
def add_site() -> str:
    """Add a site. The response is the only page that shows the join code."""
    secret = new_token()
    return _code_page(sites.add_site(actor(), *_entered_site(), hash_secret(secret)), secret)


def _entered_site() -> tuple[str, str]:
    """Return code and name of the form. Raises Invalid."""
    code = values.external_key("code", request.form.get("code", "").strip())
    return code, values.name("name", request.form.get("name", "").strip())


@administrators.post("/sync/sites/<int:site_no>/code")
def new_code(site_no: int) -> str:
    secret = new_token()
    return _code_page(sites.renew_code(actor(), site_no, hash_secret(secret)), secret)


@administrators.get("/sync/sites/<int:site_no>/remove", manual="sites#leaving-renaming-retiring")
def ask_to_remove_site(site_no: int) -> str:
    return render_template("sync/remove-site.html", site=sites.get_site(organization_id(), site_no))


add_action(administrators, "/sync/sites/<int:site_no>/remove", site_lifecycle.remove, "/sync", "site-removed")


@administrators.post("/sync/preview")
def preview_join() -> str | tuple[str, int]:
    """Show which records would clash if this box joined a hub. Changes nothing."""
    return _preview_page()


@administrators.post("/sync/prefix")
def prefix_keys() -> str | tuple[str, int]:
    """Put a prefix before the keys that clash, or before all keys, and compare again."""
    _check_may_compare()
    try:
        prefix = values.external_key("prefix", request.form.get("prefix", "").strip())
        if request.form.get("which") == "all":
            records = keys_in_bulk.all_records(organization_id())
        else:
            records = list(_compare().clashing)
        result = keys_in_bulk.prefix_keys(actor(), records, prefix)
    except Invalid as error:
        return _preview_page(errors_of(error))
    except EdgeError as error:
        return _page({"join_code": _why_no_preview(error)}), 400
    return _preview_page(result=_prefixed(result))


def _compare() -> Preview:
    if not _previews.take(str(organization_id())).allowed:
        raise Unavailable(N_("too many comparisons; try again in a minute"), 60)
    code = enrollment.read_code(request.form.get("join_code", ""))
    if not code.url.startswith("https://"):
        raise Invalid.one("join_code", "invalid_value", N_("the hub's address must begin with https://"))
    if not _comparing.acquire(blocking=False):
        raise Unavailable(N_("too many comparisons; try again in a minute"), 60)
    try:
        return enrollment.compare(organization_id(), code, PREVIEW_SECONDS, Network.PRIVATE)
    finally:
        _comparing.release()


def _check_may_compare() -> None:
    """Raise Conflict if this box has a hub or is one: its keys are known there."""
    if hub_link.find() or sites.is_hub():
        raise Conflict(N_("this box is a hub or reports to one already"))


def _preview_page(errors: Errors | None = None, result: str = "") -> str | tuple[str, int]:
    _check_may_compare()
    try:
        comparison = _compare()
    except EdgeError as error:
        return _page({"join_code": f"{result} {_why_no_preview(error)}".strip()}), 400
    page = render_template(
        "sync/preview.html",
        preview=comparison,
        lines=[translated(line) for line in preview.summary(comparison)],
        join_code=request.form["join_code"],
        prefix=request.form.get("prefix", f"{comparison.code}-"),
        errors=errors or {},
        result=result,
    )
    return (page, 400) if errors else page


def _prefixed(result: Prefixed) -> str:
    return " ".join(translated(sentence) for sentence in preview.prefixed(result))


def _why_no_preview(error: EdgeError) -> str:
    """Return why there is no preview, without the text that the other machine has sent."""
    if isinstance(error, Invalid):
        return translated(error.fields[0].message)
    if isinstance(error, Unavailable):
        return message_of(error)
    return gettext(
        "The hub did not respond, or the code is invalid, used or expired. Details: edge sync preview in a shell"
    )


def _site_page(errors: Errors, site_no: int) -> str:
    site = sites.get_site(organization_id(), site_no)
    return render_template("sync/edit-site.html", site=site, errors=errors, values=request.form)


@administrators.form("/sync/sites/<int:site_no>/edit", _site_page, "sites#leaving-renaming-retiring")
def save_site(site_no: int) -> Answer:
    """Change name and code of a site."""
    code, name = _entered_site()
    site_lifecycle.rename(actor(), site_no, code=code, name=name)
    return done("/sync", "changed")


add_action(administrators, "/sync/sites/<int:site_no>/retire", site_lifecycle.retire, "/sync", "site-retired")


@administrators.post("/sync/sites/<int:site_no>/merge")
def merge_agreeing(site_no: int) -> Answer:
    while conflicts.merge_agreeing(actor(), site_no) == conflicts.MOST:
        pass
    return done("/sync", "merged")


add_action(administrators, "/sync/conflicts/<int:site_no>/<int:remote_id>/same", conflicts.merge, "/sync", "same")


@administrators.post("/sync/conflicts/<int:site_no>/<int:remote_id>/rename", again=_page)
def rename_ours(site_no: int, remote_id: int) -> Answer:
    """Give the record of this hub another key, and leave the key to the record of the site."""
    field = f"key-{site_no}-{remote_id}"
    key = values.external_key(field, request.form.get(field, "").strip())
    conflicts.rename(actor(), site_no, remote_id, key)
    return done("/sync", "renamed")


@administrators.post("/sync/pause")
def pause() -> Answer:
    hub_link.steer(actor(), "hub.paused", paused_at=clock.now())
    return done("/sync", "pause")


_RESUME = partial(hub_link.steer, action="hub.resumed", paused_at=None)
_VERIFY = partial(hub_link.steer, action="hub.verification_asked", verify_wanted=1)
add_action(administrators, "/sync/resume", _RESUME, "/sync", "resume")
add_action(administrators, "/sync/verify", _VERIFY, "/sync", "verify")


def _conflicts() -> dict[str, Any]:
    """Return one page of conflicts of the selected site, or of all sites."""
    site_no = request.args.get("site", type=whole)
    site = f"&site={site_no}" if site_no is not None else ""
    pages = pager(conflicts.PER_PAGE, lambda offset: f"/sync?offset={offset}{site}#conflicts")
    return {
        "conflicts": conflicts.list_conflicts(organization_id(), site_no=site_no, offset=pages["offset"]),
        "shown_site": site_no,
        "present": f"?offset={pages['offset']}{site}",
        **pages,
    }


def _code_page(site: Site, secret: str) -> str:
    code = enrollment.code_for(request.url_root.rstrip("/"), secret, services().config.http_authority_file)
    return render_template("sync/join-code.html", made=site, code=code, days=sites.JOIN_DAYS, secure=request.is_secure)
