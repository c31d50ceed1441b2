"""Files of a site's hub connection: its secret and the hub's certificate authority."""

from __future__ import annotations

from pathlib import Path

from edge.errors import SetupError

SECRET = "sync-secret"  # noqa: S105  a file name
AUTHORITY = "sync-authority.crt"


def write(data_dir: Path, secret: str, authority: str) -> None:
    """Write the site's secret and, if not empty, the hub's own certificate authority (PEM)."""
    file = data_dir / SECRET
    file.touch(mode=0o600)
    file.write_text(secret + "\n", "ascii")
    if authority:
        (data_dir / AUTHORITY).write_text(authority, "ascii")
    else:
        (data_dir / AUTHORITY).unlink(missing_ok=True)


def read(data_dir: Path) -> tuple[str, Path | None]:
    """Return the secret and the path of the hub's own certificate authority, if any. Raises SetupError."""
    try:
        secret = (data_dir / SECRET).read_text("ascii").strip()
    except OSError as error:
        raise SetupError(
            f"The secret of this site cannot be read ({error}). Create a new code on the hub's Sync page and run "
            "`edge sync join` again"
        ) from error
    authority = data_dir / AUTHORITY
    return secret, authority if authority.is_file() else None


def remove(data_dir: Path) -> None:
    for name in (SECRET, AUTHORITY):
        (data_dir / name).unlink(missing_ok=True)
