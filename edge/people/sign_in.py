"""Signing in to the web app: by password anywhere, by badge or name on an enrolled device.

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
from edge.limits import Buckets, client_network
from edge.people import known_browsers, organizations, passwords, people, second_factor, second_factors, sessions
from edge.people.devices import DeviceRow
from edge.people.people import PersonRow, Role
from edge.people.secrets import hash_secret, new_token
from edge.texts import N_

# Wrong attempts in a row, and how soon the next one is allowed. They are counted for each account and for each client.
# A client is a network or an enrolled device, so neither a neighbor nor somebody elsewhere can lock an owner out.
_by_account = Buckets(burst=10, per_second=1 / 60)
_by_client = Buckets(burst=60, per_second=1 / 10)
_V4_BITS = 24

_LONGEST_EMAIL = 255  # the key of a counter stays in memory, so its length must be limited

# Each check takes 32 MB for a moment (scrypt), and the box is small.
_checks_at_once = BoundedSemaphore(2)
_MOST_COMPARED = 4  # hashes for one sign-in, in case an email has accounts in several organizations


class SignIn(NamedTuple):
    """A new session; `token` goes into the cookie and is stored nowhere."""

    token: str
    person: PersonRow
    expires_at: int
    ref: str  # for scripts of the browser, see `people.sessions.made_by`
    proof: str = ""  # for the browser to keep, see `known_browsers`


class Refused(NamedTuple):
    """`wait_seconds` is set after too many wrong attempts; `needs_pin` if only the PIN of `name` is missing."""

    reason: str
    wait_seconds: int = 0
    needs_pin: bool = False
    name: str = ""
    challenge: str = ""  # set if only the code of the second factor is missing: goes along with it, see `enter_code`


WRONG_PASSWORD = N_("Email and password do not match an account")
WRONG_BADGE = N_("This badge or name cannot sign in here")
WRONG_PIN = N_("That PIN is not right")
NO_PIN = N_("A PIN is required here and none is set for you. Ask an administrator")
PIN_LOCKED = N_("This PIN was wrong too often. Ask an administrator for a new one")
TOO_MANY = N_("Too many wrong attempts")
WRONG_CODE = N_("This code is wrong or was used before")
WRONG_RECOVERY_CODE = N_("This recovery code is wrong or was used before")
TOO_LATE = N_("Entering the code took too long. Sign in again")
NO_SECRET = N_("Codes of your app do not work since the server was restored from a backup. Use a recovery code")


class Attempts(NamedTuple):
    """The keys that an attempt at one account counts against; a browser with a proof is counted on its own."""

    account: str
    client: str | None

    def wait_seconds(self) -> int:
        client = _by_client.look(self.client).retry_after if self.client else 0
        return max(_by_account.look(self.account).retry_after, client)

    def count_wrong(self) -> None:
        _by_account.take(self.account)
        if self.client:
            _by_client.take(self.client)

    def forgive(self) -> None:
        _by_account.fill(self.account)


def sign_in(
    email: str, password: str, *, address: str, hours: int, proof: str = "", device: DeviceRow | None = None
) -> SignIn | Refused:
    """Sign in by password; neither the answer nor its time reveals whether the account exists.

    An email can have an account in several organizations, and the password decides which one is meant. Each account
    counts its own wrong attempts, so the owner of one gets no free guesses at the others.
    """
    known = people.with_email(email.strip())
    client = _client(address, device)
    attempts = {person.id: _attempts(person, client, proof) for person in known}
    unknown = Attempts(f"email:{email.strip().lower()[:_LONGEST_EMAIL]} {client}", client)
    waits = [attempt.wait_seconds() for attempt in attempts.values() or [unknown]]
    compared = [person for person in known if not attempts[person.id].wait_seconds()]
    if all(waits):
        return Refused(TOO_MANY, max(waits))
    person = _whose_password(compared, password)
    others = [other for other in compared if other is not person]
    if person is None:
        _count_refused(others, address, [attempts[other.id] for other in others] or [unknown])
        return Refused(TOO_MANY, max(waits)) if any(waits) else Refused(WRONG_PASSWORD)
    for other in others:
        _by_account.take(attempts[other.id].account)
    if second_factors.find(person.organization_id, person.id):
        return Refused("", challenge=second_factor.new_challenge(person))
    attempts[person.id].forgive()
    return _begin_with_proof(person, hours)


def enter_code(
    challenge: str, code: str, recovery_code: str, *, address: str, hours: int, proof: str, device: DeviceRow | None
) -> SignIn | Refused:
    """Sign in by the second factor, after the password was right: by a code of the app, or by a recovery code.

    A wrong code counts like a wrong password. Codes are also counted for each account over all networks: an attacker
    who tries them already has the password, and six digits are few. A browser that the person has used to sign in
    before has its own count.
    """
    person = second_factor.challenged(challenge)
    if person is None:
        return Refused(TOO_LATE)
    attempts = _attempts(person, _client(address, device), proof)
    guesses = f"code:{person.id}" if attempts.client else f"code:{attempts.account}"
    wait = attempts.wait_seconds()
    guess = _by_account.take(guesses)  # counted before it is compared, since many may come at once
    if wait or not guess.allowed:
        return Refused(TOO_MANY, max(wait, guess.retry_after), challenge=challenge)
    wrong = _fault_of_code(person, code, recovery_code)
    if wrong:
        sessions.refuse(person, None, address)
        attempts.count_wrong()
        return Refused(wrong, challenge=challenge)
    attempts.forgive()
    _by_account.fill(guesses)
    return _begin_with_proof(person, hours)


def fault_of_own_code(person: PersonRow, code: str, recovery_code: str, *, address: str) -> str:
    """Return why a code does not let the person remove the second factor, "" if it does; throttled like a sign-in."""
    guesses = f"own code:{person.id}"
    if not _by_account.take(guesses).allowed:
        return TOO_MANY
    fault = _fault_of_code(person, code, recovery_code)
    if fault:
        sessions.refuse(person, None, address)
    else:
        _by_account.fill(guesses)
    return fault


def _fault_of_code(person: PersonRow, code: str, recovery_code: str) -> str:
    """Return why neither is accepted, "" if one is."""
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
    for account in {attempt.account for attempt in attempts}:
        _by_account.take(account)
    for client in {attempt.client for attempt in attempts if attempt.client}:
        _by_client.take(client)


def _whose_password(compared: list[PersonRow], password: str) -> PersonRow | None:
    """Compare as many hashes as an email on this box can have; otherwise the time would reveal their number."""
    at_least = min(len(organizations.list_organizations()), _MOST_COMPARED)
    stored = [person.password_hash for person in compared]
    fits = [_matches(one, password) for one in [*stored, *[None] * (at_least - len(stored))]]
    return next((person for person, fit in zip(compared, fits, strict=False) if fit), None)


def _attempts(person: PersonRow, client: str, proof: str) -> Attempts:
    browser = known_browsers.account_of(proof, person.id)
    return Attempts(browser, None) if browser else Attempts(f"account:{person.id} {client}", client)


def _client(address: str, device: DeviceRow | None) -> str:
    """Return the key of a client: an enrolled device has attempts of its own, other browsers share their network's."""
    return f"device:{device.id}" if device else client_network(address, v4_bits=_V4_BITS)


