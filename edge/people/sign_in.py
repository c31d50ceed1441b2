"""Sign-in to the web app: by password on any browser, by badge or name on an enrolled device.

People with a second factor enter a code after the password; see `second_factor`.
"""

from __future__ import annotations

from hashlib import sha256
from threading import BoundedSemaphore
from typing import NamedTuple

from edge import clock
from edge.audit import actors
from edge.audit.actors import Actor
from edge.errors import SetupError
from edge.people import (
    known_browsers,
    organizations,
    passwords,
    people,
    pin_lockout,
    second_factor,
    second_factors,
    sessions,
)
from edge.people.devices import DeviceRow
from edge.people.people import PersonRow, Role
from edge.people.secrets import hash_secret, new_token
from edge.rate_limits import Buckets, client_network
from edge.texts import N_

# Limits of wrong attempts by account and by client. A client is a network or an enrolled device, and the count of an
# account is kept per client, so attackers on other networks cannot lock out its owner.
_by_account = Buckets(burst=10, per_second=1 / 60)
_by_client = Buckets(burst=60, per_second=1 / 10)
# Of an account over all networks: a program on this box can name any address, as the proxy does.
_by_account_anywhere = Buckets(burst=300, per_second=300 / 86_400)
# Wrong PINs on a handheld, for all people together. Without this limit, a thief could lock everybody's PINs.
_pins_of_device = Buckets(burst=40, per_second=40 / 86_400)
# Each sign-in on a shared handheld leaves a row for years, so nobody may sign in and out in a loop.
_sign_ins_of_device = Buckets(burst=200, per_second=1 / 30)
_V4_BITS = 24

_MAX_EMAIL = 255  # characters; limits the memory of the counters

_running_checks = BoundedSemaphore(2)  # each scrypt check needs 32 MB
_MAX_COMPARED = 4  # hashes per sign-in, if an email has accounts in several organizations


class SignIn(NamedTuple):
    """A new session. `token` is the value of the cookie and is not stored."""

    token: str
    person: PersonRow
    expires_at: int
    ref: str  # for scripts of the browser, see `sessions.person_at`
    proof: str = ""  # value of another cookie, see `known_browsers`


class Refused(NamedTuple):
    """A refused sign-in.

    `wait_seconds` is set after too many wrong attempts, `is_pin_missing` if only the PIN of `name` is missing.
    `challenge` is set if only the code of the second factor is missing; pass it to `enter_code`.
    """

    reason: str
    wait_seconds: int = 0
    is_pin_missing: bool = False
    name: str = ""
    challenge: str = ""


WRONG_PASSWORD = N_("Wrong email or password")
WRONG_BADGE = N_("This badge or name cannot sign in here")
WRONG_PIN = N_("Wrong PIN")
NOT_A_PIN = N_("This is not a PIN, and does not count as a wrong one")  # such as a scan
NO_PIN = N_("A PIN is required and you have none. Ask an administrator")
TOO_MANY = N_("Too many failed attempts")
TOO_OFTEN = N_("Too many sign-ins on this device in a short time")
WRONG_CODE = N_("This code is wrong or already used")
WRONG_RECOVERY_CODE = N_("This recovery code is wrong or already used")
TOO_LATE = N_("The sign-in timed out. Sign in again")
NO_SECRET = N_("Codes from your app no longer work because the server was restored from a backup. Use a recovery code")


class Attempts(NamedTuple):
    """Rate limit keys of one account: with the client, of the client, and of the account alone.

    The last two are None for a browser with a proof, which has its own limit.
    """

    account: str
    client: str | None
    anywhere: str | None = None

    def limits(self) -> list[tuple[Buckets, str]]:
        limits = (_by_account, self.account), (_by_client, self.client), (_by_account_anywhere, self.anywhere)
        return [(buckets, key) for buckets, key in limits if key]

    def wait_seconds(self) -> int:
        return max(buckets.look(key).retry_after for buckets, key in self.limits())

    def count_wrong(self) -> None:
        for buckets, key in self.limits():
            buckets.take(key)

    def forgive(self) -> None:
        _by_account.fill(self.account)


