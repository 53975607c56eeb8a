"""The list after a withdrawal has each result of the clips."""

from __future__ import annotations

import json
import shutil
import tempfile
import warnings
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from support.experiments import films, planted, store_of
from support.seeds import amount
from support.stores import made_store

import obygaze as og
from obygaze_features.core.errors import ObygazeWarning
from obygaze_features.core.workspace import Workspace
from obygaze_features.manifest.io import write_manifest
from obygaze_features.store import Row, open_store
from obygaze_features.store.changing import merge, subset
from obygaze_features.store.copying import pull
from obygaze_features.store.exporting import export_features
from obygaze_features.store.finding import NOT_SEARCHED

MADE = {"created_by": "obygaze 0.1.0"}
TABLE = "clip_id,movie_id,level,score\nlake-1,lake,S,.5\n"
# What a person has, in the names that obygaze gives; SEAL stands for the seal of the store.
THEIRS = {
    "mine/run.json": {"mine/run.json": '{"made_of": ["SEAL"]}'},
    "ours/model.json": {
        "ours/model.json": '{"features": {"made_of": ["SEAL"]}}',
        "ours/training-clips.csv": TABLE,
    },
}
# What does not say of which store it was made, though it names clips or the seal.
UNNAMED = {
    "page.html": "<td>SEAL</td>",
    "zarr/data.zarr/mine": "mine",
    "zarr/films.csv": TABLE,
    "empty/run.json": '{"made_of": [], "seal": "SEAL"}',
    "empty/model.json": "SEAL",
    "scores.csv": TABLE,
    "data.js": 'const EXPORTED = {"clips": ["lake-1"]}\n',
    "page-of-clips.html": '<td data-label="clip_id">lake-1</td>',
}
# Folders that obygaze writes, and what it adds to them later.
OURS = {
    "runs/ours": {
        "run.json": json.dumps(
            {**MADE, "made_of": ["SEAL"], "files": {"predictions.csv": ""}}
        ),
        "predictions.csv": TABLE,
        "report.html": "",
        "tables/errors.csv": TABLE,
        "figures/films.svg": "",
    },
    "models/ours": {
        "model.json": json.dumps(
            {**MADE, "made_of": ["SEAL"], "files": {"code/mine.py": []}}
        ),
        "code/mine.py": "",
    },
}
ADDED = ("notes.txt", "scores.csv", "thesis/notes.txt", "tables/notes.txt", ".notes")


@settings(max_examples=40, deadline=None)
@given(
    theirs=st.lists(st.sampled_from(sorted(THEIRS)), unique=True),
    folder=st.sampled_from((".", "deep/er")),
    added=st.dictionaries(
        st.sampled_from((*OURS, "table", "stores/films", "stores/of-lake")),
        st.sampled_from(ADDED),
    ),
)
def test_what_has_the_seal_is_listed_and_nothing_else(
    theirs: list[str], folder: str, added: dict[str, str]
) -> None:
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        place = root / "stores" / "films"
        values = {"clip": np.ones((2, 4), np.float32)}
        made_store(place, [Row("lake-1", "lake"), Row("pier-1", "pier")], values)
        seal = open_store(place).seal
        for written in theirs:
            _write(root / folder, THEIRS[written], seal)
        _write(root / folder, UNNAMED, seal)
        export_features(open_store(place), root / "ours.npz")
        export_features(open_store(place), root / "table", format="parquet")
        subset(place, root / "stores" / "of-lake", films=["lake"])
        for ours, files in OURS.items():
            _write(root / ours, files, seal)
        for ours, path in added.items():
            _write(root / ours, {path: "mine"}, seal)
        made = subset(
            place, without=["lake"], reason="asked", workspace=Workspace(root)
        )
        before = next(root.glob("stores/films.before-*"))
        whole = {root / ours for ours in (*OURS, "table", "stores/of-lake")}
        whole |= {before, root / "ours.npz"}
        listed = {copy.path for copy in made.copies}
        expected = {root / folder / name.partition("/")[0] for name in theirs}
        assert listed == expected | whole
        assert NOT_SEARCHED in str(made)


