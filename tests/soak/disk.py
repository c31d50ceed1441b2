"""The file system of a site on a disk that can be full, slow, broken, and robbed of its cache. As root on Linux."""

from __future__ import annotations

import ctypes
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PYTHON = "/usr/bin/python3"  # Debian's, whose python3-fusepy needs nothing else
MEGABYTES = 256
# As on any real disk. So small a file system gets less by default, and then a page of a mapped file can be a hole where
# it was extended by its last byte only, as SQLite does it: on a full disk the first touch ends the process by SIGBUS.
BLOCK_BYTES = 4096
START_SECONDS = 180
DETACH_SECONDS = 30
CLONE_NEWNS = 0x20000  # os.CLONE_NEWNS of Python 3.12


class Disk:
    """ext4 on a loop device on a file in user space; mounted at `folder`."""

    def __init__(self, folder: Path, below: Path) -> None:
        self._folder = folder
        self._below = below
        self._device = ""

    def make(self) -> None:
        # One flush makes the whole file system certain, as at a machine that was installed yesterday.
        command = ["mkfs.ext4", "-q", "-F", "-b", str(BLOCK_BYTES), str(self._below / "disk")]
        subprocess.run(command, check=True, capture_output=True)
        self.mount()

    def mount(self) -> None:
        """As Debian does when it boots: what the power cut left is checked first."""
        shown = ["losetup", "--find", "--show", str(self._below / "disk")]
        self._device = subprocess.run(shown, check=True, capture_output=True, text=True).stdout.strip()
        checked = subprocess.run(["e2fsck", "-p", self._device], check=False, capture_output=True, text=True)
        if checked.returncode not in (0, 1):  # 1: it had to mend
            raise RuntimeError(f"the file system is beyond what a boot mends: {checked.stdout}")
        subprocess.run(["mount", "-o", "errors=remount-ro", self._device, str(self._folder)], check=True)

    def unmount(self) -> None:
        """Whoever has files open must have ended."""
        subprocess.run(["umount", str(self._folder)], check=True)
        subprocess.run(["losetup", "--detach", self._device], check=True)
        # The kernel does it when nobody uses the device any more. Were it still used, two file systems would write on
        # one disk afterwards, and the one from before the power cut would damage the other.
        deadline = time.monotonic() + DETACH_SECONDS
        while subprocess.run(["losetup", self._device], check=False, capture_output=True).returncode == 0:
            if time.monotonic() > deadline:
                raise RuntimeError(f"{self._device} is still used: is {self._folder} mounted elsewhere, too?")
            time.sleep(0.05)

    def lose_cache(self) -> None:
        """The power is cut and comes back; nobody may have files open."""
        self.tell("fail")  # what the kernel would still write at its leisure
        self.unmount()
        self.tell("cut")
        self.tell("work")
        self.mount()

    def tell(self, words: str) -> None:
        with (self._below / "control").open("w") as control:
            control.write(words)

    def fill(self) -> None:
        """Until not a block is left."""
        name = str(self._folder / "filler")
        subprocess.run(["dd", "if=/dev/zero", f"of={name}", "bs=64K"], capture_output=True, check=False)

    def make_room(self) -> None:
        """For good: otherwise the next power cut brings back what filled it."""
        (self._folder / "filler").unlink()
        subprocess.run(["sync", "--file-system", str(self._folder)], check=True)


def can_be_had() -> bool:
    """Whether this process may mount one, and has what it needs."""
    asked = subprocess.run([PYTHON, "-c", "import fusepy"], capture_output=True, check=False)
    return os.geteuid() == 0 and asked.returncode == 0 and Path("/dev/fuse").exists()


@contextmanager
def mounted(folder: Path, below: Path) -> Iterator[Disk]:
    """`folder` and `below` are empty folders. Call it before other threads are there: only later ones see the disk."""
    _keep_mounts_to_oneself()
    program = [PYTHON, str(Path(__file__).with_name("disk_process.py")), str(below), str(MEGABYTES)]
    with subprocess.Popen(program) as process:
        try:
            deadline = time.monotonic() + START_SECONDS
            while not (below / "disk").exists():
                if process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError("the disk cannot be shown by FUSE")
                time.sleep(0.05)
            disk = Disk(folder, below)
            disk.make()
            try:
                yield disk
            finally:
                disk.unmount()
        finally:
            process.terminate()  # it takes its mount along


def _keep_mounts_to_oneself() -> None:
    """A mount namespace that others make meanwhile (a container, a sandbox) would keep the disk mounted for ever."""
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNS):
        raise OSError(ctypes.get_errno(), "this process gets no mount namespace of its own")
    subprocess.run(["mount", "--make-rslave", "/"], check=True)
