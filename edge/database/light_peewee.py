"""Peewee without drivers of other databases. Import it from here.

`import peewee` loads every driver that is installed: psycopg costs 12 MB and a quarter of a second in each process,
also on a box that uses SQLite only.
"""

from __future__ import annotations

import sys
from importlib import import_module

_DRIVERS = ("psycopg", "psycopg2", "psycopg2cffi", "pymysql", "MySQLdb")
_hidden = [name for name in _DRIVERS if name not in sys.modules]
sys.modules.update(dict.fromkeys(_hidden))  # type: ignore[arg-type]  # None makes `import` raise ImportError
try:
    import_module("peewee")
finally:
    for _name in _hidden:
        del sys.modules[_name]

import peewee as peewee  # noqa: E402  after the drivers were hidden
