"""The folder a person works in: where bare names of manifests, stores, runs and models live."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from obygaze_features.core.console import few
from obygaze_features.core.errors import FixUsage, NotFound

URL_SCHEMES = ("http://", "https://", "s3://", "hf://")
KINDS = ("manifests", "stores", "runs", "models", "texts", "backbones")
# Of one letter would be a disk of Windows.
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")


def is_url(name: str) -> bool:
    """Whether a name is an address rather than a file."""
    return _SCHEME.match(name) is not None


@dataclass(frozen=True)
class Workspace:
    """A folder with manifests/ and stores/; made as things are written to it."""

    root: Path

    def folder(self, kind: str) -> Path:
        """The folder of one kind of thing: manifests, stores, runs, models."""
        return self.root / kind

    def manifest(self, name: str) -> Path:
        """The TOML file of a manifest, by bare name or by the path of either file of the pair."""
        if self._is_bare(name):
            return self.folder("manifests") / f"{name}.toml"
        path = Path(name)
        if path.suffix == ".toml":
            return path
        # Only .csv is taken off: a dot may be part of a name (films.v2).
        return path.with_name(f"{path.name.removesuffix('.csv')}.toml")

    def store(self, name: str) -> str:
        """Where a store is: a URL as given, a path, or a bare name's folder (or zip) here."""
        if is_url(name) or not self._is_bare(name):
            return name
        folder = self.folder("stores") / name
        packed = folder.with_name(f"{name}.zip")
        if packed.exists() and not folder.exists():
            return str(packed)
        # A store in the current folder is found too, but never in place of the workspace's own.
        here = (Path(name) / "store.json").exists()
        return name if here and not folder.exists() else str(folder)

    def target(self, kind: str, name: str) -> Path:
        """Where a new run or model goes: a bare name's folder here, or the path as given."""
        if not name.strip("./"):
            raise FixUsage(f"{name!r} is not a name", hint="-o NAME: letters, digits, - and _")
        return self.checked(Path(name) if "/" in name else self.folder(kind) / name)

    def new_store(self, name: str) -> Path:
        """Where a new store goes: a bare name's folder here, or the path as given."""
        if is_url(name):
            raise FixUsage("a new store is written to a folder", hint="then obygaze store push")
        return self.checked(Path(self.store(name)))

    def checked(self, path: Path) -> Path:
        """The same path; an error where it is the workspace or one of its folders."""
        if path.resolve() in {self.root.resolve(), *(self.folder(k).resolve() for k in KINDS)}:
            raise FixUsage(
                "this is a folder of the workspace itself", where=str(path), hint="a name in it"
            )
        return path

    def names(self, kind: str, pattern: str) -> list[str]:
        """What the workspace holds of one kind, sorted."""
        folder = self.folder(kind)
        if not folder.is_dir():
            return []
        # Not glob(): it takes a folder that may not be read for an empty one.
        found = [path for path in folder.iterdir() if path.match(pattern)]
        if pattern != "*":  # what has an extension is a file, or not what is looked for
            found = [path for path in found if not path.is_dir()]
        # A folder's dots are part of its name (vivit.k400); a file's last one is not.
        return sorted({path.name if path.is_dir() else path.stem for path in found})

    def existing_manifest(self, name: str) -> Path:
        """Like `manifest`, but an error that lists what is there where it is not."""
        path = self.manifest(name)
        if path.is_file():
            return path
        known = self.names("manifests", "*.toml")
        hint = f"one of {few(known)}" if known else "obygaze manifest import --help"
        raise NotFound(f"no manifest called {name!r}", where=str(path), hint=hint)

    def existing(self, kind: str, name: str | os.PathLike[str]) -> Path:
        """Return the folder of a run or model that exists; else an error that lists the others."""
        text = os.fspath(name)
        path = Path(text) if "/" in text else self.folder(kind) / text
        if path.is_dir():
            return path
        # A folder of the current folder is found too, but never in place of the workspace's own.
        if Path(text).is_dir():
            return Path(text)
        known = [found for found in self.names(kind, "*") if found != "README"]
        noun = kind.removesuffix("s")
        hint = (
            f"one of {few(known)}"
            if known
            else {"run": "obygaze run --help", "model": "obygaze train --help"}[noun]
        )
        raise NotFound(f"no {noun} called {text!r}", where=str(path), hint=hint)

    @staticmethod
    def _is_bare(name: str) -> bool:
        if not name or name in {".", ".."}:
            raise FixUsage(f"{name!r} is not a name", hint="letters, digits, - and _")
        if "/" in name or "\\" in name or name.endswith((".toml", ".csv", ".zip")):
            return False
        if not name.isprintable() or name.startswith("-"):
            raise FixUsage(f"{name!r} is not a name", hint="letters, digits, - and _")
        return True
