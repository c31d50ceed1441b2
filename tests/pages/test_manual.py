"""The manual on the box: open to everybody, searchable, with a section for each page of the app."""

from __future__ import annotations

import re
import subprocess
import sys
from html import unescape

import pytest
from flask import Flask

from edge import __version__, cli
from edge.config.settings import SETTINGS
from edge.manual.manual import Manual
from edge.manual.markdown import render
from edge.pages.help import OTHERWISE, SECTIONS
from edge.pages.static_files import web_folder
from edge.people.people import Role
from tests.pages.conftest import Browser, SignIn, Site

FOLDER = web_folder() / "manual"
# GET routes that are no pages of their own, and why.
NO_PAGES = {
    "/.well-known/security.txt": "a file for programs",
    "/a/<external_key>": "leads to an asset",
    "/l/<external_key>": "leads to a location",
    "/assets/<int:asset_id>/now": "part of a page",
    "/assets/suggested": "part of a page",
    "/board/rows": "part of a page",
    "/board/steps": "part of a page",
    "/certificate/edge-authority.crt": "file",
    "/doors/<int:door_id>/now": "part of a page",
    "/doors/now": "part of a page",
    "/home/now": "part of a page",
    "/w/<code>/now": "part of a page",
    "/w/<code>/plan": "file",
    "/import/<job_id>/errors.csv": "file",
    "/bulk/<job_id>/results.csv": "file",
    "/scan/near/<int:asset_id>": "data of the scan page",
    "/export/records/<kind>.csv": "file",
    "/export/board.csv": "file",
    "/export/download": "file",
    "/export/readers.csv": "file",
    "/export/history.csv": "file",
    "/export/ledger.csv": "file",
    "/export/passages.csv": "file",
    "/export/past.csv": "file",
    "/import/<job_id>/now": "part of a page",
    "/import/<job_id>/results.csv": "file",
    "/import/template/<kind>.csv": "file",
    "/labels.pdf": "file",
    "/labels/documents/<document_id>.pdf": "file",
    "/labels/preview": "part of a page",
    "/locations/<int:location_id>/now": "part of a page",
    "/locations/<int:location_id>/plan/image": "file",
    "/alerts/now": "part of a page",
    "/alerts/open": "part of a page",
    "/bulk/<job_id>/now": "part of a page",
    "/bulk/<job_id>/unchanged.csv": "file",
    "/expected-lists/<int:list_id>.csv": "file",
    "/expected-lists/<int:list_id>/now": "part of a page",
    "/musters/<int:muster_id>.csv": "file",
    "/musters/<int:muster_id>/now": "part of a page",
    "/locations/<int:location_id>/plan/now": "part of a page",
    "/readers/<int:reader_id>/reads/now": "part of a page",
    "/readers/heard": "part of a page",
    "/scan/find": "data for the scan page",
    "/scan/alerts": "data for the scan page",
    "/assets/<int:asset_id>/photos/<photo_id>": "file",
    "/scan/expected-lists": "data for the scan page",
    "/scan/expected-lists/<int:list_id>": "data for the scan page",
    "/scan/locations": "data for the scan page",
    "/scan/state": "data for the scan page",
    "/scan/stock-takes": "data for the scan page",
    "/scan/stock-takes/<stock_take_id>": "data for the scan page",
    "/static/<version>/<path:name>": "file",
    "/stock-takes/<stock_take_id>.csv": "file",
    "/sw.js": "file",
}


def test_every_page_has_its_section(app: Flask) -> None:
    paths = {
        rule.rule
        for rule in app.url_map.iter_rules()
        if rule.endpoint.startswith("pages.") and "GET" in (rule.methods or ())
    }
    assert paths == set(SECTIONS) | set(NO_PAGES)


def test_every_section_exists(app: Flask) -> None:
    manual = Manual(FOLDER)
    for section in {*SECTIONS.values(), OTHERWISE}:
        name, _, anchor = section.partition("#")
        chapter = manual.chapter(name)
        assert chapter, section
        assert anchor in [entry.anchor for entry in chapter.entries], section


@pytest.mark.parametrize(
    ("path", "section"),
    [
        ("/", "office#board"),
        ("/locations/new", "office#locations"),
        ("/scan", "scanning#first-scan"),
        ("/no-such-page", OTHERWISE),
    ],
)
def test_a_page_leads_to_its_section(sign_in_as: SignIn, site: Site, path: str, section: str) -> None:
    assert f'href="/manual/{section}" target="_blank"' in sign_in_as(Role.ADMINISTRATOR).get(path).text


def test_a_form_that_was_sent_keeps_its_section(sign_in_as: SignIn, site: Site) -> None:
    answer = sign_in_as(Role.ADMINISTRATOR).post("/locations/new", {"name": ""})
    assert answer.status_code == 400
    assert 'href="/manual/office#locations"' in answer.text


def test_every_page_is_marked_in_the_navigation(app: Flask, admin: Browser) -> None:
    paths = [path for path in SECTIONS if "<" not in path and not path.startswith(("/sign-in", "/scan", "/find"))]
    for path in paths:
        answer = admin.get(path, headers={"User-Agent": "Mozilla/5.0"}, follow_redirects=True)
        page = answer.text
        if '<header class="top">' in page:
            assert "aria-current" in page.split("<main")[0], path


