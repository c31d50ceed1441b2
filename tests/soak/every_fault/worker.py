"""Runs a job once for each call and way, in a process whose disk can fail; prints one JSON line with the result.

A run is a fork of this process with a copy of the files. A fault that kills ends it, and the next fork goes on as a
restarted service does. After any other fault the same process does the job again, as a running service does.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import shutil
import sqlite3
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from edge import listeners
from edge.database.connection import FILE_NAME, close_database
from edge.errors import EdgeError
from edge.sync.sender import LinkError
from tests import chance
from tests.soak.every_fault.disk import WAYS, Disk
from tests.soak.every_fault.jobs import JOBS, Job, Refused, Seen

KILLED = 137
CALLS = "calls"
# What a job may end with when the disk does.
EXPECTED = (EdgeError, OSError, sqlite3.Error, LinkError, Refused)


class Ended(NamedTuple):
    code: int
    promised: list[Any]
    result: Any


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="tests.soak.every_fault.worker")
    parser.add_argument("folder", type=Path)
    parser.add_argument("job", choices=JOBS)
    parser.add_argument("--way", choices=WAYS, action="append")
    parser.add_argument("--most", type=int, help="number of calls that fail, evenly spread; default: each")
    given = parser.parse_args(arguments)
    listeners.connect()
    with chance.of(given.job, chance.NOON):
        print(json.dumps(Drill(given.folder, given.job).run(given.way or WAYS, given.most)))


class Drill:
    def __init__(self, folder: Path, name: str) -> None:
        self._disk = Disk(folder)
        self._begin = folder / "begin"
        self._job: Job = JOBS[name]()
        self._job.build(self._disk.folder)
        close_database()
        shutil.copytree(self._disk.folder, self._begin)
        self._wanted = self._in_a_fork(self._do_and_see, [])
        if self._wanted.code:
            raise SystemExit(f"{name} without a fault: {self._wanted.result}")
        self._calls: int = self._wanted.result.pop(CALLS)

    def run(self, ways: Sequence[str], most: int | None) -> dict[str, Any]:
        """Return the numbers of calls and runs, and a text for each run that ended wrong."""
        step = max(1, self._calls // most) if most else 1
        faults = [(call, way) for way in ways for call in range(1, self._calls + 1, step)]
        texts = [(call, way, self._fault(call, way)) for call, way in faults]
        wrong = [f"call {call} {way}: {text}" for call, way, text in texts if text]
        return {"calls": self._calls, "runs": len(faults), "wrong": wrong}

    def _fault(self, call: int, way: str) -> str | None:
        """Let a call fail, repeat the job, and return what is wrong then."""
        shutil.rmtree(self._disk.folder)
        shutil.copytree(self._begin, self._disk.folder)
        self._job.copied()
        close_database()
        ended = self._in_a_fork(lambda promised, promise: self._with_fault(call, way, promised, promise), [])
        if ended.code == KILLED:
            with chance.random_of("restarted"):
                ended = self._in_a_fork(self._do_and_see, ended.promised)
        if ended.code:
            return f"ended with {ended.code}: {ended.result}"
        return _difference(self._wanted.result, ended.result)

    def _with_fault(self, call: int, way: str, promised: list[Any], promise: Callable[[Any], None]) -> Seen:
        self._job.open(self._disk.folder)
        self._disk.let_fail(call, way)
        try:
            self._job.do(self._disk.folder, [], promise)
        except EXPECTED:
            self._disk.let_fail(0, way)
            self._job.do(self._disk.folder, list(promised), promise)
        self._disk.let_fail(0, way)
        return self._see(promised)

    def _do_and_see(self, promised: list[Any], promise: Callable[[Any], None]) -> Seen:
        self._job.open(self._disk.folder)
        self._disk.let_fail(0, WAYS[0])
        self._job.do(self._disk.folder, list(promised), promise)
        calls = self._disk.calls()
        return self._see(promised) | {CALLS: calls}

    def _see(self, promised: list[Any]) -> Seen:
        close_database()
        for file in self._disk.folder.rglob(FILE_NAME):
            with sqlite3.connect(file) as connection:
                assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
                assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
            connection.close()
        self._job.open(self._disk.folder)
        return self._job.seen(self._disk.folder, promised)

    def _in_a_fork(self, act: Callable[[list[Any], Callable[[Any], None]], Seen], promised: list[Any]) -> Ended:
        """Run `act` in a process of its own. What it promises counts, even if it is killed later."""
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            os.close(reading)
            os._exit(_told(act, promised, writing))
        os.close(writing)
        with os.fdopen(reading, "rb") as pipe:
            told = list(_read(pipe))
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        result = told.pop()[1] if told and told[-1][0] == "result" else None
        return Ended(code, promised + [value for _, value in told], result)


def _told(act: Callable[[list[Any], Callable[[Any], None]], Seen], promised: list[Any], writing: int) -> int:
    """Run `act` in a fork and tell the other process what is promised, and the result or the error."""
    made = list(promised)

    def tell(kind: str, value: Any) -> None:
        data = pickle.dumps((kind, value))
        while data:
            data = data[os.write(writing, data) :]

    def promise(value: Any) -> None:
        made.append(value)
        tell("promise", value)

    try:
        tell("result", act(made, promise))
    except BaseException:  # noqa: BLE001  the other process shows it
        tell("result", traceback.format_exc())
        return 1
    return 0


def _read(pipe: BinaryIO) -> Iterator[tuple[str, Any]]:
    while True:
        try:
            yield pickle.load(pipe)  # noqa: S301  of our own fork
        except EOFError:
            return


def _difference(wanted: Seen, ended: Seen) -> str | None:
    """Return the first value that differs, or None."""
    ended.pop(CALLS, None)
    for name in wanted | ended:
        one, other = wanted.get(name), ended.get(name)
        if one != other:
            if isinstance(one, list) and isinstance(other, list):
                one, other = [row for row in one if row not in other], [row for row in other if row not in one]
            return f"{name}: {str(one)[:300]} became {str(other)[:300]}"
    return None


if __name__ == "__main__":
    main(sys.argv[1:])
