"""Static files, loaded at startup, with a version in their URLs.

Responses are compressed, because the radio of a handheld is slower than the box.
"""

from __future__ import annotations

import gzip
import re
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from flask import Flask, Response, abort, current_app, request

_MOVED = re.compile("^scan/")  # scripts of a scan page that was loaded from release 0.1 and is still open
FOREVER = "public, max-age=31536000, immutable"
_TYPES = {
    ".js": "text/javascript",
    ".webmanifest": "application/manifest+json",
    ".svg": "image/svg+xml",
    ".wasm": "application/wasm",
    ".css": "text/css",
    ".png": "image/png",
    ".md": "text/markdown",
}
# Comments are removed: one seventh of the size. Only comments on lines of their own are certainly not part of a string.
_COMMENTS = re.compile(rb"(?m)^ *(?://.*|/\*(?s:.*?)\*/ *)\n")
_COMMENTS_AT_END = re.compile(rb"(?m)(?<=[;,{})\]]) +//[^\"'`\n]*$")  # one with a quote may be part of a text: it stays
_COMMENTED = {".js", ".css"}
_INDENTATION = re.compile(rb"(?m)^ +")
_COMPRESSIBLE = {".js", ".css", ".svg", ".webmanifest", ".wasm"}


_MOST_KEPT = 200_000  # bytes


class File(NamedTuple):
    path: Path
    mimetype: str
    is_compressible: bool
    kept: bytes | None  # None: a large file, read when it is needed

    def content(self) -> bytes:
        return self.path.read_bytes() if self.kept is None else self.kept


def web_folder() -> Path:
    """Return the folder `web`: next to the package in a checkout, inside the package after installation."""
    package = Path(__file__).resolve().parent.parent
    installed = package / "web"
    return installed if installed.is_dir() else package.parent / "web"


class Files:
    """All files of `web/static`. Their URLs share one hash, because modules import each other by relative names.

    The hash includes the templates, because cached pages must match the cached files.
    """

    def __init__(self, folder: Path, templates: Path) -> None:
        self._files = {
            path.relative_to(folder).as_posix(): _read(path) for path in sorted(folder.rglob("*")) if path.is_file()
        }
        digest = sha256()
        for name, file in self._files.items():
            digest.update(name.encode() + b"\0" + sha256(file.content()).digest())
        for path in sorted(path for path in templates.rglob("*") if path.is_file()):
            digest.update(path.relative_to(templates).as_posix().encode() + b"\0" + sha256(path.read_bytes()).digest())
        self.version = digest.hexdigest()[:12]

    def url(self, name: str) -> str:
        if name not in self._files:
            raise KeyError(name)
        return f"/static/{self.version}/{name}"

    def names(self) -> list[str]:
        return list(self._files)

    def text(self, name: str) -> str:
        return self._files[name].content().decode()

    def answer(self, version: str, name: str) -> Response:
        """Return a file. For the URL of another version, such as before an upgrade, it is the current one, not
        cached.
        """
        file = self._files.get(name) or self._files.get(_MOVED.sub("handhelds/", name)) or abort(404)
        response = Response(mimetype=file.mimetype)
        if file.is_compressible and request.accept_encodings["gzip"] > 0:
            response.set_data(_compressed(file))
            response.headers["Content-Encoding"] = "gzip"
        else:
            response.set_data(file.content())
        response.headers["Vary"] = "Accept-Encoding"
        response.headers["Cache-Control"] = FOREVER if version == self.version else "no-cache"
        return response


def load_static_files(app: Flask) -> Files:
    """Read `web/static` into memory for the application."""
    files = Files(web_folder() / "static", web_folder() / "templates")
    app.extensions["static_files"] = files
    return files


def static_files() -> Files:
    """Return the files of the current application."""
    files: Files = current_app.extensions["static_files"]
    return files


def _read(path: Path) -> File:
    content = path.read_bytes()
    if path.suffix in _COMMENTED and "vendor" not in path.parts:
        content = _COMMENTS_AT_END.sub(b"", _COMMENTS.sub(b"", content))
        if not any(line.count(b"`") % 2 for line in content.splitlines()):  # a template of several lines stays
            content = _INDENTATION.sub(b"", content)
    mimetype = _TYPES.get(path.suffix, "application/octet-stream")
    kept = content if len(content) <= _MOST_KEPT else None
    return File(path, mimetype, path.suffix in _COMPRESSIBLE, kept)


@cache
def _compressed(file: File) -> bytes:
    return gzip.compress(file.content(), 9, mtime=0)


LEAST_COMPRESSED = 2000  # bytes


def compressed(content: bytes, mimetype: str) -> Response:
    """Compress a response. Do not use if it contains a secret next to text from others: the length would leak
    information.
    """
    response = Response(content, mimetype=mimetype)
    response.headers["Vary"] = "Accept-Encoding"
    if len(content) > LEAST_COMPRESSED and request.accept_encodings["gzip"] > 0:
        response.set_data(gzip.compress(content, 4))
        response.headers["Content-Encoding"] = "gzip"
    return response
