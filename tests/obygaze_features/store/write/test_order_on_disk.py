"""The order in which a commit reaches the disk: what makes it survive a power cut."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from support.stores import block_of, plan_store, some_values

from obygaze_features.store import StoreWriter


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """Each sync, rename and link, in order, with the name of what it was done to."""
    events: list[tuple[str, str]] = []
    rename, replace, link = Path.rename, Path.replace, os.link

    def fsync(descriptor: int) -> None:
        events.append(("sync", str(Path(f"/proc/self/fd/{descriptor}").readlink())))

    def renamed(self: Path, target: Path) -> Path:
        events.append(("rename", str(target)))
        return rename(self, target)

    def replaced(self: Path, target: Path) -> Path:
        events.append(("rename", str(target)))
        return replace(self, target)

    def linked(source: Path, target: Path) -> None:
        events.append(("link", str(target)))
        link(source, target)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(Path, "rename", renamed)
    monkeypatch.setattr(Path, "replace", replaced)
    monkeypatch.setattr(os, "link", linked)
    return events


def test_every_byte_is_on_the_disk_before_the_marker_is(tmp_path: Path, told) -> None:
    plan_store(tmp_path / "s")
    told.clear()
    StoreWriter(tmp_path / "s").commit_block(2, block_of(some_values(23), (8, 12)))
    short = [(what, name.removeprefix(f"{tmp_path}/s/")) for what, name in told]
    kinds = [what for what, _ in short]
    # Four arrays and the marker, each synced, then their folder, before the claim.
    assert kinds[:6] == ["sync"] * 6
    assert all(name.startswith("staging/block-00002.") for _, name in short[:6])
    assert short[6] == ("rename", "staging/block-00002")
    assert short[7] == ("link", "commits/block-00002.0.taken")
    arrays = ["clip/c.2.0", "frames/c.2.0.0", "pooled/c.2.0", "time_s/c.2.0"]
    assert short[8:12] == [("rename", f"data.zarr/{name}") for name in arrays]
    folders = {("sync", f"data.zarr/{name.split('/')[0]}") for name in arrays}
    assert set(short[12:16]) == folders
    assert short[16:] == [("link", "commits/block-00002.json"), ("sync", "commits")]
