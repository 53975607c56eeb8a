"""Stores on the Hugging Face hub, as data sets: `hf://OWNER/NAME[/FOLDER][@REVISION]`."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Lock
from typing import Any
from urllib.parse import quote

from obygaze_features.core.errors import FixInput, FixUsage, ObygazeError, Stopped
from obygaze_features.core.extras import need
from obygaze_features.core.files import sha256_bytes
from obygaze_features.store.format.schema import FileMark
from obygaze_features.store.remote.files import Files, read_or_none
from obygaze_features.store.remote.object_store import (
    AGAIN,
    CHECK,
    ObjectFiles,
    Unreachable,
    object_store,
)

PURPOSE = "the Hugging Face hub"
MAX_FILES, MAX_IN_FOLDER, MAX_BYTES = 100_000, 10_000, 20_000_000_000
# The hub recommends commits of less than 100 files, and cuts requests off at 60 s.
COMMIT_FILES, STAGED_BYTES = 90, 64_000_000
_COMMIT = re.compile(r"[0-9a-f]{40}")
_URL = re.compile(
    r"hf://(?:datasets/)?(?P<id>[\w.-]+/[\w.-]+)(?P<folder>(?:/[\w.-]+)*)(?:@(?P<revision>[\w./-]+))?"
)


@dataclass(frozen=True)
class Repo:
    """A data set on the hub, with a folder and a revision of it."""

    id: str
    folder: str = ""
    revision: str = "main"

    @classmethod
    def parse(cls, url: str) -> Repo:
        """Parse an hf:// address."""
        match = _URL.fullmatch(url)
        if match is None or ".." in url:
            raise FixUsage(f"invalid address {url!r}", hint="hf://OWNER/NAME")
        return cls(match["id"], match["folder"].strip("/"), match["revision"] or "main")

    def path(self, name: str) -> str:
        """Return the path in the repository of a file of the store."""
        return f"{self.folder}/{name}" if self.folder else name

    @property
    def zip_name(self) -> str:
        """The name of a packed store there."""
        return (self.folder or self.id).rpartition("/")[2] + ".zip"


class HuggingFaceHub:
    """The requests to the hub that are needed here; the token is the one of `hf auth login`."""

    def __init__(self) -> None:
        self.package = need("huggingface_hub", "remote", PURPOSE)
        self.api = self.package.HfApi()
        self._staged: list[Any] = []

    def head(self, repo: Repo) -> str:
        """Return the id of the last commit of a revision; "" where there is no such repository."""
        if _COMMIT.fullmatch(repo.revision):
            return repo.revision
        errors = self.package.errors
        with self._errors(repo):
            try:
                found = self.api.dataset_info(repo.id, revision=repo.revision, expand=["sha"])
            except (errors.RepositoryNotFoundError, errors.RevisionNotFoundError):
                return ""
        return str(found.sha or "")

    def files(self, repo: Repo) -> Files:
        """Return the files of a store at its last commit, for reading by byte ranges.

        A commit that is made later changes none of them.
        """
        repo = replace(repo, revision=self.head(repo) or repo.revision)
        endpoint = self.api.endpoint.rstrip("/")
        base = f"{endpoint}/datasets/{repo.id}/resolve/{quote(repo.revision, safe='')}"
        token = self.package.get_token()
        headers = {"default_headers": {"Authorization": f"Bearer {token}"}} if token else {}
        store = object_store(f"{base}/{repo.folder}".rstrip("/"), **headers)
        return ObjectFiles(store, f"hf://{repo.id}/{repo.folder}".rstrip("/"))

    def listing(self, repo: Repo) -> Mapping[str, FileMark]:
        """Return the files of a repository; the hub lists the sha256 of large ones only."""
        errors = self.package.errors
        with self._errors(repo):
            try:
                tree = list(
                    self.api.list_repo_tree(
                        repo.id, recursive=True, revision=repo.revision, repo_type="dataset"
                    )
                )
            except (errors.RepositoryNotFoundError, errors.RevisionNotFoundError):
                return {}
        return {
            entry.path: FileMark(entry.size, entry.lfs.sha256 if entry.lfs else "")
            for entry in tree
            if isinstance(entry, self.package.RepoFile)
        }

    def create(self, repo: Repo) -> None:
        """Create a repository unless it exists; a new one is private."""
        with self._errors(repo):
            self.api.create_repo(repo.id, repo_type="dataset", private=True, exist_ok=True)

    def stage(self, repo: Repo, files: Mapping[str, bytes | Path]) -> None:
        """Upload contents, not yet visible; the hub keeps them by digest, nothing is sent twice."""
        operations = [
            self.package.CommitOperationAdd(path_in_repo=path, path_or_fileobj=data)
            for path, data in files.items()
        ]
        with self._errors(repo):
            self.api.preupload_lfs_files(
                repo.id, operations, repo_type="dataset", revision=repo.revision
            )
        self._staged += operations

    def commit(self, repo: Repo, removed: Sequence[str], message: str, parent: str) -> str:
        """Make what was staged visible, and remove files, in one commit; return its id.

        It is an error if the last commit is not `parent`.
        """
        gone = [self.package.CommitOperationDelete(path_in_repo=path) for path in removed]
        with self._errors(repo):
            made = self.api.create_commit(
                repo.id,
                [*self._staged, *gone],
                commit_message=message,
                repo_type="dataset",
                revision=repo.revision,
                parent_commit=parent or None,
            )
        self._staged.clear()
        return str(made.oid)

    @contextmanager
    def _errors(self, repo: Repo) -> Iterator[None]:
        """Convert errors of the hub to ObygazeError; other errors are not changed."""
        try:
            yield
        except ObygazeError:
            raise
        except Exception as error:
            explained = self._explained(error, f"hf://{repo.id}")
            if explained is None:
                raise
            raise explained from error

    def _explained(self, error: Exception, where: str) -> ObygazeError | None:
        line = (str(error).splitlines() or [""])[0][:200]
        # The HTTP library of huggingface_hub depends on its version.
        of_network = type(error).__module__.partition(".")[0] in ("httpx", "httpcore", "requests")
        if not (of_network or isinstance(error, self.package.errors.HfHubHTTPError | OSError)):
            return None
        status = getattr(getattr(error, "response", None), "status_code", None)
        if status in (401, 403):
            return FixInput("the hub denied access", where=where, hint="hf auth login")
        if status in (409, 412):
            what = "another process changed this repository while files were sent"
            return Stopped(what, where=where, hint=AGAIN)
        if status is not None and 400 <= status < 500 and status not in (408, 429):
            return FixInput(f"the hub rejected the request: {line}", where=where)
        return Unreachable(f"the hub cannot be reached: {line}", where=where, hint=CHECK)


