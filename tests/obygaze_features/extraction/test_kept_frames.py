"""Features from kept pictures: the bytes of those from films, without the films."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.cli import run_obygaze
from support.extraction import a_plan, array_bytes, film_folder

from obygaze_features.backbones.cards import find_card
from obygaze_features.core.errors import FixUsage, Mismatch
from obygaze_features.core.files import sha256_bytes
from obygaze_features.core.workspace import Workspace
from obygaze_features.extraction.devices import extract_on_devices
from obygaze_features.extraction.kept_frames import find_kept_frames, stores_of_frames
from obygaze_features.extraction.plan import ExtractPlan, Target, make_plan
from obygaze_features.extraction.recipes import complete_target
from obygaze_features.extraction.run import Resources, extract
from obygaze_features.extraction.shared_machine import StopFlag
from obygaze_features.manifest.model import Manifest
from obygaze_features.store import open_store
from obygaze_features.store.interchange.export import export_store
from obygaze_features.store.read.verify import verify
from obygaze_features.store.remote.send import pack, push
from obygaze_features.video.decode import decode_clip
from obygaze_features.video.decoded_clip import View

KEPT = "films.frames-16x256-nearest-squash"
N_CLIPS = 6


def plan_of(manifest: Manifest, workspace: Path, backbone: str) -> ExtractPlan:
    """A plan with the default store, in blocks of 4."""
    target = complete_target(Target("", backbone, block_rows=4), "films", Workspace(workspace))
    return replace(make_plan(manifest, [target], workspace=workspace), manifest="films")


def run(plan: ExtractPlan) -> list[int]:
    """Extract a plan; return the number of clips that are ok in each store."""
    return [state.ok for state in extract(plan, Resources(workers=2, batch=2), StopFlag())]


@pytest.fixture
def films(tmp_path: Path) -> Manifest:
    return film_folder(tmp_path, N_CLIPS, bad={2: b"not a video"})


def markers(store: Path) -> list[tuple[object, object]]:
    commits = open_store(store).commits
    return [(commits.noted(block), commits.sources(block)) for block in range(2)]


def test_the_same_bytes_without_films(films: Manifest, tmp_path: Path) -> None:
    assert run(a_plan(films, tmp_path / "plain", "descriptors")) == [5]
    assert run(plan_of(films, tmp_path, "frames:descriptors")) == [5]
    plan = plan_of(films, tmp_path, "descriptors")
    shutil.rmtree(tmp_path / "videos")
    assert run(plan) == [5]
    store = tmp_path / "stores" / "films.descriptors"
    expected = tmp_path / "plain" / "stores" / "descriptors"
    assert array_bytes(store) == array_bytes(expected)
    ours, theirs = markers(store), markers(expected)
    assert [noted.keys() for noted, _ in ours] == [{2: 0}.keys(), {}.keys()]
    # Clip 2 has no kept pictures and no film; the others have the source of the film.
    for (_, our_sources), (_, their_sources) in zip(ours, theirs, strict=True):
        assert {r: s for r, s in our_sources.items() if r != 2} == {
            r: s for r, s in their_sources.items() if r != 2
        }


def test_several_devices_need_no_films_either(films: Manifest, tmp_path: Path) -> None:
    run(plan_of(films, tmp_path, "frames:descriptors"))
    shutil.rmtree(tmp_path / "videos")
    plan, used = plan_of(films, tmp_path, "descriptors"), Resources(workers=2)
    (state,) = extract_on_devices(plan, ["cpu", "cpu"], used, StopFlag())
    assert (state.ok, state.missing + state.failed) == (5, 1)


def test_the_pictures_are_the_decoders(films: Manifest, tmp_path: Path) -> None:
    plan = plan_of(films, tmp_path, "frames:descriptors")
    run(plan)
    store = open_store(tmp_path / "stores" / KEPT)
    assert not verify(store).problems
    resize = find_card("descriptors").family.resize(find_card("descriptors"))
    assert resize is not None
    for row in (0, 5):
        decoded = decode_clip(plan.rows[row].video, View(16, "even", resize))
        kept = store.arrays.read(store.plan.array("pictures"), np.array([row]))[0]
        assert sha256_bytes(kept.tobytes()) == sha256_bytes(decoded.frames.tobytes())


def test_pictures_of_fewer_frames_are_among_them(films: Manifest, tmp_path: Path) -> None:
    plan = plan_of(films, tmp_path, "frames:descriptors")
    run(plan)
    other = replace(plan, targets=())
    card = find_card("descriptors")
    views = [View(n, "even", card.family.resize(card)) for n in (16, 8, 4, 5, 32)]
    keyframes = replace(views[0], sampling="keyframes")
    found = find_kept_frames(other, range(N_CLIPS), [*views, keyframes, View(16)])
    assert list(found) == views[:3]
    for view in found:
        kept = found[view].clip(3, view, plan.rows[3])
        decoded = decode_clip(plan.rows[3].video, view)
        for name in ("frames", "time_s", "asked_s", "mask", "substituted"):
            assert np.array_equal(getattr(kept, name), getattr(decoded, name)), name
        assert kept.total == decoded.total


def test_a_changed_film_is_refused(films: Manifest, tmp_path: Path) -> None:
    run(plan_of(films, tmp_path, "frames:descriptors"))
    plan = plan_of(films, tmp_path, "descriptors")
    with Path(plan.rows[1].video).open("ab") as file:
        file.write(b"x")
    with pytest.raises(Mismatch, match=r"1 clip changed .*tt0-001: the video had \d+ bytes"):
        run(plan)


def test_damaged_clips_are_decoded_again(films: Manifest, tmp_path: Path) -> None:
    plan = plan_of(films, tmp_path, "frames:descriptors")
    film = Path(plan.rows[3].video)
    data = bytearray(film.read_bytes())
    middle = data.index(b"mdat") + (len(data) - data.index(b"mdat")) // 2
    data[middle : middle + 40] = bytes(40)
    film.write_bytes(data)
    tolerant = replace(plan, max_substituted=1.0)
    assert run(tolerant) == [5]
    (store,) = stores_of_frames(replace(plan, targets=()))
    clean = store.arrays.read(store.plan.array("clean"), np.arange(N_CLIPS))
    assert clean.tolist() == [True, True, False, False, True, True]
    kept = find_kept_frames(replace(plan, targets=()), range(N_CLIPS), [_view()])
    assert kept[_view()].rows == {0, 1, 4, 5}


def _view() -> View:
    card = find_card("descriptors")
    return View(16, "even", card.family.resize(card))


def test_a_part_of_the_pictures_is_used_and_resumed(films: Manifest, tmp_path: Path) -> None:
    """The first block only, as a killed run leaves it; the rest is decoded, then resumed."""
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    run(plan_of(films, whole, "frames:descriptors"))
    plan = plan_of(films, cut, "frames:descriptors")
    extract(plan, Resources(workers=1, batch=2), StopFlag(), rows=range(4))
    features = plan_of(films, cut, "descriptors")
    extract(features, Resources(workers=1, batch=2), StopFlag())
    run(plan)
    assert array_bytes(cut / "stores" / KEPT) == array_bytes(whole / "stores" / KEPT)
    run(plan_of(films, whole, "descriptors"))
    name = "films.descriptors"
    assert array_bytes(cut / "stores" / name) == array_bytes(whole / "stores" / name)


def test_pictures_are_private(films: Manifest, tmp_path: Path) -> None:
    run(plan_of(films, tmp_path, "frames:descriptors"))
    store = open_store(tmp_path / "stores" / KEPT)
    with pytest.raises(FixUsage, match="pictures of films"):
        push(store, tmp_path / "pushed")
    with pytest.raises(FixUsage, match="pictures of films"):
        pack(store, tmp_path / "packed.zip")
    for form in ("hdf5", "npz", "npy", "csv", "pth"):
        with pytest.raises(FixUsage, match="pictures of films"):
            export_store(store, tmp_path / "out", form)
    for words in (("pack", KEPT, "-o", str(tmp_path / "packed.zip")), ("push", KEPT, "pushed")):
        result = run_obygaze("-C", tmp_path, "store", *words)
        assert result.code == 2
        assert "pictures of films" in result.stderr
    assert not [name for name in ("pushed", "packed.zip", "out") if (tmp_path / name).exists()]
