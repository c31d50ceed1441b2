"""Access tokens and principals (interface: Authentication).

A token proves that this installation issued it, for which subject and until when. Every request checks in the database
that its API key, token family or session is still valid.
"""

from __future__ import annotations

import re
import secrets
from functools import lru_cache
from typing import Any, NamedTuple

from edge import clock
from edge.audit.actors import Actor, ActorKind
from edge.database.connection import execute
from edge.database.instance import signing_key
from edge.people import refresh_tokens, sessions
from edge.people.api_keys import SCOPES
from edge.people.people import PEOPLE_RULE, Role
from edge.people.secrets import hash_secret, new_token
from edge.people.sessions import SessionRow

LIFETIME_SECONDS = 900
SESSION_LIFETIME_SECONDS = 300
_ALGORITHM = "HS256"
_CLAIMS = {"iss": str, "aud": str, "sub": str, "org": int, "scope": str, "iat": int, "exp": int, "jti": str}
_HASH = re.compile("[0-9a-f]{64}")
_COMPACT = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+")  # without padding (RFC 7515, 3.1)
_MAX_LENGTH = 4096  # characters; longer tokens are rejected without decoding


class Pair(NamedTuple):
    """A new access token and refresh token."""

    access_token: str
    refresh_token: str


def exchange(environment: str, client_id: str, client_secret: str) -> Pair | None:
    """Exchange client credentials for a pair of tokens. Returns None if they are not valid."""
    refresh_token = new_token()
    grant = refresh_tokens.start_family(client_id, hash_secret(client_secret), hash_secret(refresh_token))
    return Pair(_access_token(environment, grant), refresh_token) if grant else None


def refresh(environment: str, spent_token: str, client: tuple[str, str] | None = None) -> Pair | None:
    """Exchange a refresh token for a new pair. Returns None for an invalid token; reuse revokes its family.

    `client` is the id and secret if the client sent them; None is returned if they are wrong or of another client
    (interface: Authentication 4).
    """
    refresh_token = new_token()
    holder = (client[0], hash_secret(client[1])) if client else None
    grant = refresh_tokens.rotate(hash_secret(spent_token), hash_secret(refresh_token), holder)
    return Pair(_access_token(environment, grant), refresh_token) if grant else None


def session_token(environment: str, session: SessionRow, cookie: str) -> str:
    """Return a token for API calls of pages. It ends with the session and is not accepted at /orgs/me."""
    scopes = " ".join(SCOPES_OF_ROLE[Role(session.role)])
    claims = {"sub": str(session.person_id), "org": session.organization_id, "scope": scopes}
    return _sign(
        environment, claims | {"kind": "session", "session": hash_secret(cookie).hex()}, SESSION_LIFETIME_SECONDS
    )


def principal(environment: str, token: str) -> Principal | None:
    """Return the principal of a token, or None if it is invalid, expired or revoked."""
    claims, now = _claims(token, environment, signing_key()) if len(token) <= _MAX_LENGTH else None, clock.now()
    # Not those that were issued in the future, while the clock was ahead.
    if claims is None or not claims["iat"] * clock.SECOND - clock.SET_BACK <= now < claims["exp"] * clock.SECOND:
        return None
    if claims.get("kind") == "session":
        return _session_principal(claims)
    key_id = claims["sub"]
    key = execute(_VALID_KEY, (claims.get("family", 0), key_id, now)).fetchone()
    if key is None:
        return None
    organization_id, name, hides_people = key
    actor = Actor(organization_id, ActorKind.API_KEY, key_id, name)
    return Principal(key_id, organization_id, claims["scopes"], key_id, actor, None, hides_people)


# Asked on every request, so a revocation takes effect immediately.
_VALID_KEY = f"""
SELECT key.organization_id, key.name, ifnull(NOT rule.is_in_api, 0)
FROM token_family family
JOIN api_key key ON key.id = family.api_key_id
LEFT JOIN {PEOPLE_RULE} rule ON rule.organization_id = key.organization_id
WHERE family.no = ? AND key.id = ? AND family.revoked_at IS NULL
  AND key.revoked_at IS NULL AND (key.expires_at IS NULL OR key.expires_at > ?)
"""


def _session_principal(claims: dict[str, Any]) -> Principal | None:
    """Return the principal of a session token, with the scopes of the person's current role."""
    token_hash = str(claims.get("session"))
    session = sessions.find_session(bytes.fromhex(token_hash)) if _HASH.fullmatch(token_hash) else None
    if session is None or (str(session.person_id), session.organization_id) != (claims["sub"], claims["org"]):
        return None
    allowed = SCOPES_OF_ROLE[Role(session.role)]
    scopes = tuple(scope for scope in claims["scopes"] if scope in allowed)
    caller, actor = f"person:{session.person_id}", sessions.actor_of(session)
    hides_people = session.hides_people or session.api_hides_people
    return Principal(caller, session.organization_id, scopes, None, actor, Role(session.role), hides_people)


def _access_token(environment: str, grant: refresh_tokens.Grant) -> str:
    claims = {"sub": grant.api_key_id, "org": grant.organization_id, "scope": grant.scopes}
    return _sign(environment, claims | {"family": grant.family_id}, LIFETIME_SECONDS)


def _sign(environment: str, claims: dict[str, Any], seconds: int) -> str:
    import jwt  # only programs use tokens

    now = clock.now() // clock.SECOND
    common = {"iss": _issuer(environment), "aud": _audience(environment)}
    times = {"iat": now, "exp": now + seconds, "jti": secrets.token_hex(16)}
    return jwt.encode({**common, **claims, **times}, signing_key(), algorithm=_ALGORITHM)


@lru_cache(maxsize=4096)
def _claims(token: str, environment: str, key: bytes) -> dict[str, Any] | None:
    """Return the claims of a token with a valid signature, else None. Cached: independent of time and database."""
    import jwt

    if not _COMPACT.fullmatch(token):  # the library ignores padding
        return None
    try:
        claims = jwt.decode(
            token,
            key,
            algorithms=[_ALGORITHM],
            audience=_audience(environment),
            issuer=_issuer(environment),
            options={"require": list(_CLAIMS), "verify_exp": False, "verify_iat": False},  # `principal` checks times
        )
    except jwt.InvalidTokenError:
        return None
    if not all(isinstance(claims[name], type_) for name, type_ in _CLAIMS.items()):
        return None
    max_lifetime = SESSION_LIFETIME_SECONDS if claims.get("kind") == "session" else LIFETIME_SECONDS
    if claims["exp"] - claims["iat"] > max_lifetime:  # signed with our key, but not by this code
        return None
    return {**claims, "scopes": tuple(claims["scope"].split())}


def _issuer(environment: str) -> str:
    return f"edge-{environment}"


def _audience(environment: str) -> str:
    return f"edge-api-{environment}"


READ_SCOPES = tuple(scope for scope in SCOPES if scope.endswith(":read"))

SCOPES_OF_ROLE = {
    Role.ADMINISTRATOR: SCOPES,
    Role.EDITOR: SCOPES,
    Role.OPERATOR: READ_SCOPES,
    Role.VIEWER: READ_SCOPES,
}


class Principal(NamedTuple):
    """The bearer of a valid token. `api_key_id` is None for a person's session, `role` for an API key.

    `hides_people`: people are like assets that were never scanned, unless the organization lets the API show their
    positions. A token of a signed-in person shows no more than the pages do.

    Decision record: web/manual/decisions/positions-of-people.md
    """

    subject: str
    organization_id: int
    scopes: tuple[str, ...]
    api_key_id: str | None
    actor: Actor
    role: Role | None = None
    hides_people: bool = True
