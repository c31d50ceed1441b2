"""Proof that somebody signed in with this browser before: nobody else's wrong passwords may lock them out of it.

The proof opens nothing. It only gives the browser attempts of its own, as few as everybody has.
"""

from __future__ import annotations

import hmac
import secrets

from edge.store.instance import signing_key

_LONGEST = 200


def new_proof(person_id: int) -> str:
    """For a cookie: whose browser it is, a number that no other browser has, and the box's seal."""
    told = f"{person_id}.{secrets.token_hex(8)}"
    return f"{told}.{_seal(told)}"


def account_of(proof: str, person_id: int) -> str | None:
    """The key by which attempts of this browser at this person's account are counted; None without a good proof."""
    told, _, seal = proof.rpartition(".")
    if len(proof) > _LONGEST or not hmac.compare_digest(seal.encode("utf-8", "surrogatepass"), _seal(told).encode()):
        return None
    return f"browser:{told}" if told.partition(".")[0] == str(person_id) else None


def _seal(told: str) -> str:
    return hmac.digest(signing_key(), b"known browser:" + told.encode("utf-8", "surrogatepass"), "sha256").hex()
