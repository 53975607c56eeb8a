"""Rule (b): a kept model answers once for each clip, and as fitted.

Drawn experiments have features of one sense or joined ones, tasks of levels or of a column, films
that never test, and every kind of model. What `predict` says is compared with the predictions of
the run and with the loaded estimator.
"""

from __future__ import annotations

import shutil
import tempfile
import warnings
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import starmap
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.experiments import films, planted
from support.joined_stores import joined_stores
from support.seeds import amount
from support.stores import made_store

from obygaze.films.decisions import training_text
from obygaze_features.core.errors import ObygazeWarning
from obygaze_features.core.files import sha256_bytes
from obygaze_features.manifest.model import Clip, Manifest
from obygaze_features.manifest.same_clip import Identity
from obygaze_features.store import Row, Store
from obygaze_features.store.identity import videos_of_clips
from obygaze_models.runner.inputs import gather
from obygaze_models.runner.run import run_protocol
from obygaze_models.runner.tables import Run
from obygaze_models.runner.training import fit_final, training_protocol
from obygaze_models.zoo import Predicted, SavedModel, load_model, predict
from obygaze_models.zoo.info import TrainingClips, read_training_clips

FILMS = films(4, 12, seed=5, runs_on=0.3)
SENSES = {
    "seen": planted(FILMS, width=14, strength=1.0, seed=1),
    "heard": 5 * planted(FILMS, width=16, strength=1.0, seed=2),
}
QUICK = (
    "report.replicates=2",
    "report.compare=false",
    "report.contrast=[]",
    "report.concepts=false",
    "grid.baselines=[]",
)
OF_KIND: Mapping[str, tuple[str, ...]] = {
    "ridge": (),
    "logistic": ("model.C.grid=[0.01, 1.0]",),
    "svm": (),
    "mlp": ("model.max_epochs=2", "model.min_epochs=1", "fit.seeds=2"),
    "pcbm-lr": ("model.tolerance=0.1", "model.cross_fit=2"),
    "pcbm-dt": ("model.tolerance=0.1", "model.cross_fit=2"),
    "pcbm-h": ("model.tolerance=0.1", "model.cross_fit=2"),
}


@dataclass(frozen=True)
class Drawn:
    """An experiment: the kind of a model, its task, its features, and changes."""

    kind: str
    task: str
    store: str
    change: str
    seed: int

    @property
    def manifest(self) -> Manifest:
        """The clips, with a column that some have no value in."""
        rng = np.random.default_rng(self.seed)
        clips = []
        for clip in FILMS:
            extra = {"good": str(rng.choice(["yes", "no", ""]))}
            clips.append(replace(clip, extra=extra))
        return Manifest(FILMS.name, FILMS.header, tuple(clips), ("good",))


DRAWN = st.builds(
    Drawn,
    st.sampled_from([*OF_KIND]),
    st.sampled_from(("EN_S", "ENHN_S", "good")),
    st.sampled_from(("seen", "joined")),
    st.sampled_from(("", "splits.never=['tt0000001']", "data.where=level != HN")),
    st.integers(0, 5),
)


def kept(drawn: Drawn, store: Store, folder: Path) -> tuple[Run, SavedModel]:
    changes = [*QUICK, *OF_KIND[drawn.kind], "data.view=raw"]
    if drawn.change:
        changes.append(drawn.change)
    manifest = drawn.manifest
    stores = {drawn.store: store}
    protocol = training_protocol(drawn.kind, drawn.task, manifest, changes, stores)
    inputs = gather(protocol, manifest, "made-up", stores)
    run = run_protocol(inputs, folder / "run", n_jobs=1)
    return run, load_model(fit_final(inputs, run, folder / "kept"))


