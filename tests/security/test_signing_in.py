"""Lockout by wrong passwords and PINs, and the end of sessions after a change of role or password."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from flask import Flask

from edge import clock, rate_limits
from edge.audit import trail
from edge.audit.actors import person as actor_of
from edge.audit.actors import shell
from edge.database.connection import execute
from edge.errors import Invalid
from edge.people import devices, known_browsers, passwords, people, tokens
from edge.people import sessions as session_store
from edge.people import sign_in as sessions
from edge.people.devices import DeviceRow
from edge.people.passwords import hash_pin
from edge.people.people import PersonRow, Role
from edge.people.pin_lockout import MAX_WRONG_PINS, PIN_LOCKED
from edge.people.secrets import hash_secret
from edge.people.sign_in import Refused, SignIn, sign_in, sign_in_on_device
from edge.rate_limits import MOST_KEYS, Buckets, client_network
from tests.conftest import Cast
from tests.observed import scans_by_people
from tests.pages.conftest import EMAIL, PASSWORD, Browser, Site

LAN, ELSEWHERE = "192.168.1.20", "10.9.8.7"


pytestmark = pytest.mark.usefixtures("quick_and_forgiving")


def attempt(password: str = PASSWORD, address: str = LAN, proof: str = "", email: str = EMAIL) -> SignIn | Refused:
    return sign_in(email, password, address=address, hours=12, proof=proof)


def guess(times: int, address: str) -> None:
    for _ in range(times):
        assert isinstance(attempt("wrong", address), Refused)


def test_wrong_passwords_from_other_networks_do_not_lock_out_the_owner(ada: PersonRow) -> None:
    """Regression: one wrong password a minute from any address locked out the administrator."""
    guess(50, ELSEWHERE)
    assert isinstance(attempt(), SignIn)


def test_a_browser_that_was_signed_in_before_is_locked_out_by_no_neighbour(ada: PersonRow) -> None:
    first = attempt()
    assert isinstance(first, SignIn)
    guess(100, "192.168.1.99")
    assert isinstance(attempt(), Refused)
    assert isinstance(attempt(proof=first.proof), SignIn)


def test_a_proof_gives_attempts_and_nothing_else(ada: PersonRow, cast: Cast) -> None:
    proof = known_browsers.new_proof(ada)
    answers = [attempt("wrong", proof=proof) for _ in range(11)]
    assert [answer.wait_seconds > 0 for answer in answers if isinstance(answer, Refused)] == [False] * 10 + [True]
    forged = proof[:-1] + ("0" if proof[-1] != "0" else "1")
    other = people.add_person(shell(cast.acme), "Bob", Role.VIEWER, email="bob@acme.example")
    for worthless in (forged, "", "x", f"{ada.id}..", "\ud800", proof * 100):
        assert known_browsers.limit_key(worthless, ada) is None
    assert known_browsers.limit_key(proof, other) is None


def test_a_proof_ends_with_the_password(ada: PersonRow) -> None:
    proof = known_browsers.new_proof(ada)
    assert known_browsers.limit_key(proof, ada._replace(name="Ada B", role=Role.EDITOR))
    changed = people.update_person(shell(ada.organization_id), ada.id, password_hash="another hash")
    assert known_browsers.limit_key(proof, changed) is None
    assert known_browsers.limit_key(known_browsers.new_proof(changed), changed)


def test_the_browser_gets_its_proof_with_the_session(app: Flask, ada: PersonRow) -> None:
    browser = Browser(app)
    browser.get("/sign-in")
    form = browser.client.get_cookie("edge_form")
    assert form
    data = {"csrf": sessions.csrf_token(form.value), "email": EMAIL, "password": PASSWORD}
    browser.client.post("/sign-in", data=data)
    known = browser.client.get_cookie("edge_known")
    assert known
    assert known.http_only
    assert known_browsers.limit_key(known.value, ada)


@pytest.mark.parametrize("network", ["2001:db8:1:2:", "10.1.2."])
def test_a_network_is_counted_as_one_client(ada: PersonRow, network: str) -> None:
    """Regression: each address of a /64 had its own attempts."""
    tried = [attempt("wrong", f"{network}{':' if ':' in network else ''}{n + 1}") for n in range(75)]
    assert sum(1 for answer in tried if isinstance(answer, Refused) and not answer.wait_seconds) == 10


def test_a_network_is_counted_over_all_accounts(ada: PersonRow) -> None:
    tried = [attempt("wrong", "2001:db8::1", email=f"a{n}@x.example") for n in range(70)]
    assert sum(1 for answer in tried if isinstance(answer, Refused) and not answer.wait_seconds) == 60


def test_an_account_is_counted_over_all_networks(ada: PersonRow) -> None:
    """A program on the box can name another address each time."""
    tried = [attempt("wrong", f"10.{n // 200}.{n % 200}.1") for n in range(330)]
    assert sum(1 for answer in tried if isinstance(answer, Refused) and not answer.wait_seconds) == 300


def test_an_invalid_address_is_a_client_network_of_its_own() -> None:
    assert client_network("unknown") == "unknown"
    assert (
        client_network("192.168.1.77", v4_bits=24)
        == client_network("::ffff:192.168.1.5", v4_bits=24)
        == "192.168.1.0/24"
    )


def test_a_wrong_date_does_not_lock_an_account(ada: PersonRow, monkeypatch: pytest.MonkeyPatch) -> None:
    """Regression: an attempt in a wrong year locked the account until then."""
    with monkeypatch.context() as patch:
        patch.setattr(clock, "now", lambda: 4_000_000_000 * clock.SECOND)
        guess(9, LAN)
    assert isinstance(attempt(), SignIn)


def test_buckets_take_little_room_however_many_keys_come(monkeypatch: pytest.MonkeyPatch) -> None:
    moment = 0.0
    monkeypatch.setattr(rate_limits.time, "monotonic", lambda: moment)
    kept = Buckets(burst=2, per_second=1)
    assert [kept.take("worst").allowed for _ in range(3)] == [True, True, False]
    for number in range(2 * MOST_KEYS):
        kept.take(str(number))
    assert len(kept._buckets) <= MOST_KEYS
    assert not kept.look("worst").allowed
    moment = 5.0
    for number in range(MOST_KEYS):
        kept.take(f"next {number}")
    assert "worst" not in kept._buckets


class TestPins:
    @pytest.fixture
    def otto(self, cast: Cast) -> PersonRow:
        pin_hash = hash_pin("4711", Role.OPERATOR)
        return people.add_person(shell(cast.acme), "Otto", Role.OPERATOR, pin_hash=pin_hash)

    def enter(self, cast: Cast, person: PersonRow, pin: str) -> SignIn | Refused:
        enrolled = devices.enrol(devices.invite(shell(cast.acme), f"Gun {clock.now()}")[1])
        assert enrolled
        options = {"is_pin_required": False, "address": LAN, "hours": 12}
        return sign_in_on_device(enrolled[0], person_id=person.id, pin=pin, **options)  # type: ignore[arg-type]

    def test_wrong_passwords_in_the_network_do_not_lock_out_enrolled_devices(
        self, cast: Cast, otto: PersonRow, ada: PersonRow
    ) -> None:
        """Regression: 90 wrong passwords from one address locked out every handheld in its /24."""
        for number in range(90):
            attempt("wrong", "192.168.1.99", email=f"a{number}@acme.example")
        assert isinstance(attempt(), Refused)
        assert isinstance(self.enter(cast, otto, "4711"), SignIn)
        gun = devices.enrol(devices.invite(shell(cast.acme), "Gun of the boss")[1])
        assert gun
        assert isinstance(sign_in(EMAIL, PASSWORD, address=LAN, hours=12, device=gun[0]), SignIn)

    def test_a_device_has_as_many_attempts_as_a_network(self, cast: Cast, ada: PersonRow) -> None:
        gun = devices.enrol(devices.invite(shell(cast.acme), "Stolen gun")[1])
        assert gun
        tried = [
            sign_in(f"a{number}@x.example", "wrong", address=f"10.0.{number}.1", hours=12, device=gun[0])
            for number in range(70)
        ]
        assert sum(1 for answer in tried if isinstance(answer, Refused) and not answer.wait_seconds) == 60

    def test_a_stolen_device_cannot_try_or_lock_the_pins_of_everybody(self, cast: Cast) -> None:
        gun, other = (devices.enrol(devices.invite(shell(cast.acme), name)[1]) for name in ("Stolen", "Other"))
        assert gun
        assert other
        pin_hash = hash_pin("4711", Role.OPERATOR)
        crowd = [
            people.add_person(shell(cast.acme), f"Person {n}", Role.OPERATOR, pin_hash=pin_hash) for n in range(30)
        ]

        def enter(device: DeviceRow, person: PersonRow, pin: str) -> SignIn | Refused:
            sessions._by_client.clear()  # as if the attempts took days
            return sign_in_on_device(
                device, person_id=person.id, pin=pin, is_pin_required=False, address="10.0.0.1", hours=12
            )

        answers = [enter(gun[0], person, "0000") for person in crowd for _ in range(3)]
        tried = [one for one in answers if isinstance(one, Refused) and one.reason == sessions.WRONG_PIN]
        assert len(tried) == 40
        refused = enter(gun[0], crowd[0], "4711")
        assert isinstance(refused, Refused)
        assert refused.wait_seconds > 1_000
        assert isinstance(enter(other[0], crowd[0], "4711"), SignIn)

    @pytest.mark.parametrize("pin", ["1111", "1234", "9876", "0123", "7890", "1212", "4747", "483483", "12", "1" * 13])
    def test_trivial_pins_are_rejected(self, pin: str) -> None:
        with pytest.raises(Invalid):
            hash_pin(pin, Role.OPERATOR)

    def test_an_editor_has_six_digits(self) -> None:
        with pytest.raises(Invalid, match="6 to 12 digits"):
            hash_pin("47110", Role.EDITOR)
        hash_pin("471108", Role.EDITOR)
        hash_pin("4711", Role.OPERATOR)

    def test_twenty_wrong_attempts_lock_a_pin_until_it_is_replaced(self, cast: Cast, otto: PersonRow) -> None:
        """The limit holds at any rate and from any number of devices."""
        for number in range(MAX_WRONG_PINS):
            sessions._by_client.clear()
            answer = self.enter(cast, otto, "0000")
            assert (isinstance(answer, Refused) and answer.reason) == sessions.WRONG_PIN, number
        locked = self.enter(cast, otto, "4711")
        assert isinstance(locked, Refused)
        assert locked.reason == PIN_LOCKED
        people.update_person(shell(cast.acme), otto.id, pin_hash=hash_pin("0815", Role.OPERATOR))
        assert isinstance(self.enter(cast, otto, "0815"), SignIn)
        assert "person.pin_locked" in {row.action for row in trail.recent(cast.acme)}


class TestWhatEnds:
    def begin(self, person: PersonRow, cookie: str) -> str:
        """Start a session and return an API token of it."""
        actor = actor_of(person.organization_id, person.id, person.name)
        session_store.add_session(actor, hash_secret(cookie), clock.now() + clock.HOUR)
        session = session_store.find_session(hash_secret(cookie))
        assert session
        return tokens.session_token("production", session, cookie)

    @pytest.fixture
    def vera(self, cast: Cast) -> PersonRow:
        pin_hash = hash_pin("4711", Role.OPERATOR)
        return people.add_person(shell(cast.acme), "Vera", Role.OPERATOR, pin_hash=pin_hash)

    @pytest.mark.parametrize("change", [{"role": Role.EDITOR}, {"password_hash": "new"}])
    def test_sessions_and_their_tokens(self, cast: Cast, vera: PersonRow, change: dict[str, object]) -> None:
        token = self.begin(vera, "cookie")
        assert tokens.principal("production", token)
        people.update_person(shell(cast.acme), vera.id, **change)
        assert sessions.find("cookie") is None
        assert tokens.principal("production", token) is None

    def test_a_higher_role_removes_the_pin(self, cast: Cast, vera: PersonRow) -> None:
        assert people.update_person(shell(cast.acme), vera.id, role=Role.EDITOR).pin_hash is None

    def test_nothing_with_another_name(self, cast: Cast, vera: PersonRow) -> None:
        token = self.begin(vera, "cookie")
        people.update_person(shell(cast.acme), vera.id, name="Vera B.")
        assert sessions.find("cookie")
        assert tokens.principal("production", token)

    def test_a_token_with_the_sign_out(self, vera: PersonRow) -> None:
        token = self.begin(vera, "cookie")
        sessions.sign_out("cookie")
        assert tokens.principal("production", token) is None

    def test_a_token_names_its_own_session_only(self, cast: Cast, vera: PersonRow) -> None:
        other = people.add_person(shell(cast.acme), "Wim", Role.VIEWER)
        self.begin(vera, "hers")
        session = session_store.find_session(hash_secret("hers"))
        assert session
        forged = tokens.session_token("production", session._replace(person_id=other.id), "hers")
        assert tokens.principal("production", forged) is None


def test_a_higher_role_requires_a_new_sign_in(app: Flask, cast: Cast, sign_in_as: Callable[..., Browser]) -> None:
    browser = sign_in_as(Role.OPERATOR)
    person = next(row for row in people.list_people(cast.acme) if row.role == Role.OPERATOR)
    people.update_person(shell(cast.acme), person.id, role=Role.ADMINISTRATOR)
    assert browser.get("/people").status_code == 303


class TestScansInAnothersName:
    """Regression: an operator on a shared handheld could record and undo scans as the administrator."""

    @pytest.fixture
    def gun(self, cast: Cast) -> int:
        return devices.invite(shell(cast.acme), "Gun 1")[0].id

    def send(self, browser: Browser, **item: object) -> dict[str, Any]:
        answer = browser.send("/scan/batch", {"sent_at": clock.now() // 1000, "items": [item]})
        result: dict[str, Any] = (answer.json or {})["results"][0]
        return result

    def scan(self, browser: Browser, site: Site, name: str, **item: object) -> tuple[int, int]:
        """Return the person who made the scan and the person who sent it."""
        made = {"id": f"scan-{name}", "code": "4006381333931", "location": site.dock.id, "at": clock.now() // 1000}
        self.send(browser, **(made | item))
        row = execute("SELECT person_id, sent_by FROM handheld_scan WHERE id = ?", (made["id"],)).fetchone()
        return row[0], row[1]

    def id_of(self, browser: Browser) -> int:
        return (browser.get("/scan/state").json or {})["person"]  # type: ignore[no-any-return]

    def earlier(self, sign_in_as: Callable[..., Browser], gun: int) -> tuple[Browser, str, int]:
        """Return a browser of somebody who signed in an hour ago, the session's reference, and a time during the
        session.
        """
        browser = sign_in_as(Role.OPERATOR, device_id=gun)
        person = self.id_of(browser)
        execute("UPDATE web_session SET created_at = ? WHERE person_id = ?", (clock.now() - clock.HOUR, person))
        session = execute("SELECT ref FROM web_session WHERE person_id = ?", (person,)).fetchone()[0]
        return browser, session, (clock.now() - clock.HOUR // 2) // 1000

    def test_a_scan_is_attributed_to_the_person_signed_in_at_its_time(
        self, sign_in_as: Callable[..., Browser], site: Site, gun: int
    ) -> None:
        before, session, at = self.earlier(sign_in_as, gun)
        now = sign_in_as(Role.OPERATOR, device_id=gun)
        theirs, own = self.id_of(before), self.id_of(now)
        before.post("/sign-out")
        assert self.scan(now, site, "theirs", session=session, at=at) == (theirs, own)
        long_ago = (clock.now() - clock.DAY) // 1000
        scan = {"code": "4006381333931", "location": site.dock.id, "session": session, "at": long_ago}
        assert self.send(now, id="scan-long-ago", **scan)["result"] == "whose"
        assert scans_by_people() == 1

    def test_no_other_name_is_taken(self, sign_in_as: Callable[..., Browser], site: Site, gun: int) -> None:
        boss, operator = sign_in_as(Role.ADMINISTRATOR), sign_in_as(Role.OPERATOR, device_id=gun)
        own = self.id_of(operator)
        assert self.scan(operator, site, "as-the-boss", person=self.id_of(boss)) == (own, own)

    def test_nobody_can_undo_scans_that_another_person_made_and_sent(
        self, sign_in_as: Callable[..., Browser], site: Site, gun: int, cast: Cast
    ) -> None:
        boss, operator = (sign_in_as(role, device_id=gun) for role in (Role.ADMINISTRATOR, Role.OPERATOR))
        self.scan(boss, site, "of-the-boss")
        undone = self.send(operator, id="undo-of-it", undo="scan-of-the-boss", person=self.id_of(boss))
        assert undone["result"] == "refused"
        self.scan(operator, site, "brought", person=self.id_of(boss))
        assert self.send(operator, id="undo-brought", undo="scan-brought")["result"] == "undone"
        assert trail.recent(cast.acme)[0].actor_id == str(self.id_of(operator))

    @pytest.mark.parametrize("act", ["lost", "found", "finish", "cancel"])
    def test_the_audit_names_the_sender_of_another_persons_actions(
        self, sign_in_as: Callable[..., Browser], site: Site, gun: int, cast: Cast, act: str
    ) -> None:
        before, session, at = self.earlier(sign_in_as, gun)
        now = sign_in_as(Role.OPERATOR, device_id=gun)
        begun = {"act": "begin", "location": site.dock.id, "expected": [], "at": at, "session": session}
        assert self.send(now, id="the-stock-take", **begun)["result"] == "done"
        item = {"act": act, "asset": site.pallet.id, "stock_take": "the-stock-take", "at": at}
        assert self.send(now, id="an-act-of-it", session=session, **item)["result"] == "done"
        line = trail.recent(cast.acme)[0]
        assert line.actor_id == str(self.id_of(now))
        assert line.detail["done_by"] == people.find_person(cast.acme, self.id_of(before)).name  # type: ignore[union-attr]

    def test_nobody_can_undo_stock_take_scans_of_another_device(
        self, sign_in_as: Callable[..., Browser], site: Site, gun: int, cast: Cast
    ) -> None:
        other_gun = devices.invite(shell(cast.acme), "Gun 2")[0].id
        theirs, own = sign_in_as(Role.OPERATOR, device_id=other_gun), sign_in_as(Role.OPERATOR, device_id=gun)
        at, them = clock.now() // 1000, self.id_of(theirs)
        session_store.add_session(actor_of(cast.acme, them, "Them", gun), b"also here", clock.now() + clock.HOUR)
        begun = {"act": "begin", "location": site.hall.id, "expected": [], "at": at}
        self.send(theirs, id="the-stock-take", **begun)
        scan = {"code": "4006381333931", "location": site.dock.id, "at": at, "stock_take": "the-stock-take"}
        assert self.send(theirs, id="counted-there", **scan)["result"] == "counted"
        self.send(own, id="undo-from-here", undo="counted-there", person=them)
        assert execute("SELECT count(*) FROM stock_take_scan").fetchone() == (1,)
        self.send(theirs, id="undo-from-there", undo="counted-there")
        assert execute("SELECT count(*) FROM stock_take_scan").fetchone() == (0,)


class TestOneEmailInTwoOrganizations:
    EMAIL = "ada@example.com"

    @pytest.fixture
    def both(self, cast: Cast) -> tuple[PersonRow, PersonRow]:
        """The second account is created by an administrator who learns nothing about the first."""
        return tuple(  # type: ignore[return-value]
            people.add_person(shell(whose), "Ada", Role.VIEWER, email=self.EMAIL, password_hash=f"hash of {password}")
            for whose, password in ((cast.acme, "her first password"), (cast.rival, "her other password"))
        )

    def enter(self, password: str) -> SignIn | Refused:
        return sessions.sign_in(self.EMAIL.upper(), password, address="10.0.0.1", hours=1)

    def test_the_password_selects_the_account(self, both: tuple[PersonRow, PersonRow]) -> None:
        for person, password in zip(both, ("her first password", "her other password"), strict=True):
            begun = self.enter(password)
            assert isinstance(begun, SignIn)
            assert begun.person.id == person.id
        assert isinstance(self.enter("neither of the two"), Refused)

    @pytest.mark.parametrize("is_known_browser", [False, True])
    def test_signing_in_to_one_account_gives_no_free_guesses_at_the_other(
        self, both: tuple[PersonRow, PersonRow], monkeypatch: pytest.MonkeyPatch, is_known_browser: bool
    ) -> None:
        """Regression: a successful sign-in after every ninth attempt allowed unlimited guesses."""
        target, own = both
        tried: list[str] = []

        def compare(stored: str | None, given: str) -> bool:
            if stored == target.password_hash:
                tried.append(given)
            return stored == f"hash of {given}"

        monkeypatch.setattr(passwords, "matches", compare)
        proof = known_browsers.new_proof(own) if is_known_browser else ""
        for number in range(60):
            sessions.sign_in(self.EMAIL, f"guess {number}", address="10.0.0.1", hours=1, proof=proof)
            if number % 9 == 8:
                sessions.sign_in(self.EMAIL, "her other password", address="10.0.0.1", hours=1, proof=proof)
        assert len(tried) <= 11
        own_browser = known_browsers.new_proof(target)
        begun = sessions.sign_in(self.EMAIL, "her first password", address="10.0.0.1", hours=1, proof=own_browser)
        assert isinstance(begun, SignIn)
        elsewhere = sessions.sign_in(self.EMAIL, "her first password", address="10.0.9.1", hours=1)
        assert isinstance(elsewhere, SignIn)

    def test_the_other_account_is_not_revealed(self, cast: Cast, sign_in_as: Callable[..., Browser]) -> None:
        people.add_person(shell(cast.rival), "Ada", Role.VIEWER, email=self.EMAIL, password_hash="x")
        form = {"name": "Ada", "role": "viewer", "email": self.EMAIL}
        admin = sign_in_as(Role.ADMINISTRATOR)
        assert admin.post("/people/new", form).status_code == 303
        assert admin.post("/people/new", form | {"name": "Again"}).status_code == 409

    def test_as_many_hashes_are_compared_for_any_email(
        self, both: tuple[PersonRow, PersonRow], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        compared: list[str | None] = []
        monkeypatch.setattr(passwords, "matches", lambda stored, _: bool(compared.append(stored)))
        numbers = []
        for email in (self.EMAIL, "nobody@example.com"):
            compared.clear()
            sessions.sign_in(email, "wrong", address="10.0.0.1", hours=1)
            numbers.append(len(compared))
        assert numbers == [2, 2]
