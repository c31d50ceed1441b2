from __future__ import annotations

import pytest

from edge.formats import tag_values
from edge.formats.fields import Unreadable
from edge.formats.tag_uri import hex_of

URIS = {
    "urn:epc:tag:sgtin-96:3.0614141.812345.6789": "3074257BF7194E4000001A85",
    "urn:epc:tag:sscc-96:3.0614141.1234567890": "3174257BF4499602D2000000",
    "urn:epc:tag:grai-96:3.0614141.12345.400": "3374257BF40C0E4000000190",
    "urn:epc:tag:giai-96:3.0614141.12345400": "3474257BF400000000BC6038",
    "urn:epc:raw:96.x3074257BF7194E4000001A85": "3074257BF7194E4000001A85",
}


@pytest.mark.parametrize(("uri", "digits"), URIS.items())
def test_a_tag_uri_is_converted_to_hexadecimal(uri, digits):
    assert hex_of(uri) == digits
    assert tag_values.epc(f" {uri} ") == digits


@pytest.mark.parametrize(
    "uri",
    [
        "urn:epc:id:sgtin:0614141.812345",  # without a serial number, it is a product
        "urn:epc:id:sgln:0614141.12345.400",
        "urn:epc:tag:sgtin-198:3.0614141.712345.A",
        "urn:epc:tag:sgtin-96:3.0614141.81234.6789",
        "urn:epc:tag:sgtin-96:8.0614141.812345.6789",
        "urn:epc:tag:sgtin-96:3.0614141.812345.274877906944",
        "urn:epc:tag:sgtin-96:3.061414.812345..",
        "urn:epc:tag:sscc-96:3.0614141.1234567890.5",
        "urn:epc:raw:96.x",
        "urn:isbn:0451450523",
    ],
)
def test_an_incomplete_uri_is_rejected(uri):
    assert hex_of(uri) is None
    with pytest.raises(Unreadable, match="tag URI"):
        tag_values.epc(uri)
