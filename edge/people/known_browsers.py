"""Proof of an earlier sign-in with this browser.

A browser with a proof has its own limit of wrong attempts, so attackers elsewhere cannot lock the person out. The proof
gives no access.
"""

from __future__ import annotations

import hmac
import secrets

from edge.database.instance import signing_key
from edge.people.people import PersonRow

_MAX_LENGTH = 200  # characters


def new_proof(person: PersonRow) -> str:
    """Return the value of the cookie: person id, random browser id and signature. It ends with the password."""
    claim = f"{person.id}.{secrets.token_hex(8)}"
    return f"{claim}.{_signature(claim, person)}"


def limit_key(proof: str, person: PersonRow) -> str | None:
    """Return the rate limit key of this browser for the person's account, or None if the proof is not valid."""
    if len(proof) > _MAX_LENGTH:
        return None
    claim, _, signature = proof.rpartition(".")
    if not hmac.compare_digest(signature.encode("utf-8", "surrogatepass"), _signature(claim, person).encode()):
        return None
    return f"browser:{claim}" if claim.partition(".")[0] == str(person.id) else None


def _signature(claim: str, person: PersonRow) -> str:
    signed = f"known browser:{claim}:{person.password_hash}"
    return hmac.digest(signing_key(), signed.encode("utf-8", "surrogatepass"), "sha256").hex()
