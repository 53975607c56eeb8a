"""A store that is sealed while it is copied: the copy has every row."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.stores import fill_store, plan_store, some_values

from obygaze_features.store import StoreWriter, open_store, pack, pull, push
from obygaze_features.store.read.verify import verify
from obygaze_features.store.remote.fetch import unpack
from obygaze_features.store.remote.files import FolderFiles, Piece

pytestmark = pytest.mark.check("seals a store before every read of a copy")


class SealedMeanwhile(FolderFiles):
    """A folder in which a store is sealed just before its n-th read."""

    def __init__(self, root: Path, n: int) -> None:
        super().__init__(root)
        self.left = n

    def read(self, name: str, start: int = 0, stop: int | None = None) -> Piece | None:
        self.left -= 1
        if not self.left:
            StoreWriter(self.root).seal()
        return super().read(name, start, stop)


@pytest.mark.parametrize("way", ["pull", "push", "pack"])
def test_a_copy_of_a_store_that_is_being_sealed_has_every_row(
    tmp_path: Path, way: str
) -> None:
    values, finished, n = some_values(23), False, 0
    while not finished:
        n += 1
        folder = tmp_path / f"{n}"
        plan_store(folder / "s")
        fill_store(folder / "s", values)
        source = SealedMeanwhile(folder / "s", n)
        if way == "pull":
            pull(source, folder / "copy")
        elif way == "push":
            push(open_store(source), folder / "copy")
        else:
            pack(open_store(source), folder / "copy.zip")
            unpack(folder / "copy.zip", folder / "copy")
        found = open_store(folder / "copy").matrix("clip", missing="drop")
        np.testing.assert_array_equal(found.values, values["clip"])
        assert not verify(folder / "copy", hashes=True).problems
        finished = source.left > 0
    # store.json, the seal and six markers were each read after the seal once.
    assert n > 6 + 3