def the_hub() -> HuggingFaceHub:
    """Return the hub for hf:// addresses."""
    return HuggingFaceHub()


def open_hub(url: str) -> Files:
    """Return the files of a store on the hub."""
    return the_hub().files(Repo.parse(url))


class HubTarget:
    """A data set on the hub, to push to.

    Files are committed by about 100, the documents in the last commit. Each commit names the one
    before it, so that two pushes at once cannot overwrite each other's lists.
    """

    def __init__(self, url: str) -> None:
        self.location, self.repo = url, Repo.parse(url)
        self.hub = the_hub()
        self.files = self.hub.files(self.repo)
        self._pinned = self.repo
        self._there: Mapping[str, FileMark] | None = None
        self._batch: dict[str, bytes | Path] = {}
        self._n_bytes = 0
        self._removed: list[str] = []
        self._head, self._n_staged = "", 0
        self._lock = Lock()

    def prepare(self, files: Mapping[str, FileMark]) -> None:
        """Raise an error for more files than the hub allows, before any is sent."""
        folders = Counter(name.rpartition("/")[0] for name in files)
        largest = max((mark.n_bytes for mark in files.values()), default=0)
        fullest = max(folders.values(), default=0)
        if len(files) > MAX_FILES or fullest > MAX_IN_FOLDER or largest > MAX_BYTES:
            raise FixInput(
                f"the hub allows at most {MAX_FILES:,} files, {MAX_IN_FOLDER:,} in one folder, "
                f"each of at most {MAX_BYTES:,} bytes; this store has {len(files):,} files, "
                f"{fullest:,} in one folder, the largest of {largest:,} bytes",
                where=self.location,
                hint="obygaze store pack, then upload the one file",
            )
        self.hub.create(self.repo)
        self._head = self.hub.head(self.repo)
        self._pinned = replace(self.repo, revision=self._head or self.repo.revision)
        self.files = self.hub.files(self._pinned)

    def has(self, name: str, mark: FileMark) -> bool:
        """Look in the listing of the repository, which is one request for all files."""
        with self._lock:
            if self._there is None:
                self._there = self.hub.listing(self._pinned)
        return self._there.get(self.repo.path(name)) == mark

    def put(self, name: str, data: bytes | Path, mark: FileMark) -> None:
        """Send files in batches: each batch costs the hub a few requests."""
        with self._lock:
            self._batch[self.repo.path(name)] = data
            self._n_bytes += mark.n_bytes
            if len(self._batch) >= COMMIT_FILES or self._n_bytes >= STAGED_BYTES:
                self._flush()

    def remove(self, name: str) -> None:
        """Remove a file with the commit."""
        if self.repo.path(name) in (self._there or {}):
            self._removed.append(self.repo.path(name))

    def update(self, name: str, change: Callable[[bytes | None], bytes | None]) -> bytes | None:
        """Replace a file; the commit fails if another process has made one meanwhile."""
        new = change(read_or_none(self.files, name))
        if new is None:
            self.remove(name)
        else:
            self.put(name, new, FileMark(len(new), sha256_bytes(new)))
        return new

    def settle(self, message: str) -> None:
        """Commit the rest."""
        with self._lock:
            self._flush()
            if self._n_staged or self._removed:
                self._commit(message)

    def _flush(self) -> None:
        if self._batch:
            self.hub.stage(self.repo, self._batch)
            self._n_staged += len(self._batch)
            self._batch, self._n_bytes = {}, 0
        if self._n_staged >= COMMIT_FILES:
            self._commit(f"Upload {self._n_staged} files")

    def _commit(self, message: str) -> None:
        self._head = self.hub.commit(self.repo, self._removed, message, self._head)
        self._removed, self._n_staged = [], 0
