"""The estimate of a plan is compared with the stores that the run writes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.checkpoints import save_lsmdc, save_tiny, write_lsmdc_card, write_tiny_card
from support.cli import run_obygaze
from support.extraction import film_folder, keep_manifest

from obygaze_features.store.read.reader import open_store

XCLIP, LSMDC = "xclip-b32-k400", "xclip-lsmdc-b32"


@pytest.fixture
def world(tmp_path: Path) -> Path:
    keep_manifest(film_folder(tmp_path / "films", 5), tmp_path)
    return tmp_path


def _plan(world: Path, *words: str | Path) -> dict[str, Any]:
    done = run_obygaze("-C", world, "extract", "plan", "films", *words, "--probe", "1", "--json")
    document: dict[str, Any] = done.ok().json()
    return document


def _chunk_bytes(store: Path) -> int:
    """Bytes of the numbers alone, each file without zarr's index and checksum of it."""
    arrays = [path.parent for path in store.glob("data.zarr/*/zarr.json")]
    wanted = [path for path in arrays if path.name not in ("clip_id", "movie_id")]
    return sum(f.stat().st_size for path in wanted for f in path.rglob("c*") if f.is_file())


def test_sizes_are_those_of_the_given_weights(world: Path) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    xclip = save_tiny("xclip", world / "weights")
    sizes = {"width": 64, "out": 64, "frames": 4, "patch": 8, "grid": 2}
    lsmdc = save_lsmdc(world / "lsmdc", **sizes)
    write_tiny_card("xclip", world / "backbones")
    write_lsmdc_card(world / "backbones", **sizes)
    words: list[str | Path] = ["-b", "descriptors"]
    for name, path in (("tiny-xclip", xclip), ("tiny-lsmdc", lsmdc)):
        words += ["-b", name, "--weights", f"{name}={path}"]
    plan = _plan(world, *words)
    # Widths of the tiny X-CLIP: 24 after the projection, 32 before it; four frames of it.
    assert plan["stores"][1]["levels"] == {
        "clip": 24 * 4,
        "pooled": 32 * 4,
        "frames": 4 * 24 * 2,
        "frames_mit": 4 * 24 * 2,
    }
    assert plan["stores"][2]["levels"]["frames_temporal"] == 4 * 64 * 2
    assert plan["obstacles"] == []
    assert run_obygaze("-C", world, "extract", "run", "films", *words, "--seal").code == 0
    for result in plan["stores"]:
        store = Path(result["store"])
        assert open_store(store).levels == tuple(result["levels"])
        assert result["n_bytes"] == pytest.approx(_chunk_bytes(store), rel=0.02, abs=300)
        files = [path for path in store.rglob("*") if path.is_file()]
        assert abs(result["files"] - len(files)) <= 2


def test_unusable_weights_are_obstacles(world: Path) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    clip = save_tiny("clip", world / "clip")
    cut = save_lsmdc(world / "lsmdc")
    cut.write_bytes(cut.read_bytes()[:9000])
    named = {XCLIP: clip, LSMDC: cut, "clip-b16": world / "nowhere"}
    words = [w for k, v in named.items() for w in ("-b", k, "--weights", f"{k}={v}")]
    plan = _plan(world, *words)
    assert [store["weights"] for store in plan["stores"]] == ["unusable", "unusable", "not found"]
    first, second, third = plan["obstacles"]
    assert "got 'clip'" in first
    assert "truncated" in second
    assert third == "clip-b16: weights not found"
    assert json.dumps(plan["stores"][0]["levels"]) == json.dumps(
        {"clip": 2048, "pooled": 3072, "frames": 8192, "frames_mit": 8192}
    ), "the sizes of the card, if the weights cannot be read"
