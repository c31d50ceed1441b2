"""The tables as Peewee sees them, for queries that are built; `migrations/` holds their real definition.

A test compares the two. Queries on the hot path, and recursive ones, are written out as SQL beside their callers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from peewee import BlobField, BooleanField, FloatField, IntegerField, Model, TextField

from edge.store.database import database


class Table(Model):
    class Meta:
        database = database
        legacy_table_names = False


def rows(query: Any) -> Iterator[tuple[Any, ...]]:
    """The rows of a built query as plain tuples, in the order of its columns."""
    return iter(query.tuples())


class Organization(Table):
    id = IntegerField(primary_key=True)
    name = TextField()
    created_at = IntegerField()


class Person(Table):
    id = IntegerField(primary_key=True)
    organization_id = IntegerField()
    email = TextField(null=True)
    name = TextField()
    role = TextField()
    password_hash = TextField(null=True)
    pin_hash = TextField(null=True)
    badge_hash = BlobField(null=True)
    created_at = IntegerField()
    updated_at = IntegerField()
    disabled_at = IntegerField(null=True)


class Device(Table):
    id = IntegerField(primary_key=True)
    organization_id = IntegerField()
    name = TextField()
    token_hash = BlobField(null=True)
    enrolment_hash = BlobField(null=True)
    enrolment_until = IntegerField(null=True)
    created_by = IntegerField(null=True)
    created_at = IntegerField()
    last_seen_at = IntegerField(null=True)
    revoked_at = IntegerField(null=True)


class WebSession(Table):
    token_hash = BlobField(primary_key=True)
    person_id = IntegerField()
    device_id = IntegerField(null=True)
    created_at = IntegerField()
    expires_at = IntegerField()


class Audit(Table):
    no = IntegerField(primary_key=True)
    organization_id = IntegerField(null=True)
    at = IntegerField()
    actor = TextField()
    action = TextField()
    detail = TextField()


class ApiKey(Table):
    id = TextField(primary_key=True)
    organization_id = IntegerField()
    name = TextField()
    scopes = TextField()
    secret_hash = BlobField()
    created_by = IntegerField(null=True)
    created_at = IntegerField()
    expires_at = IntegerField(null=True)
    last_used_at = IntegerField(null=True)
    revoked_at = IntegerField(null=True)


class TokenChain(Table):
    no = IntegerField(primary_key=True)
    api_key_id = TextField()
    created_at = IntegerField()
    revoked_at = IntegerField(null=True)


class RefreshToken(Table):
    token_hash = BlobField(primary_key=True)
    chain_no = IntegerField()
    expires_at = IntegerField()
    spent_at = IntegerField(null=True)


class Asset(Table):
    id = IntegerField(primary_key=True)
    organization_id = IntegerField()
    external_key = TextField()
    key_number = IntegerField(null=True)
    name = TextField()
    description = TextField(null=True)
    is_active = BooleanField()
    metadata = TextField()
    valid_from = IntegerField()
    valid_to = IntegerField(null=True)
    created_at = IntegerField()
    updated_at = IntegerField()
    deleted_at = IntegerField(null=True)


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


class Tag(Table):
    id = IntegerField(primary_key=True)
    organization_id = IntegerField()
    asset_id = IntegerField(null=True)
    location_id = IntegerField(null=True)
    tag_type = TextField()
    value = TextField()
    match_key = TextField()
    created_at = IntegerField()
    deleted_at = IntegerField(null=True)


class Reader(Table):
    id = IntegerField(primary_key=True)
    organization_id = IntegerField()
    name = TextField()
    topic = TextField()
    format = TextField()
    mapping = TextField(null=True)
    location_id = IntegerField(null=True)
    min_rssi = FloatField(null=True)
    is_on = BooleanField()
    created_at = IntegerField()
    updated_at = IntegerField()
    deleted_at = IntegerField(null=True)


class Antenna(Table):
    reader_id = IntegerField()
    port = IntegerField()
    location_id = IntegerField(null=True)
    min_rssi = FloatField(null=True)
    is_on = BooleanField()

    class Meta:
        primary_key = False


class BrokerAccount(Table):
    reader_id = IntegerField(primary_key=True)
    name = TextField()
    password_hash = TextField()
    created_at = IntegerField()


class ReaderState(Table):
    reader_id = IntegerField(primary_key=True)
    last_heard_at = IntegerField()
    last_read_at = IntegerField(null=True)
    clock_offset = IntegerField(null=True)
    qos = IntegerField()
    note = TextField(null=True)
    is_offline = BooleanField()


class AntennaState(Table):
    reader_id = IntegerField()
    port = IntegerField()
    last_read_at = IntegerField()

    class Meta:
        primary_key = False


class Source(Table):
    no = IntegerField(primary_key=True)
    organization_id = IntegerField()
    location_id = IntegerField()
    reader_id = IntegerField(null=True)
    port = IntegerField(null=True)


class Position(Table):
    no = IntegerField(primary_key=True)
    asset_id = IntegerField()
    organization_id = IntegerField()
    location_id = IntegerField()
    last_seen_at = IntegerField()
    dwell_started_at = IntegerField()
    row_at = IntegerField()
    row_seq = IntegerField()
    history_rows = IntegerField()


class History(Table):
    position_no = IntegerField()
    observed_at = IntegerField()
    seq = IntegerField()
    seen_for = IntegerField()
    source_no = IntegerField()
    delay = IntegerField()
    quality = IntegerField()
    rssi = IntegerField(null=True)

    class Meta:
        primary_key = False


class HandheldScan(Table):
    id = TextField(primary_key=True)
    organization_id = IntegerField()
    person_id = IntegerField()
    device_id = IntegerField(null=True)
    location_id = IntegerField(null=True)
    asset_id = IntegerField(null=True)
    code = TextField()
    outcome = TextField()
    observed_at = IntegerField()
    received_at = IntegerField()
    seq = IntegerField(null=True)
    undone_at = IntegerField(null=True)


class Ledger(Table):
    reader_id = IntegerField()
    hour = IntegerField()
    bucket = TextField()
    messages = IntegerField()
    reads = IntegerField()

    class Meta:
        primary_key = False


class DeadLetter(Table):
    no = IntegerField(primary_key=True)
    organization_id = IntegerField(null=True)
    reader_id = IntegerField(null=True)
    topic = TextField()
    payload = BlobField()
    reason = TextField()
    received_at = IntegerField()


class UnknownTag(Table):
    organization_id = IntegerField()
    tag_type = TextField()
    match_key = TextField()
    reader_id = IntegerField()
    value = TextField()
    reason = TextField()
    first_seen_at = IntegerField()
    last_seen_at = IntegerField()
    sightings = IntegerField()
    location_id = IntegerField(null=True)

    class Meta:
        primary_key = False


class UnclaimedTopic(Table):
    topic = TextField(primary_key=True)
    first_heard_at = IntegerField()
    last_heard_at = IntegerField()
    messages = IntegerField()
    sample = BlobField()
