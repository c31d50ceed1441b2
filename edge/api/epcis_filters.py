"""Parameters of the standard's query (SimpleEventQuery) as filters of `edge.epcis.sources`.

Parameters about fields that no event of edge has match nothing, as the standard says. Unknown names are refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from edge.api.epcis_problems import Problem
from edge.epcis.documents import ERROR_REASON
from edge.epcis.names import Names
from edge.epcis.query import Order
from edge.epcis.sources import Query
from edge.validation import times

MOST_VALUES = 100  # of one filter
MOST_EVENTS = 10_000  # in order, or counted
_TIMES = {  # with the fields of the query
    f"{bound}_{name}": f"{field}{end}"
    for name, field in (("eventTime", ""), ("recordTime", "recorded_"), ("errorDeclarationTime", "declared_"))
    for bound, end in (("GE", "since"), ("LT", "until"))
}
_LISTS = (
    *("eventType", "EQ_action", "EQ_bizStep", "EQ_disposition", "EQ_readPoint", "WD_readPoint", "EQ_bizLocation"),
    *("WD_bizLocation", "MATCH_epc", "MATCH_anyEPC", "MATCH_parentID", "EQ_eventID", "EQ_errorReason"),
)
_ORDER = ("orderBy", "orderDirection", "eventCountLimit", "maxEventCount")
PAGING = ("perPage", "nextPageToken")
KNOWN = {*_TIMES, *_LISTS, *_ORDER, *PAGING, "EXISTS_errorDeclaration"}
# About fields that events of edge do not have: sensors, quantities, classes, transformations, documents and others.
_ABSENT = re.compile(
    r"EQ_(?:transformationID|correctiveEventID|persistentDisposition_(?:set|unset)|type|deviceID|dataProcessingMethod"
    r"|microorganism|chemicalSubstance|bizRules|stringValue|hexBinaryValue|uriValue|booleanValue)"
    r"|MATCH_(?:inputEPC|outputEPC|epcClass|inputEPCClass|outputEPCClass|anyEPCClass)"
    r"|(?:EQ|GT|GE|LT|LE)_quantity|(?:GE|LT)_(?:startTime|endTime)"
    r"|EQ_(?:bizTransaction|source|destination)_.{1,200}"
    r"|(?:EQ|GT|GE|LT|LE)_(?:value|minValue|maxValue|meanValue|sDev|percRank|percValue)_.{1,20}"
    r"|(?:EQ|GT|GE|LT|LE|EXISTS)_(?:(?:ILMD|INNER|INNER_ILMD|SENSORELEMENT|SENSORMETADATA|SENSORREPORT"
    r"|INNER_SENSORELEMENT|ERROR_DECLARATION|INNER_ERROR_DECLARATION)_)?[^_].{0,199}[:#].{1,200}"
    r"|(?:EQATTR|HASATTR)_.{1,200}"
)


class Wish(NamedTuple):
    """What is asked for: the filters, the order, and the number of events that are too many."""

    query: Query
    order: Order | None
    most: int | None


def parse(parameters: Mapping[str, str], names: Names) -> Wish:
    """Return what the parameters ask for. Raises Problem."""
    _check_names(parameters)
    query = _query(parameters, names)
    if any(_ABSENT.fullmatch(name) for name in parameters):
        query = query._replace(types=frozenset())
    return Wish(query, _order(parameters), number(parameters, "maxEventCount"))


def _check_names(parameters: Mapping[str, str]) -> None:
    for name in parameters:
        if name not in KNOWN and not _ABSENT.fullmatch(name):
            raise Problem.parameter(f"Unknown parameter {name[:100]}; known ones: {', '.join(sorted(KNOWN))}")


def _query(parameters: Mapping[str, str], names: Names) -> Query:
    values = {name: _values(parameters, name) for name in _LISTS}
    moments: dict[str, Any] = {field: _moment(parameters, name) for name, field in _TIMES.items() if name in parameters}
    epcs, parents, either = (values[name] for name in ("MATCH_epc", "MATCH_parentID", "MATCH_anyEPC"))
    actions = values["EQ_action"]
    if actions and not actions <= {"ADD", "OBSERVE", "DELETE"}:
        raise Problem.parameter("EQ_action is ADD, OBSERVE or DELETE")
    query = Query(
        types=values["eventType"],
        actions=actions,
        steps=_words(values["EQ_bizStep"], "BizStep-", "bizstep:"),
        dispositions=_words(values["EQ_disposition"], "Disp-", "disp:"),
        event_ids=values["EQ_eventID"],
        has_error=True if _is_about_errors(parameters) else None,
        assets=None if epcs is None else names.assets_named(epcs),
        parents=None if parents is None else names.assets_named(parents),
        any_assets=None if either is None else names.assets_named(either),
    )._replace(**moments)
    reasons = _words(values["EQ_errorReason"], "ER-", "er:")
    if reasons is not None and ERROR_REASON not in reasons:
        query = query._replace(types=frozenset())
    return _with_places(query, values, names)


def _is_about_errors(parameters: Mapping[str, str]) -> bool:
    """Return True for events with an error declaration only. By the standard, `false` includes all events."""
    names = ("EQ_errorReason", "GE_errorDeclarationTime", "LT_errorDeclarationTime")
    return _flag(parameters, "EXISTS_errorDeclaration") or any(name in parameters for name in names)


def _with_places(query: Query, values: Mapping[str, set[str] | None], names: Names) -> Query:
    """Return the query with its locations and doors. Those of EQ and WD must both match."""
    for field in ("readPoint", "bizLocation"):
        for is_within, text in ((False, values[f"EQ_{field}"]), (True, values[f"WD_{field}"])):
            if text is None:
                continue
            places, doors = names.locations_named(text), names.doors_named(text)
            if is_within:
                places = names.locations_within(places)
                doors |= names.doors_within(places)
            if field == "bizLocation":
                query = query._replace(places=_both(query.places, places))
            else:
                query = query._replace(
                    read_points=_both(query.read_points, places), read_doors=_both(query.read_doors, doors)
                )
    return query


def _both(before: object, chosen: set[int]) -> set[int]:
    return chosen if not isinstance(before, set) else before & chosen


def _order(parameters: Mapping[str, str]) -> Order | None:
    limit, direction = number(parameters, "eventCountLimit"), parameters.get("orderDirection", "DESC")
    if direction not in ("ASC", "DESC"):
        raise Problem.parameter("orderDirection is ASC or DESC")
    if limit is not None and "maxEventCount" in parameters:
        raise Problem.parameter("Send either eventCountLimit or maxEventCount")
    field = parameters.get("orderBy")
    if field is None:
        if limit is not None:
            raise Problem.parameter("eventCountLimit requires orderBy")
        return None
    if field not in ("eventTime", "recordTime"):
        raise Problem.parameter("orderBy is eventTime or recordTime")
    return Order(by_record_time=field == "recordTime", is_descending=direction == "DESC", limit=limit)


def number(parameters: Mapping[str, str], name: str) -> int | None:
    """Return a parameter that is a number, at most MOST_EVENTS. Raises Problem."""
    text = parameters.get(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and 1 <= len(text) <= 9 and int(text) >= 1):
        raise Problem.parameter(f"{name} is a number from 1")
    return min(int(text), MOST_EVENTS)


def _words(values: set[str] | None, web: str, urn: str) -> set[str] | None:
    """Return words of the vocabulary without the long forms of their names."""
    if values is None:
        return None
    prefixes = (f"https://ref.gs1.org/cbv/{web}", f"urn:epcglobal:cbv:{urn}")
    return {next((one.removeprefix(start) for start in prefixes if one.startswith(start)), one) for one in values}


def _values(parameters: Mapping[str, str], name: str) -> set[str] | None:
    """Return the values of a filter, which are divided by |. Raises Problem."""
    text = parameters.get(name)
    if text is None:
        return None
    values = {value for value in text.split("|") if value}
    if not values or len(values) > MOST_VALUES:
        raise Problem.parameter(f"{name} takes 1 to {MOST_VALUES} values, divided by |")
    return values


def _moment(parameters: Mapping[str, str], name: str) -> int:
    moment = times.parse(parameters[name])
    if times.has_lost_plus(parameters[name]):
        raise Problem.parameter(f"{name} is a time with an offset: {times.LOST_PLUS}")
    if moment is None:
        raise Problem.parameter(f"{name} is a time such as 2026-03-02T08:15:30.412Z")
    return moment


def _flag(parameters: Mapping[str, str], name: str) -> bool:
    text = parameters.get(name, "false")
    if text not in ("true", "false"):
        raise Problem.parameter(f"{name} is true or false")
    return text == "true"
