"""Where stores and models are sent: a folder, a bucket, a data set on the Hugging Face hub."""

import hashlib
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

from obygaze_features.core.console import human
from obygaze_features.core.errors import (
    AlreadyThere,
    Corrupt,
    FixInput,
    FixUsage,
    without_secrets,
)
from obygaze_features.core.file_names import check_folders_above
from obygaze_features.core.files import (
    canonical_json,
    name_in_errors,
    parse_json,
    sha256_bytes,
    sha256_file,
    sync_dir,
)
from obygaze_features.core.lazy import need
from obygaze_features.core.leftovers import hidden_name, remove_hidden
from obygaze_features.core.shell import shell_word
from obygaze_features.core.workspace import EXPECTED, is_url
from obygaze_features.store.encoding import HashedStream
from obygaze_features.store.files import Files, FolderFiles, ListedFiles
from obygaze_features.store.layout import CLAIM, STORE_JSON
from obygaze_features.store.network import (
    AGAIN,
    HUB,
    PURPOSE,
    ObjectFiles,
    explained,
    hub_errors,
    network_error,
    object_store,
    open_remote,
    split_hub_url,
)
from obygaze_features.store.placing import (
    make_hidden,
    new_file,
    read_finished,
    remove_tree,
    store_above,
    take_name,
    write_file,
)
from obygaze_features.store.records import FileMark

HUB_FILE_BYTES = 20_000_000_000
# The hub recommends commits of less than 100 files.
COMMIT_FILES = 90
# The hub itself adds it to a new data set.
GIT_ATTRIBUTES = ".gitattributes"
_COPY_BYTES = 2**22
# Objects are sent in parts of this size, by which their ETag is computed here too.
_PART_BYTES = 5 * 2**20
_CLAIM_BYTES = 1000
OWN_PLACE = "a place of its own, such as a folder in this one, or a name with -features"
# What scp and rsync take for a machine; one letter would be a Windows drive.
_HOST = re.compile(r"[^/:\\]*[^/:\\]{2}:(?!/?$)")


class Target(Protocol):
    """A place to which a store is sent, file by file."""

    location: str

    def claim(self, seal: str) -> str:
        """Put the document that names the seal to which this place belongs; return its seal.

        It is put only where none is, so that of two processes one is first.
        """

    def check_above(self) -> None:
        """Raise an error if this place is inside that of another store or model."""

    def files(self) -> Files:
        """Return the files that are there, for reading."""

    def names(self) -> list[str]:
        """Return the names of all files that are there."""

    def has(self, name: str, path: Path, mark: FileMark) -> bool:
        """Return whether the file of a path is there, with this length and SHA-256."""

    def put(self, name: str, path: Path, mark: FileMark) -> None:
        """Send a file, in place of one that is there."""

    def remove(self, name: str) -> None:
        """Remove a file that is there."""

    def finish(self, message: str) -> None:
        """Make everything visible that was sent or removed before."""


def open_target(target: str | os.PathLike[str]) -> Target:
    """Return the place of a folder, or of an s3:// or hf:// URL."""
    place = os.fspath(target)
    if EXPECTED in place:
        raise FixUsage(
            f"{EXPECTED} stands after the address of a store to read, not of one to send to",
            where=place,
            hint=place.partition(EXPECTED)[0],
        )
    if place.startswith("s3://"):
        return BucketTarget(place.rstrip("/"))
    if place.startswith("hf://"):
        return HubTarget(place.rstrip("/"))
    if is_url(place):
        raise FixUsage(
            "files cannot be sent to a web server",
            where=place,
            hint="a folder, s3://BUCKET/NAME or hf://OWNER/NAME",
        )
    if isinstance(target, str) and _HOST.match(place):
        raise FixUsage(
            "files are not sent by ssh",
            where=place,
            hint=f"rsync -a FOLDER/ {shell_word(place)}; or ./{place} for a folder here",
        )
    return FolderTarget(Path(place))


