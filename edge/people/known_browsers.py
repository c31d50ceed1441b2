"""Proof that somebody has signed in with this browser before, so that others' wrong passwords do not lock them out.

The proof gives no access. It only gives the browser attempts of its own, as few as everybody has.
"""

from __future__ import annotations

import hmac
import secrets

from edge.database.instance import signing_key

_LONGEST = 200


def new_proof(person_id: int) -> str:
    """For a cookie: whose browser it is, a number that no other browser has, and the box's signature."""
    claim = f"{person_id}.{secrets.token_hex(8)}"
    return f"{claim}.{_signature(claim)}"


def account_of(proof: str, person_id: int) -> str | None:
    """The key by which this browser's attempts at this person's account are counted; None without a valid proof."""
    if len(proof) > _LONGEST:
        return None
    claim, _, signature = proof.rpartition(".")
    if not hmac.compare_digest(signature.encode("utf-8", "surrogatepass"), _signature(claim).encode()):
        return None
    return f"browser:{claim}" if claim.partition(".")[0] == str(person_id) else None


def _signature(claim: str) -> str:
    return hmac.digest(signing_key(), b"known browser:" + claim.encode("utf-8", "surrogatepass"), "sha256").hex()
