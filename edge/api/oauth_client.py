"""Client credentials at the token endpoint, in the Authorization header or the body (RFC 6749, 2.3.1)."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import unquote_plus

from edge.api.envelope import CHALLENGE, ApiError
from edge.errors import Unreadable

INVALID_CREDENTIALS = "Invalid client credentials"
_BASIC_CHALLENGE = {"WWW-Authenticate": f'{CHALLENGE["WWW-Authenticate"]}, Basic realm="api"'}


class Client(NamedTuple):
    """Credentials of an OAuth client."""

    client_id: str
    client_secret: str


def from_header(header: str) -> Client | None:
    """Return the HTTP Basic credentials, or None for another scheme. Raises ApiError if they cannot be decoded."""
    scheme, _, encoded = header.partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        pair = base64.b64decode(encoded.strip(), validate=True).decode()
        client_id, colon, client_secret = (unquote_plus(part, errors="strict") for part in pair.partition(":"))
    except ValueError:  # not base64, or not UTF-8
        raise invalid_client(is_basic=True) from None
    if not colon:
        raise invalid_client(is_basic=True)
    return Client(client_id, client_secret)


def merge_credentials(header: Client | None, body: Mapping[str, Any]) -> Mapping[str, Any]:
    """Merge the header's credentials into the body. Raises Unreadable if both contain them."""
    if header is None:
        return body
    if "client_secret" in body or body.get("client_id", header.client_id) != header.client_id:
        raise Unreadable("Send the client credentials either in the Authorization header or in the body")
    return {**body, **header._asdict()}


def invalid_client(*, is_basic: bool) -> ApiError:
    """Return the 401 error, with a challenge for the scheme that the client used (RFC 6749, 5.2)."""
    return ApiError("unauthorized", INVALID_CREDENTIALS, _BASIC_CHALLENGE if is_basic else CHALLENGE)
