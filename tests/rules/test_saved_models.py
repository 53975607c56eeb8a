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
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.experiments import films, planted
from support.joined_stores import joined_stores
from support.seeds import amount
from support.stores import made_store
from support.tables import rows_of

from obygaze_features.core.errors import ObygazeWarning
from obygaze_features.core.files import sha256_bytes
from obygaze_features.manifest.model import Clip, Manifest
from obygaze_features.store import Row, Store
from obygaze_models.runner.files import Run
from obygaze_models.runner.inputs import gather
from obygaze_models.runner.run import run_protocol
from obygaze_models.runner.training import fit_final, training_protocol
from obygaze_models.zoo import Predicted, SavedModel, load_model, predict

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
    for row in rows_of(run.predictions):
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
        is_trained = clip in model.clips.clip_ids
        assert (basis in ("out-of-fold", "in-sample")) is is_trained
        expected = own_scores[number]
        if basis == "out-of-fold":
            expected = np.mean(scores_in_run[clip])
        assert abs(found.scores[number, -1] - expected) < 1e-9


@settings(
    max_examples=amount(3, 60),
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
    max_examples=amount(3, 40),
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
        expected = {}
        for clip, other in zip(clips, theirs, strict=True):
            is_seen = clip.movie_id in trained_films
            expected[other.clip_id] = "film-seen" if is_seen else "unseen"
            # The features are equal, too: the same clip under another id.
            if clip.clip_id in model.clips.clip_ids:
                expected[other.clip_id] = "copy"
        assert dict(zip(found.clip_ids, found.basis, strict=True)) == expected
    finally:
        shutil.rmtree(folder)
