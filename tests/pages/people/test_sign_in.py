from __future__ import annotations

import pytest
from flask import Flask

from edge import clock, rate_limits
from edge.audit import actors
from edge.audit.actors import shell
from edge.database.connection import execute
from edge.pages import cookies
from edge.people import devices, passwords, people, sessions, sign_in
from edge.people.people import Role
from edge.people.sign_in import csrf_token
from tests.application import change
from tests.conftest import Cast
from tests.pages.conftest import PASSWORD, Browser, SignIn

pytestmark = pytest.mark.usefixtures("quick_and_forgiving")


def enter(browser: Browser, agent: str = "", **form: object) -> tuple[int, str]:
    """Load the form and send it, as a browser does."""
    browser.get("/sign-in")
    cookie = browser.client.get_cookie(cookies.FORM)
    data = {"csrf": csrf_token(cookie.value if cookie else ""), **form}
    answer = browser.client.post("/sign-in", data=data, headers={"User-Agent": agent})
    return answer.status_code, answer.headers.get("Set-Cookie", "")


def test_the_right_password_begins_a_session(app: Flask, ada: people.PersonRow) -> None:
    browser = Browser(app)
    status, cookie = enter(browser, email="ADA@acme.example ", password=PASSWORD)
    assert status == 303
    assert "HttpOnly" in cookie
    assert "SameSite=Lax" in cookie
    assert "Secure" not in cookie
    assert browser.get("/").status_code == 200


@pytest.mark.parametrize("email", ["ada@acme.example", "nobody@acme.example", "", "' OR 1=1 --"])
def test_a_wrong_answer_looks_the_same_whether_the_account_exists(
    app: Flask, ada: people.PersonRow, email: str
) -> None:
    browser = Browser(app)
    browser.get("/sign-in")
    cookie = browser.client.get_cookie(cookies.FORM)
    assert cookie
    data = {"csrf": csrf_token(cookie.value), "email": email, "password": "wrong"}
    answer = browser.client.post("/sign-in", data=data)
    assert answer.status_code == 403
    assert sign_in.WRONG_PASSWORD in answer.text


