"""Frames that are kept in a store: other backbones get the bytes of the films from them."""

from __future__ import annotations

import os
import shutil
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.checkpoints import save_lsmdc, save_tiny, write_lsmdc_card, write_tiny_card
from support.cli import Result, call_obygaze
from support.damage import drop_packets, flip_bits_visibly
from support.extracted_stores import bytes_of, own_model, run
from support.extraction import film_folder, keep_manifest
from support.videos import write_video

from obygaze_features.backbones.cards import find_card
from obygaze_features.core.errors import Corrupt
from obygaze_features.core.workspace import Workspace
from obygaze_features.extraction import decoding
from obygaze_features.extraction.clips import (
    RowJob,
    ViewedClip,
    facts_of,
    planned_clips,
)
from obygaze_features.extraction.costs import plan_extraction
from obygaze_features.extraction.cut_films import write_windows
from obygaze_features.extraction.kept import (
    OF_TWO_FILES,
    KeptViews,
    find_kept,
    stores_of_frames,
)
from obygaze_features.manifest.model import Clip, Header, Manifest
from obygaze_features.store import open_store, subset, verify
from obygaze_features.store.layout import CLEAN, PICTURES
from obygaze_features.video import DecodePool, PictureView, decode_clip
from obygaze_features.video.decoded_clip import pictures_of_view

N_CLIPS = 6
BROKEN = 2
KEPT = "films.frames-16x256-nearest-squash"


@pytest.fixture
def films(tmp_path: Path) -> Manifest:
    manifest = film_folder(tmp_path, N_CLIPS, bad={BROKEN: b"not a video"})
    keep_manifest(manifest, tmp_path)
    return manifest


def extract(workspace: Path, *words: str) -> Result:
    return call_obygaze("-C", workspace, "extract", *words)


def video_of(films: Manifest, number: int) -> Path:
    return Path(films.header.video_root, films.clips[number].video)


def view_of_descriptors(n_frames: int = 16) -> PictureView:
    card = find_card("descriptors")
    return PictureView(n_frames, "even", card.family.resize(card))


def kept_of(
    films: Manifest, workspace: Path, name: str, views: list[PictureView]
) -> KeptViews:
    """The frames that stores of a manifest have kept for views."""
    clips = planned_clips(films)
    facts = facts_of(clip.video for clip in clips)
    stores, unreadable = stores_of_frames(name, Workspace(workspace))
    assert unreadable == []
    return find_kept(stores, clips, facts, views, None)


def test_the_frames_are_those_of_the_decoder(films: Manifest, tmp_path: Path) -> None:
    run(films, tmp_path, "frames:descriptors")
    store = open_store(tmp_path / "stores" / KEPT)
    assert not verify(store).problems
    assert store.read(CLEAN, range(N_CLIPS)).tolist() == [
        number != BROKEN for number in range(N_CLIPS)
    ]
    for row in (0, 5):
        decoded = decode_clip(video_of(films, row), view_of_descriptors())
        kept = store.read(PICTURES, [row])[0]
        assert kept.tobytes() == decoded.pictures.tobytes()


def test_only_frames_that_exist_take_space(tmp_path: Path) -> None:
    """A store that is sealed early, and one whose clips failed, have no bytes for the others."""
    if not has_holes(tmp_path):
        pytest.skip("files have no holes on this disk")
    films = film_folder(tmp_path, 40, bad=dict.fromkeys(range(8), b"bad"))
    n_rows = 0

    def stop(row: int, failed: bool) -> None:
        nonlocal n_rows
        n_rows += 1
        if n_rows == 20:
            os.kill(os.getpid(), signal.SIGTERM)

    run(films, tmp_path, "frames:descriptors", watch=stop)
    run(films, tmp_path, "frames:descriptors", seal_now=True)
    store = open_store(tmp_path / "stores" / KEPT)
    n_ok = store.status().counts["ok"]
    assert 0 < n_ok < 32
    assert not verify(store).problems
    row_bytes = store.record.array(PICTURES).row_bytes
    files = list((tmp_path / "stores" / KEPT).rglob(f"{PICTURES}/c*"))
    assert sum(path.stat().st_size for path in files) > 40 * row_bytes
    # The last block of the disk of a row, and of a file.
    used = 512 * sum(path.stat().st_blocks for path in files)
    assert n_ok * row_bytes <= used < n_ok * row_bytes + 41 * 8192


def has_holes(folder: Path) -> bool:
    path = folder / "hole"
    with path.open("wb") as file:
        file.seek(2**20)
        file.write(b"1")
    return path.stat().st_blocks < 2**10


