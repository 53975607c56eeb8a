"""Rule (b): a kept model answers once for each clip, and as fitted.

Drawn experiments have features of one sense or joined ones, tasks of levels or of a column, films
that never test, and every kind of model. What `predict` says is compared with the predictions of
the run and with the loaded estimator.
"""

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
from support.tables import rows_of

from obygaze_features.core.errors import ObygazeWarning
from obygaze_features.manifest.model import Manifest
from obygaze_features.store import Store
from obygaze_models.runner.files import Run
from obygaze_models.runner.inputs import gather
from obygaze_models.runner.run import run_protocol
from obygaze_models.runner.training import fit_final, training_protocol
from obygaze_models.zoo import Predicted, SavedModel, predict, read_model

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
    return run, read_model(fit_final(inputs, run, folder / "kept"))


def check_answers(drawn: Drawn, run: Run, model: SavedModel, found: Predicted) -> None:
    """Each score is the mean of the run's for a training clip, and else the estimator's own."""
    scores_in_run: dict[str, list[float]] = defaultdict(list)
    for row in rows_of(run.predictions):
        scores_in_run[row["clip_id"]].append(row["score"])
    assert model.clips is not None
    row_of = {clip.clip_id: row for row, clip in enumerate(FILMS)}
    X = SENSES["seen"]
    if drawn.store == "joined":
        X = np.concatenate([SENSES["seen"], SENSES["heard"]], axis=1)
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
    max_examples=amount(3, 60), deadline=None, suppress_health_check=list(HealthCheck)
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
