"""Send stores and models to targets: folders, buckets, and data sets on the Hugging Face hub."""

import hashlib
import os
import re
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from obygaze_features.core.errors import (
    AlreadyThere,
    Corrupt,
    FixInput,
    FixUsage,
)
from obygaze_features.core.file_names import check_folders_above
from obygaze_features.core.files import sha256_bytes, sync_dir
from obygaze_features.core.lazy import import_optional
from obygaze_features.core.temporary_names import read_hidden, remove_hidden
from obygaze_features.core.workspace import EXPECTED, is_url
from obygaze_features.store.atomic_files import (
    copy_file,
    has_file,
    make_hidden,
    read_finished,
    remove_tree,
    store_above,
    take_name,
    write_file,
)
from obygaze_features.store.files import FolderFiles, ListedFiles
from obygaze_features.store.layout import CLAIM, STORE_JSON
from obygaze_features.store.network import (
    AGAIN,
    HUB,
    PURPOSE,
    ObjectFiles,
    hub_errors,
    network_errors,
    object_store,
    open_remote,
    split_hub_url,
)
from obygaze_features.store.records import FileMark

# Objects of at most this size are sent in one part; nearly all files of stores are smaller.
_PART_BYTES = 2**26 + 2**20
_CLAIM_BYTES = 1000
OWN_PLACE = (
    "choose an empty target, such as a folder in this one, or a name with -features"
)
# HOST:PATH, as scp and rsync read it; one letter would be a Windows drive.
_HOST = re.compile(r"[^/:\\]*[^/:\\]{2}:(?!/?$)")


def open_target(target: str | os.PathLike[str]) -> "Target":
    """Return the target at a folder, or at an s3:// or hf:// URL."""
    place = os.fspath(target)
    problem = ""
    if EXPECTED in place:
        problem = f"{EXPECTED} is only for addresses that are read"
    elif place.startswith("s3://"):
        return BucketTarget(place.rstrip("/"))
    elif place.startswith("hf://"):
        return HubTarget(place.rstrip("/"))
    elif is_url(place):
        problem = "expected a folder, a bucket or the hub, got a web server"
    elif isinstance(target, str) and _HOST.match(place):
        problem = (
            f"files are not sent by ssh; for the folder of this name, pass ./{place}"
        )
    if problem:
        raise FixUsage(
            problem,
            where=place,
            hint="use a folder, s3://BUCKET/NAME or hf://OWNER/NAME",
        )
    return FolderTarget(Path(place))


def _inside_error(location: str, above: str) -> AlreadyThere:
    return AlreadyThere(
        f"this target is inside another store, {above}", where=location, hint=OWN_PLACE
    )


class FolderTarget:
    """A folder on this machine or on a shared disk.

    All targets have the same methods. `claim` creates the document with the seal, unless the target
    has one, and returns the document of the target. If two processes claim a target, both get the
    document of the first one. `has` compares a file at the target with a local file. `put` sends
    the local file. After `finish`, readers of the target see all changes.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.location = str(root)
        self.files = FolderFiles(root)
        check_folders_above(root / STORE_JSON)

    def claim(self, document: bytes) -> bytes:
        """Give a folder with the document the name of the claim, unless the name is taken.

        Return the document in the folder that has this name.
        """
        path = self.root / CLAIM
        self.root.mkdir(parents=True, exist_ok=True)
        made = make_hidden(path.parent)
        try:
            write_file(made / path.name, document)
            take_name(made, path.parent)
        finally:
            remove_hidden(made)
        return read_finished(path)

    def check_above(self) -> None:
        """Raise an error if a folder above the target is a store."""
        above = store_above(self.root)
        if above is not None:
            raise _inside_error(self.location, str(above))

    def names(self) -> list[str]:
        """Return the names of all files and links, without unfinished files."""
        names = []
        for name in self.files.names():
            if not any(map(read_hidden, map(Path, name.split("/")))):
                names.append(name)
        return names

    def has(self, name: str, path: Path, mark: FileMark) -> bool:
        """Return whether the target has a file of this length and SHA-256; the file is read."""
        return has_file(self.root / name, mark)

    def put(self, name: str, path: Path, mark: FileMark) -> None:
        """Copy a file to a hidden name, which is renamed after the copy is synced."""
        target = self.root / name
        target.parent.mkdir(parents=True, exist_ok=True)
        copy_file(path, target, mark)

    def remove_claim(self) -> None:
        """Remove the folder of the claim."""
        remove_tree((self.root / CLAIM).parent)
        sync_dir(self.root)

    def finish(self, message: str) -> None:
        """Remove the hidden files of killed pushes, but not of running pushes."""
        for path in list(self.root.rglob(".*")):
            hidden = read_hidden(path)
            if hidden is not None and hidden.state == "ended":
                remove_hidden(path)


def compute_etag(path: Path) -> str:
    """Return the usual ETag of an object of one part: the MD5 of the file.

    Buckets with their own encryption keys, and some other services, use different ETags.
    """
    with path.open("rb") as stream:
        md5 = partial(hashlib.md5, usedforsecurity=False)
        return hashlib.file_digest(stream, md5).hexdigest()


class BucketTarget:
    """A folder of a bucket."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.files = ObjectFiles(object_store(url), url)
        self.location = self.files.location

    def claim(self, document: bytes) -> bytes:
        """Create the object of the claim unless it exists; return the bytes of this object."""
        taken = import_optional(
            "obstore.exceptions", "remote", PURPOSE
        ).AlreadyExistsError
        with self._errors(CLAIM), suppress(taken):
            self._call("put", CLAIM, document, mode="create", use_multipart=False)
        return self.files.read(CLAIM, _CLAIM_BYTES).tobytes()

    def check_above(self) -> None:
        """Raise an error if a folder above the target is a store.

        Folders that cannot be read are skipped.
        """
        bucket, *folders = self.url.removeprefix("s3://").split("/")
        files = ObjectFiles(object_store(f"s3://{bucket}"), f"s3://{bucket}")
        for number in range(len(folders)):
            for name in (STORE_JSON, CLAIM):
                with suppress(FileNotFoundError, FixInput):
                    files.length("/".join([*folders[:number], name]))
                    above = "/".join([files.location, *folders[:number]])
                    raise _inside_error(self.location, above)

    def names(self) -> list[str]:
        """Return the names of all objects of the folder."""
        with self._errors(""):
            names = []
            for entries in self._call("list"):
                names += [entry["path"] for entry in entries]
            return names

    def has(self, name: str, path: Path, mark: FileMark) -> bool:
        """Return whether the object has the bytes of this file.

        The object is read only if its ETag is not the MD5 of the file.
        """
        try:
            head = self.files.answer(name, {"head": True}).meta
        except FileNotFoundError:
            return False
        if int(head["size"]) != mark.n_bytes:
            return False
        etag = str(head["e_tag"]).strip('"')
        if etag == compute_etag(path) and has_file(path, mark):
            return True
        sha256 = hashlib.sha256()
        for piece in ListedFiles(self.files, {name: mark}).pieces(name):
            sha256.update(piece)
        return sha256.hexdigest() == mark.sha256

    def put(self, name: str, path: Path, mark: FileMark) -> None:
        """Send an object with a checksum, which the bucket verifies."""
        with self._errors(name):
            self._call("put", name, path, chunk_size=_PART_BYTES)
        if not self.has(name, path, mark):
            raise Corrupt(
                f"{name} has a different length or checksum after it was sent",
                where=self.location,
                hint=AGAIN,
            )

    def remove_claim(self) -> None:
        """Remove the object of the claim."""
        with suppress(FileNotFoundError), self._errors(CLAIM):
            self._call("delete", CLAIM)

    def finish(self, message: str) -> None:
        """Do nothing: each object is visible as soon as it is sent."""

    def _call(self, name: str, *given: Any, **options: Any) -> Any:
        return getattr(self.files.obstore, name)(self.files.store, *given, **options)

    def _errors(self, name: str) -> Any:
        return network_errors(f"{self.location}/{name}")


