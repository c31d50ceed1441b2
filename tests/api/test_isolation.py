"""Records of another organization behave exactly like missing ones, in every operation of the table."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from edge.api.operations import OPERATIONS, Operation
from edge.database.connection import database
from tests.api.conftest import Api, data

BODIES: dict[str, Any] = {
    "TagRequest": {"tag_type": "rfid", "value": "NEW"},
    "RenameAssetRequest": {"external_key": "NEW"},
    "RenameLocationRequest": {"external_key": "NEW"},
    "UpdateAssetRequest": {"name": "taken over"},
    "UpdateLocationRequest": {"name": "taken over"},
    "CreateAssetWithTagsRequest": {"name": "x"},
    "CreateLocationWithTagsRequest": {"name": "x"},
}
ABSENT = 4_503_599_627_370_497


@pytest.fixture
def theirs(rival: Api) -> dict[str, Any]:
    tag = {"tag_type": "rfid", "value": "THEIR-TAG"}
    parent = rival.make("/locations", external_key="THEIR-PARENT")
    return {
        "asset": rival.make("/assets", external_key="THEIRS", tags=[tag]),
        "location": rival.make("/locations", external_key="THEIRS", parent_id=parent["id"]),
        "tag": rival.make("/assets", tags=[tag | {"value": "OTHER"}])["tags"][0],
    }


@contextmanager
def statements() -> Iterator[list[str]]:
    """Collect the SQL statements without numbers. Equal statements take equal time."""
    asked: list[str] = []

    def note(statement: str) -> None:
        asked.append(re.sub(r"\d+", "N", statement))

    connection = database.connection()
    connection.set_trace_callback(note)
    yield asked
    connection.set_trace_callback(None)


def everything(api: Api) -> list[Any]:
    lists = ("/assets", "/locations", "/reports/asset-locations")
    return [data(api.get(path, **({} if "report" in path else {"include_deleted": "true"}))) for path in lists]


def without_id(text: str, number: int) -> str:
    return re.sub(r'"request_id":"[^"]+"', "", text).replace(str(number), "ID")


@pytest.mark.parametrize("operation", [one for one in OPERATIONS if one.path_names], ids=lambda one: one.name)
def test_a_record_of_another_organization_behaves_like_a_missing_one(
    acme: Api, rival: Api, theirs: dict[str, Any], operation: Operation
) -> None:
    """interface: Service 5"""
    before = everything(rival)
    own = {"asset": acme.make("/assets")["id"], "location": acme.make("/locations")["id"]}
    for name in operation.path_names:
        kind = name.removesuffix("_id")
        if kind == "tag":
            theirs_first = operation.path_names[0].removesuffix("_id")
            pairs = [(own[theirs_first], theirs["tag"]["id"]), (theirs[theirs_first]["id"], theirs["tag"]["id"])]
        else:
            pairs = [(theirs[kind]["id"], theirs["tag"]["id"])]
        for owner, tag in pairs:
            answers = []
            for ids in ((owner, tag), (ABSENT if kind != "tag" else owner, ABSENT)):
                path = operation.path.replace("{tag_id}", str(ids[1]))
                path = re.sub(r"\{\w+\}", str(ids[0]), path)
                body = BODIES[operation.body.name] if operation.body else None
                with statements() as asked:
                    response = acme.call(operation.method, path, body)
                answers.append((response.status_code, _without_ids(response.text, ids), asked))
            assert answers[0] == answers[1]
            status, _, asked = answers[0]
            assert status == 404
            assert asked
    assert everything(rival) == before


def _without_ids(text: str, ids: tuple[int, int]) -> str:
    for number in ids:
        text = without_id(text, number)
    return text


@pytest.mark.parametrize(
    "operation", [one for one in OPERATIONS if one.query.home and not one.path_names], ids=lambda one: one.name
)
def test_no_filter_of_a_list_matches_records_of_another_organization(
    acme: Api, theirs: dict[str, Any], operation: Operation
) -> None:
    """interface: Service 5"""
    for name in operation.query.parameters:
        kind, _, form = name.partition("_")
        values: list[Any] = ["THEIRS"] if form == "external_key" or name == "external_key" else []
        values += [theirs.get(kind, theirs["location"])["id"]] if form == "id" else []
        values += ["THEIR", "TH"] if name == "q" else []
        values += ["true"] if name == "include_deleted" else []
        for value in values:
            answer = acme.get(operation.path, **{name: value}).json or {}
            assert (answer["data"], answer["total_count"]) == ([], 0)


def test_their_keys_tags_and_parents_neither_collide_nor_resolve(acme: Api, theirs: dict[str, Any]) -> None:
    """interface: Service 5; Identifiers external_key, tag natural key"""
    tag = {"tag_type": "rfid", "value": "THEIR-TAG"}
    assert acme.make("/assets", external_key="THEIRS", tags=[tag])["external_key"] == "THEIRS"
    assert acme.make("/locations", external_key="THEIRS")["external_key"] == "THEIRS"
    answers = [
        acme.post("/locations", {"name": "x", "parent_id": number}) for number in (theirs["location"]["id"], ABSENT)
    ]
    assert without_id(answers[0].text, 0) == without_id(answers[1].text, 0)
