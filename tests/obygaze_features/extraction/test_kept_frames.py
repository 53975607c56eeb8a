import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.checkpoints import save_lsmdc, write_lsmdc_card
from support.cli import Result, call_obygaze
from support.damage import flip_bit, flip_bits_visibly
from support.extraction import film_folder, keep_manifest, run
from support.videos import write_video
from support.written_stores import lasting_bytes

from obygaze_features.backbones.cards import find_card
from obygaze_features.core.errors import Corrupt
from obygaze_features.core.workspace import Workspace
from obygaze_features.extraction import decoding
from obygaze_features.extraction.clips import (
    RowJob,
    ViewedClip,
    plan_clips,
    read_video_facts,
)
from obygaze_features.extraction.cut_films import write_windows
from obygaze_features.extraction.kept import (
    OF_TWO_FILES,
    KeptViews,
    find_kept,
    stores_of_frames,
)
from obygaze_features.manifest.model import Manifest
from obygaze_features.store import open_store
from obygaze_features.store.layout import CLEAN, PICTURES
from obygaze_features.video import DecodePool, PictureView, decode_clip
from obygaze_features.video.decoded_clip import pictures_of_view

N_CLIPS = 4
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
    clips = plan_clips(films)
    facts = read_video_facts(clip.video for clip in clips)
    stores, unreadable = stores_of_frames(name, Workspace(workspace))
    assert unreadable == []
    return find_kept(stores, clips, facts, views)


def test_damaged_frames_are_decoded_again(films, tmp_path, monkeypatch) -> None:
    """Whether damage is accepted is asked of each extraction, and not of the kept frames."""
    whole = write_video(tmp_path / "whole.mp4", numbers=range(18), size=(64, 48))
    flip_bits_visibly(whole, video_of(films, 3), {9, 10})
    run(films, tmp_path, "frames:descriptors", accept_damaged=True)
    store = open_store(tmp_path / "stores" / KEPT)
    assert "frames damaged" in store.rows[3].reason
    clean = store.read(CLEAN, range(N_CLIPS)).tolist()
    assert clean == [True, True, False, False]
    decoded = []
    result_of = decoding.make_decoded_row
    monkeypatch.setattr(
        decoding,
        "make_decoded_row",
        lambda job, *more: decoded.append(job.row) or result_of(job, *more),
    )
    run(films, tmp_path)
    assert sorted(decoded) == [BROKEN, 3]
    reasons = open_store(tmp_path / "stores" / "films.descriptors").status().reasons
    assert reasons[3].sentence.startswith("damaged: ")


def test_kept_frames_do_not_get_the_licence_of_labels_or_features(films, tmp_path):
    for licence in ("", "CC0-1.0"):
        run(films, tmp_path, ["frames:descriptors", "descriptors"], licence=licence)
        assert open_store(tmp_path / "stores" / KEPT).terms.licence == ""
    assert open_store(tmp_path / "stores/films.descriptors").terms.licence == "CC0-1.0"


def test_pictures_that_are_damaged_name_the_store_to_remove(films, tmp_path) -> None:
    run(films, tmp_path, "frames:descriptors")
    store = tmp_path / "stores" / KEPT
    flip_bit(next((store / PICTURES).glob("c.*")), 1000)
    with pytest.raises(Corrupt) as error:
        run(films, tmp_path)
    assert str(error.value.hint).endswith(f"rm -r {store}")


def test_frames_at_a_rate_are_kept_with_those_that_do_not_exist(tmp_path) -> None:
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
    assert lasting_bytes(of_frames) == lasting_bytes(tmp_path / "stores" / "of-films")


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
        clips = plan_clips(films)
        decoder = decoding.RowDecoder(clips, pool, 1, 0, "", kept=kept)
        (row,) = decoder.rows([RowJob(0, (view, half))])
        decoder = decoding.RowDecoder(clips, pool, 1, 0, "", kept=kept)
        (alone,) = decoder.rows([RowJob(0, (half,))])
    assert set(row.views.values()) == {OF_TWO_FILES}
    assert isinstance(alone.views[half], ViewedClip)


def test_a_changed_film_is_refused(films: Manifest, tmp_path: Path) -> None:
    run(films, tmp_path, "frames:descriptors")
    with video_of(films, 1).open("ab") as file:
        file.write(b"x")
    done = extract(tmp_path, "run", "films", "-b", "descriptors")
    assert done.code == 5
    assert "1 clip changed since the frames were kept" in done.stderr
    assert "tt0-001: was from a video of " in done.stderr
    clips = [replace(clip, start_s=0.2, end_s=0.6) for clip in films.clips]
    keep_manifest(films.with_clips(clips), tmp_path)
    done = extract(tmp_path, "run", "films", "-b", "descriptors")
    assert done.code == 5
    assert "tt0-000: was the whole file, is now 0.2 s to " in done.stderr
    assert not (tmp_path / "stores" / "films.descriptors").exists()


def test_windows_are_read_from_kept_frames(tmp_path: Path) -> None:
    """Of a store with the same windows; one of other windows does not serve."""
    folder = tmp_path / "films"
    folder.mkdir()
    write_video(folder / "a.mkv", numbers=range(40), size=(64, 48))
    grids = {"w": {"window": 16, "stride": 8}, "other": {"window": 10, "stride": 10}}
    for name, grid in grids.items():
        write_windows(folder, name=name, workspace=tmp_path, **grid)
    stores = tmp_path / "stores"
    run("w", tmp_path, ["descriptors", "frames:descriptors"])
    kept = stores / KEPT.replace("films", "w")
    # Four windows of 16 pictures of 256 x 256; the last begins at picture 24.
    assert open_store(kept).read(PICTURES, range(4)).shape == (4, 16, 256, 256, 3)
    shutil.copytree(kept, stores / KEPT.replace("films", "other"))
    (folder / "a.mkv").unlink()
    notes: list[str] = []
    run("w", tmp_path, stores={"descriptors": "again"}, note=notes.append)
    assert any("kept frames are read from" in note for note in notes)
    assert lasting_bytes(stores / "again") == lasting_bytes(stores / "w.descriptors")
    # Other windows need the film.
    done = extract(tmp_path, "run", "other", "-b", "descriptors")
    assert done.code == 1
    assert "no clip of other has a video file" in done.stderr
    assert "kept frames" not in done.stderr
    assert not (stores / "other.descriptors").exists()


def test_frames_that_cannot_be_read_are_named_and_the_films_decoded(films, tmp_path):
    run(films, tmp_path, "frames:descriptors")
    path = tmp_path / "stores" / KEPT / f"{CLEAN}/c.0"
    path.chmod(0o644)
    path.write_bytes(b"!" + path.read_bytes()[1:])
    notes: list[str] = []
    (state,) = run(films, tmp_path, note=notes.append)
    assert state.ok == N_CLIPS - 1
    unused = f"{KEPT}: the kept frames are not used: "
    assert any(note.startswith(unused) for note in notes)


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


def test_sound_names_no_video_where_pictures_alone_are_kept(films, tmp_path) -> None:
    run(films, tmp_path, "frames:descriptors")
    clips = tuple(replace(clip, video="") for clip in films.clips)
    run(replace(films, clips=clips), tmp_path, ["descriptors", "sound-descriptors"])
    rows = open_store(tmp_path / "stores" / "films.sound-descriptors").rows
    facts = {(row.status, row.video_bytes, row.video_hash) for row in rows}
    assert facts == {("no-video", None, "")}
