"""Groups of films are held out, drawn and counted as films are.

A run with `splits.column` has the numbers of a run on a manifest whose films are the groups: it is
made so, and the tables of both runs are the same bytes. Nothing that is printed of it calls a group
a film. It is not compared with a run that holds out films.
"""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from support.experiments import films, planted, quick, run_on, store_of
from support.seeds import SEED, amount
from support.stores import a_recipe, made_store

from obygaze_features.core.errors import FixInput, ObygazeWarning
from obygaze_features.manifest.model import Manifest
from obygaze_features.store import Row, Store
from obygaze_models.report.comparison import compare_runs
from obygaze_models.runner.files import Run
from obygaze_models.runner.inputs import gather

CHANGES = ('grid.train=["EN_S"]', 'grid.test=["EN_S"]', 'grid.models=["ridge"]')
WAYS: dict[str, tuple[str, ...]] = {
    "folds": ("splits.folds=3",),
    "one only trains": ('splits.never=["0"]',),
}


def grouped(seed: int, column: str = "director") -> Manifest:
    """Films of a few groups, in any order."""
    rng = np.random.default_rng([seed, 31])
    n_films = int(rng.integers(6, 11))
    manifest = films(n_films, 14, seed=seed, runs_on=0.3)
    n_groups = int(rng.integers(4, 6))
    groups = rng.permutation(np.arange(n_films) % n_groups).tolist()
    group_of = dict(zip(manifest.films, groups, strict=True))
    cells = {clip.clip_id: str(group_of[clip.movie_id]) for clip in manifest}
    return manifest.with_column(column, cells)


def run_of(path: Path, manifest: Manifest, *changes: str) -> Run:
    path.mkdir(parents=True, exist_ok=True)
    X = planted(manifest, width=14, strength=0.7, seed=5)
    store = store_of(path / f"store-{len(list(path.iterdir()))}", manifest, X)
    protocol = quick("honest", *CHANGES, *changes)
    return run_on(path, protocol, manifest, {"x": store})


@pytest.mark.parametrize("way", WAYS)
def test_groups_have_the_numbers_of_films(tmp_path: Path, way: str) -> None:
    for seed in range(SEED, SEED + amount(1, 10)):
        manifest = grouped(seed)
        # Clips of two films of a group have other times: else they would be one clip.
        clips = []
        for clip in manifest:
            later = 1000.0 * int(clip.movie_id[2:])
            moved = {"start_s": clip.start_s + later, "end_s": clip.end_s + later}
            clips.append(replace(clip, movie_id=clip.extra["director"], **moved))
        by_film = manifest.with_clips(tuple(clips))
        expected = run_of(tmp_path / f"{seed}-films", by_film, *WAYS[way])
        changes = ("splits.column=director", *WAYS[way])
        run = run_of(tmp_path / f"{seed}-groups", manifest, *changes)
        files = [one.about["files"]["results.csv"] for one in (run, expected)]
        assert files[0] == files[1]
        film_of = {clip.clip_id: clip.movie_id for clip in manifest}
        tests = run.predictions
        assert tests["movie_id"].tolist() == tests["clip_id"].map(film_of).tolist()
        tests, theirs = (one.predictions.assign(movie_id="") for one in (run, expected))
        pd.testing.assert_frame_equal(tests, theirs)
        assert run.about["fits"] == expected.about["fits"]


def store_of_files(path: Path, manifest: Manifest, names: dict[str, str]) -> Store:
    """A store of films whose video files have these hashes."""
    rows = []
    for clip in manifest:
        video = {"video_bytes": 9, "video_hash": names[clip.movie_id]}
        rows.append(Row(clip.clip_id, clip.movie_id, **video))
    X = planted(manifest, width=14, strength=0.7, seed=5)
    return made_store(path, rows, {"clip": X}, recipe=a_recipe())


def test_two_names_of_one_film_are_held_out_together(tmp_path: Path) -> None:
    """Otherwise a film is unseen under its second name, after its first one trained."""
    manifest = grouped(SEED)
    one, other, third, fourth, *others = manifest.films
    names = {film: f"{number + 1:016x}" for number, film in enumerate(manifest.films)}
    names[other] = names[one]
    names[fourth] = names[third]
    store = store_of_files(tmp_path / "s", manifest, names)
    run = run_on(tmp_path, quick("honest", *CHANGES), manifest, {"x": store})
    pairs = f"{one} and {other}, {third} and {fourth}"
    said = f"Films that share a video file count as one: {pairs}."
    assert run.about["remarks"]["one file"] == said
    assert {*run.predictions["group"]} == {one, third, *others}
    first = {other: one, fourth: third}
    same = {c.clip_id: first.get(c.movie_id, c.movie_id) for c in manifest}
    by_column = run_of(
        tmp_path / "c", manifest.with_column("who", same), "splits.column=who"
    )
    pd.testing.assert_frame_equal(run.results, by_column.results)
    # In a run on a store without hashes, they are two films: other clips are paired.
    apart = run_of(tmp_path / "apart", manifest)
    with pytest.raises(FixInput, match="has two groups in two runs"):
        compare_runs([apart, run])


