"""Commands write to the audit trail; `edge audit` shows it."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest

from edge import clock
from edge.audit import actors
from edge.handhelds import scans
from edge.handhelds.scans import Submitted
from edge.people import organizations, people
from edge.people.people import Role
from edge.records import lookup
from edge.tracking import board
from tests.commands.conftest import Shell


@pytest.fixture(autouse=True)
def _ana(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make Ana the shell user, behind sudo."""
    monkeypatch.setenv("SUDO_USER", "ana")


def lines(edge: Shell, *options: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in edge.ok("audit", "--json", *options).splitlines()]


def test_audit_lists_newest_first_with_the_shell_user(edge: Shell) -> None:
    edge.ok("location", "add", "Dock 1", "--key", "DOCK-1")
    edge.ok("reader", "add", "portal", "--topic", "dock/1", "--format", "edge", "--location", "DOCK-1")
    edge.ok("reader", "remove", "portal")
    output = edge.ok("audit", "--limit", "3").splitlines()
    assert "Shell (ana)" in output[1]
    assert [word in line for word, line in zip(("deleted", "created", "created"), output[1:], strict=True)] == [
        True
    ] * 3
    assert "location: Dock 1 (DOCK-1)" in output[2]
    newest, *_ = lines(edge, "--kind", "reader")
    assert (newest["action"], newest["actor_kind"], newest["actor_name"]) == ("reader.deleted", "shell", "ana")


def test_options_narrow_it(edge: Shell) -> None:
    edge.ok("asset", "add", "Pallet", "--key", "A-1")
    edge.ok("asset", "add", "Cage", "--key", "A-2")
    assert [line["subject_name"] for line in lines(edge, "--kind", "asset", "--name", "cage")] == ["Cage (A-2)"]
    assert [line["subject_name"] for line in lines(edge, "--kind", "asset", "--limit", "1")] == ["Cage (A-2)"]
    assert lines(edge, "--actor", "person") == []
    assert lines(edge, "--until", "2020-01-01") == []
    assert lines(edge, "--since", "0001-01-01") == lines(edge)
    one = lines(edge, "--name", "pallet")[0]
    assert lines(edge, "--id", str(one["subject_id"])) == [one]


def test_times_are_those_of_the_site(edge: Shell) -> None:
    edge.ok("config", "change", "pages.time_zone", "Pacific/Kiritimati")
    on_site = clock.to_datetime(clock.now()).astimezone(clock.zone("Pacific/Kiritimati")).replace(tzinfo=None)
    before, after = (f"{on_site + timedelta(hours=hours):%Y-%m-%dT%H:%M:%S}" for hours in (-1, 1))
    assert lines(edge, "--since", before)
    assert lines(edge, "--since", after) == []


def test_the_first_administrator_is_in_the_audit_without_the_password(edge: Shell) -> None:
    created = [line for line in lines(edge) if line["action"] == "person.created"]
    assert [line["detail"] for line in created] == [
        {"name": "boss", "email": "boss@acme.test", "role": "administrator"}
    ]
    assert [line["action"] for line in lines(edge)][-1] == "organization.created"


@pytest.mark.parametrize("with_the_asset", [True, False])
def test_a_tag_from_the_shell_takes_over_the_scans_that_waited_for_it(edge: Shell, with_the_asset: bool) -> None:
    edge.ok("location", "add", "Dock 1", "--key", "DOCK-1")
    organization_id = organizations.list_organizations()[0].id
    dock = lookup.location_by_key(organization_id, "DOCK-1")
    assert dock
    olga = people.add_person(actors.shell(organization_id), "Olga", Role.OPERATOR)
    scan = Submitted("scan-1", "E2801170", dock.id, clock.now() - clock.SECOND)
    scans.submit(actors.person(organization_id, olga.id, "Olga"), [scan], clock.now())
    edge.ok("asset", "add", "Pallet", "--key", "A-1", *(("--tag", "rfid:E2801170") if with_the_asset else ()))
    if not with_the_asset:
        edge.ok("tag", "add", "rfid", "E2801170", "--asset", "A-1")
    asset = lookup.asset_by_key(organization_id, "A-1")
    assert asset
    where = board.whereabouts(organization_id, asset.id)
    assert where
    assert where.location_name == "Dock 1"
    assert "E2801170" in edge.ok("asset", "list", "--search", "E2801170")
