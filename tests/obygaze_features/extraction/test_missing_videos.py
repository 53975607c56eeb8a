"""`obygaze extract run` before videos are linked, without their folder, and afterwards."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from support.cli import Result, call_obygaze
from support.extraction import a_plan, array_bytes, film_folder, keep_manifest

from obygaze_features.extraction import StopFlag
from obygaze_features.extraction.run import Resources, extract_plan
from obygaze_features.extraction.status import missing_units
from obygaze_features.manifest.model import Manifest

N_CLIPS = 9
STORE = Path("stores", "films.descriptors")


@pytest.fixture
def films(tmp_path: Path) -> Manifest:
    manifest = film_folder(tmp_path, N_CLIPS)
    keep_manifest(manifest, tmp_path)
    return manifest


def unlinked(manifest: Manifest, *numbers: int) -> Manifest:
    clips = [replace(c, video="") if c.scene in numbers else c for c in manifest.clips]
    return manifest.with_clips(clips)


def run(folder: Path, *words: str) -> Result:
    return call_obygaze(
        "-C", folder, "extract", "run", "films", "-b", "descriptors", *words
    )


def test_a_run_before_the_link_is_refused_and_leaves_no_store(
    films: Manifest, tmp_path: Path
) -> None:
    keep_manifest(unlinked(films, *range(N_CLIPS)), tmp_path)
    done = run(tmp_path)
    assert done.code == 1 and "no clip of films is linked to a video" in done.stderr
    assert "obygaze manifest link films FOLDER" in done.stderr
    assert not (tmp_path / STORE).exists()
    call_obygaze("-C", tmp_path, "manifest", "link", "films", tmp_path / "videos").ok()
    assert run(tmp_path, "--json").ok().json()["ok"] == N_CLIPS


def test_without_the_folder_of_the_videos_nothing_is_recorded(
    films: Manifest, tmp_path: Path
) -> None:
    videos, away = tmp_path / "videos", tmp_path / "away"
    videos.rename(away)
    done = run(tmp_path)
    assert done.code == 1 and "none of the 9 video files of films exists" in done.stderr
    assert not (tmp_path / STORE).exists()
    away.rename(videos)
    run(tmp_path).ok()
    videos.rename(away)
    assert run(tmp_path, "--json").ok().json()["ok"] == N_CLIPS, (
        "a complete store is reported"
    )


def test_the_same_command_extracts_clips_whose_video_came_later(
    films: Manifest, tmp_path: Path
) -> None:
    """Two clips are linked later, the file of another one is missing at first."""
    run(tmp_path, "--store", "descriptors=undisturbed").ok()
    keep_manifest(unlinked(films, 2, 7), tmp_path)
    path, away = tmp_path / "videos" / films.clips[4].video, tmp_path / "away.mp4"
    path.rename(away)
    done = run(tmp_path)
    assert done.code == 3
    assert "2 clips without a video: obygaze manifest link films FOLDER" in done.stderr
    assert "files missing" in done.stderr
    counts = {"ok": N_CLIPS - 3, "failed": 1, "missing": 2}
    again = run(tmp_path, "--json").json()
    assert {key: again[key] for key in counts} == counts
    away.rename(path)
    keep_manifest(films, tmp_path)
    done = run(tmp_path, "--json").ok()
    assert (done.json()["ok"], done.json()["sealed"]) == (N_CLIPS, True)
    assert array_bytes(tmp_path / STORE) == array_bytes(
        tmp_path / "stores" / "undisturbed"
    )


def test_units_whose_video_came_later_are_missing(
    films: Manifest, tmp_path: Path
) -> None:
    """`--device cuda:all` extracts them; they are four clips each."""
    first = a_plan(unlinked(films, 1, 5, 6), tmp_path, "descriptors")
    extract_plan(first, Resources(), StopFlag())
    assert missing_units(first) == []
    Path(tmp_path, "videos", films.clips[1].video).unlink()
    linked = a_plan(films, tmp_path, "descriptors")
    assert missing_units(linked) == [1]
    (state,) = extract_plan(linked, Resources(), StopFlag(), rows=range(4, 8))
    assert (state.ok, missing_units(linked)) == (4, [])


def test_nothing_extracted_is_an_error(tmp_path: Path) -> None:
    keep_manifest(film_folder(tmp_path, 2, bad={0: b"bad", 1: b"bad"}), tmp_path)
    done = run(tmp_path)
    assert done.code == 1 and "no clip was extracted" in done.stderr
    assert "the same command and --retry-failed" in done.stderr


def test_a_refused_run_leaves_no_store(films: Manifest, tmp_path: Path) -> None:
    cards = tmp_path / "backbones"
    cards.mkdir()
    card = 'schema = "obygaze-backbone/1"\nlike = "descriptors"\nname = "mine"\ntitle = "Mine"\n'
    (cards / "mine.toml").write_text(card, "utf-8")
    (tmp_path / "stores" / "taken").mkdir(parents=True)
    (tmp_path / "stores" / "taken" / "letter.txt").write_text("not a store", "utf-8")
    done = run(tmp_path, "-b", "mine", "--store", "mine=taken")
    assert done.code == 1 and "not an obygaze store" in done.stderr
    assert not (tmp_path / STORE).exists()
    done = run(tmp_path, "--retry-failed")
    assert done.code == 1 and "without --retry-failed" in done.stderr
    assert not (tmp_path / STORE).exists()
