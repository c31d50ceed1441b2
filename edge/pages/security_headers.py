"""Content-Security-Policy of the pages: only their own files."""

from __future__ import annotations

_RULES = {
    "default-src": "'none'",
    "script-src": "'self'",
    "style-src": "'self'",
    "img-src": "'self' data:",
    "connect-src": "'self'",
    "manifest-src": "'self'",
    "worker-src": "'self'",
    "form-action": "'self'",
    "base-uri": "'none'",
    "frame-ancestors": "'none'",
}


def policy(**changes: str) -> str:
    """Return a policy in which keyword arguments such as `script_src` replace directives."""
    rules = _RULES | {name.replace("_", "-"): value for name, value in changes.items()}
    return "; ".join(f"{name} {value}" for name, value in rules.items())


CONTENT_SECURITY_POLICY = policy()
