"""Rule (a): a clip is a film and a span; its id is only its name in a manifest."""

import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.cli import Result, call_obygaze
from support.experiments import ONE_PAIR, films, planted, store_of, store_of_windows
from support.stores import made_store

import obygaze as og
from obygaze.audits.annotations import audit_annotations
from obygaze.audits.captions import audit_captions
from obygaze.audits.cooccurrence import audit_cooc
from obygaze.audits.levels import audit_levels
from obygaze.audits.reliability import audit_reliability
from obygaze_features.core.console import count
from obygaze_features.core.errors import FixInput, Mismatch
from obygaze_features.manifest.io import read_manifest, write_manifest
from obygaze_features.manifest.model import Clip, Header, Manifest, Windows
from obygaze_features.manifest.same_clip import (
    OTHER,
    SAME,
    UNKNOWN,
    Identity,
    compare_clips,
    places_of,
)
from obygaze_features.manifest.windows import CutFilm, Grid
from obygaze_features.store import (
    Recipe,
    export_features,
    import_features,
    open_store,
)
from obygaze_features.store.changing import join, subset
from obygaze_features.store.identity import identity_of
from obygaze_features.store.rows import Row
from obygaze_models.runner.inputs import gather
from obygaze_models.runner.run import run_protocol
from obygaze_models.runner.summary import cells_of
from obygaze_models.runner.text import result_text
from obygaze_models.runner.training import fit_final, training_protocol
from obygaze_models.zoo import load_model, predict


@pytest.mark.parametrize(
    ("one", "other", "sameness"),
    [
        (Identity("lake-1"), Identity("lake-1"), UNKNOWN),
        (Identity("lake-1", "lake"), Identity("lake-1"), UNKNOWN),
        (Identity("lake-1", "lake"), Identity("lake-1", "lake"), SAME),
        (Identity("1", "lake"), Identity("1", "dune"), OTHER),
        (Identity("1", "", (0.0, 2.0)), Identity("1", "dune", (0.0, 2.0)), SAME),
        (Identity("1", "dune", (0.0, 2.0)), Identity("1", "dune", (1.0, 2.0)), OTHER),
        # Rounded to two digits in one table.
        (Identity("1", "", (1 / 3, 2.0)), Identity("1", "", (0.33, 2.0)), SAME),
        # The same times in files of their own, at other places of the film.
        (
            Identity("1", "dune", (10.0, 12.0), (0.0, 2.0)),
            Identity("1", "dune", (20.0, 22.0), (0.0, 2.0)),
            OTHER,
        ),
        (Identity("a", "dune", (0.0, 2.0)), Identity("b", "dune", (0.0, 2.0)), SAME),
        (Identity("a", "dune"), Identity("b", "dune"), OTHER),
        (
            Identity("a", "dune", None, (0.0, 2.0)),
            Identity("b", "dune", None, (0.0, 2.0)),
            OTHER,
        ),
        # Both are all of one video, or the same part of it.
        (
            Identity("a", "dune", video="ef"),
            Identity("b", "dune", video="ef"),
            SAME,
        ),
        (
            Identity("a", "dune", in_either=(0.0, 2.0), video="ef"),
            Identity("b", "dune", in_file=(0.0, 2.0), video="ef"),
            SAME,
        ),
        (Identity("a", "", video="ef"), Identity("b", "dune", video="ef"), SAME),
        (
            Identity("a", "", in_either=(0.0, 2.0), video="ef"),
            Identity("b", "", in_either=(2.0, 4.0), video="ef"),
            OTHER,
        ),
        (Identity("a", "", (0.0, 2.0)), Identity("b", "", (0.0, 2.0)), OTHER),
        (Identity("a", "dune", video="ef"), Identity("b", "dune", video="01"), OTHER),
        (Identity("a", "dune", video="ef"), Identity("b", "lake", video="ef"), OTHER),
        (
            Identity("a", "dune", video="ef"),
            Identity("b", "dune", in_either=(0.0, 2.0), video="ef"),
            OTHER,
        ),
        # To the end of the video, or to 2 s: nobody knows.
        (
            Identity("a", "dune", in_either=(0.0, 2.0), video="ef"),
            Identity("b", "dune", in_either=(0.0, None), video="ef"),
            OTHER,
        ),
        # Windows of a film whose rate varies have no times.
        (
            Identity("dune:000001", "dune", video="ef"),
            Identity("dune:000002", "dune", video="ef"),
            OTHER,
        ),
        (Identity("1", "dune"), Identity("1", "lake"), OTHER),
        (
            Identity("1", in_film=(3.0, 4.0)),
            Identity("1", in_either=(3.0, None)),
            SAME,
        ),
        (
            Identity("1", in_film=(3.0, 4.0)),
            Identity("1", in_either=(5.0, None)),
            OTHER,
        ),
    ],
)
def test_two_rows_are_the_same_clip_unless_film_or_times_contradict(
    one: Identity, other: Identity, sameness: object
) -> None:
    assert compare_clips(one, other).sameness is sameness
    assert compare_clips(other, one).sameness is sameness