def test_fewer_frames_are_among_them(films: Manifest, tmp_path: Path) -> None:
    run(films, tmp_path, "frames:descriptors")
    views = [view_of_descriptors(n) for n in (16, 8, 4, 5, 32)]
    kept = kept_of(films, tmp_path, "films", [*views, PictureView(16)])
    assert list(kept) == views[:3]
    for view, frames in kept.items():
        clip = frames.clip(films.clips[3].clip_id, view)
        decoded = decode_clip(video_of(films, 3), view)
        pictures = pictures_of_view(clip.pictures, clip.rows, clip.mask)
        assert pictures.tobytes() == decoded.pictures.tobytes()
        for name in ("time_s", "asked_s", "mask"):
            np.testing.assert_array_equal(clip.arrays[name], getattr(decoded, name))
        assert clip.total == decoded.total


def test_frames_are_those_of_the_clip_in_whatever_row(tmp_path: Path) -> None:
    """The store of frames has fewer clips than the manifest, in other rows, as has a subset."""
    films = film_folder(tmp_path, 4)
    keep_manifest(films.with_clips([films.clips[0], films.clips[3]]), tmp_path)
    stores = tmp_path / "stores"
    run("films", tmp_path, "frames:descriptors")
    keep_manifest(films, tmp_path)
    run("films", tmp_path, "frames:descriptors")
    for before in stores.glob("*.before-*"):
        shutil.rmtree(before)
    clips = [films.clips[number].clip_id for number in (3, 1, 2)]
    subset(stores / KEPT, tmp_path / "part", clips=clips)
    shutil.rmtree(stores / KEPT)
    run("films", tmp_path, stores={"descriptors": "of-films"})
    (tmp_path / "part").rename(stores / KEPT)
    assert open_store(stores / KEPT).clip_ids.tolist() != [
        clip.clip_id for clip in films.clips[1:]
    ]
    video_of(films, 1).unlink()
    video_of(films, 3).unlink()
    run("films", tmp_path)
    expected = bytes_of(stores / "of-films")
    assert bytes_of(stores / "films.descriptors") == expected


