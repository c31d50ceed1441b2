"""Sign-in with a second factor, its setup and its removal."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from flask import Flask
from werkzeug.test import TestResponse

from edge import clock
from edge.audit import actors, trail
from edge.audit.actors import shell
from edge.database.connection import execute
from edge.database.instance import data_dir_file
from edge.pages import cookies
from edge.people import devices, passwords, people, second_factor, second_factors, sign_in, tokens
from edge.people import sessions as session_store
from edge.people.people import PersonRow, Role
from edge.people.secrets import hash_secret
from edge.people.sign_in import csrf_token
from tests.application import change
from tests.conftest import Cast
from tests.pages.conftest import EMAIL, PASSWORD, Browser, SignIn
from tests.people.test_second_factor import STEP, Phone, actor_of

pytestmark = pytest.mark.usefixtures("quick_and_forgiving")
NOW = 1_800_000_000 * clock.SECOND


class Door:
    """A browser at the sign-in page."""

    def __init__(self, app: Flask, address: str = "10.0.0.1") -> None:
        self.browser, self.address = Browser(app), address
        self.challenge = ""

    def send(self, **form: str) -> TestResponse:
        self.browser.get("/sign-in")
        cookie = self.browser.client.get_cookie(cookies.FORM)
        data = {"csrf": csrf_token(cookie.value if cookie else ""), **form}
        answer = self.browser.client.post("/sign-in", data=data, environ_base={"REMOTE_ADDR": self.address})
        match = re.search('name="challenge" value="([^"]*)"', answer.text)
        self.challenge = match[1] if match else self.challenge
        return answer

    def password(self, password: str = PASSWORD, **more: str) -> TestResponse:
        return self.send(email=EMAIL, password=password, **more)

    def code(self, code: str, **more: str) -> TestResponse:
        return self.send(challenge=self.challenge, code=code, **more)

    def recovery_code(self, code: str) -> TestResponse:
        return self.send(challenge=self.challenge, recovery=code)

    def is_open(self) -> bool:
        return self.browser.get("/people").status_code == 200


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The clock of the box, set by tests."""
    times = [NOW]
    monkeypatch.setattr(clock, "now", lambda: times[0])
    return times


@pytest.fixture
def setup(ada: PersonRow, time: list[int]) -> tuple[Phone, list[str]]:
    """Set up a second factor for Ada, and move on by one step so the code of the setup has expired."""
    phone = Phone(second_factor.begin(actor_of(ada)))
    here = execute("SELECT token_hash FROM web_session").fetchone()  # of a test that is signed in already
    codes = second_factor.confirm(actor_of(ada), phone.code(time[0]), here[0] if here else b"")
    assert codes
    time[0] += STEP
    return phone, codes


@pytest.fixture
def phone(setup: tuple[Phone, list[str]]) -> Phone:
    return setup[0]


@pytest.fixture
def codes(setup: tuple[Phone, list[str]]) -> list[str]:
    return setup[1]


def test_the_password_alone_opens_nothing(app: Flask, phone: Phone) -> None:
    door = Door(app)
    answer = door.password()
    assert answer.status_code == 200
    assert cookies.SESSION not in " ".join(answer.headers.getlist("Set-Cookie"))
    assert cookies.KNOWN not in " ".join(answer.headers.getlist("Set-Cookie"))
    assert not door.is_open()
    assert session_store.find_session(b"") is None


def test_a_code_after_the_password_signs_in_and_redirects(app: Flask, phone: Phone, time: list[int]) -> None:
    door = Door(app)
    assert 'value="/keys"' in door.password(next="/keys").text
    answer = door.code(phone.code(time[0]), next="/keys")
    assert (answer.status_code, answer.headers["Location"]) == (303, "/keys")
    assert door.is_open()