STARTS = st.sampled_from([None, 0.0, 0.01, 0.02, 0.03, 0.039, 0.04, 0.06, 0.079, 0.099])
SPANS = st.none() | st.tuples(STARTS, st.just(1.0))


def rows(*ids: str) -> st.SearchStrategy[Identity]:
    films, videos = st.sampled_from(["", "lake"]), st.sampled_from(["v", ""])
    return st.builds(Identity, st.sampled_from(ids), films, SPANS, SPANS, SPANS, videos)


@settings(max_examples=400, deadline=None)
@given(rows("a", "a:1"), rows("b", "b:1"))
def test_rows_of_one_clip_with_two_ids_begin_at_a_common_place(
    one: Identity, other: Identity
) -> None:
    """A search compares rows with a common place alone."""
    if compare_clips(one, other).sameness.is_same:
        assert not set(places_of(one)).isdisjoint(places_of(other))


def test_a_contradiction_names_both_values() -> None:
    films = compare_clips(Identity("1", "lake"), Identity("1", "dune"))
    times = compare_clips(Identity("1", "", (0.0, 2.0)), Identity("1", "", (7.5, 9.0)))
    assert films.contradiction == "film: lake and dune"
    assert times.contradiction == "times: 0 s to 2 s and 7.5 s to 9 s"


def test_a_film_called_unknown_is_not_known(tmp_path: Path) -> None:
    """As in a manifest whose files did not say the films, and in a store of it."""
    later = Clip("a-1", "dune")
    row = Row("a-1", "unknown")
    assert compare_clips(Identity.of_clip(later), identity_of(row)).sameness is UNKNOWN
    earlier = Identity.of_clip(Clip("a-1", "unknown"))
    assert compare_clips(earlier, Identity.of_clip(later)).sameness is UNKNOWN
    path = tmp_path / "stores" / "accede"
    path.parent.mkdir()
    made_store(path, [row, Row("b-1", "b")], {"clip": np.eye(2, dtype="float32")})
    with pytest.raises(FixInput, match="'unknown' is no film"):
        subset("accede", without=["unknown"], reason="asked", workspace=tmp_path)


@pytest.mark.parametrize(
    "audit",
    [
        lambda clips: audit_annotations(clips, x="level == S", y="level == HN"),
        audit_levels,
    ],
)
def test_clips_of_unknown_films_are_not_those_of_one_film(audit: Any) -> None:
    """As one film, they were exchanged "within films" though they may be of many."""
    clips = [
        Clip(f"a-{i}", "unknown" if i else "a", level=level, concepts=("Look",))
        for i, level in enumerate(("S", "HN", "S", "HN"))
    ]
    manifest = Manifest("a", Header("a", {"Look": "visual"}), tuple(clips))
    with pytest.raises(FixInput, match="films of 3 of 4 clips are not known"):
        audit(manifest)


# Which clips are of a film that nobody knows, by their part and the number of their film.
UNKNOWN_CLIPS: dict[str, Any] = {
    "all": lambda part, film: True,
    "some films": lambda part, film: film < 2,
    "trained": lambda part, film: part == "train",
    "tested": lambda part, film: part == "test",
    "none": lambda part, film: False,
}
FIXED = ("splits.kind=fixed", "splits.column=part", 'splits.test=["test"]')
DRAWN = ("splits.kind=kfold", "splits.folds=4")


