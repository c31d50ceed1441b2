"""GS1 keys in every encoding, with examples from the Tag Data Standard, the General Specifications and Digital Link."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from biip.gs1_prefixes import GS1CompanyPrefix
from hypothesis import given
from hypothesis import strategies as st

from edge import clock
from edge.audit.actors import shell
from edge.database.connection import database
from edge.handhelds import scans
from edge.ingest.messages import Message
from edge.ingest.pipeline import Pipeline
from edge.readers.matching import NoAsset, TagMatcher
from edge.records import assets, gs1, gs1_barcodes, gs1_epcs, locations, lookup
from edge.records.tags import NewTag
from edge.tracking import board
from edge.validation import values
from tests.conftest import Cast

# Tag Data Standard: examples of EPC, URI and element string for each scheme (company prefix 0614141).
SGTIN = "(01)80614141123458(21)6789"
SSCC = "(00)106141412345678908"
GRAI = "(8003)006141411234525678"
GIAI = "(8004)06141415678"
# Also used by the tests of the scan page. A QR code may have capitals only; no FNC1 follows an element of fixed length
# or the last one.
SPELLINGS = [tuple(pair) for pair in json.loads((Path(__file__).parent / "gs1-spellings.json").read_text("utf-8"))]


@pytest.mark.parametrize(("identity", "code"), SPELLINGS)
def test_every_encoding_has_the_same_identity(identity: str, code: str) -> None:
    assert gs1.identity(code) == identity
    assert gs1.identity(identity) == identity


@pytest.mark.parametrize(
    "code",
    [
        *(
            "4006381333931",
            "(01)09506000134352",
            "https://id.gs1.org/01/09506000134352",
            "]C1420123(414)0614141123452",
        ),
        *("E28011700000020A7B2C3D4E", "(8003)00614141123452", "ASSET-0001", "http://box.local/a/ASSET-0001"),
        *("urn:epc:tag:gid-96:1.2.3", "", "(", "()", "]C1", "\x1d", "http://[x", "30", "3" * 5000, "urn:epc:tag:"),
        "30FFFFFFFFFFFFFFFFFFFFFF",
        *("3000E2009A9040060AF000003060", "30003074257BF7194E4000001A85", "3074257BF7194E4000001A85000000000000000F"),
        *("3174257BF4499602D2000000DEADBEEF", "3374257BF40C0E400000162E8", "3474257BF40000000000162E00000001"),
        *("3674257BF6B7A659B2C2BF1000000000000000000000000001", "3774257BF40C0E59B2C2BF100000000000000000000F"),
    ],
)
def test_codes_that_identify_no_single_item_have_no_identity(code: str) -> None:
    assert gs1.identity(code) is None


@given(st.text(max_size=60) | st.from_regex(r"3[0-8][0-9A-F]{22,60}", fullmatch=True) | st.text("01()[]C2dQ8 3\x1d/"))
def test_no_code_raises(code: str) -> None:
    record = gs1.identity(code)
    assert record is None or record.startswith("(")
    assert "\x1d" not in gs1.printable(code)


def test_no_memory_is_spent_on_which_company_a_number_was_given_to() -> None:
    """The library would otherwise know the company of this number."""
    assert GS1CompanyPrefix.extract("7044610873466") is None


def test_a_code_with_separators_is_stored_in_brackets() -> None:
    assert gs1.printable("]C1010950600013435210LOT\x1d21ABC") == "(01)09506000134352(10)LOT(21)ABC"
    assert gs1.printable("]C1018061414112345817261231216789") == "(01)80614141123458(17)261231(21)6789"
    assert gs1.printable("]C1PLAIN") == "]C1PLAIN"
    assert gs1.printable("PLAIN") == "PLAIN"
    assert gs1.printable("NO\x1dGS1") == "NOGS1"


def test_epc_and_printed_code_match_each_other(cast: Cast) -> None:
    """They match in fixed reads, scans and search."""
    somebody = shell(cast.acme)
    printed = assets.create(somebody, name="Printed", tags=[NewTag("barcode", SGTIN)])
    tagged = assets.create(somebody, name="Tagged", tags=[NewTag("rfid", "3374257BF40C0E400000162E")])
    assert lookup.by_code(cast.acme, "3074257BF7194E4000001A85") == (
        "asset",
        printed.id,
        printed.external_key,
        "Printed",
    )
    record = lookup.by_code(cast.acme, "]C18003006141411234525678")
    assert record
    assert record.id == tagged.id
    matcher = TagMatcher()
    reads = [(cast.acme, "rfid", "3074257BF7194E4000001A85"), (cast.acme, "barcode", GRAI), (cast.acme, "rfid", "E2AA")]
    matcher.prepare([*reads, (cast.rival, "barcode", GRAI)])
    assert [matcher.match(*read) for read in reads] == [printed.id, tagged.id, NoAsset.UNMATCHED]
    assert matcher.match(cast.rival, "barcode", GRAI) is NoAsset.UNMATCHED
    for q, name in (("https://id.gs1.org/01/80614141123458/21/6789", "Printed"), (GRAI, "Tagged")):
        assert [row.name for row in board.board(cast.acme, board.BoardFilter(q=q), limit=5).rows] == [name]


@pytest.mark.parametrize("prefix", ["3000", "3400", "30000000"])
def test_a_longer_number_that_begins_like_an_epc_is_another_tag(cast: Cast, prefix: str) -> None:
    """Readers that put the PC word before the EPC, and chips with 128 bits."""
    assets.create(shell(cast.acme), name="Tagged", tags=[NewTag("rfid", f"{prefix}E2009A9040060AF000000372")])
    matcher, read = TagMatcher(), (cast.acme, "rfid", f"{prefix}E2009A9040060AF000003060")
    matcher.prepare([read])
    assert matcher.match(*read) is NoAsset.UNMATCHED
    assert lookup.by_code(cast.acme, read[2]) is None


def test_a_longer_number_has_no_epc_uri() -> None:
    assert gs1_epcs.pure_identity("3074257BF7194E4000001A85") == "urn:epc:id:sgtin:0614141.812345.6789"
    assert gs1_epcs.pure_identity("3074257BF7194E4000001A8500000001") is None


def test_an_ambiguous_identity_matches_nothing(cast: Cast) -> None:
    somebody = shell(cast.acme)
    one = assets.create(somebody, name="One", tags=[NewTag("barcode", SSCC)])
    assets.attach_tag(somebody, one.id, NewTag("rfid", "3174257BF4499602D2000000"))
    assert lookup.by_code(cast.acme, "]C100106141412345678908") == ("asset", one.id, one.external_key, "One")
    assets.create(somebody, name="Other", tags=[NewTag("ble", "urn:epc:id:sscc:0614141.1234567890")])
    assert lookup.by_code(cast.acme, "]C100106141412345678908") is None
    matcher, read = TagMatcher(), (cast.acme, "barcode", "https://id.gs1.org/00/106141412345678908")
    matcher.prepare([read])
    assert matcher.match(*read) is NoAsset.AMBIGUOUS


def test_locations_match_by_identity_too(cast: Cast) -> None:
    dock = locations.create(shell(cast.acme), name="Dock", tags=[NewTag("rfid", "3474257BF40000000000162E")])
    record = lookup.by_code(cast.acme, GIAI)
    assert record
    assert (record.kind, record.id) == ("location", dock.id)


@pytest.mark.parametrize(("identity", "code"), SPELLINGS)
def test_no_right_check_digit_is_called_wrong(identity: str, code: str) -> None:
    assert not gs1.has_wrong_check_digit(code)


@pytest.mark.parametrize(
    "code",
    [
        *("]C10180614141123459216789", "(01)80614141123459(21)6789", "https://id.gs1.org/01/80614141123459/21/6789"),
        *("(00)106141412345678909", "]C100106141412345678909", "https://id.gs1.org/8003/00614141123453567"),
        "HTTPS://ID.GS1.ORG/01/80614141123459/21/6789",
    ],
)
def test_a_wrong_check_digit_is_detected(code: str) -> None:
    assert gs1.has_wrong_check_digit(code)


@pytest.mark.parametrize("code", ["0180614141123459216789", "106141412345678909", "http://box/l/01", "BC-0001", ""])
def test_codes_that_are_not_marked_as_gs1_have_no_check_digit(code: str) -> None:
    assert not gs1.has_wrong_check_digit(code)


def test_scanned_codes_are_parsed_before_the_write_lock(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    """Loading the library for barcodes takes 0.1 s."""
    gs1.cached_identity.cache_clear()
    parsed_in_transaction = []

    def parse(_code: str) -> None:
        parsed_in_transaction.append(database.in_transaction())

    monkeypatch.setattr(gs1, "_identity_of_barcode", parse)
    monkeypatch.setattr(scans, "_submit_one", lambda _sender, scan, _at: gs1.identity(scan.code))
    scan = scans.Submitted("scan-gs1-0001", "(00)106141412345678908", 1, clock.now())
    scans.submit(shell(cast.acme), [scan], clock.now())
    gs1.cached_identity.cache_clear()  # of the wrong answers
    assert parsed_in_transaction == [False]


def test_the_library_for_epcs_is_loaded_before_the_write_lock(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded_in_transaction = []
    monkeypatch.setattr(gs1, "load_epc_library", lambda: loaded_in_transaction.append(database.in_transaction()))
    Pipeline(300 * clock.SECOND, 7).handle([Message("nowhere", b"{}", clock.now())])
    assert loaded_in_transaction == [False]


@pytest.mark.parametrize("code", ["https://a/" + "/" * 100_000, "]C1" + "10A\x1d" * 30_000, "30" + "A" * 100_000])
def test_very_long_codes_are_neither_parsed_nor_cached(code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A megabyte of slashes would take minutes, in which no other thread runs; 20,000 codes would fill the memory."""

    def parse(*_: object) -> None:
        raise AssertionError("parsed")

    for name in ("_identity_of_barcode", "cached_identity"):
        monkeypatch.setattr(gs1, name, parse)
    monkeypatch.setattr(gs1_barcodes, "as_bracketed", parse)
    assert gs1.identity(code) is None
    assert gs1.SEPARATOR not in gs1.printable(code)


def test_the_longest_tag_values_are_parsed() -> None:
    link = f"https://id.gs1.org/01/80614141123458/21/6789?{'linkType=all&' * 20}"
    assert len(link) > values.MAX_TAG_VALUE
    assert gs1.identity(link) == SGTIN