def _claim_of(seal: str) -> bytes:
    return canonical_json({"format": "obygaze-claim", "seal": seal})


def _seal_of_claim(data: bytes) -> str:
    """Return the seal that a document names; "" if it names none."""
    with suppress(ValueError):
        claim = parse_json(data)
        if isinstance(claim, dict):
            return str(claim.get("seal", ""))
    return ""


def _inside(location: str, above: str) -> AlreadyThere:
    return AlreadyThere(
        f"this place is inside another store, {above}", where=location, hint=OWN_PLACE
    )


class FolderTarget:
    """A folder on this machine, or on a disk of others."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.location = str(root)
        check_folders_above(root / STORE_JSON)

    def claim(self, seal: str) -> str:
        """Give a folder with the document its name, which fails where the name is taken."""
        folder = self.root / CLAIM.partition("/")[0]
        self.root.mkdir(parents=True, exist_ok=True)
        made = make_hidden(folder)
        try:
            write_file(made / Path(CLAIM).name, _claim_of(seal))
            take_name(made, folder)
        finally:
            remove_hidden(made)
        return _seal_of_claim(read_finished(self.root / CLAIM))

    def check_above(self) -> None:
        """Look at the folders above."""
        above = store_above(self.root)
        if above is not None:
            raise _inside(self.location, str(above))

    def files(self) -> Files:
        """Return the files that are there."""
        return FolderFiles(self.root)

    def names(self) -> list[str]:
        """Return the names of all files that are there; links are refused."""
        return FolderFiles(self.root).names() or []

    def has(self, name: str, path: Path, mark: FileMark) -> bool:
        """Read the file and compare it."""
        return has_file(self.root / name, mark)

    def put(self, name: str, path: Path, mark: FileMark) -> None:
        """Copy a file beside its name; the copy gets the name when it is on the disk."""
        target = self.root / name
        target.parent.mkdir(parents=True, exist_ok=True)
        with path.open("rb") as stream:
            pieces = iter(lambda: stream.read(_COPY_BYTES), b"")
            write_pieces(pieces, target, mark, str(path))

    def remove(self, name: str) -> None:
        """Remove what a killed command left, or the folder of the document of `claim`."""
        path = self.root / name
        if name == CLAIM:
            remove_tree(path.parent)
        else:
            remove_hidden(path)
        sync_dir(self.root)

    def finish(self, message: str) -> None:
        """Do nothing: each file was visible at once."""


def has_file(path: Path, mark: FileMark) -> bool:
    """Return whether a file of this machine, and no link, has a length and a SHA-256."""
    try:
        if path.is_symlink() or path.stat().st_size != mark.n_bytes:
            return False
        return hash_of(path) == mark
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return False


def hash_of(path: Path) -> FileMark:
    """Return the length and the SHA-256 of a file."""
    return FileMark(path.stat().st_size, sha256_file(path))


def write_pieces(
    pieces: Iterator[Any],
    target: Path,
    mark: FileMark,
    where: str,
    folder: Path | None = None,
) -> None:
    """Write a file of pieces; it gets its name if it has the length and the SHA-256.

    Until then it is in a folder, by default that of the target.
    """
    part = hidden_name((folder or target.parent) / target.name)
    try:
        with name_in_errors(target), new_file(part) as stream:
            hashed = HashedStream(stream)
            for piece in pieces:
                hashed.write(piece)
        if hashed.mark() != mark:
            raise Corrupt(
                f"{target.name} is not the file that store.json lists",
                where=where,
            )
        Path(part).replace(target)
    finally:
        part.unlink(missing_ok=True)
    sync_dir(target.parent)


def etag_of(path: Path) -> str:
    """Return the ETag that a bucket gives a file: its MD5, or that of the MD5 sums of its parts.

    Buckets that encrypt with keys of their own, and some that are not Amazon's, give another one.
    """
    sums = []
    with path.open("rb") as stream:
        while part := stream.read(_PART_BYTES):
            sums.append(hashlib.md5(part, usedforsecurity=False))
    if len(sums) == 1:
        return sums[0].hexdigest()
    of_sums = b"".join(part_sum.digest() for part_sum in sums)
    total = hashlib.md5(of_sums, usedforsecurity=False).hexdigest()
    return f"{total}-{len(sums)}" if sums else total


class BucketTarget:
    """A folder of a bucket."""

    def __init__(self, url: str) -> None:
        self.obstore = need("obstore", "remote", PURPOSE)
        self.taken = need("obstore.exceptions", "remote", PURPOSE).AlreadyExistsError
        self.url = url
        self.location = without_secrets(url)
        self.store = object_store(url)

    def claim(self, seal: str) -> str:
        """Create the object, which fails where it is; what is there then decides."""
        where = f"{self.location}/{CLAIM}"
        with suppress(self.taken), self._errors(where):
            options = {"mode": "create", "use_multipart": False}
            self.obstore.put(self.store, CLAIM, _claim_of(seal), **options)
        return _seal_of_claim(self.files().read(CLAIM, _CLAIM_BYTES).tobytes())

    def check_above(self) -> None:
        """Look at the folders above in this bucket, as far as these may be read."""
        bucket, _, path = self.url.removeprefix("s3://").partition("/")
        files = ObjectFiles(object_store(f"s3://{bucket}"), f"s3://{bucket}")
        while path:
            path = path.rpartition("/")[0]
            for name in (STORE_JSON, CLAIM):
                with suppress(FileNotFoundError, FixInput):
                    files.length(f"{path}/{name}".lstrip("/"))
                    raise _inside(self.location, f"s3://{bucket}/{path}".rstrip("/"))

    def files(self) -> Files:
        """Return the files that are there."""
        return ObjectFiles(self.store, self.url)

    def names(self) -> list[str]:
        """Return the names of all objects of the folder."""
        with self._errors(self.location):
            names: list[str] = []
            for entries in self.obstore.list(self.store):
                names.extend(entry["path"] for entry in entries)
            return names

    def has(self, name: str, path: Path, mark: FileMark) -> bool:
        """Compare the length and the ETag of an object; read it where the ETag is another one."""
        try:
            with self._errors(f"{self.location}/{name}"):
                answer = self.obstore.get(self.store, name, options={"head": True})
        except FileNotFoundError:
            return False
        if int(answer.meta["size"]) != mark.n_bytes:
            return False
        etag = str(answer.meta["e_tag"]).strip('"')
        if etag == etag_of(path) and has_file(path, mark):
            return True
        sha256 = hashlib.sha256()
        for piece in ListedFiles(self.files(), {name: mark}).pieces(name):
            sha256.update(piece)
        return sha256.hexdigest() == mark.sha256

    def put(self, name: str, path: Path, mark: FileMark) -> None:
        """Send an object; the bucket compares its bytes with the checksum that comes with them."""
        with self._errors(f"{self.location}/{name}"):
            self.obstore.put(self.store, name, path, chunk_size=_PART_BYTES)
        if not self.has(name, path, mark):
            raise Corrupt(
                f"{name} has another length or checksum after it was sent",
                where=self.location,
                hint=AGAIN,
            )

    def remove(self, name: str) -> None:
        """Remove an object."""
        with suppress(FileNotFoundError), self._errors(f"{self.location}/{name}"):
            self.obstore.delete(self.store, name)

    def finish(self, message: str) -> None:
        """Do nothing: each object was visible at once."""

    @contextmanager
    def _errors(self, where: str) -> Iterator[None]:
        """Convert errors of obstore, but not those of a missing file and of one that is there."""
        try:
            yield
        except self.taken:
            raise
        except network_error() as error:
            raise explained(error, where) from error


class HubTarget:
    """A data set on the hub; each commit names the one before it, so that two pushes cannot mix."""

    def __init__(self, url: str) -> None:
        self.repo, commit = split_hub_url(url)
        if commit:
            raise FixUsage("files cannot be sent to a commit", where=url)
        self.package = need("huggingface_hub", "remote", HUB)
        self.url = url
        self.location = url
        self.api = self.package.HfApi()
        self.place = {
            "repo_id": self.repo,
            "repo_type": "dataset",
            "revision": "main",
        }
        with hub_errors(self.package, self.location):
            self.api.create_repo(
                self.repo, repo_type="dataset", private=True, exist_ok=True
            )
            info = self.api.repo_info(**self.place, expand=["sha"])
        self._head = str(info.sha or "")
        self._marks = self._listing()
        self._additions: dict[str, Any] = {}
        self._deletions: list[Any] = []

    def claim(self, seal: str) -> str:
        """Put the document into the next commit, which fails where another one came first."""
        if CLAIM in self._marks:
            return _seal_of_claim(self.files().read(CLAIM, _CLAIM_BYTES).tobytes())
        data = _claim_of(seal)
        self._add(CLAIM, data, FileMark(len(data), sha256_bytes(data)))
        return seal

    def check_above(self) -> None:
        """Do nothing: a data set is inside no other one."""

    def files(self) -> Files:
        """Return the files at the last commit."""
        return open_remote(self.url)

    def names(self) -> list[str]:
        """Return the names of all files of the data set."""
        return [name for name in self._marks if name != GIT_ATTRIBUTES]

    def has(self, name: str, path: Path, mark: FileMark) -> bool:
        """Compare with the listing; small files, of which it has no SHA-256, are read."""
        listed = self._marks.get(name)
        if listed is None or listed == mark or listed.n_bytes != mark.n_bytes:
            return listed == mark
        data = self.files().read(name, mark.n_bytes).tobytes()
        return not listed.sha256 and sha256_bytes(data) == mark.sha256

    def put(self, name: str, path: Path, mark: FileMark) -> None:
        """Add a file to the next commit; about a hundred files are one commit."""
        if mark.n_bytes > HUB_FILE_BYTES:
            raise FixInput(
                f"the hub allows files of at most {human(HUB_FILE_BYTES)}, {name} has"
                f" {human(mark.n_bytes)}",
                where=self.location,
            )
        self._add(name, path, mark)
        if len(self._additions) >= COMMIT_FILES:
            self.finish(f"Upload {len(self._additions)} files")

    def _add(self, name: str, content: Path | bytes, mark: FileMark) -> None:
        self._marks[name] = mark
        self._additions[name] = self.package.CommitOperationAdd(
            path_in_repo=name, path_or_fileobj=content
        )

    def remove(self, name: str) -> None:
        """Remove a file with the next commit, or do not send it."""
        if self._marks.pop(name, None) is None or self._additions.pop(name, None):
            return
        operation = self.package.CommitOperationDelete(path_in_repo=name)
        self._deletions.append(operation)

    def finish(self, message: str) -> None:
        """Commit what was sent and removed."""
        operations = [*self._deletions, *self._additions.values()]
        if not operations:
            return
        with hub_errors(self.package, self.location):
            commit = self.api.create_commit(
                operations=operations,
                commit_message=message,
                parent_commit=self._head or None,
                **self.place,
            )
        self._head = str(commit.oid)
        self._additions = {}
        self._deletions = []

    def _listing(self) -> dict[str, FileMark]:
        """Return the files at the last commit."""
        at_commit = {**self.place, "revision": self._head or "main"}
        with hub_errors(self.package, self.location):
            tree = list(self.api.list_repo_tree(**at_commit, recursive=True))
        marks = {}
        for entry in tree:
            if isinstance(entry, self.package.RepoFile):
                sha256 = entry.lfs.sha256 if entry.lfs else ""
                marks[entry.path] = FileMark(entry.size, sha256)
        return marks
