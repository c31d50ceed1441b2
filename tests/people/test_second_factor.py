"""Two-factor authentication: TOTP codes by RFC 6238, recovery codes, and the challenge between the two steps."""

from __future__ import annotations

import base64
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import parse_qs, urlsplit

import pytest

from edge import clock
from edge.audit import actors, trail
from edge.audit.actors import Actor, shell
from edge.database.connection import database, execute
from edge.database.instance import data_dir_file
from edge.errors import Conflict, NotFound, SetupError
from edge.people import passwords, people, second_factor, second_factors
from edge.people.people import PersonRow, Role
from edge.people.second_factor import code_at, matching_step
from tests.conftest import Cast

KEY = b"12345678901234567890"  # from RFC 6238, appendix B
VECTORS = {
    59: "94287082",
    1111111109: "07081804",
    1111111111: "14050471",
    1234567890: "89005924",
    2000000000: "69279037",
    20000000000: "65353130",
}
STEP = 30 * clock.SECOND
NOW = 1_700_000_000 * clock.SECOND


class Phone:
    """An authenticator app with a secret and a clock."""

    def __init__(self, secret: str) -> None:
        self.secret = base64.b32decode(secret)

    def code(self, at: int) -> str:
        return code_at(self.secret, at // STEP)


@pytest.fixture
def ada(cast: Cast) -> PersonRow:
    return people.add_person(shell(cast.acme), "Ada", Role.ADMINISTRATOR, email="ada@x.example", password_hash="hash")


@pytest.fixture
def clocked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The clock of the box, set by tests."""
    times = [NOW]
    monkeypatch.setattr(clock, "now", lambda: times[0])
    return times


def actor_of(person: PersonRow) -> Actor:
    return actors.person(person.organization_id, person.id, person.name)


def add(person: PersonRow) -> tuple[Phone, list[str]]:
    phone = Phone(second_factor.begin(actor_of(person)))
    codes = second_factor.confirm(actor_of(person), phone.code(clock.now()))
    assert codes
    return phone, codes


@pytest.mark.parametrize(("seconds", "code"), VECTORS.items())
def test_codes_are_those_of_the_rfc(seconds: int, code: str) -> None:
    assert code_at(KEY, seconds // 30, digits=8) == code
    assert matching_step(KEY, code[2:], seconds * clock.SECOND) == seconds // 30


@pytest.mark.parametrize(("steps", "is_accepted"), [(-2, False), (-1, True), (0, True), (1, True), (2, False)])
def test_clocks_may_differ_by_one_step(steps: int, is_accepted: bool) -> None:
    assert (matching_step(KEY, code_at(KEY, NOW // STEP + steps), NOW) is not None) == is_accepted


@pytest.mark.parametrize("code", ["", "123", "x" * 10_000, "\udc80", "١٢٣٤٥٦", "-00001"])
def test_anything_else_is_no_code(code: str) -> None:
    assert matching_step(KEY, code, NOW) is None


def test_spaces_in_a_code_do_not_matter() -> None:
    code = code_at(KEY, NOW // STEP)
    assert matching_step(KEY, f" {code[:3]} {code[3:]} ", NOW) == NOW // STEP


def test_the_link_names_the_account() -> None:
    link = urlsplit(second_factor.link("ABC", "ada+1@x.example"))
    assert (link.scheme, link.netloc, link.path) == ("otpauth", "totp", "/edge:ada%2B1@x.example")
    assert parse_qs(link.query) == {"secret": ["ABC"], "issuer": ["edge"]}


def test_no_code_is_required_before_the_setup_is_confirmed(ada: PersonRow, clocked: list[int]) -> None:
    second_factor.begin(actor_of(ada))
    assert second_factors.find(ada.organization_id, ada.id) is None
    assert second_factors.holders(ada.organization_id) == set()
    assert second_factor.confirm(actor_of(ada), "000000") is None
    assert second_factors.find(ada.organization_id, ada.id) is None


def test_a_setup_that_takes_long_begins_again(ada: PersonRow, clocked: list[int]) -> None:
    phone = Phone(second_factor.begin(actor_of(ada)))
    clocked[0] += 16 * 60 * clock.SECOND
    with pytest.raises(Conflict):
        second_factor.confirm(actor_of(ada), phone.code(clocked[0]))


def test_an_active_second_factor_is_not_replaced(ada: PersonRow, clocked: list[int]) -> None:
    """Otherwise an open session and the password would be enough for a takeover."""
    phone, _ = add(ada)
    with pytest.raises(Conflict):
        second_factor.begin(actor_of(ada))
    with pytest.raises(Conflict):
        second_factor.confirm(actor_of(ada), phone.code(clocked[0]))


def test_a_code_is_accepted_once(ada: PersonRow, clocked: list[int]) -> None:
    phone, _ = add(ada)
    assert not second_factor.accepts_code(ada, phone.code(clocked[0]))  # it was used to confirm the setup
    clocked[0] += STEP
    code = phone.code(clocked[0])
    assert second_factor.accepts_code(ada, code)
    assert not second_factor.accepts_code(ada, code)
    assert not second_factor.accepts_code(ada, phone.code(clocked[0] - STEP))
    assert second_factor.accepts_code(ada, phone.code(clocked[0] + STEP))


def test_a_code_is_accepted_once_in_parallel_requests(ada: PersonRow, clocked: list[int]) -> None:
    phone, _ = add(ada)
    clocked[0] += STEP
    code = phone.code(clocked[0])

    def enter(_: int) -> bool:
        try:
            return second_factor.accepts_code(ada, code)
        finally:
            database.close()

    with ThreadPoolExecutor(8) as threads:
        assert sum(threads.map(enter, range(16))) == 1


def test_a_recovery_code_works_once_in_any_spelling(ada: PersonRow, clocked: list[int]) -> None:
    _, codes = add(ada)
    assert len(set(codes)) == 10
    assert second_factor.accepts_recovery_code(actor_of(ada), f" {codes[0].upper().replace('-', ' ')} ")
    assert not second_factor.accepts_recovery_code(actor_of(ada), codes[0])
    assert not second_factor.accepts_recovery_code(actor_of(ada), "")
    used = [row.detail for row in trail.recent(ada.organization_id) if row.action == "person.recovery_code_used"]
    assert used == [{"left": 9}]


def test_a_new_setup_has_new_recovery_codes(ada: PersonRow, clocked: list[int]) -> None:
    _, old = add(ada)
    second_factors.remove(actor_of(ada), ada.id)
    add(ada)
    assert not second_factor.accepts_recovery_code(actor_of(ada), old[0])


def test_the_database_alone_reveals_neither_secret_nor_codes(ada: PersonRow, clocked: list[int]) -> None:
    secret = second_factor.begin(actor_of(ada))
    codes = second_factor.confirm(actor_of(ada), Phone(secret).code(clocked[0])) or []
    stored = b"".join(
        bytes(value)
        for table in ("second_factor", "recovery_code")
        for row in execute(f"SELECT * FROM {table}")
        for value in row
        if isinstance(value, bytes)
    )
    assert stored
    assert not any(one.encode() in stored for one in [secret, *codes, *(code.replace("-", "") for code in codes)])
    assert base64.b32decode(secret) not in stored
    assert not any(one in str(trail.recent(ada.organization_id)) for one in [secret, *codes])


def test_on_another_box_only_recovery_codes_work(ada: PersonRow, clocked: list[int]) -> None:
    """A restored backup has the hashes but not the key for sealed secrets."""
    phone, codes = add(ada)
    data_dir_file("events.key").unlink()
    clocked[0] += STEP
    with pytest.raises(SetupError):
        second_factor.accepts_code(ada, phone.code(clocked[0]))
    assert second_factor.accepts_recovery_code(actor_of(ada), codes[0])


def test_another_organization_cannot_use_it(cast: Cast, ada: PersonRow, clocked: list[int]) -> None:
    add(ada)
    assert second_factors.find(cast.rival, ada.id) is None
    assert second_factors.holders(cast.rival) == set()
    with pytest.raises(NotFound):
        second_factors.remove(shell(cast.rival), ada.id)


class TestChallenge:
    def test_a_challenge_is_valid_for_five_minutes(self, ada: PersonRow, clocked: list[int]) -> None:
        challenge = second_factor.new_challenge(ada)
        assert second_factor.verify_challenge(challenge) == ada
        clocked[0] += 5 * 60 * clock.SECOND + 1
        assert second_factor.verify_challenge(challenge) is None

    def test_a_challenge_from_the_future_is_rejected(self, ada: PersonRow, clocked: list[int]) -> None:
        """A challenge issued while the clock was ahead would be valid for too long."""
        challenge = second_factor.new_challenge(ada)
        clocked[0] -= clock.SECOND
        assert second_factor.verify_challenge(challenge) is None

    def test_a_new_password_invalidates_the_challenge(self, ada: PersonRow, clocked: list[int]) -> None:
        challenge = second_factor.new_challenge(ada)
        people.update_person(shell(ada.organization_id), ada.id, password_hash="another")
        assert second_factor.verify_challenge(challenge) is None

    def test_a_disabled_person_has_none(self, cast: Cast, ada: PersonRow, clocked: list[int]) -> None:
        people.add_person(shell(cast.acme), "Second", Role.ADMINISTRATOR)
        challenge = second_factor.new_challenge(ada)
        people.disable_person(shell(cast.acme), ada.id)
        assert second_factor.verify_challenge(challenge) is None

    @pytest.mark.parametrize("change", ["person", "signature", "cut", "nothing", "long", "odd", "huge"])
    def test_a_forged_challenge_is_rejected(self, ada: PersonRow, clocked: list[int], change: str) -> None:
        other = people.add_person(shell(ada.organization_id), "Eve", Role.VIEWER, password_hash="hash")
        real = second_factor.new_challenge(ada)
        forged = {
            "person": real.replace(f".{ada.id}.", f".{other.id}."),
            "signature": real[:-1] + ("0" if real[-1] != "0" else "1"),
            "cut": real.rpartition(".")[0],
            "nothing": "",
            "long": real + "0" * 100_000,
            "odd": "1.2.\udc80.x",
            "huge": f"{10**30}.{10**30}.{NOW}.x",
        }[change]
        assert second_factor.verify_challenge(forged) is None


def test_a_new_password_keeps_the_second_factor(ada: PersonRow, clocked: list[int]) -> None:
    add(ada)
    people.update_person(shell(ada.organization_id), ada.id, password_hash=passwords.hash_password("a new password"))
    assert second_factors.find(ada.organization_id, ada.id)