def test_who_cannot_sign_in_is_helped(anybody: Browser) -> None:
    assert 'href="/manual/troubleshooting#sign-in"' in anybody.get("/sign-in").text
    assert 'href="/manual/installation#https"' in anybody.get("/certificate").text
    assert 'href="/manual/api#first-call"' in anybody.get("/api/docs", headers={"User-Agent": "Mozilla/5.0"}).text
    answer = anybody.get("/manual/troubleshooting")
    assert answer.status_code == 200
    assert "Use a recovery code" in answer.text
    assert "default-src 'none'" in answer.headers["Content-Security-Policy"]


def test_an_unknown_chapter_is_no_file(anybody: Browser) -> None:
    for name in ("nothing", "../templates/base", "settings.md", "decisions/", "README/"):
        assert anybody.get(f"/manual/{name}").status_code == 404


def test_chapters_lead_to_those_before_and_after(anybody: Browser) -> None:
    page = anybody.get("/manual/readers").text
    assert '<a rel="prev" href="/manual/getting-started">' in page
    assert '<a rel="next" href="/manual/mappings">' in page
    assert '<a href="/manual/readers" aria-current="page">' in page
    assert '<li><a href="#antennas">Antennas</a></li>' in page


def text_of(page: str) -> str:
    return unescape(re.sub(r"<[^>]+>", "", page))


def test_search_finds_headings_first_and_shows_the_matching_sentence(anybody: Browser) -> None:
    page = anybody.get("/manual?q=Dead+LETTERS").text
    assert "<mark>dead letters</mark>" not in page  # words are marked one by one
    results = re.findall(r'<a href="(/manual/[^"]+)">[^<]+</a>', page[: page.index('id="contents"')])
    assert results
    page = anybody.get("/manual?q=recovery code").text
    assert '<a href="/manual/troubleshooting#sign-in">' in page
    assert "<mark>recovery</mark> <mark>code</mark>" in page
    page = anybody.get("/manual?q=change it there").text  # words that stand together are worth more
    assert '<a href="/manual/sites#behavior">' in re.findall(r'<div class="result">\s*(.*)', page)[0]
    first = anybody.get("/manual?q=unmatched").text
    assert '<a href="/manual/readers#unmatched-tags">' in re.findall(r'<div class="result">\s*(.*)', first)[0]


@pytest.mark.parametrize("query", ["<script>alert(1)</script>", "(", "\\", "no such word zzz", "%00", "a" * 5000])
def test_any_search_is_answered(anybody: Browser, query: str) -> None:
    answer = anybody.get("/manual", query_string={"q": query})
    assert answer.status_code == 200
    assert "<script>alert" not in answer.text
    assert "No matches" in answer.text or "<mark>" in answer.text


def test_an_empty_search_shows_the_index(anybody: Browser) -> None:
    assert "Getting started" in text_of(anybody.get("/manual?q=").text)


def test_settings_and_commands_are_listed(anybody: Browser) -> None:
    assert cli.COMMANDS  # the import registers the chapters made from code
    page = text_of(anybody.get("/manual/settings").text)
    for name in SETTINGS:
        assert name in page
    page = text_of(anybody.get("/manual/commands").text)
    assert "edge reader add [OPTIONS] NAME" in page
    assert "--status-topic" in page
    assert "broker-session" not in page  # hidden


def test_the_changes_of_this_version_are_listed(anybody: Browser) -> None:
    page = anybody.get("/manual/changes").text
    assert __version__ in text_of(page)
    ids = re.findall(r'<h\d id="([^"]*)"', page)
    assert len(ids) == len(set(ids))  # headings of several versions are the same


def test_html_in_markdown_is_text() -> None:
    html = render("# A\n\n<script>alert(1)</script> <b>x</b> [y](javascript:alert(1))\n", "a").html
    assert "<script" not in html
    assert "<b>" not in html
    assert "javascript:" not in re.sub(r">[^<]*<", "", html)


def test_no_chapter_shows_a_marker_or_html(anybody: Browser) -> None:
    for name in Manual(FOLDER).names:
        chapter = Manual(FOLDER).chapter(name)
        assert chapter
        assert "<!--" not in unescape(chapter.html), name


def test_links_between_files_lead_to_pages() -> None:
    text = "# A\n\n[b](b.md) [c](decisions/c.md#d) [top](README.md) [here](#x) [out](https://x.example/y)\n"
    hrefs = re.findall(r'href="([^"]*)"', render(text, "a").html)
    assert hrefs == ["/manual/b", "/manual/decisions/c#d", "/manual", "#x", "https://x.example/y"]
    assert re.findall(r'href="([^"]*)"', render("[up](../b.md)", "decisions/c").html) == ["/manual/b"]


def test_the_frame_is_in_the_language_of_the_browser(anybody: Browser) -> None:
    page = anybody.get("/manual", headers={"Accept-Language": "de"}).text
    assert "Das Handbuch gibt es nur auf Englisch." in page
    assert '<main id="main" lang="en"' in page


def test_the_library_is_loaded_with_the_first_chapter_only() -> None:
    script = "import sys, edge.cli, edge.app; print('markdown_it' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    assert done.stdout == "False\n"
