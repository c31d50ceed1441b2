"""The token endpoint and `GET /orgs/me` (interface: Authentication)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flask import Response, request

from edge.api import oauth_client, responses
from edge.api.envelope import unauthorized
from edge.api.guard import NOT_VALID
from edge.api.oauth_client import Client
from edge.api.operations import FORM, Call, operation
from edge.errors import FieldError, Invalid
from edge.people import organizations, tokens
from edge.people.tokens import Pair
from edge.services import services
from edge.validation import bodies, json_text
from edge.validation.bodies import GRANTS

TAG = "Access"
MAX_BODY = 16 * 1024  # without a token, so less than elsewhere; credentials take 200 bytes


@operation(
    *("POST", "/oauth/token"), tag=TAG, body=bodies.TOKEN, answer="TokenPair", errors=(401,), is_open=True,
    is_form_allowed=True, max_body=MAX_BODY,
)  # fmt: skip
def create_token(call: Call) -> Response:
    """Exchange a client secret, or a refresh token, for a pair of tokens

    Client id and secret may be in the body, or in the header by HTTP Basic (RFC 6749, 2.3.1), but not in both.
    """
    grant = call.body["grant_type"]
    if grant not in GRANTS:
        message = f"grant_type must be one of {', '.join(GRANTS)}"
        raise Invalid.one("grant_type", "invalid_value", message, allowed_values=list(GRANTS))
    header = oauth_client.from_header(request.headers.get("Authorization", ""))
    credentials = oauth_client.merge_credentials(header, call.body)
    missing = [name for name in GRANTS[grant] if name not in credentials]
    if missing:
        raise Invalid([FieldError(name, "required", f"{name} is required") for name in missing])
    if grant == "refresh_token":
        return _refresh(credentials, header)
    pair = tokens.exchange(services().config.environment, credentials["client_id"], credentials["client_secret"])
    if pair is None:
        raise oauth_client.invalid_client(is_basic=header is not None)
    return _token_response(pair)


@operation("GET", "/orgs/me", tag=TAG, answer="Organization", is_api_key_only=True)
def get_current_org(call: Call) -> Response:
    """Get the organization and the scopes of the token"""
    row = organizations.get_organization(call.organization_id)
    principal = call.principal
    return responses.one(
        {
            "id": row.id,
            "name": row.name,
            "scopes": principal.scopes,
            "api_key_id": principal.api_key_id,
        }
    )


def _refresh(credentials: Mapping[str, Any], header: Client | None) -> Response:
    """Refresh a pair of tokens.

    Client credentials in the header or in a form must be those of the token's client. In a JSON body they are
    ignored, for compatibility.
    """
    has_credentials = header is not None or (request.mimetype == FORM and "client_secret" in credentials)
    client = (credentials.get("client_id", ""), credentials["client_secret"]) if has_credentials else None
    pair = tokens.refresh(services().config.environment, credentials["refresh_token"], client)
    if pair is None:
        raise unauthorized(NOT_VALID)
    return _token_response(pair)


def _token_response(pair: Pair) -> Response:
    content = {**pair._asdict(), "token_type": "Bearer", "expires_in": tokens.LIFETIME_SECONDS}
    return Response(json_text.encode(content), headers={"Cache-Control": "no-store"}, content_type="application/json")