def sign_in_on_device(
    device: DeviceRow,
    *,
    badge: str = "",
    person_id: int = 0,
    pin: str = "",
    pin_required: bool,
    address: str,
    hours: int,
) -> SignIn | Refused:
    """By badge or by name.

    A PIN is required where the site says so, of everybody who has one, and always of editors; administrators use their
    password. A badge never replaces a PIN.
    """
    client = _client(address, device)
    guesses = Attempts(f"badge:{device.id}", client)
    person = _on_device(device.organization_id, badge, person_id)
    attempts = Attempts(f"device:{device.id}:{person.id}", client) if person else guesses
    wait = max(attempts.wait_seconds(), guesses.wait_seconds() if badge else 0)  # a known badge has to wait, too
    if wait:
        return Refused(TOO_MANY, wait)
    if person is None or person.role == Role.ADMINISTRATOR:
        sessions.refuse(person, device, address)
        attempts.count_wrong()
        return Refused(WRONG_BADGE)
    if pin_required or person.pin_hash or person.role == Role.EDITOR:
        if person.pin_hash is None:
            return Refused(NO_PIN)
        if people.is_pin_locked(person):
            return Refused(PIN_LOCKED)
        if not pin:
            return Refused("", needs_pin=True, name=person.name)
        if not _matches(person.pin_hash, pin):
            sessions.refuse(person, device, address, is_wrong_pin=True)
            attempts.count_wrong()
            return Refused(WRONG_PIN, needs_pin=True, name=person.name)
    attempts.forgive()
    if badge:
        people.set_badge_mark(person, passwords.mark(badge))
    actor = actors.person(person.organization_id, person.id, person.name, device.id, device.name)
    return _begin(actor, person, hours)


def is_password_of(person: PersonRow, password: str, *, address: str) -> bool:
    """For changing one's own password; throttled like a sign-in."""
    attempts = Attempts(f"own:{person.id}", client_network(address, v4_bits=_V4_BITS))
    if attempts.wait_seconds():
        return False
    if _matches(person.password_hash, password):
        return True
    sessions.refuse(person, None, address)
    attempts.count_wrong()
    return False


def find(token: str) -> sessions.SessionRow | None:
    return sessions.find_session(hash_secret(token))


def sign_out(token: str) -> None:
    """Does nothing for a token without a session."""
    found = find(token)
    if found is not None:
        sessions.end_session(sessions.actor_of(found), hash_secret(token))


def csrf_token(cookie: str) -> str:
    """What proves, in every form, that it was made for the browser that holds `cookie`."""
    return sha256(b"form:" + cookie.encode("utf-8", "surrogatepass")).hexdigest()


def _on_device(organization_id: int, badge: str, person_id: int) -> PersonRow | None:
    if badge:
        return people.find_by_badge(organization_id, passwords.hash_badge(badge))
    person = people.find_person(organization_id, person_id)
    return person if person and person.disabled_at is None else None


def _begin_with_proof(person: PersonRow, hours: int) -> SignIn:
    begun = _begin(actors.person(person.organization_id, person.id, person.name), person, hours)
    return begun._replace(proof=known_browsers.new_proof(person.id))


def _begin(actor: Actor, person: PersonRow, hours: int) -> SignIn:
    token, expires_at = new_token(), clock.now() + hours * clock.HOUR
    ref = sessions.add_session(actor, hash_secret(token), expires_at)
    return SignIn(token, person, expires_at, ref)


def _matches(stored: str | None, given: str) -> bool:
    with _checks_at_once:
        return passwords.matches(stored, given)
