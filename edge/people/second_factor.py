"""Two-factor authentication with TOTP (RFC 6238) and recovery codes.

pyotp does not return the time step of a code, and accepting each code once requires it. Apart from that pyotp would
only replace `code_at`.
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
from edge.people.people import PersonRow
from edge.people.secrets import hash_secret, seal, unseal

STEP_SECONDS, DIGITS = 30, 6  # the only values that all apps support
_WINDOW = 1  # accepted difference between the clocks of phone and box, in steps
_SECRET_BYTES = 20  # the length that RFC 4226 recommends
_ISSUER = "edge"

RECOVERY_CODES = 10
_LETTERS = "abcdefghjkmnpqrstuvwxyz23456789"  # without look-alikes
_CODE_LETTERS = 16  # 79 bits, so SHA-256 is enough

_CHALLENGE_LIFETIME = 5 * 60 * clock.SECOND
_MAX_INPUT = 200  # characters


def code_at(secret: bytes, step: int, digits: int = DIGITS) -> str:
    """Return the code of a time step (RFC 4226, 5.3)."""
    digest = hmac.digest(secret, step.to_bytes(8, "big"), "sha1")
    offset = digest[-1] & 0x0F
    number = int.from_bytes(digest[offset : offset + 4], "big") & 0x7FFFFFFF
    return str(number % 10**digits).zfill(digits)


def matching_step(secret: bytes, code: str, now: int) -> int | None:
    """Return the time step of a code, within one step of `now` (microseconds), or None for a wrong code."""
    code_bytes = "".join(code[:_MAX_INPUT].split()).encode("utf-8", "surrogatepass")
    current = now // (STEP_SECONDS * clock.SECOND)
    steps = range(current - _WINDOW, current + _WINDOW + 1)
    return next((step for step in steps if hmac.compare_digest(code_at(secret, step).encode(), code_bytes)), None)


def begin(actor: Actor) -> str:
    """Return a new secret for the actor's app. `confirm` activates it. Raises Conflict if one is active."""
    secret = base64.b32encode(secrets.token_bytes(_SECRET_BYTES)).decode()
    second_factors.begin(actor, seal(secret))
    return secret


def link(secret: str, account: str) -> str:
    """Return the `otpauth:` URI for the QR code."""
    label = quote(f"{_ISSUER}:{account}", safe=":@")
    return f"otpauth://totp/{label}?{urlencode({'secret': secret, 'issuer': _ISSUER})}"


def confirm(actor: Actor, code: str, keep_session: bytes = b"") -> list[str] | None:
    """Activate the actor's pending second factor and return its recovery codes, or None for a wrong code.

    The person's other sessions and their tokens end; `keep_session` is the hash of the token of this one.

    Raises Conflict if no setup is pending.
    """
    pending = second_factors.find_unconfirmed(actor.organization_id, actor.person_id or 0)
    if pending is None:
        raise Conflict("the setup was not started or timed out; start again")
    step = matching_step(_plain(pending.secret), code, clock.now())
    if step is None:
        return None
    codes = [_new_recovery_code() for _ in range(RECOVERY_CODES)]
    second_factors.confirm(actor, step, [_hash(one) for one in codes], keep_session)
    return codes


def accepts_code(person: PersonRow, code: str) -> bool:
    """Return True if this is a valid code of the person's app, and mark it as used.

    Raises SetupError if the secret cannot be decrypted, for example after a restore on another box.
    """
    factor = second_factors.find(person.organization_id, person.id)
    step = matching_step(_plain(factor.secret), code, clock.now()) if factor else None
    return step is not None and second_factors.accept_step(person, step)


def accepts_recovery_code(actor: Actor, code: str) -> bool:
    """Return True if this is an unused recovery code of the actor, and mark it as used."""
    return second_factors.spend_recovery_code(actor, _hash(code[:_MAX_INPUT]))


def new_challenge(person: PersonRow) -> str:
    """Return a signed proof that the person just entered the right password."""
    claim = f"{person.organization_id}.{person.id}.{clock.now()}"
    return f"{claim}.{_signature(claim, person)}"


def verify_challenge(challenge: str) -> PersonRow | None:
    """Return the person of a challenge, or None if it is invalid, expired, or older than the password."""
    claim, _, signature = challenge[:_MAX_INPUT].rpartition(".")
    fields = claim.split(".")
    if len(fields) != 3 or not all(field.isascii() and field.isdigit() for field in fields):
        return None
    organization_id, person_id, made_at = map(int, fields)
    if max(organization_id, person_id) >= 2**63 or not 0 <= clock.now() - made_at <= _CHALLENGE_LIFETIME:
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
    return base64.b32decode(unseal(secret))


def _new_recovery_code() -> str:
    letters = "".join(secrets.choice(_LETTERS) for _ in range(_CODE_LETTERS))
    return "-".join(letters[start : start + 4] for start in range(0, _CODE_LETTERS, 4))


def _hash(code: str) -> bytes:
    """Return the hash of a code, ignoring case and separators."""
    return hash_secret("".join(letter for letter in code.lower() if letter.isalnum()))
