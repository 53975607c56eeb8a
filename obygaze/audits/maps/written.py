"""The store of maps that a command writes: where it is, and how many clips have maps."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from obygaze_features.store import open_store


@dataclass(frozen=True)
class WrittenMaps:
    """A new store of maps; `counts` are its clips by their state."""

    path: Path
    counts: Mapping[str, int]
    n_clips: int

    @classmethod
    def at(cls, path: Path) -> Self:
        """Return the facts of the store in a folder."""
        store = open_store(path)
        return cls(path, store.status().counts, len(store))

    def to_json(self) -> dict[str, Any]:
        """Return the folder and the counts."""
        return {"store": str(self.path), "clips": dict(self.counts)}

    def __str__(self) -> str:
        return f"{self.path}: maps of {self.counts['ok']} of {self.n_clips} clips"
