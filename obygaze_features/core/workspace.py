"""The workspace: the folder that contains manifests, stores, runs and models by name."""

import os
import re
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Self, TypeAlias

from obygaze_features.core import system
from obygaze_features.core.console import few
from obygaze_features.core.errors import FixUsage, NotFound, near, remove_secrets
from obygaze_features.core.file_names import check_new_name
from obygaze_features.core.files import VIDEO_SUFFIXES
from obygaze_features.core.shell import shell_word

PathLike: TypeAlias = str | os.PathLike[str]
URL_SCHEMES = ("http://", "https://", "s3://", "hf://")
KINDS = (
    "manifests",
    "stores",
    "runs",
    "models",
    "texts",
    "backbones",
    "indexes",
    "segments",
)
# The document of a store.
STORE = "store.json"
# File systems allow 255 bytes; .toml is added.
MAX_NAME_BYTES = 250
# A location may end with this text and the expected sha256 of the seal.
EXPECTED = "#sha256="
# A scheme of one letter would be a Windows drive.
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")


def is_url(name: str) -> bool:
    """Return whether a name is a URL rather than a path."""
    return _SCHEME.match(name) is not None


def last_part(location: str) -> str:
    """Return the last part of a path or URL, without user, query and revision."""
    if not is_url(location):
        location = system.typed_path(location)
    url = remove_secrets(location).replace("://***@", "://").removesuffix("?***")
    if url.startswith("hf://"):  # a revision may have a slash in it
        url = url.partition("@")[0]
    return url.rstrip("/").rpartition("/")[2]


def toml_path(path: Path) -> Path:
    """Return the TOML file of a manifest, from the path of its TOML or CSV file."""
    if path.suffix == ".toml" or not path.name:
        return path
    # Only .csv is removed: a dot may be part of a name (films.v2).
    return path.with_name(f"{path.name.removesuffix('.csv')}.toml")


