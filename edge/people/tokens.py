"""Access tokens (spec: Authentication 2-8; contract: Authentication): issued, refreshed, and checked on each request.

A token proves only that this installation issued it, for whom, and until when. Whether its key, its family or its
person is still valid is looked up in the store each time.

Who is asking, and what they may do.
"""

from __future__ import annotations

import re
import secrets
from functools import lru_cache
from typing import Any, NamedTuple

import jwt

from edge import clock
from edge.audit import actors
from edge.audit.actors import Actor
from edge.database.instance import signing_key
from edge.people import refresh_tokens, sessions
from edge.people.api_keys import SCOPES
from edge.people.people import Role
from edge.people.secrets import hash_secret, new_token
from edge.people.sessions import SessionRow

LIFETIME_SECONDS = 900
SESSION_LIFETIME_SECONDS = 300
_ALGORITHM = "HS256"
_CLAIMS = {"iss": str, "aud": str, "sub": str, "org": int, "scope": str, "iat": int, "exp": int, "jti": str}
_HASH = re.compile("[0-9a-f]{64}")
_MAX_LENGTH = 4096  # far longer than any of ours; longer ones are not even decoded


class Pair(NamedTuple):
    access_token: str
    refresh_token: str


def exchange(environment: str, client_id: str, client_secret: str) -> Pair | None:
    """None if id and secret are not valid, whatever the reason."""
    refresh_token = new_token()
    grant = refresh_tokens.start_family(client_id, hash_secret(client_secret), hash_secret(refresh_token))
    return Pair(_access_token(environment, grant), refresh_token) if grant else None


def refresh(environment: str, spent_token: str, client: tuple[str, str] | None = None) -> Pair | None:
    """None for an invalid token; a replay also revokes its family (spec: Authentication 4).

    `client`: id and secret, of a client that sent them as well; None if they are wrong or of another client.
    """
    refresh_token = new_token()
    holder = (client[0], hash_secret(client[1])) if client else None
    grant = refresh_tokens.rotate(hash_secret(spent_token), hash_secret(refresh_token), holder)
    return Pair(_access_token(environment, grant), refresh_token) if grant else None


def session_token(environment: str, session: SessionRow, cookie: str) -> str:
    """For the pages of a person who is signed in; accepted everywhere but at /orgs/me. It ends with its session."""
    scopes = " ".join(SCOPES_OF_ROLE[Role(session.role)])
    claims = {"sub": str(session.person_id), "org": session.organization_id, "scope": scopes}
    return _sign(
        environment, claims | {"kind": "session", "session": hash_secret(cookie).hex()}, SESSION_LIFETIME_SECONDS
    )


def principal(environment: str, token: str) -> Principal | None:
    """The bearer of the token; None if the token is not, or no longer, valid."""
    claims = _claims(token, environment, signing_key()) if len(token) <= _MAX_LENGTH else None
    if claims is None or not _is_of_now(claims):
        return None
    if claims.get("kind") == "session":
        return _person(claims)
    key_id = claims["sub"]
    status = refresh_tokens.status(claims.get("family", 0), key_id)
    if status is None or (status.expires_at is not None and status.expires_at <= clock.now()):
        return None
    actor = actors.api_key(status.organization_id, key_id, status.key_name)
    return Principal(key_id, status.organization_id, claims["scopes"], key_id, actor)


def _is_of_now(claims: dict[str, Any]) -> bool:
    """A token from the future was issued while the clock was wrong, and would otherwise be valid until then."""
    now = clock.now()
    return bool(claims["iat"] * clock.SECOND <= now + clock.SET_BACK and now < claims["exp"] * clock.SECOND)


def _person(claims: dict[str, Any]) -> Principal | None:
    """Valid as long as the session in which it was issued, with the scopes that the role still allows."""
    hashed = str(claims.get("session"))
    found = sessions.find_session(bytes.fromhex(hashed)) if _HASH.fullmatch(hashed) else None
    if found is None or (str(found.person_id), found.organization_id) != (claims["sub"], claims["org"]):
        return None
    allowed = SCOPES_OF_ROLE[Role(found.role)]
    scopes = tuple(scope for scope in claims["scopes"] if scope in allowed)
    return Principal(f"person:{found.person_id}", found.organization_id, scopes, None, sessions.actor_of(found))


def _access_token(environment: str, grant: refresh_tokens.Grant) -> str:
    claims = {"sub": grant.api_key_id, "org": grant.organization_id, "scope": grant.scopes}
    return _sign(environment, claims | {"family": grant.family_id}, LIFETIME_SECONDS)


def _sign(environment: str, claims: dict[str, Any], seconds: int) -> str:
    now = clock.now() // clock.SECOND
    everywhere = {"iss": _issuer(environment), "aud": _audience(environment)}
    instants = {"iat": now, "exp": now + seconds, "jti": secrets.token_hex(16)}
    return jwt.encode({**everywhere, **claims, **instants}, signing_key(), algorithm=_ALGORITHM)


@lru_cache(maxsize=4096)
def _claims(token: str, environment: str, key: bytes) -> dict[str, Any] | None:
    """The claims of a token that this installation signed. Cached: they depend on neither time nor database."""
    try:
        claims = jwt.decode(
            token,
            key,
            algorithms=[_ALGORITHM],
            audience=_audience(environment),
            issuer=_issuer(environment),
            options={"require": list(_CLAIMS), "verify_exp": False, "verify_iat": False},  # by the program's own clock
        )
    except jwt.InvalidTokenError:
        return None
    if not all(isinstance(claims[name], type_) for name, type_ in _CLAIMS.items()):
        return None
    longest = SESSION_LIFETIME_SECONDS if claims.get("kind") == "session" else LIFETIME_SECONDS
    if claims["exp"] - claims["iat"] > longest:  # not issued by this program, even if signed with its key
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
    """The bearer of a valid token. `api_key_id` is None for a person's session."""

    subject: str
    organization_id: int
    scopes: tuple[str, ...]
    api_key_id: str | None
    actor: Actor
