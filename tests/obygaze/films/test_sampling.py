"""Draws of clips: their probabilities, what is left out, and what is refused."""

from collections import Counter
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs
from scipy import stats

from obygaze.films.sampling import DrawnClips, draw_plan, is_drawn, sample_clips
from obygaze_features.core.errors import ObygazeError
from obygaze_features.core.workspace import Workspace
from obygaze_features.manifest.io import read_manifest, write_manifest
from obygaze_features.manifest.model import Clip, Header, Manifest


def manifest_of(sizes: list[int]) -> Manifest:
    """Clips of two seconds: `sizes[k]` of film k."""
    clips = []
    for film, size in enumerate(sizes):
        for clip in range(size):
            times = {"start_s": 2.0 * clip, "end_s": 2.0 * clip + 2}
            ids = (f"f{film}-{clip:03d}", f"f{film}")
            clips.append(Clip(*ids, video=f"f{film}.mp4", **times))
    return Manifest("films", Header("films"), tuple(clips))


def saved(folder: Path, manifest: Manifest) -> Path:
    path = Workspace(folder).new_manifest(manifest.name)
    path.parent.mkdir(exist_ok=True)
    write_manifest(manifest, path, force=True)
    return path


def draw(folder: Path, n_clips: int, **more: Any) -> DrawnClips:
    return sample_clips("films", n_clips, "drawn", workspace=folder, **more)


@settings(max_examples=20, deadline=None)
@given(st.data())
def test_a_draw_has_its_probabilities(data: Any) -> None:
    sizes = data.draw(st.lists(st.integers(1, 12), min_size=1, max_size=6))
    n_clips = data.draw(st.integers(len(sizes), sum(sizes)))
    seed = data.draw(st.integers(0, 3))
    with TemporaryDirectory() as name:
        folder = Path(name)
        saved(folder, manifest_of(sizes))
        made = draw(folder, n_clips, seed=seed)
        drawn = made.manifest
        again = draw(folder, n_clips, seed=seed, force=True)
        assert again.manifest == drawn == read_manifest(made.path)
        assert len(drawn) == n_clips
        n_of_film = Counter(clip.movie_id for clip in drawn)
        for clip in drawn:
            size = sizes[int(clip.movie_id[1:])]
            probability = float(clip.extra["draw_probability"])
            assert probability == n_of_film[clip.movie_id] / size
            assert clip.extra["draw_clips"] == str(size)
        plan = draw_plan(drawn)
        assert {film: plan[film].n_drawn for film in plan} == n_of_film
        # Films with fewer clips than another one have no more to give.
        for film, size in enumerate(sizes):
            n_of = n_of_film[f"f{film}"]
            assert n_of == size or n_of >= max(n_of_film.values()) - 1


def test_the_next_command_names_an_annotator(tmp_path: Path) -> None:
    # Without a name, each film would become an annotator.
    saved(tmp_path, manifest_of([2, 2]))
    assert draw(tmp_path, 2).notes == [
        "next: obygaze marks blank drawn drawn-elan --person NAME"
    ]


def test_a_sample_of_one_film_is_warned_of_because_it_gives_no_share(tmp_path) -> None:
    saved(tmp_path, manifest_of([4]))
    warned = "obygaze audit share requires clips of at least 2 films, got 1 film"
    assert draw(tmp_path, 2).warnings == [warned]
    saved(tmp_path, manifest_of([4, 4]))
    assert draw(tmp_path, 2, force=True).warnings == []


def test_each_clip_of_a_film_is_drawn_as_often_as_the_others(tmp_path: Path) -> None:
    saved(tmp_path, manifest_of([10, 10]))
    n_draws = 100
    drawn: Counter[str] = Counter()
    for seed in range(n_draws):
        clips = draw(tmp_path, 6, seed=seed, force=True).manifest.clip_ids
        drawn.update(clip for clip in clips if clip.startswith("f0"))
    low, high = stats.binom.ppf([0.0005, 0.9995], n_draws, 0.3)
    assert len(drawn) == 10
    assert all(low <= n <= high for n in drawn.values())


@pytest.mark.parametrize(
    ("change", "n_clips", "problem"),
    [
        ("none", 1, "-n: expected 2 (one clip of each film)"),
        ("none", 7, "got 7"),
        ("times", 4, "no times in the film for the clips"),
        ("film", 4, "is missing"),
        ("drawn", 4, "expected all clips of the films, got a sample"),
    ],
)
def test_what_cannot_be_drawn_is_refused(tmp_path, change, n_clips, problem) -> None:
    manifest = manifest_of([3, 3])
    clips = list(manifest)
    if change == "times":
        clips = [replace(clip, start_s=None, end_s=None) for clip in clips]
    elif change == "film":
        clips = [replace(clip, movie_id="") for clip in clips]
        header = structs.replace(manifest.header, films="none")
        manifest = replace(manifest, header=header)
    manifest = manifest.with_clips(clips)
    saved(tmp_path, manifest)
    if change == "drawn":
        drawn = draw(tmp_path, 4).manifest
        saved(tmp_path, replace(drawn, name="films"))
    with pytest.raises(ObygazeError) as refused:
        draw(tmp_path, n_clips)
    assert problem in refused.value.message


def test_clips_of_which_a_mark_would_count_for_two_are_not_drawn(tmp_path) -> None:
    """A mark of a fifth of a clip is its level, so overlapping clips would share their marks."""
    apart = manifest_of([3, 3])
    for overlap_s, is_refused in ((0.3, False), (0.5, True), (1.9, True)):
        clips = []
        for clip in apart:
            assert clip.end_s is not None
            clips.append(replace(clip, end_s=clip.end_s + overlap_s))
        saved(tmp_path, apart.with_clips(clips))
        if is_refused:
            with pytest.raises(ObygazeError, match="drawn clips overlap"):
                draw(tmp_path, 6, force=True)
        else:
            assert len(draw(tmp_path, 6, force=True).manifest) == 6
    # One clip of each film overlaps no other.
    assert len(draw(tmp_path, 2, force=True).manifest) == 2


@pytest.mark.parametrize(
    ("probability", "n_clips"),
    [("0.1", "5"), ("often", "5"), ("0.5", "0"), ("1.5", "5")],
)
def test_columns_that_are_those_of_no_draw_are_refused(probability, n_clips) -> None:
    plan = {"draw_probability": probability, "draw_clips": n_clips}
    clips = [replace(clip, extra=plan) for clip in manifest_of([3])]
    drawn = Manifest("drawn", Header("films"), tuple(clips), tuple(plan))
    assert is_drawn(drawn)
    with pytest.raises(ObygazeError, match="contradict its"):
        draw_plan(drawn)