def test_the_setup_ends_the_other_sessions_and_their_tokens(app: Flask, ada: PersonRow, time: list[int]) -> None:
    here, elsewhere = Door(app), Door(app)
    for door in (here, elsewhere):
        door.password()
        cookie = door.browser.client.get_cookie(cookies.SESSION)
        assert cookie
        door.browser.token = cookie.value
    session = session_store.find_session(hash_secret(elsewhere.browser.token))
    assert session
    token = tokens.session_token("production", session, elsewhere.browser.token)
    assert tokens.principal("production", token)
    shown = here.browser.post("/account/second-factor", {"present": PASSWORD, "once": "1"}).text
    match = re.search("[A-Z2-7]{32}", shown)
    assert match
    here.browser.post("/account/second-factor/confirm", {"code": Phone(match[0]).code(time[0]), "once": "2"})
    assert second_factors.find(ada.organization_id, ada.id)
    assert (here.is_open(), elsewhere.is_open()) == (True, False)
    assert tokens.principal("production", token) is None


def test_the_form_suits_phones_and_password_managers(app: Flask, phone: Phone) -> None:
    field = re.search(r'<input id="code"[^>]*>', Door(app).password().text)
    assert field
    for attribute in ('inputmode="numeric"', 'autocomplete="one-time-code"', "autofocus", "required"):
        assert attribute in field[0]


def test_a_wrong_password_does_not_reveal_the_second_factor(app: Flask, phone: Phone) -> None:
    answer = Door(app).password("wrong")
    assert answer.status_code == 403
    assert "challenge" not in answer.text


def test_a_code_without_the_password_opens_nothing(app: Flask, ada: PersonRow, phone: Phone, time: list[int]) -> None:
    door = Door(app)
    for challenge in ("", f"{ada.organization_id}.{ada.id}.{time[0]}.", "x"):
        door.challenge = challenge
        answer = door.code(phone.code(time[0]))
        assert answer.status_code == 403
        assert sign_in.TOO_LATE in answer.text
    assert not door.is_open()


def test_a_code_that_was_used_is_refused(app: Flask, phone: Phone, time: list[int]) -> None:
    first, second = Door(app), Door(app)
    first.password()
    second.password()
    assert first.code(phone.code(time[0])).status_code == 303
    answer = second.code(phone.code(time[0]))
    assert answer.status_code == 403
    assert sign_in.WRONG_CODE in answer.text


def test_a_wrong_code_shows_the_time_of_the_server(app: Flask, phone: Phone, time: list[int]) -> None:
    """Codes depend on the clock, and nothing else shows that it is wrong."""
    door = Door(app)
    door.password()
    answer = door.code(phone.code(time[0] - clock.HOUR))
    assert "The server clock shows 2027-01-15 08:00 (UTC). Compare it with your phone." in answer.text
    assert door.code(phone.code(time[0])).status_code == 303, "the form was not shown again"


@pytest.mark.parametrize(
    ("language", "texts"),
    [("de", "Die Uhr des Servers"), ("es", "El reloj"), ("fr", "horloge du serveur"), ("pl", "Zegar serwera")],
)
def test_errors_are_in_the_language_of_the_browser(app: Flask, phone: Phone, language: str, texts: str) -> None:
    door = Door(app)
    door.browser.client.set_cookie(cookies.LANGUAGE, language)
    door.password()
    assert texts in door.code("000000").text


def test_after_five_minutes_the_password_is_required_again(app: Flask, phone: Phone, time: list[int]) -> None:
    door = Door(app)
    door.password()
    time[0] += 6 * 60 * clock.SECOND
    answer = door.code(phone.code(time[0]))
    assert answer.status_code == 403
    assert 'name="password"' in answer.text


def test_a_recovery_code_signs_in_once(app: Flask, codes: list[str]) -> None:
    door = Door(app)
    door.password()
    assert door.recovery_code("aaaa-aaaa-aaaa-aaaa").status_code == 403
    assert door.recovery_code(codes[3]).status_code == 303
    assert door.is_open()
    again = Door(app)
    again.password()
    answer = again.recovery_code(codes[3])
    assert answer.status_code == 403
    assert sign_in.WRONG_RECOVERY_CODE in answer.text
    assert "The clock" not in answer.text


def test_after_a_restore_elsewhere_a_recovery_code_is_required(
    app: Flask, phone: Phone, codes: list[str], time: list[int]
) -> None:
    data_dir_file("events.key").unlink()
    door = Door(app)
    door.password()
    answer = door.code(phone.code(time[0]))
    assert answer.status_code == 403
    assert sign_in.NO_SECRET in answer.text
    assert door.recovery_code(codes[0]).status_code == 303


