"""Tokens, and the organization of the caller (spec: Authentication and identity)."""

from __future__ import annotations

import orjson
from flask import Response

from edge.api import responses
from edge.api.envelope import unauthorized
from edge.api.guard import NOT_VALID, settings
from edge.api.operations import Call, operation
from edge.auth import tokens
from edge.auth.tokens import Pair
from edge.errors import FieldError, Invalid
from edge.store import organizations
from edge.validation import bodies
from edge.validation.bodies import GRANTS

TAG = "Access"


@operation("POST", "/oauth/token", tag=TAG, body=bodies.TOKEN, answer="TokenPair", errors=(401,), is_open=True)
def create_token(call: Call) -> Response:
    """Exchange a client secret, or a refresh token, for a pair of tokens"""
    grant = call.body["grant_type"]
    if grant not in GRANTS:
        message = f"grant_type must be one of {', '.join(GRANTS)}"
        raise Invalid.one("grant_type", "invalid_value", message, allowed_values=list(GRANTS))
    missing = [name for name in GRANTS[grant] if name not in call.body]
    if missing:
        raise Invalid([FieldError(name, "required", f"{name} is required") for name in missing])
    if grant == "refresh_token":
        return _answer(tokens.refresh(settings().environment, call.body["refresh_token"]), NOT_VALID)
    pair = tokens.exchange(settings().environment, call.body["client_id"], call.body["client_secret"])
    return _answer(pair, "Invalid client credentials")


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


def _answer(pair: Pair | None, refusal: str) -> Response:
    if pair is None:
        raise unauthorized(refusal)
    content = {**pair._asdict(), "token_type": "Bearer", "expires_in": tokens.LIFETIME_SECONDS}
    return Response(orjson.dumps(content), headers={"Cache-Control": "no-store"}, content_type="application/json")
