"""Made-up films: the same every time, with enough of each level to learn from."""

from __future__ import annotations

import itertools
from collections import Counter
from pathlib import Path

from obygaze.demo.films import (
    annotate,
    make_films,
    render,
    truncate_video,
    write_tables,
)
from obygaze.films.projection import read_inputs
from obygaze_features.video.film import probe


def test_scenes_tile_their_films() -> None:
    scenes = make_films()
    assert len(scenes) == 72
    for before, after in itertools.pairwise(scenes):
        if before.movie_id == after.movie_id:
            assert after.start_frame == before.end_frame + 1
    assert all(bool(scene.concepts) == (scene.level != "EN") for scene in scenes)


def test_every_level_is_there_to_learn_from() -> None:
    counts = Counter(scene.level for scene in make_films())
    assert min(counts[level] for level in ("EN", "HN", "S")) >= 15
    films = {scene.movie_id for scene in make_films() if scene.level == "S"}
    assert len(films) == 6


def test_two_annotators_mostly_agree_and_never_mark_easy_negatives() -> None:
    segments = annotate(make_films())
    assert {annotator for _, annotator, *_ in segments} == {"ada", "ben"}
    assert not [level for *_, level, _ in segments if level == "EN"]
    assert annotate(make_films()) == segments


def test_the_tables_are_what_a_projection_reads(tmp_path: Path) -> None:
    segments, clips = write_tables(make_films(), tmp_path)
    found = read_inputs(segments, clips)
    assert len(found[1]) == 72


def test_videos_have_the_length_of_their_scenes(tmp_path: Path) -> None:
    scenes = make_films()[:2]
    paths = render(scenes, tmp_path)
    for scene, path in zip(scenes, paths, strict=True):
        assert (
            probe(path).to_json()["frames"] == scene.end_frame - scene.start_frame + 1
        )
    size = paths[0].stat().st_size
    truncate_video(paths[0])
    assert paths[0].stat().st_size == size // 3
