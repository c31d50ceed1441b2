"""Passwords and PINs, kept as scrypt hashes.

Badges and PINs of people who share a handheld.
"""

from __future__ import annotations

import hmac

from werkzeug.security import check_password_hash, generate_password_hash

from edge.database.instance import badge_key
from edge.errors import Invalid
from edge.people.people import Role

MIN_LENGTH = 12
MAX_LENGTH = 1024


def hash_password(password: str) -> str:
    """Raises Invalid for a password that is too short, or long enough to be an attack on the hash."""
    if len(password) < MIN_LENGTH:
        raise Invalid.one(
            "password",
            "too_short",
            f"password must be at least {MIN_LENGTH} characters",
            min_length=MIN_LENGTH,
        )
    if len(password) > MAX_LENGTH:
        raise Invalid.one(
            "password", "too_long", f"password must be at most {MAX_LENGTH} characters", max_length=MAX_LENGTH
        )
    return generate_password_hash(password)


def matches(stored: str | None, password: str) -> bool:
    """Takes the same time whether there is a hash to compare with or not."""
    return check_password_hash(stored or _NOBODY, password[:MAX_LENGTH]) and stored is not None


# As long to compare with as a real one, and of no password; making a real one would take a tenth of a second.
_NOBODY = "scrypt:32768:8:1$0000000000000000$" + "0" * 128


PIN_MIN, EDITORS_PIN_MIN, PIN_MAX = 4, 6, 12
_RUNS = ("0123456789012345678901", "9876543210987654321098")


def hash_badge(code: str) -> bytes:
    """Keyed with the box's own secret: badge numbers are short, and the plain hash of one is soon guessed."""
    return hmac.digest(badge_key(), b"badge:" + code.strip().encode("utf-8", "surrogatepass"), "sha256")


def mark(code: str) -> int:
    """Ten bits of a badge, by which a handheld recognizes codes that may be badges. It is computed there as well."""
    state = 0x811C9DC5
    for byte in (mark_salt() + code.strip()).encode("utf-8", "surrogatepass"):
        state = (state ^ byte) * 0x01000193 & 0xFFFFFFFF
    state = (state ^ state >> 16) * 0x85EBCA6B & 0xFFFFFFFF
    state = (state ^ state >> 13) * 0xC2B2AE35 & 0xFFFFFFFF
    return (state ^ state >> 16) >> 22


def mark_salt() -> str:
    return hmac.digest(badge_key(), b"marks", "sha256").hex()[:16]


def hash_pin(pin: str, role: Role) -> str:
    """Raises Invalid for a PIN that is too short for the role, or one of the first that anybody would try."""
    shortest = EDITORS_PIN_MIN if role in (Role.EDITOR, Role.ADMINISTRATOR) else PIN_MIN
    if not (pin.isascii() and pin.isdigit() and shortest <= len(pin) <= PIN_MAX):
        raise Invalid.one("pin", "invalid_value", f"The PIN of this role is {shortest} to {PIN_MAX} digits")
    if _is_trivial(pin):
        raise Invalid.one(
            "pin", "invalid_value", "Choose a PIN without a sequence or repetition, not one like 1234 or 1212"
        )
    return generate_password_hash(pin)


def _is_trivial(pin: str) -> bool:
    """One or two digits only, a run up or down, or its first half twice."""
    half = len(pin) // 2
    return len(set(pin)) <= 2 or any(pin in run for run in _RUNS) or pin == pin[:half] * 2