@pytest.mark.parametrize("splits", [FIXED, DRAWN])
@pytest.mark.parametrize("unknown", UNKNOWN_CLIPS)
def test_no_run_and_no_model_knows_what_film_an_unknown_one_is(
    tmp_path: Path, unknown: str, splits: tuple[str, ...]
) -> None:
    """A model may have seen the film of a clip, wherever one of the two is not known."""
    manifest = films(8, 24, seed=5, runs_on=0.2)
    names = manifest.films
    clips = []
    for clip in manifest:
        film = names.index(clip.movie_id)
        part = "test" if film % 2 else "train"
        is_unknown = UNKNOWN_CLIPS[unknown](part, film)
        movie_id = "unknown" if is_unknown else clip.movie_id
        clips.append(replace(clip, movie_id=movie_id, extra={"part": part}))
    manifest = replace(manifest.with_clips(clips[:-24]), columns=("part",))
    new = manifest.with_clips(clips[-24:])
    store = store_of(tmp_path / "store", manifest, planted(manifest))
    of_new = store_of(tmp_path / "new", new, planted(new))
    changes = [*splits, "report.replicates=20"]
    protocol = training_protocol("ridge", "EN_S", manifest, changes)
    inputs = gather(protocol, manifest, "made-up", {"x": store})
    run = run_protocol(inputs, tmp_path / "run", n_jobs=1)
    (cell,) = [cell for cell in cells_of(run) if cell.is_model]
    text = result_text(run)
    n_unknown = sum(clip.movie_id == "unknown" for clip in manifest)
    sentence = f"The films of {n_unknown} of {len(manifest)} clips are not known"
    assert (sentence in text) == bool(n_unknown)
    is_by_film = splits is FIXED
    assert ("n films it has not seen" in text) == (is_by_film and not n_unknown)
    assert ("of films that may have trained" in text) == bool(n_unknown)
    assert cell.has_interval("ap") == (not n_unknown)
    assert "divides films" not in text
    model = load_model(fit_final(inputs, run, tmp_path / "model"))
    found = predict(model, of_new, manifest=new)
    assert set(found.basis) == {"film-unknown" if n_unknown else "unseen"}
    assert any(sentence in note for note in model.info.notes) == bool(n_unknown)


@pytest.mark.parametrize("is_known", ["film", "times", "film and times", ""])
def test_runs_say_how_many_clips_are_the_same_by_their_ids_alone(
    tmp_path: Path, is_known: str
) -> None:
    """Two tables that number their clips from 1 on."""
    runs = []
    for name, seed in (("one", 1), ("two", 2)):
        manifest = films(4, 24, seed=seed, runs_on=0.2)
        clips = []
        for number, clip in enumerate(manifest):
            clip = replace(clip, clip_id=f"c{number:03d}")
            if "film" not in is_known:
                clip = replace(clip, movie_id="unknown")
            if "times" not in is_known:
                clip = replace(clip, start_s=None, end_s=None)
            clips.append(clip)
        manifest = replace(manifest.with_clips(clips), name=name)
        write_manifest(manifest, tmp_path / "manifests" / f"{name}.toml")
        store_of(tmp_path / "stores" / name, manifest, planted(manifest))
        changes = [*DRAWN, *ONE_PAIR, 'grid.models=["ridge"]', "report.replicates=2"]
        words: Any = {"changes": changes, "output": name, "workspace": tmp_path}
        runs.append(og.run("honest", name, name, **words))
    said = " ".join(og.compare(*runs).warnings)
    assert ("taken for those of one by their ids alone" in said) == (not is_known)
    ids = [{row["clip_id"] for row in run.predictions} for run in runs]
    assert (f"two: {len(ids[0] & ids[1])} clips taken" in said) == (not is_known)


def check_share_refuses(folder: Path, windows: str, seen: Sequence[str]) -> None:
    """The audit of a share names the drawn windows whose seconds were in the training."""

    def typed(line: str) -> Result:
        return call_obygaze(*line.split(), cwd=folder)

    typed("models predict ./model windows --in-sample -o scores.csv").ok()
    typed(f"manifest sample {windows} -n 30 -o drawn").ok()
    drawn = read_manifest("drawn", workspace=folder)
    lines = ["movie_id,annotator,start_s,end_s,level,framerate"]
    for clip in drawn:
        lines.append(f"{clip.movie_id},eva,{clip.start_s},{clip.end_s},S,25")
    (folder / "marks.csv").write_text("\n".join([*lines, ""]), "utf-8")
    share = "audit share drawn --marks marks.csv"
    typed(share).ok()
    refused = typed(f"{share} --predictions scores.csv")
    n_seen = sum(clip in seen for clip in drawn.clip_ids)
    assert n_seen and refused.code
    said = (
        f"the model was trained on this drawn clip, or on a part of it ({n_seen} times)"
    )
    assert said in refused.stderr


