"""The folder a person works in: where bare names of manifests, stores, runs and models live."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from obygaze_features.core.errors import FixUsage, NotFound

URL_SCHEMES = ("http://", "https://", "s3://", "hf://")


def is_url(name: str) -> bool:
    """Whether a name is an address rather than a file."""
    return name.startswith(URL_SCHEMES)


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
        return path if path.suffix == ".toml" else path.with_suffix(".toml")

    def store(self, name: str) -> str:
        """Where a store is: a URL as given, a path, or a bare name's folder (or zip) here."""
        if is_url(name):
            return name
        if not self._is_bare(name) or (Path(name) / "store.json").exists():
            return name
        folder = self.folder("stores") / name
        packed = folder.with_name(f"{name}.zip")
        return str(packed if packed.exists() and not folder.exists() else folder)

    def names(self, kind: str, pattern: str) -> list[str]:
        """What the workspace holds of one kind, sorted."""
        folder = self.folder(kind)
        return sorted(path.stem for path in folder.glob(pattern)) if folder.is_dir() else []

    def existing_manifest(self, name: str) -> Path:
        """Like `manifest`, but an error that lists what is there where it is not."""
        path = self.manifest(name)
        if path.is_file():
            return path
        known = self.names("manifests", "*.toml")
        hint = f"one of {', '.join(known)}" if known else "obygaze manifest import --help"
        raise NotFound(f"no manifest called {name!r}", where=str(path), hint=hint)

    @staticmethod
    def _is_bare(name: str) -> bool:
        if not name or name in {".", ".."}:
            raise FixUsage(f"{name!r} is not a name")
        return "/" not in name and "\\" not in name and not name.endswith((".toml", ".csv", ".zip"))
