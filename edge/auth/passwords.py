"""Passwords and PINs, kept as scrypt hashes."""

from __future__ import annotations

from werkzeug.security import check_password_hash, generate_password_hash

from edge.errors import Invalid

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
