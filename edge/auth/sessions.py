"""Signing in to the web app: by password anywhere, by badge or name on an enrolled device."""

from __future__ import annotations

from hashlib import sha256
from threading import BoundedSemaphore
from typing import NamedTuple

from edge import clock
from edge.addresses import network_of
from edge.auth import badges, known_browsers, passwords
from edge.auth.secrets import hash_secret, new_token
from edge.buckets import Buckets
from edge.store import actors, organizations, people, sessions
from edge.store.actors import Actor
from edge.store.devices import DeviceRow
from edge.store.people import PersonRow, Role
from edge.texts import N_

# How many wrong attempts are allowed in a row, and how soon another one is. An account is counted separately for each
# network, so that nobody can lock its owner out from elsewhere.
_by_account = Buckets(burst=10, per_second=1 / 60)
_by_network = Buckets(burst=60, per_second=1 / 10)
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
    proof: str = ""  # for the browser to keep, see `known_browsers`


class Refused(NamedTuple):
    """`wait_seconds` is set after too many wrong attempts; `needs_pin` if only the PIN of `name` is missing."""

    reason: str
    wait_seconds: int = 0
    needs_pin: bool = False
    name: str = ""


WRONG_PASSWORD = N_("Email and password do not match an account")
WRONG_BADGE = N_("This badge or name cannot sign in here")
WRONG_PIN = N_("That PIN is not right")
NO_PIN = N_("A PIN is required here and none is set for you. Ask an administrator")
PIN_LOCKED = N_("This PIN was wrong too often. Ask an administrator for a new one")
TOO_MANY = N_("Too many wrong attempts")


class Attempts(NamedTuple):
    """The keys by which one attempt is counted. A browser with a proof is counted on its own."""

    account: str
    network: str | None

    def wait_seconds(self) -> int:
        network = _by_network.look(self.network).retry_after if self.network else 0
        return max(_by_account.look(self.account).retry_after, network)

    def count_wrong(self) -> None:
        _by_account.take(self.account)
        if self.network:
            _by_network.take(self.network)

    def forgive(self) -> None:
        _by_account.fill(self.account)


def sign_in(email: str, password: str, *, address: str, hours: int, proof: str = "") -> SignIn | Refused:
    """The answer, and the time it takes, are the same whether the account exists or not.

    An email can have accounts in several organizations, which are told apart by their passwords.
    """
    known = people.with_email(email.strip())
    attempts = _attempts(email, known, address, proof)
    wait = attempts.wait_seconds()
    if wait:
        return Refused(TOO_MANY, wait)
    person = _whose_password(known, password)
    if person is None:
        for refused in known:
            sessions.refuse(refused, None, address)
        if not known:
            sessions.refuse(None, None, address)
        attempts.count_wrong()
        return Refused(WRONG_PASSWORD)
    attempts.forgive()
    begun = _begin(actors.person(person.organization_id, person.id, person.name), person, hours)
    return begun._replace(proof=known_browsers.new_proof(person.id))


def _whose_password(known: list[PersonRow], password: str) -> PersonRow | None:
    """Compares as many hashes as anybody on this box could have, or the time would reveal who has more than one."""
    at_least = min(len(organizations.list_organizations()), _MOST_COMPARED)
    stored = [person.password_hash for person in known]
    fits = [_matches(one, password) for one in [*stored, *[None] * (at_least - len(stored))]]
    return next((person for person, fit in zip(known, fits, strict=False) if fit), None)


def _attempts(email: str, known: list[PersonRow], address: str, proof: str) -> Attempts:
    for person in known:
        browser = known_browsers.account_of(proof, person.id)
        if browser:
            return Attempts(browser, None)
    network = network_of(address, v4_bits=_V4_BITS)
    return Attempts(f"email:{email.strip().lower()[:_LONGEST_EMAIL]} {network}", network)


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
    network = network_of(address, v4_bits=_V4_BITS)
    guesses = Attempts(f"badge:{device.id}", network)
    person = _on_device(device.organization_id, badge, person_id)
    attempts = Attempts(f"device:{device.id}:{person.id}", network) if person else guesses
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
    actor = actors.person(person.organization_id, person.id, person.name, device.id, device.name)
    return _begin(actor, person, hours)


def is_password_of(person: PersonRow, password: str, *, address: str) -> bool:
    """For changing one's own password; throttled like a sign-in."""
    attempts = Attempts(f"own:{person.id}", network_of(address, v4_bits=_V4_BITS))
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
        return people.find_by_badge(organization_id, badges.hash_badge(badge))
    person = people.find_person(organization_id, person_id)
    return person if person and person.disabled_at is None else None


def _begin(actor: Actor, person: PersonRow, hours: int) -> SignIn:
    token, expires_at = new_token(), clock.now() + hours * clock.HOUR
    sessions.add_session(actor, hash_secret(token), expires_at)
    return SignIn(token, person, expires_at)


def _matches(stored: str | None, given: str) -> bool:
    with _checks_at_once:
        return passwords.matches(stored, given)