def check_answers(drawn: Drawn, run: Run, model: SavedModel, found: Predicted) -> None:
    """Each score is the mean of the run's for a training clip, and else the estimator's own."""
    scores_in_run: dict[str, list[float]] = defaultdict(list)
    for row in run.predictions:
        scores_in_run[row["clip_id"]].append(row["score"])
    assert model.clips is not None
    row_of = {clip.clip_id: row for row, clip in enumerate(FILMS)}
    X = SENSES["seen"]
    if drawn.store == "joined":
        X = np.concatenate([SENSES["heard"], SENSES["seen"]], axis=1)
    rows = [row_of[clip] for clip in found.clip_ids]
    own: Any = model.estimator
    if hasattr(own, "predict_proba"):
        own_scores = own.predict_proba(X[rows].astype(np.float64))[:, -1]
    else:
        own_scores = own.decision_function(X[rows].astype(np.float64))
    for number, (clip, basis) in enumerate(
        zip(found.clip_ids, found.basis, strict=True)
    ):
        is_trained = clip in model.clips.row_of
        assert (basis in ("out-of-fold", "in-sample")) is is_trained
        expected = own_scores[number]
        if basis == "out-of-fold":
            expected = np.mean(scores_in_run[clip])
        assert abs(found.scores[number, -1] - expected) < 1e-9


@settings(
    max_examples=amount(10, 60),
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
@given(DRAWN)
def test_a_kept_model_answers_once_for_each_clip_and_as_fitted(drawn: Drawn) -> None:
    folder = Path(tempfile.mkdtemp())
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ObygazeWarning)
            store = joined_stores(folder / "stores", FILMS, SENSES)[drawn.store]
            run, model = kept(drawn, store, folder)
            for by_manifest in (False, True):
                named = drawn.manifest if by_manifest else None
                for in_sample in (False, True):
                    found = predict(model, store, manifest=named, in_sample=in_sample)
                    answered = [*found.clip_ids, *found.refused]
                    assert sorted(answered) == sorted(FILMS.clip_ids)
                    assert not in_sample or "out-of-fold" not in found.basis
                    assert ("start_s" in found.films) is by_manifest
                    check_answers(drawn, run, model, found)
    finally:
        shutil.rmtree(folder)


