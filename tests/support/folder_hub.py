"""The hub as tests need it: a folder on this machine behind the seam of the real one."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from obygaze_features.core.errors import Stopped
from obygaze_features.store.format.schema import FileMark
from obygaze_features.store.remote.files import Files, FolderFiles
from obygaze_features.store.remote.hub import Repo


class FolderHub:
    """Repositories are folders; what is staged is seen only once it is committed.

    As on the hub, only files of a certain size have a sha256 in listings.
    """

    def __init__(self, root: Path) -> None:
        self.root, self.repo = root, Repo("")
        self.staged: dict[str, bytes] = {}
        self.sent: list[str] = []
        self.messages: list[str] = []
        self.breaks_after: int | None = None

    def of(self, repo: Repo) -> FolderHub:
        """Use another repository from now on."""
        self.repo = repo
        return self

    @property
    def _place(self) -> Path:
        return self.root / self.repo.id

    def files(self, commit: str) -> Files:
        return FolderFiles(self._place / self.repo.folder)

    def listing(self, commit: str) -> Mapping[str, FileMark]:
        root = self._place
        found = {}
        for path in root.rglob("*"):
            if path.is_file():
                data = path.read_bytes()
                sha = hashlib.sha256(data).hexdigest() if len(data) > 90 else ""
                found[path.relative_to(root).as_posix()] = FileMark(len(data), sha)
        return found

    def create(self) -> None:
        self._place.mkdir(parents=True, exist_ok=True)

    def stage(self, files: Mapping[str, bytes | Path]) -> None:
        for path, data in files.items():
            if self.breaks_after == len(self.sent):
                raise ConnectionError("the hub went away")
            self.sent.append(path)
            self.staged[path] = (
                data.read_bytes() if isinstance(data, Path) else bytes(data)
            )

    def head(self) -> str:
        return f"{len(self.messages):040x}"

    def commit(self, removed: Sequence[str], message: str, parent: str) -> str:
        if parent != self.head():
            raise Stopped("another commit came between")
        for path, data in self.staged.items():
            (self._place / path).parent.mkdir(parents=True, exist_ok=True)
            (self._place / path).write_bytes(data)
        for path in removed:
            (self._place / path).unlink()
        self.staged.clear()
        self.messages.append(message)
        return self.head()