class HubTarget:
    """A data set on the Hugging Face hub.

    All files are sent in one commit, which names its parent commit. The hub refuses a second commit
    with the same parent, so the files of two pushes cannot mix, and no claim is needed.
    """

    def __init__(self, url: str) -> None:
        repo, commit = split_hub_url(url)
        if commit:
            raise FixUsage("expected a data set of the hub, got a commit", where=url)
        self.location = url
        self.package = import_optional("huggingface_hub", "remote", HUB)
        self.api = self.package.HfApi()
        self.place = {"repo_id": repo, "repo_type": "dataset"}
        with hub_errors(self.package, url):
            self.api.create_repo(**self.place, private=True, exist_ok=True)
        self.files = open_remote(url)
        # The address of open files names the commit.
        self.head = self.files.address.rpartition("@")[2]
        with hub_errors(self.package, url):
            self._there = {
                entry.path: entry
                for entry in self.api.list_repo_tree(
                    **self.place, revision=self.head, recursive=True
                )
                if isinstance(entry, self.package.RepoFile)
            }
        self._operations: list[Any] = []

    def claim(self, document: bytes) -> bytes:
        """Return the document without sending it, because a data set needs no claim."""
        return document

    def check_above(self) -> None:
        """Do nothing: data sets are not nested."""

    def names(self) -> list[str]:
        """Return the names of all files except .gitattributes, which the hub adds."""
        return [name for name in self._there if name != ".gitattributes"]

    def has(self, name: str, path: Path, mark: FileMark) -> bool:
        """Return whether the data set has this file.

        The hub lists no SHA-256 for small files, so these are read.
        """
        entry = self._there.get(name)
        if entry is None or entry.size != mark.n_bytes:
            return False
        if entry.lfs:
            return bool(entry.lfs.sha256 == mark.sha256)
        data = self.files.read(name, mark.n_bytes).tobytes()
        return sha256_bytes(data) == mark.sha256

    def put(self, name: str, path: Path, mark: FileMark) -> None:
        """Add a file to the commit."""
        addition = self.package.CommitOperationAdd(name, path)
        if addition.upload_info.sha256.hex() != mark.sha256:
            raise Corrupt(
                f"{name}: length or SHA-256 differs from the list of files",
                where=str(path),
            )
        self._operations.append(addition)

    def remove_claim(self) -> None:
        """Do nothing: there is no claim."""

    def finish(self, message: str) -> None:
        """Commit the files."""
        if self._operations:
            with hub_errors(self.package, self.location):
                self.api.create_commit(
                    **self.place,
                    revision="main",
                    operations=self._operations,
                    commit_message=message,
                    parent_commit=self.head,
                )


Target = FolderTarget | BucketTarget | HubTarget