class TestGuessing:
    def test_wrong_codes_are_counted_like_wrong_passwords(self, app: Flask, phone: Phone, time: list[int]) -> None:
        door = Door(app)
        door.password()
        answers = [door.code("000000") for _ in range(11)]
        assert [answer.status_code for answer in answers] == [403] * 10 + [429]
        assert int(answers[-1].headers["Retry-After"]) > 0
        assert door.code(phone.code(time[0])).status_code == 429
        assert Door(app).password().status_code == 429

    def test_the_right_password_in_between_forgives_nothing(self, app: Flask, phone: Phone) -> None:
        """An attacker who tries codes has the password and can enter it before each of them."""
        door = Door(app)
        statuses = []
        for _ in range(11):
            door.password()
            statuses.append(door.code("000000").status_code)
        assert statuses == [403] * 10 + [429]

    def test_another_network_gives_no_additional_attempts(self, app: Flask, phone: Phone) -> None:
        statuses = []
        for number in range(20):
            door = Door(app, f"10.{number}.0.1")
            door.password()
            statuses.append(door.code("000000").status_code)
        assert statuses == [403] * 10 + [429] * 10

    def test_recovery_codes_are_counted_with_them(self, app: Flask, codes: list[str]) -> None:
        door = Door(app)
        door.password()
        for _ in range(10):
            door.recovery_code("aaaa-aaaa-aaaa-aaaa")
        assert door.recovery_code(codes[0]).status_code == 429
        assert door.code("000000").status_code == 429

    def test_a_browser_of_the_owner_is_not_locked_out(self, app: Flask, phone: Phone, time: list[int]) -> None:
        own = Door(app)
        own.password()
        assert own.code(phone.code(time[0])).status_code == 303
        own.browser.client.delete_cookie(cookies.SESSION)
        for number in range(11):
            thief = Door(app, f"10.{number}.0.1")
            thief.password()
            thief.code("000000")
        time[0] += STEP
        own.password()
        assert own.code(phone.code(time[0])).status_code == 303

    def test_they_are_in_the_audit(self, app: Flask, cast: Cast, ada: PersonRow, phone: Phone, time: list[int]) -> None:
        door = Door(app)
        door.password()
        door.code("000000")
        door.code("000000")
        refused = [row for row in trail.recent(cast.acme, 99) if row.action == "person.sign_in_refused"]
        assert [(row.subject_id, row.detail) for row in refused] == [
            (str(ada.id), {"address": "10.0.0.1", "attempts": 2})
        ]


def test_others_need_no_code(app: Flask, cast: Cast, phone: Phone) -> None:
    """A person of another organization with the same email needs none either; the password selects the account."""
    other = people.add_person(
        shell(cast.rival), "Ada", Role.VIEWER, email=EMAIL, password_hash="hash of other password"
    )
    answer = Door(app).send(email=EMAIL, password="other password")
    assert answer.status_code == 303
    assert second_factors.find(cast.rival, other.id) is None


def test_it_is_required_on_an_enrolled_device_too(app: Flask, cast: Cast, phone: Phone, time: list[int]) -> None:
    enrolled = devices.enrol(devices.invite(shell(cast.acme), "Gun 1")[1])
    assert enrolled
    door = Door(app)
    door.browser.carry(enrolled[1])
    assert door.password().status_code == 200
    assert door.code(phone.code(time[0])).status_code == 303


def test_a_preserved_form_survives_both_steps(app: Flask, phone: Phone, time: list[int]) -> None:
    door = Door(app)
    kept = '["/assets/new",[["name","Cage 7"]]]'
    page = door.password(kept=kept).text
    assert page.count('name="kept"') == 2
    assert "Cage 7" in door.code(phone.code(time[0]), kept=kept).text


