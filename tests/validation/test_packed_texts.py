"""Stored messages keep their values, so that each person reads them in their language."""

from __future__ import annotations

import pytest
from flask import Flask

from edge.pages.translation import translated
from edge.texts import Count, fill, joined, shortened
from edge.validation.packed_texts import pack, unpack

KEPT = fill("this record is kept at %(site)s; change it there", site='Lyon, "Quai 3" [“A”] 100 %')


@pytest.mark.parametrize(
    ("message", "english", "german"),
    [
        (KEPT, str(KEPT), 'dieser Eintrag wird von Lyon, "Quai 3" [“A”] 100 % geführt; ändere ihn dort'),
        ("this asset is retired", "this asset is retired", "dieses Objekt ist stillgelegt"),
        (
            fill("Choose 1 to %(number)s assets", number=Count(10_000)),
            "Choose 1 to 10,000 assets",
            "Wähle 1 bis 10.000 Objekte",
        ),
        (
            joined([fill("tag %(tag)s already exists", tag="rfid:A"), "asset not found", "100 % of {x}"]),
            "tag rfid:A already exists; asset not found; 100 % of {x}",
            "den Code rfid:A gibt es schon; Objekt nicht gefunden; 100 % of {x}",
        ),
        (shortened(["a", "b", "c"], 2), "a, b and 1 more", "a, b und 1 weitere"),
        (shortened(["a", "b"], 2), "a, b", "a, b"),
        ('["not ours', '["not ours', '["not ours'),
    ],
)
def test_a_stored_reason_is_the_same_in_english_and_can_be_translated(message: str, english: str, german: str) -> None:
    assert message == english
    restored = unpack(pack(message))
    assert restored == english
    with Flask(__name__).test_request_context(headers={"Accept-Language": "de"}):
        assert translated(restored) == german
        assert translated(message) == german
