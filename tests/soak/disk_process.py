"""A disk with a cache that can be lost: `/usr/bin/python3 disk_process.py FOLDER MEGABYTES` provides FOLDER/disk.

A FUSE file system (Debian's python3-fusepy) with one file, for use under a loop device and a real file system. Data is
durable only after a flush. Commands written to FOLDER/control: `cut` loses the cache, but a random part of it may have
reached the disk in any order; `drop` makes nothing durable until the cut; `slow SECONDS` sets the duration of a flush;
`fail` and `work` stop and resume writes. FOLDER/flushed has the milliseconds when the newest flush began and ended.
"""

from __future__ import annotations

import errno
import random
import stat
import sys
import time
from typing import Any

import fusepy


class Disk(fusepy.Operations):
    def __init__(self, size: int) -> None:
        self._now = bytearray(size)  # content as read
        self._certain = bytearray(size)  # content after a power cut, without the cache
        self._cache: list[tuple[int, bytes]] = []
        self._flush_seconds = 0.0
        self._flushed = b""
        self._is_broken = False
        self._is_dropped = False  # the power is off, and the processes do not know it yet

    def getattr(self, path: str, _handle: Any = None) -> dict[str, Any]:
        if path == "/":
            return {"st_mode": stat.S_IFDIR | 0o700, "st_nlink": 2}
        sizes = {"/disk": len(self._now), "/control": 0, "/flushed": len(self._flushed)}
        if path not in sizes:
            raise fusepy.FuseOSError(errno.ENOENT)
        return {"st_mode": stat.S_IFREG | 0o600, "st_nlink": 1, "st_size": sizes[path]}

    def readdir(self, _path: str, _handle: Any) -> list[str]:
        return [".", "..", "disk", "control", "flushed"]

    def truncate(self, path: str, _length: int, _handle: Any = None) -> None:
        if path == "/disk":
            raise fusepy.FuseOSError(errno.EPERM)

    def read(self, path: str, size: int, offset: int, _handle: Any) -> bytes:
        return bytes((self._flushed if path == "/flushed" else self._now)[offset : offset + size])

    def write(self, path: str, data: bytes, offset: int, _handle: Any) -> int:
        if path == "/control":
            self._obey(*data.decode().split())
        elif self._is_broken:
            raise fusepy.FuseOSError(errno.EIO)
        else:
            self._now[offset : offset + len(data)] = data
            if not self._is_dropped:
                self._cache.append((offset, data))
        return len(data)

    def fsync(self, path: str, _datasync: int, _handle: Any) -> None:
        if path == "/control":
            return
        began = time.time_ns()
        time.sleep(self._flush_seconds)
        if self._is_broken:
            raise fusepy.FuseOSError(errno.EIO)
        if not self._is_dropped:
            self._write_back(self._cache)
            self._flushed = f"{began // 1_000_000} {time.time_ns() // 1_000_000}".encode()

    def _obey(self, word: str, seconds: str = "0") -> None:
        match word:
            case "cut":
                self._write_back([write for write in self._cache if random.random() < 0.5])
                self._now[:] = self._certain
                self._is_dropped = False
            case "drop":
                self._is_dropped = True
            case "slow":
                self._flush_seconds = float(seconds)
            case "fail" | "work":
                self._is_broken = word == "fail"

    def _write_back(self, writes: list[tuple[int, bytes]]) -> None:
        for offset, data in writes:
            self._certain[offset : offset + len(data)] = data
        self._cache = []


if __name__ == "__main__":
    fusepy.FUSE(Disk(int(sys.argv[2]) << 20), sys.argv[1], foreground=True, nothreads=True, direct_io=True)
