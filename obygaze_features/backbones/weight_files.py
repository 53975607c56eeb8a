"""The files of one checkpoint, wherever they are."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from obygaze_features.core.errors import Corrupt
from obygaze_features.core.schema_check import read_json


@dataclass(frozen=True)
class WeightFiles:
    """The files of one checkpoint, and the folder its configuration is in.

    `is_from_hub` where they are in the hub's cache, under the name of the card's own checkpoint.
    """

    folder: Path
    files: tuple[Path, ...]
    origin: str
    is_from_hub: bool = False

    @property
    def n_bytes(self) -> int:
        """Bytes of weights."""
        return sum(path.stat().st_size for path in self.files)

    def json_file(self, name: str) -> dict[str, Any] | None:
        """Return a JSON file beside the weights, or None where there is none."""
        path = self.folder / name
        if not path.is_file():
            return None
        return read_json(path.read_bytes(), str(path), error=Corrupt).tree

    @property
    def shortest_edge(self) -> int | None:
        """The shortest edge the checkpoint's own processor resizes to, if its file has one."""
        tree = self.json_file("preprocessor_config.json") or {}
        size = tree.get("size")
        edge = size.get("shortest_edge") if isinstance(size, dict) else size
        return edge if isinstance(edge, int) and not isinstance(edge, bool) else None


NO_WEIGHTS = WeightFiles(Path(), (), "no weights needed")
