"""Proof of an earlier sign-in with this browser.

A browser with a proof has its own limit of wrong attempts, so attackers elsewhere cannot lock the person out. The proof
gives no access.
"""

from __future__ import annotations

import hmac
import secrets

from edge.database.instance import signing_key

_MAX_LENGTH = 200  # characters


def new_proof(person_id: int) -> str:
    """Return the value of the cookie: person id, random browser id and signature."""
    claim = f"{person_id}.{secrets.token_hex(8)}"
    return f"{claim}.{_signature(claim)}"


def limit_key(proof: str, person_id: int) -> str | None:
    """Return the rate limit key of this browser for the person's account, or None if the proof is not valid."""
    if len(proof) > _MAX_LENGTH:
        return None
    claim, _, signature = proof.rpartition(".")
    if not hmac.compare_digest(signature.encode("utf-8", "surrogatepass"), _signature(claim).encode()):
        return None
    return f"browser:{claim}" if claim.partition(".")[0] == str(person_id) else None


def _signature(claim: str) -> str:
    return hmac.digest(signing_key(), b"known browser:" + claim.encode("utf-8", "surrogatepass"), "sha256").hex()