def sign_in(
    email: str,
    password: str,
    *,
    address: str,
    hours: int,
    browser: str = "",
    proof: str = "",
    device: DeviceRow | None = None,
) -> SignIn | Refused:
    """Sign in by password. Neither the result nor its time reveals whether the account exists.

    An email can have accounts in several organizations; the password selects one of them. Wrong attempts are counted
    for each account, so the owner of one account gets no free guesses at the others.
    """
    known = people.find_by_email(email.strip())
    client = _client(address, device)
    attempts = {person.id: _attempts(person, client, proof) for person in known}
    unknown = Attempts(f"email:{email.strip().lower()[:_MAX_EMAIL]} {client}", client)
    waits = [attempt.wait_seconds() for attempt in attempts.values() or [unknown]]
    unlocked = [person for person in known if not attempts[person.id].wait_seconds()]
    if all(waits):
        return Refused(TOO_MANY, max(waits))
    person = _match_password(unlocked, password)
    others = [other for other in unlocked if other is not person]
    if person is None:
        _count_refused(others, address, [attempts[other.id] for other in others] or [unknown])
        return Refused(TOO_MANY, max(waits)) if any(waits) else Refused(WRONG_PASSWORD)
    for other in others:
        _by_account.take(attempts[other.id].account)
    if second_factors.find(person.organization_id, person.id):
        return Refused("", challenge=second_factor.new_challenge(person))
    attempts[person.id].forgive()
    return _begin_with_proof(person, hours, browser)


def enter_code(
    challenge: str,
    code: str,
    recovery_code: str,
    *,
    address: str,
    hours: int,
    browser: str = "",
    proof: str,
    device: DeviceRow | None,
) -> SignIn | Refused:
    """Complete a sign-in with a code of the app or a recovery code.

    A wrong code counts as a wrong password. Codes have an additional limit per account across all networks, because
    an attacker at this step already has the password and there are only 10^6 codes. A known browser has its own limit.
    """
    person = second_factor.verify_challenge(challenge)
    if person is None:
        return Refused(TOO_LATE)
    attempts = _attempts(person, _client(address, device), proof)
    guesses = f"code:{person.id}" if attempts.client else f"code:{attempts.account}"
    wait = attempts.wait_seconds()
    guess = _by_account.take(guesses)  # before the comparison, because requests may run in parallel
    if wait or not guess.allowed:
        return Refused(TOO_MANY, max(wait, guess.retry_after), challenge=challenge)
    error = _check_code(person, code, recovery_code)
    if error:
        sessions.refuse(person, None, address)
        attempts.count_wrong()
        return Refused(error, challenge=challenge)
    attempts.forgive()
    _by_account.fill(guesses)
    return _begin_with_proof(person, hours, browser)


def check_own_code(person: PersonRow, code: str, recovery_code: str, *, address: str) -> str:
    """Check the code of a person who removes their own second factor. Rate-limited like a sign-in.

    Returns the error message, or "" if the code is accepted.
    """
    guesses = f"own code:{person.id}"
    if not _by_account.take(guesses).allowed:
        return TOO_MANY
    error = _check_code(person, code, recovery_code)
    if error:
        sessions.refuse(person, None, address)
    else:
        _by_account.fill(guesses)
    return error


def _check_code(person: PersonRow, code: str, recovery_code: str) -> str:
    """Return the error message, or "" if the code or recovery code is accepted."""
    if recovery_code:
        actor = actors.person(person.organization_id, person.id, person.name)
        return "" if second_factor.accepts_recovery_code(actor, recovery_code) else WRONG_RECOVERY_CODE
    try:
        return "" if second_factor.accepts_code(person, code) else WRONG_CODE
    except SetupError:
        return NO_SECRET


def _count_refused(compared: list[PersonRow], address: str, attempts: list[Attempts]) -> None:
    for person in compared:
        sessions.refuse(person, None, address)
    if not compared:
        sessions.refuse(None, None, address)
    for buckets, key in {limit for attempt in attempts for limit in attempt.limits()}:
        buckets.take(key)


def _match_password(compared: list[PersonRow], password: str) -> PersonRow | None:
    """Return the person with this password, or None.

    Dummy hashes fill the list up to the number of accounts that an email can have, to hide that number from timing.
    """
    min_count = min(len(organizations.list_organizations()), _MAX_COMPARED)
    stored = [person.password_hash for person in compared]
    matches = [_matches(one, password) for one in [*stored, *[None] * (min_count - len(stored))]]
    return next((person for person, is_match in zip(compared, matches, strict=False) if is_match), None)


def _attempts(person: PersonRow, client: str, proof: str) -> Attempts:
    browser = known_browsers.limit_key(proof, person)
    if browser:
        return Attempts(browser, None)
    return Attempts(f"account:{person.id} {client}", client, f"account:{person.id}")