def test_films_that_share_files_in_any_store_are_one_group(tmp_path: Path) -> None:
    """The first shares a file with the second, which shares another one with the fifth."""
    manifest = grouped(SEED)
    first, second, third, fourth, fifth, *_ = manifest.films
    names = {film: f"{number + 1:016x}" for number, film in enumerate(manifest.films)}
    of_stores = {
        "x": names | {second: names[first], fourth: names[third]},
        "y": names | {fifth: names[second]},
    }
    stores = {}
    for store, of_store in of_stores.items():
        stores[store] = store_of_files(tmp_path / store, manifest, of_store)
    table = gather(quick("honest", *CHANGES), manifest, "made-up", stores).table
    one = dict.fromkeys((first, second, fifth), first)
    assert table.group_of_file == one | dict.fromkeys((third, fourth), third)


def test_participants_of_one_recording_are_groups_of_their_own(tmp_path: Path) -> None:
    """A manifest without films states what its groups are: no film has two names there."""
    manifest = grouped(SEED)
    of_clip = {clip.clip_id: clip.movie_id for clip in manifest}
    clips = tuple(replace(clip, movie_id="") for clip in manifest)
    named = manifest.with_clips(clips).with_column("participant", of_clip)
    video = {"video_bytes": 9, "video_hash": f"{1:016x}"}
    rows = [Row(clip.clip_id, "", **video) for clip in clips]
    X = planted(manifest, width=14, strength=0.7, seed=5)
    store = made_store(tmp_path / "s", rows, {"clip": X}, recipe=a_recipe())
    protocol = quick("honest", *CHANGES, "splits.column=participant")
    with pytest.warns(ObygazeWarning, match="matched by id only"):
        run = run_on(tmp_path, protocol, named, {"x": store})
    assert {*run.predictions["group"]} == {*manifest.films}
    assert "one file" not in run.about["remarks"]


def test_films_of_one_file_cannot_be_held_out_and_clips_of_them_can(tmp_path) -> None:
    manifest = grouped(SEED)
    names = dict.fromkeys(manifest.films, "1" * 16)
    store = {"x": store_of_files(tmp_path / "s", manifest, names)}
    n_films = len(manifest.films)
    said = f"all {n_films} films share video files, so none can be held out: tt"
    with pytest.raises(FixInput, match=said):
        run_on(tmp_path, quick("honest", *CHANGES), manifest, store)
    by_clip = (*CHANGES, "splits.kind=kfold", "splits.folds=3")
    run = run_on(tmp_path, quick("honest", *by_clip), manifest, store)
    said = "Films that share a video file count as one: "
    assert run.about["remarks"]["one file"].startswith(said)
    (basis,) = {*run.results.query("model == 'ridge'")["basis"]}
    assert basis == "film-seen"


def test_runs_that_hold_out_different_groups_are_not_compared(tmp_path: Path) -> None:
    manifest = grouped(SEED)
    decades = {clip.clip_id: f"{int(clip.movie_id[2:]) % 3}0s" for clip in manifest}
    both = manifest.with_column("decade", decades)
    runs = {}
    for column in ("director", "decade"):
        runs[column] = run_of(tmp_path / column, both, f"splits.column={column}")
    with pytest.raises(FixInput, match=r": director, .*: decade\)") as refused:
        compare_runs(list(runs.values()))
    assert str(refused.value.hint).endswith("or report each run alone")
    # A clip that is of another director in one of them.
    moved = {clip.clip_id: clip.extra["director"] for clip in manifest}
    film = manifest.clips[0].movie_id
    for clip in manifest:
        if clip.movie_id == film:
            moved[clip.clip_id] = "another"
    changed = manifest.with_column("director", moved)
    other = run_of(tmp_path / "other", changed, "splits.column=director")
    with pytest.raises(FixInput, match="has two groups in two runs"):
        compare_runs([runs["director"], other])


@pytest.mark.parametrize(
    ("cells", "problem"),
    [
        ({0: ""}, "has no value in the column director"),
        ({0: "0|1"}, "needs one group for each film"),
    ],
)
def test_groups_that_may_hide_a_leak_are_refused(tmp_path, cells, problem) -> None:
    manifest = grouped(SEED)
    names = list(dict.fromkeys(clip.movie_id for clip in manifest))
    of_clips = {clip.clip_id: clip.extra["director"] for clip in manifest}
    for number, cell in cells.items():
        for clip in manifest:
            if clip.movie_id == names[number]:
                of_clips[clip.clip_id] = cell
    changed = manifest.with_column("director", of_clips)
    with pytest.raises(FixInput, match=re.escape(problem)):
        run_of(tmp_path, changed, "splits.column=director")
    # One clip of a film is of another group.
    divided = {clip.clip_id: clip.extra["director"] for clip in manifest}
    divided[manifest.clips[0].clip_id] = "another"
    changed = manifest.with_column("director", divided)
    with pytest.raises(FixInput, match="needs one group for each film") as refused:
        run_of(tmp_path, changed, "splits.column=director")
    # Each clip has a value: an expression over the column would exclude no clip.
    assert "data.where" not in str(refused.value.hint)
    with pytest.raises(FixInput, match="cannot be a column with the name"):
        run_of(tmp_path, grouped(SEED, "film"), "splits.column=film")
