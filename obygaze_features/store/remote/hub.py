"""Stores on the Hugging Face hub, as data sets: `hf://OWNER/NAME[/FOLDER][@REVISION]`."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any, Self
from urllib.parse import quote

from obygaze_features.core.console import human
from obygaze_features.core.errors import (
    FixInput,
    FixUsage,
    ObygazeError,
    Stopped,
    first_line,
)
from obygaze_features.core.lazy import need
from obygaze_features.store.format.schema import FileMark
from obygaze_features.store.remote.files import Files, Target
from obygaze_features.store.remote.object_store import (
    AGAIN,
    CHECK,
    ObjectFiles,
    Unreachable,
    object_store,
)

PURPOSE = "the Hugging Face hub"
MAX_BYTES = 20_000_000_000
# The hub recommends commits of less than 100 files, and cuts requests off at 60 s.
COMMIT_FILES = 90
STAGED_BYTES = 64_000_000
# What huggingface_hub sends its requests with, one or two of these by its version.
HTTP_LIBRARIES = ("httpx", "httpx2", "httpcore", "httpcore2", "requests")
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
    def parse(cls, url: str) -> Self:
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
    """The requests to the hub that are needed for a data set; `hf auth login` sets the token."""

    def __init__(self, repo: Repo) -> None:
        self.package = need("huggingface_hub", "remote", PURPOSE)
        self.repo = repo
        self.api = self.package.HfApi()
        self.revision = {
            "repo_id": repo.id,
            "repo_type": "dataset",
            "revision": repo.revision,
        }
        self._staged: list[Any] = []

    def head(self) -> str:
        """Return the id of the last commit of the revision; "" where there is no repository."""
        if _COMMIT.fullmatch(self.repo.revision):
            return self.repo.revision
        with self._errors(), suppress(*self._absent):
            info = self.api.repo_info(**self.revision, expand=["sha"])
            return str(info.sha or "")
        return ""

    def files(self, commit: str) -> Files:
        """Return the files of a store at a commit, for reading by byte ranges."""
        repo = self.repo
        endpoint = self.api.endpoint.rstrip("/")
        revision = quote(commit or repo.revision, safe="")
        token = self.package.get_token()
        headers = (
            {"default_headers": {"Authorization": f"Bearer {token}"}} if token else {}
        )
        base = f"{endpoint}/datasets/{repo.id}/resolve/{revision}/{repo.folder}"
        store = object_store(base.rstrip("/"), **headers)
        return ObjectFiles(store, f"hf://{repo.id}/{repo.folder}".rstrip("/"))

    def listing(self, commit: str) -> Mapping[str, FileMark]:
        """Return the files at a commit; the hub lists the sha256 of large ones only."""
        at_commit = {**self.revision, "revision": commit or self.repo.revision}
        tree: list[Any] = []
        with self._errors(), suppress(*self._absent):
            tree = list(self.api.list_repo_tree(**at_commit, recursive=True))
        return {
            entry.path: FileMark(entry.size, entry.lfs.sha256 if entry.lfs else "")
            for entry in tree
            if isinstance(entry, self.package.RepoFile)
        }

    def create(self) -> None:
        """Create the repository unless it exists; a new one is private."""
        with self._errors():
            self.api.create_repo(
                self.repo.id, repo_type="dataset", private=True, exist_ok=True
            )

    def stage(self, files: Mapping[str, bytes | Path]) -> None:
        """Upload contents, not yet visible; the hub keeps them by digest, nothing is sent twice."""
        operations = [
            self.package.CommitOperationAdd(path_in_repo=path, path_or_fileobj=data)
            for path, data in files.items()
        ]
        with self._errors():
            self.api.preupload_lfs_files(additions=operations, **self.revision)
        self._staged += operations

    def commit(self, removed: Sequence[str], message: str, parent: str) -> str:
        """Make what was staged visible, and remove files, in one commit; return its id.

        It is an error if the last commit is not `parent`.
        """
        gone = [
            self.package.CommitOperationDelete(path_in_repo=path) for path in removed
        ]
        with self._errors():
            commit = self.api.create_commit(
                operations=[*self._staged, *gone],
                commit_message=message,
                parent_commit=parent or None,
                **self.revision,
            )
        self._staged.clear()
        return str(commit.oid)

    @property
    def _absent(self) -> tuple[type[Exception], ...]:
        errors = self.package.errors
        return errors.RepositoryNotFoundError, errors.RevisionNotFoundError

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Convert errors of the hub to ObygazeError; other errors are not changed."""
        try:
            yield
        except Exception as error:
            # The HTTP library of huggingface_hub depends on its version.
            library = type(error).__module__.partition(".")[0]
            is_known = isinstance(error, self.package.errors.HfHubHTTPError | OSError)
            if not (is_known or library in HTTP_LIBRARIES):
                raise
            raise self._explained(error) from error

    def _explained(self, error: Exception) -> ObygazeError:
        where = f"hf://{self.repo.id}"
        line = first_line(error)
        status = getattr(getattr(error, "response", None), "status_code", None)
        if status in (401, 403):
            return FixInput("the hub denied access", where=where, hint="hf auth login")
        if status in (409, 412):
            problem = "another process changed this repository while files were sent"
            return Stopped(problem, where=where, hint=AGAIN)
        if status is not None and 400 <= status < 500 and status not in (408, 429):
            return FixInput(f"the hub rejected the request: {line}", where=where)
        return Unreachable(
            f"the hub cannot be reached: {line}", where=where, hint=CHECK
        )


def open_hub(url: str) -> Files:
    """Return the files of a store on the hub, at its last commit: a later one changes none."""
    hub = HuggingFaceHub(Repo.parse(url))
    return hub.files(hub.head())


class HubTarget(Target):
    """A data set on the hub, to push to.

    Files are committed by about 100, the documents in the last commit. Each commit names the one
    before it, so that two pushes at once cannot overwrite each other's lists.
    """

    def __init__(self, url: str) -> None:
        self.location = url
        self.repo = Repo.parse(url)
        self.hub = HuggingFaceHub(self.repo)
        self._batch: dict[str, bytes | Path] = {}
        self._n_bytes = self._n_staged = 0
        self._removed: list[str] = []
        self._lock = Lock()

    def prepare(self, files: Mapping[str, FileMark]) -> None:
        """Raise an error for a file that is too large for the hub, before any is sent."""
        largest = max((mark.n_bytes for mark in files.values()), default=0)
        if largest > MAX_BYTES:
            raise FixInput(
                f"the hub allows files of at most {human(MAX_BYTES)}, the largest has "
                f"{human(largest)}",
                where=self.location,
                hint="obygaze store subset makes stores of some films, or another place",
            )
        self.hub.create()
        self._head = self.hub.head()
        self.files = self.hub.files(self._head)
        self._there = self.hub.listing(self._head)

    def has(self, name: str, mark: FileMark) -> bool:
        """Look in the listing of the repository, which is one request for all files."""
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
        if self.repo.path(name) in self._there:
            self._removed.append(self.repo.path(name))

    def settle(self, message: str) -> None:
        """Commit the rest."""
        with self._lock:
            self._flush()
            if self._n_staged or self._removed:
                self._commit(message)

    def _flush(self) -> None:
        if self._batch:
            self.hub.stage(self._batch)
            self._n_staged += len(self._batch)
            self._batch = {}
            self._n_bytes = 0
        if self._n_staged >= COMMIT_FILES:
            self._commit(f"Upload {self._n_staged} files")

    def _commit(self, message: str) -> None:
        self._head = self.hub.commit(self._removed, message, self._head)
        self._removed = []
        self._n_staged = 0
