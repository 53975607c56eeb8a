"""Stores on the Hugging Face hub, as data sets: `hf://OWNER/NAME[/FOLDER][@REVISION]`."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any, Protocol
from urllib.parse import quote

from obygaze_features.core.errors import FixInput, FixUsage, ObygazeError
from obygaze_features.core.extras import need
from obygaze_features.store.files.network import LOOK, Unreachable, object_store
from obygaze_features.store.files.places import Files, ObjectFiles
from obygaze_features.store.format.schema import FileMark

PURPOSE = "the Hugging Face hub"
MOST_FILES, MOST_IN_FOLDER, MOST_BYTES = 100_000, 10_000, 20_000_000_000
STAGED_FILES, STAGED_BYTES = 256, 64_000_000
_URL = re.compile(
    r"hf://(?:datasets/)?(?P<id>[\w.-]+/[\w.-]+)(?P<folder>(?:/[\w.-]+)*)(?:@(?P<revision>[\w./-]+))?"
)


@dataclass(frozen=True)
class Repo:
    """A data set on the hub, and the folder and the revision of it that are meant."""

    id: str
    folder: str = ""
    revision: str = "main"

    @classmethod
    def parse(cls, url: str) -> Repo:
        """From an address."""
        match = _URL.fullmatch(url)
        if match is None or ".." in url:
            raise FixUsage(f"{url!r} is no address on the hub", hint="hf://OWNER/NAME")
        return cls(match["id"], match["folder"].strip("/"), match["revision"] or "main")

    def path(self, name: str) -> str:
        """The path in the repository of a file of the store."""
        return f"{self.folder}/{name}" if self.folder else name


class Hub(Protocol):
    """What of the hub is needed here; the seam behind which the network is."""

    def files(self, repo: Repo) -> Files:
        """The files of a store, for reading."""

    def listing(self, repo: Repo) -> Mapping[str, FileMark]:
        """Every file of the repository by its path; no digest where the hub knows none."""

    def create(self, repo: Repo) -> None:
        """Make the repository, unless it is there."""

    def stage(self, repo: Repo, files: Mapping[str, bytes]) -> None:
        """Send files by their paths; nobody sees them yet."""

    def commit(self, repo: Repo, removed: Sequence[str], message: str) -> None:
        """Make what was staged visible, and take files away, in one step."""


class FaceHub:
    """The hub itself, through huggingface_hub; its token is the one of `hf auth login`."""

    def __init__(self) -> None:
        self.face = need("huggingface_hub", "remote", PURPOSE)
        self.api = self.face.HfApi()
        self._staged: list[Any] = []

    def files(self, repo: Repo) -> Files:
        """Read by byte ranges, as the hub serves them."""
        endpoint = self.api.endpoint.rstrip("/")
        base = f"{endpoint}/datasets/{repo.id}/resolve/{quote(repo.revision, safe='')}"
        token = self.face.get_token()
        headers = {"default_headers": {"Authorization": f"Bearer {token}"}} if token else {}
        url = f"{base}/{repo.folder}".rstrip("/")
        return ObjectFiles(
            object_store(url, **headers), f"hf://{repo.id}/{repo.folder}".rstrip("/")
        )

    def listing(self, repo: Repo) -> Mapping[str, FileMark]:
        """The hub tells the sha256 of large files only."""
        try:
            tree = list(
                self.api.list_repo_tree(
                    repo.id, recursive=True, revision=repo.revision, repo_type="dataset"
                )
            )
        except (self.face.errors.RepositoryNotFoundError, self.face.errors.RevisionNotFoundError):
            return {}
        except Exception as error:
            raise self._told(error, repo) from error
        files = [entry for entry in tree if isinstance(entry, self.face.RepoFile)]
        return {
            entry.path: FileMark(entry.size, entry.lfs.sha256 if entry.lfs else "")
            for entry in files
        }

    def create(self, repo: Repo) -> None:
        """A new repository is private: what is in it is for its owner to judge."""
        try:
            self.api.create_repo(repo.id, repo_type="dataset", private=True, exist_ok=True)
        except Exception as error:
            raise self._told(error, repo) from error

    def stage(self, repo: Repo, files: Mapping[str, bytes]) -> None:
        """Upload contents; the hub keeps them by digest, so that nothing is sent twice."""
        operations = [
            self.face.CommitOperationAdd(path_in_repo=path, path_or_fileobj=data)
            for path, data in files.items()
        ]
        try:
            self.api.preupload_lfs_files(
                repo.id, operations, repo_type="dataset", revision=repo.revision
            )
        except Exception as error:
            raise self._told(error, repo) from error
        self._staged += operations

    def commit(self, repo: Repo, removed: Sequence[str], message: str) -> None:
        """One commit for all that was staged."""
        gone = [self.face.CommitOperationDelete(path_in_repo=path) for path in removed]
        try:
            self.api.create_commit(
                repo.id,
                [*self._staged, *gone],
                commit_message=message,
                repo_type="dataset",
                revision=repo.revision,
            )
        except Exception as error:
            raise self._told(error, repo) from error
        self._staged.clear()

    def _told(self, error: Exception, repo: Repo) -> Exception:
        """Errors of the hub in words; what is not of the hub is passed on as it is."""
        where, line = f"hf://{repo.id}", (str(error).splitlines() or [""])[0][:200]
        # Which library it speaks HTTP with depends on its version.
        of_network = type(error).__module__.partition(".")[0] in ("httpx", "httpcore", "requests")
        ours = isinstance(error, self.face.errors.HfHubHTTPError | OSError) or of_network
        if isinstance(error, ObygazeError) or not ours:
            return error
        status = getattr(getattr(error, "response", None), "status_code", None)
        if status in (401, 403):
            return FixInput("the hub refuses access", where=where, hint="hf auth login")
        if status is not None and 400 <= status < 500 and status not in (408, 429):
            return FixInput(f"the hub refuses this: {line}", where=where)
        return Unreachable(f"the hub cannot be reached: {line}", where=where, hint=LOOK)


def the_hub() -> Hub:
    """The hub that addresses mean."""
    return FaceHub()


def open_hub(url: str) -> Files:
    """The files of a store on the hub."""
    return the_hub().files(Repo.parse(url))


class HubPlace:
    """A data set on the hub, to push to. All becomes visible in one commit at the end."""

    def __init__(self, url: str, hub: Hub | None = None) -> None:
        self.location, self.repo = url, Repo.parse(url)
        self.hub = hub or the_hub()
        self.files = self.hub.files(self.repo)
        self._there: Mapping[str, FileMark] | None = None
        self._batch: dict[str, bytes] = {}
        self._removed: list[str] = []
        self._lock = Lock()

    def prepare(self, files: Mapping[str, FileMark]) -> None:
        """Refuse more than the hub takes, before anything is sent."""
        folders = Counter(name.rpartition("/")[0] for name in files)
        largest = max((mark.n_bytes for mark in files.values()), default=0)
        fullest = max(folders.values(), default=0)
        if len(files) > MOST_FILES or fullest > MOST_IN_FOLDER or largest > MOST_BYTES:
            raise FixInput(
                f"{len(files):,} files, {fullest:,} in one folder, the largest of "
                f"{largest:,} bytes: the hub takes {MOST_FILES:,}, {MOST_IN_FOLDER:,} and "
                f"{MOST_BYTES:,}",
                where=self.location,
                hint="obygaze store pack, then upload the one file",
            )
        self.hub.create(self.repo)

    def has(self, name: str, mark: FileMark) -> bool:
        """By one listing of the repository for all files."""
        with self._lock:
            if self._there is None:
                self._there = self.hub.listing(self.repo)
        return self._there.get(self.repo.path(name)) == mark

    def put(self, name: str, data: bytes, mark: FileMark) -> None:
        """Send files in batches: each batch costs the hub a few requests."""
        with self._lock:
            self._batch[self.repo.path(name)] = data
            n_bytes = sum(map(len, self._batch.values()))
            if len(self._batch) >= STAGED_FILES or n_bytes >= STAGED_BYTES:
                self._flush()

    def remove(self, name: str) -> None:
        """Take a file away with the commit."""
        if self.repo.path(name) in (self._there or {}):
            self._removed.append(self.repo.path(name))

    def settle(self, message: str) -> None:
        """Commit."""
        with self._lock:
            self._flush()
            self.hub.commit(self.repo, self._removed, message)
            self._removed.clear()

    def _flush(self) -> None:
        if self._batch:
            self.hub.stage(self.repo, self._batch)
            self._batch = {}