def _write(folder: Path, files: Mapping[str, str], seal: str) -> None:
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text.replace("SEAL", seal))


FILMS = films(6, 12, seed=5, runs_on=0.3)
THEIR_FILMS = FILMS.films[:3]
OUR_FILMS = FILMS.films[3:]
QUICK = (
    "report.replicates=2",
    "report.compare=false",
    "report.contrast=[]",
    "report.concepts=false",
    "grid.baselines=[]",
)
SPLITS = {
    "their films train": (
        "splits.kind=fixed",
        "splits.column=movie_id",
        f"splits.test={json.dumps(OUR_FILMS)}",
    ),
    "our films train": (
        "splits.kind=fixed",
        "splits.column=movie_id",
        f"splits.test={json.dumps(THEIR_FILMS)}",
    ),
    "folds": ("splits.kind=kfold", "splits.folds=3"),
    "their films never test": (
        "splits.kind=kfold",
        "splits.folds=3",
        f"splits.never={json.dumps(THEIR_FILMS)}",
    ),
    "nested": ("splits.kind=nested",),
}


@settings(max_examples=amount(8, 40), deadline=None)
@given(
    splits=st.sampled_from(sorted(SPLITS)),
    reads=st.sampled_from(("both", "both", "theirs", "ours")),
    film=st.sampled_from(THEIR_FILMS),
)
def test_a_result_of_a_store_that_had_the_clips_is_listed(
    splits: str, reads: str, film: str
) -> None:
    """Also one that names none of them: `predictions.csv` has the tested clips alone."""
    with tempfile.TemporaryDirectory() as name, warnings.catch_warnings():
        warnings.simplefilter("ignore", ObygazeWarning)
        root = Path(name)
        sent = root / "sender" / "theirs"
        here = Workspace(root / "here")
        _write_stores(sent, here)
        changes = SPLITS[splits if reads == "both" else "folds"]
        trained = og.train(
            "ridge",
            reads,
            FILMS.name,
            changes=[*QUICK, *changes],
            output="kept",
            n_jobs=1,
            workspace=here.root,
        )
        subset(sent, without=[film], reason="asked", workspace=Workspace(root / "x"))
        expected = set()
        if reads != "ours":
            expected = {"runs/kept", "models/kept"}
        for is_withdrawn_from_both in (False, True):
            if is_withdrawn_from_both:
                both = here.folder("stores") / "both"
                subset(both, without=[film], reason="asked", workspace=here)
                for earlier in here.folder("stores").glob("*.before-*"):
                    shutil.rmtree(earlier)
            pulled = pull(sent, here.folder("stores") / "theirs", workspace=here)
            listed = {
                copy.path.relative_to(here.root).as_posix() for copy in pulled.copies
            }
            found = {path for path in listed if not path.startswith("stores/")}
            assert found == expected
            assert ("stores/both" in listed) is not is_withdrawn_from_both
        # Who predicts with the model learns of it, as who looks at its card does.
        shown = og.models.show("kept", workspace=here.root).warnings
        predicted = og.predict("kept", "ours", workspace=here.root).write()
        is_trained_on_film = film in trained.model.info.training.films
        assert len(shown) == is_trained_on_film
        assert [text for text in predicted.warnings if text in shown] == shown


def _write_stores(sent: Path, here: Workspace) -> None:
    """Write a store of one lab, and a copy, a store and a merger of both of another lab."""
    write_manifest(FILMS, here.manifest(FILMS.name))
    X = planted(FILMS)
    stores = here.folder("stores")
    for place, its_films in ((sent, THEIR_FILMS), (stores / "ours", OUR_FILMS)):
        others = [clip.clip_id for clip in FILMS if clip.movie_id not in its_films]
        store_of(place, FILMS, X, without=others)
    pull(sent, stores / "theirs", workspace=here)
    merge([stores / "theirs", stores / "ours"], stores / "both", workspace=here)
