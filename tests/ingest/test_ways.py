"""The way of a message through the code stays short. A change that needs more raises a number and says why."""

from __future__ import annotations

from tests import ways
from tests.ingest.site import Site, csl, message, pipeline, seen


def test_a_message_whose_asset_does_not_move(site: Site) -> None:
    line = pipeline()
    files, functions = ways.of(lambda: line.handle([message(csl(seen(site.epcs[0])))]))
    assert files <= 34
    assert functions <= 131
