"""Tokens, and the organization of the caller (spec: Authentication and identity)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson
from flask import Response, request

from edge.api import oauth_client, responses
from edge.api.envelope import unauthorized
from edge.api.guard import NOT_VALID, settings
from edge.api.oauth_client import Client
from edge.api.operations import FORM, Call, operation
from edge.errors import FieldError, Invalid
from edge.people import organizations, tokens
from edge.people.tokens import Pair
from edge.validation import bodies
from edge.validation.bodies import GRANTS

TAG = "Access"


@operation(
    *("POST", "/oauth/token"), tag=TAG, body=bodies.TOKEN, answer="TokenPair", errors=(401,), is_open=True,
    takes_form=True,
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
    sent = oauth_client.from_both(header, call.body)
    missing = [name for name in GRANTS[grant] if name not in sent]
    if missing:
        raise Invalid([FieldError(name, "required", f"{name} is required") for name in missing])
    if grant == "refresh_token":
        return _refresh(sent, header)
    pair = tokens.exchange(settings().environment, sent["client_id"], sent["client_secret"])
    if pair is None:
        raise oauth_client.refused(by_header=header is not None)
    return _answer(pair)


@operation("GET", "/orgs/me", tag=TAG, answer="Organization", keys_only=True)
def get_organization(call: Call) -> Response:
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


def _refresh(sent: Mapping[str, Any], header: Client | None) -> Response:
    """Credentials that come with a refresh token must be those of its client. In JSON they were always ignored."""
    is_authenticated = header is not None or (request.mimetype == FORM and "client_secret" in sent)
    client = (sent.get("client_id", ""), sent["client_secret"]) if is_authenticated else None
    pair = tokens.refresh(settings().environment, sent["refresh_token"], client)
    if pair is None:
        raise unauthorized(NOT_VALID)
    return _answer(pair)


def _answer(pair: Pair) -> Response:
    content = {**pair._asdict(), "token_type": "Bearer", "expires_in": tokens.LIFETIME_SECONDS}
    return Response(orjson.dumps(content), headers={"Cache-Control": "no-store"}, content_type="application/json")