@pytest.mark.parametrize("seed", range(4))
def test_windows_are_known_by_the_times_of_their_store(
    tmp_path: Path, seed: int
) -> None:
    """A model of clips scores windows: what has time in common with training clips is in-sample.

    The manifest of that name may cut the films otherwise by now.
    """
    rng = np.random.default_rng(seed)
    clips = []
    for film in ("alba", "brug", "cirk"):
        for number in range(12):
            start_s = round(float(4 * number + rng.choice([0, 0, 0.4])), 2)
            end_s = round(float(start_s + rng.choice([1, 1, 1.7, 2])), 2)
            level = str(rng.choice(["EN", "S"]))
            name = f"{film}-{number}"
            clips.append(Clip(name, film, level=level, start_s=start_s, end_s=end_s))
    manifest = Manifest("films", Header("Films"), tuple(clips))
    seconds = {film: rng.normal(size=(50, 4)) for film in manifest.films}
    windows = store_of_windows(tmp_path / "stores" / "windows", seconds)
    X = rng.normal(size=(36, 4))
    recipe = windows.recipe.of_clips
    store = store_of(tmp_path / "stores" / "x", manifest, X, recipe=recipe)
    changes = [*DRAWN, "report.replicates=2"]
    protocol = training_protocol("ridge", "EN_S", manifest, changes)
    inputs = gather(protocol, manifest, "made-up", {"x": store})
    run = run_protocol(inputs, tmp_path / "run", n_jobs=1)
    model = load_model(fit_final(inputs, run, tmp_path / "model"))
    seen = []
    for film in manifest.films:
        spans = [(c.start_s, c.end_s) for c in clips if c.movie_id == film]
        for second in range(50):
            if any(start < second + 1 and second < end for start, end in spans):
                seen.append(f"{film}:{second:06d}")
    name = windows.record.manifest.name
    for every in (1.0, 0.5):
        grid = Grid(seconds=1.0, every=every)
        films = tuple(CutFilm(film, "", 1250, 25.0, 50.0) for film in seconds)
        header = Header("Films", unit="window", grid=grid)
        cut = Manifest(name, header, Windows(films, grid))
        path = tmp_path / "manifests" / f"{name}.toml"
        write_manifest(cut, path, force=True)
        assert sorted(predict(model, windows, workspace=tmp_path).refused) == seen
        found = predict(model, windows, workspace=tmp_path, in_sample=True)
        in_sample = []
        for clip_id, basis in zip(found.clip_ids, found.basis, strict=True):
            if basis == "in-sample":
                in_sample.append(clip_id)
        assert sorted(in_sample) == seen
        if every == 1 and seed == 0:
            check_share_refuses(tmp_path, name, seen)
        starts = [int(clip_id[-6:]) for clip_id in found.clip_ids]
        assert found.films["start_s"] == starts
        if every == 1:
            assert len(windows.match(list(cut)).rows) == 150
        else:
            with pytest.raises(
                FixInput, match=r"times: 0\.5 s to 1\.5 s and 1 s to 2 s"
            ):
                windows.match(list(cut))


@pytest.mark.parametrize("with_times", [("one", "two"), ("one",), ("two",)])
@pytest.mark.parametrize("every", [1.0, 1.01, 0.5, 2.0])
def test_imported_windows_are_joined_only_with_those_of_their_times(
    tmp_path: Path, every: float, with_times: Sequence[str]
) -> None:
    """Recipes of imports do not say how films were cut; their arrays do, and those of joins."""
    numbers = np.arange(9)
    rows = [Row(f"lake:{number:06d}", "lake") for number in numbers]
    for name, step in (("one", 1.0), ("two", every)):
        values = {"clip": np.ones((9, 2), np.float32)}
        if name in with_times:
            start_s = numbers * step
            values |= {"start_s": start_s, "end_s": start_s + 1.0}
        recipe = Recipe.unknown("npz", {"backbone": name})
        made_store(tmp_path / name, rows, values, recipe=recipe)
    stores = [tmp_path / "one", tmp_path / "two"]
    if every != 1 and len(with_times) == 2:
        with pytest.raises(Mismatch, match="not the same clip: times: "):
            join(stores, tmp_path / "both", workspace=tmp_path)
        return
    join(stores, tmp_path / "both", workspace=tmp_path)
    both = open_store(tmp_path / "both")
    assert both.matrix("clip").values.shape == (9, 4)
    apart_s = every if with_times == ("two",) else 1.0
    for grid in (Grid(seconds=1.0, every=apart_s), Grid(seconds=1.0, every=0.7)):
        films = (CutFilm("lake", "", 450, 25.0, 18.0),)
        windows = list(Windows(films, grid))[:9]
        if grid.every == apart_s:
            assert both.match(windows).rows.tolist() == [*range(9)]
        else:
            with pytest.raises(FixInput, match="is another one in the store: times: "):
                both.match(windows)


