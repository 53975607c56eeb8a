"""Finished runs whose tables are written by hand, with values that scikit-learn computes."""

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from obygaze_features.core.files import document_sha256
from obygaze_features.manifest.model import Manifest
from obygaze_models.evaluation.results import BLIND, judgement, results, verdict
from obygaze_models.evaluation.results import names_of_difference as names_of
from obygaze_models.evaluation.tables import (
    CELL,
    RUN_TABLES,
    columns_of_rows,
    rows_as_dicts,
    table_of_columns,
)
from obygaze_models.models.registry import UNTRAINED
from obygaze_models.protocols.clips import clip_table, labels_sha256
from obygaze_models.protocols.reading import load_protocol
from obygaze_models.protocols.schema import Data
from obygaze_models.runner.files import NO_ROW, RUN_FORMAT, Run, run_settings, write_run
from support.ties import ap_by_places

FILMS = tuple(f"film{number:02d}" for number in range(8))
CLIPS_OF_A_FILM = 12
MANIFEST = {
    "name": "made-up",
    "path": "nowhere.toml",
    "sha256": "0" * 64,
    "view": "visual",
    "has_levels": True,
    "group_column": "movie_id",
    "labels": {"clips": "4" * 64, "levels": "5" * 64, "classes": {}},
    "positive_films": {"EN_S": len(FILMS)},
    "n_clips": len(FILMS) * CLIPS_OF_A_FILM,
    "n_films": len(FILMS),
}
STORE = {
    "location": "stores/x",
    "backbone": "toy",
    "array": "clip",
    "dtype": "float32",
    "width": 4,
    "fingerprint": "1" * 64,
    "seal": "2" * 64,
    "sha256": "3" * 64,
    "n_present": len(FILMS) * CLIPS_OF_A_FILM,
    "missing": {},
}


def labels_of(manifest: Manifest) -> dict[str, Any]:
    return labels_sha256(clip_table(manifest, Data()), {})


@dataclass(frozen=True)
class Clips:
    ids: tuple[str, ...]
    films: tuple[str, ...]
    y: NDArray[np.bool_]

    def rows_of(self, film: str) -> NDArray[np.bool_]:
        return np.array([name == film for name in self.films])


def clips_of(seed: int = 0, films: Sequence[str] = FILMS) -> Clips:
    """Clips of some films, each film with clips of both classes."""
    rng = np.random.default_rng(seed)
    ids = []
    names = []
    labels = []
    for film in films:
        n_positive = int(rng.integers(3, 7))
        of_film = [True] * n_positive + [False] * (CLIPS_OF_A_FILM - n_positive)
        labels += rng.permutation(of_film).tolist()
        ids += [f"{film}-{number:02d}" for number in range(CLIPS_OF_A_FILM)]
        names += [film] * CLIPS_OF_A_FILM
    return Clips(tuple(ids), tuple(names), np.array(labels, dtype=np.bool_))


