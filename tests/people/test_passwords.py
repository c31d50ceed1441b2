"""The time of a wrong password does not reveal whether the account exists."""

import pytest

from edge.errors import Invalid
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


@pytest.mark.parametrize("password", ["Password1234", "1Qaz2wsx3edc", "Qwertyuiop 2026!", "123456123456"])
def test_a_common_password_is_refused_also_with_digits_added(password: str) -> None:
    with pytest.raises(Invalid):
        passwords.hash_password(password)


def test_a_sentence_with_common_words_is_accepted() -> None:
    passwords.check("password of the warehouse")
    passwords.check("Sunshine-and-Dragon-7")
