"""Random requests to the program, compared with the model."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from werkzeug.test import TestResponse

from edge import clock
from edge.audit.actors import shell
from edge.database.connection import execute
from edge.people import organizations
from edge.readers import readers
from edge.tracking.positions import record
from edge.tracking.stays import Quality, Scan
from tests.api.conftest import Api, data, sign_up
from tests.api.model.compare import accepted, plain, same, shown
from tests.api.model.organization import NOT_FOUND, Organization
from tests.api.model.record import GAP, HOUR, SECOND, Body, Record, Sighting, Tag, moment, wire
from tests.api.model.values import (
    AGO,
    BOOLEANS,
    DESCRIPTIONS,
    KEYS,
    METADATA,
    NAMES,
    REPORT_SORTS,
    SORTS,
    SPELLINGS,
    TAGS,
    WALKS,
    WINDOWS,
    Q,
)
from tests.databases import make_database

START = 1_790_000_000_123_456


class Site:
    """Two isolated organizations. `log` has the requests, `dice` is the source of randomness."""

    def __init__(self, app: Flask, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.log: list[str] = []
        self.now = START
        self.dice = random.Random()
        monkeypatch.setattr(clock, "now", lambda: self.now)
        make_database(folder)
        execute("UPDATE instance SET id_key = ?", (bytes(32),))  # ids and orders that end with them can be repeated
        self.organizations = [Organization("acme"), Organization("rival")]
        self.read_before: list[tuple[Record, Body]] = []
        self.apis: dict[str, Api] = {}
        self.gates: dict[str, int] = {}
        for one in self.organizations:
            organization_id = organizations.add_organization(shell(), one.name).id
            self.apis[one.name] = sign_up(app.test_client(), organization_id)
            self.gates[one.name] = readers.add_reader(
                shell(organization_id), name="gate", topic=f"{one.name}/gate", format="csl"
            ).id
            self.furnish(one)

    def furnish(self, owner: Organization) -> None:
        """Create three levels of locations, with assets in the upper two."""
        for name, inside in zip(NAMES, [None, 0, 1, 1, 0], strict=True):
            made = owner.live("location")
            self.created(owner, "location", {"name": name, "parent_id": None if inside is None else made[inside].id})
            self.created(owner, "asset", {"name": name, "description": f"text of {name}"})
        for asset, location in zip(owner.live("asset"), owner.live("location")[:2] * 3, strict=False):
            self.recorded(asset, Sighting(self.now, location, by_person=True))

    # Dice

    def seldom(self) -> bool:
        return self.dice.random() < 0.1

    def maybe(self, **choices: list[Any]) -> Body:
        return {name: self.dice.choice(values) for name, values in choices.items() if self.dice.random() < 0.3}

    def organization(self) -> Organization:
        return self.organizations[self.seldom()]

    def record(self, *kinds: str) -> Record:
        """Return a record, usually a live one. Deleted records must stay deleted."""
        kind = self.dice.choice(kinds or ("asset", "location"))
        if self.seldom():
            return self.dice.choice([one for owner in self.organizations for one in owner.of(kind)])
        return self.dice.choice(self.organization().live(kind) or self.organizations[1].of(kind))

    def caller(self, record: Record) -> Organization:
        """Return a client, usually that of the owner."""
        stranger = self.seldom()
        return next(one for one in self.organizations if (one is record.owner) is not stranger)

    def window(self) -> Body:
        spelling = self.dice.choice(SPELLINGS)
        return {
            name: None if delta is None else spelling.format(moment(self.now + delta))
            for name, delta in self.dice.choice(WINDOWS).items()
        }

    def changes(self) -> Body:
        return self.maybe(name=NAMES, description=DESCRIPTIONS, is_active=[True, False])

    def tag(self) -> Tag:
        return self.dice.choice(TAGS)

    def parent(self) -> Body:
        """Return a parent by id, by key, by both, by two that differ, or none."""
        parent, other = self.record("location"), self.record("location")
        by_id, by_key = {"parent_id": parent.id}, {"parent_external_key": parent.external_key}
        other_key = {"parent_external_key": other.external_key}
        to_root: list[Body] = [{"parent_id": None}, {"parent_external_key": None}]
        return self.dice.choice(
            [by_id, by_key, by_id | by_key, by_id | other_key, by_id | to_root[1], *to_root, to_root[0] | to_root[1]]
        )

    def page(self) -> Body:
        return self.maybe(limit=[1, 2, 3, 7], offset=[0, 1, 2, 5])

    def filters(self, sorts: list[str]) -> Body:
        return self.maybe(q=Q, include_deleted=BOOLEANS, sort=sorts) | self.page()

    def any_of(self, kind: str, prefix: str, *names: str) -> Body:
        """Return filters by `names` for one or two records, usually empty."""
        if self.dice.random() < 0.7:
            return {}
        name, count = self.dice.choice(names), self.dice.choice([1, 2])
        return {f"{prefix}{name}": [getattr(self.record(kind), name) for _ in range(count)]}

    # Writing

    def create(self) -> None:
        kind = self.dice.choice(["asset", "location"])
        body = {"name": "thing"} | self.changes() | self.maybe(external_key=KEYS)
        body |= self.maybe(tags=[[], None, [self.tag()], [self.tag(), self.tag()]])
        if body.get("tags"):
            body["tags"] = [{"tag_type": tag_type, "value": value} for tag_type, value in body["tags"]]
        if self.dice.random() < 0.3:
            body |= self.window()
        self.created(self.organization(), kind, body | (self.parent() if kind == "location" else {}))

    def created(self, caller: Organization, kind: str, body: Body) -> None:
        response = self.ask(caller, "POST", f"/{kind}s", body)
        if accepted(response, 201, caller.refuse_create(kind, body, self.now)):
            made = caller.create(kind, body, self.now, data(response))
            same(plain(data(response)), made.shown)
            same(response.headers["Location"], f"/api/v1{made.path}")

    def patch(self) -> None:
        record = self.record()
        body = self.changes() | (self.window() if self.dice.random() < 0.3 else {})
        self.patched(record, body | (self.maybe(metadata=METADATA) if record.kind == "asset" else {}))

    def move(self) -> None:
        self.patched(self.record("location"), self.parent())

    def read(self) -> None:
        record = self.record()
        self.look(record)
        self.read_before.append((record, record.shown))

    def patch_with_what_was_read(self) -> None:
        """Return a body to echo: of now or earlier, complete or without server fields."""
        record = self.record()
        body = record.shown | self.changes()
        if self.read_before and self.dice.random() < 0.7:
            record, body = self.dice.choice(self.read_before)
        left_out = self.dice.choice([[], ["updated_at"], ["updated_at", "external_key", "tags"]])
        self.patched(record, {name: value for name, value in body.items() if name not in left_out})

    def patch_with_a_field_of_another(self) -> None:
        record, other = self.record(), self.record()
        name = self.dice.choice(["id", "created_at", "updated_at", "deleted_at", "external_key", "tags"])
        self.patched(record, {name: other.shown[name]})

    def patched(self, record: Record, body: Body) -> None:
        caller = self.caller(record)
        response = self.ask(caller, "PATCH", record.path, body)
        if accepted(response, 200, caller.refuse_patch(record, body)):
            caller.patch(record, body, data(response))
            same(plain(data(response)), record.shown)
        self.look(record)

    def rename(self) -> None:
        record = self.record()
        caller, key = self.caller(record), self.dice.choice([*KEYS, record.external_key])
        response = self.ask(caller, "POST", f"{record.path}/rename", {"external_key": key})
        if accepted(response, 200, caller.refuse_rename(record, key)):
            affected = caller.rename(record, key, data(response))
            same(plain(data(response)), record.shown)
            same((response.json or {})["descendant_count_affected"], affected)
        self.look(record)

    def delete(self) -> None:
        record = self.record()
        if self.dice.random() < 0.5:
            record = [record, *record.descendants][-1]  # it has no descendants
        caller = self.caller(record)
        self.now += SECOND  # `deleted_at` follows any `updated_at`, which may be ahead of the clock
        if accepted(self.ask(caller, "DELETE", record.path), 204, caller.refuse_delete(record)):
            caller.delete(record, self.now)
        self.look(record)

    def attach(self) -> None:
        record, tag = self.record(), self.tag()
        caller = self.caller(record)
        response = self.ask(caller, "POST", f"{record.path}/tags", {"tag_type": tag[0], "value": tag[1]})
        if accepted(response, 201, caller.refuse_attach(record, tag)):
            made = data(response)
            record.tags[made["id"]] = tag
            same(made, {"id": made["id"], "tag_type": tag[0], "value": tag[1]})
            same(response.headers["Location"], f"/api/v1{record.path}/tags/{made['id']}")
        self.look(record)

    def detach(self) -> None:
        """Return a tag that the record has, or one that any record once had."""
        record = self.record()
        known = [*record.tags] or [tag["id"] for _, body in self.read_before for tag in body["tags"]]
        if known:
            caller, tag_id = self.caller(record), self.dice.choice(known)
            response = self.ask(caller, "DELETE", f"{record.path}/tags/{tag_id}")
            if accepted(response, 204, caller.refuse_detach(record, tag_id)):
                del record.tags[tag_id]
            self.look(record)

    def wait(self) -> None:
        """Move the clock, which changes lists without a write."""
        acme = self.organizations[0]
        for time in (0, self.dice.choice([1_500, SECOND, 400 * SECOND, HOUR, 2 * HOUR])):
            self.now += time
            for api in self.apis.values():
                api.token = (api.exchange().json or {})["access_token"]
            for kind in ("asset", "location"):
                self.compare(acme, f"/{kind}s", {}, shown(acme.listed(kind, {}, self.now)))

    def scan(self) -> None:
        """Record a few scans of a live asset at a live location."""
        asset, by_person = self.record("asset"), self.dice.random() < 0.5
        places = [self.record("location"), self.record("location")]
        times = [self.now - self.dice.choice(AGO) - 700_456 * by_person for _ in range(self.dice.choice([1, 2, 4]))]
        for at in self.dice.choice([times, sorted(times)]):
            location = self.dice.choice(places)
            one = Sighting(at, location, by_person)
            if asset.live and location.live and asset.owner is location.owner and asset.can_tell(one):
                self.recorded(asset, one)

    def recorded(self, asset: Record, one: Sighting) -> None:
        owner = asset.owner.name
        quality, reader, gap = Quality.READER, self.gates[owner], GAP
        if one.by_person:
            quality, reader, gap = Quality.HANDHELD, None, 0
        self.log.append(f"{self.now}: {one.location} sees {asset} at {one.at} by {reader or 'hand'}")
        organization_id = self.apis[owner].organization_id
        record([Scan(organization_id, asset.id, one.location.id, reader, None, one.at, self.now, quality)], gap)
        asset.sight(one)

    # Reading

    def list_assets(self) -> None:
        query = self.filters(SORTS) | self.maybe(is_active=BOOLEANS) | self.any_of("asset", "", "external_key")
        caller = self.organization()
        self.compare(caller, "/assets", query, shown(caller.listed("asset", query, self.now)))

    def list_locations(self) -> None:
        query = self.filters(SORTS) | self.maybe(is_active=BOOLEANS) | self.any_of("location", "", "external_key")
        query |= self.any_of("location", "parent_", "id", "external_key")
        caller = self.organization()
        self.compare(caller, "/locations", query, shown(caller.listed("location", query, self.now)))

    def list_tree(self) -> None:
        location = self.record("location")
        caller, walk = self.caller(location), self.dice.choice(WALKS)
        rows = self.walked(location, walk) if caller.find(location) else None
        self.compare(caller, f"{location.path}/{walk}", self.page(), rows)

    def walked(self, location: Record, walk: str) -> list[Body]:
        """Compare a tree list. Ancestors are shown outside their window too."""
        records: list[Record] = getattr(location, walk)
        return shown([one for one in records if walk == "ancestors" or one.effective(self.now)])

    def report(self) -> None:
        query = self.filters(REPORT_SORTS)
        query |= self.any_of("asset", "asset_", "id", "external_key")
        query |= self.any_of("location", "location_", "id", "external_key")
        caller = self.organization()
        self.compare(caller, "/reports/asset-locations", query, caller.report(query, self.now))

    def history(self) -> None:
        asset = self.record("asset")
        rows = asset.history
        times = [row["event_observed_at"] for row in rows] + [wire(self.now)]
        query = self.maybe(**{"from": times, "to": times, "sort": ["event_observed_at", "-event_observed_at"]})
        query |= self.page()
        rows = [row for row in rows if query.get("from", "") <= row["event_observed_at"] <= query.get("to", "9")]
        if query.get("sort") == "event_observed_at":
            rows.reverse()
        caller = self.caller(asset)
        self.compare(caller, f"{asset.path}/history", query, rows if caller.find(asset) else None)

    def take_stock(self) -> None:
        """Compare all records and lists."""
        for one in self.organizations:
            for deleted in BOOLEANS:
                query = {"include_deleted": deleted, "limit": 200}
                for kind in ("asset", "location"):
                    self.compare(one, f"/{kind}s", query, shown(one.listed(kind, query, self.now)))
                self.compare(one, "/reports/asset-locations", query, one.report(query, self.now))
            for asset in one.live("asset"):
                self.compare(one, f"{asset.path}/history", {"limit": 200}, asset.history)
            for location in one.live("location"):
                for walk in WALKS:
                    self.compare(one, f"{location.path}/{walk}", {"limit": 200}, self.walked(location, walk))

    # Comparing

    def ask(self, caller: Organization, method: str, path: str, body: Any = None, **query: Any) -> TestResponse:
        response = self.apis[caller.name].call(method, path, body, **query)
        self.log.append(f"{self.now}: {caller.name} {method} {path} {body or query} -> {response.status_code}")
        return response

    def look(self, record: Record) -> None:
        response = self.ask(record.owner, "GET", record.path)
        if accepted(response, 200, None if record.live else NOT_FOUND):
            same(plain(data(response)), record.shown)

    def compare(self, caller: Organization, path: str, query: Body, rows: list[Body] | None) -> None:
        """Return the page of `rows` for `query`, or None if the record does not exist."""
        response = self.ask(caller, "GET", path, **query)
        if accepted(response, 200, NOT_FOUND if rows is None else None) and rows is not None:
            limit, offset = query.get("limit", 50), query.get("offset", 0)
            answer = response.json or {}
            same([plain(row) for row in answer["data"]], rows[offset : offset + limit])
            same(answer, {"data": answer["data"], "limit": limit, "offset": offset, "total_count": len(rows)})


ACTIONS = [
    *(Site.create, Site.patch, Site.move, Site.read, Site.rename, Site.delete, Site.attach, Site.detach),
    *(Site.patch_with_what_was_read, Site.patch_with_a_field_of_another, Site.wait, Site.scan, Site.scan, Site.create),
    *(Site.list_assets, Site.list_locations, Site.list_tree, Site.report, Site.history),
]
