"""The limits in the chapter Security are those of the code."""

from __future__ import annotations

import pytest

from edge import memory_budget
from edge.api import guard
from edge.audit.quotas import CAPS
from edge.config.settings import Config
from edge.pages import guard as pages_guard
from edge.people.passwords import MIN_LENGTH
from edge.people.pin_lockout import MAX_WRONG_PINS
from edge.records import asset_notes, asset_photos
from edge.sync import batch_format
from edge.tracking import recent_reads
from edge.validation import body, values
from tests.manual.documents import FOLDER

TEXT = (FOLDER / "security.md").read_text("utf-8")
KB, MB = 1024, 1024 * 1024
SHOWN = {
    f"| API body | {guard.MAX_BODY // MB} MiB; `metadata` {values.MAX_METADATA_BYTES // KB} KiB and "
    f"{values.MAX_METADATA_DEPTH} levels; {body.MAX_FAULTS:,} reported faults |",
    f"| Form, scans of a handheld | {pages_guard.MAX_BODY // MB} MiB |",
    f"| Uploaded table or drawing | {pages_guard.MAX_UPLOAD // MB} MiB, only when signed in |",
    f"| Batch of a site | {batch_format.MAX_BODY // MB} MiB compressed, "
    f"{batch_format.MAX_INFLATED // MB} MiB unpacked |",
    f"| Tags of a record | {values.MAX_TAGS}, with {values.MAX_TAG_BYTES // KB} KiB of values |",
    f"| {Config.rate_per_second} per second, {Config.rate_burst} saved up",
    f"the first {memory_budget.SMALL // KB} KB of each are not counted",
    f"{memory_budget.MOST_OF_REQUEST // MB} MB for one body",
    f"{batch_format.MAX_BATCH_MEMORY // MB} MB for a batch of a site",
    f"| Recent reads | {recent_reads.MOST_BYTES // MB} MB |",
    f"at least {MIN_LENGTH} characters",
    f"| Assets | {Config.limits_assets:,} (`limits.assets`) |",
    f"| Locations | {Config.limits_locations:,} (`limits.locations`) |",
    f"| API keys | {CAPS['key'][0]:,} |",
    f"| People | {CAPS['person'][0]:,} |",
    f"| Devices | {CAPS['device'][0]:,} |",
    f"| Readers | {CAPS['reader'][0]:,} |",
    f"| Sites of a hub | {CAPS['site'][0]:,} |",
    f"| Floor plans | {CAPS['floor_plan'][0]:,} |",
    f"| Kiosk displays | {CAPS['wall'][0]:,} |",
    f"| Notes | {CAPS['asset_note'][0]:,}; {asset_notes.MOST_OF_ASSET} of an asset; "
    f"{asset_notes.MOST_OF_PERSON} of a person in 24 hours |",
    f"| Photos | {CAPS['asset_photo'][0]:,} of at most {asset_photos.MAX_BYTES // KB} KB; "
    f"{asset_photos.MOST_OF_ASSET} of an asset; {asset_photos.MOST_OF_PERSON} of a person in 24 hours |",
    f"| Stock-takes | {CAPS['stock_take'][0]:,}; {CAPS['open stock_take'][0]} open |",
}


@pytest.mark.parametrize("limit", sorted(SHOWN))
def test_a_limit_is_the_one_of_the_code(limit: str) -> None:
    assert limit in TEXT.replace("\n", " ")


def test_locked_pins() -> None:
    assert MAX_WRONG_PINS == 20
    assert "twenty wrong ones lock a PIN" in " ".join(TEXT.split())
