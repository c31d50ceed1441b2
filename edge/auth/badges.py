"""Badges and PINs of people who share a handheld."""

from __future__ import annotations

import hmac

from werkzeug.security import generate_password_hash

from edge.errors import Invalid
from edge.store.instance import badge_key

PIN_MIN, PIN_MAX = 4, 12


def hash_badge(code: str) -> bytes:
    """Keyed with the box's own secret: badge numbers are short, and a plain hash of one is soon guessed."""
    return hmac.digest(badge_key(), b"badge:" + code.strip().encode("utf-8", "surrogatepass"), "sha256")


def hash_pin(pin: str) -> str:
    if not (pin.isascii() and pin.isdigit() and PIN_MIN <= len(pin) <= PIN_MAX):
        raise Invalid.one("pin", "invalid_value", f"A PIN is {PIN_MIN} to {PIN_MAX} digits", pattern=r"^\d{4,12}$")
    return generate_password_hash(pin)