def test_the_password_is_compared_also_when_there_is_no_account(
    app: Flask, ada: people.PersonRow, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared = []
    monkeypatch.setattr(passwords, "check_password_hash", lambda *pair: compared.append(pair))
    enter(Browser(app), email="nobody@acme.example", password="wrong")
    enter(Browser(app), email="ada@acme.example", password="wrong")
    assert len(compared) == 2 * 2  # one hash for each organization of the box


def test_an_account_is_throttled_and_later_forgiven(
    app: Flask, ada: people.PersonRow, monkeypatch: pytest.MonkeyPatch
) -> None:
    moment = 0.0
    monkeypatch.setattr(rate_limits.time, "monotonic", lambda: moment)
    browser = Browser(app)
    assert [enter(browser, email="ada@acme.example", password="no")[0] for _ in range(11)] == [403] * 10 + [429]
    assert enter(browser, email="ada@acme.example", password=PASSWORD)[0] == 429
    assert enter(browser, email="nobody@acme.example", password="no")[0] == 403
    moment += 61
    assert enter(browser, email="ada@acme.example", password=PASSWORD)[0] == 303


def test_an_address_is_throttled_over_all_accounts(app: Flask, ada: people.PersonRow) -> None:
    browser = Browser(app)
    statuses = [enter(browser, email=f"a{number}@x.example", password="no")[0] for number in range(61)]
    assert statuses == [403] * 60 + [429]


def test_badges_cannot_be_tried_out_on_a_device(app: Flask, cast: Cast, ada: people.PersonRow) -> None:
    """A locked device answers a right badge like a wrong one."""
    people.add_person(shell(cast.acme), "Otto", Role.OPERATOR, badge_hash=passwords.hash_badge("4711"))
    device = devices.enrol(devices.invite(shell(cast.acme), "Handheld 1")[1])
    assert device
    browser = Browser(app)
    browser.carry(device[1])
    assert [enter(browser, badge=str(number))[0] for number in range(11)] == [403] * 10 + [429]
    assert enter(browser, badge="4711")[0] == 429


def test_wrong_answers_are_remembered_by_little(app: Flask, ada: people.PersonRow) -> None:
    enter(Browser(app), email="a" * 100_000, password="no")
    assert max(map(len, sign_in._by_account._buckets)) < 300


def test_a_disabled_person_is_out_at_once(app: Flask, cast: Cast, ada: people.PersonRow) -> None:
    people.add_person(shell(cast.acme), "Second", Role.ADMINISTRATOR)
    browser = Browser(app)
    enter(browser, email="ada@acme.example", password=PASSWORD)
    people.disable_person(shell(cast.acme), ada.id)
    assert browser.get("/").status_code == 303
    assert enter(Browser(app), email="ada@acme.example", password=PASSWORD)[0] == 403


def test_a_session_lasts_a_shift(app: Flask, ada: people.PersonRow, monkeypatch: pytest.MonkeyPatch) -> None:
    browser = Browser(app)
    enter(browser, email="ada@acme.example", password=PASSWORD)
    start = clock.now()
    monkeypatch.setattr(clock, "now", lambda: start + 12 * clock.HOUR + clock.SECOND)
    assert browser.get("/").status_code == 303


def test_a_session_token_opens_the_api_for_a_moment(
    app: Flask, ada: people.PersonRow, monkeypatch: pytest.MonkeyPatch
) -> None:
    browser = Browser(app)
    enter(browser, email="ada@acme.example", password=PASSWORD)
    cookie = browser.client.get_cookie(cookies.SESSION)
    assert cookie
    browser.token = cookie.value
    token = browser.send("/account/token", {}).json["access_token"]  # type: ignore[index]
    headers = {"Authorization": f"Bearer {token}", "User-Agent": "tests"}
    stranger = Browser(app)
    assert stranger.get("/api/v1/assets", headers=headers).status_code == 200
    assert stranger.get("/api/v1/orgs/me", headers=headers).status_code == 401
    start = clock.now()
    monkeypatch.setattr(clock, "now", lambda: start + 301 * clock.SECOND)
    assert stranger.get("/api/v1/assets", headers=headers).status_code == 401


class TestOnADevice:
    @pytest.fixture
    def handheld(self, app: Flask, cast: Cast, ada: people.PersonRow) -> Browser:
        _, code = devices.invite(shell(cast.acme), "Gun 1")
        enrolled = devices.enrol(code)
        assert enrolled
        browser = Browser(app)
        browser.carry(enrolled[1])
        return browser

    def add(self, cast: Cast, role: Role, *, pin: str = "", badge: str = "") -> people.PersonRow:
        return people.add_person(
            shell(cast.acme),
            f"{role} of the test",
            role,
            pin_hash=passwords.hash_pin(pin, role) if pin else None,
            badge_hash=passwords.hash_badge(badge) if badge else None,
        )

    def test_a_badge_signs_an_operator_in(self, cast: Cast, handheld: Browser) -> None:
        self.add(cast, Role.OPERATOR, badge="B-77")
        assert enter(handheld, badge="B-77")[0] == 303

    def test_a_name_signs_an_operator_in(self, cast: Cast, handheld: Browser) -> None:
        person = self.add(cast, Role.OPERATOR)
        assert enter(handheld, person=person.id)[0] == 303

    @pytest.mark.parametrize("role", [Role.OPERATOR, Role.EDITOR])
    def test_a_badge_never_bypasses_a_pin(self, cast: Cast, handheld: Browser, role: Role) -> None:
        self.add(cast, role, pin="471104", badge="B-77")
        assert enter(handheld, badge="B-77") == (200, "")
        assert enter(handheld, badge="B-77", pin="0000") == (403, "")
        assert enter(handheld, badge="B-77", pin="471104")[0] == 303

    def test_an_editor_always_needs_a_pin(self, cast: Cast, handheld: Browser) -> None:
        self.add(cast, Role.EDITOR, badge="B-77")
        assert enter(handheld, badge="B-77")[0] == 403

    def test_an_administrator_needs_the_password(self, cast: Cast, handheld: Browser) -> None:
        self.add(cast, Role.ADMINISTRATOR, badge="B-77", pin="471104")
        assert enter(handheld, badge="B-77", pin="471104")[0] == 403

    def test_a_site_can_require_pins(self, app: Flask, cast: Cast, handheld: Browser) -> None:
        change(app, pages_pin_required=True)
        self.add(cast, Role.OPERATOR, badge="B-77")
        assert enter(handheld, badge="B-77")[0] == 403

    def test_pins_are_throttled(self, cast: Cast, handheld: Browser) -> None:
        self.add(cast, Role.OPERATOR, pin="4711", badge="B-77")
        statuses = [enter(handheld, badge="B-77", pin=f"{guess:04}")[0] for guess in range(11)]
        assert statuses == [403] * 10 + [429]

    def test_a_badge_opens_nothing_elsewhere(self, app: Flask, cast: Cast) -> None:
        self.add(cast, Role.OPERATOR, badge="B-77")
        assert enter(Browser(app), badge="B-77")[0] == 403

    def test_a_badge_of_another_organization_does_not_sign_in(self, cast: Cast, handheld: Browser) -> None:
        people.add_person(shell(cast.rival), "Spy", Role.OPERATOR, badge_hash=passwords.hash_badge("B-77"))
        assert enter(handheld, badge="B-77")[0] == 403

    def test_a_link_enrolls_one_device_only(self, cast: Cast, ada: people.PersonRow) -> None:
        _, code = devices.invite(shell(cast.acme), "Gun 2")
        assert devices.enrol(code)
        assert devices.enrol(code) is None


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    moments = [1_800_000_000 * clock.SECOND]
    monkeypatch.setattr(clock, "now", lambda: moments[0])
    return moments


FIREFOX = "Mozilla/5.0 (Android 14; Mobile; rv:130.0) Gecko/130.0 Firefox/130.0"
EDGE = "Mozilla/5.0 (Windows NT 10.0; Win64) AppleWebKit/537.36 Chrome/128.0 Safari/537.36 Edg/128.0"


def signed_in(app: Flask, agent: str) -> Browser:
    browser = Browser(app)
    _, header = enter(browser, agent, email="ada@acme.example", password=PASSWORD)
    browser.token = header.partition("edge_session=")[2].partition(";")[0]
    assert browser.get("/account").status_code == 200
    return browser


def test_a_person_sees_and_ends_their_sessions(app: Flask, ada: people.PersonRow) -> None:
    phone, office, third = (signed_in(app, agent) for agent in (FIREFOX, EDGE, ""))
    shown = office.get("/account").text
    assert "Firefox, Android" in shown
    assert "Edge, Windows" in shown
    assert shown.count("this one") == 1
    (ref,) = execute("SELECT ref FROM web_session WHERE browser = 'Firefox, Android'").fetchone()
    assert office.post("/account/sessions/end", {"ref": ref}).status_code == 303
    assert [one.get("/account").status_code for one in (phone, office, third)] == [303, 200, 200]
    assert office.post("/account/sessions/end").status_code == 303
    assert [one.get("/account").status_code for one in (office, third)] == [200, 303]


def test_nobody_ends_sessions_of_others(app: Flask, ada: people.PersonRow, sign_in_as: SignIn) -> None:
    own, viewer = signed_in(app, FIREFOX), sign_in_as(Role.VIEWER)
    (ref,) = execute("SELECT ref FROM web_session WHERE browser <> ''").fetchone()
    for form in ({"ref": ref}, {}):
        assert viewer.post("/account/sessions/end", form).status_code == 303
    assert own.get("/account").status_code == 200


def test_a_session_without_use_ends_also_if_its_page_asks_for_news(
    app: Flask, ada: people.PersonRow, time: list[int]
) -> None:
    sessions.use_idle_minutes(60)
    try:
        used, polled = signed_in(app, FIREFOX), signed_in(app, EDGE)
        for _ in range(7):
            time[0] += 10 * 60 * clock.SECOND
            assert used.get("/").status_code == 200
            last = polled.client.get("/", headers={"X-Edge-Polled": "1"})
        assert last.status_code == 303
        assert used.get("/").status_code == 200
    finally:
        sessions.use_idle_minutes(0)


def test_an_enrolled_device_works_without_use_for_its_whole_shift(cast: Cast, time: list[int]) -> None:
    sessions.use_idle_minutes(60)
    try:
        olga = people.add_person(shell(cast.acme), "Olga", Role.OPERATOR)
        enrolled = devices.enrol(devices.invite(shell(cast.acme), "Handheld 1")[1])
        assert enrolled
        gun = actors.person(cast.acme, olga.id, "Olga", enrolled[0].id, "Handheld 1")
        sessions.add_session(gun, b"gun", time[0] + 12 * clock.HOUR)
        time[0] += 11 * clock.HOUR
        assert sessions.find_session(b"gun")
    finally:
        sessions.use_idle_minutes(0)


def test_the_oldest_of_very_many_sessions_ends(ada: people.PersonRow, time: list[int]) -> None:
    actor = actors.person(ada.organization_id, ada.id, ada.name)
    for number in range(sessions.MOST_OF_PERSON + 2):
        time[0] += 1
        sessions.add_session(actor, b"%d" % number, time[0] + clock.HOUR)
    assert len(sessions.list_sessions(ada.organization_id, ada.id)) == sessions.MOST_OF_PERSON
    assert sessions.find_session(b"0") is None