@settings(
    max_examples=amount(10, 40),
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
@given(
    is_film_a_file=st.booleans(),
    trained=st.sets(st.sampled_from(range(8)), min_size=4, max_size=6),
    has_times=st.booleans(),
    they_have_times=st.booleans(),
    order=st.permutations(range(8)),
    by_manifest=st.booleans(),
)
def test_a_film_that_trained_is_seen_whatever_its_name_is_elsewhere(
    is_film_a_file: bool,
    trained: set[int],
    has_times: bool,
    they_have_times: bool,
    order: list[int],
    by_manifest: bool,
) -> None:
    """Another laboratory has the same files, with other names of films and of clips."""
    clips = films(8, 10, seed=7, runs_on=0.3)
    film_ids = sorted({clip.movie_id for clip in clips})
    trained_films = {film_ids[number] for number in trained}
    other_name = {
        film: f"film-{number}" for film, number in zip(film_ids, order, strict=True)
    }
    X = planted(clips, width=14, strength=1.0, seed=3)

    def file_of(clip: Clip) -> str:
        file = clip.movie_id if is_film_a_file else clip.clip_id
        return sha256_bytes(file.encode())[:16]

    def times_of(clip: Clip, are_known: bool) -> dict[str, float | None]:
        if not are_known:
            return {"start_s": None, "end_s": None}
        return {"start_s": clip.start_s, "end_s": clip.end_s}

    ours, theirs, rows, other_rows, trained_rows = [], [], [], [], []
    for number, clip in enumerate(clips):
        clip = replace(clip, video="")
        other = replace(clip, clip_id=f"x{number}", movie_id=other_name[clip.movie_id])
        other = replace(other, **times_of(clip, they_have_times))
        clip = replace(clip, **times_of(clip, has_times))
        theirs.append(other)
        row = Row(clip.clip_id, clip.movie_id, clip.start_s, clip.end_s)
        row = row._replace(video_bytes=1000, video_hash=file_of(clip))
        other_row = Row(other.clip_id, other.movie_id, other.start_s, other.end_s)
        other_row = other_row._replace(video_bytes=1000, video_hash=file_of(clip))
        other_rows.append(other_row)
        if clip.movie_id in trained_films:
            ours.append(clip)
            rows.append(row)
            trained_rows.append(number)
    manifest = Manifest("ours", clips.header, tuple(ours))
    other_manifest = Manifest("theirs", clips.header, tuple(theirs))
    folder = Path(tempfile.mkdtemp())
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ObygazeWarning)
            values = {"clip": X[trained_rows].astype(np.float32)}
            stores = {"seen": made_store(folder / "ours", rows, values)}
            of_others = {"clip": X.astype(np.float32)}
            elsewhere = made_store(folder / "theirs", other_rows, of_others)
            protocol = training_protocol("ridge", "ENHN_S", manifest, QUICK, stores)
            inputs = gather(protocol, manifest, "made-up", stores)
            run = run_protocol(inputs, folder / "run", n_jobs=1)
            saved = fit_final(inputs, run, folder / "kept", store=stores["seen"])
            named = other_manifest if by_manifest else None
            model = load_model(saved)
            found = predict(model, elsewhere, manifest=named, in_sample=True)
        assert model.clips is not None
        trained_ids = {*model.clips.clip_ids}
        expected = {}
        for clip, other in zip(clips, theirs, strict=True):
            basis = "film-seen" if clip.movie_id in trained_films else "unseen"
            # The same part of the same file is the same clip, and a file of its own is all of it.
            are_known = has_times and they_have_times
            if clip.clip_id in trained_ids and (are_known or not is_film_a_file):
                basis = "in-sample"
            expected[other.clip_id] = basis
        assert dict(zip(found.clip_ids, found.basis, strict=True)) == expected
        # The page says of each clip what its basis is.
        for other in theirs:
            said = training_text(model, other, other_manifest, elsewhere)
            basis = "film-seen" if "other clips of this film" in said else "unseen"
            if "it does not test it" in said:
                basis = "in-sample"
            assert basis == expected[other.clip_id]
            assert said or basis == "unseen"
    finally:
        shutil.rmtree(folder)


@given(
    st.lists(
        st.tuples(
            st.sampled_from("ab"),
            st.sampled_from([(None, None), (0.0, 5.0), (5.0, 9.0)]),
            st.sampled_from(["", 16 * "1", 16 * "2"]),
        ),
        min_size=1,
        max_size=6,
    )
)
def test_a_training_clip_is_found_again_whatever_other_films_are_the_same_file(
    drawn: list[tuple[str, tuple[float | None, float | None], str]],
) -> None:
    places = [(film, *times) for film, times, _ in drawn]
    ids = tuple(map(str, range(len(drawn))))
    videos = tuple(video for _, _, video in drawn)
    clips = TrainingClips(ids, places=tuple(places), videos=videos)
    for row, clip in enumerate(clips.identities):
        found = clips.find(clip)
        assert found is not None
        assert found[0] == row
        assert found[1].sameness.is_same


# The part of a film, and when a clip of 5 s begins in its file.
IN_PARTS = st.lists(
    st.tuples(st.integers(1, 3), st.sampled_from([0.0, 3.0, 5.0, 9.0, 600.0])),
    min_size=1,
    max_size=4,
    unique=True,
)


