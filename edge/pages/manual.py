"""The manual and its search.

It is public, because people who cannot sign in need it most. It contains nothing about this site; settings are shown
with their defaults.
"""

from __future__ import annotations

from functools import cache

from flask import abort, render_template, request
from markupsafe import Markup

from edge.manual import INDEX
from edge.manual.manual import Manual
from edge.pages.guard import public
from edge.pages.static_files import web_folder

MOST_QUERY = 100  # characters


@cache
def manual() -> Manual:
    return Manual(web_folder() / "manual")


@public.get("/manual", manual="README#use")
def manual_index() -> str:
    query = request.args.get("q", "").strip()[:MOST_QUERY]
    return _page(INDEX, query)


@public.get("/manual/<path:name>", manual="README#use")
def manual_chapter(name: str) -> str:
    return _page(name)


def _page(name: str, query: str = "") -> str:
    book = manual()
    chapter = book.chapter(name) or abort(404)
    before, after = book.neighbors(name)
    return render_template(
        "manual/chapter.html",
        chapter=chapter,
        html=Markup(chapter.html),  # noqa: S704 - rendered from shipped files with HTML escaped
        titles=book.titles,
        index=INDEX,
        before=before,
        after=after,
        query=query,
        results=book.search(query) if query else None,
    )