def test_with_https_the_session_is_bound_to_the_host(app: Flask, phone: Phone, time: list[int]) -> None:
    client = Browser(app).client
    base = "https://box.example"
    client.get("/sign-in", base_url=base)
    form = client.get_cookie(f"__Host-{cookies.FORM}", domain="box.example")
    assert form
    csrf = csrf_token(form.value)
    page = client.post("/sign-in", base_url=base, data={"csrf": csrf, "email": EMAIL, "password": PASSWORD}).text
    challenge = re.findall('name="challenge" value="([^"]*)"', page)[0]
    entered = {"csrf": csrf, "challenge": challenge, "code": phone.code(time[0])}
    answer = client.post("/sign-in", base_url=base, data=entered)
    cookie = next(one for one in answer.headers.getlist("Set-Cookie") if one.startswith(f"__Host-{cookies.SESSION}="))
    assert {"Secure", "HttpOnly", "SameSite=Lax", "Path=/"} <= {part.strip() for part in cookie.split(";")}


class TestSettingUp:
    PATH = "/account/second-factor"

    @pytest.fixture
    def admin(self, app: Flask, ada: PersonRow, time: list[int]) -> Browser:
        """Ada, signed in without a second factor."""
        sign_in.sessions.add_session(
            actors.person(ada.organization_id, ada.id, ada.name), sign_in.hash_secret("own"), NOW + clock.DAY
        )
        return Browser(app, "own")

    def begin(self, admin: Browser) -> str:
        page = admin.post(self.PATH, {"present": PASSWORD}).text
        assert '<svg xmlns="http://www.w3.org/2000/svg"' in page
        return re.findall(r'<output id="secret"[^>]*>([A-Z2-7]{32})<', page)[0]

    def test_from_the_password_to_recovery_codes(self, app: Flask, admin: Browser, time: list[int]) -> None:
        secret = self.begin(admin)
        page = admin.post(f"{self.PATH}/confirm", {"code": Phone(secret).code(time[0])}).text
        codes = re.findall("[a-z2-9]{4}(?:-[a-z2-9]{4}){3}", page)
        assert len(codes) == 10
        for path in (self.PATH, "/account", "/people"):
            shown = admin.get(path).text
            assert secret not in shown
            assert codes[0] not in shown
        assert ">authenticator app<" in admin.get("/people").text
        assert "Unused recovery codes: 10" in admin.get(self.PATH).text
        door = Door(app)
        door.password()
        assert door.recovery_code(codes[0]).status_code == 303

    def test_sessions_that_are_open_stay(self, admin: Browser, time: list[int]) -> None:
        admin.post(f"{self.PATH}/confirm", {"code": Phone(self.begin(admin)).code(time[0])})
        assert admin.get("/people").status_code == 200

    def test_an_open_session_alone_sets_nothing_up(self, admin: Browser, ada: PersonRow) -> None:
        for password in ("", "wrong"):
            assert admin.post(self.PATH, {"present": password}).status_code == 400
        assert second_factors.find_unconfirmed(ada.organization_id, ada.id) is None

    def test_a_wrong_first_code_can_be_corrected_and_reveals_no_secret(self, admin: Browser, time: list[int]) -> None:
        secret = self.begin(admin)
        answer = admin.post(f"{self.PATH}/confirm", {"code": "000000"})
        assert answer.status_code == 400
        assert "The server clock shows" in answer.text
        assert secret not in answer.text
        assert "authentication is on" in admin.post(f"{self.PATH}/confirm", {"code": Phone(secret).code(time[0])}).text

    def test_a_form_that_is_sent_twice_shows_the_same(self, admin: Browser, time: list[int]) -> None:
        form: dict[str, object] = {"present": PASSWORD, "once": "begin"}
        first = admin.post(self.PATH, form).text
        assert admin.post(self.PATH, form).text == first
        secret = re.findall("[A-Z2-7]{32}", first)[0]
        form = {"code": Phone(secret).code(time[0]), "once": "confirm"}
        assert admin.post(f"{self.PATH}/confirm", form).text == admin.post(f"{self.PATH}/confirm", form).text

    def test_without_a_beginning_there_is_no_end(self, admin: Browser) -> None:
        answer = admin.post(f"{self.PATH}/confirm", {"code": "000000"})
        assert answer.headers["Location"].endswith("done=second-factor-too-late")

    def test_a_second_setup_is_refused(self, admin: Browser, setup: tuple[Phone, list[str]]) -> None:
        answer = admin.post(self.PATH, {"present": PASSWORD})
        assert answer.headers["Location"].endswith("done=second-factor-is-on")

    def test_it_is_removed_with_a_code(self, admin: Browser, ada: PersonRow, phone: Phone, time: list[int]) -> None:
        for form in ({"code": "000000"}, {"recovery": "aaaa"}, {}):
            assert admin.post(f"{self.PATH}/remove", dict(form)).status_code == 400
        assert admin.post(f"{self.PATH}/remove", {"code": phone.code(time[0])}).status_code == 303
        assert second_factors.find(ada.organization_id, ada.id) is None

    def test_it_is_removed_with_a_recovery_code(self, admin: Browser, ada: PersonRow, codes: list[str]) -> None:
        assert admin.post(f"{self.PATH}/remove", {"recovery": codes[9]}).status_code == 303
        assert second_factors.find(ada.organization_id, ada.id) is None

    def test_codes_cannot_be_tried_out_by_removing(self, admin: Browser, phone: Phone, time: list[int]) -> None:
        for _ in range(10):
            admin.post(f"{self.PATH}/remove", {"code": "000000"})
        answer = admin.post(f"{self.PATH}/remove", {"code": phone.code(time[0])})
        assert answer.status_code == 400
        assert sign_in.TOO_MANY in answer.text

    def test_a_new_password_keeps_the_second_factor(
        self, app: Flask, admin: Browser, ada: PersonRow, phone: Phone
    ) -> None:
        form: dict[str, object] = {"present": PASSWORD, "password": "quite another one", "again": "quite another one"}
        assert admin.post("/account", form).status_code == 303
        door = Door(app)
        assert door.password("quite another one").status_code == 200
        assert not door.is_open()

    @pytest.mark.parametrize("role", [Role.VIEWER, Role.OPERATOR, Role.EDITOR])
    def test_every_role_with_a_password_can_set_it_up(
        self, cast: Cast, sign_in_as: SignIn, ada: PersonRow, role: Role
    ) -> None:
        browser = sign_in_as(role)
        assert "people who sign in with a password" in browser.get(self.PATH).text
        assert "Two-factor" not in browser.get("/account").text
        here = hash_secret(browser.token)
        (person_id,) = execute("SELECT person_id FROM web_session WHERE token_hash = ?", (here,)).fetchone()
        people.update_person(
            shell(cast.acme), person_id, keep_session=here, password_hash=passwords.hash_password(PASSWORD)
        )
        assert "Two-factor" in browser.get("/account").text
        shown = browser.post(self.PATH, {"present": PASSWORD, "once": "1"}).text
        assert "authenticator app on your phone" in shown

    def test_a_former_administrator_can_still_remove_it(
        self, cast: Cast, admin: Browser, ada: PersonRow, phone: Phone, time: list[int]
    ) -> None:
        people.add_person(shell(cast.acme), "Second", Role.ADMINISTRATOR)
        people.update_person(shell(cast.acme), ada.id, role=Role.VIEWER)
        assert "Two-factor" in admin.get("/account").text
        assert admin.post(f"{self.PATH}/remove", {"code": phone.code(time[0])}).status_code == 303


def test_the_time_zone_is_that_of_the_site(app: Flask, phone: Phone) -> None:
    change(app, pages_time_zone="Europe/Berlin")
    door = Door(app)
    door.password()
    assert "09:00 (" in door.code("000000").text


def test_api_tokens_need_none(
    app: Flask, ada: PersonRow, phone: Phone, time: list[int], sign_in_as: Callable[..., Browser]
) -> None:
    door = Door(app)
    door.password()
    door.code(phone.code(time[0]))
    cookie = door.browser.client.get_cookie(cookies.SESSION)
    assert cookie
    door.browser.token = cookie.value
    token = (door.browser.send("/account/token", {}).json or {})["access_token"]
    headers = {"Authorization": f"Bearer {token}", "User-Agent": "tests"}
    assert Browser(app).get("/api/v1/assets", headers=headers).status_code == 200
