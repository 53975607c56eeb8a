"""Features from kept pictures: the bytes of those from films, without the films."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.cli import Result, call_obygaze
from support.extraction import a_plan, array_bytes, film_folder, keep_manifest
from support.videos import write_video

from obygaze_features.backbones.cards import find_card
from obygaze_features.core.errors import FixInput, FixUsage, Mismatch
from obygaze_features.core.files import sha256_bytes
from obygaze_features.core.workspace import Workspace
from obygaze_features.extraction import blocks, decoding
from obygaze_features.extraction.decoding import find_kept_pictures, stores_of_pictures
from obygaze_features.extraction.devices import extract_on_devices
from obygaze_features.extraction.plan import ExtractPlan, Target, make_plan
from obygaze_features.extraction.recipes import complete_target
from obygaze_features.extraction.run import Resources, extract_plan
from obygaze_features.extraction.shared_machine import StopFlag
from obygaze_features.extraction.windows import make_windows
from obygaze_features.manifest.io import write_manifest
from obygaze_features.manifest.model import Manifest
from obygaze_features.manifest.windows import Grid
from obygaze_features.store import open_store, subset
from obygaze_features.store.interchange.export import export_store
from obygaze_features.store.read.verify import verify
from obygaze_features.store.remote.send import pack, push
from obygaze_features.video.decode import decode_clip
from obygaze_features.video.decoded_clip import View

KEPT = "films.frames-16x256-nearest-squash"
N_CLIPS = 6


def plan_of(manifest: Manifest, workspace: Path, backbone: str) -> ExtractPlan:
    """A plan with the default store, in blocks of 4."""
    target = complete_target(
        Target("", backbone, block_rows=4), manifest, Workspace(workspace)
    )
    return make_plan(manifest, [target], workspace=workspace)


def run(plan: ExtractPlan) -> list[int]:
    """Extract a plan; return the number of clips that are ok in each store."""
    return [
        state.ok
        for state in extract_plan(plan, Resources(workers=2, batch=2), StopFlag())
    ]


@pytest.fixture
def films(tmp_path: Path) -> Manifest:
    return film_folder(tmp_path, N_CLIPS, bad={2: b"not a video"})


def markers(store: Path) -> list[tuple[object, object]]:
    commits = open_store(store).commits
    return [
        (commits.block_statuses(block), commits.sources(block)) for block in range(2)
    ]


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
    assert [statuses.keys() for statuses, _ in ours] == [{2: 0}.keys(), {}.keys()]
    # Clip 2 has no kept pictures and no film; the others have the source of the film.
    for (_, our_sources), (_, their_sources) in zip(ours, theirs, strict=True):
        assert {r: s for r, s in our_sources.items() if r != 2} == {
            r: s for r, s in their_sources.items() if r != 2
        }


def test_pictures_are_found_for_a_manifest_whose_name_is_a_pattern(
    tmp_path: Path,
) -> None:
    manifest = replace(film_folder(tmp_path, 1), name="films[1]")
    assert run(plan_of(manifest, tmp_path, "frames:descriptors")) == [1]
    (store,) = stores_of_pictures(plan_of(manifest, tmp_path, "descriptors"))
    assert Path(store.location).name.startswith("films[1].frames-")
    other = replace(manifest, name="films1")
    assert stores_of_pictures(plan_of(other, tmp_path, "descriptors")) == []


@pytest.mark.check("starts a process for each device")
def test_several_devices_need_no_films_either(films: Manifest, tmp_path: Path) -> None:
    run(plan_of(films, tmp_path, "frames:descriptors"))
    shutil.rmtree(tmp_path / "videos")
    plan = plan_of(films, tmp_path, "descriptors")
    (state,) = extract_on_devices(plan, [Resources(), Resources()], StopFlag())
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
        assert sha256_bytes(kept.tobytes()) == sha256_bytes(decoded.pictures.tobytes())


@pytest.mark.parametrize("kept", ["grown", "part"])
def test_pictures_are_those_of_the_clip_in_whatever_row(
    tmp_path: Path, kept: str
) -> None:
    """A store that has grown has other rows than the plan: each clip got those of another."""
    films = film_folder(tmp_path, 4)
    stores = tmp_path / "stores"
    words = ("-C", tmp_path, "extract", "run", "films", "-b")
    if kept == "grown":
        keep_manifest(films.with_clips([films.clips[0], films.clips[3]]), tmp_path)
        call_obygaze(*words, "frames:descriptors").ok()
    keep_manifest(films, tmp_path)
    call_obygaze(*words, "frames:descriptors").ok()
    if kept == "part":
        clips = [clip.clip_id for clip in films.clips[1:]]
        subset(stores / KEPT, tmp_path / "part", clips=clips)
        shutil.rmtree(stores / KEPT)
        (tmp_path / "part").rename(stores / KEPT)
    ids = open_store(stores / KEPT).clip_ids.tolist()
    assert ids != [clip.clip_id for clip in films.clips]
    # With the films it was an error: the clips seemed to have changed.
    call_obygaze(*words, "descriptors").ok()
    (stores / KEPT).rename(tmp_path / KEPT)
    call_obygaze(*words, "descriptors", "--store", "descriptors=of-films").ok()
    (tmp_path / KEPT).rename(stores / KEPT)
    shutil.rmtree(tmp_path / "videos")
    without_films = call_obygaze(
        *words, "descriptors", "--store", "descriptors=of-pictures"
    )
    assert without_films.code == (3 if kept == "part" else 0)
    expected = open_store(stores / "of-films").matrix("clip", clips=ids)
    for name in ("films.descriptors", "of-pictures"):
        found = open_store(stores / name).matrix("clip", clips=ids)
        assert np.array_equal(found.values, expected.values), name


def test_new_clips_of_a_sealed_store_are_read_from_pictures(tmp_path: Path) -> None:
    """The plan of its next version has these clips alone, and none was found for it."""
    films = film_folder(tmp_path, 3)
    words = ("-C", tmp_path, "extract", "run", "films", "-b")
    for clips in (films.clips[:2], films.clips):
        keep_manifest(films.with_clips(clips), tmp_path)
        call_obygaze(*words, "frames:descriptors").ok()
        if len(clips) == len(films.clips):
            shutil.rmtree(tmp_path / "videos")
        call_obygaze(*words, "descriptors").ok()
    store = open_store(tmp_path / "stores/films.descriptors")
    assert (store.version, store.status().counts) == (2, {"ok": 3})


def test_pictures_of_fewer_frames_are_among_them(
    films: Manifest, tmp_path: Path
) -> None:
    plan = plan_of(films, tmp_path, "frames:descriptors")
    run(plan)
    other = replace(plan, targets=())
    card = find_card("descriptors")
    views = [View(n, "even", card.family.resize(card)) for n in (16, 8, 4, 5, 32)]
    found = find_kept_pictures(other, range(N_CLIPS), [*views, View(16)])
    assert list(found) == views[:3]
    for view in found:
        kept = found[view].clip(3, view, plan.rows[3])
        decoded = decode_clip(plan.rows[3].video, view)
        for name in ("pictures", "time_s", "asked_s", "mask", "substituted"):
            assert np.array_equal(getattr(kept, name), getattr(decoded, name)), name
        assert kept.total == decoded.total


def test_a_changed_film_is_refused(films: Manifest, tmp_path: Path) -> None:
    run(plan_of(films, tmp_path, "frames:descriptors"))
    plan = plan_of(films, tmp_path, "descriptors")
    with Path(plan.rows[1].video).open("ab") as file:
        file.write(b"x")
    with pytest.raises(
        Mismatch, match=r"1 clip changed .*tt0-001: the video had \d+ bytes"
    ):
        run(plan)


def test_damaged_clips_are_decoded_again(
    films: Manifest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = plan_of(films, tmp_path, "frames:descriptors")
    film = Path(plan.rows[3].video)
    data = bytearray(film.read_bytes())
    middle = data.index(b"mdat") + (len(data) - data.index(b"mdat")) // 2
    data[middle : middle + 40] = bytes(40)
    film.write_bytes(data)
    monkeypatch.setattr(decoding, "_checked", lambda clip: clip)
    assert run(plan) == [5]
    (store,) = stores_of_pictures(replace(plan, targets=()))
    clean = store.arrays.read(store.plan.array("clean"), np.arange(N_CLIPS))
    assert clean.tolist() == [True, True, False, False, True, True]
    kept = find_kept_pictures(replace(plan, targets=()), range(N_CLIPS), [_view()])
    assert kept[_view()].rows == {0, 1, 4, 5}


def _view() -> View:
    card = find_card("descriptors")
    return View(16, "even", card.family.resize(card))


@pytest.mark.check("several extractions")
def test_a_part_of_the_pictures_is_used_and_resumed(
    films: Manifest, tmp_path: Path
) -> None:
    """The first block only, as a killed run leaves it; the rest is decoded, then resumed."""
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    run(plan_of(films, whole, "frames:descriptors"))
    plan = plan_of(films, cut, "frames:descriptors")
    extract_plan(plan, Resources(workers=1, batch=2), StopFlag(), rows=range(4))
    features = plan_of(films, cut, "descriptors")
    extract_plan(features, Resources(workers=1, batch=2), StopFlag())
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
    for form in ("hdf5", "npz", "npy", "pth"):
        with pytest.raises(FixUsage, match="pictures of films"):
            export_store(store, tmp_path / "out", form)
    for words in (
        ("pack", KEPT, "-o", str(tmp_path / "packed.zip")),
        ("push", KEPT, "pushed"),
    ):
        result = call_obygaze("-C", tmp_path, "store", *words)
        assert result.code == 2
        assert "pictures of films" in result.stderr
    assert not [
        name for name in ("pushed", "packed.zip", "out") if (tmp_path / name).exists()
    ]


def command(workspace: Path, *words: str | Path) -> Result:
    return call_obygaze("-C", workspace, "extract", *words)


@pytest.fixture
def workspace(films: Manifest, tmp_path: Path) -> Path:
    """A workspace with the pictures of all films but the one that is no video."""
    keep_manifest(films, tmp_path)
    assert (
        command(tmp_path, "run", "films", "-b", "frames:descriptors", "--seal").code
        == 3
    )
    return tmp_path


@pytest.mark.check("extracts several times")
def test_changed_clips_are_decoded_and_not_read(workspace: Path) -> None:
    """The pictures of the first version are sealed; the features are those of the second."""
    assert (
        command(workspace, "run", "films", "-b", "descriptors", "--no-seal").code == 3
    )
    film = workspace / "videos" / "tt0" / "tt0-001.mp4"
    before = vector(workspace / "stores" / "films.descriptors", 1)
    write_video(film, numbers=range(40, 58), size=(64, 48))
    assert command(workspace, "run", "films", "-b", "descriptors").code == 5
    changed = command(
        workspace, "run", "films", "-b", "descriptors", "--changed", "--no-seal"
    )
    assert changed.code == 3, changed.stderr
    shutil.rmtree(workspace / "stores" / KEPT)
    again = ("run", "films", "-b", "descriptors", "--store", "descriptors=fresh")
    assert command(workspace, *again).code == 3
    after = vector(workspace / "stores" / "films.descriptors", 1)
    assert after == vector(workspace / "stores" / "fresh", 1) != before


def vector(store: Path, row: int) -> bytes:
    return open_store(store).matrix("clip", missing="nan").values[row].tobytes()


def test_plans_need_no_films(workspace: Path) -> None:
    assert command(workspace, "run", "films", "-b", "descriptors").code == 3
    expected = array_bytes(workspace / "stores" / "films.descriptors")
    shutil.rmtree(workspace / "videos")
    file = workspace / "plan.json"
    words = ("films", "-b", "descriptors", "--store", "descriptors=planned", "-o", file)
    plan = command(workspace, "plan", *words, "--json").ok().json()
    # The film that is no video has no pictures either.
    assert (plan["not_found"], plan["unreadable"]) == (["tt0-002"], {})
    assert plan["decode_s"] > 0 and plan["hours"] > 0
    assert command(workspace, "run", file, "--worker", "0/1").code == 3
    assert array_bytes(workspace / "stores" / "planned") == expected


@pytest.mark.parametrize("keep_every_s", [0.0, 1e9])
def test_a_full_disk_while_pictures_are_kept(
    films: Manifest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    keep_every_s: float,
) -> None:
    """A block of four clips is 12.6 MB: one fits. What is committed is used, the rest resumed.

    Rows that are kept for a stop are 12.6 MB too: they must not take the place of their block.
    """
    monkeypatch.setattr(blocks, "KEEP_EVERY_S", keep_every_s)
    keep_manifest(films, tmp_path)
    disk = tmp_path / "stores" / KEPT
    disk.parent.mkdir()
    whole = plan_of(films, tmp_path, "frames:descriptors")
    plan = replace(
        whole, targets=(replace(whole.targets[0], store=str(disk / "store")),)
    )
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=15m", "tmpfs", str(disk)]
    if (done := subprocess.run(mount, capture_output=True, text=True)).returncode:
        pytest.skip(f"mounting is not permitted here: {done.stderr.strip()}")
    try:
        with pytest.raises(FixInput, match="the disk is full"):
            extract_plan(plan, Resources(workers=1), StopFlag())
        store = open_store(disk / "store")
        assert store.status().counts == {"ok": 3, "failed": 1, "missing": 2}
        assert not verify(disk / "store", hashes=True).problems
        subprocess.run(["mount", "-o", "remount,size=100m", str(disk)], check=True)
        assert run(plan) == [5]
        # The same pictures on a disk that was never full.
        expected = plan_of(films, tmp_path / "roomy", "frames:descriptors")
        assert run(expected) == [5]
        name = Path(expected.targets[0].store)
        assert array_bytes(disk / "store") == array_bytes(name)
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_windows_are_read_from_kept_pictures(tmp_path: Path) -> None:
    """Of a cache with the same grid; one of another grid does not serve."""
    folder = tmp_path / "films"
    folder.mkdir()
    write_video(folder / "a.mkv", numbers=range(70), size=(64, 48))
    for name, grid in (("w", Grid(16, 8)), ("other", Grid(10, 10))):
        made = make_windows(folder, grid, workspace=Workspace(tmp_path), name=name)
        write_manifest(made, tmp_path / "manifests" / f"{name}.toml")
    assert command(tmp_path, "run", "w", "-b", "descriptors").code == 0
    assert command(tmp_path, "run", "w", "-b", "frames:descriptors").code == 0
    stores = tmp_path / "stores"
    kept = stores / KEPT.replace("films", "w")
    # Seven windows of 16 pictures of 256 x 256; the last begins at picture 48.
    pictures = open_store(kept).arrays.read(
        open_store(kept).plan.array("pictures"), np.arange(7)
    )
    assert pictures.shape == (7, 16, 256, 256, 3)
    shutil.copytree(kept, stores / KEPT.replace("films", "other"))
    (folder / "a.mkv").unlink()
    again = ("run", "w", "-b", "descriptors", "--store", "descriptors=again")
    done = command(tmp_path, *again)
    assert done.code == 0 and "kept pictures are read" in done.stderr
    assert array_bytes(stores / "again") == array_bytes(stores / "w.descriptors")
    assert open_store(stores / "again").matrix(
        "start_s"
    ).values.tolist() == pytest.approx([n * 8 / 25 for n in range(7)], abs=1e-3)
    # The other grid has seven windows of the same names, and needs the film.
    done = command(tmp_path, "run", "other", "-b", "descriptors")
    assert done.code == 1 and "none of the 1 video files of other exists" in done.stderr
    assert "kept pictures" not in done.stderr
    assert not (stores / "other.descriptors").exists(), "no rows of failures"
