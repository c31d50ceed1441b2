"""Peewee models of the tables used with the query builder; `migrations/` defines all tables.

A test compares the two. Use the builder for variable conditions and for writing whole rows. Write SQL next to its
caller on the path of reads and API requests, and for queries that the builder cannot express (recursion, windows,
upserts of several columns).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from edge.database.connection import database
from edge.database.light_peewee import BlobField, BooleanField, FloatField, IntegerField, Model, TextField


class Table(Model):
    class Meta:
        database = database
        legacy_table_names = False


def rows(query: Any) -> Iterator[tuple[Any, ...]]:
    """Return the rows of a query as tuples, in column order."""
    return iter(query.tuples())


class Organization(Table):
    id = IntegerField(primary_key=True)
    name = TextField()
    created_at = IntegerField()
    topic_prefix = TextField(null=True)


class Person(Table):
    id = IntegerField(primary_key=True)
    organization_id = IntegerField()
    email = TextField(null=True)
    name = TextField()
    role = TextField()
    password_hash = TextField(null=True)
    pin_hash = TextField(null=True)
    wrong_pins = IntegerField()
    badge_hash = BlobField(null=True)
    badge_mark = IntegerField(null=True)
    language = TextField(null=True)
    created_at = IntegerField()
    updated_at = IntegerField()
    disabled_at = IntegerField(null=True)


class WebSession(Table):
    token_hash = BlobField(primary_key=True)
    person_id = IntegerField()
    device_id = IntegerField(null=True)
    created_at = IntegerField()
    expires_at = IntegerField()
    ref = TextField()
    browser = TextField()
    used_at = IntegerField()


class Location(Table):
    id = IntegerField(primary_key=True)
    organization_id = IntegerField()
    parent_id = IntegerField(null=True)
    external_key = TextField()
    key_number = IntegerField(null=True)
    name = TextField()
    description = TextField(null=True)
    is_active = BooleanField()
    valid_from = IntegerField()
    valid_to = IntegerField(null=True)
    created_at = IntegerField()
    updated_at = IntegerField()
    deleted_at = IntegerField(null=True)


class Reader(Table):
    id = IntegerField(primary_key=True)
    organization_id = IntegerField()
    name = TextField()
    topic = TextField()
    status_topic = TextField(null=True)
    format = TextField()
    mapping = TextField(null=True)
    location_id = IntegerField(null=True)
    min_rssi = FloatField(null=True)
    clock_setting = TextField()
    is_enabled = BooleanField()
    created_at = IntegerField()
    updated_at = IntegerField()
    deleted_at = IntegerField(null=True)


class Antenna(Table):
    reader_id = IntegerField()
    port = IntegerField()
    location_id = IntegerField(null=True)
    min_rssi = FloatField(null=True)
    is_enabled = BooleanField()

    class Meta:
        primary_key = False


class BrokerAccount(Table):
    reader_id = IntegerField(primary_key=True)
    name = TextField()
    password_hash = TextField()
    created_at = IntegerField()
    session = IntegerField(default=0)
    is_settled = BooleanField(default=False)


class HandheldScan(Table):
    id = TextField(primary_key=True)
    organization_id = IntegerField()
    person_id = IntegerField()
    sent_by = IntegerField()
    device_id = IntegerField(null=True)
    location_id = IntegerField(null=True)
    asset_id = IntegerField(null=True)
    code = TextField()
    outcome = TextField()
    observed_at = IntegerField()
    received_at = IntegerField()
    seq = IntegerField(null=True)
    undone_at = IntegerField(null=True)
    waits_for = TextField(null=True)
    carrier_act = TextField(null=True)
    carrier_id = IntegerField(null=True)
    load_ended_at = IntegerField(null=True)
