"""Administration, Sync: sites are added at the hub, and their status is shown."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from flask import Flask

from edge import clock
from edge.audit.actors import shell
from edge.database.connection import writing
from edge.operations.health import Check, Health
from edge.outbound import Network
from edge.people.people import Role
from edge.people.secrets import hash_secret
from edge.rate_limits import Buckets
from edge.records import assets, locations, lookup
from edge.sync import batch_format, enrollment, preview
from edge.sync.sender import LinkError
from edge.sync.store import conflicts, hub_link, site_health, site_lifecycle, sites
from edge.sync.store.exchange import AssetRecord
from edge.sync.store.hub_link import HubAccess
from edge.sync.store.site_health import SiteHealth
from tests.application import change
from tests.conftest import Cast
from tests.pages.conftest import Browser, Site
from tests.sync.world import apply_records

SignIn = Callable[..., Browser]


def test_a_code_is_shown_once_and_joins_one_site(sign_in_as: SignIn, cast: Cast) -> None:
    browser = sign_in_as(Role.ADMINISTRATOR)
    page = browser.post("/sync/sites", {"code": "BER", "name": "Berlin"})
    match = re.search(r"edge-join-[\w-]+", page.text)
    assert match
    code = enrollment.read_code(match[0])
    assert code.url == "http://localhost"
    assert match[0] not in browser.get("/sync").text
    joined = sites.join(hash_secret(code.secret), b"a" * 32)
    assert joined
    assert joined.code == "BER"
    assert sites.join(hash_secret(code.secret), b"b" * 32) is None
    assert "Berlin" in browser.get("/sync").text


@pytest.mark.parametrize(("code", "name"), [("B R", "Berlin"), ("", "Berlin"), ("BER", " ")])
def test_a_site_needs_a_code_that_can_begin_keys(sign_in_as: SignIn, code: str, name: str) -> None:
    assert sign_in_as(Role.ADMINISTRATOR).post("/sync/sites", {"code": code, "name": name}).status_code == 400


def test_a_code_that_is_taken_is_refused_with_the_reason(sign_in_as: SignIn, cast: Cast) -> None:
    """Also by a location, since the place of the site at the hub has the code as its key."""
    browser = sign_in_as(Role.ADMINISTRATOR)
    ham = sites.add_site(shell(cast.acme), "HAM", "Hamburg", b"x" * 32)
    locations.create(shell(cast.acme), name="Berlin", external_key="BER")
    for path in ("/sync/sites", f"/sync/sites/{ham.no}/edit"):
        refused = browser.post(path, {"code": "BER", "name": "Berlin"})
        assert (refused.status_code, "External_key BER already exists" in refused.text) == (409, True)
    refused = browser.post("/sync/sites", {"code": "HAM", "name": "Berlin"})
    assert (refused.status_code, "A site HAM already exists" in refused.text) == (409, True)


def test_only_administrators_of_the_organization_see_the_sites(sign_in_as: SignIn, cast: Cast) -> None:
    rival = sites.add_site(shell(cast.rival), "HAM", "Hamburg", b"x" * 32)
    assert sign_in_as(Role.EDITOR).get("/sync").status_code == 403
    browser = sign_in_as(Role.ADMINISTRATOR)
    assert "Hamburg" not in browser.get("/sync").text
    assert browser.get(f"/sync/sites/{rival.no}/remove").status_code == 404
    assert browser.post(f"/sync/sites/{rival.no}/remove").status_code == 404
    assert browser.post(f"/sync/sites/{rival.no}/code").status_code == 404


def test_the_health_of_sites_is_shown_worst_first_and_escaped(sign_in_as: SignIn, cast: Cast) -> None:
    for code, findings in (("AAA", {}), ("BBB", {"backup": 2, "<b>new</b>": 1})):
        made = sites.add_site(shell(cast.acme), code, f"Site {code}", code.encode())
        sites.join(code.encode(), code.encode())
        sites.note_contact(made.no, {}, 0)
        at = clock.now() // clock.SECOND
        site_health.keep(made.no, SiteHealth("<i>0.2.0", findings, at, at + 40 * 86400, at - 60, 12_000, 340))
    text = sign_in_as(Role.ADMINISTRATOR).get("/sync").text
    health = text[text.index('id="health"') : text.index('id="sites"')]
    assert health.index("Site BBB") < health.index("Site AAA")
    assert "problem</span> Backup" in health
    assert "&lt;b&gt;new&lt;/b&gt;" in health
    assert "&lt;i&gt;0.2.0" in health
    assert ">340<" in health
    site_lifecycle.remove(shell(cast.acme), made.no)
    assert "Site BBB" not in sign_in_as(Role.ADMINISTRATOR).get("/sync").text.partition('id="sites"')[0]


def test_a_conflict_is_resolved_by_a_new_key_for_the_record_of_the_hub(
    sign_in_as: SignIn, cast: Cast, site: Site
) -> None:
    pallet = assets.create(shell(cast.acme), name="Ours", external_key="P-1")
    ham = sites.add_site(shell(cast.acme), "HAM", "Hamburg", b"x" * 32)
    theirs = AssetRecord(7, "P-1", "Theirs", None, 1, "{}", 1, None, 1, 1, None, ())
    with writing():
        apply_records(ham.peer, theirs)
    browser, form = sign_in_as(Role.ADMINISTRATOR), f"/sync/conflicts/{ham.no}/7/rename"
    page = browser.get("/sync").text
    assert "HAM has P-1, Theirs" in page
    assert "this hub has P-1, Ours" in page
    assert form in page
    assert browser.post(form, {f"key-{ham.no}-7": ""}).status_code == 400
    assets.create(shell(cast.acme), name="Another", external_key="P-2")
    for key, why in (("P-1", "P-1 is the key of both; choose another one"), ("P-2", "External_key P-2 already exists")):
        refused = browser.post(form, {f"key-{ham.no}-7": key})
        assert (refused.status_code, why in refused.text) == (409, True)
    assert sign_in_as(Role.ADMINISTRATOR, organization_id=cast.rival).post(form).status_code in (400, 404)
    assert browser.post(form, {f"key-{ham.no}-7": "OUR-1"}).status_code == 303
    assert assets.get(cast.acme, pallet.id).external_key == "OUR-1"
    assert "Conflicts" not in browser.get("/sync").text
    asset = lookup.asset_by_key(cast.acme, "P-1")
    assert asset
    assert asset.name == "Theirs"


def test_conflicts_are_listed_in_pages_and_by_site(
    sign_in_as: SignIn, cast: Cast, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conflicts, "PER_PAGE", 5)
    for number in range(12):
        assets.create(shell(cast.acme), name="Ours", external_key=f"P-{number}")
    for code, count in (("HAM", 12), ("MUC", 3)):
        peer = sites.add_site(shell(cast.acme), code, f"Site {code}", code.encode()).peer
        theirs = [AssetRecord(9 + n, f"P-{n}", code, None, 1, "{}", 1, None, 1, 1, None, ()) for n in range(count)]
        with writing():
            apply_records(peer, *theirs)
    browser = sign_in_as(Role.ADMINISTRATOR)
    first, last = browser.get("/sync").text, browser.get("/sync?offset=10").text
    assert first.index("Received today") < first.index("Conflicts")
    assert "1 to 5 of 15 conflicts" in first
    assert "11 to 15 of 15 conflicts" in last
    assert not set(re.findall(r"/sync/conflicts/\d+/\d+/same", first)) & set(
        re.findall(r"/sync/conflicts/\d+/\d+/same", last)
    )
    of_one = browser.get(f"/sync?site={peer.no}").text
    assert of_one.count(f"/sync/conflicts/{peer.no}/") == 6
    assert "HAM has" not in of_one
    form = re.findall(r'action="(/sync/conflicts/[^"]+/rename[^"]*)"', last.replace("&amp;", "&"))[-1]
    field = "key-" + "-".join(form.split("/")[3:5])
    assert field in browser.post(form, {field: ""}).text, "a refused form is shown again on its page"


def test_a_site_shows_how_far_its_hub_is_and_can_be_paused(sign_in_as: SignIn, cast: Cast) -> None:
    hub_link.begin(shell(cast.acme), HubAccess("https://hub.example", "BER", "The hub", "key"))
    hub_link.update(last_error="The hub cannot be reached <now>")
    browser = sign_in_as(Role.ADMINISTRATOR)
    page = browser.get("/sync").text
    assert "Site BER of The hub" in page
    assert "cannot be reached &lt;now&gt;" in page
    browser.post("/sync/pause")
    here = hub_link.find()
    assert here
    assert here.paused_at
    assert "paused" in browser.get("/sync").text
    hub_link.end(shell(cast.acme))
    assert browser.post("/sync/pause").status_code == 404


def test_a_hub_warns_of_a_nearly_full_disk_because_its_sites_wait(app: Flask, sign_in_as: SignIn, cast: Cast) -> None:
    browser = sign_in_as(Role.ADMINISTRATOR)
    sites.add_site(shell(cast.acme), "BER", "Berlin", b"x" * 32)
    assert "Disk of this hub" not in browser.get("/sync").text
    health = Health()
    health.register(lambda: Check("disk", False, "only 3 MB are free"), is_vital=False)
    change(app, health=health)
    assert "Disk of this hub: only 3 MB are free" in browser.get("/sync").text


def test_a_site_is_renamed_and_retired(sign_in_as: SignIn, cast: Cast) -> None:
    browser = sign_in_as(Role.ADMINISTRATOR)
    ber = sites.add_site(shell(cast.acme), "BER", "BER", b"BER").no
    sites.add_site(shell(cast.acme), "HAM", "HAM", b"HAM")
    form = f"/sync/sites/{ber}/edit"
    assert "A site HAM already exists" in browser.post(form, {"code": "HAM", "name": "Berlin"}).text
    assert browser.post(form, {"code": "", "name": "Berlin"}).status_code == 400
    assert browser.post(form, {"code": "BLN", "name": "Berlin"}).status_code == 303
    assert 'value="BLN"' in browser.get(form).text
    assert browser.post(f"/sync/sites/{ber}/retire").status_code == 303
    assert "retired" in browser.get("/sync").text


def test_the_preview_of_a_join_is_shown_and_keys_are_prefixed(
    sign_in_as: SignIn, cast: Cast, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("edge.pages.sync._previews", Buckets(burst=10, per_second=1e-9))
    browser = sign_in_as(Role.ADMINISTRATOR)
    row = assets.create(shell(cast.acme), name="Pallet", external_key="P-1")
    sound, plain = (
        enrollment.write_code(enrollment.JoinCode(url, "secret", ""))
        for url in ("https://hub.example", "http://127.0.0.1")
    )

    def ask(body: bytes) -> Any:
        sent = batch_format.unpack(body)
        clash = [[2, row.id, "key", "P-1", "<Theirs>", "BER", False] for record in sent if record[2] == "P-1"]
        return {"code": "HAM", "hub_name": "The hub", "hub_id": "", "clashes": clash}

    def compare(organization_id: int, code: enrollment.JoinCode, seconds: float, network: Network) -> preview.Preview:
        assert network is Network.PRIVATE  # programs on the box itself are out of reach
        assert (code.secret, seconds) == ("secret", 15.0)
        return preview.compare(organization_id, ask, seconds)

    monkeypatch.setattr("edge.sync.enrollment.compare", compare)
    page = browser.post("/sync/preview", {"join_code": sound}).text
    assert "Join The hub as HAM" in page
    assert "&lt;Theirs&gt;" in page
    assert "The keys that clash (1)" in page
    assert "must begin with https://" in browser.post("/sync/preview", {"join_code": plain}).text
    assert "incomplete" in browser.post("/sync/preview", {"join_code": "nonsense"}).text
    refused = browser.post("/sync/prefix", {"join_code": sound, "prefix": "", "which": "clashing"}).text
    assert "Join The hub as HAM" in refused
    changed = browser.post("/sync/prefix", {"join_code": sound, "prefix": "HAM-", "which": "clashing"}).text
    assert "Keys changed: 1." in changed
    assert assets.get(cast.acme, row.id).external_key == "HAM-P-1"
    with monkeypatch.context() as hub:
        hub.setattr("edge.sync.store.sites.is_hub", lambda: True)
        assert browser.post("/sync/prefix", {"join_code": sound, "prefix": "X-", "which": "all"}).status_code == 409
    assert assets.get(cast.acme, row.id).external_key == "HAM-P-1"

    def fail(*_: object) -> None:
        raise LinkError("<secret of another machine>")

    monkeypatch.setattr("edge.sync.enrollment.compare", fail)
    failed = browser.post("/sync/preview", {"join_code": sound})
    assert failed.status_code == 400
    assert "secret of another machine" not in failed.text
    statuses = [browser.post("/sync/preview", {"join_code": sound}).text for _ in range(12)]
    assert "too many comparisons" in statuses[-1]