@pytest.mark.parametrize("format", ["npz", "hdf5", "parquet"])
@pytest.mark.parametrize("every", [1.0, 1.01, 0.5, 2.0])
def test_windows_are_imported_only_for_those_of_their_times(
    tmp_path: Path, every: float, format: Any
) -> None:
    """An export has the times of windows as arrays; windows of all grids have the same ids."""
    seconds = {"lake": np.arange(18.0).reshape(9, 2)}
    store = store_of_windows(tmp_path / "windows", seconds)
    file = tmp_path / {"npz": "x.npz", "hdf5": "x.h5", "parquet": "x"}[format]
    export_features(store, file, format)
    films = (CutFilm("lake", "", 225, 25.0, 9.0),)
    grid = Grid(seconds=1.0, every=every)
    header = Header("Films", unit="window", grid=grid)
    manifest = Manifest("films", header, Windows(films, grid))
    target = tmp_path / "imported"
    if every == 1:
        import_features(format, file, target, manifest=manifest)
        imported = open_store(target)
        assert imported.match(list(manifest)).rows.tolist() == [*range(9)]
        assert imported.matrix("clip").values.tolist() == seconds["lake"].tolist()
        return
    with pytest.raises(FixInput, match="is another one in the files: times: "):
        import_features(format, file, target, manifest=manifest)
    assert not target.exists()


def test_a_clip_that_link_gave_a_file_of_its_own_is_still_the_row_with_its_old_times() -> (
    None
):
    linked = Clip(
        "lake-1",
        "lake",
        video="lake-1.mp4",
        extra={"film_start_s": "3.0", "film_end_s": "5.0", "video_name": ""},
    )
    row = Identity("lake-1", "lake", in_either=(3.0, 5.0))
    assert compare_clips(Identity.of_clip(linked), row).sameness is SAME


CELLS = st.sampled_from(["alba", "brug", " brug", "cirk", "unknown", "", " "])
ROWS_OF_TEXTS = st.lists(
    st.tuples(CELLS, st.sampled_from("xyz")), min_size=4, max_size=8
)


@settings(max_examples=60, deadline=None)
@given(ROWS_OF_TEXTS, st.sampled_from(["movie_id", "image"]))
def test_rows_of_unknown_films_are_not_one_cluster(
    drawn: list[tuple[str, str]], column: str
) -> None:
    """All rows of an empty cell were one film, and narrowed or widened the interval."""
    rows = []
    for number, (cell, group) in enumerate(drawn):
        answers = {"a": str(number % 3), "b": str(number % 2)}
        texts = {"caption": "a sad man", "group": group, "things": "hat"}
        rows.append({column: cell, **answers, **texts})
    audits: list[Any] = [
        lambda: audit_captions(rows, cluster=column).rates,
        lambda: audit_cooc(rows, things="things", cluster=column).things,
        lambda: audit_reliability(rows, raters="a,b", cluster=column).n_clusters,
    ]
    names = [cell.strip() for cell, _ in drawn]
    is_unknown = "" in names or (column == "movie_id" and "unknown" in names)
    for audit in audits:
        if is_unknown:
            with pytest.raises(
                FixInput, match=f"the {column} of this row is not known"
            ):
                audit()
            continue
        found = audit()
        for row, name in zip(rows, names, strict=True):
            row[column] = name
        assert audit() == found
    if not is_unknown:
        assert audits[-1]() == len(set(names))


@settings(max_examples=40, deadline=None)
@given(st.lists(st.sampled_from(["x", "x ", "y", "", " "]), min_size=1, max_size=9))
def test_texts_without_a_group_are_left_out_and_counted(groups: list[str]) -> None:
    """Empty cells were a group of their own, which was tested against the others."""
    rows = [{"caption": "a sad man", "group": group} for group in groups]
    kept = [group.strip() for group in groups if group.strip()]
    n_left_out = len(groups) - len(kept)
    if not kept:
        with pytest.raises(FixInput, match="without a group in 'group'"):
            audit_captions(rows)
        return
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        audit = audit_captions(rows)
    said = [str(one.message) for one in caught]
    number = count(n_left_out, "row")
    assert said == [f"rows: left out, without a group in 'group': {number}"] * bool(
        n_left_out
    )
    assert audit.n_captions == len(kept)
    n_of_group = {rate.group: rate.n_captions for rate in audit.rates}
    assert n_of_group == Counter(kept)
