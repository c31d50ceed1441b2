"""A file system for a site on a disk that can be full, slow or broken, or lose its cache. Needs root on Linux."""

from __future__ import annotations

import ctypes
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PYTHON = "/usr/bin/python3"  # Debian's, which has python3-fusepy
MEGABYTES = 256
# The usual block size of real disks. A file system this small gets a smaller one by default, and a page of a mapped
# file can then be a hole where SQLite extended the file by its last byte. On a full disk the first access to it ends
# the process with SIGBUS.
BLOCK_BYTES = 4096
START_SECONDS = 180
DETACH_SECONDS = 30
CLONE_NEWNS = 0x20000  # os.CLONE_NEWNS of Python 3.12


class Disk:
    """ext4 on a loop device on a file in user space, mounted at `folder`."""

    def __init__(self, folder: Path, below: Path) -> None:
        self._folder = folder
        self._below = below
        self._device = ""

    def make(self) -> None:
        # Flush once to make the new file system durable, like that of a machine installed yesterday.
        command = ["mkfs.ext4", "-q", "-F", "-b", str(BLOCK_BYTES), str(self._below / "disk")]
        subprocess.run(command, check=True, capture_output=True)
        self.mount()

    def mount(self) -> None:
        """Check the file system, as Debian does at boot, and mount it."""
        shown = ["losetup", "--find", "--show", str(self._below / "disk")]
        self._device = subprocess.run(shown, check=True, capture_output=True, text=True).stdout.strip()
        checked = subprocess.run(["e2fsck", "-p", self._device], check=False, capture_output=True, text=True)
        if checked.returncode not in (0, 1):  # 1: repaired
            raise RuntimeError(f"the file system is beyond what a boot mends: {checked.stdout}")
        subprocess.run(["mount", "-o", "errors=remount-ro", self._device, str(self._folder)], check=True)

    def unmount(self) -> None:
        """Unmount. Processes with open files must have ended."""
        subprocess.run(["umount", str(self._folder)], check=True)
        subprocess.run(["losetup", "--detach", self._device], check=True)
        # The kernel detaches an unused device. If it were still used, two file systems would write to one disk, and the
        # one from before the power cut would damage the other.
        deadline = time.monotonic() + DETACH_SECONDS
        while subprocess.run(["losetup", self._device], check=False, capture_output=True).returncode == 0:
            if time.monotonic() > deadline:
                raise RuntimeError(f"{self._device} is still used: is {self._folder} mounted elsewhere, too?")
            time.sleep(0.05)

    def lose_cache(self) -> None:
        """Cut the power and restore it. No process may have open files."""
        self.tell("fail")  # blocks delayed writes of the kernel
        self.unmount()
        self.tell("cut")
        self.tell("work")
        self.mount()

    def tell(self, command: str) -> None:
        with (self._below / "control").open("w") as control:
            control.write(command)

    def newest_flush(self) -> tuple[int, int]:
        """Return the milliseconds when the newest flush began and ended."""
        began, ended = (self._below / "flushed").read_text().split()
        return int(began), int(ended)

    def fill(self) -> None:
        """Fill the disk to the last block."""
        name = str(self._folder / "filler")
        subprocess.run(["dd", "if=/dev/zero", f"of={name}", "bs=64K"], capture_output=True, check=False)

    def make_room(self) -> None:
        """Free the space durably: otherwise the next power cut would undo it."""
        (self._folder / "filler").unlink()
        subprocess.run(["sync", "--file-system", str(self._folder)], check=True)


def can_be_had() -> bool:
    """True if this process may mount such a disk and has all tools for it."""
    asked = subprocess.run([PYTHON, "-c", "import fusepy"], capture_output=True, check=False)
    return os.geteuid() == 0 and asked.returncode == 0 and Path("/dev/fuse").exists()


@contextmanager
def mounted(folder: Path, below: Path, megabytes: int = MEGABYTES) -> Iterator[Disk]:
    """Mount at the empty folder `folder`. Call it before starting threads: earlier threads do not see the mount."""
    program = [PYTHON, str(Path(__file__).with_name("disk_process.py")), str(below), str(megabytes)]
    # It starts before this process has mounts of its own: as the last process with the file system it would wait for
    # itself at its end.
    with subprocess.Popen(program) as process:
        try:
            deadline = time.monotonic() + START_SECONDS
            while not (below / "disk").exists():
                if process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError("the disk cannot be shown by FUSE")
                time.sleep(0.05)
            _keep_mounts_to_oneself()
            disk = Disk(folder, below)
            disk.make()
            try:
                yield disk
            finally:
                disk.unmount()
        finally:
            process.terminate()
            process.wait()
            subprocess.run(["umount", "--lazy", str(below)], capture_output=True, check=False)


def _keep_mounts_to_oneself() -> None:
    """Keep mounts private: a namespace created meanwhile, such as a container's, would hold the disk forever."""
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNS):
        raise OSError(ctypes.get_errno(), "this process gets no mount namespace of its own")
    subprocess.run(["mount", "--make-rslave", "/"], check=True)
