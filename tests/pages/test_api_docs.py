"""The API reference is generated from the OpenAPI document."""

from __future__ import annotations

import re
import shlex
from html import unescape
from typing import Any

from flask import Flask

from tests.application import change
from tests.pages.conftest import Browser

AGENT = {"User-Agent": "Mozilla/5.0"}


def document(browser: Browser) -> dict[str, Any]:
    document: dict[str, Any] = browser.get("/api/openapi.json", headers=AGENT).json
    return document


def test_every_operation_is_there_with_its_scopes(anybody: Browser) -> None:
    text = anybody.get("/api/docs", headers=AGENT).text
    for path, operations in document(anybody)["paths"].items():
        for operation in operations.values():
            assert f'id="{operation["operationId"]}"' in text
            assert path in text
            assert all(f">{scope}<" in text for scope in operation.get("x-required-scopes", ()))


def test_the_calls_are_commands_as_a_shell_takes_them(app: Flask, anybody: Browser) -> None:
    change(app, http_public_url="https://edge.nord.example")
    text = anybody.get("/api/docs", headers=AGENT).text
    calls = [shlex.split(unescape(call)) for call in re.findall(r'<output id="call-[^>]+>(.*?)</output>', text)]
    assert len(calls) == sum(len(operations) for operations in document(anybody)["paths"].values())
    assert all(call[:2] == ["curl", "-A"] for call in calls)
    assert all(any(word.startswith("https://edge.nord.example/api/v1/") for word in call) for call in calls)


def test_each_answer_has_its_fields_with_meaning_and_example(anybody: Browser) -> None:
    text = unescape(anybody.get("/api/docs", headers=AGENT).text)
    asset = text.partition('id="getAsset"')[2].partition("</details>")[0]
    assert re.search(r"<code>data\.external_key</code>.*?for example \"P-71\".*?Key in your systems", asset, re.DOTALL)
    stays = text.partition('id="listAssetHistory"')[2].partition("</details>")[0]
    assert re.search(r"<code>data\[\]\.duration_seconds</code>.*?Whole seconds", stays, re.DOTALL)
    assert "Fields of error" in text
    assert "Quote it in questions to support" in text


def test_nothing_comes_from_outside(anybody: Browser) -> None:
    text = anybody.get("/api/docs", headers=AGENT).text
    assert not re.search(r'(?:src|href)="(?:https?:)?//', text)


def test_the_page_of_api_keys_links_to_the_reference(sign_in_as: Any) -> None:
    assert 'href="/api/docs"' in sign_in_as("administrator").get("/keys").text
