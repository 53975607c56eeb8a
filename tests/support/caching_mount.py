# ruff: noqa: PTH102, PTH104, PTH106, PTH108, PTH208
"""A FUSE file system over a folder that caches absent names, as NFS clients do.

Started with Debian's python3, which has fusepy: BACKING MOUNT NEGATIVE_S. With the further word
`repeats`, every third request is done twice, and the second answer is given: success is reported as
"no such file" or "file exists".
"""

import os
import sys
from typing import Any

sys.path.insert(0, "/usr/lib/python3/dist-packages")
import pathlib

from fusepy import FUSE, FuseOSError, Operations

STATFS = ("bsize", "frsize", "blocks", "bfree", "bavail", "files", "ffree", "namemax")
STAT = ("mode", "nlink", "size", "uid", "gid", "ino", "atime", "mtime", "ctime")


class Passthrough(Operations):
    def __init__(self, root: str) -> None:
        self.root = root

    def __call__(self, name: str, *given: Any) -> Any:
        try:
            return super().__call__(name, *given)
        except OSError as error:
            raise FuseOSError(error.errno) from error

    def _at(self, path: str) -> str:
        return self.root + path

    def getattr(self, path: str, handle: Any = None) -> dict[str, Any]:
        stat = os.lstat(self._at(path))
        return {f"st_{name}": getattr(stat, f"st_{name}") for name in STAT}

    def readdir(self, path: str, handle: Any) -> list[str]:
        return [".", "..", *os.listdir(self._at(path))]

    def statfs(self, path: str) -> dict[str, int]:
        found = os.statvfs(self._at(path))
        return {f"f_{name}": getattr(found, f"f_{name}") for name in STATFS}

    def mkdir(self, path: str, mode: int) -> None:
        os.mkdir(self._at(path), mode)

    def rmdir(self, path: str) -> None:
        os.rmdir(self._at(path))

    def unlink(self, path: str) -> None:
        os.unlink(self._at(path))

    def rename(self, old: str, new: str) -> None:
        os.rename(self._at(old), self._at(new))

    def link(self, new: str, old: str) -> None:
        os.link(self._at(old), self._at(new))

    def open(self, path: str, flags: int) -> int:
        return os.open(self._at(path), flags)

    def create(self, path: str, mode: int, info: Any = None) -> int:
        return os.open(self._at(path), os.O_RDWR | os.O_CREAT, mode)

    def read(self, path: str, size: int, offset: int, handle: int) -> bytes:
        return os.pread(handle, size, offset)

    def write(self, path: str, data: bytes, offset: int, handle: int) -> int:
        return os.pwrite(handle, data, offset)

    def truncate(self, path: str, length: int, handle: Any = None) -> None:
        os.truncate(self._at(path), length)

    def chmod(self, path: str, mode: int) -> None:
        pathlib.Path(self._at(path)).chmod(mode)

    def release(self, path: str, handle: int) -> None:
        os.close(handle)


class RepeatsRequests(Passthrough):
    """A request whose answer was lost is repeated, as by NFS."""

    requests = 0

    def __call__(self, name: str, *given: Any) -> Any:
        answer = super().__call__(name, *given)
        if name in ("rename", "mkdir", "rmdir", "unlink", "link"):
            self.requests += 1
            if self.requests % 3 == 0:
                answer = super().__call__(name, *given)
        return answer


if __name__ == "__main__":
    kind = RepeatsRequests if "repeats" in sys.argv else Passthrough
    FUSE(
        kind(sys.argv[1]),
        sys.argv[2],
        foreground=True,
        nothreads=True,
        negative_timeout=float(sys.argv[3]),
        entry_timeout=0,
        attr_timeout=0,
        use_ino=True,
    )
