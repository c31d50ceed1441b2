"""Test of a message before the reader is saved."""

from __future__ import annotations

import msgspec
import pytest

from edge.database.connection import execute
from edge.errors import Invalid
from edge.formats.reads import Attempt
from edge.ingest.try_out import try_out
from tests.conftest import Cast
from tests.ingest.site import DOCK, Site, csl, everything_recorded, seen


def test_each_read_is_shown_with_its_asset_its_location_and_its_bucket(site: Site) -> None:
    before = everything_recorded()
    message = csl(seen(site.epcs[0]), seen("30BAD0"), seen(site.epcs[1], port=2, rssi=-70), seen(site.epcs[2], port=3))
    trial = try_out(
        site.organization_id, Attempt(DOCK, message, "csl", location_id=site.aisle, reader_id=site.dock_reader)
    )
    assert trial.bucket == "recorded"
    assert [(one.bucket, one.asset_id) for one in trial.reads] == [
        ("recorded", site.assets[0]),
        ("unmatched_tag", None),
        ("filtered", None),
        ("filtered", None),
    ]
    assert trial.reads[0].location_id == site.aisle
    assert everything_recorded() == before
    assert execute("SELECT count(*) FROM ledger").fetchone() == (0,)


@pytest.mark.parametrize(
    ("payload", "format_name", "bucket"),
    [
        (b"{", "csl", "malformed"),
        (b'{"tags":[{"epc":"?"}]}', "csl", "malformed"),
        (b'{"a":1}', "csl", "ignored"),
        (b'{"heartBeatFlag":true}', "csl", "status"),
        (csl(seen("30AA00000000000000000000")), "csl", "no_location"),
    ],
)
def test_the_bucket_of_a_message_without_reads_or_location(
    site: Site, payload: bytes, format_name: str, bucket: str
) -> None:
    assert try_out(site.organization_id, Attempt("t", payload, format_name)).bucket == bucket


def test_a_time_without_a_zone_is_named_as_the_reason(site: Site) -> None:
    entries = b'{"tags":[{"epc":"30AA","time":"2026/03/02 08:15:30"},{"epc":"30BB"}]}'
    reads = try_out(site.organization_id, Attempt("t", entries, "csl")).reads
    assert [(one.observed_at, one.lacks_zone) for one in reads] == [(None, True), (None, False)]
    zoned = Attempt("t", entries, "csl", clock_setting="Europe/Berlin")
    assert [one.lacks_zone for one in try_out(site.organization_id, zoned).reads] == [False, False]


def test_nothing_of_another_organization_is_visible(site: Site, cast: Cast) -> None:
    attempt = Attempt(DOCK, csl(seen(site.epcs[0])), "csl", reader_id=site.dock_reader)
    (one,) = try_out(cast.rival, attempt).reads
    assert (one.bucket, one.asset_id, one.location_id) == ("unmatched_tag", None, None)


def test_a_mapping_that_cannot_be_used_is_refused(site: Site) -> None:
    with pytest.raises(Invalid):
        try_out(site.organization_id, Attempt("t", b"{}", "mapping", "{}"))


def test_fields_missed_by_a_mapping_are_reported(site: Site) -> None:
    payload = msgspec.json.encode({"tags": [{"epc": epc, "rssi": "C3"} for epc in site.epcs]})
    mapping = '{"list_path": "tags", "tag_path": "epc", "antenna_path": "ant", "rssi_path": "rssi"}'
    trial = try_out(site.organization_id, Attempt("t", payload, "mapping", mapping, site.aisle))
    assert [one.bucket for one in trial.reads] == ["recorded"] * 3
    assert trial.remarks == (
        "antenna_path matched nothing in 3 of 3 reads",
        'rssi_path was unreadable in 3 of 3 reads: rssi is "C3", not a number',
    )
    trial = try_out(
        site.organization_id,
        Attempt("t", payload, "mapping", '{"list_path": "tags", "tag_path": "epc", "condition": "rssi > `-70`"}'),
    )
    assert trial.bucket == "malformed"
    assert trial.remarks[0].startswith("condition compared text with a number in 3 of 3 reads")
