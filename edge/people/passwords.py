"""Hashes of passwords, PINs and badges. Passwords and PINs use scrypt, badges a keyed hash."""

from __future__ import annotations

import hmac
import re
import string
from pathlib import Path

from werkzeug.security import check_password_hash, generate_password_hash

from edge.database.instance import badge_key
from edge.errors import Invalid
from edge.people.people import Role
from edge.texts import N_, fill

MIN_LENGTH = 12
MAX_LENGTH = 1024


# The 3,000 most used passwords, and those of at least 12 characters among the 170,000 most used, in lower case.
# From the ten million passwords that Mark Burnett released in 2015, as ordered in the MIT-licensed collection SecLists.
_COMMON = Path(__file__).with_name("common-passwords.txt")
_ADDED = string.digits + string.punctuation + " "  # before or after a common password


def hash_password(password: str) -> str:
    """Return the scrypt hash. Raises Invalid if the password is not acceptable."""
    check(password)
    return generate_password_hash(password)


def check(password: str) -> None:
    """Raise Invalid if the password is too short, common, or so long that hashing is a DoS risk."""
    if len(password) < MIN_LENGTH:
        raise Invalid.one(
            "password",
            "too_short",
            fill(N_("password must be at least %(least)s characters"), least=MIN_LENGTH),
            min_length=MIN_LENGTH,
        )
    if len(password) > MAX_LENGTH:
        raise Invalid.one(
            "password",
            "too_long",
            fill(N_("password must be at most %(most)s characters"), most=MAX_LENGTH),
            max_length=MAX_LENGTH,
        )
    guesses = {password.lower(), password.lower().strip(_ADDED)}
    if guesses & set(_COMMON.read_text("ascii").splitlines()):
        message = N_("password is one of the most used ones, perhaps with digits added; choose another one")
        raise Invalid.one("password", "invalid_value", message)


def matches(stored: str | None, password: str) -> bool:
    """Compare a password or PIN with its hash, in the same time if `stored` is None."""
    return check_password_hash(stored or _DUMMY_HASH, password[:MAX_LENGTH]) and stored is not None


# Matches no password. A constant, because computing a hash at import would take 0.1 s.
_DUMMY_HASH = "scrypt:32768:8:1$0000000000000000$" + "0" * 128


PIN_MIN, EDITORS_PIN_MIN, PIN_MAX = 4, 6, 12
_EPC = re.compile(r"(?:[0-9A-Fa-f]{4}){6,16}")  # as in `web/static/handhelds/sweeping.js`
_SEQUENCES = ("0123456789012345678901", "9876543210987654321098")


def hash_badge(code: str) -> bytes:
    """Return the HMAC of a badge. Badge numbers are short, so a hash without a key could be reversed by trying all."""
    return hmac.digest(badge_key(), b"badge:" + code.strip().encode("utf-8", "surrogatepass"), "sha256")


def badge_mark(code: str) -> int:
    """Return 10 bits of a badge's hash, and above them whether it looks like an EPC (1) or not (2).

    Handhelds compute the 10 bits to detect codes that may be badges. Marks from before have no bits above them.
    """
    state = 0x811C9DC5
    for byte in (badge_mark_salt() + code.strip()).encode("utf-8", "surrogatepass"):
        state = (state ^ byte) * 0x01000193 & 0xFFFFFFFF
    state = (state ^ state >> 16) * 0x85EBCA6B & 0xFFFFFFFF
    state = (state ^ state >> 13) * 0xC2B2AE35 & 0xFFFFFFFF
    return (state ^ state >> 16) >> 22 | (1024 if _EPC.fullmatch(code.strip()) else 2048)


def badge_mark_salt() -> str:
    """Return the salt of badge marks, which handhelds need to compute them."""
    return hmac.digest(badge_key(), b"marks", "sha256").hex()[:16]


def is_pin(pin: str, least: int = PIN_MIN) -> bool:
    """Return True if a text can be a PIN."""
    return pin.isascii() and pin.isdigit() and least <= len(pin) <= PIN_MAX


def hash_pin(pin: str, role: Role) -> str:
    """Return the scrypt hash. Raises Invalid if the PIN is trivial or too short for the role."""
    min_length = EDITORS_PIN_MIN if role in (Role.EDITOR, Role.ADMINISTRATOR) else PIN_MIN
    if not is_pin(pin, min_length):
        raise Invalid.one(
            "pin",
            "invalid_value",
            fill(N_("The PIN for this role must have %(least)s to %(most)s digits"), least=min_length, most=PIN_MAX),
        )
    if _is_trivial(pin):
        raise Invalid.one(
            "pin", "invalid_value", N_("Choose a PIN without sequences or repetitions, unlike 1234 or 1212")
        )
    return generate_password_hash(pin)


def _is_trivial(pin: str) -> bool:
    """True for trivial PINs: at most two distinct digits, a sequence, or a repeated half."""
    half = len(pin) // 2
    return len(set(pin)) <= 2 or any(pin in sequence for sequence in _SEQUENCES) or pin == pin[:half] * 2
