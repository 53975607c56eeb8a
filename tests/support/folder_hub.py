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
        self.root = root
        self.staged: dict[str, bytes] = {}
        self.sent: list[str] = []
        self.messages: list[str] = []
        self.breaks_after: int | None = None

    def _at(self, repo: Repo) -> Path:
        return self.root / repo.id

    def files(self, repo: Repo) -> Files:
        return FolderFiles(self._at(repo) / repo.folder)

    def listing(self, repo: Repo) -> Mapping[str, FileMark]:
        root = self._at(repo)
        found = {}
        for path in root.rglob("*"):
            if path.is_file():
                data = path.read_bytes()
                sha = hashlib.sha256(data).hexdigest() if len(data) > 90 else ""
                found[path.relative_to(root).as_posix()] = FileMark(len(data), sha)
        return found

    def create(self, repo: Repo) -> None:
        self._at(repo).mkdir(parents=True, exist_ok=True)

    def stage(self, repo: Repo, files: Mapping[str, bytes | Path]) -> None:
        for path, data in files.items():
            if self.breaks_after == len(self.sent):
                raise ConnectionError("the hub went away")
            self.sent.append(path)
            self.staged[path] = data.read_bytes() if isinstance(data, Path) else bytes(data)

    def head(self, repo: Repo) -> str:
        return f"{len(self.messages):040x}"

    def commit(self, repo: Repo, removed: Sequence[str], message: str, parent: str) -> str:
        if parent != self.head(repo):
            raise Stopped("another commit came between")
        for path, data in self.staged.items():
            (self._at(repo) / path).parent.mkdir(parents=True, exist_ok=True)
            (self._at(repo) / path).write_bytes(data)
        for path in removed:
            (self._at(repo) / path).unlink()
        self.staged.clear()
        self.messages.append(message)
        return self.head(repo)