def test_damaged_frames_are_decoded_again(
    films: Manifest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether damage is accepted is asked of each extraction, and not of the kept frames."""
    whole = write_video(tmp_path / "whole.mp4", numbers=range(18), size=(64, 48))
    flip_bits_visibly(whole, video_of(films, 3), {9, 10})
    run(films, tmp_path, "frames:descriptors", accept_damaged=True)
    store = open_store(tmp_path / "stores" / KEPT)
    assert "frames damaged" in store.rows[3].reason
    clean = store.read(CLEAN, range(N_CLIPS)).tolist()
    assert clean == [True, True, False, False, True, True]
    decoded = []
    result_of = decoding.decoded_row
    monkeypatch.setattr(
        decoding,
        "decoded_row",
        lambda job, *more: decoded.append(job.row) or result_of(job, *more),
    )
    run(films, tmp_path)
    assert sorted(decoded) == [BROKEN, 3]
    reasons = open_store(tmp_path / "stores" / "films.descriptors").status().reasons
    assert reasons[3].sentence.startswith("damaged: ")


def test_damage_elsewhere_in_a_film_is_not_damage_of_the_clip(tmp_path: Path) -> None:
    """Of three clips of one film, the last one lacks two packets."""
    settings: dict[str, Any] = {"size": (64, 48), "options": {"g": "25"}}
    whole = write_video(tmp_path / "whole.mkv", numbers=range(75), **settings)
    (tmp_path / "videos").mkdir()
    drop_packets(whole, tmp_path / "videos" / "a.mkv", {60, 61})
    clips = [
        Clip(f"a-{number}", "a", number, "a.mkv", start_s=number, end_s=number + 1.0)
        for number in range(3)
    ]
    header = Header("films", {}, video_root=str(tmp_path / "videos"))
    films = Manifest("films", header, tuple(clips))
    run(films, tmp_path, "frames:descriptors", accept_damaged=True)
    store = open_store(tmp_path / "stores" / KEPT)
    assert "frames damaged" in store.rows[2].reason
    assert store.read(CLEAN, range(3)).tolist() == [True, True, False]
    (tmp_path / "videos" / "a.mkv").unlink()
    run(films, tmp_path)
    statuses = open_store(tmp_path / "stores" / "films.descriptors").rows
    assert [row.status for row in statuses] == ["ok", "ok", "no-video"]


@pytest.mark.parametrize("broken", ["store.json", f"data.zarr/{CLEAN}/c.0"])
def test_frames_that_cannot_be_read_are_named_and_the_films_decoded(
    films: Manifest, tmp_path: Path, broken: str
) -> None:
    run(films, tmp_path, "frames:descriptors")
    path = tmp_path / "stores" / KEPT / broken
    path.chmod(0o644)
    path.write_bytes(path.read_bytes()[:40] + b"!" + path.read_bytes()[41:])
    notes: list[str] = []
    (state,) = run(films, tmp_path, note=notes.append)
    assert state.ok == N_CLIPS - 1
    assert any(note.startswith(f"{KEPT}: its frames are not used: ") for note in notes)
    planned = plan_extraction("films", "descriptors", workspace=tmp_path)
    assert any("are not used" in warning for warning in planned.warnings)


def test_pictures_that_are_damaged_name_the_store_to_remove(
    films: Manifest, tmp_path: Path
) -> None:
    run(films, tmp_path, "frames:descriptors")
    store = tmp_path / "stores" / KEPT
    path = next((store / "data.zarr" / PICTURES).glob("c.*"))
    path.chmod(0o644)
    data = bytearray(path.read_bytes())
    data[1000] ^= 1
    path.write_bytes(data)
    with pytest.raises(Corrupt) as error:
        run(films, tmp_path)
    assert str(error.value.hint).endswith(f"rm -r {store}")


def test_frames_at_a_rate_are_kept_with_those_that_do_not_exist(
    tmp_path: Path,
) -> None:
    """One frame a second of clips of four seconds and of less than one."""
    films = film_folder(tmp_path, 2)
    write_video(video_of(films, 1), numbers=range(100), size=(64, 48))
    card = str(write_lsmdc_card(tmp_path / "cards"))
    weights = {card: str(save_lsmdc(tmp_path / "weights"))}
    run(films, tmp_path, card, weights=weights, stores={card: "of-films"})
    run(films, tmp_path, f"frames:{card}")
    shutil.rmtree(tmp_path / "videos")
    run(films, tmp_path, card, weights=weights)
    store = open_store(tmp_path / "stores" / "of-films")
    assert store.read("mask", [0, 1]).sum(axis=1).tolist() == [1, 4]
    of_frames = tmp_path / "stores" / "films.tiny-lsmdc"
    assert bytes_of(of_frames) == bytes_of(tmp_path / "stores" / "of-films")


def test_two_backbones_of_which_one_has_kept_frames(tmp_path: Path) -> None:
    """The films are gone: the other one has rows without features."""
    films = film_folder(tmp_path, 3)
    run(films, tmp_path, "frames:descriptors")
    shutil.rmtree(films.header.video_root)
    run(films, tmp_path, "descriptors")
    stores = {"descriptors": "again"}
    together = ["descriptors", own_model(tmp_path)]
    kept, other = run(films, tmp_path, together, stores=stores)
    assert (kept.ok, kept.failed) == (3, 0)
    assert other.counts == dict.fromkeys(other.counts, 0) | {"no-video": 3}
    assert {why.sentence for why in other.failures.values()} == {"no such file"}
    of_store = tmp_path / "stores"
    assert bytes_of(of_store / "again") == bytes_of(of_store / "films.descriptors")


def test_a_film_that_is_replaced_after_the_plan_is_not_that_of_the_kept_frames(
    tmp_path: Path,
) -> None:
    """One view has kept frames of the old film, the other one would be of the new film."""
    films = film_folder(tmp_path, 1)
    run(films, tmp_path, "frames:descriptors")
    views = (view_of_descriptors(), PictureView(4))
    kept = kept_of(films, tmp_path, "films", list(views))
    write_video(video_of(films, 0), numbers=range(100, 140), size=(64, 48))
    with DecodePool(1) as pool:
        clips = planned_clips(films)
        decoder = decoding.RowDecoder(clips, pool, 1, 0, "", kept=kept)
        (row,) = decoder.rows([RowJob(0, views)])
    assert row.views == dict.fromkeys(views, decoding.REPLACED)


def test_frames_of_two_files_of_a_film_are_not_one_row(tmp_path: Path) -> None:
    """Two stores of frames were made before and after the film was replaced; it is gone now."""
    films = film_folder(tmp_path, 1)
    view = view_of_descriptors()
    half = replace(view, count=view.count // 2)
    run(films, tmp_path / "before", "frames:descriptors")
    write_video(video_of(films, 0), numbers=range(100, 140), size=(64, 48))
    run(films, tmp_path / "after", "frames:descriptors")
    video_of(films, 0).unlink()
    kept = {
        view: kept_of(films, tmp_path / "before", "films", [view])[view],
        half: kept_of(films, tmp_path / "after", "films", [view])[view],
    }
    with DecodePool(1) as pool:
        clips = planned_clips(films)
        decoder = decoding.RowDecoder(clips, pool, 1, 0, "", kept=kept)
        (row,) = decoder.rows([RowJob(0, (view, half))])
        decoder = decoding.RowDecoder(clips, pool, 1, 0, "", kept=kept)
        (alone,) = decoder.rows([RowJob(0, (half,))])
    assert set(row.views.values()) == {OF_TWO_FILES}
    assert isinstance(alone.views[half], ViewedClip)


def test_a_store_of_frames_without_any_does_not_stand_for_the_films(
    tmp_path: Path,
) -> None:
    """All clips would fail, and the store was made nevertheless."""
    films = film_folder(tmp_path, 2, bad=dict.fromkeys(range(2), b"not a video"))
    keep_manifest(films, tmp_path)
    extract(tmp_path, "run", "films", "-b", "frames:descriptors")
    shutil.rmtree(films.header.video_root)
    done = extract(tmp_path, "run", "films", "-b", "descriptors")
    assert done.code == 1
    assert "no clip of films has a video file" in done.stderr
    assert not (tmp_path / "stores" / "films.descriptors").exists()


def test_a_manifest_whose_name_is_a_pattern(tmp_path: Path) -> None:
    films = replace(film_folder(tmp_path, 1), name="films[1]")
    run(films, tmp_path, "frames:descriptors")
    for name, n_views in (("films[1]", 1), ("films1", 0)):
        kept = kept_of(films, tmp_path, name, [view_of_descriptors()])
        assert len(kept) == n_views


def test_a_changed_film_is_refused(films: Manifest, tmp_path: Path) -> None:
    run(films, tmp_path, "frames:descriptors")
    with video_of(films, 1).open("ab") as file:
        file.write(b"x")
    done = extract(tmp_path, "run", "films", "-b", "descriptors")
    assert done.code == 5
    assert "1 clip changed since the frames were kept" in done.stderr
    assert "tt0-001: the video had" in done.stderr
    assert not (tmp_path / "stores" / "films.descriptors").exists()


def test_a_checkpoint_that_needs_another_edge_is_refused(tmp_path: Path) -> None:
    """The frames were kept as the card says; these weights were trained on larger ones."""
    films = film_folder(tmp_path, 2)
    keep_manifest(films, tmp_path)
    write_tiny_card("vivit", tmp_path / "backbones")
    run(films, tmp_path, "frames:tiny-vivit")
    weights = save_tiny("vivit", tmp_path / "weights")
    processor = '{"size": {"shortest_edge": 40}}'
    (weights / "preprocessor_config.json").write_text(processor)
    shutil.rmtree(tmp_path / "videos")
    before = sorted((tmp_path / "stores").iterdir())
    words = ("films", "-b", "tiny-vivit", "--weights", str(weights))
    done = extract(tmp_path, "run", *words)
    assert done.code == 1
    assert "no clip of films has a video file" in done.stderr
    assert sorted((tmp_path / "stores").iterdir()) == before


def test_a_plan_needs_no_films(films: Manifest, tmp_path: Path) -> None:
    run(films, tmp_path, "frames:descriptors")
    shutil.rmtree(tmp_path / "videos")
    words = ("plan", "films", "-b", "descriptors", "--json")
    plan = extract(tmp_path, *words).ok().json()
    assert (plan["with_video"], plan["stores"][0]["to_extract"]) == (0, N_CLIPS)
    assert plan["decode_s"] is not None


def test_windows_are_read_from_kept_frames(tmp_path: Path) -> None:
    """Of a store with the same grid; one of another grid does not serve."""
    folder = tmp_path / "films"
    folder.mkdir()
    write_video(folder / "a.mkv", numbers=range(70), size=(64, 48))
    grids = {"w": {"window": 16, "stride": 8}, "other": {"window": 10, "stride": 10}}
    for name, grid in grids.items():
        write_windows(folder, name=name, workspace=tmp_path, **grid)
    stores = tmp_path / "stores"
    run("w", tmp_path, ["descriptors", "frames:descriptors"])
    kept = stores / KEPT.replace("films", "w")
    # Seven windows of 16 pictures of 256 x 256; the last begins at picture 48.
    assert open_store(kept).read(PICTURES, range(7)).shape == (7, 16, 256, 256, 3)
    shutil.copytree(kept, stores / KEPT.replace("films", "other"))
    (folder / "a.mkv").unlink()
    notes: list[str] = []
    run("w", tmp_path, stores={"descriptors": "again"}, note=notes.append)
    assert any("kept frames are read from" in note for note in notes)
    assert bytes_of(stores / "again") == bytes_of(stores / "w.descriptors")
    notes.clear()
    run("w", tmp_path, stores={"descriptors": "again"}, note=notes.append)
    assert not any("kept frames" in note for note in notes)
    # The other grid has seven windows of the same names, and needs the film.
    done = extract(tmp_path, "run", "other", "-b", "descriptors")
    assert done.code == 1
    assert "no clip of other has a video file" in done.stderr
    assert "kept frames" not in done.stderr
    assert not (stores / "other.descriptors").exists()