@given(IN_PARTS, IN_PARTS, st.booleans(), st.sampled_from(["a", "other", ""]))
def test_parts_of_a_film_have_times_of_their_own(
    trained: list[tuple[int, float]],
    asked: list[tuple[int, float]],
    by_manifest: bool,
    film: str,
) -> None:
    """Part 2 begins 600 s after part 1: its first seconds are others than those of part 1."""
    places = [("a", start_s, start_s + 5.0) for _, start_s in trained]
    videos = [16 * str(part) for part, _ in trained]
    ids = tuple(f"a-{number}" for number in range(len(trained)))
    clips = TrainingClips(ids, places=tuple(places), videos=tuple(videos))
    identities = {}
    expected = set()
    for part, start_s in asked:
        if 16 * str(part) not in videos:
            continue
        name = f"{part} at {start_s}"
        times = (start_s, start_s + 5.0)
        clip = Identity(name, film, in_either=times, video=16 * str(part))
        if by_manifest:
            begins_s = 600.0 * (part - 1)
            in_film = (begins_s + start_s, begins_s + start_s + 5.0)
            clip = clip._replace(in_file=times, in_film=in_film)
        identities[name] = clip
        for trained_part, trained_start_s in trained:
            if trained_part == part and abs(trained_start_s - start_s) < 5.0:
                expected.add(name)
    assert clips.overlapping(identities) == expected


# File k of a film shows its seconds from 100 k to 100 k + 10; no times are the whole file.
IN_FILES = st.dictionaries(
    st.integers(1, 3),
    st.sampled_from([None, (0.0, 2.0), (2.0, 6.0), (5.0, 10.0)]),
    min_size=1,
)


@given(IN_FILES, IN_FILES, st.booleans(), st.booleans(), st.booleans())
def test_seconds_of_a_training_clip_are_known_in_its_file_and_in_its_film(
    trained: dict[int, tuple[float, float] | None],
    asked: dict[int, tuple[float, float] | None],
    are_film_times_known: bool,
    by_manifest: bool,
    is_other_copy: bool,
) -> None:
    """A link to a file of its own leaves a clip its times in the film; another lab has windows."""

    def in_film(file: int, span: tuple[float, float] | None) -> tuple[float, float]:
        start_s, end_s = span or (0.0, 10.0)
        return 100.0 * file + start_s, 100.0 * file + end_s

    clips = TrainingClips(
        tuple(f"a-{file}" for file in trained),
        places=tuple(("a", *(span or (None, None))) for span in trained.values()),
        videos=tuple(16 * str(file) for file in trained),
        film_times=tuple(starmap(in_film, trained.items()))
        if are_film_times_known
        else (),
    )
    clips = read_training_clips(clips.to_csv(), "written")
    identities = {}
    expected = set()
    for file, span in asked.items():
        name = f"x-{file}"
        of_film = in_film(file, span)
        clip = Identity(name, "other", in_either=span, video=16 * str(file))
        if is_other_copy:
            # It has the whole film in one file.
            clip = Identity(name, "a", in_either=of_film, video=16 * "9")
        if by_manifest:
            clip = clip._replace(in_film=of_film)
        identities[name] = clip
        can_be_known = are_film_times_known or not is_other_copy
        if file in trained and can_be_known:
            start_s, end_s = in_film(file, trained[file])
            if start_s < of_film[1] and of_film[0] < end_s:
                expected.add(name)
    assert clips.overlapping(identities) == expected


def test_a_segment_has_the_video_of_the_windows_of_its_film(tmp_path: Path) -> None:
    """Of windows of several files, nobody knows which is that of the segment."""
    rows = []
    for film, second, video in (
        ("a", 0, "1"),
        ("a", 1, "1"),
        ("b", 0, "2"),
        ("b", 1, "3"),
    ):
        row = Row(f"{film}:{second:06d}", film, video_bytes=7, video_hash=16 * video)
        rows.append(row)
    times = np.array([0.0, 1.0, 0.0, 1.0])
    values = {"clip": np.ones((4, 3), np.float32), "start_s": times, "end_s": times + 1}
    store = made_store(tmp_path / "windows", rows, values)
    segments = [Clip(f"{film}-1", film, start_s=0.0, end_s=2.0) for film in "abc"]
    assert videos_of_clips(segments, store) == [16 * "1", "", ""]