@dataclass(frozen=True)
class Workspace:
    """A folder with manifests/, stores/, runs/ and models/, which are created when needed."""

    root: Path

    @classmethod
    def current(cls) -> Self:
        """Return the workspace of OBYGAZE_WORKSPACE, or the current folder."""
        return cls(Path(os.environ.get("OBYGAZE_WORKSPACE") or "."))

    @classmethod
    def of(cls, root: PathLike | None) -> Self:
        """Return the workspace in a folder. The default is the current workspace."""
        return cls.current() if root is None else cls(Path(root))

    def __fspath__(self) -> str:
        """Return the folder, so that a workspace may be passed as a path."""
        return str(self.root)

    def folder(self, kind: str) -> Path:
        """Return the folder of one type: manifests, stores, runs or models."""
        return self.root / kind

    def manifest(self, name: str) -> Path:
        """Return the TOML file of a manifest, from its name or the path of its TOML or CSV file."""
        name = system.typed_path(name)
        if self._is_bare(name):
            return self.folder("manifests") / f"{name}.toml"
        return toml_path(Path(name))

    def new_manifest(self, name: PathLike) -> Path:
        """Return the TOML file of a new manifest, from its name, or from any path as a `Path`."""
        if isinstance(name, os.PathLike):
            path = toml_path(Path(name))
        else:
            path = self.manifest(name)
            if path.parent != self.folder("manifests"):
                raise FixUsage(
                    f"invalid name {name!r}: expected a name, got a path",
                    hint="use -o NAME with letters, digits, - and _; -C FOLDER chooses the"
                    " workspace",
                )
        check_new_name(path, path.stem)
        return path

    def store(self, name: str) -> str:
        """Return the location of a store: a URL, a path, or the folder of a name."""
        if is_url(name):
            return name
        name = system.typed_path(name)
        if name == ".":
            return str(Path.cwd())
        if not self._is_bare(name):
            return name
        folder = self.folder("stores") / name
        # A store of the workspace has precedence over a store of this name in the current folder.
        here = (Path(name) / STORE).exists()
        return name if here and not folder.exists() else str(folder)

    def target(self, kind: str, name: str) -> Path:
        """Return the path of a new run or model: the folder of a name, or the given path."""
        name = system.typed_path(name)
        if not name.strip("./") or not name.isprintable():
            raise FixUsage(
                f"invalid name {name!r}",
                hint="use -o NAME with letters, digits, - and _",
            )
        if "/" not in name:
            _check_bare(name)
        path = Path(name) if "/" in name else self.folder(kind) / name
        return self._new(path)

    def new_store(self, name: str | os.PathLike[str]) -> Path:
        """Return the path of a new store: the folder of a name, or the given path."""
        # A path is never a name: pathlib makes "new" of "./new".
        if isinstance(name, os.PathLike):
            return self._new(Path(name))
        if EXPECTED in name:
            raise FixUsage(
                f"invalid name {name!r}: {EXPECTED} is for a store to read, not for a new name",
            )
        name = system.typed_path(name)
        if ".." in PurePath(name).parts[1:]:
            raise FixUsage(f"invalid path {name!r}: '..' is allowed at the start only")
        if "+" in name and self._is_bare(name):
            raise FixUsage(f"invalid name {name!r}: + is reserved for joins of stores")
        # Not in the current folder: only existing stores are found there.
        folder = self.folder("stores") / name if self._is_bare(name) else Path(name)
        return self._new(folder)

    def _new(self, path: Path) -> Path:
        """Return the path of a new store, run or model; raise an error for an invalid name."""
        path = self.checked(path)
        check_new_name(path)
        return path

    def checked(self, path: Path) -> Path:
        """Return the path; raise an error if it is the workspace or one of its folders."""
        folders = [self.root, *map(self.folder, KINDS)]
        if path.resolve() in {folder.resolve() for folder in folders}:
            raise FixUsage(
                "expected a new folder, got a folder of the workspace",
                where=str(path),
            )
        return path

    def names(self, kind: str) -> list[str]:
        """Return the sorted names of one type (manifests, stores, runs or models)."""
        folder = self.folder(kind)
        # Not glob(): it treats a folder without read permission as empty.
        paths = list(folder.iterdir()) if folder.is_dir() else []
        names = set()
        for path in paths:
            if kind != "manifests" and path.is_dir():
                names.add(path.name)
            elif kind == "manifests" and path.suffix == ".toml" and path.is_file():
                names.add(path.stem)
        return sorted(name for name in names if not name.startswith("."))

    def existing_manifest(self, name: str) -> Path:
        """Return the TOML file of a manifest; if it is missing, the error lists other names."""
        path = self.manifest(name)
        if path.is_file():
            return path
        raise self._missing("manifests", name, path)

    def existing_store(self, name: str) -> str:
        """Return the location of a store; if a name is missing, the error lists other names.

        A suffix `#sha256=...` stays at the end of the location.
        """
        if not is_url(name):
            name = system.typed_path(name)
        bare_name, sign, sha256 = name.partition(EXPECTED)
        if sign and not is_url(name) and self._is_bare(bare_name):
            return f"{self.existing_store(bare_name)}{sign}{sha256}"
        location = self.store(name)
        if is_url(name) or not self._is_bare(name) or os.path.lexists(location):
            return location
        raise self._missing("stores", name, Path(location))

    def existing(self, kind: str, name: PathLike) -> Path:
        """Return the folder of a run or model; if it is missing, the error lists other names."""
        text = system.typed_path(os.fspath(name))
        path = Path(text) if "/" in text else self.folder(kind) / text
        # The workspace has precedence over a folder of the same name in the current folder.
        for folder in (path, Path(text)):
            if folder.is_dir():
                return folder
        raise self._missing(kind, text, path)

    def _missing(self, kind: str, name: str, path: Path) -> NotFound:
        """Return the error for a missing name, with the existing names."""
        # A replaced store is found by its path only.
        names = [one for one in self.names(kind) if ".before-" not in one]
        noun = kind.removesuffix("s")
        hint = (
            f"use one of {few(names)}"
            if names
            else "run obygaze ls, or choose a workspace with -C FOLDER"
        )
        if kind == "manifests" and Path(name).exists():
            source = Path(name)
            # Films are imported as a folder.
            if source.suffix.lower() in VIDEO_SUFFIXES:
                source = source.parent
            hint = f"obygaze manifest import {shell_word(str(source))}"
        message = f"no {noun} called {name!r}{near(name, names)}"
        return NotFound(message, where=str(path), hint=hint)

    @staticmethod
    def _is_bare(name: str) -> bool:
        is_file = name.endswith((".toml", ".csv"))
        if "/" in name or is_file:
            return False
        if name in {"", ".", ".."} or not name.isprintable() or name.startswith("-"):
            raise FixUsage(
                f"invalid name {name!r}", hint="use letters, digits, - and _"
            )
        _check_bare(name)
        return True


def _check_bare(name: str) -> None:
    """Raise an error for a name that cannot be the name of a folder, or the stem of a file."""
    # On Windows a typed backslash is a slash here.
    if "\\" in name:
        raise FixUsage(
            f"invalid name {name!r}",
            hint="use / between folders, and letters, digits, - and _ in names",
        )
    n_bytes = len(os.fsencode(name))
    if n_bytes > MAX_NAME_BYTES:
        raise FixUsage(
            f"the name has {n_bytes} bytes, expected at most {MAX_NAME_BYTES}",
        )
