"""Random names, keys, times and filters, in every permitted spelling."""

from __future__ import annotations

from tests.api.model.record import GAP, HOUR, SECOND

NAMES = ["pallet", "Pallet 7", "drum", "50%_off", "Straße"]
DESCRIPTIONS = [None, "two lines\nof text", "drum"]
METADATA = [{}, {"a": {"b": None}}, {"size": 2**60}]
TAGS = [(kind, value) for kind in ("rfid", "ble", "barcode") for value in ("E2001", "e2001", "AA:BB", "40 06381")]
KEYS = ["A-1", "a-1", "B-2", "ASSET-0003", "ASSET-00012", "ASSET-9999", "ASSET-7", "LOC-003", "LOC-999", "LOC-5"]
WINDOWS: list[dict[str, int | None]] = [  # relative to now
    {"valid_from": -HOUR, "valid_to": HOUR},
    {"valid_from": HOUR},
    {"valid_from": -2 * HOUR, "valid_to": -HOUR},
    {"valid_from": 0, "valid_to": 0},
    {"valid_to": -SECOND},
    {"valid_to": 0},
    {"valid_to": 1},
    {"valid_to": None},
]
SPELLINGS = ["{:%Y-%m-%dT%H:%M:%S.%f}Z", "{:%Y-%m-%dt%H:%M:%S.%f}+00:00", "{:%Y-%m-%dT%H:%M:%S.%f}123-00:00"]
WALKS = ["ancestors", "children", "descendants"]
BOOLEANS = ["true", "false"]
Q = ["PAL", "e2", "t-000", "strasse", "_", "TEXT", ""]
SORTS = ["", "name", "-external_key", "name,-created_at", "-updated_at", "created_at"]
REPORT_SORTS = ["", "asset_last_seen", "-asset_external_key", "location_external_key,asset_last_seen"]
AGO = [0, SECOND, 2_500_000, 250 * SECOND, GAP, GAP + 1000, 1000 * SECOND, 5000 * SECOND]
