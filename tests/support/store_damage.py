"""Ways to spoil a store: bits, lengths, and words that are stamped as if they were true."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

from obygaze_features.store.format.records import with_checksum


def files_of(path: Path) -> list[Path]:
    return sorted(file for file in path.rglob("*") if file.is_file())


def flip(path: Path, bit: int) -> None:
    data = bytearray(path.read_bytes())
    data[bit // 8] ^= 1 << bit % 8
    path.write_bytes(data)


def a_copy(whole: Path, tmp_path: Path) -> Path:
    target = tmp_path / "s"
    shutil.copytree(whole, target)
    return target


def changed(path: Path, **changes: object) -> None:
    """Rewrite a stamped file with other values, as a program with a fault would."""
    value = json.loads(path.read_bytes())
    value.pop("sha256")
    path.write_bytes(with_checksum({**value, **changes}))


def restamped(path: Path, **changes: object) -> None:
    """store.json as another writer might have made it, and a seal that goes with it."""
    store, seal = (
        json.loads((path / f"{name}.json").read_bytes()) for name in ("store", "seal")
    )
    del store["sha256"], seal["sha256"]
    noted = changes.pop("noted", {})
    data = with_checksum({**store, **changes})
    (path / "store.json").write_bytes(data)
    seal["files"]["store.json"] = [len(data), hashlib.sha256(data).hexdigest()]
    (path / "seal.json").write_bytes(with_checksum({**seal, "noted": noted}))