def _client(address: str, device: DeviceRow | None) -> str:
    """Return the rate limit key of a client: the enrolled device, or the network of the address."""
    return f"device:{device.id}" if device else client_network(address, v4_bits=_V4_BITS)


def sign_in_on_device(
    device: DeviceRow,
    *,
    badge: str = "",
    person_id: int = 0,
    pin: str = "",
    is_pin_required: bool,
    address: str,
    hours: int,
    browser: str = "",
) -> SignIn | Refused:
    """Sign in by badge or by name on an enrolled device.

    A PIN is required if the setting demands it, if the person has one, and always from editors. Administrators must use
    their password. A badge never replaces a PIN.
    """
    client = _client(address, device)
    guesses = Attempts(f"badge:{device.id}", client)
    person = _on_device(device.organization_id, badge, person_id)
    attempts = Attempts(f"device:{device.id}:{person.id}", client) if person else guesses
    wait = max(attempts.wait_seconds(), guesses.wait_seconds() if badge else 0)  # valid badges are limited, too
    if wait:
        return Refused(TOO_MANY, wait)
    if person is None or person.role == Role.ADMINISTRATOR:
        sessions.refuse(person, device, address)
        attempts.count_wrong()
        return Refused(WRONG_BADGE)
    if is_pin_required or person.pin_hash or person.role == Role.EDITOR:
        if person.pin_hash is None:
            return Refused(NO_PIN)
        if pin_lockout.is_pin_locked(person):
            return Refused(pin_lockout.PIN_LOCKED)
        if not pin:
            return Refused("", is_pin_missing=True, name=person.name)
        if not passwords.is_pin(pin):
            return Refused(NOT_A_PIN, is_pin_missing=True, name=person.name)
        pins = _pins_of_device.look(str(device.id))
        if pins.retry_after:
            return Refused(TOO_MANY, pins.retry_after)
        if not _matches(person.pin_hash, pin):
            _pins_of_device.take(str(device.id))
            sessions.refuse(person, device, address, is_wrong_pin=True)
            attempts.count_wrong()
            return Refused(WRONG_PIN, is_pin_missing=True, name=person.name)
    room = _sign_ins_of_device.take(str(device.id))
    if not room.allowed:
        return Refused(TOO_OFTEN, room.retry_after)
    attempts.forgive()
    if badge:
        people.set_badge_mark(person, passwords.badge_mark(badge))
    actor = actors.person(person.organization_id, person.id, person.name, device.id, device.name)
    return _begin(actor, person, hours, browser)


def is_own_password(person: PersonRow, password: str, *, address: str) -> bool:
    """Check the current password of a person who changes it. Rate-limited like a sign-in."""
    attempts = Attempts(f"own:{person.id}", client_network(address, v4_bits=_V4_BITS))
    if attempts.wait_seconds():
        return False
    if _matches(person.password_hash, password):
        return True
    sessions.refuse(person, None, address)
    attempts.count_wrong()
    return False


def find(token: str) -> sessions.SessionRow | None:
    """Return the session of a cookie, or None if it is not valid."""
    return sessions.find_session(hash_secret(token))


def sign_out(token: str) -> None:
    """End the session of a cookie. Does nothing if there is none."""
    session = find(token)
    if session is not None:
        sessions.end_session(sessions.actor_of(session), hash_secret(token))


def csrf_token(cookie: str) -> str:
    """Return the CSRF token of forms for the browser with this cookie."""
    return sha256(b"form:" + cookie.encode("utf-8", "surrogatepass")).hexdigest()


def _on_device(organization_id: int, badge: str, person_id: int) -> PersonRow | None:
    if badge:
        return people.find_by_badge(organization_id, passwords.hash_badge(badge))
    person = people.find_person(organization_id, person_id)
    return person if person and person.disabled_at is None else None


def _begin_with_proof(person: PersonRow, hours: int, browser: str) -> SignIn:
    sign_in = _begin(actors.person(person.organization_id, person.id, person.name), person, hours, browser)
    return sign_in._replace(proof=known_browsers.new_proof(person))


def _begin(actor: Actor, person: PersonRow, hours: int, browser: str) -> SignIn:
    token, expires_at = new_token(), clock.now() + hours * clock.HOUR
    ref = sessions.add_session(actor, hash_secret(token), expires_at, browser)
    return SignIn(token, person, expires_at, ref)


def _matches(stored: str | None, password: str) -> bool:
    with _running_checks:
        return passwords.matches(stored, password)
