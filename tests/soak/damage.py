"""Damage random pages of a site's database, repair it, and check every row: `python -m tests.soak.damage SEEDS`.

All rows of undamaged pages and all other rows of the newest backup must be present.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from edge.audit.actors import shell
from edge.database import migrate
from edge.database.repair import recover
from edge.operations import archives
from edge.operations.backup import newest_backup
from edge.people.organizations import add_organization
from tests.operations import damage


def main(seeds: int) -> None:
    with TemporaryDirectory(prefix="edge-damage-") as name:
        folder = Path(name)
        data = folder / "data"
        data.mkdir()
        migrate.migrate(data)
        add_organization(shell(), "Acme")
        site = damage.make_site(data)
        newest = newest_backup(site.backups)
        assert newest is not None
        archives.unpack(newest.path, folder / "backup.db")
        shutil.copy(site.file, folder / "whole.db")
        chosen = {f"100 random pages, seed {seed}": damage.random_damage(site, seed) for seed in range(seeds)}
        chosen |= {"pages 1 to 40": list(range(1, 41)), "every second page": list(range(1, site.page_count + 1, 2))}
        for what, pages in chosen.items():
            shutil.copy(folder / "whole.db", site.file)
            damage.spoil(site, pages, os.urandom if len(what) % 2 else bytes)
            _repair(site, what, pages, folder)


def _repair(site: damage.Damaged, what: str, pages: list[int], folder: Path) -> None:
    target = folder / "repaired.db"
    target.unlink(missing_ok=True)
    began = time.monotonic()
    recovered = recover(site.file, target, folder / "backup.db")
    seconds = time.monotonic() - began
    lost = damage.missing(site, pages, target)
    from_backup = sum(recovered.from_backup.values())
    print(
        f"{what} of {site.page_count}: {len(lost)} rows missing, {from_backup} from the backup, "
        f"{sum(recovered.from_search.values())} from search texts, {sum(recovered.rejected.values())} rejected, "
        f"{seconds:.1f} s",
        *lost[:5],
        sep="\n    ",
        flush=True,
    )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20)
