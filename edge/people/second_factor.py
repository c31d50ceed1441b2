"""Codes of authenticator apps as a second factor (TOTP, RFC 6238), and the recovery codes that replace them.

Computed here, not by pyotp: a code is accepted once, which needs the step that it belongs to, and pyotp does not return
it. The rest of pyotp is the ten lines of `code_at`.
"""

from __future__ import annotations

import base64
import hmac
import secrets
from urllib.parse import quote, urlencode

from edge import clock
from edge.audit.actors import Actor
from edge.database.instance import signing_key
from edge.errors import Conflict
from edge.people import people, second_factors
from edge.people import secrets as sealed
from edge.people.people import PersonRow
from edge.people.secrets import hash_secret

STEP_SECONDS, DIGITS = 30, 6  # all that every app supports
_WINDOW = 1  # steps by which phone and box may differ
_SECRET_BYTES = 20  # the length that RFC 4226 recommends
_ISSUER = "edge"

RECOVERY_CODES = 10
_LETTERS = "abcdefghjkmnpqrstuvwxyz23456789"  # none that look alike
_CODE_LETTERS = 16  # 79 bits: a plain hash is enough

_TO_ENTER = 5 * 60 * clock.SECOND  # a code after the password
_LONGEST = 200  # characters of what a browser sends


def code_at(secret: bytes, step: int, digits: int = DIGITS) -> str:
    """Return the code of a time step (RFC 4226, 5.3)."""
    digest = hmac.digest(secret, step.to_bytes(8, "big"), "sha1")
    offset = digest[-1] & 0x0F
    number = int.from_bytes(digest[offset : offset + 4], "big") & 0x7FFFFFFF
    return str(number % 10**digits).zfill(digits)


def matching_step(secret: bytes, code: str, now: int) -> int | None:
    """Return the step, near `now`, that a code belongs to; None for a wrong code."""
    given = "".join(code[:_LONGEST].split()).encode("utf-8", "surrogatepass")
    current = now // (STEP_SECONDS * clock.SECOND)
    steps = range(current - _WINDOW, current + _WINDOW + 1)
    return next((step for step in steps if hmac.compare_digest(code_at(secret, step).encode(), given)), None)


def begin(actor: Actor) -> str:
    """Make a secret for the app of the actor; it does nothing before `confirm`. Raises Conflict if one is active."""
    secret = base64.b32encode(secrets.token_bytes(_SECRET_BYTES)).decode()
    second_factors.begin(actor, sealed.seal(secret))
    return secret


def link(secret: str, account: str) -> str:
    """Return what the QR code for the app holds."""
    label = quote(f"{_ISSUER}:{account}", safe=":@")
    return f"otpauth://totp/{label}?{urlencode({'secret': secret, 'issuer': _ISSUER})}"


def confirm(actor: Actor, code: str) -> list[str] | None:
    """Activate the second factor that the actor has begun, and return its recovery codes; None for a wrong code.

    Raises Conflict if nothing was begun, or too long ago.
    """
    begun = second_factors.find_unconfirmed(actor.organization_id, actor.person_id or 0)
    if begun is None:
        raise Conflict("the setup was not begun, or took too long; begin again")
    step = matching_step(_plain(begun.secret), code, clock.now())
    if step is None:
        return None
    codes = [_new_recovery_code() for _ in range(RECOVERY_CODES)]
    second_factors.confirm(actor, step, [_hash(one) for one in codes])
    return codes


def accepts_code(person: PersonRow, code: str) -> bool:
    """Whether this is a code of the person's app that was not used before; it is used up by this.

    Raises SetupError where the secret cannot be read, as after a restore on another box.
    """
    factor = second_factors.find(person.organization_id, person.id)
    step = matching_step(_plain(factor.secret), code, clock.now()) if factor else None
    return step is not None and second_factors.accept_step(person, step)


def accepts_recovery_code(actor: Actor, code: str) -> bool:
    """Whether this is an unused recovery code of the actor; it is used up by this."""
    return second_factors.spend_recovery_code(actor, _hash(code[:_LONGEST]))


def new_challenge(person: PersonRow) -> str:
    """Return the proof, for a form, that the person's password was right just now."""
    claim = f"{person.organization_id}.{person.id}.{clock.now()}"
    return f"{claim}.{_signature(claim, person)}"


def challenged(challenge: str) -> PersonRow | None:
    """Return whose password was right; None if that is not proven, too old, or the password is another one by now."""
    claim, _, signature = challenge[:_LONGEST].rpartition(".")
    parts = claim.split(".")
    if len(parts) != 3 or not all(part.isascii() and part.isdigit() for part in parts):
        return None
    organization_id, person_id, made_at = map(int, parts)
    if max(organization_id, person_id) >= 2**63 or not 0 <= clock.now() - made_at <= _TO_ENTER:
        return None
    person = people.find_person(organization_id, person_id)
    if person is None or person.disabled_at is not None:
        return None
    given = signature.encode("utf-8", "surrogatepass")
    return person if hmac.compare_digest(given, _signature(claim, person).encode()) else None


def _signature(claim: str, person: PersonRow) -> str:
    signed = f"password was right:{claim}:{person.password_hash}"
    return hmac.digest(signing_key(), signed.encode(), "sha256").hex()


def _plain(secret: bytes) -> bytes:
    return base64.b32decode(sealed.unseal(secret))


def _new_recovery_code() -> str:
    letters = "".join(secrets.choice(_LETTERS) for _ in range(_CODE_LETTERS))
    return "-".join(letters[start : start + 4] for start in range(0, _CODE_LETTERS, 4))


def _hash(code: str) -> bytes:
    """The same for a code however it is written."""
    return hash_secret("".join(letter for letter in code.lower() if letter.isalnum()))