def scores_for(clips: Clips, strength: float, seed: int) -> NDArray[np.float64]:
    """Margins that are higher for positive clips; with a strength of 0, noise."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=len(clips.ids)) + strength * clips.y


@dataclass(frozen=True)
class MadeCell:
    """A model or baseline with the score of each clip; a fold for each film.

    `facts` has columns of its tests that are other than those of an unseen film, such as `seen`;
    `leaked` is how many of its first clips trained.
    """

    model: str
    clips: Clips
    scores: NDArray[np.float64]
    is_model: bool = True
    store: str = "x"
    train: str = "EN_S"
    test: str = "EN_S"
    facts: Mapping[str, Any] = field(default_factory=dict)
    leaked: int = 0

    @property
    def name(self) -> dict[str, str]:
        tasks = {"task": self.test, "train": self.train, "test": self.test}
        return {**tasks, "store": self.store, "model": self.model}

    def ap_of(self, film: str) -> float:
        """The average precision of a film, the mean over the orders of its ties."""
        rows = self.clips.rows_of(film)
        return ap_by_places(self.clips.y[rows], self.scores[rows])

    @property
    def films(self) -> list[str]:
        return sorted(set(self.clips.films))

    @property
    def ap(self) -> float:
        """The mean over folds."""
        return float(np.mean([self.ap_of(film) for film in self.films]))

    def fit(self) -> dict[str, Any]:
        fold = {"seed": 0, "n_train": 70, "n_validation": 0, "chosen": {}}
        folds = [{"fold": film, **fold} for film in self.films]
        names = {name: one for name, one in self.name.items() if name != "task"}
        return {**names, "skipped": {}, "skipped_films": {}, "folds": folds}

    def predictions(self) -> list[dict[str, Any]]:
        """The rows of predictions.csv; decisions of the baseline `random` are one half."""
        of_all = {**self.name, "seed": 0, "n_seen": 70, "is_probability": False}
        of_all |= {"is_model": self.is_model, "is_trained": self.model not in UNTRAINED}
        rows = []
        for number, clip_id in enumerate(self.clips.ids):
            film = self.clips.films[number]
            score = float(self.scores[number])
            is_leaked = number < self.leaked
            row = {**of_all, "fold": film, "clip_id": clip_id, "movie_id": film}
            row |= {"group": film, "y": int(self.clips.y[number]), "score": score}
            row["decision"] = 0.5 if self.model == "random" else float(score > 0)
            row |= {"leaked": is_leaked, "seen": "clip" if is_leaked else "unseen"}
            rows.append({**row, **self.facts})
        return rows

    def results(self) -> list[dict[str, Any]]:
        n_films = len(self.films)
        whole = {**self.name, "fits": n_films, "clips": len(self.clips.ids)}
        whole |= {"films": n_films, "leaked": self.leaked}
        auc = float(roc_auc_score(self.clips.y, self.scores))
        rows = []
        for metric, value in {"ap": self.ap, "auc": auc}.items():
            ends = {"low": value - 0.1, "high": value + 0.1}
            rows.append({**whole, "metric": metric, "value": value, **ends})
        share = float(self.clips.y.mean())
        for metric, value in {"f1_weighted": 0.5, "prevalence": share}.items():
            rows.append({**whole, "metric": metric, "value": value})
        for film in self.films:
            of_film = self.clips.rows_of(film)
            row = {**self.name, "film": film, "fits": 1, "films": 1}
            row["clips"] = int(of_film.sum())
            rows.append({**row, "metric": "ap", "value": self.ap_of(film)})
            share = float(self.clips.y[of_film].mean())
            rows.append({**row, "metric": "prevalence", "value": share})
        return rows


def difference_row(
    first: MadeCell, second: MadeCell, low: float, high: float, p: float
) -> dict[str, Any]:
    value = first.ap - second.ap
    row = {**first.name, "metric": "ap", "value": value}
    row |= {"low": low, "high": high, "p": p, "comparisons": 1}
    row |= {"fits": len(first.films), "films": len(first.films), "leaked": 0}
    against = {"against_store": second.store, "against_model": second.model}
    row |= {"clips": len(first.clips.ids), "against_train": second.train}
    return {**row, **against}


def made_run(
    folder: Path,
    cells: Sequence[MadeCell],
    results: Sequence[Mapping[str, Any]] = (),
    *,
    changes: Sequence[str] = ('report.lead=""', "report.contrast=[]"),
    protocol: str = "honest-negatives",
    tables: Mapping[str, Sequence[Mapping[str, Any]]] | None = None,
    **about: Any,
) -> Run:
    known = load_protocol(protocol, changes)
    document = known.to_json()
    for model in {cell.model for cell in cells if cell.is_model}:
        document["models"].setdefault(model, {"kind": model, "settings": {}})
    tests = [row for cell in cells for row in cell.predictions()]
    rows = [row for cell in cells for row in cell.results()]
    whole = {
        "format": RUN_FORMAT,
        "name": folder.name,
        "identity": folder.name,
        "protocol": document,
        "protocol_sha256": known.sha256,
        "manifest": MANIFEST,
        "stores": {"x": STORE},
        "texts": {},
        "sizes": {},
        "remarks": {},
        "fits": [cell.fit() for cell in cells],
        "versions": {"obygaze": "0"},
        "seconds": 1.0,
        "created": "2026-01-01T00:00:00Z",
        "created_by": "obygaze 0",
        **about,
    }
    written: dict[str, Any] = {"predictions.csv": tests}
    written |= {"results.csv": [*rows, *results], **(tables or {})}
    made = {name: table_of(name, of_table) for name, of_table in written.items()}
    if "results.csv" not in (tables or {}):
        of_tests = written["predictions.csv"]
        made["results.csv"] = completed(of_tests, written["results.csv"], whole)
    return write_run(folder, whole, made)


def completed(
    tests: Sequence[Mapping[str, Any]],
    given: Sequence[Mapping[str, Any]],
    about: Mapping[str, Any],
) -> pd.DataFrame:
    """The results of tests, with the intervals, differences and p that are given.

    Other intervals and differences are left out. Values that are given beside printed ones are
    kept.
    """
    settings = replace(run_settings(about), replicates=2)
    made = rows_as_dicts(results(table_of("predictions.csv", tests), settings))
    known = {names_of(row): row for row in made if row["against_model"]}
    differences = []
    for hand_made in given:
        if hand_made.get("against_model"):
            row = {"store": "", "against_store": "", **hand_made}
            nothing = {**NO_ROW, "basis": "unseen", "films_compared": 0}
            tested = row.get("value", math.nan)
            row = {**known.get(names_of(row), nothing), "tested": tested, **row}
            differences.append({**row, "verdict": verdict(row)})
    for number, row in enumerate(differences, 1):
        is_of_baseline = row["against_model"] in BLIND
        row["asked"] = math.nan if is_of_baseline else number
    ends = {}
    printed = {}
    for row in given:
        if not row.get("against_model"):
            place = (*(row[name] for name in CELL), row.get("film", ""), row["metric"])
            ends[place] = (row.get("low", math.nan), row.get("high", math.nan))
            if "paper" in row:
                printed[place] = row
    rows = []
    for row in made:
        if row["against_model"]:
            continue
        place = (*(row[name] for name in CELL), row["film"], row["metric"])
        row["low"], row["high"] = ends.get(place, (math.nan, math.nan))
        row |= printed.get(place, {})
        is_compared = row["metric"] == settings.metric and not row["film"]
        if is_compared and row["kind"].endswith("model"):
            row |= dict.fromkeys(("p", "comparisons", "tested"), math.nan)
            of_cell = [
                one for one in differences if names_of(one)[0] == names_of(row)[0]
            ]
            row |= judgement(row["baseline"], of_cell)
        rows.append(row)
    return table_of("results.csv", [*rows, *differences])


def table_of(name: str, rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """A table of a run, such as results.csv, of its rows; what a row does not have is missing."""
    kinds = RUN_TABLES[name]
    return table_of_columns([columns_of_rows(rows, kinds)], kinds)


def write_run_json(folder: Path, about: Mapping[str, Any]) -> None:
    whole = {**about, "sha256": document_sha256(about)}
    (folder / "run.json").write_text(json.dumps(whole), encoding="utf-8")


def write_model_json(folder: Path, document: dict[str, Any]) -> None:
    """Write model.json with a checksum of its content, computed as docs/files.md describes."""
    rest = {key: value for key, value in document.items() if key != "sha256"}
    text = json.dumps(rest, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    rest["sha256"] = hashlib.sha256(text.encode("utf-8")).hexdigest()
    (folder / "model.json").write_text(json.dumps(rest), "utf-8")
