"""The time of a wrong password does not reveal whether the account exists."""

import pytest

from edge.people import passwords


def test_the_password_of_an_unknown_account_is_hashed_like_any_other(monkeypatch: pytest.MonkeyPatch) -> None:
    stored: list[str] = []

    def compare(known: str, _: str) -> bool:
        stored.append(known)
        return True

    monkeypatch.setattr(passwords, "check_password_hash", compare)
    assert passwords.matches(passwords.hash_password("correct horse battery"), "another one")
    assert not passwords.matches(None, "another one")
    assert len({(known.split("$")[0], *map(len, known.split("$"))) for known in stored}) == 1
