"""The conditions of rules, each declared once: its choice in the form, sentences, fields and subject.

How a condition is evaluated is in `states.SWEEPS` and `engine`, its past alerts in `rule_preview`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

from edge.texts import N_

MOST_ASSETS = 1_000_000


class Condition(StrEnum):
    ENTERS = "enters"
    LEAVES = "leaves"
    PASSES = "passes"
    STAYS = "stays"  # longer than `span`
    UNSEEN = "unseen"  # for `span`
    MORE = "more"  # assets than `number`
    FEWER = "fewer"
    OFFLINE = "offline"
    BATTERY = "battery"  # of a tag is at most `number` percent
    UNHEALTHY = "unhealthy"  # the box, for `span`


class AssetKind(StrEnum):
    ALL = "all"
    KEY = "key"
    METADATA = "metadata"


class Subject(NamedTuple):
    """The subject of an alert: its page, and SQL for name, key and place by its id."""

    page: str
    names: str
    is_for_editors: bool = False


ASSET = Subject("/assets/{}", "SELECT name, external_key, '' FROM asset WHERE id = ?")
ASSET_AT = Subject(
    "/assets/{}",
    "SELECT a.name, a.external_key, ifnull(l.name, '') FROM asset a LEFT JOIN position p ON p.asset_id = a.id "
    "LEFT JOIN location l ON l.id = p.location_id WHERE a.id = ?",
)
LOCATION = Subject("/locations/{}", "SELECT name, external_key, name FROM location WHERE id = ?")
READER = Subject(
    "/readers/{}",
    "SELECT r.name, '', ifnull(l.name, '') FROM reader r LEFT JOIN location l ON l.id = r.location_id WHERE r.id = ?",
    is_for_editors=True,
)
BOX = Subject("/status", "SELECT text, '', '' FROM box_fault WHERE ?1 = 0", is_for_editors=True)

Sentence = Callable[[Any], str]  # of the fields of a rule
ASSETS = frozenset({"asset_kind", "asset_name", "asset_value"})
AT = ASSETS | {"location_id"}


@dataclass(frozen=True)
class Declaration:
    """A condition. All texts are marked for translation.

    `choice`: in the form. `sentence`: of a rule, with asset, place, number, time, name and value. `alert`: with
    subject, place and amount. `uses`: the fields of a rule that it needs. `lasts`: it begins and ends, and may have to
    last for `span`; `is_longer`: not met after exactly that time. `numbers`: least and most.
    """

    choice: str
    sentence: str | Sentence
    alert: str
    uses: frozenset[str]
    subject: Subject = ASSET
    lasts: bool = True
    is_longer: bool = False
    numbers: tuple[int, int] = (0, MOST_ASSETS)


def of_assets(every: str, prefix: str, keys: str, metadata: str) -> Sentence:
    """Return a function that chooses a text by the assets of a rule: all, by key prefix, keys or metadata."""

    def sentence(fields: Any) -> str:
        if fields.asset_kind is AssetKind.KEY:
            return keys if fields.asset_value.startswith("=") else prefix
        return every if fields.asset_kind is AssetKind.ALL else metadata

    return sentence


_PASSES = {
    "any": N_("%(asset)s passes %(place)s"),
    "in": N_("%(asset)s passes %(place)s (in)"),
    "out": N_("%(asset)s passes %(place)s (out)"),
}
CONDITIONS = {
    Condition.ENTERS: Declaration(
        N_("enters a location"),
        N_("%(asset)s enters %(place)s"),
        N_("%(subject)s entered %(place)s"),
        AT,
        lasts=False,
    ),
    Condition.LEAVES: Declaration(
        N_("leaves a location"),
        N_("%(asset)s leaves %(place)s"),
        N_("%(subject)s left %(place)s"),
        AT,
        lasts=False,
    ),
    Condition.PASSES: Declaration(
        N_("passes a door"),
        lambda fields: _PASSES[fields.direction],
        N_("%(subject)s passed %(place)s"),
        ASSETS | {"door_id", "direction"},
        lasts=False,
    ),
    Condition.STAYS: Declaration(
        N_("stays in a location longer than"),
        N_("%(asset)s stays in %(place)s longer than %(time)s"),
        N_("%(subject)s stays in %(place)s too long"),
        AT | {"span"},
        is_longer=True,
    ),
    Condition.UNSEEN: Declaration(
        N_("has not been seen for"),
        N_("%(asset)s has not been seen for %(time)s"),
        N_("%(subject)s has not been seen"),
        ASSETS | {"span"},
        ASSET_AT,
    ),
    Condition.MORE: Declaration(
        N_("of which a location holds more than"),
        of_assets(
            N_("%(place)s holds more than %(number)s assets"),
            N_("%(place)s holds more than %(number)s assets with a key that begins with %(value)s"),
            N_("%(place)s holds more than %(number)s of the assets %(value)s"),
            N_("%(place)s holds more than %(number)s assets with %(name)s %(value)s"),
        ),
        N_("%(place)s holds too many assets: %(amount)s"),
        AT | {"number"},
        LOCATION,
    ),
    Condition.FEWER: Declaration(
        N_("of which a location holds fewer than"),
        of_assets(
            N_("%(place)s holds fewer than %(number)s assets"),
            N_("%(place)s holds fewer than %(number)s assets with a key that begins with %(value)s"),
            N_("%(place)s holds fewer than %(number)s of the assets %(value)s"),
            N_("%(place)s holds fewer than %(number)s assets with %(name)s %(value)s"),
        ),
        N_("%(place)s holds too few assets: %(amount)s"),
        AT | {"number"},
        LOCATION,
        numbers=(1, MOST_ASSETS),
    ),
    Condition.OFFLINE: Declaration(
        N_("A reader is offline"),
        lambda fields: N_("reader %(place)s is offline") if fields.reader_id else N_("any reader is offline"),
        N_("Reader %(subject)s is offline"),
        frozenset({"reader_id"}),
        READER,
    ),
    Condition.BATTERY: Declaration(
        N_("has a low battery, in percent at most"),
        N_("the battery of %(asset)s is at most %(number)s %%"),
        N_("%(subject)s has a low battery: %(amount)s %%"),
        ASSETS | {"number"},
        numbers=(1, 99),
    ),
    Condition.UNHEALTHY: Declaration(
        N_("This box has a fault for longer than"),
        N_("this box has a fault for longer than %(time)s"),
        N_("This box has a fault: %(subject)s"),
        frozenset({"span"}),
        BOX,
        is_longer=True,
    ),
}
OF_NUMBER = frozenset(kind for kind, one in CONDITIONS.items() if one.subject is LOCATION)
