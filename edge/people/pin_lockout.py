"""PIN lockout: after too many wrong PINs, a PIN is refused until it is replaced (see `people.update_person`).

Wrong attempts add up over days and devices. The rate limit of `sign_in` comes in addition.
"""

from __future__ import annotations

from edge.audit.audit import Act
from edge.database.connection import execute
from edge.people import people
from edge.people.people import PersonRow
from edge.texts import N_

MAX_WRONG_PINS = 20
PIN_LOCKED = N_("Too many wrong PINs. Ask an administrator for a new one")


def is_pin_locked(person: PersonRow) -> bool:
    """True after MAX_WRONG_PINS wrong attempts, until the PIN is replaced."""
    return person.wrong_pins >= MAX_WRONG_PINS


def count_wrong_pin(act: Act, person: PersonRow) -> None:
    """Count a wrong PIN in the database, so parallel attempts all count. Audits the attempt that locks the PIN."""
    count = "UPDATE person SET wrong_pins = wrong_pins + 1 WHERE id = ? RETURNING wrong_pins"
    if execute(count, (person.id,)).fetchone()[0] == MAX_WRONG_PINS:
        act.note("person.pin_locked", people.subject_of(person))
