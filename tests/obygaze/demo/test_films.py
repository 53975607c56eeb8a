"""Made-up films: the same every time; one concept shows, one is heard, one is nowhere."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest

from obygaze.demo.films import annotate, make_films, render_films
from obygaze_features.video import SoundView, decode_sound
from obygaze_features.video.film import probe


def test_scenes_tile_their_films() -> None:
    scenes = make_films()
    assert len(scenes) == 144
    assert len({scene.movie_id for scene in scenes}) == 12
    for before, after in itertools.pairwise(scenes):
        if before.movie_id == after.movie_id:
            assert after.start_frame == before.end_frame + 1
    assert all(bool(scene.concepts) == (scene.level != "EN") for scene in scenes)
    assert make_films() == scenes


def test_no_concept_says_anything_about_another() -> None:
    scenes = make_films()
    body = np.array(["Body" in scene.concepts for scene in scenes])
    look = np.array(["Look" in scene.concepts for scene in scenes])
    assert look[body].mean() == look[~body].mean() == 0.25
    voice = np.array(["Voice" in scene.concepts for scene in scenes])
    assert voice[body].mean() == voice[~body].mean() == 0.25
    assert voice[look].mean() == pytest.approx(voice[~look].mean(), abs=0.12)


def test_two_annotators_mostly_agree_and_never_mark_easy_negatives() -> None:
    scenes = make_films()
    marks = [row for row in annotate(scenes) if row[4] != "watched"]
    marked = [scene for scene in scenes if scene.concepts]
    assert sum(annotator == "ada" for _, annotator, *_ in marks) == len(marked) == 84
    assert 68 <= sum(annotator == "ben" for _, annotator, *_ in marks) < 84
    assert not [level for *_, level, _, _ in marks if level == "EN"]


def test_videos_have_the_length_of_their_scenes(tmp_path: Path) -> None:
    scenes = make_films()[:2]
    paths = render_films(scenes, tmp_path)
    for scene, path in zip(scenes, paths, strict=True):
        n_frames = scene.end_frame - scene.start_frame + 1
        assert probe(path).to_json()["frames"] == n_frames
        sound = decode_sound(path, SoundView(16000))
        assert len(sound.samples) == round(n_frames * 16000 / 24)
        assert np.abs(sound.samples).max() > 0.01
