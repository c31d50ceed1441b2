"""Web sessions: who is signed in, on which device, until when. Only the hash of a session's token is kept."""

from __future__ import annotations

from typing import NamedTuple

from edge import clock
from edge.store.database import execute, writing
from edge.store.tables import WebSession


class SessionRow(NamedTuple):
    """A session that is in force, with the person as they are now: a changed role counts at once."""

    person_id: int
    organization_id: int
    organization_name: str
    name: str
    role: str
    device_id: int | None
    created_at: int
    expires_at: int


def add_session(token_hash: bytes, person_id: int, device_id: int | None, expires_at: int) -> None:
    """Also clears away what has expired, so that the table stays as small as the staff."""
    moment = clock.now()
    with writing():
        WebSession.delete().where(WebSession.expires_at <= moment).execute()
        WebSession.insert(
            token_hash=token_hash,
            person_id=person_id,
            device_id=device_id,
            created_at=moment,
            expires_at=expires_at,
        ).execute()


_FIND = """
SELECT session.person_id, person.organization_id, organization.name, person.name, person.role,
       session.device_id, session.created_at, session.expires_at
FROM web_session session
JOIN person ON person.id = session.person_id
JOIN organization ON organization.id = person.organization_id
LEFT JOIN device ON device.id = session.device_id
WHERE session.token_hash = ? AND session.expires_at > ?
  AND person.disabled_at IS NULL AND device.revoked_at IS NULL
"""


def find_session(token_hash: bytes) -> SessionRow | None:
    """None when it has expired, or its person is disabled, or its device was revoked."""
    row = execute(_FIND, (token_hash, clock.now())).fetchone()
    return SessionRow(*row) if row else None


def end_session(token_hash: bytes) -> None:
    with writing():
        WebSession.delete().where(WebSession.token_hash == token_hash).execute()


def end_sessions_of(person_id: int, *, but: bytes = b"") -> None:
    """Everywhere; after a new password everywhere `but` in the browser that set it."""
    with writing():
        WebSession.delete().where((WebSession.person_id == person_id) & (WebSession.token_hash != but)).execute()
